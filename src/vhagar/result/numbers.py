"""Numbers as text, rounded to the safe side: a printed interval contains the computed one."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

# Significant digits: of a gap, of a number on its own, and the most of any number.
_GAP_DIGITS = 2
_SIGNIFICANT = 4
_MOST_DIGITS = 7
_PLAIN_FROM, _PLAIN_BELOW = 1e-4, 1e9


def interval(lower: float, upper: float) -> tuple[str, str]:
    """Both ends with as many decimals as it takes to tell them apart; lower down, upper up."""
    decimals = _decimals(lower, upper)
    return _fixed(lower, decimals, ROUND_FLOOR), _fixed(upper, decimals, ROUND_CEILING)


def span(lower: float, upper: float) -> str:
    """An interval in one word: `16.21..16.77`, or one number where both ends read the same."""
    low, high = interval(lower, upper)
    return low if low == high else f"{low}..{high}"


def down(value: float) -> str:
    """A number on its own, never larger than it is."""
    return _fixed(value, _decimals(value, value), ROUND_FLOOR)


def up(value: float) -> str:
    """A number on its own, never smaller than it is."""
    return _fixed(value, _decimals(value, value), ROUND_CEILING)


def exact(value: float) -> str:
    """A number with as many digits as it takes to tell it from every other."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def gap(lower: float, upper: float) -> str:
    """How far the ends are apart, and what part of the upper one that is."""
    if not math.isfinite(upper):
        return "unknown"
    share = 100 * (upper - lower) / upper if upper > 0 else 0.0
    share_text = f"{share:.1f}" if share >= 1 else f"{share:.2g}"
    return f"{_fixed(upper - lower, _decimals(0.0, upper - lower), ROUND_CEILING)} ({share_text} %)"


def percent(low: float, high: float) -> str:
    """Two percentages, rounded outward: `41.5 to 43.0 %`."""
    return f"{_fixed(low, 1, ROUND_FLOOR)} to {_fixed(high, 1, ROUND_CEILING)} %"


def seconds(value: float) -> str:
    """A length of time, as short as it can be read: `12.3 s`, `4:07 min`, `2:04:07 h`."""
    if value < 100:
        return f"{value:.1f} s"
    minutes, rest = divmod(int(value), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d} min"
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d} h"


def _decimals(lower: float, upper: float) -> int:
    distance = upper - lower
    if not math.isfinite(distance) or upper <= 0:
        return 2
    magnitude = math.floor(math.log10(upper))
    if distance > 0:
        wanted = _GAP_DIGITS - 1 - math.floor(math.log10(distance))
    else:
        wanted = _SIGNIFICANT - 1 - magnitude
    return max(min(wanted, _MOST_DIGITS - 1 - magnitude), 2)


def _fixed(value: float, decimals: int, rounding: str) -> str:
    if not math.isfinite(value):
        return "unknown"
    if value == 0:
        return "0"
    exact = Decimal(value)
    if not _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        rounded = Context(prec=_SIGNIFICANT, rounding=rounding).create_decimal(exact)
        return f"{rounded:.{_SIGNIFICANT - 1}e}"
    # Enough precision for every double below the limit: quantize must never run out of it.
    context = Context(prec=60, rounding=rounding)
    return str(exact.quantize(Decimal(1).scaleb(-decimals), context=context))
