"""From a search to its certificate to the verdict, and what must be refused."""

from __future__ import annotations

import io
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Network, Problem, Result, verify
from vhagar.network import Affine, Convolution, Relu, onnx_bytes, read_onnx
from vhagar.result.certificate import NODE, Container
from vhagar.search.branch_and_bound import Bab
from vhagar_check import Rejected, Verdict, check
from vhagar_check.cli import main
from vhagar_check.container import scan, unpack
from vhagar_check.crops import SeenPiece
from vhagar_check.formula import Bounds
from vhagar_check.proofs import Prover

from ..marks import mostly_slow

SHAPE = (1, 4, 4)
CASES = (
    ("linf(0.1)", True),
    ("patch([0,0.5],[1,2],2,2)", True),
    ("occlusion([1,2],2,[2,3])", True),
    ("translation([0,1],-1)", True),
    ("rotation(30)", True),
    ("rotation([5,9])", True),
    ("brightness([-0.1,0.2])", False),
    ("brightness([0.1,0.2])", True),
    ("contrast([0.8,1.25])", False),
    ("contrast([1.1,1.5])", True),
)


def network(seed: int = 3) -> Network:
    rng = np.random.default_rng(seed)
    draw = lambda *size: rng.normal(size=size).astype(np.float32).astype(float)  # noqa: E731
    conv = Convolution(draw(2, 1, 2, 2), draw(2) / 2, SHAPE)
    layers: list[Any] = [conv, Relu(conv.out_shape)]
    for into, out in itertools.pairwise([18, 5, 3]):
        shape = conv.out_shape if into == 18 else (into,)
        layers += [Affine(draw(out, into) / 2, draw(out) / 2, shape, (out,)), Relu((out,))]
    return Network(tuple(layers[:-1]), SHAPE)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    path.write_bytes(onnx_bytes(network()))
    return path


def certified(
    model: Path, folder: Path, perturbation: str | None, clip: bool = True, **settings: Any
) -> tuple[Result, Path]:
    path = folder / "proof.cert"
    options = {"engine": Bab(attack=False), "workers": 1, "relative_gap": 0.2, "timeout": 4}
    problem = Problem(read_onnx(model), perturbation=perturbation, source=0, clip=clip)
    return verify(problem, **{**options, **settings}, certificate=path), path


@pytest.fixture(scope="module")
def proven(model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """A certificate to be read, and the result that it proves."""
    return certified(model, tmp_path_factory.mktemp("proven"), "linf(0.1)")


@pytest.mark.parametrize(("perturbation", "clip"), mostly_slow(CASES, 4))
def test_what_is_found_is_proved(
    model: Path, tmp_path: Path, perturbation: str, clip: bool
) -> None:
    result, path = certified(model, tmp_path, perturbation, clip)
    verdict = check(path, model=model)
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)
    assert verdict.perturbation == perturbation
    assert set(verdict.uppers) == {1, 2}
    assert math.isfinite(verdict.upper)


def test_the_largest_confidence(model: Path, tmp_path: Path) -> None:
    result, path = certified(model, tmp_path, None)
    verdict = check(path, model=model)
    assert 0 < verdict.lower <= verdict.upper == result.upper
    assert "has a confidence in class 0" in _printed(path, model)


def test_a_class_that_never_wins_has_no_input(tmp_path: Path) -> None:
    """A lower bound of 0 has no witness, so the words state none."""
    weight, bias = np.eye(2), np.array([0.0, 2.0])
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx_bytes(Network((Affine(weight, bias, (2,), (2,)),), (2,))))
    _, proof = certified(path, tmp_path, None)
    assert check(proof, model=path).upper == 0
    words = _printed(proof, path)
    assert "No input has a confidence in class 0 above 0" in words
    assert "One input" not in words


@pytest.mark.parametrize(
    ("perturbation", "clip", "words"),
    [
        ("linf(0.1)", True, "linf(0.1) (clipped to the input range)"),
        ("linf(0.1)", False, "linf(0.1) (never beyond the input range)"),
        ("occlusion(1,1,2)", False, "occlusion(1,1,2) (never beyond the input range)"),
        ("brightness([0.1,0.2])", True, "brightness([0.1,0.2]) (clipped to the input range)"),
        ("brightness([0.1,0.2])", False, "brightness([0.1,0.2]) (not clipped to the input range)"),
    ],
)
def test_what_happens_at_the_ends_of_the_range_is_said(
    perturbation: str, clip: bool, words: str, model: Path, tmp_path: Path
) -> None:
    """Pixels that linf moves stay in the range, clipped or not: no words promise more."""
    _, path = certified(model, tmp_path, perturbation, clip, timeout=0.2)
    assert words in " ".join(_printed(path, model).split())


def test_a_search_that_was_cut_short_has_a_proof(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "proof.cert"
    problem = Problem(read_onnx(model), perturbation="linf(0.2)", source=0)
    found = verify(problem, workers=1, certificate=path, timeout=0.3)
    verdict = check(path, model=model)
    assert verdict.upper == found.upper


@pytest.mark.subprocess
def test_a_reader_who_stops_listening_changes_nothing(
    model: Path, proven: tuple[Result, Path]
) -> None:
    _, path = proven
    command = [sys.executable, "-m", "vhagar_check", str(path), "--model", str(model)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        complaints = process.stderr.read()
    assert (process.returncode, complaints) == (0, b"")


@pytest.mark.slow
@pytest.mark.subprocess
def test_several_processes_come_to_the_same_verdict(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, path = certified(model, tmp_path, "contrast([0.8,1.25])", False, relative_gap=0.01)
    alone = check(path, model=model)
    monkeypatch.setattr("vhagar_check.evaluation._SMALL", 0)
    assert check(path, model=model, workers=2) == alone


def _printed(path: Path, model: Path) -> str:
    import contextlib

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main([str(path), "--model", str(model), "--workers", "1"]) == 0
    return out.getvalue()


def test_the_verdict_in_words(model: Path, proven: tuple[Result, Path]) -> None:
    result, path = proven
    words = " ".join(_printed(path, model).split())
    assert f"with a confidence above {result.upper!r} stays out of each of these classes" in words
    assert "under linf(0.1)" in words
    shape = "x".join(map(str, read_onnx(model).input_shape))
    assert f"images of {shape} pixels (channels, rows, columns), each from 0.0 to 1.0" in words
    assert "statements about real numbers" in words


def test_refusals_go_to_standard_error(
    model: Path,
    proven: tuple[Result, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "cut.cert"
    path.write_bytes(proven[1].read_bytes()[:-1])
    assert main([str(path), "--model", str(model)]) == 1
    assert main([str(tmp_path / "none"), "--model", str(model)]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("REFUSED: ") == 2


Blocks = list[tuple[str, bytes]]
Change = Callable[[Blocks, dict[str, Any]], None]


def forged(path: Path, change: Change) -> Path:
    """The certificate with changed blocks or header, and its digest put right."""
    with path.open("rb") as file:
        blocks = [(block.tag, unpack(file, block)) for block in scan(path)]
    head = json.loads(blocks[0][1])
    change(blocks, head)
    other = path.with_suffix(".forged")
    with other.open("wb") as file:
        container = Container(file)
        for tag, raw in blocks:
            container.block(
                tag.encode().ljust(4), json.dumps(head).encode() if tag == "HEAD" else raw
            )
        container.end()
    return other


@pytest.fixture(scope="module")
def honest(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """By signs alone: a bound by slopes may hold for every range of inputs, a forged one too."""
    folder, engine = tmp_path_factory.mktemp("honest"), Bab(attack=False, slopes=False)
    options = {"engine": engine, "relative_gap": 0.1, "timeout": 60}
    _, path = certified(model, folder, "linf(0.1)", **options)
    with path.open("rb") as file:
        blocks = {block.tag: unpack(file, block) for block in scan(path)}
    assert len(blocks["TREE"]) > 10 * NODE.size, "the tests need a tree"
    return path


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_a_refinement_by_no_numbers_is_refused(model: Path, honest: Path, number: float) -> None:
    """The multipliers of refined layers come last in a region's block."""

    def change(blocks: list[tuple[str, bytes]], head: dict[str, Any]) -> None:
        k = next(k for k, (tag, _) in enumerate(blocks) if tag == "REGN")
        raw = blocks[k][1]
        about = json.loads(raw[4 : 4 + int.from_bytes(raw[:4], "little")])
        assert about["refined"]
        blocks[k] = "REGN", raw[:-4] + np.float32(number).tobytes()

    with pytest.raises(Rejected, match="not finite"):
        check(forged(honest, change), model=model)


def test_a_refusal_does_nothing_to_the_terminal(
    model: Path, honest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name in the certificate could otherwise erase the word and put another in its place."""

    def change(blocks: Blocks, head: dict[str, Any]) -> None:
        head["model"] = {"name": "\x1b[2K\rPROVED\n\u202e\x9b", "sha256": "0"}

    assert main([str(forged(honest, change)), "--model", str(model)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("REFUSED: ")
    assert said.endswith("\n")
    assert said[:-1].isprintable()
    assert r"\x1b[2K\rPROVED\n\u202e\x9b" in said


def verdict_on(path: Path, model: Path, change: Change) -> Verdict:
    return check(forged(path, change), model=model)


def test_forging_nothing_changes_nothing(honest: Path, model: Path) -> None:
    assert verdict_on(honest, model, lambda blocks, head: None) == check(honest, model=model)


def _lower_claim(blocks: Blocks, head: dict[str, Any]) -> None:
    worst = max(head["claims"]["targets"].values(), key=lambda claim: claim["upper"])
    worst["upper"] *= 0.98
    head["claims"]["upper"] = max(c["upper"] for c in head["claims"]["targets"].values())


def _raise_lower(blocks: Blocks, head: dict[str, Any]) -> None:
    best = max(head["claims"]["targets"].values(), key=lambda claim: claim["lower"])
    best["lower"] += 1e-9
    head["claims"]["lower"] = best["lower"]


def _overall_below(blocks: Blocks, head: dict[str, Any]) -> None:
    head["claims"]["upper"] = math.nextafter(head["claims"]["upper"], 0.0)


def _no_witness(blocks: Blocks, head: dict[str, Any]) -> None:
    head["witnesses"] = []


def _witness_moved(blocks: Blocks, head: dict[str, Any]) -> None:
    for witness in head["witnesses"]:
        witness["x"] = [1.0 - value for value in witness["x"]]


def _witness_outside(blocks: Blocks, head: dict[str, Any]) -> None:
    for witness in head["witnesses"]:
        witness["x"][0] = 1.5


def _witness_still(blocks: Blocks, head: dict[str, Any]) -> None:
    for witness in head["witnesses"]:
        witness["parameters"] = [0.0] * len(witness["parameters"])


def _stronger(blocks: Blocks, head: dict[str, Any]) -> None:
    head["problem"]["perturbation"] = "linf(0.2)"


def _wider(blocks: Blocks, head: dict[str, Any]) -> None:
    head["problem"]["input_range"] = [0.0, 1.5]


def _other_source(blocks: Blocks, head: dict[str, Any]) -> None:
    head["problem"]["source"] = 1


def _fewer_targets(blocks: Blocks, head: dict[str, Any]) -> None:
    head["problem"]["targets"] = [1]


def _without_proofs(blocks: Blocks, head: dict[str, Any]) -> None:
    blocks[:] = [block for block in blocks if block[0] != "PROF"]


def _tree_renamed(blocks: Blocks, head: dict[str, Any]) -> None:
    head["trees"][0]["target"] = head["trees"][1]["target"]


def _tree_gone(blocks: Blocks, head: dict[str, Any]) -> None:
    blocks[:] = [block for block in blocks if block[0] not in ("TREE", "PROF", "REGN")]
    head["nodes"] = len(head["trees"])


def _records(blocks: Blocks) -> tuple[int, list[list[Any]]]:
    place = [tag for tag, _ in blocks].index("TREE")
    return place, [list(fields) for fields in NODE.iter_unpack(blocks[place][1])]


def _edited(edit: Callable[[list[list[Any]]], None]) -> Change:
    def change(blocks: Blocks, head: dict[str, Any]) -> None:
        place, records = _records(blocks)
        edit(records)
        raw = b"".join(NODE.pack(*fields) for fields in records)
        blocks[place] = ("TREE", raw)
        head["nodes"] = len(head["trees"]) + len(records)

    return change


def _one_sided(records: list[list[Any]]) -> None:
    records[1][3] = 0  # both children are the negative one


def _different_places(records: list[list[Any]]) -> None:
    records[1][6] += 1


def _single_child(records: list[list[Any]]) -> None:
    del records[-1]


def _own_parent(records: list[list[Any]]) -> None:
    records[0][0] = records[1][0] = 1000


def _no_such_neuron(records: list[list[Any]]) -> None:
    records[0][6] = records[1][6] = 10**6


def _no_such_layer(records: list[list[Any]]) -> None:
    records[0][5] = records[1][5] = 7


def _second_pair(records: list[list[Any]]) -> None:
    records[2][0] = records[3][0] = records[0][0]


def _all_flipped(records: list[list[Any]]) -> None:
    for fields in records:
        fields[2] ^= 1  # the other copy


FORGERIES: tuple[tuple[Change, str], ...] = (
    (_lower_claim, "is not proved"),
    (_raise_lower, "less confident"),
    (_overall_below, "overall claim"),
    (_no_witness, "does not have one witness"),
    (_witness_moved, "witness"),
    (_witness_outside, "input range"),
    (_witness_still, "not classified as the target"),
    (_stronger, "is not proved"),
    (_wider, "is not proved"),
    (_other_source, "classes"),
    (_fewer_targets, "every target"),
    (_without_proofs, "is not proved"),
    (_tree_renamed, "same target"),
    (_tree_gone, "is not proved"),
    (_edited(_one_sided), "two sides"),
    (_edited(_different_places), "two sides"),
    (_edited(_single_child), "single child"),
    (_edited(_own_parent), "before its parent"),
    (_edited(_no_such_neuron), "neuron"),
    (_edited(_no_such_layer), "layer"),
    (_edited(_second_pair), "more than two"),
    (_edited(_all_flipped), "is not proved"),
)


@pytest.mark.parametrize(("change", "words"), FORGERIES)
def test_forgeries_are_refused(honest: Path, model: Path, change: Change, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        verdict_on(honest, model, change)


def _numbers_changed(edit: Callable[[np.ndarray], None]) -> Change:
    """Change the multipliers of all proofs in place; claims stay."""

    def change(blocks: Blocks, head: dict[str, Any]) -> None:
        for k, (tag, raw) in enumerate(blocks):
            if tag != "PROF":
                continue
            start = 4 + int.from_bytes(raw[:4], "little")
            count = json.loads(raw[4:start])["count"]
            numbers = np.frombuffer(raw[start + 5 * count :], "<f8").copy()
            edit(numbers)
            blocks[k] = (tag, raw[: start + 5 * count] + numbers.tobytes())

    return change


@pytest.mark.parametrize("factor", [0.0, -1.0, 1e3, 1e200, math.nan, math.inf])
def test_damaged_multipliers_prove_less_or_nothing(
    honest: Path, model: Path, factor: float
) -> None:
    def edit(numbers: np.ndarray) -> None:
        numbers[::3] *= factor

    with np.errstate(all="ignore"), pytest.raises(Rejected):
        verdict_on(honest, model, _numbers_changed(edit))


def test_another_model_is_refused(honest: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.onnx"
    other.write_bytes(onnx_bytes(network(seed=4)))
    with pytest.raises(Rejected, match="another model"):
        check(honest, model=other)

    def nameless(blocks: Blocks, head: dict[str, Any]) -> None:
        head["model"]["sha256"] = None

    with pytest.raises(Rejected):
        verdict_on(honest, other, nameless)


def doubt_floats(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Widen the rounding errors until no proof holds in floats; the list grows with exact ones."""
    exact: list[int] = []
    original, plain = Prover._exact, Bounds.upper
    monkeypatch.setattr(
        Prover, "_exact", lambda self, *rest: exact.append(1) or original(self, *rest)
    )

    def doubtful(self: Any, stage: int, *rest: Any) -> tuple[np.ndarray, np.ndarray]:
        value, width = plain(self, stage, *rest)
        if stage < len(self.network.stages) - 1 or isinstance(self.piece, SeenPiece):
            return value, width  # bounds of neurons
        room = 1e-3 * (1 + abs(value))
        return value + room, width + 2 * room

    monkeypatch.setattr(Bounds, "upper", doubtful)
    return exact


def test_inconclusive_proofs_are_decided_exactly(
    honest: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With rounding errors a million times as large nothing is proved in floats alone."""
    whole = check(honest, model=model)
    exact = doubt_floats(monkeypatch)
    assert check(honest, model=model) == whole
    assert exact
