"""Upper bounds on a linear function over a domain with rows or a zonotope.

For any multipliers `y`, the maximum of `s.x` over the inputs of a box with `l <= C x <= h` is at
most

    sum over rows of max(l y, h y)  +  support of the box at s - C'y.

Each row's best multiplier, with the others fixed, is found exactly, because the sum is convex and
piecewise linear in it. If no two rows share an entry, the result is the maximum itself. Over a
zonotope alone the maximum has a closed form; the smaller of this and the box's bound is used.
"""

from __future__ import annotations

import numpy as np

from vhagar.array_types import Array
from vhagar.perturbation.domain.linear_rows import LinearRows
from vhagar.perturbation.domain.zonotope import Zonotope

Box = tuple[Array, Array]

# Passes over the multipliers of all rows, where rows share entries.
_SWEEPS = 3
# More than what one product loses to underflow, even where subnormal numbers are flushed to 0.
UNDERFLOW = float(np.finfo(np.float64).tiny)


def rows_support(rows: LinearRows, box: Box, s: Array) -> Array:
    """A bound `(batch,)` on `s.x` over the inputs of the box that satisfy the rows, rounded up."""
    low, high = box
    least, most = finite_ends(rows, box)
    y = multipliers(rows, box, s)
    pulled: Array = (rows.transposed @ y.T).T
    rest = s - pulled
    value = np.maximum(y * least, y * most).sum(axis=1)
    value = value + np.maximum(rest * low, rest * high).sum(axis=1)
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
