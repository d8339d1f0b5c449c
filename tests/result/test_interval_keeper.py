"""The keeper of the interval: what raises `lower`, what lowers `upper`, and what does neither."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Network, Problem, Progress, Status
from vhagar.errors import VhagarError
from vhagar.network import Affine, Relu
from vhagar.options import Options
from vhagar.result import BoundKind, Rejection, Run, Witness
from vhagar.result.interval_keeper import IntervalKeeper
from vhagar.result.witness import WitnessCheck

SHAPE = (1, 1, 2)
# Two pixels are the scores of their classes; class 2 wins where the second pixel is very bright.
NETWORK = Network(
    (Affine(np.array([[1.0, 0], [0, 1], [0, 2]]), np.array([0, 0, -0.7]), SHAPE, (3,)),), SHAPE
)
PROBLEM = Problem(NETWORK, perturbation="linf(0.25)", source=0)
TOGETHER = np.array([-0.25, 0.25])


def run_with(interval_bound: float = 1.0, **options: Any) -> Run:
    run = Run(PROBLEM, Options(**options))
    for target in PROBLEM.search_targets:
        run.interval.offer_upper(target, interval_bound, BoundKind.INTERVAL)
    return run


def offer(run: Run, confidence: float, target: int = 1) -> Witness | Rejection:
    x = np.array([0.5 + confidence / 2, 0.5 - confidence / 2])
    if target == 2:
        x = np.array([0.6 + confidence, 0.6])
    return run.interval.offer_witness(target, x, 0, TOGETHER)


def test_it_starts_with_what_is_trivial() -> None:
    run = Run(PROBLEM, Options())
    assert (run.interval.lower, run.interval.upper) == (0.0, math.inf)
    assert not run.interval.closed
    assert run.result().status is Status.EXHAUSTED


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_change_nothing(value: float) -> None:
    run = run_with()
    before = run.result().history[:-1]
    assert not run.interval.offer_upper(1, value, BoundKind.SOLVER)
    assert (run.interval.lower, run.interval.upper, run.interval.target_upper(1)) == (0.0, 1.0, 1.0)
    assert run.result().history[:-1] == before


def test_no_bound_is_stated_below_what_a_certificate_proves() -> None:
    run = run_with(certificate=Path("proof.cert"))
    run.interval.offer_upper(1, 0.25, BoundKind.TWIN)
    run.interval.offer_upper(2, 0.5, BoundKind.TWIN)
    stated, before = run.interval.target_upper(2), run.result().history[:-1]
    for none in (math.nan, math.inf, -math.inf, 0.125):
        run.interval.raise_upper(1, none)
        assert 0.25 <= run.interval.target_upper(1) < 0.2500001
        assert run.interval.computed_upper(1) == 0.25
    run.interval.raise_upper(1, 0.375)
    assert (run.interval.target_upper(1), run.interval.computed_upper(1)) == (0.375, 0.375)
    assert run.interval.kind(1) is BoundKind.TWIN
    assert run.interval.target_upper(2) == stated
    assert run.result().history[:-1] == before
    run.interval.raise_upper(1, 2.0)  # also beyond the bound of another kind
    assert run.interval.target_upper(1) == run.interval.upper == 2.0


def test_a_larger_bound_changes_nothing() -> None:
    run = run_with()
    assert run.interval.offer_upper(1, 0.75, BoundKind.SOLVER)
    assert not run.interval.offer_upper(1, 0.8, BoundKind.SOLVER)
    assert not run.interval.offer_upper(1, 0.75, BoundKind.SOLVER)
    assert run.interval.target_upper(1) == 0.75


def test_a_negative_bound_means_zero() -> None:
    run = run_with()
    for target in PROBLEM.search_targets:
        run.interval.offer_upper(target, -3.0, BoundKind.SOLVER)
    assert run.interval.upper == 0.0
    assert run.result().status is Status.ROBUST


def test_rejected_candidates_change_nothing() -> None:
    run = run_with()
    assert isinstance(offer(run, 0.9), Rejection)
    assert isinstance(offer(run, math.nan), Rejection)
    assert isinstance(run.interval.offer_witness(None, np.array([1.0, 0.0])), Rejection)
    assert isinstance(run.interval.offer_witness(9, np.array([1.0, 0.0])), Rejection)
    assert run.interval.lower == 0.0
    assert run.result().witness is None


def test_the_best_witness_stays() -> None:
    run = run_with()
    assert isinstance(offer(run, 0.25), Witness)
    assert isinstance(offer(run, 0.125), Witness)
    assert run.interval.lower == pytest.approx(0.25)
    assert run.interval.lower <= 0.25
    result = run.result()
    assert result.witness.confidence == result.lower == result.targets[1].lower
    assert result.targets[2].lower == 0.0


def test_each_target_has_its_interval_and_the_worst_counts() -> None:
    run = run_with()
    run.interval.offer_upper(1, 0.5, BoundKind.SOLVER)
    run.interval.offer_upper(2, 0.25, BoundKind.SOLVER)
    offer(run, 0.125, target=2)
    assert run.interval.upper == 0.5
    result = run.result()
    assert result.targets[1].upper == 0.5
    assert result.targets[2].upper == 0.25
    assert result.targets[1].lower == 0.0
    assert result.kind is BoundKind.SOLVER
    assert result.lower == result.targets[2].lower > 0


def test_a_witness_of_one_target_says_nothing_against_another_bound() -> None:
    run = run_with()
    run.interval.offer_upper(2, 0.1, BoundKind.SOLVER)
    offer(run, 0.4, target=1)
    assert run.interval.target_upper(2) == 0.1
    assert run.interval.settled(2)
    assert not run.interval.settled(1)
    assert not run.result().notes


def test_a_bound_is_refuted_by_an_earlier_witness() -> None:
    run = run_with()
    offer(run, 0.4)
    assert not run.interval.offer_upper(1, 0.3, BoundKind.SOLVER)
    assert run.interval.target_upper(1) == 1.0
    (note,) = run.result().notes
    assert "0.3" in note
    assert "refuted by a witness" in note


def test_a_bound_is_refuted_by_a_later_witness() -> None:
    run = run_with()
    assert run.interval.offer_upper(1, 0.3, BoundKind.SOLVER)
    offer(run, 0.4)
    assert run.interval.target_upper(1) == 1.0
    assert run.interval.lower == pytest.approx(0.4)
    assert len(run.result().notes) == 1


def test_whoever_was_refuted_has_no_credit_left() -> None:
    run = run_with()
    offer(run, 0.2)
    run.interval.offer_upper(1, 0.1, BoundKind.SOLVER)
    # Not refuted, and yet not to be believed: the truth is 1/2.
    assert not run.interval.offer_upper(1, 0.201, BoundKind.SOLVER)
    assert run.interval.target_upper(1) == 1.0
    # What it says of another target was never refuted.
    assert run.interval.offer_upper(2, 0.7, BoundKind.SOLVER)


def test_a_contradiction_with_interval_arithmetic_is_a_bug() -> None:
    run = run_with(interval_bound=0.3)
    with pytest.raises(VhagarError, match="a bug in vhagar"):
        offer(run, 0.4)


def test_the_interval_only_shrinks() -> None:
    seen: list[Progress] = []
    run = Run(PROBLEM, Options(), seen.append)
    rng = np.random.default_rng(0)
    for target in PROBLEM.search_targets:
        run.interval.offer_upper(target, 1.0, BoundKind.INTERVAL)
    for _ in range(60):
        offer(run, float(rng.uniform(0, 0.6)))
        run.interval.offer_upper(1, float(rng.uniform(0.5, 1.2)), BoundKind.SOLVER)
        run.interval.offer_upper(2, float(rng.uniform(0.4, 1.2)), BoundKind.SOLVER)
    history = run.result().history
    assert len(history) > 4
    for moments in (history, seen):
        for earlier, later in itertools.pairwise(moments):
            assert earlier.seconds <= later.seconds
            assert earlier.lower <= later.lower <= 0.5 <= later.upper <= earlier.upper


def test_closed_by_the_relative_gap_or_as_negligible() -> None:
    run = run_with(relative_gap=0.1)
    offer(run, 0.4)
    run.interval.offer_upper(2, 0.0, BoundKind.SOLVER)
    run.interval.offer_upper(1, 0.45, BoundKind.SOLVER)
    assert not run.interval.closed
    run.interval.offer_upper(1, 0.44, BoundKind.SOLVER)
    assert run.interval.closed
    assert run.result(Status.TIMEOUT).status is Status.CLOSED
    # What rounding leaves of 0, although the first bound was no better.
    rounded = run_with(interval_bound=1e-13)
    assert rounded.interval.closed
    assert not run_with(interval_bound=1e-10).interval.closed
    nearly_robust = run_with()
    for target in PROBLEM.search_targets:
        nearly_robust.interval.offer_upper(target, 1e-7, BoundKind.SOLVER)
    assert nearly_robust.interval.closed
    assert nearly_robust.result().status is Status.CLOSED  # 0 is not proved


def test_phases_add_up_and_notes_are_said_once() -> None:
    run = run_with()
    with run.phase("search"):
        run.note("mind this")
        with run.phase("polish"):
            assert run.phase_name == "polish"
        assert run.phase_name == "search"
    run.note("mind this")
    result = run.result(Status.TIMEOUT)
    assert result.notes == ("mind this",)
    assert result.timings.keys() == {"search", "polish"}
    assert result.status is Status.TIMEOUT


def test_a_phase_within_another_counts_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_with()
    clock = iter([0.0, 1.0, 4.0, 10.0])
    with monkeypatch.context() as context:
        context.setattr("vhagar.result.run.time.monotonic", lambda: next(clock))
        with run.phase("search"), run.phase("prepare"):
            pass
    assert run.result().timings == {"prepare": 3.0, "search": 7.0}


def test_with_a_certificate_bounds_leave_room_for_its_checker() -> None:
    run = run_with(1.0, certificate=Path("some"))
    assert run.interval.target_upper(1) == pytest.approx(1 + 2e-9, abs=1e-11)
    run.interval.offer_upper(1, 0.5, BoundKind.TWIN)
    assert run.interval.target_upper(1) == pytest.approx(0.5 + 1.5e-9, abs=1e-11)
    assert run.interval.target_upper(1) > 0.5
    run.interval.offer_upper(1, 0.0, BoundKind.TWIN)
    assert run.interval.target_upper(1) == 0.0  # nothing was rounded


def test_the_room_keeps_no_interval_open() -> None:
    """A search whose own bounds are closed is closed with the room, too."""
    closed = []
    for certificate in (None, Path("some")):
        run = run_with(1000.0, certificate=certificate)
        assert isinstance(offer(run, 0.25), Witness)
        bound = run.interval.lower / (1 - run.options.relative_gap)
        for target in PROBLEM.search_targets:
            run.interval.offer_upper(target, bound, BoundKind.TWIN)
        closed.append(run.interval.closed)
    assert closed == [True, True]


TWIN, SOLVER = BoundKind.TWIN, BoundKind.SOLVER


def scaled(size: float) -> Problem:
    """Scores of at most `size`; those of the input's other classes are smaller."""
    weight = np.array([[size / 1.3, 0], [0, 1e-3 * size]])
    network = Network((Affine(weight, np.array([0.3 * size / 1.3, 0.0]), SHAPE, (2,)),), SHAPE)
    return Problem(network, perturbation="linf(0.25)", source=0, targets=1)


def keeper_with(first: float, problem: Problem = PROBLEM, **options: Any) -> IntervalKeeper:
    """A keeper without a gap that counts as closed, whose targets have their first bound."""
    keeper = IntervalKeeper(problem, **{"relative_gap": 0.0, **options})
    for target in problem.search_targets:
        keeper.offer_upper(target, first, TWIN)
    return keeper


@pytest.mark.parametrize(("share", "closed"), [(0.9e-6, True), (1.1e-6, False)])
def test_what_is_negligible_is_measured_by_the_first_bound(share: float, closed: bool) -> None:
    keeper = keeper_with(512.0)
    for target in PROBLEM.search_targets:
        assert keeper.offer_upper(target, 512.0 * share, TWIN)
    assert keeper.initial_upper == 512.0
    assert keeper.closed is closed


@pytest.mark.parametrize("size", [1.0, 64.0])
@pytest.mark.parametrize(("share", "closed"), [(0.9e-12, True), (1.1e-12, False)])
def test_what_rounding_leaves_is_measured_by_the_largest_score(
    size: float, share: float, closed: bool
) -> None:
    assert keeper_with(size * share, scaled(size)).closed is closed


def test_what_rounding_leaves_is_not_measured_by_hidden_neurons() -> None:
    first = Affine(1e6 * np.eye(2), np.zeros(2), SHAPE, (2,))
    last = Affine(1e-6 * np.eye(2), np.zeros(2), (2,), (2,))
    network = Network((first, Relu((2,)), last), SHAPE)
    problem = Problem(network, perturbation="linf(0.25)", source=0, targets=1)
    assert not keeper_with(1.5e-12, problem).closed


def test_scores_beyond_all_numbers_make_nothing_negligible() -> None:
    weight = np.array([[1.7e308, 1.7e308], [0.0, 1.0]])
    network = Network((Affine(weight, np.zeros(2), SHAPE, (2,)),), SHAPE)
    problem = Problem(network, perturbation="linf(0.25)", source=0, targets=1)
    assert not keeper_with(1e-13, problem).closed


def test_a_gap_of_exactly_what_is_allowed_is_closed() -> None:
    assert keeper_with(2.0, relative_gap=1.0).closed
    assert not keeper_with(2.0, relative_gap=0.99).closed


def test_a_target_is_open_before_there_is_an_interval() -> None:
    keeper = IntervalKeeper(PROBLEM, 1e-3)
    assert keeper.offer_upper(1, 0.5, TWIN)
    assert keeper.history == ()
    assert keeper.initial_upper == math.inf
    assert not keeper.settled(1)
    assert not keeper.settled(2)


@pytest.mark.parametrize("size", [1.3, 1e4])
def test_the_room_of_a_bound_is_what_it_says(size: float) -> None:
    keeper = keeper_with(2.0, scaled(size), certified=True)
    room = 1e-9 * (2.0 + 2.0) + 1e-12 * size
    assert keeper.computed_upper(1) == 2.0
    assert keeper.target_upper(1) - 2.0 == pytest.approx(room, rel=1e-6)
    first = keeper.target_upper(1)
    assert keeper.offer_upper(1, 2e-6, SOLVER)
    room = 1e-9 * (2e-6 + first) + 1e-12 * size
    assert keeper.target_upper(1) - 2e-6 == pytest.approx(room, rel=1e-6)
    assert keeper.computed_upper(1) == 2e-6
    # Beyond what is negligible by the room alone.
    assert keeper.target_upper(1) > 1e-6 * first + 0.9 * room
    assert keeper.closed


def test_the_worst_target_decides_and_the_best_witness_counts() -> None:
    run = run_with()
    assert isinstance(offer(run, 0.25, target=1), Witness)
    assert isinstance(offer(run, 0.125, target=2), Witness)
    assert run.interval.lower == run.interval.target_lower(1) > run.interval.target_lower(2) > 0
    run.interval.offer_upper(1, 0.5, TWIN)
    assert run.interval.deciding == 2
    run.interval.offer_upper(2, 0.375, TWIN)
    assert run.interval.deciding == 1


def test_a_witness_that_is_no_better_does_not_replace_the_first() -> None:
    run = run_with()
    first, second = offer(run, 0.25), offer(run, 0.25)
    assert isinstance(second, Witness)
    assert run.interval.witness(1) is first


def test_a_bound_that_a_witness_attains_stands() -> None:
    x = np.array([0.625, 0.375])
    witness = WitnessCheck(PROBLEM)(1, x, 0, TOGETHER)
    assert isinstance(witness, Witness)
    keeper = keeper_with(1.0)
    assert keeper.offer_upper(1, witness.confidence, TWIN)
    assert isinstance(keeper.offer_witness(1, x, 0, TOGETHER), Witness)
    assert keeper.target_lower(1) == keeper.target_upper(1) == witness.confidence


def test_every_improvement_is_told_and_written_down_once() -> None:
    told: list[int] = []
    keeper = keeper_with(1.0, on_change=lambda: told.append(1))
    keeper.offer_upper(1, 0.75, TWIN)  # the other target decides
    keeper.offer_upper(2, 0.75, TWIN)
    keeper.offer_upper(1, 0.5, TWIN)
    keeper.offer_witness(1, np.array([0.625, 0.375]), 0, TOGETHER)
    assert [(m.lower > 0, m.upper) for m in keeper.history] == [
        (False, 1.0),
        (False, 0.75),
        (True, 0.75),
    ]
    assert len(told) == len(keeper.history)


def test_a_refuted_bound_is_gone_as_it_was_computed_too() -> None:
    keeper = keeper_with(1.0)
    keeper.offer_upper(1, 0.125, SOLVER)
    assert keeper.computed_upper(1) == 0.125
    keeper.offer_witness(1, np.array([0.625, 0.375]), 0, TOGETHER)
    assert keeper.computed_upper(1) == keeper.target_upper(1) == 1.0
    assert keeper.computed_upper(2) == 1.0
