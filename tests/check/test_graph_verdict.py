"""From searches over networks that branch to verdicts on their certificates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Bab, Problem, Result, verify
from vhagar.network import read_onnx
from vhagar.relaxation.layerwise import quick_bounds as engine_bounds
from vhagar.result.certificate import NODE, Container
from vhagar_check import Rejected, check
from vhagar_check.container import scan, unpack
from vhagar_check.model import read_model
from vhagar_check.neuron_bounds import quick_bounds
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain

from ..marks import mostly_slow
from .graphs import SMALL_GRAPHS
from .test_verdict import doubt_floats

CASES = (
    ("linf(0.1)", True),
    ("occlusion([1,2],2,2)", True),
    ("translation(1,-1)", True),
    ("rotation(30)", True),
    ("brightness([-0.1,0.2])", False),
    ("contrast([1.1,1.5])", True),
)
# For each of them a seed by which the class has inputs that can be attacked.
SEEDS = {
    "small_residual": 0,
    "small_pool": 1,
    "small_concat": 0,
    "small_leaky": 1,
    "small_clip": 0,
}


def written(folder: Path, name: str) -> Path:
    path = folder / f"{name}.onnx"
    path.write_bytes(SMALL_GRAPHS[name](SEEDS[name]))
    return path


def certified(model: Path, text: str | None, clip: bool = True, **more: Any) -> tuple[Result, Path]:
    path = model.with_suffix(".cert")
    settings = {"engine": Bab(attack=False), "workers": 1, "relative_gap": 0.05, **more}
    problem = Problem(read_onnx(model), perturbation=text, source=0, clip=clip)
    return verify(problem, certificate=path, **settings, timeout=4), path


@pytest.mark.parametrize(("text", "clip"), mostly_slow(CASES, 4))
@pytest.mark.parametrize("name", SMALL_GRAPHS)
def test_what_is_found_is_proved(name: str, text: str, clip: bool, tmp_path: Path) -> None:
    model = written(tmp_path, name)
    result, path = certified(model, text, clip)
    verdict = check(path, model=model)
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)
    assert text != "linf(0.1)" or verdict.lower > 0


@pytest.mark.parametrize("name", SMALL_GRAPHS)
def test_the_largest_confidence_is_proved(name: str, tmp_path: Path) -> None:
    model = written(tmp_path, name)
    result, path = certified(model, None)
    verdict = check(path, model=model)
    assert verdict.upper == result.upper


@pytest.mark.parametrize("text", ["linf(0.1)", "occlusion(2,2,2)", "contrast([1.1,1.5])"])
@pytest.mark.parametrize("name", SMALL_GRAPHS)
def test_both_sides_bound_neurons_alike(name: str, text: str, tmp_path: Path) -> None:
    """How bounds are computed is part of the format: a certificate relies on the checker's."""
    model = written(tmp_path, name)
    network, ours = read_onnx(model), read_model(model.read_bytes())
    (piece,) = Problem(network, perturbation=text, source=0).pieces
    (own,) = pieces(text, Domain(ours.input_shape, 0.0, 1.0), True)
    theirs, found = engine_bounds(network, piece), quick_bounds(ours, own)
    for h, g in zip(theirs.hexagons, found.hexagons, strict=True):
        relus = slice(None) if g.linear is None else ~g.linear
        for one, other in (
            (h.lower, g.low),
            (h.upper, g.high),
            (h.lower_p, g.low_p),
            (h.upper_p, g.high_p),
            (h.gap_lower, g.gap_low),
            (h.gap_upper, g.gap_high),
        ):
            assert other[relus] == pytest.approx(one[relus], abs=1e-9)
        assert (g.on == h.on).all()
        assert (g.off == h.off).all()


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    model = written(tmp_path_factory.mktemp("honest"), "small_clip")
    _, path = certified(model, "linf(0.1)", relative_gap=0.01)
    return model, path


def forged(path: Path, blocks: list[tuple[str, bytes]]) -> Path:
    other = path.with_suffix(".forged")
    with other.open("wb") as file:
        container = Container(file)
        for tag, raw in blocks:
            container.block(tag.encode().ljust(4), raw)
        container.end()
    return other


def blocks_of(path: Path) -> list[tuple[str, bytes]]:
    with path.open("rb") as file:
        return [(block.tag, unpack(file, block)) for block in scan(path)]


def test_a_decision_about_a_linear_unit_is_refused(honest: tuple[Path, Path]) -> None:
    model, path = honest
    network = read_model(model.read_bytes())
    layer, linear = next((k, units) for k, units in enumerate(network.linear) if units is not None)
    blocks = blocks_of(path)
    place = [tag for tag, _ in blocks].index("TREE")
    records = [list(fields) for fields in NODE.iter_unpack(blocks[place][1])]
    for fields in records[:2]:
        fields[5:7] = layer, int(np.flatnonzero(linear)[0])
    blocks[place] = ("TREE", b"".join(NODE.pack(*fields) for fields in records))
    with pytest.raises(Rejected, match="linear unit"):
        check(forged(path, blocks), model=model)


def test_a_linear_unit_called_off_is_refused(honest: tuple[Path, Path]) -> None:
    model, path = honest
    network = read_model(model.read_bytes())
    sizes = network.relu_sizes_and_classes
    layer, linear = next((k, units) for k, units in enumerate(network.linear) if units is not None)
    blocks = blocks_of(path)
    for k, (tag, raw) in enumerate(blocks):
        if tag == "REGN":
            start = 4 + int.from_bytes(raw[:4], "little")
            changed = bytearray(raw)
            changed[start + sum(sizes[:layer]) + int(np.flatnonzero(linear)[0])] = 0
            blocks[k] = (tag, bytes(changed))
    with pytest.raises(Rejected, match="linear unit"):
        check(forged(path, blocks), model=model)


@pytest.mark.parametrize("factor", [0.98, 0.5])
def test_a_lower_claim_is_refused(honest: tuple[Path, Path], factor: float) -> None:
    model, path = honest
    blocks = blocks_of(path)
    head = json.loads(blocks[0][1])
    for claim in head["claims"]["targets"].values():
        claim["upper"] *= factor
    head["claims"]["upper"] *= factor
    blocks[0] = ("HEAD", json.dumps(head).encode())
    with pytest.raises(Rejected):
        check(forged(path, blocks), model=model)


def test_damaged_multipliers_prove_less_or_nothing(honest: tuple[Path, Path]) -> None:
    model, path = honest
    blocks = blocks_of(path)
    for k, (tag, raw) in enumerate(blocks):
        if tag == "PROF":
            start = 4 + int.from_bytes(raw[:4], "little")
            start += 5 * json.loads(raw[4:start])["count"]
            numbers = np.frombuffer(raw[start:], "<f8").copy()
            numbers[::3] *= 1e3
            blocks[k] = (tag, raw[:start] + numbers.tobytes())
    with pytest.raises(Rejected, match="not proved"):
        check(forged(path, blocks), model=model)


def test_the_same_graph_with_another_slope_is_refused(tmp_path: Path) -> None:
    model = written(tmp_path, "small_leaky")
    _, path = certified(model, "linf(0.1)")
    blocks = blocks_of(path)
    head = json.loads(blocks[0][1])
    head["model"]["sha256"] = None
    blocks[0] = ("HEAD", json.dumps(head).encode())
    other = tmp_path / "other.onnx"
    other.write_bytes(SMALL_GRAPHS["small_leaky"](SEEDS["small_leaky"] + 7))
    with pytest.raises(Rejected):
        check(forged(path, blocks), model=other)


def test_inconclusive_proofs_are_decided_exactly(
    honest: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Joins and linear units in rational arithmetic: floats alone prove nothing here."""
    model, path = honest
    whole = check(path, model=model)
    exact = doubt_floats(monkeypatch)
    assert check(path, model=model) == whole
    assert exact


@pytest.mark.subprocess
def test_several_processes_come_to_the_same_verdict(
    honest: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, path = honest
    alone = check(path, model=model)
    monkeypatch.setattr("vhagar_check.evaluation._SMALL", 0)
    assert check(path, model=model, workers=2) == alone
