"""The binary search closes in on the truth, around questions that nobody answers."""

from __future__ import annotations

import pytest

from vhagar.baseline.bisection import Bisection


def closed_in(truth: float, hard: tuple[float, float], questions: int) -> tuple[float, float]:
    """The interval after so many questions, where those within `hard` get no answer at first."""
    bisection, lower, upper = Bisection(), 0.0, 16.0
    for _ in range(questions):
        if upper - lower < 1e-9:
            break
        delta = bisection.next(lower, upper)
        assert lower < delta < upper
        if hard[0] < delta < hard[1] and bisection.patience < 4:
            bisection.unanswered(delta)
        elif delta <= truth:
            lower = delta
        else:
            upper = delta
        assert lower <= truth <= upper
    return lower, upper


def test_it_halves() -> None:
    bisection = Bisection()
    assert bisection.next(0.0, 8.0) == 0.008  # is there anything at all?
    assert bisection.next(0.0, 8.0) == 4.0
    assert bisection.next(4.0, 8.0) == 6.0
    assert Bisection().next(4.0, 8.0) == 6.0
    lower, upper = closed_in(5.3, (0.0, 0.0), 21)
    assert upper - lower == pytest.approx((16.0 - 0.016) / 2**20)


def test_it_steps_aside_to_the_wider_part() -> None:
    bisection = Bisection(_begun=True)
    bisection.unanswered(4.0)
    assert bisection.next(0.0, 16.0) == 10.0  # above
    assert bisection.next(0.0, 6.0) == 2.0  # below
    bisection.unanswered(5.0)
    assert bisection.next(0.0, 16.0) == 10.5  # between the last of them and the end
    assert bisection.next(4.5, 16.0) == 10.5  # what is settled no longer counts
    assert bisection.patience == 1.0


@pytest.mark.parametrize("truth", [0.0, 1.0, 5.3, 9.0, 16.0])
def test_a_hard_zone_is_narrowed_down_and_then_asked_again(truth: float) -> None:
    hard = truth - 1.0, truth + 1.0
    lower, upper = closed_in(truth, hard, 30)
    assert upper - lower <= 2.5
    lower, upper = closed_in(truth, hard, 120)
    assert upper - lower <= 0.05
