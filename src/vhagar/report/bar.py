"""The interval as a bar from 0 to the first upper bound: what is proven, and what is not."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Cells:
    """How many cells of the bar are below the interval, in it, and above it."""

    below: int
    unknown: int
    above: int


def cells(lower: float, upper: float, scale: float, width: int) -> Cells:
    """Share out `width` cells over `[0, scale]`. A cell is proven only if all of it is."""
    if not (math.isfinite(upper) and math.isfinite(scale) and scale > 0):
        return Cells(0, width, 0)
    if upper <= 0:
        return Cells(0, 0, width)
    below = min(math.floor(width * lower / scale), width - 1)
    above = min(math.floor(width * (scale - upper) / scale), width - 1 - below)
    return Cells(max(below, 0), width - max(below, 0) - max(above, 0), max(above, 0))


def axis(label: str, centre: float, end: str, width: int) -> str:
    """The line under a bar: 0, `label` under the cell `centre`, and the scale's end."""
    room = width - len(end) - len(label) - 4
    if room < 0:
        return "0" + end.rjust(width - 1)
    start = min(max(round(centre - len(label) / 2), 2), 2 + room)
    return "0".ljust(start) + label + end.rjust(width - start - len(label))
