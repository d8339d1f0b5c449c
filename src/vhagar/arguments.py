"""Command-line arguments as values. Light: it is imported before anything is known to be needed."""

from __future__ import annotations

import argparse


def labels(text: str) -> list[int]:
    """`3` or `3,5`."""
    try:
        return [int(label) for label in text.split(",")]
    except ValueError:
        message = f"{text!r} is not a class or several separated by commas, such as 3 or 3,5"
        raise argparse.ArgumentTypeError(message) from None


def seconds(text: str) -> float:
    """A length of time."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:  # NaN is no time either
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, such as 60")
    return value


def seed(text: str) -> int:
    """A seed of random numbers."""
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
