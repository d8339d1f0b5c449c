"""What rows say about entries that are whole numbers, in exact arithmetic.

If one entry of a one-hot group is 1, for example, the row of their sum leaves 0 to the others.
"""

from __future__ import annotations

import math
from fractions import Fraction

from vhagar_check.conditions import Conditions, Row
from vhagar_check.layers import Floats

# How often all rows narrow the ranges of whole numbers.
_ROUNDS = 4


def narrow_whole(conditions: Conditions, low: Floats, high: Floats) -> bool:
    """Narrow the ranges of whole numbers in place; False if no input satisfies all rows."""
    rows, whole = conditions.rows, conditions.whole
    for _ in range(_ROUNDS):
        if not all(_narrow(row, whole, low, high) for row in rows):
            return False
    return bool((low <= high).all())


def _narrow(row: Row, whole: set[int], low: Floats, high: Floats) -> bool:
    """Narrow the whole numbers of one row by the ranges of its other entries."""
    entries, weights = row.entries.tolist(), [Fraction(w) for w in row.weights.tolist()]
    ends = [(Fraction(float(low[k])), Fraction(float(high[k]))) for k in entries]
    if any(least > most for least, most in ends):
        return False
    for sign, end in ((1, row.high), (-1, -row.low)):
        if end == math.inf:
            continue
        # `sign * weights.x <= end`, and no term is less than its own of `terms`.
        terms = [
            min(sign * w * least, sign * w * most)
            for w, (least, most) in zip(weights, ends, strict=True)
        ]
        slack = Fraction(end) - sum(terms, Fraction(0))
        if slack < 0:
            return False
        for k, w, own in zip(entries, weights, terms, strict=True):
            if k not in whole:
                continue
            limit = (slack + own) / (sign * w)
            if not _cut(k, limit, sign * w > 0, low, high):
                return False
    return True


def _cut(k: int, limit: Fraction, is_upper: bool, low: Floats, high: Floats) -> bool:
    """Cut the range of a whole number at a limit in place; False if no number is left.

    The limit may be beyond all floats; one inside the range is rounded outward, if at all.
    """
    least, most = float(low[k]), float(high[k])
    whole = math.floor(limit) if is_upper else math.ceil(limit)
    if (whole < least) if is_upper else (whole > most):
        return False
    if least <= whole <= most:
        end, direction = float(whole), math.inf if is_upper else -math.inf
        inside = end >= whole if is_upper else end <= whole
        (high if is_upper else low)[k] = end if inside else math.nextafter(end, direction)
    return True
