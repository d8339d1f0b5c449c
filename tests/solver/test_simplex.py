"""A simplex that stops early, or that is stuck, is only quicker: bounds still hold."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vhagar.relaxation.lp.region_model import Evaluation, RegionModel
from vhagar.solver import simplex
from vhagar.solver.lp_answer import LpStatus

from ..oracle.cases import KINDS
from ..search.nodes import Found, agreeing, every_kind, everything, exactly


@every_kind
def test_a_bound_that_is_enough_holds(kind: str) -> None:
    rng = np.random.default_rng([21, len(kind)])
    for found in everything(kind):
        region_model, confidence = found.region_model, found.attacked.confidence
        decisions = agreeing(found, rng, 0.3)
        best = region_model.evaluate(decisions, math.inf)
        if not best.complete:
            continue
        for enough in (0.5 * best.upper, best.upper, 1.5 * best.upper, 10 * best.upper):
            region_model.simplex.forget()
            early = region_model.evaluate(decisions, math.inf, enough=enough)
            assert exactly(early.upper) >= confidence
            assert early.complete or early.upper <= enough
            assert early.upper <= max(enough, best.upper + 1e-6 * (1 + abs(best.upper)))


@every_kind
def test_an_lp_that_pauses_goes_on(kind: str) -> None:
    rng = np.random.default_rng([27, len(kind)])
    for found in everything(kind):
        region_model, confidence = found.region_model, found.attacked.confidence
        decisions = agreeing(found, rng, 0.3)
        best = region_model.evaluate(decisions, math.inf)
        if not best.complete:
            continue
        for pause in (0.5 * best.upper, 1.5 * best.upper, 10 * best.upper):
            region_model.simplex.forget()
            early = region_model.evaluate(decisions, math.inf, pause=pause)
            assert exactly(early.upper) >= confidence
            assert early.complete or early.upper <= pause
            basis = region_model.simplex.basis()
            later = region_model.evaluate(decisions, early.upper, basis=basis)
            assert exactly(later.upper) >= confidence
            assert later.upper == pytest.approx(best.upper, rel=1e-6, abs=1e-6)


def test_some_stop_early() -> None:
    """Otherwise the test above would show nothing."""
    early: list[Evaluation] = []
    for kind in KINDS:
        for found in everything(kind):
            best = found.region_model.evaluate((), math.inf)
            if best.complete:
                found.region_model.simplex.forget()
                early.append(found.region_model.evaluate((), math.inf, enough=10 * best.upper))
    stopped = [one for one in early if one.answer.status is LpStatus.ENOUGH]
    assert stopped
    assert all(one.proof is not None for one in stopped)


@every_kind
def test_what_is_stuck_goes_on_with_perturbed_costs(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng([22, len(kind)])
    for found in everything(kind):
        region_model = found.region_model
        root = region_model.evaluate((), math.inf)
        if not root.complete:
            continue
        decisions, basis = agreeing(found, rng, 0.5), region_model.simplex.basis()
        expected = region_model.evaluate(decisions, math.inf, basis=basis)
        with monkeypatch.context() as patch:
            patch.setattr(simplex, "_STUCK", 0)  # after a single iteration, or none
            reached = region_model.evaluate(decisions, math.inf, basis=basis)
        size = 1e-6 * (1 + abs(expected.upper)) if math.isfinite(expected.upper) else 0.0
        assert reached.upper == pytest.approx(expected.upper, abs=size)


def in_search(found: Found, slightly_off: bool = True) -> RegionModel:
    """The region as the search has it; its LP has all rows."""
    region = RegionModel(found.problem, found.region_model.bounds, found.target, lazily=True)
    if region.lazy_rows is not None:
        region.lazy_rows.restore_places(region.lazy_rows.places)
    assert slightly_off or region.simplex.correct_costs()
    return region


@every_kind
def test_bounds_hold_with_costs_that_are_slightly_off(kind: str) -> None:
    rng = np.random.default_rng([23, len(kind)])
    for found in everything(kind):
        region, confidence = in_search(found), found.attacked.confidence
        for share in (0.0, 0.3, 1.0):
            decisions = agreeing(found, rng, share)
            evaluation = region.evaluate(decisions, math.inf)
            assert evaluation.upper == math.inf or exactly(evaluation.upper) >= confidence
            assert region.simplex.slightly_off  # without a gap there is nothing to lose


@every_kind
def test_costs_are_corrected_where_the_gap_is_small(kind: str) -> None:
    """The bound is then about the one that correct costs give from the beginning."""
    for found in everything(kind):
        correct = in_search(found, slightly_off=False)
        best = correct.evaluate((), math.inf)
        if not best.complete or best.upper <= 0:
            continue
        region = in_search(found)
        # What is known already is no better, and what would be enough is hardly any lower.
        reached = region.evaluate((), 1.001 * best.upper, enough=best.upper)
        a_part_of_the_gap = 1e-3 * best.upper / 20
        assert reached.upper <= best.upper + a_part_of_the_gap + 1e-9
        assert exactly(reached.upper) >= found.attacked.confidence
        assert region.simplex.correct_costs() or not region.simplex.slightly_off
        assert not region.simplex.correct_costs()


@every_kind
def test_bounds_hold_however_much_the_objective_is_emphasised(kind: str) -> None:
    """The same LP with larger costs has the same optimum, also from the basis before."""
    rng = np.random.default_rng([24, len(kind)])
    for found in everything(kind):
        region, confidence = in_search(found), found.attacked.confidence
        decisions = agreeing(found, rng, 0.3)
        before = region.evaluate(decisions, math.inf)
        for times in (3.0, 1000.0):
            assert region.simplex.emphasise(times)
            after = region.evaluate(decisions, math.inf)
            assert after.upper == math.inf or exactly(after.upper) >= confidence
            if before.complete:
                assert after.upper <= before.upper + 1e-6 * (1 + abs(before.upper))
                objective = after.answer.objective
                assert objective == pytest.approx(before.answer.objective, rel=1e-3, abs=1e-3)


def test_the_emphasis_has_an_end() -> None:
    found = next(iter(everything("occlusion")))
    simplex_ = in_search(found).simplex
    assert not simplex_.emphasise(1.0)
    assert simplex_.emphasise(1e30)
    assert not simplex_.emphasise(1e30)


def test_a_bound_of_zero_is_reached_in_a_model_of_large_numbers() -> None:
    """The solver's tolerance is one of scaled numbers: by itself it would leave much of the gap."""
    reached = []
    for found in everything("occlusion"):
        region = in_search(found)
        best = region.evaluate((), math.inf)
        if not best.complete or best.upper <= 0:
            continue
        optimum = best.answer.objective
        gap = 1e-7 * best.upper
        closer = region.evaluate((), best.upper, enough=best.upper - gap)
        assert exactly(closer.upper) >= found.attacked.confidence
        reached.append(closer.upper - optimum <= max(gap, 1e-9 * abs(optimum)))
    assert any(reached)
