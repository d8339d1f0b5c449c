"""Spectral proofs are derived again from the model, and forged ones are refused."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Network, Problem, Result, verify
from vhagar.network import Affine, Convolution, Relu, SparseAffine, onnx_bytes, read_onnx
from vhagar.search.bounders import first_order
from vhagar.search.branch_and_bound import FirstOrder
from vhagar.search.search import Search
from vhagar_check import Rejected, check, definite
from vhagar_check.container import scan, split_json, unpack

from ..marks import mostly_slow
from .test_verdict import CASES, SHAPE, Blocks, forged

ONLY_SPECTRAL = (first_order.Plan(None, None, None, spectral=12),)
Draw = Callable[..., np.ndarray]


def _plain(draw: Draw) -> list[Any]:
    conv = Convolution(draw(3, 1, 2, 2), draw(3) / 2, SHAPE)
    inner = Affine(draw(6, 27) / 4, draw(6) / 4, conv.out_shape, (6,))
    return [conv, Relu(conv.out_shape), inner, Relu((6,)), Affine(draw(3, 6), draw(3), (6,), (3,))]


def _always_on(draw: Draw) -> list[Any]:
    """Half of the units are always on, and one is always off."""
    shift = np.array([40.0, -40.0, 40.0, 0.0, 0.1, 40.0])
    first = Affine(draw(6, 16), shift, SHAPE, (6,))
    return [first, Relu((6,)), Affine(draw(3, 6), draw(3), (6,), (3,))]


def _two_in_a_row(draw: Draw) -> list[Any]:
    join = SparseAffine(draw(5, 16) * (abs(draw(5, 16)) < 0.8), draw(5), SHAPE, (5,))
    last = Affine(draw(3, 4), draw(3), (4,), (3,))
    return [join, Affine(draw(4, 5), draw(4), (5,), (4,)), Relu((4,)), Relu((4,)), last]


NETWORKS = {"plain": _plain, "always on": _always_on, "two in a row": _two_in_a_row}


def certified(
    folder: Path, text: str, clip: bool, monkeypatch: pytest.MonkeyPatch, name: str = "plain"
) -> tuple[Result, Path, Path]:
    """A certificate of spectral bounds alone, and the model."""
    monkeypatch.setattr(first_order, "_CPU_PLANS", ONLY_SPECTRAL)
    monkeypatch.setattr(Search, "bound_roots", lambda *_: None)
    rng = np.random.default_rng(8)
    draw = lambda *size: rng.normal(size=size).astype(np.float32).astype(float)  # noqa: E731
    model, path = folder / "model.onnx", folder / "proof.cert"
    model.write_bytes(onnx_bytes(Network(tuple(NETWORKS[name](draw)), SHAPE)))
    problem = Problem(read_onnx(model), perturbation=text, source=1, clip=clip)
    engine = FirstOrder(attack=False)
    result = verify(problem, engine=engine, workers=0, device="cpu", certificate=path)
    return result, path, model


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("text", "clip"), mostly_slow(CASES, 3))
def test_spectral_bounds_are_proved(
    name: str, text: str, clip: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, path, model = certified(tmp_path, text, clip, monkeypatch, name)
    assert math.isfinite(result.upper)
    verdict = check(path, model=model)
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)
    # Strong perturbations gain nothing on interval arithmetic.
    weak = text.startswith(("linf", "patch", "brightness", "contrast([0"))
    tags = {block.tag for block in scan(path)} - {"REGN"}  # the ceiling's
    assert not weak or tags == {"HEAD", "SPEC", "PROF"}


def test_large_gram_matrices_go_by_levels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result, path, model = certified(tmp_path, "linf(0.05)", True, monkeypatch)
    monkeypatch.setattr(definite, "_SMALL", 0)
    assert check(path, model=model).upper == result.upper


Spec = tuple[dict[str, Any], list[np.ndarray]]


def _parts(raw: bytes) -> Spec:
    """The description, and the numbers: statuses, squares, scalings of layers and of inputs."""
    about, data = split_json(raw)
    layers = sum(about["layers"])
    count = len(about["layers"])
    squares = 8 * (count * (count + 1) // 2)
    return about, [
        np.frombuffer(data[:layers], np.uint8).copy(),
        np.frombuffer(data[layers : layers + squares], "<f8").copy(),
        np.frombuffer(data[layers + squares :], "<f4").copy(),
    ]


def _whole(about: dict[str, Any], parts: list[np.ndarray]) -> bytes:
    text = json.dumps(about).encode()
    return struct.pack("<I", len(text)) + text + b"".join(part.tobytes() for part in parts)


def _status(value: int) -> Callable[[Spec], None]:
    def change(spec: Spec) -> None:
        # As many free slopes as before, so that the numbers still fit.
        free = np.flatnonzero(spec[1][0] == 2)
        spec[1][0][free[0]] = value
        spec[1][2] = np.delete(spec[1][2], 0)

    return change


def _number(part: int, place: int, value: float) -> Callable[[Spec], None]:
    def change(spec: Spec) -> None:
        spec[1][part][place] = value

    return change


def _scaled(part: int, factor: float) -> Callable[[Spec], None]:
    def change(spec: Spec) -> None:
        spec[1][part] *= factor

    return change


def _about(key: str, value: Any) -> Callable[[Spec], None]:
    def change(spec: Spec) -> None:
        spec[0][key] = value

    return change


def _fewer_pixels(spec: Spec) -> None:
    del spec[0]["pixels"][3]
    spec[1][2] = spec[1][2][:-2]


def _no_number(spec: Spec) -> None:
    spec[1][2] = spec[1][2][:-1]


def _one_number_more(spec: Spec) -> None:
    spec[1][2] = np.append(spec[1][2], np.float32(1.0))


FORGERIES: tuple[tuple[Callable[[Spec], None], str], ...] = (
    (_scaled(1, 0.98), "is not proved"),
    (_scaled(1, 0.0), "is not proved"),
    (_number(1, 0, math.nan), "norm"),
    (_number(1, 1, -1.0), "norm"),
    (_number(1, 2, math.inf), "norm"),
    (_number(2, 0, math.nan), "scaling"),
    (_number(2, 0, 0.0), "scaling"),
    (_number(2, 5, -1.0), "scaling"),
    (_number(2, -1, math.inf), "scaling"),
    (_number(2, 0, 1e30), "is not proved"),
    (_number(2, 0, 1e-30), "is not proved"),
    (_status(0), "slope"),
    (_status(1), "slope"),
    (_status(3), "status"),
    (_about("layers", [27, 5]), "layers"),
    (_about("layers", [28, 6]), "layers"),
    (_about("piece", 7), "piece"),
    (_about("piece", None), "piece"),
    (_about("span", [0.0, 0.5]), "split"),
    (_about("pixels", "all"), "pixels"),
    (_about("pixels", [0, 0, *range(2, 16)]), "pixels"),
    (_about("pixels", list(range(17))), "pixels"),
    (_about("middle", 1), "pixels"),
    (_fewer_pixels, "pixel that changes"),
    (_no_number, "too few"),
    (_one_number_more, "too many"),
)


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        folder = tmp_path_factory.mktemp("spectral")
        _, path, model = certified(folder, "linf(0.05)", True, monkeypatch)
    return path, model


@pytest.mark.parametrize(("forge", "why"), FORGERIES)
def test_forgeries_are_refused(
    forge: Callable[[Spec], None], why: str, proved: tuple[Path, Path]
) -> None:
    path, model = proved

    def change(blocks: Blocks, head: dict[str, Any]) -> None:
        for k, (tag, raw) in enumerate(blocks):
            if tag == "SPEC":
                spec = _parts(raw)
                forge(spec)
                blocks[k] = tag, _whole(*spec)

    with pytest.raises(Rejected, match=why):
        check(forged(path, change), model=model)


def _stronger(blocks: Blocks, head: dict[str, Any]) -> None:
    head["problem"]["perturbation"] = "linf(0.06)"


def _below(blocks: Blocks, head: dict[str, Any]) -> None:
    for claims in (head["claims"], *head["claims"]["targets"].values()):
        claims["upper"] *= 1 - 1e-4


def _other_source(blocks: Blocks, head: dict[str, Any]) -> None:
    head["problem"]["source"], head["problem"]["targets"] = 0, [1, 2]


def _other_kind(blocks: Blocks, head: dict[str, Any]) -> None:
    for k, (tag, raw) in enumerate(blocks):
        if tag == "PROF":
            blocks[k] = tag, raw[:-1] + bytes([0])


def _as_a_region(blocks: Blocks, head: dict[str, Any]) -> None:
    blocks[:] = [("REGN" if tag == "SPEC" else tag, raw) for tag, raw in blocks]


def _refined(blocks: Blocks, head: dict[str, Any]) -> None:
    place = [tag for tag, _ in blocks].index("SPEC")
    blocks.insert(place + 1, ("REFN", blocks[place][1]))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_stronger, "is not proved"),
        (_below, "is not proved"),
        (_other_source, "."),
        (_other_kind, "another kind"),
        (_as_a_region, "."),
        (_refined, "not in order"),
    ],
)
def test_a_proof_of_something_else_is_refused(
    change: Callable[..., None], why: str, proved: tuple[Path, Path]
) -> None:
    path, model = proved
    with pytest.raises(Rejected, match=why):
        check(forged(path, change), model=model)


def test_the_proof_is_read_as_it_was_written(proved: tuple[Path, Path]) -> None:
    path, _ = proved
    with path.open("rb") as file:
        specs = [unpack(file, block) for block in scan(path) if block.tag == "SPEC"]
    assert specs
    for raw in specs:
        assert split_json(_whole(*_parts(raw)))[1] == split_json(raw)[1]
