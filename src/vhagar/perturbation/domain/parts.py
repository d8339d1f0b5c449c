"""Parts of a domain in which entries that are whole numbers have smaller ranges.

Such an entry is at most `k` or at least `k + 1`, so that two parts contain every input. Rows then
narrow the ranges of other whole numbers: if an entry of a one-hot group is 1, the others are 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vhagar.array_types import Array, Mask
from vhagar.perturbation.domain.domain import Domain
from vhagar.perturbation.domain.linear_rows import LinearRows

# Entries by number, each with the ends of its range.
EntryRanges = Mapping[int, tuple[float, float]]

# How often all rows narrow the ranges of whole numbers; the checker does so as often.
_ROUNDS = 4
# More than the relative error of the sums and quotients below.
_ROOM = 2.0**-40


def part_of_domain(domain: Domain, ranges: EntryRanges) -> Domain | None:
    """The inputs of a domain whose whole numbers lie in the given ranges; None if there are none.

    Where rows contradict each other only together, the part may be empty without being None.
    """
    low, high = domain.low.copy(), domain.high.copy()
    for k, (least, most) in ranges.items():
        low[k], high[k] = max(low[k], least), min(high[k], most)
    if domain.rows is not None:
        whole = np.zeros(domain.size, dtype=np.bool_)
        whole[domain.groups.whole] = True
        for _ in range(_ROUNDS):
            if not all(_narrow(domain.rows, k, low, high, whole) for k in range(domain.rows.count)):
                return None
    if (low > high).any():
        return None
    return domain.with_box(low, high)


def at_whole_numbers(domain: Domain, x: Array) -> Domain | None:
    """The inputs with the whole numbers of `x` `(size,)`; None if there are none.

    The domain itself if it has no whole numbers.
    """
    whole = domain.groups.whole
    if not len(whole):
        return domain
    return part_of_domain(domain, {int(k): (float(x[k]), float(x[k])) for k in whole})


def _narrow(rows: LinearRows, row: int, low: Array, high: Array, whole: Mask) -> bool:
    """Narrow the whole numbers of one row by the ranges of its others; False if none are left."""
    part = slice(rows.matrix.indptr[row], rows.matrix.indptr[row + 1])
    places, weights = rows.matrix.indices[part], rows.matrix.data[part]
    least = np.minimum(weights * low[places], weights * high[places])
    most = np.maximum(weights * low[places], weights * high[places])
    room = _ROOM * float(np.maximum(abs(least), abs(most)).sum()) + 2.0**-900
    for sign, end, terms in ((1.0, rows.high[row], least), (-1.0, -rows.low[row], -most)):
        if not np.isfinite(end):
            continue
        # `sign * weights.x <= end`, and no entry's term is less than its own of `terms`.
        slack = end - float(terms.sum()) + room + _ROOM * abs(end)
        if slack < 0:
            return False
        for k, weight, own in zip(places.tolist(), (sign * weights).tolist(), terms, strict=True):
            if not whole[k] or not weight:
                continue
            limit = (slack + float(own)) / weight
            limit += np.copysign(_ROOM * abs(limit), weight)
            if weight > 0:
                high[k] = min(high[k], np.floor(limit))
            else:
                low[k] = max(low[k], np.ceil(limit))
            if low[k] > high[k]:
                return False
    return True
