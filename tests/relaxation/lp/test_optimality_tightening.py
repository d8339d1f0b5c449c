"""Tightened hexagons hold all pairs that they are about, and are smaller than those before."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from vhagar import Network, Problem
from vhagar.network import Affine, Relu
from vhagar.relaxation.layerwise import TwinBounds, quick_bounds
from vhagar.relaxation.lp.decisions import Decision
from vhagar.relaxation.lp.optimality_tightening import (
    _solve,
    important_sides,
    side_bounds,
    tightened,
)
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.relaxation.starts import hexagons_of, maxima_of

from ...marks import mostly_slow

SOURCE, TARGET = 0, 1
TEXTS = ["linf(0.4)", "brightness([0,0.6])", "occlusion(1,1,2)", "rotation(20)"]


def problem_of(seed: int, text: str) -> Problem:
    """A random problem with many attacked pairs, so that there is something to cut off."""
    problems = (_random(number, text) for number in itertools.count(seed, 100))
    return next(problem for problem in problems if len(pairs(problem, 4000)[2][0]) > 50)


def _random(seed: int, text: str) -> Problem:
    rng = np.random.default_rng(seed)
    layers: list[Affine | Relu] = []
    for into, out in ((6, 6), (6, 5), (5, 3)):
        weight = rng.normal(size=(out, into)) * np.sqrt(2 / into)
        shape = (1, 2, 3) if len(layers) == 0 else (into,)
        layers += [Affine(weight, 0.3 * rng.normal(size=out), shape, (out,)), Relu((out,))]
    network = Network(tuple(layers[:-1]), (1, 2, 3))
    return Problem(network, perturbation=text, source=SOURCE, targets=TARGET, clip=False)


def context_of(problem: Problem) -> RegionModel:
    return RegionModel(problem, quick_bounds(problem.network, problem.pieces[0]), TARGET)


def traced(network: Network, x: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """What enters each ReLU layer, and the scores."""
    entering, values = [], x
    for layer in network.layers:
        if isinstance(layer, Relu):
            entering.append(values)
        values = layer.forward(values)
    return entering, values


def pairs(problem: Problem, count: int = 40_000) -> tuple[list[np.ndarray], ...]:
    """Attacked pairs: pre-activations in both copies, layer by layer, and the confidences."""
    rng, piece = np.random.default_rng(1), problem.pieces[0]
    x = rng.choice([0.0, 1.0, 0.5], size=(count, 6)) * rng.uniform(0.5, 1, size=(count, 6))
    low, high = piece.parameter_bounds
    e = low + (high - low) * rng.choice([0.0, 1.0, 0.3], size=(count, len(low)))
    first, scores = traced(problem.network, x)
    second, image = traced(problem.network, np.asarray(piece.apply(x, e)))
    lead = scores[:, SOURCE] - np.delete(scores, SOURCE, axis=1).max(axis=1)
    attacked = image[:, TARGET] >= np.delete(image, TARGET, axis=1).max(axis=1)
    keep = attacked & (lead >= 0)
    return [s[keep] for s in first], [t[keep] for t in second], [lead[keep]]


def require_inside(bounds: TwinBounds, s: list[np.ndarray], t: list[np.ndarray]) -> None:
    for layer, hexagons in enumerate(bounds.hexagons):
        room = 1e-12 * (1 + hexagons.magnitude)
        gap = t[layer] - hexagons.ratio * s[layer]
        assert (s[layer] >= hexagons.lower - room).all()
        assert (s[layer] <= hexagons.upper + room).all()
        assert (t[layer] >= hexagons.lower_p - room).all()
        assert (t[layer] <= hexagons.upper_p + room).all()
        assert (gap >= hexagons.gap_lower - room).all()
        assert (gap <= hexagons.gap_upper + room).all()


@pytest.mark.parametrize(
    ("seed", "text"), mostly_slow([(k, text) for k in range(6) for text in TEXTS], 5)
)
def test_no_pair_that_counts_is_cut_off(seed: int, text: str) -> None:
    problem = problem_of(seed, text)
    s, t, (lead,) = pairs(problem)
    region_model = context_of(problem)
    decisions: tuple[Decision, ...] = ()
    level = float(np.quantile(lead, 0.5))
    for neuron in range(3):  # one tightening after the other, each below one decision more
        evaluation = region_model.evaluate(decisions, np.inf)
        if not evaluation.complete:  # nothing is left there
            assert decisions
            break
        bounds, _ = tightened(region_model, decisions, evaluation.answer, level)
        if bounds is None:
            assert decisions
            break
        counts = lead >= level
        for decision in decisions:
            copy = (s, t)[decision.copy][decision.layer][:, decision.neuron]
            counts &= (copy >= 0) == decision.positive
        require_inside(bounds, [part[counts] for part in s], [part[counts] for part in t])
        region_model = RegionModel(problem, bounds, TARGET)
        again = region_model.evaluate(decisions, np.inf)
        assert again.upper >= max(level, float(lead[counts].max(initial=0.0)))
        assert again.upper <= evaluation.upper + 1e-6
        decisions += (Decision(1, neuron, neuron % 2, neuron != 1),)


@pytest.mark.parametrize("seed", range(3))
def test_any_multipliers_prove_sides_that_hold(seed: int) -> None:
    problem, rng = problem_of(seed, "brightness([0,0.6])"), np.random.default_rng(seed)
    s, t, (lead,) = pairs(problem)
    region_model = context_of(problem)
    allowed = region_model.cuts.allowed(())
    assert allowed is not None
    level = float(np.quantile(lead, 0.3))
    counts = lead >= level
    places = [(layer, neuron, k) for layer in (0, 1) for neuron in range(5) for k in range(6)]
    rows = len(region_model.model.arrays.row_lower)
    for scale in (0.0, 0.1, 3.0):
        duals = scale * rng.normal(size=(len(places), rows))
        values = side_bounds(region_model, places, duals, level, allowed)
        ways = ((-1, 0), (1, 0), (0, -1), (0, 1), (1, -1), (-1, 1))
        for (layer, neuron, k), value in zip(places, values, strict=True):
            own = ways[k][0] * s[layer][counts, neuron] + ways[k][1] * t[layer][counts, neuron]
            assert value >= own.max(initial=-np.inf) - 1e-12 * (1 + abs(value))


def test_a_side_by_hand() -> None:
    """One neuron `s = x - 1/4`, scores `relu(s)` and `1/10`: a confidence of 1/2 takes `s >= 0.6`.

    The LP knows `relu(s) <= 3/4 (s + 1/4)`, and so `s >= 0.55`.
    """
    network = Network(
        (
            Affine(np.array([[1.0]]), np.array([-0.25]), (1, 1, 1), (1,)),
            Relu((1,)),
            Affine(np.array([[1.0], [0.0]]), np.array([0.0, 0.1]), (1,), (2,)),
        ),
        (1, 1, 1),
    )
    problem = Problem(network, perturbation="linf(1)", source=SOURCE, targets=TARGET)
    region_model = context_of(problem)
    region_model.evaluate((), np.inf)
    (duals,), _ = _solve(region_model, (), [(0, 0, 0)], 0.5)
    allowed = region_model.cuts.allowed(())
    assert duals is not None
    assert allowed is not None
    (value,) = side_bounds(region_model, [(0, 0, 0)], duals[None], 0.5, allowed)
    assert value >= -0.6
    assert value == pytest.approx(-0.55)


def test_a_node_is_bounded_by_the_level_at_least() -> None:
    problem = problem_of(0, "linf(0.4)")
    region_model = context_of(problem)
    evaluation = region_model.evaluate((), np.inf)
    bounds, iterations = tightened(region_model, (), evaluation.answer, 0.9 * evaluation.upper)
    assert bounds is not None
    assert iterations > 0
    assert bounds.level == 0.9 * evaluation.upper
    assert RegionModel(problem, bounds, TARGET).evaluate((), np.inf).upper >= bounds.level
    assert RegionModel(problem, bounds, TARGET).quick_upper() >= bounds.level
    # What was there before stays as it was.
    assert region_model.bounds.tightening is None


def test_important_sides_lower_the_bound_most() -> None:
    problem = problem_of(2, "brightness([0,0.6])")
    region_model = context_of(problem)
    evaluation = region_model.evaluate((), np.inf)
    places = important_sides(region_model, evaluation.answer)
    assert places
    uppers = []
    for layer, neuron, k in (places[0], places[-1]):
        bounds = region_model.bounds.copy()
        sides = maxima_of(bounds.hexagons[layer])
        pair = slice(k - k % 2, k - k % 2 + 2)
        sides[k, neuron] -= 0.05 * sides[pair, neuron].sum()
        known = bounds.hexagons[layer]
        bounds.replace(layer, hexagons_of(sides, known.ratio).meet(known).tightened())
        uppers.append(RegionModel(problem, bounds, TARGET).evaluate((), np.inf).upper)
    assert uppers[0] < evaluation.upper
    assert uppers[0] <= uppers[1] + 1e-9
