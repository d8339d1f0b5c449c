"""Why an input is not in a domain, in words."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from vhagar.array_types import Array
from vhagar.perturbation.domain.domain import Domain

# Entries of a row that are named.
_MOST_NAMED = 6


def why_outside(domain: Domain, x: Array) -> str:
    """The first condition that an input `(size,)` breaks; empty if none is known to be broken."""
    found = _range(domain, x) or _group(domain, x) or _row(domain, x)
    if not found and domain.zonotope is not None:
        inside = domain.zonotope.witnesses(x[None])[1][0]
        found = "" if inside else "it is not in the zonotope"
    return f": {found}" if found else ""


def _range(domain: Domain, x: Array) -> str:
    outside = np.flatnonzero((x < domain.low) | (x > domain.high))
    if not len(outside):
        return ""
    k = int(outside[0])
    span = f"from {domain.low[k]:.9g} to {domain.high[k]:.9g}"
    return f"entry {domain.place(k)} is {x[k]:.9g}, not {span}"


def _group(domain: Domain, x: Array) -> str:
    groups = domain.groups
    for k in groups.whole.tolist():
        if x[k] != np.rint(x[k]):
            return f"entry {domain.place(k)} is {x[k]:.9g}, not a whole number"
    for group in groups.one_hot:
        if x[list(group)].sum() != 1:
            names = ", ".join(domain.place(k) for k in group)
            return f"one of the entries {names} must be 1 and the others 0"
    for group in groups.ordered:
        for one, other in pairwise(group):
            if x[one] > x[other]:
                above = f"entry {domain.place(one)} is {x[one]:.9g}"
                return f"{above}, above entry {domain.place(other)}, which is {x[other]:.9g}"
    return ""


def _row(domain: Domain, x: Array) -> str:
    rows = domain.own_rows
    for row in range(0 if rows is None else rows.count):
        assert rows is not None
        value, low, high = rows.exact_value(row, x), float(rows.low[row]), float(rows.high[row])
        if value < low or value > high:
            entries = [domain.place(k) for k in rows.entries(row)]
            named = ", ".join(entries) if len(entries) <= _MOST_NAMED else f"{len(entries)} entries"
            ends = f"{low:.17g}" if low == high else f"from {low:.9g} to {high:.9g}"
            return f"row {row} ({named}) is {float(value):.17g}, not {ends}"
    return ""
