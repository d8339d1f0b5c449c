"""What a region's model tells the search: whether the target counts, and what a split gains."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from vhagar import Problem
from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.lp.decisions import PIXELS, Decision
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.solver.lp_answer import LpStatus

EXAMPLES = Path(__file__).parents[3] / "examples"


def model_of(network: str, perturbation: str, lazily: bool) -> RegionModel:
    problem = Problem(EXAMPLES / f"{network}.onnx", perturbation=perturbation, source=2, targets=3)
    return RegionModel(problem, quick_bounds(problem.network, problem.pieces[0]), 3, lazily)


@pytest.mark.parametrize("lazily", [False, True])
def test_costs_slightly_off_do_not_hide_that_the_target_is_ignored(lazily: bool) -> None:
    """They leave tiny multipliers where the exact ones are 0."""
    strong = model_of("mnist_conv1", "translation(3,3)", lazily)
    duals = strong.evaluate((), math.inf).answer.duals
    assert strong.formula.ignores_target(duals)
    weak = model_of("mnist_3x10", "occlusion(1,1,2)", lazily)
    duals = weak.evaluate((), math.inf).answer.duals
    assert duals is not None
    assert not weak.formula.ignores_target(duals)


@pytest.mark.parametrize("perturbation", ["contrast([1,1.5])", "brightness([0,0.1])"])
def test_narrower_spans_gain_only_where_sides_of_the_clip_are_decided(perturbation: str) -> None:
    model = model_of("mnist_3x10", perturbation, lazily=True)
    answer = model.evaluate((), math.inf).answer
    cost = model.cost_of_span((), answer.duals)
    assert cost is not None
    assert abs(cost) < 1e-6
    moved = tuple(Decision(PIXELS, k, 0, False) for k in range(784))
    answer = model.evaluate(moved, math.inf).answer
    cost = model.cost_of_span(moved, answer.duals)
    assert cost is not None
    assert cost > 0.1
    assert np.isfinite(cost)


def test_costs_are_corrected_also_where_a_smaller_bound_is_known() -> None:
    """Else the LPs of the children would lose as much, and no decision would seem to gain."""
    models = [model_of("mnist_3x10", "occlusion(1,1,2)", lazily=False) for _ in range(3)]
    first = models[0].evaluate((), math.inf)
    assert models[1].simplex.emphasise(1e4)
    models[1].simplex.correct_costs()
    optimum = models[1].evaluate((), math.inf).upper
    lost = first.upper - optimum
    assert lost > 0
    assert first.answer.primal is not None
    known = float(first.answer.primal[models[0].model.delta]) + lost / 1000
    found = models[2].evaluate((), known, enough=known - lost)
    assert found.upper == known
    assert found.proved - optimum < lost / 10


@pytest.mark.parametrize("slightly_off", [1e-5, -1e-5])
def test_costs_slightly_off_do_not_decide_when_an_lp_stops(
    monkeypatch: pytest.MonkeyPatch, slightly_off: float
) -> None:
    """They shift the solver's objective, up or down, by more than what there is to gain."""
    monkeypatch.setattr("vhagar.solver.simplex._SLIGHTLY_OFF", slightly_off)
    model = model_of("mnist_3x10", "occlusion(14,14,5)", lazily=True)
    root, basis = model.evaluate((), math.inf), model.simplex.basis()
    decisions = (Decision(1, 9, 0, False),)
    full = model.evaluate(decisions, math.inf, 10_000, basis)
    gain = root.proved - full.proved
    assert gain > 0.1
    # What is enough lies below the optimum, or above it.
    tried = model.evaluate(decisions, math.inf, 10_000, basis, full.proved - 0.3 * gain)
    assert tried.answer.status is LpStatus.OPTIMAL
    assert tried.proved == pytest.approx(full.proved, abs=0.1 * gain)
    assert tried.answer.primal is not None
    confidence = float(tried.answer.primal[model.model.delta])
    assert tried.answer.objective == pytest.approx(confidence, rel=1e-9)
    model.evaluate((), math.inf, basis=basis)
    stopped = model.evaluate(decisions, math.inf, 10_000, basis, full.proved + 0.5 * gain)
    assert stopped.answer.status is LpStatus.ENOUGH
    assert stopped.answer.iterations < full.answer.iterations
