"""Move inputs towards a domain: a heuristic that finds nearby inputs that satisfy its conditions.

The inputs are projected onto one condition after another, for some rounds: zonotope, rows, box.
Then integer entries are rounded, and the other entries are projected again. Finally, rows that must
hold with equality are solved exactly for one of their entries. `Domain.contains` tells whether the
result satisfies all conditions.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from vhagar.perturbation.domain_groups import Groups
from vhagar.perturbation.linear_rows import LinearRows
from vhagar.perturbation.zonotope import Zonotope

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Most rounds of projections onto all conditions.
_ROUNDS = 25
# Rows are satisfied with this margin, relative to their size.
_SPARE = 2.0**-24
# Entries of equalities are multiples of this, so that float64 holds their sums exactly.
_GRID = 2.0**-32


def projected(
    x: Array,
    box: tuple[Array, Array],
    groups: Groups,
    rows: LinearRows | None,
    zonotope: Zonotope | None,
) -> Array:
    """Change inputs `(..., size)` of the box so that the other conditions are likely to hold."""
    low, high = box
    given = np.array(x, dtype=np.float64).reshape(-1, len(low))
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


def _met(
    batch: Array,
    box: tuple[Array, Array],
    free: Mask,
    rows: LinearRows | None,
    zonotope: Zonotope | None,
) -> Array:
    """Project onto zonotope, rows and box in turn, for some rounds."""
    low, high = box
    for _ in range(_ROUNDS):
        before = batch.copy()
        if zonotope is not None:
            batch = np.where(free, zonotope.nearest(batch), batch)
        if rows is not None:
            _meet_rows(rows, low, high, free, batch)
        np.clip(batch, low, high, out=batch)
        if (batch == before).all():
            break
    return batch


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


def _meet_rows(rows: LinearRows, low: Array, high: Array, free: Mask, x: Array) -> None:
    """Take one step towards each row in turn, along its free entries that can still move."""
    for row in range(rows.count):
        entries = rows.entries(row)
        places = np.array([k for k in entries if free[k]], dtype=np.int64)
        if not len(places):
            continue
        weights = np.array([entries[int(k)] for k in places])
        every = np.array(list(entries), dtype=np.int64)
        value = x[:, every] @ np.array(list(entries.values()))
        spare = _SPARE * (abs(x[:, every]) @ abs(np.array(list(entries.values()))))
        spare = np.where(rows.low[row] == rows.high[row], 0.0, spare)
        lack = np.maximum(rows.low[row] + spare - value, 0.0)
        lack += np.minimum(rows.high[row] - spare - value, 0.0)
        if not lack.any():
            continue
        up = lack[:, None] * weights > 0
        can = np.where(up, x[:, places] < high[places], x[:, places] > low[places])
        size = (can * weights**2).sum(axis=1)
        step = np.where(size > 0, lack / np.where(size > 0, size, 1.0), 0.0)
        x[:, places] += step[:, None] * can * weights


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
