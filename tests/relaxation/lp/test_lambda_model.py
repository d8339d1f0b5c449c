"""The lambda-LP is a relaxation: it loses no attacked input, up to the solver's tolerances.

Soundness does not depend on it, but whether a search ends well does.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from vhagar import Network, Problem, Status, max_confidence
from vhagar.network import Affine, Relu
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.lp.decisions import Decision
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.search import engine_named
from vhagar.solver.lp_answer import LpStatus

from ...search.nodes import agreeing, every_kind, everything

TOLERANCE = 1e-5


@every_kind
def test_attacked_inputs_are_in_the_lp_of_their_nodes(kind: str) -> None:
    rng = np.random.default_rng([20, len(kind)])
    for found in everything(kind):
        confidence = float(found.attacked.confidence)
        size = float(max(abs(score) for score in found.attacked.first.scores))
        for share in (0.0, 0.5, 1.0):
            evaluation = found.region_model.evaluate(agreeing(found, rng, share), math.inf)
            assert evaluation.answer.status is LpStatus.OPTIMAL
            assert evaluation.answer.objective >= confidence - TOLERANCE * size


@every_kind
def test_the_formula_loses_nothing_against_the_lp(kind: str) -> None:
    """The tight side: from optimal duals the formula gives the LP's own bound."""
    for found in everything(kind):
        evaluation = found.region_model.evaluate((), math.inf)
        size = float(max(abs(score) for score in found.attacked.first.scores))
        assert evaluation.upper <= evaluation.answer.objective + TOLERANCE * size


def network_without_biases(seed: int, scale: float = 1.0) -> Network:
    """Some neurons have only negative weights: their largest pre-activation is 0, or 1e-16."""
    rng = np.random.default_rng([21, seed])
    layers: list[Affine | Relu] = []
    for into, out in ((4, 6), (6, 5), (5, 3)):
        weight = np.round(16 * rng.normal(size=(out, into))) / 16 * scale
        if out != 3:
            weight[: out // 2] = -abs(weight[: out // 2]) / 3
        weight = weight.astype(np.float32).astype(np.float64)
        layers += [Affine(weight, np.zeros(out), (into,), (out,)), Relu((out,))]
    return Network(tuple(layers[:-1]), (4,))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3])
def test_neurons_that_reach_zero_by_rounding_cut_nothing_off(seed: int, scale: float) -> None:
    network = network_without_biases(seed, scale)
    problem = Problem(network, perturbation=None, source=0)
    (piece,) = problem.pieces
    region_model = RegionModel(problem, quick_bounds(network, piece), None)
    (hexagons, *_) = region_model.bounds.hexagons
    assert (hexagons.upper[:3] >= 0).all()
    assert (hexagons.upper[:3] <= 1e-12 * scale).all()
    x = np.random.default_rng(seed).uniform(size=(200, 4))
    scores = network.forward(x)
    best = float((scores[:, 0] - scores[:, 1:].max(axis=1)).max())
    answer = region_model.evaluate((), math.inf).answer
    assert answer.status is LpStatus.OPTIMAL
    assert answer.objective >= best - TOLERANCE * abs(scores).max()


@pytest.mark.parametrize("seed", range(4))
def test_their_largest_confidence_is_what_the_other_engine_finds(seed: int) -> None:
    network = network_without_biases(seed)
    mine, other = (
        max_confidence(network, source=0, timeout=30, engine=engine_named(engine), workers=0)
        for engine in ("bab", "mip")
    )
    assert mine.status in (Status.CLOSED, Status.ROBUST)
    assert mine.lower <= other.upper
    assert other.lower <= mine.upper
    assert mine.upper <= other.lower + 2e-3 * max(other.upper, 1e-9)


@pytest.mark.parametrize("miss", [0.0, 1e-16, 1e-13, 1e-12, 4e-12, 1e-11])
@pytest.mark.parametrize("positive", [True, False])
def test_no_decision_cuts_off_a_corner_that_misses_an_axis_by_rounding(
    miss: float, positive: bool
) -> None:
    """One pixel is blackened: `s = 2.5 x`, `t = 0`, known only as `-miss <= t`, `-miss <= s`."""
    last = Affine(np.array([[1.0], [0.0]]), np.array([0.0, 0.5]), (1,), (2,))
    first = Affine(np.array([[2.5]]), np.zeros(1), (1, 1, 1), (1,))
    problem = Problem(
        Network((first, Relu((1,)), last), (1, 1, 1)),
        perturbation="occlusion(1,1,1)",
        source=0,
        targets=1,
    )
    bounds = quick_bounds(problem.network, problem.pieces[0])
    sides = np.array([-miss, 2.5 + miss, -miss, 2.5 + miss, -3.0, 3.0])
    bounds.replace(0, Hexagons(*sides[:, None]))
    region_model = RegionModel(problem, bounds, 1)
    evaluation = region_model.evaluate((Decision(0, 0, 1, positive),), math.inf)
    assert evaluation.answer.status is LpStatus.OPTIMAL
    assert evaluation.answer.objective == pytest.approx(2.0, abs=1e-6)
    assert evaluation.upper >= 2.0


def test_the_largest_confidence_is_inside_deltas_column() -> None:
    """It is twice the largest score; at an end of its column delta would have no multipliers."""
    weight = np.array([[1.0, 0.0], [-1.0, 0.0], [-1.0, 0.5]])
    network = Network((Affine(weight, np.zeros(3), (2,), (3,)),), (2,))
    problem = Problem(network, perturbation=None, source=0)
    region_model = RegionModel(problem, quick_bounds(network, problem.pieces[0]), None)
    found = region_model.evaluate((), math.inf)
    column = region_model.model.delta
    assert found.answer.objective == pytest.approx(2.0)
    assert region_model.model.arrays.column_upper[column] > 2.0
    assert region_model.model.arrays.column_lower[column] < -2.0
    assert 2.0 <= found.upper <= 2.0 + TOLERANCE
