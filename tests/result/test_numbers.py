"""Printed numbers are rounded to the safe side."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from vhagar.result.evidence import estimate_words
from vhagar.result.numbers import down, gap, interval, percent, seconds, share, span, up
from vhagar.result.values import Estimate


def _random_intervals() -> list[tuple[float, float]]:
    rng = np.random.default_rng(1)
    sizes = 10.0 ** rng.uniform(-12, 12, size=400)
    gaps = 10.0 ** rng.uniform(-12, 0, size=400)
    return [(float(size * (1 - g)), float(size)) for size, g in zip(sizes, gaps, strict=True)]


def test_the_printed_interval_contains_the_computed_one() -> None:
    for lower, upper in _random_intervals():
        low, high = interval(lower, upper)
        # Fractions: a comparison of floats would forgive the last digit.
        assert Fraction(low) <= Fraction(lower)
        assert Fraction(high) >= Fraction(upper)
        assert Fraction(down(lower)) <= Fraction(lower)
        assert Fraction(up(upper)) >= Fraction(upper)


def test_the_printed_interval_is_not_much_wider() -> None:
    for lower, upper in _random_intervals():
        low, high = interval(lower, upper)
        # Two digits of the gap are shown, unless seven digits of the
        # number or, in scientific notation, four are the limit.
        slack = max(0.2 * (upper - lower), 2.1e-6 * upper)
        if not 1e-4 <= lower <= upper < 1e9:
            slack += 2.1e-3 * upper
        assert float(high) - float(low) <= upper - lower + slack


def test_decimals_follow_the_gap() -> None:
    assert interval(16.2103, 16.7741) == ("16.21", "16.78")
    assert interval(2.96171, 2.96174) == ("2.961710", "2.961740")
    assert interval(0.0, 246.6002) == ("0", "246.61")


def test_an_end_that_is_not_known_is_called_unknown() -> None:
    assert interval(1.0, math.inf) == ("1.00", "unknown")
    assert gap(1.0, math.inf) == "unknown"


def test_a_span_of_one_point_is_one_number() -> None:
    assert span(0.0, 0.0) == "0"
    assert span(0.5, 0.5) == "0.5000"
    assert span(0.5, 0.75) == "0.50..0.75"


def test_gap_is_absolute_and_a_part_of_upper() -> None:
    assert gap(15.0, 20.0) == "5.00 (25.0 %)"
    assert gap(0.0, 0.0) == "0 (0 %)"


def test_percentages_are_rounded_outward() -> None:
    assert percent(41.59, 43.01) == "41.5 to 43.1 %"


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 10_000, "0"),
        (2, 10_000, "<0.1"),
        (9, 10_000, "<0.1"),
        (10, 10_000, "0.1"),
        (2, 3, "66.6"),
        (9_999, 10_000, "99.9"),
        (10**18 - 1, 10**18, "99.9"),
        (7, 7, "100"),
        (0, 0, "0"),
    ],
)
def test_shares_are_rounded_down_and_only_none_is_nothing(part: int, whole: int, text: str) -> None:
    assert share(part, whole) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.04, "0.0 s"), (12.34, "12.3 s"), (247, "4:07 min"), (7447, "2:04:07 h")]
)
def test_seconds(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (0.0, 1.0, "100.0"),
        (0.98999, 1.0, "1.1"),
        (0.9000001, 1.0, "10.0"),
        (0.999, 1.0, "0.11"),
        (0.9989, 1.0, "0.11"),  # the double nearest to 0.9989 is a little above it
        (1 - 1e-9, 1.0, "1e-07"),
        (0.1, 10000000.0, "100.0"),  # the difference of the doubles is rounded
    ],
)
def test_a_gap_is_rounded_up(lower: float, upper: float, expected: str) -> None:
    shown = gap(lower, upper).split("(")[1].removesuffix(" %)")
    assert Fraction(shown) >= 100 * (Fraction(upper) - Fraction(lower)) / Fraction(upper)
    assert shown == expected


def test_an_estimate_holds_what_its_rounding_leaves_out() -> None:
    estimate = Estimate(mean=1.23456, half_width=1e-6, samples=100, level=0.05)
    mean, room = estimate_words(estimate, "3").split(" (")[0].split(" +- ")
    assert Fraction(mean) + Fraction(room) >= Fraction(1.23456) + Fraction(1e-6)
