"""Intervals of numbers as users write them: a number, or `[low, high]`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from numbers import Real  # numpy's numbers too

from vhagar.errors import InvalidInput

Range = tuple[float, float]
GivenRange = float | tuple[float, float] | list[float]


def as_range(given: GivenRange, what: str) -> Range:
    """Convert a number or a pair to `(low, high)`, which must be finite and in order."""
    ends = (given, given) if isinstance(given, Real) else given
    pair = tuple(ends) if isinstance(ends, Iterable) else ()
    if len(pair) != 2 or not all(isinstance(end, Real) for end in pair):
        raise InvalidInput(f"{what} must be a number or an interval [low, high], not {given!r}")
    low, high = float(pair[0]), float(pair[1])
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InvalidInput(f"{what} must be finite, not {given!r}")
    if low > high:
        raise InvalidInput(f"{what} needs low <= high, not [{number(low)},{number(high)}]")
    return low, high


def as_integer_range(given: GivenRange, what: str) -> tuple[int, int]:
    """As `as_range`, for parameters that count pixels."""
    low, high = as_range(given, what)
    if low != int(low) or high != int(high):
        raise InvalidInput(f"{what} must be whole numbers, not [{number(low)},{number(high)}]")
    return int(low), int(high)


def require_within(
    span: tuple[float, float], low: float, high: float, what: str, why: str = ""
) -> None:
    """Raise an error that names the limits unless `low <= span <= high`."""
    if span[0] < low or span[1] > high:
        reason = f" ({why})" if why else ""
        raise InvalidInput(
            f"{what} must lie in [{number(low)},{number(high)}]{reason}, not {span_text(span)}"
        )


def number(value: float) -> str:
    """The shortest text that reads back as the same number."""
    return str(int(value)) if value == int(value) else repr(float(value))


def span_text(span: tuple[float, float]) -> str:
    """A number, or `[low,high]` where the ends differ."""
    low, high = span
    return number(low) if low == high else interval_text(span)


def interval_text(span: tuple[float, float]) -> str:
    return f"[{number(span[0])},{number(span[1])}]"


def integers(span: tuple[int, int]) -> Iterator[int]:
    return iter(range(span[0], span[1] + 1))
