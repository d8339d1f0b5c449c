"""Bounds on the weights of a rotation while its angle runs through an arc.

At `s` of the way from one end of the arc to the other, the weight of a pixel's neighbour satisfies

    (1 - s) first + s last + low  <=  weight  <=  (1 - s) first + s last + high.

A linear function of the weights is then largest at one of the two ends. Either `first` and `last`
are the weights at the ends, or both are 0; which of the two is tighter is decided for each pixel.
`turn_ranges` finds `low` and `high` for either, so what is decided here can make bounds loose but
not wrong. Certificates rely on the choice of the search, which is repeated: it compares the ranges
of a source that moves evenly along the straight line between its ends, with room for how far the
true one is from it.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar_check.layers import Floats
from vhagar_check.turn_ranges import Turn, snapped, tent, weight_ranges

Mask = NDArray[np.bool_]
Index = NDArray[np.int64]

# Bound on the rounding error of a coordinate, per row and column of the image.
_ROUNDING = 2.0**-45
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
    between which they are; `error`, `(pixels,)`, bounds how far they are from moving evenly."""

    begin: Floats
    end: Floats
    low: Floats
    high: Floats
    error: Floats
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
        return _Ways(begin, end, low, high, self.error[pixel], self.last)


def offsets(plane: tuple[int, int]) -> tuple[Floats, Floats]:
    """The distances of each pixel below and to the right of the centre."""
    return Turn(plane, 0.0, 0.0).offsets


def arc_between(plane: tuple[int, int], begin: float, end: float) -> Arc:
    """The arc over all angles from `begin` to `end`, in degrees."""
    turn = Turn(plane, begin, end)
    ways = _ways(turn)
    pixel, row, column = _neighbours(ways)
    near = ways.of(pixel, np.stack([row, column]))
    tighter, large = _choices(near, pixel, len(ways.inside))
    joined = ways.inside & tighter
    capped = ~joined & large
    first, last = (
        np.where(joined[pixel], tent(part).prod(axis=0), 0.0) for part in (near.begin, near.end)
    )
    low, high = weight_ranges(turn, pixel, row, column, first, last)
    # At an angle at which a pixel is black, all its weights are 0.
    low = np.where(ways.inside[pixel], low, np.minimum(low, 0.0))
    high = np.where(capped[pixel], 0.0, high)
    source = row * plane[1] + column
    order = np.argsort(source, kind="stable")
    first, last, low, high = (part[order] for part in (first, last, low, high))
    return Arc(pixel[order], source[order], first, last, low, high, capped, ~ways.visible)


def _ways(turn: Turn) -> _Ways:
    radius = np.hypot(*turn.offsets)
    i, j = (part[:, None] for part in turn.offsets)
    begin, end = np.stack(turn.sources(i, j, np.array([[0.0, turn.turn]]))).transpose(2, 0, 1)
    last = np.array(turn.plane)[:, None] - 1.0
    rounding = np.where(radius > 0, _ROUNDING * sum(turn.plane), 0.0)
    bend, circle = radius * turn.turn**2 / 8 + rounding, radius + rounding
    lowest, highest = np.stack(turn.ranges(), axis=1)
    low = snapped(np.maximum(np.minimum(begin, end) - bend, last / 2 - circle))
    high = snapped(np.minimum(np.maximum(begin, end) + bend, last / 2 + circle))
    # What a source may reach is taken from `turn_ranges`, should it be more.
    low, high = np.minimum(low, lowest), np.maximum(high, highest)
    return _Ways(begin, end, low, high, bend, last)


def _neighbours(ways: _Ways) -> tuple[Index, Index, Index]:
    """List every pixel with every row and column that its source can be next to."""
    found: list[tuple[int, ...]] = []
    for pixel in np.flatnonzero(ways.visible).tolist():
        reach = zip(ways.low[:, pixel], ways.high[:, pixel], ways.last[:, 0], strict=True)
        lines = [
            range(max(0, math.floor(low)), min(int(last), math.ceil(high)) + 1)
            for low, high, last in reach
        ]
        found += itertools.product([pixel], *lines)
    table = np.array(found, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def _choices(near: _Ways, pixel: Index, count: int) -> tuple[Mask, Mask]:
    """Mark the pixels that lines between the weights at both ends bound more tightly than plain
    ranges do, and those of which being at most white says more than their largest weights do."""

    def total(values: Floats) -> Floats:
        return np.bincount(pixel, values, minlength=count).astype(np.float64)

    error = 2 * near.error
    s = _knots(near)
    down, right = tent(near.begin[..., None] + s * (near.end - near.begin)[..., None])
    first, last = (down[:, k] * right[:, k] for k in (0, -1))
    least, most = _extremes(down, right, 0.0 * s)
    below, above = _extremes(down, right, first[:, None] + s * (last - first)[:, None])
    farthest = np.maximum(abs(near.low), abs(near.high))
    nearest = np.maximum(0.0, np.maximum(near.low, -near.high))
    least = np.maximum(least - error, tent(farthest).prod(axis=0))
    most = np.minimum(most + error, tent(nearest).prod(axis=0))
    below = np.maximum(below - error, least - np.maximum(first, last))
    above = np.minimum(above + error, most - np.minimum(first, last))
    return total(above - below) <= total(most - least), total(most) > _LARGEST_SUM


def _knots(near: _Ways) -> Floats:
    """The shares of the way, ascending from 0 to 1, between which both tents are linear."""
    with np.errstate(all="ignore"):
        kinks = [(kink - near.begin) / (near.end - near.begin) for kink in (-1.0, 0.0, 1.0)]
    found = np.clip(np.nan_to_num(np.concatenate(kinks)), 0.0, 1.0)
    ends = np.repeat([[0.0], [1.0]], found.shape[1], axis=1)
    return np.sort(np.concatenate([found, ends]), axis=0).T


def _extremes(down: Floats, right: Floats, line: Floats) -> tuple[Floats, Floats]:
    """The range of `down * right - line`, whose parts are linear between columns."""
    f, g, h = (part[:, :-1] for part in (down, right, line))
    df, dg, dh = (np.diff(part, axis=1) for part in (down, right, line))
    # Where the derivative `f dg + g df + 2 t df dg - dh` is 0, if it is so within the part.
    with np.errstate(all="ignore"):
        t = np.clip(np.nan_to_num((dh - f * dg - g * df) / (2 * df * dg)), 0.0, 1.0)
    turns = (f + t * df) * (g + t * dg) - (h + t * dh)
    values = np.concatenate([down * right - line, turns], axis=1)
    return values.min(axis=1), values.max(axis=1)
