"""Several layers in front of the first ReLU layer: windows are proved all the same.

The search folds a normalisation into the layer beside it; the checker keeps it as it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Problem, verify
from vhagar.network import read_onnx
from vhagar.relaxation.windows import bound as bound_module
from vhagar.search.bounders import first_order
from vhagar.search.branch_and_bound import FirstOrder
from vhagar.search.search import Search
from vhagar_check import Rejected, check, window_boxes, window_prover
from vhagar_check.container import scan
from vhagar_check.exact import Exact
from vhagar_check.first_stage import First
from vhagar_check.layers import Conv, Dense, Linear, Scale
from vhagar_check.window_boxes import LEAF

from ..marks import mostly_slow
from .graphs import Build
from .test_verdict import Blocks, forged
from .test_window_proofs import ONLY_WINDOWS, Parts, first_proof

IMAGE = ["batch", 1, 3, 4]
# What is written before the ReLU layer, and how the model takes its inputs.
Written = tuple[Callable[[Build], str], dict[str, Any]]


def _plain(b: Build) -> str:
    return b.conv("x", 6, 1, 2)


def _shifted(b: Build) -> str:
    return b.conv(b("Sub", "x", b.constant([0.25])), 6, 1, 2, pads=[1, 0, 0, 1])


def _scaled(b: Build) -> str:
    return b.conv(b("Div", "x", b.constant([0.3])), 6, 1, 2)


def _normalised_behind(b: Build) -> str:
    parts = [b.drawn(6), b.drawn(6), b.drawn(6), b.constant(0.1 + b.rng.random(6))]
    return b("BatchNormalization", b.conv("x", 6, 1, 2), *parts)


def _in_two_steps(b: Build) -> str:
    return b("Add", b.conv("x", 6, 1, 2), b.drawn(6, 1, 1))


def _two_branches(b: Build) -> str:
    return b("Add", b.conv("x", 6, 1, 2), b.conv("x", 6, 1, 2))


def _cancelling_branches(b: Build) -> str:
    """One entry of a filter cancels exactly, and all but one of another filter."""
    one, other = (b.rng.normal(size=(6, 1, 2, 2)).astype(np.float32) for _ in "xy")
    other[0, 0, 1, 0] = -one[0, 0, 1, 0]
    other[1, 0, :, 0], other[1, 0, 0, 1] = -one[1, 0, :, 0], -one[1, 0, 0, 1]
    parts = [b("Conv", "x", b.constant(own), b.drawn(6)) for own in (one, other)]
    return b("Add", *parts)


def _transposed(b: Build) -> str:
    return b.conv(b("Transpose", "x", perm=[0, 1, 3, 2]), 6, 1, 2)


WRITTEN: tuple[Written, ...] = (
    (_plain, {"mean": 0.5, "std": 0.25}),
    (_normalised_behind, {}),
    (_shifted, {}),
    (_scaled, {"mean": 0.3}),
    (_plain, {"std": 0.3}),
    (_in_two_steps, {}),
    (_two_branches, {}),
    (_cancelling_branches, {}),
    (_transposed, {}),
)


def _certified(
    written: Written,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str = "brightness([0,0.1])",
) -> tuple[Any, Path, Path]:
    """A result by windows alone, its certificate and the model."""
    monkeypatch.setattr(first_order, "_CPU_PLANS", ONLY_WINDOWS)
    monkeypatch.setattr(bound_module, "_MOST_BOXES", 400)
    monkeypatch.setattr(Search, "bound_roots", lambda *_: None)
    make, convention = written
    build = Build(IMAGE, seed=3)
    hidden = build("Flatten", build("Relu", make(build)))
    size = {"_shifted": 6 * 12}.get(make.__name__, 6 * 6)
    model, path = folder / "model.onnx", folder / "proof.cert"
    model.write_bytes(build.model(build.dense(hidden, 3, size)))
    problem = Problem(read_onnx(model, **convention), perturbation=text, source=1, targets=[0, 2])
    engine = FirstOrder(attack=False)
    result = verify(problem, engine=engine, workers=0, device="cpu", certificate=path)
    return result, path, model


@pytest.mark.parametrize(("make", "convention"), mostly_slow(WRITTEN, 3))
def test_normalisations_and_other_layers_in_front_are_proved(
    make: Callable[[Build], str],
    convention: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for text in ("brightness([0,0.1])", "brightness([-0.2,-0.1])"):
        result, path, model = _certified((make, convention), tmp_path, monkeypatch, text)
        assert "WNDW" in {block.tag for block in scan(path)}
        assert not result.notes
        verdict = check(path, model=model)
        assert (verdict.lower, verdict.upper) == (result.lower, result.upper)


def _random_layers(rng: np.random.Generator, scale: float) -> tuple[Linear, ...]:
    """A normalisation, a convolution of two channels, and a normalisation of its outputs."""
    shift, factor = rng.normal(size=(2, 24))
    weight, bias = scale * rng.normal(size=(2, 2, 2, 2)), rng.normal(size=2)
    conv = Conv(weight, bias, (2, 3, 4), (1, 1), (0, 0, 0, 0), (1, 1), 1)
    return (
        Scale(np.ones(24), np.ones(24), shift),
        Scale(factor, 0.1 + rng.random(24), np.zeros(24)),
        conv,
        Scale(rng.normal(size=12), 0.1 + rng.random(12), rng.normal(size=12)),
        Dense(rng.normal(size=(3, 12)), rng.normal(size=3)),
    )


def _exactly(layers: tuple[Linear, ...], x: list[Fraction]) -> list[Fraction]:
    value = Exact.of_fractions(x)
    for layer in layers:
        value = layer.exact_forward(value)
    return value.fractions()


@pytest.mark.parametrize("scale", [1.0, 1e150, 1e-150])
def test_weights_and_biases_are_those_of_all_layers(scale: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(5):
        layers = _random_layers(rng, scale)
        first = First(layers)
        weight, size, lost, ways = first.rows(np.eye(24))
        bias, bias_size = first.bias()
        at_zero = _exactly(layers, [Fraction(0)] * 24)
        share = Fraction(first.room)
        assert first.room < 1e-13
        for unit, value in enumerate(at_zero):
            assert abs(value - Fraction(bias[unit])) <= share * Fraction(bias_size[unit])
        for pixel in range(24):
            at_unit = _exactly(layers, [Fraction(int(k == pixel)) for k in range(24)])
            for unit, value in enumerate(at_unit):
                true = value - at_zero[unit]
                room = share * Fraction(size[pixel, unit]) + Fraction(lost[pixel, unit])
                assert abs(true - Fraction(weight[pixel, unit])) <= room
                assert ways[pixel, unit] or not true


def test_ways_through_products_that_underflow_are_seen() -> None:
    """And what they lost is: it may count for much behind them."""
    tiny, huge = np.full((1, 1), 2.0**-600), np.full((1, 1), 2.0**600)
    nothing = np.zeros(1)
    first = First(tuple(Dense(own, nothing) for own in (tiny, tiny, huge)))
    weight, size, lost, ways = first.rows(np.eye(1))
    assert weight == size == 0
    assert ways.all()
    assert Fraction(2) ** -600 <= Fraction(lost[0, 0])
    ones, biased = np.ones((1, 1)), np.full(1, 2.0**-600)
    bias, bias_size = First((Dense(ones, biased), *first.layers[1:])).bias()
    assert abs(Fraction(bias[0]) - Fraction(2) ** -600) <= Fraction(bias_size[0]) / 2**52


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        _, path, model = _certified(WRITTEN[0], tmp_path_factory.mktemp("first"), monkeypatch)
    return path, model


def _convention(key: str, value: list[float]) -> Callable[[Blocks, dict[str, Any]], None]:
    return lambda _, head: head["model"]["convention"].update({key: value})


@pytest.mark.parametrize("change", [_convention("std", [0.2]), _convention("std", [0.1])])
def test_another_normalisation_proves_less(change: Any, proved: tuple[Path, Path]) -> None:
    path, model = proved
    with pytest.raises(Rejected, match="is not proved"):
        check(forged(path, change), model=model)


def _full_tree(levels: int) -> list[int]:
    return [0] * (2**levels - 1) + [LEAF] * 2**levels


def _grown(parts: Parts) -> None:
    """All windows are followed through a tree of six levels."""
    parts[1][1][:] = -1e300
    parts[1][3] = np.array(_full_tree(6), np.uint8)
    parts[0]["boxes"] = [len(parts[1][3])]


def test_too_many_windows_in_a_tree_are_refused(
    proved: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few bytes would keep a machine busy, or fill its memory."""
    path, model = proved
    certificate = forged(path, first_proof(_grown))
    with pytest.raises(Rejected, match="is not proved"):
        check(certificate, model=model)
    monkeypatch.setattr(window_boxes, "_MOST_KEPT", 6 * (2**7 - 1) - 1)
    with pytest.raises(Rejected, match="too many windows"):
        check(certificate, model=model)
    monkeypatch.setattr(window_prover, "_MOST_BOXES", 2**7 - 2)
    with pytest.raises(Rejected, match="too large trees"):
        check(certificate, model=model)


def test_a_proof_that_is_stated_again_is_not_computed_again(
    proved: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, model = proved
    asked: list[int] = []
    upper = window_prover.WindowProver.upper

    def counted(self: window_prover.WindowProver, source: int, target: int) -> float:
        asked.append(target)
        return upper(self, source, target)

    def often(blocks: Blocks, _: dict[str, Any]) -> None:
        place = next(k for k, (tag, _) in enumerate(blocks) if tag == "PROF")
        blocks[place:place] = [blocks[place]] * 20

    monkeypatch.setattr(window_prover.WindowProver, "upper", counted)
    check(forged(path, often), model=model)
    assert sorted(asked) == [0, 2]
