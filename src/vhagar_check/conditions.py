"""Conditions on inputs besides the ranges of their entries: rows, a zonotope, groups of entries.

For any multipliers `y`, a maximum of `s.x` over inputs of a box with `l <= C x <= h` is at most

    sum over rows of max(l y, h y)  +  support of the box at s - C'y.

The multipliers are found here, row by row; any would be valid. Integrality is ignored: the bound
holds for all inputs that satisfy the rows. A zonotope may bound a part of what the rows leave of
`s`, the box the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from vhagar_check.box_supports import Box, exact_box_support
from vhagar_check.container import require_keys
from vhagar_check.errors import Rejected
from vhagar_check.layers import TINY, UNDERFLOW, Floats, Indices, gamma
from vhagar_check.zonotope import Zonotope, read_zonotope

_KEYS = frozenset(
    ("lower", "upper", "integer", "one_hot", "ordered", "rows", "zonotope", "perturbed_inside")
)
_ROW_KEYS = frozenset(("entries", "weights", "at_least", "at_most"))
# How often the multipliers of all rows are improved if rows share entries.
_SWEEPS = 3


@dataclass(frozen=True, eq=False)
class Row:
    """`low <= weights.x[entries] <= high`; a missing end is infinite."""

    entries: Indices
    weights: Floats
    low: float
    high: float

    def within(self, box: Box) -> tuple[float, float]:
        """Both ends; a missing end is replaced by what the box implies, rounded outward."""
        if np.isfinite(self.low) and np.isfinite(self.high):
            return self.low, self.high
        low, high = (end[self.entries] for end in box)
        room = 2.0**-40 * float(abs(self.weights) @ np.maximum(abs(low), abs(high))) + 2.0**-900
        least = float(np.minimum(self.weights * low, self.weights * high).sum()) - room
        most = float(np.maximum(self.weights * low, self.weights * high).sum()) + room
        return (
            self.low if np.isfinite(self.low) else least,
            self.high if np.isfinite(self.high) else most,
        )

    def holds(self, x: list[Fraction]) -> bool:
        """Whether an input satisfies the row, exactly."""
        pairs = zip(self.weights.tolist(), self.entries.tolist(), strict=True)
        value = sum((Fraction(weight) * x[k] for weight, k in pairs), Fraction(0))
        above = self.low == -np.inf or value >= Fraction(self.low)
        return above and (self.high == np.inf or value <= Fraction(self.high))


@dataclass(frozen=True, eq=False)
class Conditions:
    """All conditions besides ranges: `own_rows` are stated, `rows` includes those of groups."""

    own_rows: tuple[Row, ...]
    integer: tuple[int, ...]
    one_hot: tuple[tuple[int, ...], ...]
    ordered: tuple[tuple[int, ...], ...]
    zonotope: Zonotope | None
    perturbed_inside: bool

    @property
    def rows(self) -> list[Row]:
        found = list(self.own_rows)
        found += [_row(group, [1.0] * len(group), 1.0, 1.0) for group in self.one_hot]
        for group in self.ordered:
            found += [_row(pair, [1.0, -1.0], -np.inf, 0.0) for pair in pairwise(group)]
        return found

    @property
    def whole(self) -> set[int]:
        """The entries that are whole numbers."""
        return {*self.integer, *(k for group in self.one_hot for k in group)}

    def contains(self, x: list[Fraction], coordinates: Any) -> bool:
        """Whether an input with these zonotope coordinates satisfies all conditions."""
        inside = all(x[k].denominator == 1 for k in self.whole)
        inside = inside and all(x[k] in (0, 1) for group in self.one_hot for k in group)
        inside = inside and all(row.holds(x) for row in self.rows)
        if self.zonotope is not None:
            inside = inside and self.zonotope.contains(x, coordinates or ())
        return inside

    def support(self, box: Box, s: Floats) -> Floats:
        """A bound on `s.x` over the inputs of the box that satisfy the conditions, rounded up."""
        found = np.full(len(s), np.inf)
        if self.rows:
            found = self._rows_support(box, s)
        if self.zonotope is not None:
            found = np.fmin(found, self.zonotope.shared_support(box, s))
        return found

    def _rows_support(self, box: Box, s: Floats) -> Floats:
        y, rest = self._multipliers(box, s), np.array(s)
        total, size, terms = np.zeros(len(s)), abs(s), 2 * s.shape[1] + 2 * len(self.rows) + 32
        ends_size = np.zeros(len(s))
        for k, row in enumerate(self.rows):
            low, high = row.within(box)
            rest[:, row.entries] -= y[:, [k]] * row.weights
            size[:, row.entries] += abs(y[:, [k]] * row.weights)
            total += np.maximum(y[:, k] * low, y[:, k] * high)
            ends_size += abs(y[:, k]) * max(abs(low), abs(high))
        left = np.maximum(rest * box[0], rest * box[1]).sum(axis=1)
        if self.zonotope is not None:
            left = np.fmin(left, self.zonotope.shared_support(box, rest))
        total += left
        magnitude = np.maximum(abs(box[0]), abs(box[1]))
        lost = UNDERFLOW * terms * (1 + magnitude.sum() + len(self.rows)) + TINY
        return np.asarray(total + 1.01 * gamma(terms) * (size @ magnitude + ends_size) + lost)

    @property
    def linear(self) -> bool:
        """Whether there are rows or a zonotope."""
        return bool(self.rows) or self.zonotope is not None

    def pulled(self, box: Box, s: Floats) -> Floats:
        """What the rows, each times its multiplier, and then the zonotope take of `s`."""
        found = np.zeros_like(s)
        if self.rows:
            y = self._multipliers(box, s)
            for k, row in enumerate(self.rows):
                found[:, row.entries] += y[:, [k]] * row.weights
        if self.zonotope is not None:
            found += self.zonotope.share(box, s - found)
        return found

    def _multipliers(self, box: Box, s: Floats) -> Floats:
        """Multipliers that make the bound small, `(cases, rows)`."""
        rows, rest = self.rows, np.array(s)
        y = np.zeros((len(s), len(rows)))
        every = np.concatenate([row.entries for row in rows])
        for _ in range(1 if len(np.unique(every)) == len(every) else _SWEEPS):
            for k, row in enumerate(rows):
                if not len(row.entries):
                    continue
                own = rest[:, row.entries] + row.weights * y[:, [k]]
                low, high = (end[row.entries] for end in box)
                least, most = row.within(box)
                # The row needs no multiplier where it holds at the maximum over the box.
                value = np.where(own > 0, high, low) @ row.weights
                broken = np.flatnonzero((value < least) | (value > most))
                y[:, k] = 0.0
                if len(broken):
                    y[broken, k] = _best(own[broken], row, box)
                rest[:, row.entries] = own - row.weights * y[:, [k]]
        return y

    def exact_support(self, box: Box, s: list[Fraction]) -> Fraction | None:
        """As `support`, in exact arithmetic; None if there is no bound."""
        found: list[Fraction] = []
        if self.rows:
            rounded = np.array([[float(v) for v in s]])
            y = self._multipliers(box, rounded)[0]
            if np.isfinite(y).all():
                found.append(self._exact_rows(box, s, y))
        if self.zonotope is not None:
            found.append(self.zonotope.exact_shared(box, s))
        return min(found) if found else None

    def _exact_rows(self, box: Box, s: list[Fraction], y: Floats) -> Fraction:
        total, rest = Fraction(0), list(s)
        for row, weight in zip(self.rows, map(Fraction, y.tolist()), strict=True):
            total += max(weight * Fraction(end) for end in row.within(box))
            for k, each in zip(row.entries.tolist(), row.weights.tolist(), strict=True):
                rest[k] -= weight * Fraction(each)
        left = [exact_box_support(box, rest)]
        if self.zonotope is not None:
            left.append(self.zonotope.exact_shared(box, rest))
        return total + min(left)

    @property
    def numbers(self) -> bytes:
        """All numbers, for the domain's SHA-256."""
        found = [(b"integer", self.integer)] if self.integer else []
        found += [(b"one_hot", group) for group in self.one_hot]
        found += [(b"ordered", group) for group in self.ordered]
        data = [tag + np.array(group, dtype="<i8").tobytes() for tag, group in found]
        if self.own_rows:
            data.append(b"rows")
        for row in self.own_rows:
            data.append(np.array([len(row.entries), *row.entries], dtype="<i8").tobytes())
            ends = row.low + 0.0, row.high + 0.0
            data.append(np.array([*row.weights, *ends], dtype="<f8").tobytes())
        if self.zonotope is not None:
            own = self.zonotope
            data.append(b"zonotope" + np.array(own.components.shape, dtype="<i8").tobytes())
            parts = (own.mean, own.components, own.ranges, own.residual)
            data += [(part + 0.0).astype("<f8").tobytes() for part in parts]
        return b"".join([*data, b"perturbed" if self.perturbed_inside else b""])

    @property
    def words(self) -> list[str]:
        """Describe the conditions, one on each line."""
        found = [f"entry {k} is a whole number" for k in self.integer]
        found += [f"one of the entries {_listed(g)} is 1, the others are 0" for g in self.one_hot]
        found += [f"the entries {_listed(g)} do not descend" for g in self.ordered]
        if self.own_rows:
            found.append(f"{len(self.own_rows)} linear rows hold")
        if self.zonotope is not None:
            count = len(self.zonotope.ranges)
            found.append(f"the input lies in a zonotope of {count} components with residuals")
        if self.perturbed_inside:
            found.append("the perturbed input lies in the domain, too")
        return found


def _best(own: Floats, row: Row, box: Box) -> Floats:
    """Choose the multiplier of a row that minimises the bound.

    The bound is convex and piecewise linear in the multiplier, with kinks where a coefficient
    becomes 0, and at 0. Beyond the minimum, the slope is not negative.
    """
    low, high = (end[row.entries] for end in box)
    least, most = row.within(box)
    kinks = np.concatenate([own / row.weights, np.zeros((len(own), 1))], axis=1)
    jumps = np.append(abs(row.weights) * (high - low), most - least)
    order = np.argsort(kinks, axis=1, kind="stable")
    start = least - np.maximum(row.weights * low, row.weights * high).sum()
    rising = start + np.cumsum(jumps[order], axis=1) >= 0
    place = np.where(rising.any(axis=1), rising.argmax(axis=1), len(jumps) - 1)
    found = kinks[np.arange(len(own)), order[np.arange(len(own)), place]]
    return np.where(np.isfinite(found), found, 0.0)


def read_conditions(given: Any, size: int) -> Conditions | None:
    """Read the conditions of a certificate's domain; None without any."""
    require_keys(given, _KEYS, "domain")
    integer = _group(given.get("integer", []), size)
    one_hot, ordered = (
        tuple(_group(group, size) for group in given.get(key, [])) for key in ("one_hot", "ordered")
    )
    rows = tuple(_read_row(row, size) for row in given.get("rows", []))
    zonotope = None if "zonotope" not in given else read_zonotope(given["zonotope"], size)
    inside = given.get("perturbed_inside", False)
    if type(inside) is not bool:
        raise Rejected("the domain does not say whether perturbed inputs must lie in it")
    if not (integer or one_hot or ordered or rows or zonotope or inside):
        return None
    return Conditions(rows, integer, one_hot, ordered, zonotope, inside)


def _read_row(given: Any, size: int) -> Row:
    require_keys(given, _ROW_KEYS, "row of the domain")
    entries, weights = _group(given["entries"], size), [float(w) for w in given["weights"]]
    low, high = given["at_least"], given["at_most"]
    low, high = -np.inf if low is None else float(low), np.inf if high is None else float(high)
    if len(entries) != len(weights) or not np.isfinite(weights).all() or 0.0 in weights:
        raise Rejected("a row of the domain does not have a coefficient for each of its entries")
    if not low <= high or low == np.inf or high == -np.inf:
        raise Rejected("a row of the domain has no value between its ends")
    return _row(entries, weights, low, high)


def _row(entries: tuple[int, ...], weights: list[float], low: float, high: float) -> Row:
    return Row(np.array(entries, dtype=np.int64), np.array(weights), low, high)


def _group(given: Any, size: int) -> tuple[int, ...]:
    found = tuple(given)
    whole = all(type(k) is int and 0 <= k < size for k in found)
    if not whole or len(set(found)) != len(found):
        raise Rejected("the domain names an entry that there is not, or one twice")
    return found


def _listed(group: tuple[int, ...]) -> str:
    return ", ".join(map(str, group))
