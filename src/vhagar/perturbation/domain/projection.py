"""Move inputs towards a domain: a heuristic that finds nearby inputs that satisfy its conditions.

Inputs are projected onto the zonotope and onto the rows within the box in turn. The nearest input
of the box that satisfies the rows is found by dual coordinate ascent (Hildreth's method): every row
has a multiplier `y`, the input is `x + C'y`, clipped to the box, and a row's multiplier is the one
at which its value is as required. With one row this is the nearest input itself.

Then integer entries are rounded, and the other entries are projected again. Finally, rows that must
hold with equality are solved exactly for one of their entries. `Domain.contains` tells whether the
result satisfies all conditions.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from vhagar.array_types import Array, Mask
from vhagar.perturbation.domain.groups import Groups
from vhagar.perturbation.domain.linear_rows import LinearRows
from vhagar.perturbation.domain.zonotope import Zonotope

Box = tuple[Array, Array]

# Most rounds of projections onto all conditions: for a witness, and for each step of an attack.
_ROUNDS, _QUICK_ROUNDS = 25, 4
# Linear programs find near points of a zonotope for so many inputs, least squares for more.
_FEW = 2
# How far float32 may have moved an input from its coordinates in a zonotope, relative to residuals.
_SLACK = 1e-4
# Numbers of inputs that are projected together, which bounds the memory.
_MOST_AT_ONCE = 2**20
# Rows are satisfied with this margin, relative to their size; by how much it grows, and the most.
_SPARE, _MORE_SPARE, _MOST_SPARE = 2.0**-24, 4.0, 2.0**-10
# Passes over all rows in one round, and steps of Newton's method for each; the relative error of a
# row's value at which they end.
_PASSES, _NEWTON_STEPS, _CLOSE = 6, 12, 1e-13
# Entries of equalities are multiples of this, so that float64 holds their sums exactly.
_GRID = 2.0**-32


def projected(
    x: Array,
    box: Box,
    groups: Groups,
    rows: LinearRows | None,
    zonotope: Zonotope | None,
) -> Array:
    """Change inputs `(..., size)` of the box so that the other conditions are likely to hold."""
    low, high = box
    given = np.array(x, dtype=np.float64).reshape(-1, len(low))
    if given.size > _MOST_AT_ONCE and len(given) > 1:
        halves = np.array_split(given, 2)
        parts = [projected(half, box, groups, rows, zonotope) for half in halves]
        return np.concatenate(parts).reshape(np.shape(x))
    batch = given.copy()
    free = np.ones(len(low), dtype=np.bool_)
    if len(groups.whole):
        # Integer entries are rounded from where they would be without integrality.
        batch = _met(batch, box, free, rows, zonotope)
        _make_whole(groups, low, high, batch)
        free[groups.whole] = False
    batch = _met(batch, box, free, rows, zonotope)
    if rows is not None:
        _solve_equalities(rows, free, batch)
    found = np.clip(batch, low, high)
    kept = _holds(given, groups, rows, zonotope)
    return np.where(kept[:, None], given, found).reshape(np.shape(x))


def approached(
    x: Array, box: Box, groups: Groups, rows: LinearRows | None, zonotope: Zonotope | None
) -> Array:
    """As `projected`, up to rounding errors and in less time: for steps of an attack."""
    given = np.array(x, dtype=np.float64).reshape(-1, len(box[0]))
    free = np.ones(len(box[0]), dtype=np.bool_)
    if len(groups.whole):
        given = _met(given, box, free, rows, zonotope, _QUICK_ROUNDS)
        _make_whole(groups, *box, given)
        free[groups.whole] = False
    found = _met(given, box, free, rows, zonotope, _QUICK_ROUNDS)
    return np.clip(found, *box).reshape(np.shape(x))


def _met(
    batch: Array,
    box: Box,
    free: Mask,
    rows: LinearRows | None,
    zonotope: Zonotope | None,
    rounds: int = _ROUNDS,
) -> Array:
    """Project onto the zonotope, and onto the rows and the box, in turn for some rounds.

    Rows that share entries are met only in the limit; so each round asks for a larger margin.
    """
    few = zonotope is not None and len(batch) <= _FEW and rounds > _QUICK_ROUNDS
    z = zonotope.witnesses(batch, _SLACK)[0] if zonotope is not None and few else None
    spare = _SPARE
    for _ in range(rounds):
        before = batch
        if zonotope is not None:
            batch = np.where(free, zonotope.nearest(batch, z), batch)
        batch = nearest_in_rows(rows, box, free, batch, spare)
        open_ = zonotope is not None and (batch != before).any()
        if not open_ and (rows is None or not rows.lack(batch, 0.0).any()):
            break
        spare = min(_MORE_SPARE * spare, _MOST_SPARE)
    return batch


def nearest_in_rows(
    rows: LinearRows | None, box: Box, free: Mask, given: Array, spare: float
) -> Array:
    """Inputs `(batch, size)` of the box that are the nearest ones, or almost, that meet the rows.

    Only free entries move. What a few passes over all rows do not achieve is left.
    """
    low, high = box
    x = np.where(free, np.clip(given, low, high), given)
    if rows is None:
        return x
    y, pulled = np.zeros((len(x), rows.count)), np.zeros_like(x)
    for _ in range(_PASSES):
        lack = rows.lack(x, spare)
        if not lack.any():
            break
        involved = (lack != 0) | (y != 0)
        cases = np.flatnonzero(lack.any(axis=1))
        for row in np.flatnonzero(involved[cases].any(axis=0)).tolist():
            entries, every = rows.parts[row]
            places, weights = entries[free[entries]], every[free[entries]]
            if not len(places):
                continue
            at = np.ix_(cases, places)
            still = given[at] + pulled[at] - y[cases, row][:, None] * weights
            # What the row lacks where its own multiplier is 0.
            x[at] = np.clip(still, low[places], high[places])
            lack = rows.lack_of(row, x[cases], spare)
            y[cases, row] = _multiplier(still, weights, (low[places], high[places]), lack)
            pulled[at] = still - given[at] + y[cases, row][:, None] * weights
            x[at] = np.clip(given[at] + pulled[at], low[places], high[places])
    return x


def _multiplier(still: Array, weights: Array, box: Box, lack: Array) -> Array:
    """The multiplier `y` `(batch,)` that adds what is lacking to `weights.clip(still + y weights)`.

    This value does not descend in `y` and is piecewise linear. A few steps of Newton's method
    nearly always find the multiplier.
    """
    inside = np.clip(still, *box)
    wanted, y = inside @ weights + lack, np.zeros(len(still))
    close = _CLOSE * (abs(inside) @ abs(weights) + abs(lack))
    below, above = np.full(len(still), -np.inf), np.full(len(still), np.inf)
    squares, open_ = weights**2, np.flatnonzero(lack)
    for _ in range(_NEWTON_STEPS):
        point = still[open_] + y[open_][:, None] * weights
        inside = np.clip(point, *box)
        gap = wanted[open_] - inside @ weights
        left = abs(gap) > close[open_]
        slope = (inside == point) @ squares
        open_, gap, slope = open_[left], gap[left], slope[left]
        if not len(open_):
            return y
        below[open_] = np.where(gap > 0, y[open_], below[open_])
        above[open_] = np.where(gap < 0, y[open_], above[open_])
        step = y[open_] + gap / np.where(slope > 0, slope, np.inf)
        middle = (below[open_] + above[open_]) / 2
        between = (step > below[open_]) & (step < above[open_])
        y[open_] = np.where(between | ~np.isfinite(middle), step, middle)
    y[open_] = _exact_multiplier(still[open_], weights, box, wanted[open_])
    return y


def _exact_multiplier(still: Array, weights: Array, box: Box, wanted: Array) -> Array:
    """As `_multiplier`, from the sorted kinks, where an entry comes to an end of its range."""
    low, high = box
    up = np.where(weights > 0, high, low)
    down = np.where(weights > 0, low, high)
    kinks = np.concatenate([(down - still) / weights, (up - still) / weights], axis=1)
    squares = weights**2
    order = np.argsort(kinks, axis=1)
    kinks = np.take_along_axis(kinks, order, axis=1)
    slopes = np.cumsum(np.concatenate([squares, -squares])[order], axis=1)
    steps = np.maximum(slopes[:, :-1], 0.0) * np.diff(kinks, axis=1)
    values = np.concatenate([np.full((len(still), 1), down @ weights), steps], axis=1)
    values = np.cumsum(values, axis=1)
    # The segment that ends at the first kink with at least the value wanted.
    place = np.clip((values < wanted[:, None]).sum(axis=1), 1, kinks.shape[1] - 1)
    cases = np.arange(len(still))
    slope = slopes[cases, place - 1]
    short = wanted - values[cases, place - 1]
    step = np.where(slope > 0, short / np.where(slope > 0, slope, 1.0), 0.0)
    first, last = kinks[cases, place - 1], kinks[cases, place]
    found = np.clip(first + step, first, last)
    return np.where(np.isfinite(found), found, 0.0)


def _holds(x: Array, groups: Groups, rows: LinearRows | None, zonotope: Zonotope | None) -> Mask:
    """Which inputs of the box already satisfy all conditions; this quick test may miss some."""
    found = groups.contains(x)
    if rows is not None:
        found &= rows.contains(x)
    if zonotope is not None:
        found &= zonotope.admits(x, zonotope.coordinates(x))
    return found


def _make_whole(groups: Groups, low: Array, high: Array, x: Array) -> None:
    whole = groups.whole
    x[:, whole] = np.clip(np.rint(x[:, whole]), low[whole], high[whole])
    for group in groups.one_hot:
        members = np.array(group)
        # The largest entry that may be 1 wins, unless another must be 1.
        score = np.where(high[members] >= 1, x[:, members], -np.inf)
        score = np.where(low[members] >= 1, np.inf, score)
        x[:, members] = 0.0
        x[np.arange(len(x)), members[score.argmax(axis=1)]] = 1.0


def _solve_equalities(rows: LinearRows, free: Mask, x: Array) -> None:
    """Set one free entry of every equality so that it holds exactly, if it has a free entry."""
    for row in np.flatnonzero(rows.low == rows.high):
        entries = rows.entries(int(row))
        candidates = sorted((abs(abs(w) - 1), k) for k, w in entries.items() if free[k])
        if not candidates:
            continue
        k, wanted = candidates[0][1], Fraction(float(rows.low[row]))
        places = [place for place in entries if free[place]]
        x[:, places] = np.rint(x[:, places] / _GRID) * _GRID
        for case in x:
            rest = rows.exact_value(int(row), case) - Fraction(entries[k]) * Fraction(case[k])
            case[k] = float((wanted - rest) / Fraction(entries[k]))
