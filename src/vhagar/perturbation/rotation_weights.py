"""Bounds on the interpolation weights of a rotation over all angles of an arc.

While the angle moves uniformly from `begin` to `end`, the source of a pixel moves nearly along the
straight line between its two end points: since its acceleration is at most `radius`, it stays
within `radius * turn**2 / 8` of the point that moves uniformly along that line. On the line a
weight is a product of two tents, quadratic between grid lines, so its distance from the chord
between its two end values has extrema in closed form. Hence, at share s of the arc,

    (1 - s) first + s last + low  <=  weights  <=  (1 - s) first + s last + high

where `low` and `high` shrink with the square of the arc. For pixels that may turn black within the
arc, any weight from 0 to the largest is possible; such pixels get fewer as the arc shrinks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from vhagar.array_types import Array, Index, Mask
from vhagar.perturbation.interpolation import GRID_SNAP, offsets, snap, sources

# Bound on the rounding error of a coordinate, here and where weights are defined, for each row and
# column of the image: the sine of 360 degrees errs by 2e-15, and sums by less.
_ROUNDING = 2.0**-45
# Bound on the rounding error of a weight.
_WEIGHT_ROUNDING = 2.0**-50
# If a pixel's largest weights sum to more than this, "at most white" is the better bound.
_LARGEST_SUM = 2.0


@dataclass(frozen=True, eq=False)
class Arc:
    """Bounds on the weights of one plane, as matrices `(pixels, pixels)`.

    `capped` pixels have no entries in `high`: they are only known to be at most white. `black`
    pixels are black at every angle of the arc.
    """

    first: sparse.csr_array
    last: sparse.csr_array
    low: sparse.csr_array
    high: sparse.csr_array
    capped: Mask
    black: Mask


def arc_between(plane: tuple[int, int], begin: float, end: float) -> Arc:
    """The arc of all angles from `begin` to `end`, in degrees, for images of `plane`'s rows and
    columns."""
    rows, columns = _axes(plane, begin, end)
    inside, possible = rows.inside & columns.inside, rows.possible & columns.possible
    pixel, row, column = _neighbours(rows, columns, possible)
    r, c = rows.seen_from(pixel, row), columns.seen_from(pixel, column)
    first, last, on_line, off_chord = _on_the_line(r, c)
    rounding = np.where(rows.moves[pixel], _WEIGHT_ROUNDING, 0.0)
    error = r.error + c.error + rounding  # the slope and the height of a tent are 1
    least = np.maximum(on_line[0] - error, r.least * c.least - rounding)
    least = np.where(inside[pixel], np.maximum(least, 0.0), 0.0)
    most = np.minimum(np.minimum(on_line[1] + error, r.most * c.most + rounding), 1.0)
    low = np.maximum(off_chord[0] - error, least - np.maximum(first, last) - rounding)
    high = np.minimum(off_chord[1] + error, most - np.minimum(first, last) + rounding)

    def total(values: Array) -> Array:
        sums: Array = np.bincount(pixel, values, minlength=len(inside)).astype(np.float64)
        return sums

    # Use the chord where it is tighter than the plain interval.
    chord = inside & (total(high - low) <= total(most - least))
    capped = ~chord & (total(most) > _LARGEST_SUM)
    on_chord, free = chord[pixel], capped[pixel]

    def matrix(values: Array) -> sparse.csr_array:
        return sparse.csr_array(
            (values, (pixel, row * plane[1] + column)), shape=(len(inside), len(inside))
        )

    return Arc(
        matrix(np.where(on_chord, first, 0.0)),
        matrix(np.where(on_chord, last, 0.0)),
        matrix(np.where(on_chord, low, least)),
        matrix(np.where(on_chord, high, np.where(free, 0.0, most))),
        capped,
        ~possible,
    )


@dataclass(frozen=True, eq=False)
class _Axis:
    """The row, or the column, of every pixel's source: at both ends of the arc, and its bounds.

    `low` and `high` bound the coordinate after snapping; `error` bounds its distance from the point
    that moves uniformly from `begin` to `end`.
    """

    begin: Array
    end: Array
    low: Array
    high: Array
    error: Array
    moves: Mask
    count: int

    @property
    def inside(self) -> Mask:
        """Which coordinates certainly lie between the first and the last grid line."""
        return np.asarray((self.low >= 0) & (self.high <= self.count - 1))

    @property
    def possible(self) -> Mask:
        """Which coordinates may lie between the first and the last grid line."""
        return np.asarray((self.high >= 0) & (self.low <= self.count - 1))

    def seen_from(self, pixel: Index, line: Index) -> _Tent:
        """The coordinates of some pixels, each measured from its own grid line."""
        parts = (self.begin, self.end, self.low, self.high)
        begin, end, low, high = (part[pixel] - line for part in parts)
        return _Tent(begin, end, low, high, self.error[pixel])


@dataclass(frozen=True, eq=False)
class _Tent:
    """A weight along one axis, `max(0, 1 - abs(coordinate))`, with the coordinate as in `_Axis`."""

    begin: Array
    end: Array
    low: Array
    high: Array
    error: Array

    @property
    def least(self) -> Array:
        return np.minimum(_tent(self.low), _tent(self.high))

    @property
    def most(self) -> Array:
        return _tent(np.maximum(0.0, np.maximum(self.low, -self.high)))

    def at(self, s: Array) -> Array:
        """The weight at share s of the way, with s `(entries, points)`."""
        return _tent(self.begin[:, None] + s * (self.end - self.begin)[:, None])

    def kinks(self) -> Array:
        """The shares of the way where it meets grid lines, `(entries, 3)`; arbitrary if never."""
        way = (self.end - self.begin)[:, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            found = (np.array([-1.0, 0.0, 1.0]) - self.begin[:, None]) / way
        return np.clip(np.nan_to_num(found, posinf=1.0, neginf=0.0), 0.0, 1.0)


def _tent(distance: Array) -> Array:
    return np.maximum(0.0, 1.0 - abs(distance))


def _axes(plane: tuple[int, int], begin: float, end: float) -> tuple[_Axis, _Axis]:
    radius = np.hypot(*offsets(*plane))
    moves = radius > 0
    rounding = np.where(moves, _ROUNDING * sum(plane), 0.0)
    turn = math.radians(end - begin) * (1 + 1e-12)
    bend = radius * turn**2 / 8 * (1 + 1e-12) + rounding
    found = []
    ways = zip(sources(*plane, begin), sources(*plane, end), strict=True)
    for (start, stop), count in zip(ways, plane, strict=True):
        # The coordinate is close to the line, and never outside the circle.
        circle = radius * (1 + 1e-12) + rounding
        low = np.maximum(np.minimum(start, stop) - bend, (count - 1) / 2 - circle)
        high = np.minimum(np.maximum(start, stop) + bend, (count - 1) / 2 + circle)
        near_line = np.floor(high + 2 * GRID_SNAP) >= np.ceil(low - 2 * GRID_SNAP)
        error = bend + np.where(near_line & moves, 1.001 * GRID_SNAP, 0.0)
        found.append(_Axis(start, stop, snap(low), snap(high), error, moves, count))
    return found[0], found[1]


def _neighbours(rows: _Axis, columns: _Axis, possible: Mask) -> tuple[Index, Index, Index]:
    """All pixels with all rows and columns next to which their sources can be."""
    pixels = np.flatnonzero(possible)
    reach = []
    for axis in (rows, columns):
        first = np.floor(np.maximum(axis.low, 0.0))
        count = np.ceil(np.minimum(axis.high, axis.count - 1)) - first + 1
        reach.append((first.astype(np.int64), int(count[pixels].max(initial=0))))
    (top, height), (left, width) = reach
    grid = np.meshgrid(pixels, np.arange(height), np.arange(width), indexing="ij")
    pixel, below, beside = (part.reshape(-1) for part in grid)
    row, column = top[pixel] + below, left[pixel] + beside
    near = np.ones(len(pixel), dtype=np.bool_)
    for axis, line in ((rows, row), (columns, column)):
        near &= (line < axis.count) & (line < axis.high[pixel] + 1) & (line > axis.low[pixel] - 1)
    return pixel[near], row[near], column[near]


Ends = tuple[Array, Array]


def _on_the_line(r: _Tent, c: _Tent) -> tuple[Array, Array, Ends, Ends]:
    """Weights of a source that moves uniformly: at both ends, their range, and their range
    relative to the chord."""
    ends = np.tile([0.0, 1.0], (len(r.begin), 1))
    knots = np.sort(np.concatenate([ends, r.kinks(), c.kinks()], axis=1), axis=1)
    middles = (knots[:, 1:] + knots[:, :-1]) / 2
    first, last = (r.at(ends) * c.at(ends)).T
    on_line, off_chord = [], []
    for s in (knots, middles):
        weight = r.at(s) * c.at(s)
        on_line.append(weight)
        off_chord.append(weight - (first[:, None] * (1 - s) + last[:, None] * s))
    return first, last, _extremes(*on_line), _extremes(*off_chord)


def _extremes(knots: Array, middles: Array) -> Ends:
    """The range of a function that is quadratic between knots, from its values at knots and
    midpoints."""
    left, right = knots[:, :-1], knots[:, 1:]
    bend, slope = left - 2 * middles + right, right - left
    turns = abs(slope) < 2 * abs(bend)
    vertex = middles - np.where(turns, slope**2 / np.where(turns, 8 * bend, 1.0), 0.0)
    low = np.minimum(knots.min(axis=1), vertex.min(axis=1))
    return low, np.maximum(knots.max(axis=1), vertex.max(axis=1))
