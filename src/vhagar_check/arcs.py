"""Bounds on the weights of a rotation while its angle runs through an arc.

At `s` of the way from one end of the arc to the other, the weight of a pixel's neighbour satisfies

    (1 - s) first + s last + low  <=  weight  <=  (1 - s) first + s last + high.

A linear function of the weights is then largest at one of the two ends. `first` and `last` are the
weights at the ends for pixels whose sources stay inside the image, and 0 for others. This choice
and that of the pixels that are capped are the search's, whose certificates rely on them; whatever
is chosen, the bounds hold: `turn_ranges` finds `low` and `high` for any lines.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar_check.layers import Floats
from vhagar_check.turn_ranges import Turn, offsets, snapped, tent, weight_ranges

Mask = NDArray[np.bool_]
Index = NDArray[np.int64]

# If the largest weights of a pixel sum to more, the bound that it is at most white is tighter.
_LARGEST_SUM = 2.0


@dataclass(frozen=True, eq=False)
class Arc:
    """Bounds on the weight of each pair of a pixel and a neighbour of its source.

    The entries are sorted by `source`. All that is known about `capped` pixels is that they are at
    most white; `black` pixels are black at every angle.
    """

    pixel: Index
    source: Index
    first: Floats
    last: Floats
    low: Floats
    high: Floats
    capped: Mask
    black: Mask


@dataclass(frozen=True, eq=False)
class _Ways:
    """The rows and the columns of the pixels' sources, `(2, pixels)`: at both ends of the arc, and
    between which they are; `bend`, `(pixels,)`, bounds how far they are from moving evenly."""

    begin: Floats
    end: Floats
    low: Floats
    high: Floats
    bend: Floats
    last: Floats  # row and column of the image, `(2, 1)`

    @property
    def inside(self) -> Mask:
        """Mark pixels whose sources are inside the image at every angle."""
        return np.asarray(((self.low >= 0) & (self.high <= self.last)).all(axis=0))

    @property
    def visible(self) -> Mask:
        """Mark pixels whose sources may be inside the image at some angle."""
        return np.asarray(((self.high >= 0) & (self.low <= self.last)).all(axis=0))

    def of(self, pixel: Index, line: Index) -> _Ways:
        """The ways of some pixels, each measured from a row and a column."""
        parts = (self.begin, self.end, self.low, self.high)
        begin, end, low, high = (part[:, pixel] - line for part in parts)
        return _Ways(begin, end, low, high, self.bend[pixel], self.last)


def arc_between(plane: tuple[int, int], begin: float, end: float) -> Arc:
    """The arc over all angles from `begin` to `end`, in degrees."""
    turn = Turn(plane, begin, end)
    ways = _ways(turn)
    pixel, row, column = _neighbours(ways)
    near = ways.of(pixel, np.stack([row, column]))
    joined = ways.inside[pixel]
    first, last = (np.where(joined, tent(end).prod(axis=0), 0.0) for end in (near.begin, near.end))
    low, high = weight_ranges(turn, pixel, row, column, first, last)
    capped = ~ways.inside & _is_large(near, pixel, high, len(ways.inside))
    # At an angle at which a pixel is black, all its weights are 0.
    low = np.where(joined, low, np.minimum(low, 0.0))
    high = np.where(capped[pixel], 0.0, high)
    source = row * plane[1] + column
    order = np.argsort(source, kind="stable")
    first, last, low, high = (part[order] for part in (first, last, low, high))
    return Arc(pixel[order], source[order], first, last, low, high, capped, ~ways.visible)


def _ways(turn: Turn) -> _Ways:
    i, j = offsets(turn.plane)
    ends = turn.sources(i[:, None], j[:, None], np.array([[0.0, turn.turn]]))
    begin, end = np.stack(ends).transpose(2, 0, 1)
    last = np.array(turn.plane)[:, None] - 1.0
    radius = np.hypot(i, j)
    bend = radius * turn.turn**2 / 8
    low = snapped(np.maximum(np.minimum(begin, end) - bend, last / 2 - radius))
    high = snapped(np.minimum(np.maximum(begin, end) + bend, last / 2 + radius))
    # The search's, but for rounding. What a source may reach is more, should `turn_ranges` say so.
    lowest, highest = np.stack(turn.ranges(), axis=1)
    low, high = np.minimum(low, lowest), np.maximum(high, highest)
    return _Ways(begin, end, low, high, bend, last)


def _neighbours(ways: _Ways) -> tuple[Index, Index, Index]:
    """List every pixel with every row and column that its source can be next to."""
    first = np.maximum(np.floor(ways.low), 0.0).astype(np.int64)
    behind = np.minimum(np.ceil(ways.high), ways.last).astype(np.int64) + 1
    found: list[tuple[int, ...]] = []
    for pixel in np.flatnonzero(ways.visible).tolist():
        lines = map(range, first[:, pixel].tolist(), behind[:, pixel].tolist())
        found += itertools.product([pixel], *lines)
    table = np.array(found, dtype=np.int64).reshape(len(found), 3)
    return table[:, 0], table[:, 1], table[:, 2]


def _is_large(near: _Ways, pixel: Index, high: Floats, count: int) -> Mask:
    """Mark the pixels that the bound on white bounds better than their largest weights do, as the
    search finds them."""
    nearest = np.maximum(0.0, np.maximum(near.low, -near.high))
    most = np.minimum(high + 2 * near.bend, tent(nearest).prod(axis=0))
    return np.asarray(np.bincount(pixel, most, minlength=count) > _LARGEST_SUM)
