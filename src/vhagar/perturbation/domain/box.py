"""The box of a domain: the ends that a user gave, checked and narrowed by the other conditions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vhagar.array_types import Array
from vhagar.errors import InvalidInput
from vhagar.perturbation.domain.groups import Group, Groups
from vhagar.perturbation.domain.linear_rows import LinearRows
from vhagar.perturbation.domain.zonotope import Zonotope

Whole = NDArray[np.int64]
Span = tuple[float, float]


def range_of(given: Span | None, lower: ArrayLike, upper: ArrayLike) -> Span:
    """The input range: the given one, or else that of ends that are numbers, or 0 to 1."""
    lists = any(isinstance(end, list | tuple | str) or np.ndim(end) > 0 for end in (lower, upper))
    if given is None:
        given = (0.0, 1.0) if lists else (float(np.asarray(lower)), float(np.asarray(upper)))
    low, high = map(float, given)
    if not (math.isfinite(low) and math.isfinite(high - low)):
        raise InvalidInput(f"the input range {low},{high} is not finite")
    if low >= high:
        raise InvalidInput(f"the input range needs lower < upper, not {low},{high}")
    return low, high


def check_sizes(size: int, rows: LinearRows | None, zonotope: Zonotope | None) -> None:
    """Refuse conditions that are about inputs of another size."""
    for part, what in ((rows, "rows"), (zonotope, "zonotope")):
        if part is not None and part.size != size:
            raise InvalidInput(
                f"the {what} of the domain are about {part.size} entries, but inputs have {size}"
            )


def narrowed(
    low: Array,
    high: Array,
    fixed: Mapping[int, float],
    groups: Groups,
    zonotope: Zonotope | None,
) -> tuple[Array, Array]:
    """The ends of all entries, narrowed by fixed entries, the zonotope and groups."""
    low, high = low.copy(), high.copy()
    for k, value in fixed.items():
        if isinstance(k, str) or not 0 <= k < len(low) or not math.isfinite(value):
            raise InvalidInput(f"fixed names entry {k} of {len(low)}, or gives it no number")
        low[k], high[k] = max(low[k], value), min(high[k], value)
    if zonotope is not None:
        least, most = zonotope.box
        low, high = np.maximum(low, least), np.minimum(high, most)
    # Last, so that the ranges of whole numbers end at whole numbers: splits rely on it.
    return groups.narrowed(low, high)


def check_box(
    low: Array,
    high: Array,
    span: Span,
    name_of: Callable[[int], str],
    whole: Group | Whole = (),
) -> None:
    """Refuse a box that is empty or leaves the range `span`; `whole` are whole numbers."""
    empty = np.flatnonzero(low > high)
    if len(empty):
        k = int(empty[0])
        if k in whole and low[k] - high[k] == 1:  # the ends of a range without a whole number
            raise InvalidInput(
                f"the domain is empty: no whole number lies between {high[k]:g} and {low[k]:g},"
                f" where entry {name_of(k)} would have to be"
            )
        raise InvalidInput(
            f"the domain is empty: no number is at least {low[k]:g} and at most "
            f"{high[k]:g}, as entry {name_of(k)} would have to be"
        )
    beyond = np.flatnonzero((low < span[0]) | (high > span[1]))
    if len(beyond):
        k = int(beyond[0])
        raise InvalidInput(
            f"the domain leaves the input range [{span[0]:g},{span[1]:g}]: entry "
            f"{name_of(k)} is from {low[k]:g} to {high[k]:g}; give the range of "
            "all inputs with --input-range (range = [LOW, HIGH] in the domain's file)"
        )
