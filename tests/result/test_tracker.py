"""The keeper of the interval: what raises `lower`, what lowers `upper`, and what does neither."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Network, Options, Problem, Progress, Status
from vhagar.errors import VhagarError
from vhagar.network import Affine
from vhagar.result import BoundKind, Rejection, Tracker, Witness

SHAPE = (1, 1, 2)
# Two pixels are the scores of their classes; class 2 wins where the second pixel is very bright.
NETWORK = Network(
    (Affine(np.array([[1.0, 0], [0, 1], [0, 2]]), np.array([0, 0, -0.7]), SHAPE, (3,)),), SHAPE
)
PROBLEM = Problem(NETWORK, "linf(0.25)", 0)
TOGETHER = np.array([-0.25, 0.25])


def tracker_with(interval_bound: float = 1.0, **options: Any) -> Tracker:
    tracker = Tracker(PROBLEM, Options(**options))
    for goal in PROBLEM.goals:
        tracker.offer_upper(goal, interval_bound, BoundKind.INTERVAL)
    return tracker


def offer(tracker: Tracker, confidence: float, goal: int = 1) -> Witness | Rejection:
    x = np.array([0.5 + confidence / 2, 0.5 - confidence / 2])
    if goal == 2:
        x = np.array([0.6 + confidence, 0.6])
    return tracker.offer_witness(goal, x, PROBLEM.pieces[0], TOGETHER)


def test_it_starts_with_what_is_trivial() -> None:
    tracker = Tracker(PROBLEM, Options())
    assert (tracker.lower, tracker.upper) == (0.0, math.inf)
    assert not tracker.closed
    assert tracker.result().status is Status.EXHAUSTED


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_change_nothing(value: float) -> None:
    tracker = tracker_with()
    before = tracker.result().history[:-1]
    assert not tracker.offer_upper(1, value, BoundKind.SOLVER)
    assert (tracker.lower, tracker.upper, tracker.goal_upper(1)) == (0.0, 1.0, 1.0)
    assert tracker.result().history[:-1] == before


def test_a_larger_bound_changes_nothing() -> None:
    tracker = tracker_with()
    assert tracker.offer_upper(1, 0.75, BoundKind.SOLVER)
    assert not tracker.offer_upper(1, 0.8, BoundKind.SOLVER)
    assert not tracker.offer_upper(1, 0.75, BoundKind.SOLVER)
    assert tracker.goal_upper(1) == 0.75


def test_a_negative_bound_means_zero() -> None:
    tracker = tracker_with()
    for goal in PROBLEM.goals:
        tracker.offer_upper(goal, -3.0, BoundKind.SOLVER)
    assert tracker.upper == 0.0
    assert tracker.result().status is Status.ROBUST


def test_rejected_candidates_change_nothing() -> None:
    tracker = tracker_with()
    assert isinstance(offer(tracker, 0.9), Rejection)
    assert isinstance(offer(tracker, math.nan), Rejection)
    assert isinstance(tracker.offer_witness(None, np.array([1.0, 0.0])), Rejection)
    assert isinstance(tracker.offer_witness(9, np.array([1.0, 0.0])), Rejection)
    assert tracker.lower == 0.0
    assert tracker.result().witness is None


def test_the_best_witness_stays() -> None:
    tracker = tracker_with()
    assert isinstance(offer(tracker, 0.25), Witness)
    assert isinstance(offer(tracker, 0.125), Witness)
    assert tracker.lower == pytest.approx(0.25)
    assert tracker.lower <= 0.25
    result = tracker.result()
    assert result.witness.confidence == result.lower == result.targets[1].lower
    assert result.targets[2].lower == 0.0


def test_each_target_has_its_interval_and_the_worst_counts() -> None:
    tracker = tracker_with()
    tracker.offer_upper(1, 0.5, BoundKind.SOLVER)
    tracker.offer_upper(2, 0.25, BoundKind.SOLVER)
    offer(tracker, 0.125, goal=2)
    assert tracker.upper == 0.5
    result = tracker.result()
    assert result.targets[1].upper == 0.5
    assert result.targets[2].upper == 0.25
    assert result.targets[1].lower == 0.0
    assert result.kind is BoundKind.SOLVER
    assert result.lower == result.targets[2].lower > 0


def test_a_witness_of_one_target_says_nothing_against_another_bound() -> None:
    tracker = tracker_with()
    tracker.offer_upper(2, 0.1, BoundKind.SOLVER)
    offer(tracker, 0.4, goal=1)
    assert tracker.goal_upper(2) == 0.1
    assert tracker.settled(2)
    assert not tracker.settled(1)
    assert not tracker.result().notes


def test_a_bound_is_refuted_by_an_earlier_witness() -> None:
    tracker = tracker_with()
    offer(tracker, 0.4)
    assert not tracker.offer_upper(1, 0.3, BoundKind.SOLVER)
    assert tracker.goal_upper(1) == 1.0
    (note,) = tracker.result().notes
    assert "0.3" in note
    assert "refuted by a witness" in note


def test_a_bound_is_refuted_by_a_later_witness() -> None:
    tracker = tracker_with()
    assert tracker.offer_upper(1, 0.3, BoundKind.SOLVER)
    offer(tracker, 0.4)
    assert tracker.goal_upper(1) == 1.0
    assert tracker.lower == pytest.approx(0.4)
    assert len(tracker.result().notes) == 1


def test_whoever_was_refuted_has_no_credit_left() -> None:
    tracker = tracker_with()
    offer(tracker, 0.2)
    tracker.offer_upper(1, 0.1, BoundKind.SOLVER)
    # Not refuted, and yet not to be believed: the truth is 1/2.
    assert not tracker.offer_upper(1, 0.201, BoundKind.SOLVER)
    assert tracker.goal_upper(1) == 1.0
    # What it says of another target was never refuted.
    assert tracker.offer_upper(2, 0.7, BoundKind.SOLVER)


def test_a_contradiction_with_interval_arithmetic_is_a_bug() -> None:
    tracker = tracker_with(interval_bound=0.3)
    with pytest.raises(VhagarError, match="a bug in vhagar"):
        offer(tracker, 0.4)


def test_the_interval_only_shrinks() -> None:
    seen: list[Progress] = []
    tracker = Tracker(PROBLEM, Options(), seen.append)
    rng = np.random.default_rng(0)
    for goal in PROBLEM.goals:
        tracker.offer_upper(goal, 1.0, BoundKind.INTERVAL)
    for _ in range(60):
        offer(tracker, float(rng.uniform(0, 0.6)))
        tracker.offer_upper(1, float(rng.uniform(0.5, 1.2)), BoundKind.SOLVER)
        tracker.offer_upper(2, float(rng.uniform(0.4, 1.2)), BoundKind.SOLVER)
    history = tracker.result().history
    assert len(history) > 4
    for moments in (history, seen):
        for earlier, later in itertools.pairwise(moments):
            assert earlier.seconds <= later.seconds
            assert earlier.lower <= later.lower <= 0.5 <= later.upper <= earlier.upper


def test_closed_by_the_relative_gap_or_as_negligible() -> None:
    tracker = tracker_with(relative_gap=0.1)
    offer(tracker, 0.4)
    tracker.offer_upper(2, 0.0, BoundKind.SOLVER)
    tracker.offer_upper(1, 0.45, BoundKind.SOLVER)
    assert not tracker.closed
    tracker.offer_upper(1, 0.44, BoundKind.SOLVER)
    assert tracker.closed
    assert tracker.result(Status.TIMEOUT).status is Status.CLOSED
    # What rounding leaves of 0, although the first bound was no better.
    rounded = tracker_with(interval_bound=1e-13)
    assert rounded.closed
    assert not tracker_with(interval_bound=1e-10).closed
    nearly_robust = tracker_with()
    for goal in PROBLEM.goals:
        nearly_robust.offer_upper(goal, 1e-7, BoundKind.SOLVER)
    assert nearly_robust.closed
    assert nearly_robust.result().status is Status.CLOSED  # 0 is not proved


def test_phases_add_up_and_notes_are_said_once() -> None:
    tracker = tracker_with()
    with tracker.phase("search"):
        tracker.note("mind this")
        with tracker.phase("polish"):
            assert tracker.phase_name == "polish"
        assert tracker.phase_name == "search"
    tracker.note("mind this")
    result = tracker.result(Status.TIMEOUT)
    assert result.notes == ("mind this",)
    assert result.timings.keys() == {"search", "polish"}
    assert result.status is Status.TIMEOUT


def test_a_phase_within_another_counts_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = tracker_with()
    clock = iter([0.0, 1.0, 4.0, 10.0])
    with monkeypatch.context() as context:
        context.setattr("vhagar.result.tracker.time.monotonic", lambda: next(clock))
        with tracker.phase("search"), tracker.phase("prepare"):
            pass
    assert tracker.result().timings == {"prepare": 3.0, "search": 7.0}


def test_with_a_certificate_bounds_leave_room_for_its_checker() -> None:
    tracker = tracker_with(1.0, certificate=Path("some"))
    assert tracker.goal_upper(1) == pytest.approx(1 + 2e-9, abs=1e-11)
    tracker.offer_upper(1, 0.5, BoundKind.TWIN)
    assert tracker.goal_upper(1) == pytest.approx(0.5 + 1.5e-9, abs=1e-11)
    assert tracker.goal_upper(1) > 0.5
    tracker.offer_upper(1, 0.0, BoundKind.TWIN)
    assert tracker.goal_upper(1) == 0.0  # nothing was rounded


def test_the_room_keeps_no_interval_open() -> None:
    """A search whose own bounds are closed is closed with the room, too."""
    closed = []
    for certificate in (None, Path("some")):
        tracker = tracker_with(1000.0, certificate=certificate)
        assert isinstance(offer(tracker, 0.25), Witness)
        bound = tracker.lower / (1 - tracker.options.relative_gap)
        for goal in PROBLEM.goals:
            tracker.offer_upper(goal, bound, BoundKind.TWIN)
        closed.append(tracker.closed)
    assert closed == [True, True]
