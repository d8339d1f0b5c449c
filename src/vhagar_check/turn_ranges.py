"""Ranges of a rotation's weights over an arc of angles, by sampling with a bound on the rest.

The source of a pixel at distance R from the centre moves on a circle. Measured in rows and columns
from a neighbour, it is at `(u, v)`, and the neighbour's weight is `tent(u) tent(v)` with
`tent(u) = max(0, 1 - |u|)`. Take angles on both sides of all kinks of the tents. Between two that
are `step` radians apart

- `u` and `v` are within `R step**2 / 8` of the straight line between their values there, since
  their second derivatives are at most R, so they pass a kink by no more than that;
- where no tent has a kink, the second derivative of the weight is at most `R**2 + 4 R` (with room
  for tents that are continued beyond a kink), so the weight is within `step**2 / 8` times
  that of the straight line between its values;
- a tent differs from the one that is continued beyond a kink by at most twice the distance from
  it, and a product of two tents by at most the sum of their differences and the product of these.

Nothing depends on where the kinks are: an interval around one that was missed gets a wide range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar_check.layers import Floats
from vhagar_check.turning import cosine_and_sine

Index = NDArray[np.int64]

# A coordinate this close to a grid line lies on it.
SNAP = 1e-9
# Terms of the series of sine and cosine, and a bound on the rounding of these and of a coordinate,
# relative to the radius.
_TERMS, _ROUNDING = 26, 2.0**-46
# Steps over an arc in which the range of a coordinate is found.
_STEPS = 8


@dataclass(frozen=True, eq=False)
class Turn:
    """An arc of angles; `turn` is its length in radians, rounded up."""

    plane: tuple[int, int]
    begin: float
    end: float

    @property
    def turn(self) -> float:
        return math.radians(self.end - self.begin) * (1 + 1e-14)

    @property
    def offsets(self) -> tuple[Floats, Floats]:
        """The distances of each pixel below and to the right of the centre."""
        height, width = self.plane
        row, column = np.divmod(np.arange(height * width), width)
        return row - (height - 1) / 2, column - (width - 1) / 2

    def sources(self, i: Floats, j: Floats, way: Floats) -> tuple[Floats, Floats]:
        """Row and column of the sources of pixels `(n, 1)`, `way` radians after the beginning."""
        cosine, sine = (float(part) for part in cosine_and_sine(self.begin))
        more_cosine, more_sine = _cosine_and_sine(way)
        c, s = cosine * more_cosine - sine * more_sine, sine * more_cosine + cosine * more_sine
        height, width = self.plane
        return i * c - j * s + (height - 1) / 2, i * s + j * c + (width - 1) / 2

    def ranges(self) -> list[tuple[Floats, Floats]]:
        """The ranges of the rows and columns of the pixels' sources over the arc."""
        i, j = self.offsets
        radius = np.hypot(i, j) * (1 + 1e-12)
        step = self.turn / _STEPS
        room = radius * (step**2 / 8 + _ROUNDING)
        found = []
        way = np.linspace(0.0, self.turn, _STEPS + 1)[None]
        for values, count in zip(
            self.sources(i[:, None], j[:, None], way), self.plane, strict=True
        ):
            middle, reach = (count - 1) / 2, radius * (1 + _ROUNDING)
            low = np.maximum(values.min(axis=1) - room, middle - reach)
            high = np.minimum(values.max(axis=1) + room, middle + reach)
            found.append((snapped(low), snapped(high)))
        return found


def snapped(coordinate: Floats) -> Floats:
    nearest = np.round(coordinate)
    return np.where(abs(coordinate - nearest) < SNAP, nearest, coordinate)


def _cosine_and_sine(angle: Floats) -> tuple[Floats, Floats]:
    """Sum their Taylor series, with a remainder below rounding for angles up to a quarter turn."""
    cosine, sine, term = np.ones_like(angle), np.zeros_like(angle), np.ones_like(angle)
    for k in range(1, _TERMS):
        term = term * angle / k
        if k % 2:
            sine = sine + (term if k % 4 == 1 else -term)
        else:
            cosine = cosine + (term if k % 4 == 0 else -term)
    return cosine, sine


def weight_ranges(
    arc: Turn, pixel: Index, row: Index, column: Index, first: Floats, last: Floats
) -> tuple[Floats, Floats]:
    """The range of each neighbour's weight minus the line from `first` to `last`, over the arc."""
    if not len(pixel):  # all pixels may turn black
        return np.zeros(0), np.zeros(0)
    i, j = (part[pixel] for part in arc.offsets)
    radius = np.hypot(i, j)
    way = _ways(arc, i, j, row, column)
    u, v = arc.sources(i[:, None], j[:, None], way)
    u, v = u - row[:, None], v - column[:, None]
    line = first[:, None] + (last - first)[:, None] * (way / arc.turn)
    offs = tent(u) * tent(v) - line
    # Every weight belongs to a coordinate that may be rounded, and moved to a grid line.
    exact = np.where(radius > 0, 4 * _ROUNDING * (radius + 1) + 2.01 * SNAP, 0.0)[:, None]
    error = _between(u, v, np.diff(way, axis=1), radius[:, None]) + exact
    least, most = _product_range(arc, pixel, row, column)
    low = np.minimum(offs[:, 1:], offs[:, :-1]) - error
    low = np.maximum(low, least[:, None] - np.maximum(line[:, 1:], line[:, :-1]))
    high = np.maximum(offs[:, 1:], offs[:, :-1]) + error
    high = np.minimum(high, most[:, None] - np.minimum(line[:, 1:], line[:, :-1]))
    return low.min(axis=1), high.max(axis=1)


def _product_range(arc: Turn, pixel: Index, row: Index, column: Index) -> tuple[Floats, Floats]:
    """Bound weights by the ranges of their rows and columns alone."""
    least, most = np.ones(len(pixel)), np.ones(len(pixel))
    for (low, high), line in zip(arc.ranges(), (row, column), strict=True):
        begin, end = low[pixel] - line, high[pixel] - line
        least = least * np.minimum(tent(begin), tent(end))
        most = most * tent(np.maximum(0.0, np.maximum(begin, -end)))
    return np.maximum(least - _ROUNDING, 0.0), np.minimum(most + _ROUNDING, 1.0)


def tent(distance: Floats) -> Floats:
    return np.maximum(0.0, 1.0 - abs(distance))


def _ways(arc: Turn, i: Floats, j: Floats, row: Index, column: Index) -> Floats:
    """The angles at which weights are sampled, ascending from 0 to the arc's length: near the
    kinks of the tents, and enough in between for a small bound on the rest."""
    radius, phase = np.maximum(np.hypot(i, j), 1e-9), np.arctan2(j, i)
    begin = math.radians(arc.begin)
    knots = [np.zeros(len(i)), np.full(len(i), arc.turn)]
    for line, count, shift in (
        (row, arc.plane[0], 0.0),
        (column, arc.plane[1], math.pi / 2),  # columns follow the sine, rows the cosine
    ):
        for beside in (-1, 0, 1):
            share = np.clip((line + beside - (count - 1) / 2) / radius, -1.0, 1.0)
            for sign in (1.0, -1.0):
                way = shift - phase - begin + sign * np.arccos(share)
                knots.append(np.minimum(np.mod(way, 2 * math.pi), arc.turn))
    ends = np.sort(np.stack(knots, axis=1), axis=1)
    parts = math.ceil(math.sqrt(float(radius.max()) / 2 + 4)) + 2
    share = np.arange(parts) / parts
    between = ends[:, :-1, None] + np.diff(ends, axis=1)[:, :, None] * share
    return np.concatenate([between.reshape(len(i), -1), ends[:, -1:]], axis=1)


def _between(u: Floats, v: Floats, step: Floats, radius: Floats) -> Floats:
    """How far a weight can be from the straight line between its values at two angles."""
    bend = radius * step**2 / 8
    smooth = (radius**2 + 4 * radius) * step**2 / 8
    kinked = [np.zeros_like(bend), np.zeros_like(bend)]
    for k, part in enumerate((u, v)):
        low, high = np.minimum(part[:, 1:], part[:, :-1]), np.maximum(part[:, 1:], part[:, :-1])
        for kink in (-1.0, 0.0, 1.0):
            # By how much the nearer of two values on both sides of a kink lies beyond it.
            beyond = np.maximum(np.minimum(high - kink, kink - low), 0.0)
            touched = (low - bend < kink) & (kink < high + bend)
            kinked[k] += np.where(touched, 2 * (2 * beyond + bend), 0.0)
    return np.asarray(1.001 * (smooth + kinked[0] + kinked[1] + kinked[0] * kinked[1]))
