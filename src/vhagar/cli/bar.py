"""The interval as a bar from 0 to the first upper bound.

The first bound is often a hundred times the answer. On a linear scale the search would end in the
first cell, so the bar has a square-root scale: its middle stands for a quarter of its end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MIDDLE = 0.25  # value at the middle of the bar, relative to its end


@dataclass(frozen=True)
class Cells:
    """Numbers of cells below the interval, inside it, and above it."""

    below: int
    unknown: int
    above: int

    @property
    def centre(self) -> float:
        """Position of the interval's middle, in cells."""
        return self.below + self.unknown / 2


def cells(lower: float, upper: float, scale: float, width: int) -> Cells:
    """Divide `width` cells over `[0, scale]`; a cell counts as proven only if all of it is."""
    if not (math.isfinite(upper) and math.isfinite(scale) and scale > 0):
        return Cells(0, width, 0)
    if upper <= 0:
        return Cells(0, 0, width)
    low, high = (math.sqrt(min(end / scale, 1.0)) for end in (lower, upper))
    below = min(math.floor(width * low), width - 1)
    above = min(math.floor(width * (1 - high)), width - 1 - below)
    return Cells(below, width - below - above, above)


def axis(label: str, centre: float, middle: str, end: str, width: int) -> str:
    """Return the line under a bar: 0, `label` at the cell `centre`, and the middle and end values.

    Labels that do not fit are left out.
    """
    line = " " * width
    wanted = [
        ("0", 0),
        (end, width - len(end)),
        (label, min(max(round(centre - len(label) / 2), 3), width - len(end) - len(label) - 2)),
        (middle, round((width - len(middle)) / 2)),
    ]
    for text, start in wanted:
        around = line[max(start - 2, 0) : start + len(text) + 2]
        if start >= 0 and not around.strip():
            line = line[:start] + text + line[start + len(text) :]
    return line
