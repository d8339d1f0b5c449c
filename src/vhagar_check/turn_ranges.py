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
# Terms of the series of sine and cosine, and a bound on the rounding of these and, for each row and
# column of the image, of a coordinate.
_TERMS, _ROUNDING = 26, 2.0**-46
# Angles of an arc at which a coordinate is computed for its range.
_ANGLES = 9


def offsets(plane: tuple[int, int]) -> tuple[Floats, Floats]:
    """The distances of each pixel below and to the right of the centre."""
    height, width = plane
    row, column = np.divmod(np.arange(height * width), width)
    return row - (height - 1) / 2, column - (width - 1) / 2


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
    def rounding(self) -> float:
        """Bounds the rounding error of a coordinate, and that of a weight off a line."""
        return _ROUNDING * sum(self.plane)

    def sources(self, i: Floats, j: Floats, way: Floats) -> tuple[Floats, Floats]:
        """Row and column of the sources of pixels `(n, 1)`, `way` radians after the beginning."""
        cosine, sine = (float(part) for part in cosine_and_sine(self.begin))
        more_cosine, more_sine = _cosine_and_sine(way)
        c, s = cosine * more_cosine - sine * more_sine, sine * more_cosine + cosine * more_sine
        height, width = self.plane
        return i * c - j * s + (height - 1) / 2, i * s + j * c + (width - 1) / 2

    def ranges(self) -> list[tuple[Floats, Floats]]:
        """The ranges of the rows and columns of the pixels' sources over the arc."""
        i, j = offsets(self.plane)
        radius = np.hypot(i, j)
        way, step = np.linspace(0.0, self.turn, _ANGLES, retstep=True)
        room, reach = radius * step**2 / 8 + self.rounding, radius + self.rounding
        found = []
        for axis, values in enumerate(self.sources(i[:, None], j[:, None], way[None])):
            middle = (self.plane[axis] - 1) / 2
            low = np.maximum(values.min(axis=1) - room, middle - reach)
            high = np.minimum(values.max(axis=1) + room, middle + reach)
            found.append((snapped(low), snapped(high)))
        return found


def snapped(coordinate: Floats) -> Floats:
    nearest = np.round(coordinate)
    return np.where(abs(coordinate - nearest) < SNAP, nearest, coordinate)


def _cosine_and_sine(angle: Floats) -> tuple[Floats, Floats]:
    """Sum their Taylor series, with a remainder below rounding for angles up to a quarter turn.

    Over a whole turn it is below 2e-6, and `Turn.ranges` leaves much more room there.
    """
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
    i, j = (part[pixel] for part in offsets(arc.plane))
    radius = np.hypot(i, j)
    way = _ways(arc, i, j, row, column)
    u, v = arc.sources(i[:, None], j[:, None], way)
    u, v = u - row[:, None], v - column[:, None]
    # Both coordinates may be moved to a grid line.
    error = _between(u, v, np.diff(way, axis=1), radius[:, None]) + 2 * SNAP
    line = first[:, None] + (last - first)[:, None] * (way / arc.turn)
    (lower, upper), (below, above) = _ends(tent(u) * tent(v) - line), _ends(line)
    least, most = _product_range(arc, pixel, row, column)
    low = np.maximum(lower - error, least[:, None] - above)
    high = np.minimum(upper + error, most[:, None] - below)
    return low.min(axis=1) - arc.rounding, high.max(axis=1) + arc.rounding


def _product_range(arc: Turn, pixel: Index, row: Index, column: Index) -> tuple[Floats, Floats]:
    """Bound weights by the ranges of their rows and columns alone."""
    (top, bottom), (left, right) = arc.ranges()
    down = _tent_range(top[pixel] - row, bottom[pixel] - row)
    beside = _tent_range(left[pixel] - column, right[pixel] - column)
    return down[0] * beside[0], down[1] * beside[1]


def _tent_range(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    return np.minimum(tent(low), tent(high)), tent(np.maximum(0.0, np.maximum(low, -high)))


def tent(distance: Floats) -> Floats:
    return np.maximum(0.0, 1.0 - abs(distance))


def _ways(arc: Turn, i: Floats, j: Floats, row: Index, column: Index) -> Floats:
    """The angles at which weights are sampled, ascending from 0 to the arc's length: near the
    kinks of the tents, and enough in between for a small bound on the rest."""
    radius, phase = np.maximum(np.hypot(i, j), SNAP), np.arctan2(j, i)
    knots = [np.zeros(len(i)), np.full(len(i), arc.turn)]
    for line, count, shift in (
        (row, arc.plane[0], 0.0),
        (column, arc.plane[1], math.pi / 2),  # columns follow the sine, rows the cosine
    ):
        nearest = shift - phase - math.radians(arc.begin)  # where the coordinate is largest
        for kink in (line - 1, line, line + 1):
            away = np.arccos(np.clip((kink - (count - 1) / 2) / radius, -1.0, 1.0))
            for way in (nearest - away, nearest + away):
                knots.append(np.minimum(np.mod(way, math.tau), arc.turn))
    ends = np.sort(np.stack(knots, axis=1), axis=1)
    parts = math.ceil(math.sqrt(float(radius.max()) / 2 + 4)) + 2
    share = np.arange(parts) / parts
    between = ends[:, :-1, None] + np.diff(ends, axis=1)[:, :, None] * share
    inner = between.reshape(len(i), parts * (len(knots) - 1))
    return np.column_stack([inner, knots[1]])


def _ends(values: Floats) -> tuple[Floats, Floats]:
    """The smaller and the larger one of the values at both ends of each step."""
    before, after = values[:, :-1], values[:, 1:]
    return np.minimum(before, after), np.maximum(before, after)


def _between(u: Floats, v: Floats, step: Floats, radius: Floats) -> Floats:
    """How far a weight can be from the straight line between its values at two angles."""
    bend = radius * step**2 / 8
    smooth = (radius**2 + 4 * radius) * step**2 / 8
    down, beside = _kinked(u, bend), _kinked(v, bend)
    return np.asarray(1.001 * (smooth + down + beside + down * beside))


def _kinked(coordinate: Floats, bend: Floats) -> Floats:
    """How far a tent can be from the one that is continued beyond a kink."""
    low, high = _ends(coordinate)
    found = np.zeros_like(bend)
    for kink in (-1.0, 0.0, 1.0):
        # By how much the nearer of two values on both sides of a kink lies beyond it.
        beyond = np.maximum(np.minimum(high - kink, kink - low), 0.0)
        touched = (low - bend < kink) & (kink < high + bend)
        found += np.where(touched, 2 * (2 * beyond + bend), 0.0)
    return found
