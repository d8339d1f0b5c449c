"""Results in terms of percentages, rounded outward."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar import Interval, Network, Problem, Result, Status
from vhagar.network import Affine
from vhagar.result import BoundKind

_NETWORK = Network((Affine(np.eye(2), np.zeros(2), (2,), (2,)),), (2,))
PROBLEM = Problem(_NETWORK, perturbation="linf(0.1)", source=0)


def result_of(lower: float, upper: float, reference: tuple[float, float] | None) -> Result:
    return Result(
        problem=PROBLEM,
        lower=lower,
        upper=upper,
        status=Status.TIMEOUT,
        kind=BoundKind.SOLVER,
        seconds=1.0,
        targets={},
        witness=None,
        history=(),
        timings={},
        engine="mip",
        max_confidence=None if reference is None else Interval(*reference, BoundKind.SOLVER),
    )


def test_without_a_reference_there_is_no_percentage() -> None:
    assert result_of(1.0, 2.0, None).percent is None


def test_the_reference_is_an_interval_too() -> None:
    low, high = result_of(1.0, 2.0, (4.0, 5.0)).percent
    assert (low, high) == pytest.approx((20.0, 50.0))


def test_percentages_are_rounded_outward() -> None:
    rng = np.random.default_rng(0)
    for lower, width, reference, spread in rng.uniform(0.01, 1, (500, 4)):
        upper, largest = lower + width, 2.0 + reference + spread
        low, high = result_of(lower, upper, (2.0 + reference, largest)).percent
        assert Fraction(low) <= 100 * Fraction(lower) / Fraction(largest)
        assert Fraction(high) >= 100 * Fraction(upper) / Fraction(2.0 + reference)


def test_limits() -> None:
    assert result_of(0.0, 0.0, (4.0, 5.0)).percent == (0.0, 0.0)
    assert result_of(0.0, 0.0, (0.0, 5.0)).percent == (0.0, 0.0)
    assert result_of(0.0, 3.0, (0.0, 0.0)).percent == (0.0, 100.0)
    assert result_of(1.0, 9.0, (4.0, 5.0)).percent[1] == 100.0


def test_the_interval_of_a_result() -> None:
    assert result_of(1.0, 3.0, None).interval == Interval(1.0, 3.0, BoundKind.SOLVER)
    assert result_of(1.0, 3.0, None).interval.gap == 2.0
