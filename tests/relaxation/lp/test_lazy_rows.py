"""An LP without rows gives bounds that hold, and with the rows back the same as ever."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from vhagar import Network, Problem, Status, verify
from vhagar.network import Affine, Relu
from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.lp import lazy_rows, lp_tightening
from vhagar.relaxation.lp.decisions import Decision
from vhagar.relaxation.lp.region_model import Evaluation, RegionModel
from vhagar.search.branch_and_bound import Bab
from vhagar.search.region_cache import RegionState

from ...oracle.cases import Case
from ...oracle.exact import exact_optimum, overall
from ...oracle.test_engines import problem_of, require_tight, truth_of
from ...pooled import pooled_problem
from ...search.nodes import agreeing, every_kind, everything, exactly


@pytest.fixture
def every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of small layers."""
    monkeypatch.setattr(lazy_rows, "_FEWEST", 1)


def contexts(seed: int) -> tuple[RegionModel, RegionModel]:
    problem = pooled_problem(seed)
    bounds = quick_bounds(problem.network, problem.pieces[0])
    lazy = RegionModel(problem, bounds, 1, lazily=True)
    lazy.simplex.correct_costs()  # so that nothing but rows makes a difference
    return lazy, RegionModel(problem, bounds, 1)


@pytest.mark.usefixtures("every_row")
@every_kind
def test_bounds_hold_without_rows(kind: str) -> None:
    rng = np.random.default_rng([51, len(kind)])
    for found in everything(kind):
        full = found.region_model
        region_model = RegionModel(full.problem, full.bounds, full.target, lazily=True)
        for share in (0.0, 0.3, 1.0):
            upper = region_model.evaluate(agreeing(found, rng, share), math.inf).upper
            assert upper == math.inf or exactly(upper) >= found.attacked.confidence


@pytest.mark.usefixtures("every_row")
@pytest.mark.parametrize("seed", range(4))
def test_all_rows_back_give_the_full_bound(seed: int) -> None:
    lazy, full = contexts(seed)
    assert lazy.lazy_rows
    expected = full.evaluate((), math.inf)
    found = lazy.evaluate((), math.inf)
    assert found.upper >= (1 - 1e-5) * expected.upper
    while lazy.restore_rows(found.answer):
        found = lazy.evaluate((), math.inf)
    assert found.upper == pytest.approx(expected.upper, rel=1e-5)
    assert found.answer.duals is not None
    left_out = lazy.lazy_rows.rows
    assert len(left_out)  # most of them were never missed
    assert not found.answer.duals[left_out].any()


@pytest.mark.usefixtures("every_row")
def test_a_decided_neuron_has_its_row() -> None:
    lazy, full = contexts(0)
    assert lazy.lazy_rows
    layer, neuron = min(lazy.lazy_rows.places)
    for positive in (False, True):
        decision = Decision(layer, neuron, 0, positive)
        found = lazy.evaluate((decision,), math.inf)
        assert (layer, neuron) not in lazy.lazy_rows.places
        while lazy.restore_rows(found.answer):
            found = lazy.evaluate((decision,), math.inf)
        expected = full.evaluate((decision,), math.inf).upper
        assert found.upper == pytest.approx(expected, rel=1e-5)


@pytest.mark.usefixtures("every_row")
def test_an_old_basis_still_serves_with_more_rows() -> None:
    lazy, full = contexts(1)
    assert lazy.lazy_rows
    lazy.evaluate((), math.inf)
    old = lazy.simplex.basis()
    lazy.lazy_rows.restore_places(lazy.lazy_rows.places)
    found = lazy.evaluate((), math.inf, basis=old)
    assert found.upper == pytest.approx(full.evaluate((), math.inf).upper, rel=1e-5)


@pytest.mark.usefixtures("every_row")
def test_nothing_is_decided_about_neurons_without_rows() -> None:
    problem = pooled_problem(2)
    state = RegionState(problem, quick_bounds(problem.network, problem.pieces[0]), 1)
    found = state.region_model.evaluate((), math.inf)
    assert state.region_model.lazy_rows
    candidates = {candidate.place[:2] for candidate in state.candidates(found.answer)}
    assert candidates
    assert not candidates & state.region_model.lazy_rows.places


@pytest.mark.usefixtures("every_row")
@pytest.mark.parametrize("branched", [False, True])
@pytest.mark.parametrize("number", [4, 5, 12, 13, 20, 21])
def test_the_search_ends_at_the_optimum(
    number: int, branched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lp_tightening, "_LARGEST_SHARE", math.inf)  # every layer by LP, too
    problem = Case(number, branched).problem()
    options = {"engine": Bab(attack=False), "relative_gap": 1e-3, "workers": 0}
    result = verify(problem, timeout=60, **options)
    truth = overall(exact_optimum(problem))
    assert Fraction(result.lower) <= truth.high
    assert truth.low <= Fraction(result.upper)
    case = Case(number, branched)
    require_tight(case, problem_of(case), truth_of(case), result)


def test_a_neuron_inside_its_triangle_is_not_settled() -> None:
    """Its row is missing, and nothing else is left to decide: the row must come back."""
    count = 40  # neurons that are the same in both copies; only the first of them matters
    first = np.zeros((count + 3, 3))
    first[:count, 0] = 2.0
    first[count:] = np.eye(3)
    bias = np.concatenate([np.full(count, -1.0), np.ones(3)])
    last = np.zeros((6, count + 3))
    last[1, [0, -1]], last[2, [0, -1]] = [-1, -1], [1, -1]
    last[3, [-3, -1]], last[4, [-3, -1]], last[5, [-2, -1]] = [-1, -1], [1, -1], [-4, -5]
    shift = np.array([0, -0.2, -0.8, -0.1, -0.9, 2.0]) - last[:, count:].sum(axis=1)
    network = Network(
        (
            Affine(first, bias, (1, 1, 3), (count + 3,)),
            Relu((count + 3,)),
            Affine(last, shift, (count + 3,), (6,)),
        ),
        (1, 1, 3),
    )
    problem = Problem(network, perturbation="occlusion(1,2,1)", source=0, targets=5)
    result = verify(problem, timeout=60, engine=Bab(attack=False), workers=0)
    assert result.status is Status.CLOSED
    assert result.upper == pytest.approx(11 / 15, rel=0.01)


def test_a_basis_with_too_many_rows_is_passed_over() -> None:
    lazy, full = contexts(1)
    expected = full.evaluate((), math.inf).upper
    found = lazy.evaluate((), math.inf, basis=full.simplex.basis())
    assert found.complete
    assert found.upper >= (1 - 1e-5) * expected


@pytest.mark.usefixtures("every_row")
def test_a_bound_keeps_its_proof_when_rows_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more rows the bound may be the same as before, and then nothing new proves it."""
    judge, seen = RegionModel._judge, []

    def no_better(self: RegionModel, answer: Any, allowed: Any, known: float) -> Evaluation:
        found = judge(self, answer, allowed, known)
        seen.append(found)
        return found if len(seen) == 1 else Evaluation(known, found.answer)

    monkeypatch.setattr(RegionModel, "_judge", no_better)
    for seed in range(20):
        seen.clear()
        found = contexts(seed)[0].evaluate((), math.inf)
        if len(seen) > 1:
            break
    assert len(seen) > 1  # rows did come back
    assert seen[0].proof is not None
    assert (found.upper, found.proof) == (seen[0].upper, seen[0].proof)
