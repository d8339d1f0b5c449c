"""How the text of an argument becomes a value: numbers, classes, shapes, times.

Errors say what was expected, with an example.
"""

from __future__ import annotations

import argparse
import math
import re

# Seconds; beyond it clocks and solvers overflow.
_LONGEST = 1e9
# Channels first, and channels last.
LAYOUTS = ("chw", "hwc")


def label(text: str) -> int | str:
    """A class by its number or its name."""
    return int(text) if text.isascii() and text.isdecimal() else text


def named_labels(text: str) -> list[int | str]:
    """`3`, `3,5`, or names of classes that the domain knows."""
    return [label(part.strip()) for part in text.split(",")]


def sizes(text: str) -> tuple[int, ...]:
    """`3,32,32` or `28,28`."""
    try:
        return tuple(int(size) for size in text.split(","))
    except ValueError:
        message = f"{text!r} is not a shape; write channels, rows and columns, such as 3,32,32"
        raise argparse.ArgumentTypeError(message) from None


def layouts(text: str) -> str | tuple[str, ...]:
    """`chw`, or one layout for each model, such as `chw,hwc`."""
    found = tuple(text.split(","))
    if not set(found) <= set(LAYOUTS) or len(found) > 2:
        message = f"{text!r} is no layout; write chw or hwc, or both models' layouts: chw,hwc"
        raise argparse.ArgumentTypeError(message)
    return found[0] if len(found) == 1 else found


def numbers(text: str) -> tuple[float, ...]:
    """`0.5` or `0.49,0.48,0.45`."""
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        message = f"{text!r} is not a comma-separated list of numbers, such as 0.5,0.4"
        raise argparse.ArgumentTypeError(message) from None


def number(text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, such as 0.5")
    return value


def whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, such as 5") from None


def quotient(text: str) -> float:
    """A number such as `0.03`, or a quotient such as `8/255`."""
    above, _, below = text.partition("/")
    divisor = number(below) if below else 1.0
    if not divisor:
        raise argparse.ArgumentTypeError(f"{text!r} divides by zero")
    return number(above) / divisor


def seconds(text: str) -> float:
    """A time from 0: `60`, `90s`, `1m`, `1m30s` or `2h`."""
    parts = re.fullmatch(r"(?:([\d.]+)h)?(?:([\d.]+)m)?(?:([\d.]+)s?)?", text)
    try:
        given = parts.groups() if parts is not None and any(parts.groups()) else (text,)
        units = (3600.0, 60.0, 1.0)[-len(given) :]
        pairs = zip(given, units, strict=True)
        value = sum(float(part) * unit for part, unit in pairs if part is not None)
    except ValueError:
        value = -1.0
    if not value >= 0:  # NaN is no time either
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds, or a time such as 90s, 5m or 1h30m"
        )
    if value > _LONGEST:
        message = f"{value:g} seconds are more than a lifetime; leave the option out for no limit"
        raise argparse.ArgumentTypeError(message)
    return value


def seed(text: str) -> int:
    """A random seed, from 0 to 2**31 - 1."""
    if not (text.isdecimal() and int(text) < 2**31):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2**31 - 1")
    return int(text)


def span(text: str) -> tuple[float, float]:
    """`0,1` or `[0,1]`."""
    try:
        low, high = (float(end) for end in text.strip("[]").split(","))
    except ValueError:
        message = f"{text!r} is not an interval; write two numbers, such as 0,1"
        raise argparse.ArgumentTypeError(message) from None
    return low, high


def workers(text: str) -> int:
    """A number of workers, from 1."""
    if not (text.isdecimal() and 0 < int(text) < 10_000):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes, such as 4")
    return int(text)
