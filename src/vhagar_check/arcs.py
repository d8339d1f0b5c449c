"""Bounds on the weights of a rotation while its angle runs through an arc.

Turning evenly from one angle to another by `turn` radians, the point where a pixel at distance R
from the centre looks up its value is accelerated by at most R, so it stays within
`R turn**2 / 8` of the point that moves evenly along the straight line between its two ends. On that
line the weight of a neighbour is a product of two tents, quadratic between grid lines, and so is
its distance from the chord between its two end values: extremes are at knots or at the vertex in
between. A weight changes by at most as much as its two coordinates. Hence, s of the way,

    (1 - s) first + s last + low  <=  weight  <=  (1 - s) first + s last + high.

A linear function of the weights is then largest at one of the two ends.

That is how the search bounds the weights, and its certificates rely on bounds that are no looser.
Here these bounds are only proposals: each is widened, if necessary, to the range that `turn_ranges`
finds by another argument, and the rest is checked against its ranges of rows and columns.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar_check.errors import Rejected
from vhagar_check.layers import Floats
from vhagar_check.turn_ranges import Turn, weight_ranges
from vhagar_check.turning import cosine_and_sine

Mask = NDArray[np.bool_]
Index = NDArray[np.int64]

_SNAP = 1e-9
# Bounds on the rounding error of a coordinate, per row and column of the image, and of a weight.
_COORDINATE, _WEIGHT = 2.0**-45, 2.0**-50
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
class _Way:
    """One coordinate of some sources: its two ends, its range along the arc, and how far the
    straight line between the ends can be from it."""

    begin: Floats
    end: Floats
    low: Floats
    high: Floats
    error: Floats
    count: int

    def near(self, pixel: Index, line: Index) -> _Way:
        """The coordinates of some pixels, each measured from a grid line."""
        begin, end, low, high = (
            part[pixel] - line for part in (self.begin, self.end, self.low, self.high)
        )
        return _Way(begin, end, low, high, self.error[pixel], self.count)

    def at(self, s: Floats) -> Floats:
        return _tent(self.begin[:, None] + s * (self.end - self.begin)[:, None])

    def kinks(self) -> Floats:
        with np.errstate(all="ignore"):
            found = (np.array([-1.0, 0.0, 1.0]) - self.begin[:, None]) / (self.end - self.begin)[
                :, None
            ]
        return np.clip(np.nan_to_num(found, posinf=1.0, neginf=0.0), 0.0, 1.0)


def _tent(distance: Floats) -> Floats:
    return np.maximum(0.0, 1.0 - abs(distance))


def offsets(plane: tuple[int, int]) -> tuple[Floats, Floats]:
    """The distances of each pixel below and to the right of the centre."""
    row, column = np.divmod(np.arange(plane[0] * plane[1]), plane[1])
    return row - (plane[0] - 1) / 2, column - (plane[1] - 1) / 2


def arc_between(plane: tuple[int, int], begin: float, end: float) -> Arc:
    """The arc over all angles from `begin` to `end`, in degrees."""
    rows, columns = _ways(plane, begin, end)
    inside = np.all([(w.low >= 0) & (w.high <= w.count - 1) for w in (rows, columns)], axis=0)
    possible = np.all([(w.high >= 0) & (w.low <= w.count - 1) for w in (rows, columns)], axis=0)
    pixel, row, column = _neighbours(rows, columns, possible)
    r, c = rows.near(pixel, row), columns.near(pixel, column)
    first, last, line, chord = _on_the_line(r, c)
    error = r.error + c.error + _WEIGHT
    least = np.minimum(_tent(r.low), _tent(r.high)) * np.minimum(_tent(c.low), _tent(c.high))
    least = np.maximum(line[0] - error, least - _WEIGHT)
    least = np.where(inside[pixel], np.maximum(least, 0.0), 0.0)
    most = _largest(r) * _largest(c) + _WEIGHT
    most = np.minimum(np.minimum(line[1] + error, most), 1.0)
    low = np.maximum(chord[0] - error, least - np.maximum(first, last) - _WEIGHT)
    high = np.minimum(chord[1] + error, most - np.minimum(first, last) + _WEIGHT)

    def total(values: Floats) -> Floats:
        return np.bincount(pixel, values, minlength=len(inside)).astype(np.float64)

    # Use the chord if it is tighter than the plain interval.
    chorded = inside & (total(high - low) <= total(most - least))
    capped = ~chorded & (total(most) > _LARGEST_SUM)
    use = chorded[pixel]
    begins, ends = np.where(use, first, 0.0), np.where(use, last, 0.0)
    bottom, top = np.where(use, low, least), np.where(use, high, most)
    turn = Turn(plane, begin, end)
    _require_all(turn, pixel, row, column, possible)
    lowest, highest = weight_ranges(turn, pixel, row, column, begins, ends)
    # At an angle at which a pixel is black, all its weights are 0.
    lowest = np.where(_leaves(turn)[pixel], np.minimum(lowest, -np.maximum(begins, ends)), lowest)
    bottom, top = np.minimum(bottom, lowest), np.maximum(top, highest)
    order = np.argsort(row * plane[1] + column, kind="stable")
    return Arc(
        pixel[order],
        (row * plane[1] + column)[order],
        begins[order],
        ends[order],
        bottom[order],
        np.where(capped[pixel], 0.0, top)[order],
        capped,
        ~possible,
    )


def _leaves(turn: Turn) -> Mask:
    """Mark pixels that may be black at some angle."""
    outside = [
        (low < 0) | (high > count - 1)
        for (low, high), count in zip(turn.ranges(), turn.plane, strict=True)
    ]
    return np.asarray(outside[0] | outside[1])


def _require_all(turn: Turn, pixel: Index, row: Index, column: Index, possible: Mask) -> None:
    """Refuse a list that lacks a neighbour with a weight, or a pixel that is not always black."""
    listed = set(zip(pixel.tolist(), row.tolist(), column.tolist(), strict=True))
    rows, columns = turn.ranges()
    for number in range(len(possible)):
        near = []
        for (low, high), count in zip((rows, columns), turn.plane, strict=True):
            lines = range(
                max(0, math.floor(low[number])), min(count - 1, math.ceil(high[number])) + 1
            )
            near.append([line for line in lines if low[number] - 1 < line < high[number] + 1])
        visible = all(
            high[number] >= 0 and low[number] <= count - 1
            for (low, high), count in zip((rows, columns), turn.plane, strict=True)
        )
        if visible and not (
            possible[number] and listed.issuperset(itertools.product([number], *near))
        ):
            raise Rejected("the weights of a rotation could not be bounded")


def _ways(plane: tuple[int, int], begin: float, end: float) -> tuple[_Way, _Way]:
    i, j = offsets(plane)
    radius = np.hypot(i, j)
    moves = radius > 0
    rounding = np.where(moves, _COORDINATE * sum(plane), 0.0)
    bend = radius * (math.radians(end - begin) * (1 + 1e-12)) ** 2 / 8 * (1 + 1e-12) + rounding
    ends = []
    for angle in (begin, end):
        cosine, sine = (float(part) for part in cosine_and_sine(angle))
        ends.append((i * cosine - j * sine, i * sine + j * cosine))
    found = []
    for axis, count in enumerate(plane):
        middle = (count - 1) / 2
        start, stop = ends[0][axis] + middle, ends[1][axis] + middle
        circle = radius * (1 + 1e-12) + rounding
        low = np.maximum(np.minimum(start, stop) - bend, middle - circle)
        high = np.minimum(np.maximum(start, stop) + bend, middle + circle)
        near = np.floor(high + 2 * _SNAP) >= np.ceil(low - 2 * _SNAP)
        error = bend + np.where(near & moves, 1.001 * _SNAP, 0.0)
        found.append(_Way(start, stop, _snapped(low), _snapped(high), error, count))
    return found[0], found[1]


def _snapped(coordinate: Floats) -> Floats:
    nearest = np.round(coordinate)
    return np.where(abs(coordinate - nearest) < _SNAP, nearest, coordinate)


def _largest(way: _Way) -> Floats:
    return _tent(np.maximum(0.0, np.maximum(way.low, -way.high)))


def _neighbours(rows: _Way, columns: _Way, possible: Mask) -> tuple[Index, Index, Index]:
    """List every pixel with every row and column that its source can be next to."""
    found: list[tuple[int, int, int]] = []
    for pixel in np.flatnonzero(possible).tolist():
        lines = []
        for way in (rows, columns):
            low, high = way.low[pixel], way.high[pixel]
            reach = range(max(0, math.floor(low)), min(way.count - 1, math.ceil(high)) + 1)
            lines.append([line for line in reach if low - 1 < line < high + 1])
        found += [(pixel, row, column) for row in lines[0] for column in lines[1]]
    table = np.array(found, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


Ends = tuple[Floats, Floats]


def _on_the_line(r: _Way, c: _Way) -> tuple[Floats, Floats, Ends, Ends]:
    """Bound the weight along the straight line: at both ends, its range, and its range off the
    chord."""
    ends = np.tile([0.0, 1.0], (len(r.begin), 1))
    knots = np.sort(np.concatenate([ends, r.kinks(), c.kinks()], axis=1), axis=1)
    middles = (knots[:, 1:] + knots[:, :-1]) / 2
    first, last = (r.at(ends) * c.at(ends)).T
    lines, chords = [], []
    for s in (knots, middles):
        weight = r.at(s) * c.at(s)
        lines.append(weight)
        chords.append(weight - (first[:, None] * (1 - s) + last[:, None] * s))
    return first, last, _extremes(*lines), _extremes(*chords)


def _extremes(knots: Floats, middles: Floats) -> Ends:
    """The range of a function that is quadratic between knots."""
    left, right = knots[:, :-1], knots[:, 1:]
    bend, slope = left - 2 * middles + right, right - left
    turns = abs(slope) < 2 * abs(bend)
    vertex = middles - np.where(turns, slope**2 / np.where(turns, 8 * bend, 1.0), 0.0)
    low = np.minimum(knots.min(axis=1), vertex.min(axis=1))
    return low, np.maximum(knots.max(axis=1), vertex.max(axis=1))
