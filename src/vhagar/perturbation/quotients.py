"""Numbers for readers: `2/255` instead of 0.00784313725490196.

What a user wrote as a quotient is kept as a float64 number, and identified by its shortest decimal
form. For display, a long decimal is written as a quotient of small numbers if that reads back as
the same number.
"""

from __future__ import annotations

import re
from fractions import Fraction

# A decimal with as many digits as nobody writes.
_LONG = re.compile(r"(?<![\w.])[0-9]+\.[0-9]{11,}(?:e[-+]?[0-9]+)?(?![\w.])")
# Largest denominator; up to the second, fractions are shown in lowest terms: 1/3, not 85/255.
_MOST, _LOWEST_TERMS = 1000, 16
# Brightness is usually counted in these: 5/255, not 1/51.
_LEVELS = 255


def with_quotients(text: str) -> str:
    """A text in which long decimals are quotients if these read back as the same numbers."""
    return _LONG.sub(lambda found: quotient(float(found[0])) or found[0], text)


def quotient(value: float) -> str | None:
    """A positive number as `numerator/denominator`; None if no small one reads back as it."""
    near = Fraction(value).limit_denominator(_MOST)
    above, below = near.numerator, near.denominator
    if below > _LOWEST_TERMS and _LEVELS % below == 0:
        above, below = above * (_LEVELS // below), _LEVELS
    return f"{above}/{below}" if above / below == value else None
