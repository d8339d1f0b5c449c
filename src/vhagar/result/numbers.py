"""Format numbers, rounded to the safe side: a printed interval contains the computed one."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

# Significant digits of a gap, of a number on its own, and at most of any number.
_GAP_DIGITS = 2
_SIGNIFICANT = 4
_MOST_DIGITS = 7
_PLAIN_FROM, _PLAIN_BELOW = 1e-4, 1e9


def interval(lower: float, upper: float) -> tuple[str, str]:
    """Format both ends, rounded outward, with as many decimals as it takes to tell them apart."""
    decimals = _decimals(lower, upper)
    return _fixed(lower, decimals, ROUND_FLOOR), _fixed(upper, decimals, ROUND_CEILING)


def span(lower: float, upper: float) -> str:
    """Format an interval as one word, `16.21..16.77`, or as one number if both ends read alike."""
    low, high = interval(lower, upper)
    return low if low == high else f"{low}..{high}"


def down(value: float) -> str:
    """Format a number on its own, rounded down."""
    return _fixed(value, _decimals(value, value), ROUND_FLOOR)


def up(value: float) -> str:
    """Format a number on its own, rounded up."""
    return _fixed(value, _decimals(value, value), ROUND_CEILING)


def exact(value: float) -> str:
    """Format a number with enough digits to tell it from every other float."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def gap(lower: float, upper: float) -> str:
    """Format the gap, absolute and as a percentage of the upper end, both rounded up."""
    if not (math.isfinite(lower) and math.isfinite(upper)):
        return "unknown"
    # Exactly: a difference of floats may have been rounded down.
    distance = Fraction(upper) - Fraction(lower)
    share = 100 * distance / Fraction(upper) if upper > 0 else Fraction(0)
    absolute = _fixed(distance, _decimals(0.0, float(distance)), ROUND_CEILING)
    return f"{absolute} ({_share_above(share)} %)"


def _share_above(percent: Fraction) -> str:
    """Format a percentage rounded up: one decimal, or two digits of less than 1 %."""
    if percent >= 1:
        return _fixed(percent, 1, ROUND_CEILING)
    above = Context(prec=2, rounding=ROUND_CEILING)
    return f"{float(above.divide(Decimal(percent.numerator), Decimal(percent.denominator))):.2g}"


def percent(low: float, high: float) -> str:
    """Format a range of percentages, rounded outward: `41.5 to 43.0 %`."""
    return f"{_fixed(low, 1, ROUND_FLOOR)} to {_fixed(high, 1, ROUND_CEILING)} %"


def share(part: int, whole: int) -> str:
    """Format a part in percent, rounded down: 100 is all of them, and 0 is none."""
    tenths = 1000 * part // max(whole, 1)
    return "<0.1" if part and not tenths else f"{tenths / 10:g}"


def counted(count: int, noun: str) -> str:
    """A number with its noun: `1 input`, `3 inputs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def seconds(value: float) -> str:
    """Format a duration in a readable unit: `12.3 s`, `4:07 min`, `2:04:07 h`."""
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


def _fixed(value: float | Fraction, decimals: int, rounding: str) -> str:
    if not math.isfinite(value):
        return "unknown"
    if value == 0:
        return "0"
    exact = Fraction(value)
    top, bottom = Decimal(exact.numerator), Decimal(exact.denominator)
    if not _PLAIN_FROM <= abs(exact) < _PLAIN_BELOW:
        rounded = Context(prec=_SIGNIFICANT, rounding=rounding).divide(top, bottom)
        return f"{rounded:.{_SIGNIFICANT - 1}e}"
    # Enough precision for every double below the limit: quantize must never run out of it.
    context = Context(prec=60, rounding=rounding)
    return str(context.divide(top, bottom).quantize(Decimal(1).scaleb(-decimals), context=context))
