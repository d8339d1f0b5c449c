"""Detect empty domains, with a proof in rational arithmetic.

If multipliers `y` of the rows and `v` of the zonotope make the bound on the support of the domain
at 0 negative (`support`), no input can satisfy all conditions. A row that the ranges contradict is
found by interval arithmetic, however little is missing; otherwise a linear program proposes the
multipliers. The bound is computed from them without rounding. Where the program's solution has a
fraction instead of a whole number `k` to `k + 1`, both sides of it are tried: a domain is empty if
all parts are.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy import sparse

from vhagar.array_types import Array
from vhagar.errors import InvalidInput
from vhagar.perturbation.domain.domain import Domain

# Smaller contradictions, relative to the input range, are not reported.
_LEAST = 1e-9
# The smallest tolerance that the solver takes. With its default it overlooks what is below 1e-7.
_FEASIBLE = 1e-10
# Parts of a domain with whole numbers that are tried, and what counts as a whole number in an LP.
_MOST_PARTS, _WHOLE = 64, 1e-6

# Of the rows, and of the zonotope's entries.
Multipliers = tuple[Array, Array]


def require_inputs(domain: Domain) -> None:
    """Refuse a domain whose conditions contradict each other."""
    if domain.rows is None and domain.zonotope is None:
        return
    found = _impossible_row(domain) or _contradiction(domain)
    if found is not None:
        raise InvalidInput(
            f"the domain {domain} is empty: {_together(domain, *found)} contradict each other, "
            "as multipliers prove in rational arithmetic; loosen one of them"
        )


def _impossible_row(domain: Domain) -> tuple[Array, Array, bool] | None:
    """As `_contradiction`, if it takes only one row and the ranges of its entries."""
    rows = domain.rows
    for row in range(0 if rows is None else rows.count):
        assert rows is not None
        low, high = float(rows.low[row]), float(rows.high[row])
        least = most = Fraction(0)
        for k, weight in rows.entries(row).items():
            ends = [Fraction(weight) * Fraction(float(end[k])) for end in (domain.low, domain.high)]
            least, most = least + min(ends), most + max(ends)
        if (low > -np.inf and most < Fraction(low)) or (high < np.inf and least > Fraction(high)):
            return np.eye(1, rows.count, row)[0], np.zeros(domain.size), False
    return None


def _contradiction(domain: Domain) -> tuple[Array, Array, bool] | None:
    """The sums of the absolute multipliers that prove all parts of a domain empty, or None.

    Also returns whether there are several parts.
    """
    y = np.zeros(0 if domain.rows is None else domain.rows.count)
    v, left = np.zeros(domain.size), [domain]
    for number in range(_MOST_PARTS):
        part = left.pop()
        x, proposed = _solved(part)
        if proposed is not None and exact_support_at_zero(part, *proposed) < 0:
            y, v = y + abs(proposed[0]), v + abs(proposed[1])
        elif proposed is None and x is not None:
            halves = _halves(part, x)
            if not halves:
                return None
            left += halves
        else:
            return None
        if not left:
            return y, v, number > 0
    return None


def _halves(domain: Domain, x: Array) -> list[Domain]:
    """Both sides of the whole number whose value is the least clear; empty if all are clear."""
    whole = domain.groups.whole
    unclear = abs(x[whole] - np.rint(x[whole]))
    if not len(whole) or unclear.max() <= _WHOLE:
        return []
    k = int(whole[unclear.argmax()])
    low, high = domain.low.copy(), domain.high.copy()
    high[k], low[k] = np.floor(x[k]), np.floor(x[k]) + 1
    return [domain.with_box(domain.low.copy(), high), domain.with_box(low, domain.high.copy())]


def _together(domain: Domain, y: Array, v: Array, in_parts: bool) -> str:
    """The conditions that contradict each other: those with a multiplier."""
    parts = [_row_words(domain, int(row)) for row in np.flatnonzero(y)]
    if v.any():
        parts.append("its zonotope")
    ranges = "the ranges of its entries"
    if in_parts:
        ranges += ", of which some are whole numbers,"
    return f"{', '.join(parts)} and {ranges}"


def _row_words(domain: Domain, row: int) -> str:
    """A row as the user gave it: one of [[rows]] by its place, a group by its entries."""
    own = 0 if domain.own_rows is None else domain.own_rows.count
    if row < own:
        return f"row {row + 1} of {own}"
    names = [domain.entry_name(k) for k in _group_of_row(domain, row - own)]
    kind = "one_hot" if row - own < len(domain.groups.one_hot) else "ordered"
    return f"the {kind} group [{', '.join(names)}]"


def _group_of_row(domain: Domain, row: int) -> tuple[int, ...]:
    """The group behind a row: one for each one-hot group, then one for each ordered pair."""
    hot = domain.groups.one_hot
    if row < len(hot):
        return hot[row]
    pairs = [group for group in domain.groups.ordered for _ in group[1:]]
    return pairs[row - len(hot)]


def exact_support_at_zero(domain: Domain, y: Array, v: Array) -> Fraction:
    """The bound on `0.x` over the domain that the multipliers give, without rounding."""
    total, rest = Fraction(0), [-Fraction(float(part)) for part in v]
    for row, weight in enumerate(map(Fraction, y.tolist())):
        if not weight:
            continue
        assert domain.rows is not None
        end = float((domain.rows.high if weight > 0 else domain.rows.low)[row])
        if not np.isfinite(end):
            return Fraction(1)
        total += weight * Fraction(end)
        for k, each in domain.rows.entries(row).items():
            rest[k] -= weight * Fraction(each)
    if domain.zonotope is not None:
        total += _exact_zonotope(domain, v)
    for value, low, high in zip(rest, domain.low.tolist(), domain.high.tolist(), strict=True):
        total += max(value * Fraction(low), value * Fraction(high))
    return total


def _exact_zonotope(domain: Domain, v: Array) -> Fraction:
    """The zonotope's support at `v`."""
    own = domain.zonotope
    assert own is not None
    weights = [Fraction(float(part)) for part in v]
    pairs = zip(weights, own.mean.tolist(), own.residual.tolist(), strict=True)
    total = sum((w * Fraction(m) + abs(w) * Fraction(r) for w, m, r in pairs), Fraction(0))
    for row, end in zip(own.components, own.ranges.tolist(), strict=True):
        terms = (w * Fraction(float(b)) for w, b in zip(weights, row, strict=True) if w and b)
        total += abs(sum(terms, Fraction(0))) * Fraction(end)
    return total


def _solved(domain: Domain) -> tuple[Array | None, Multipliers | None]:
    """An input, from a linear program, or multipliers if that finds the domain empty.

    Whole numbers may be fractions.
    """
    from scipy.optimize import linprog

    size, blocks, ends = domain.size, [], []
    own, rows = domain.zonotope, domain.rows
    count = 0 if own is None else own.count
    if rows is not None:
        wide = sparse.hstack([rows.matrix, sparse.csr_array((rows.count, count))])
        blocks += [wide, -wide]
        ends += [rows.high, -rows.low]
    if own is not None:
        wide = sparse.hstack([sparse.eye_array(size), -sparse.csr_array(own.components.T)])
        blocks += [wide, -wide]
        ends += [own.mean + own.residual, own.residual - own.mean]
    matrix, limit = sparse.csr_array(sparse.vstack(blocks)), np.concatenate(ends)
    there = np.isfinite(limit)
    with_slack = sparse.csr_array(sparse.hstack([matrix[there], -np.ones((int(there.sum()), 1))]))
    low = np.concatenate([domain.low, np.zeros(0) if own is None else -own.ranges, [0.0]])
    high = np.concatenate([domain.high, np.zeros(0) if own is None else own.ranges, [np.inf]])
    cost = np.append(np.zeros(size + count), 1.0)
    bounds = np.stack([low, high], axis=1)
    options = {"primal_feasibility_tolerance": _FEASIBLE, "dual_feasibility_tolerance": _FEASIBLE}
    found = linprog(cost, with_slack, limit[there], bounds=bounds, method="highs", options=options)
    if found.x is None:
        return None, None
    if found.fun <= _LEAST * max(domain.width, domain.magnitude):
        return found.x[:size], None
    duals = np.zeros(len(limit))
    duals[there] = -np.minimum(found.ineqlin.marginals, 0.0)
    used = 0 if rows is None else rows.count
    y, rest = duals[:used] - duals[used : 2 * used], duals[2 * used :]
    v = np.zeros(size) if own is None else rest[:size] - rest[size:]
    return None, (y, v)
