"""Upper bounds on a linear function over a domain with rows or a zonotope.

For any multipliers `y`, the maximum of `s.x` over the inputs of a box with `l <= C x <= h` is at
most

    sum over rows of max(l y, h y)  +  support of the box at s - C'y.

Each row's best multiplier, with the others fixed, is found exactly, because the sum is convex and
piecewise linear in it. If no two rows share an entry, the result is the maximum itself. Over a
zonotope alone the maximum has a closed form. Inputs lie in the box and in the zonotope, so for
every `c` the maximum is at most the zonotope's at `c` plus the box's at `s - c`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.perturbation.domain.linear_rows import LinearRows
from vhagar.perturbation.domain.zonotope import Zonotope

Box = tuple[Array, Array]

# Passes over the multipliers of all rows, where rows share entries.
_SWEEPS = 3
# Rounds in which a box and a zonotope share coefficients; the checker makes as many.
# Measured: 30 components of MNIST's 2s, random coefficients: all but 5 % of what the best share
# gains, in 0.6 ms; half as many rounds 10 %, twice as many 3 %.
_ROUNDS = 32
# After some rounds, shares of a large zonotope are given up that can gain no more than a part of
# the range of all values.
# Measured: the same components on 3x10, `occlusion(14,14,5)` and `linf(0.02)` (PERFORMANCE.md).
_TRIAL, _WORTH = 8, 0.015
# More than what one product loses to underflow, even where subnormal numbers are flushed to 0.
UNDERFLOW = float(np.finfo(np.float64).tiny)


def rows_support(rows: LinearRows, box: Box, s: Array, zonotope: Zonotope | None = None) -> Array:
    """A bound `(batch,)` on `s.x` over the inputs of the box that satisfy the rows, rounded up.

    What the rows leave of `s` is bounded over the zonotope, too, if there is one.
    """
    low, high = box
    least, most = finite_ends(rows, box)
    y = multipliers(rows, box, s)
    pulled: Array = (rows.transposed @ y.T).T
    rest = s - pulled
    value = np.maximum(y * least, y * most).sum(axis=1)
    left = np.maximum(rest * low, rest * high).sum(axis=1)
    if zonotope is not None:
        left = np.fmin(left, shared_support(zonotope, box, rest))
    value = value + left
    magnitude = np.maximum(abs(low), abs(high))
    sizes = (abs(s) + (rows.absolute_transposed @ abs(y).T).T) @ magnitude
    sizes = sizes + abs(y) @ np.maximum(abs(least), abs(most))
    terms = 2 * rows.size + 2 * rows.count + 16
    lost = UNDERFLOW * terms * (1 + magnitude.sum() + rows.count)
    return np.asarray(value + 2.0**-51 * terms * sizes + lost)


def finite_ends(rows: LinearRows, box: Box) -> tuple[Array, Array]:
    """The ends of all rows; infinite ones are replaced by what the box implies, rounded outward."""
    if np.isfinite(rows.low).all() and np.isfinite(rows.high).all():
        return rows.low, rows.high
    low, high = box
    up, down = rows.signed_parts
    least, most = up @ low + down @ high, up @ high + down @ low
    room = 2.0**-40 * (rows.absolute @ np.maximum(abs(low), abs(high))) + 2.0**-900
    return (
        np.where(np.isfinite(rows.low), rows.low, least - room),
        np.where(np.isfinite(rows.high), rows.high, most + room),
    )


def multipliers(rows: LinearRows, box: Box, s: Array) -> Array:
    """Multipliers `(batch, rows)` that make the bound small; all multipliers are valid."""
    least, most = finite_ends(rows, box)
    y, rest = np.zeros((len(s), rows.count)), np.array(s)
    for _ in range(_SWEEPS if rows.share_entries else 1):
        for row, (places, weights) in enumerate(rows.parts):
            if not len(places):
                continue
            own = rest[:, places] + weights * y[:, [row]]
            ends = box[0][places], box[1][places]
            # Where the row holds at the box's maximum, 0 is best: nearly everywhere for most rows.
            value = np.where(own > 0, ends[1], ends[0]) @ weights
            broken = np.flatnonzero((value < least[row]) | (value > most[row]))
            y[:, row] = 0.0
            limits = least[row], most[row]
            if len(broken):
                y[broken, row] = best_multiplier(own[broken], weights, ends, limits)
            rest[:, places] = own - weights * y[:, [row]]
    return y


def best_multiplier(own: Array, weights: Array, box: Box, ends: tuple[float, float]) -> Array:
    """The multiplier `(batch,)` of one row that minimises the bound.

    The bound is convex and piecewise linear in it, with kinks where a coefficient becomes 0, and at
    0. The minimum is at the first kink beyond which the slope is not negative.
    """
    low, high = box
    slope = ends[0] - np.maximum(weights * low, weights * high).sum()
    kinks = np.concatenate([own / weights, np.zeros((len(own), 1))], axis=1)
    jumps = np.append(abs(weights) * (high - low), ends[1] - ends[0])
    order = np.argsort(kinks, axis=1, kind="stable")
    slopes = slope + np.cumsum(jumps[order], axis=1)
    reached = slopes >= 0
    first = np.where(reached.any(axis=1), reached.argmax(axis=1), len(jumps) - 1)
    found = np.take_along_axis(kinks, np.take_along_axis(order, first[:, None], 1), 1)[:, 0]
    return np.where(np.isfinite(found), found, 0.0)


def zonotope_support(zonotope: Zonotope, s: Array) -> Array:
    """The maximum `(batch,)` of `s.x` over a zonotope, rounded up."""
    along = abs(s @ zonotope.components.T)
    value = s @ zonotope.mean + along @ zonotope.ranges + abs(s) @ zonotope.residual
    reach = abs(zonotope.mean) + zonotope.ranges @ abs(zonotope.components) + zonotope.residual
    terms = zonotope.size + zonotope.count + 16
    lost = UNDERFLOW * terms * (1 + reach.sum() + zonotope.ranges.sum())
    return np.asarray(value + 2.0**-51 * terms * (abs(s) @ reach) + lost)


def shared_support(zonotope: Zonotope, box: Box, s: Array) -> Array:
    """A bound `(batch,)` on `s.x` over the inputs of a box and a zonotope, rounded up."""
    low, high = box
    share = zonotope_share(zonotope, box, s)
    rest = s - share
    value = np.maximum(rest * low, rest * high).sum(axis=1) + zonotope_support(zonotope, share)
    # The difference, the products and the sums are rounded.
    size = (abs(s) + abs(share)) @ np.maximum(abs(low), abs(high)) + abs(value)
    terms = zonotope.size + 16
    found = value + 2.0**-51 * terms * size + UNDERFLOW * terms
    return np.asarray(np.fmin(found, zonotope_support(zonotope, s)))


def zonotope_share(zonotope: Zonotope, box: Box, s: Array) -> Array:
    """The part `(batch, size)` of `s` that is bounded over a zonotope, the rest over a box.

    Any part is valid. At coordinates of the zonotope, an entry is limited by the box or by the
    zonotope, whose share its coefficient then is; given a share, some coordinates are best. Both
    answer the other's average so far, which makes the averages approach a best pair.
    """
    share = np.zeros_like(s)
    scaled = zonotope.components * zonotope.ranges[:, None]
    reach, (low, high) = abs(scaled).sum(axis=0), box
    room_above = high - (zonotope.mean + zonotope.residual)
    room_below = (zonotope.mean - zonotope.residual) - low
    limits = np.flatnonzero(np.maximum(room_above, room_below) > -reach)
    if not len(limits):  # the box is smaller, whatever the coordinates are
        return share
    room = np.where(s[:, limits] > 0, room_above[limits], room_below[limits])
    game = _Sharing(s[:, limits], room, scaled[:, limits])
    if zonotope.small:
        share[:, limits] = game.play(0, _ROUNDS)
        return share
    game.play(0, _TRIAL)
    worth = np.flatnonzero(game.most > _WORTH * (abs(s) @ (high - low)))
    share[np.ix_(worth, limits)] = game.part(worth).play(_TRIAL, _ROUNDS)
    return share


class _Sharing:
    """Shares of a zonotope, `(batch, entries)`, and its coordinates, which answer each other.

    `room` is by how much the box exceeds the zonotope's middle and residual, in the direction of
    the coefficients `s`; `moves` are the components times their ranges.
    """

    def __init__(self, s: Array, room: Array, moves: Array) -> None:
        self._s, self._room, self._moves, self._sign = s, room, moves, np.sign(s)
        self._share, self._at = np.zeros_like(s), np.zeros((len(s), len(moves)))

    def part(self, cases: NDArray[np.int64]) -> _Sharing:
        """Some of the cases, as they are now."""
        found = _Sharing(self._s[cases], self._room[cases], self._moves)
        found._share, found._at = self._share[cases], self._at[cases]
        return found

    def play(self, first: int, last: int) -> Array:
        """The shares after more rounds."""
        for turn in range(first, last):
            weight = 2 / (turn + 2)
            nearer = np.where(self._beyond > 0, self._s, 0.0)
            self._share += weight * (nearer - self._share)
            self._at += weight * (np.sign(self._share @ self._moves.T) - self._at)
        return self._share

    @property
    def most(self) -> Array:
        """More than any share can gain `(batch,)`."""
        return np.asarray((abs(self._s) * np.maximum(self._beyond, 0.0)).sum(axis=1))

    @property
    def _beyond(self) -> Array:
        """By how much the box exceeds the zonotope at the coordinates."""
        return np.asarray(self._room - self._sign * (self._at @ self._moves))
