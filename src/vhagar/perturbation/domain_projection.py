"""Inputs near to given ones that satisfy a domain's conditions, as far as a few steps find them.

The conditions are met one after another, for some rounds: the box, the zonotope, the rows. Then
whole numbers are rounded, and the other entries follow. In the end rows that must hold with
equality are solved exactly for one of their entries. Whoever needs to be certain asks
`Domain.contains`.
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

# How often the conditions are met one after another.
_ROUNDS = 25
# Rows are met with this much to spare, relative to their size.
_SPARE = 2.0**-24
# Entries of equalities are multiples of this, so that sums of them are numbers of float64.
_GRID = 2.0**-32


def projected(
    x: Array,
    box: tuple[Array, Array],
    groups: Groups,
    rows: LinearRows | None,
    zonotope: Zonotope | None,
) -> Array:
    """Inputs `(..., size)` in the box, changed so that the other conditions hold as well."""
    low, high = box
    given = np.array(x, dtype=np.float64).reshape(-1, len(low))
    batch = given.copy()
    free = np.ones(len(low), dtype=np.bool_)
    if len(groups.whole):
        # Whole numbers are those nearest to where they would be as any others.
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
    """Inputs that meet zonotope, rows and box one after another, for some rounds."""
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
    """Which inputs of the box satisfy all conditions already, as far as a quick look tells."""
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
        # The largest entry wins, among those that may be 1; an entry that must be 1 does.
        score = np.where(high[members] >= 1, x[:, members], -np.inf)
        score = np.where(low[members] >= 1, np.inf, score)
        x[:, members] = 0.0
        x[np.arange(len(x)), members[score.argmax(axis=1)]] = 1.0


def _meet_rows(rows: LinearRows, low: Array, high: Array, free: Mask, x: Array) -> None:
    """One step towards each row in turn, along its free entries that can still move."""
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
    """Give one free entry of every equality the value that makes it hold exactly, if it has one."""
    for row in np.flatnonzero(rows.low == rows.high):
        entries = rows.entries(int(row))
        candidates = sorted((abs(abs(w) - 1), k) for k, w in entries.items() if free[k])
        if not candidates:
            continue
        k, goal = candidates[0][1], Fraction(float(rows.low[row]))
        places = [place for place in entries if free[place]]
        x[:, places] = np.rint(x[:, places] / _GRID) * _GRID
        for case in x:
            rest = rows.exact_value(int(row), case) - Fraction(entries[k]) * Fraction(case[k])
            case[k] = float((goal - rest) / Fraction(entries[k]))
