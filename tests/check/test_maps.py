"""Maps recorded in certificates: from a search to the verdict, and what must be refused."""

from __future__ import annotations

import hashlib
import io
import json
import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Problem, UserPerturbation, compose, verify
from vhagar.network import onnx_bytes, read_onnx
from vhagar.perturbation import Brightness, Linf, Perturbation
from vhagar.perturbation import Domain as TheirDomain
from vhagar.result.certificate import Container
from vhagar.result.statements import maps_of
from vhagar_check import Rejected, check
from vhagar_check.cli import main
from vhagar_check.container import scan, split_json, unpack
from vhagar_check.exact import Exact
from vhagar_check.maps import read_maps
from vhagar_check.pieces import Domain

from ..marks import mostly_slow
from .test_verdict import SHAPE, network

Blocks = dict[str, list[tuple[str, bytes]]]

HALVES = np.stack([np.arange(16) % 2 == k for k in (0, 1)], axis=1).astype(float)


def tint() -> UserPerturbation:
    return UserPerturbation(directions=HALVES, ranges=[(0, 0.1), (-0.1, 0.05)], name="tint")


def mixture() -> UserPerturbation:
    """Nothing is round, and most of it leaves the range."""
    rng = np.random.default_rng(4)
    return UserPerturbation(
        matrix=rng.normal(size=(6, 16)) / 4,
        directions=rng.normal(size=(6, 3)),
        offset=rng.normal(size=6) / 3,
        ranges=[(-0.1, 0.1), (0.0, 0.3), (0.2, 0.2)],
        pixels=[0, 3, 5, 7, 11, 15],
        name="mixture",
    )


def blend() -> UserPerturbation:
    return UserPerturbation(matrix=0.75, directions=0.25 * HALVES, ranges=[(0, 1)] * 2)


CASES: dict[str, tuple[Perturbation | str, bool]] = {
    "tint": (tint(), False),
    "tint, clipped": (tint(), True),
    "mixture": (mixture(), False),
    "mixture, clipped": (mixture(), True),
    "blend": (blend(), True),
    "blend+linf": (compose(blend(), Linf(0.05)), True),
    "blend+brightness": (compose(blend(), Brightness((-0.1, 0.1))), True),
    "occlusion+linf": ("occlusion([1,2],2,2)+linf(0.05)", True),
    "translation+brightness": ("translation([0,1],1)+brightness([0,0.1])", True),
    "unclipped": ("translation(0,1)+brightness([-0.1,0.1])", False),
    "rotation+linf": ("rotation(30)+linf(0.05)", True),
    "rotation+brightness": ("rotation(30)+brightness([-0.1,0.1])", True),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    path.write_bytes(onnx_bytes(network()))
    return path


def certified(model: Path, path: Path, perturbation: Perturbation | str, clip: bool) -> Any:
    problem = Problem(read_onnx(model), perturbation=perturbation, source=0, clip=clip)
    options = {"relative_gap": 0.2, "certificate": path, "workers": 0}
    return problem, verify(problem, **options, timeout=6)


@pytest.fixture(scope="module")
def tinted(model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Problem, Path]:
    """A question about a clipped map, and its certificate."""
    path = tmp_path_factory.mktemp("tinted") / "proof.cert"
    problem, result = certified(model, path, tint(), True)
    assert result.upper > 0
    return problem, path


@pytest.mark.parametrize("name", mostly_slow(list(CASES), 4))
def test_what_is_found_is_proved(model: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "proof.cert"
    problem, result = certified(model, path, *CASES[name])
    verdict = check(path, model=model)
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)
    if problem.map_fingerprint is None:
        assert verdict.recorded is None
        assert verdict.perturbation == CASES[name][0]
    else:
        assert verdict.perturbation == f"affine({problem.map_fingerprint})"
        assert verdict.recorded is not None
        assert verdict.recorded.sha256 == problem.map_fingerprint
        assert verdict.recorded.name == str(problem.perturbation)


def test_the_verdict_says_that_the_map_is_the_certificates(
    model: Path, tinted: tuple[Problem, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    problem, path = tinted
    assert main([str(path), "--model", str(model), "--workers", "1"]) == 0
    told = capsys.readouterr().out
    assert "under the map recorded in the certificate (clipped" in told
    assert "calls 'tint'" in told
    assert problem.map_fingerprint in told


def test_a_map_that_leaves_the_range_by_next_to_nothing_is_said_not_to_be_clipped(
    model: Path, tmp_path: Path
) -> None:
    """A clip would be a ReLU for each pixel; the words say what was proved without it."""
    for factor, words in ((1.0, "range)"), (1 + 1e-10, "range where it leaves it by more than")):
        path = tmp_path / "proof.cert"
        certified(model, path, UserPerturbation(matrix=factor, name="louder"), True)
        assert f"certificate (clipped to the input {words}" in str(check(path, model=model))


@pytest.fixture(scope="module")
def blocks(tinted: tuple[Problem, Path]) -> Blocks:
    """The blocks of a certificate, by kind."""
    found: Blocks = {}
    path = tinted[1]
    with path.open("rb") as file:
        for block in scan(path):
            # A region's cuts and proofs follow it: their order counts.
            kind = "regions" if block.tag in ("REGN", "CUTS", "PROF") else block.tag
            found.setdefault(kind, []).append((block.tag, unpack(file, block)))
    return found


def sealed(path: Path, head: Any, maps: list[bytes], blocks: Blocks) -> Path:
    """A certificate with another header and other maps, and a digest that fits them."""
    file = io.BytesIO()
    container = Container(file)
    container.block(b"HEAD", json.dumps(head).encode())
    for raw in maps:
        container.block(b"MAPS", raw)
    for tag, raw in blocks.get("TREE", []) + blocks["regions"]:
        container.block(tag.encode(), raw)
    container.end()
    path.write_bytes(file.getvalue())
    return path


def forged(blocks: Blocks, path: Path, change: Callable[[Any, bytearray], None]) -> Path:
    """Another header or other numbers of the map, named by what they are now."""
    head, ((_, raw),) = json.loads(blocks["HEAD"][0][1]), blocks["MAPS"]
    about, numbers = split_json(raw)
    data = bytearray(numbers)
    change(head, data)
    if head["problem"]["perturbation"].startswith("affine("):
        head["problem"]["perturbation"] = f"affine({hashlib.sha256(data).hexdigest()})"
    text = json.dumps(about).encode()
    return sealed(path, head, [struct.pack("<I", len(text)) + text + data], blocks)


def float_at(place: int, value: float) -> Callable[[Any, bytearray], None]:
    def change(head: Any, data: bytearray) -> None:
        struct.pack_into("<d", data, place % len(data), value)

    return change


def word_at(place: int, value: int) -> Callable[[Any, bytearray], None]:
    def change(head: Any, data: bytearray) -> None:
        struct.pack_into("<I", data, place, value)

    return change


def unclipped(head: Any, data: bytearray) -> None:
    head["problem"]["clipped_pixels"] = None


def one_pixel_unclipped(head: Any, data: bytearray) -> None:
    head["problem"]["clipped_pixels"][1].pop()


def clipped_without_being_asked(head: Any, data: bytearray) -> None:
    head["problem"]["clip"] = False


def pixel_that_is_not(head: Any, data: bytearray) -> None:
    head["problem"]["clipped_pixels"][0][-1] = 16


def renamed(head: Any, data: bytearray) -> None:
    head["problem"]["perturbation"] = "linf(0.1)"


def longer(head: Any, data: bytearray) -> None:
    data += b"\0"


def shorter(head: Any, data: bytearray) -> None:
    del data[-8:]


# size, parameters, entries of A, entries of B; then A's 17 row starts, 16 columns, 16 weights.
_COLUMNS = 32 + 4 * 17
REFUSED: dict[str, tuple[Callable[[Any, bytearray], None], str]] = {
    "another size": (word_at(0, 15), "another size"),
    "far too many parameters": (word_at(12, 2**20), "too many"),
    "too many entries": (word_at(16, 2**20), "cut off"),
    "rows out of order": (word_at(36, 9), "not in order"),
    "a column that is not": (word_at(_COLUMNS, 16), "not in order"),
    "NaN": (float_at(_COLUMNS + 4 * 16, float("nan")), "NaN"),
    "infinity": (float_at(-8, float("inf")), "NaN"),
    "an empty range": (float_at(-8, -0.2), "empty range"),
    "a wider range": (float_at(-8, 0.6), "not (proved|clipped)"),
    "another weight": (float_at(_COLUMNS + 4 * 16, 0.0), "not proved|contradict|not classified"),
    "longer": (longer, "after the recorded maps"),
    "shorter": (shorter, "cut off"),
    "not clipped": (unclipped, "not clipped"),
    "one pixel not clipped": (one_pixel_unclipped, "not clipped"),
    "clipped without being asked": (clipped_without_being_asked, "without being asked"),
    "a pixel that is not": (pixel_that_is_not, "a pixel that there is not"),
    "another perturbation": (renamed, "does not name"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_map_is_refused(blocks: Blocks, model: Path, tmp_path: Path, name: str) -> None:
    change, words = REFUSED[name]
    path = forged(blocks, tmp_path / "forged.cert", change)
    with pytest.raises(Rejected, match=words):
        check(path, model=model)


def test_a_map_must_have_the_name_of_its_numbers(
    blocks: Blocks, model: Path, tmp_path: Path
) -> None:
    head, ((_, raw),) = json.loads(blocks["HEAD"][0][1]), blocks["MAPS"]
    same = forged(blocks, tmp_path / "same.cert", lambda head, data: None)
    check(same, model=model)
    for maps, words in (
        ([], "or none"),
        ([raw, raw], "not recorded once"),
        ([raw[:-8] + struct.pack("<d", 0.0625)], "not those that the perturbation names"),
    ):
        with pytest.raises(Rejected, match=words):
            check(sealed(tmp_path / "forged.cert", head, maps, blocks), model=model)


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-1.0, 2.5)])
@pytest.mark.parametrize("make", [tint, mixture, blend])
def test_supports_agree(make: Callable[[], UserPerturbation], ends: tuple[float, float]) -> None:
    problem = Problem(network(), perturbation=make(), source=0, clip=False, input_range=ends)
    raw = maps_of(problem)
    assert raw is not None
    (ours,) = read_maps(raw, Domain(SHAPE, *ends)).pieces
    (theirs,) = make().pieces(TheirDomain(SHAPE, *ends), False)
    rng = np.random.default_rng(7)
    a, b = rng.normal(size=(2, 20, 16)) * 10 ** rng.uniform(-4, 4, (2, 20, 1))
    a[:4], b[4:8] = 0.0, 0.0
    found = theirs.support(a, b)
    upper = ours.support(a, b)
    assert upper == pytest.approx(found.value, rel=1e-9, abs=1e-9)
    for k in range(20):
        exact = ours.exact_support(Exact.of(a[k]), Exact.of(b[k]))
        assert exact is not None
        assert exact <= Fraction(float(upper[k]))
        assert exact <= Fraction(float(found.value[k]))
        assert float(exact) == pytest.approx(upper[k], rel=1e-9, abs=1e-9)
    low, high = theirs.image_bounds()
    assert ours.image[0] == pytest.approx(low, abs=1e-11)
    assert ours.image[1] == pytest.approx(high, abs=1e-11)
    for mine, his in zip((ours.rises, ours.falls), theirs.changes(), strict=True):
        assert (mine == his).all()
    x = rng.uniform(*ends, 16)
    parameters = rng.uniform(*theirs.parameter_bounds)
    image = ours.exact_image(Exact.of(x).fractions(), parameters.tolist())
    assert image is not None
    assert [float(v) for v in image] == pytest.approx(
        theirs.apply(x[None], parameters[None])[0], abs=1e-12
    )
    inner, outer = ours.image_interval(x, parameters.tolist())
    for low_end, value, high_end in zip(inner, image, outer, strict=True):
        assert Fraction(float(low_end)) <= value <= Fraction(float(high_end))
    with pytest.raises(Rejected, match="outside its range"):
        ours.exact_image(Exact.of(x).fractions(), (theirs.parameter_bounds[1] + 1).tolist())
    with pytest.raises(Rejected, match="not one for each"):
        ours.exact_image(Exact.of(x).fractions(), [])
