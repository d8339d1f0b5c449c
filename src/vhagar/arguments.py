"""Command-line arguments as values. Light: it is imported before anything is known to be needed."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vhagar.problem import Problem

# Their values may begin with a minus sign, which argparse would take for an option.
SIGNED = ("--input-range", "--mean")
# What the options of `add_conventions` are called.
CONVENTIONS = ("layout", "image_shape", "mean", "std")


def labels(text: str) -> list[int]:
    """`3` or `3,5`."""
    try:
        return [int(label) for label in text.split(",")]
    except ValueError:
        message = f"{text!r} is not a class or several separated by commas, such as 3 or 3,5"
        raise argparse.ArgumentTypeError(message) from None


def sizes(text: str) -> tuple[int, ...]:
    """`3,32,32` or `28,28`."""
    try:
        return tuple(int(size) for size in text.split(","))
    except ValueError:
        message = f"{text!r} is not a shape; write channels, rows and columns, such as 3,32,32"
        raise argparse.ArgumentTypeError(message) from None


def numbers(text: str) -> tuple[float, ...]:
    """`0.5` or `0.49,0.48,0.45`."""
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        message = f"{text!r} is not a number, or several separated by commas"
        raise argparse.ArgumentTypeError(message) from None


def add_conventions(parser: argparse.ArgumentParser) -> None:
    """How the model takes an image; without any of them, as (channels, rows, columns)."""
    add = parser.add_argument_group("how the model takes its input").add_argument
    add("--layout", choices=("chw", "hwc"), help="its channels are first (default) or last")
    add(
        "--image-shape",
        type=sizes,
        metavar="C,H,W",
        help="the image that a flat input is: channels, rows, columns; or rows, columns",
    )
    add(
        "--mean",
        type=numbers,
        metavar="M",
        help="subtracted from the input before the model: one number, or one for each channel",
    )
    add("--std", type=numbers, metavar="S", help="what the input is divided by after that")


def conventions(arguments: argparse.Namespace) -> dict[str, Any]:
    """Those of the options above that were given, as `read_onnx` takes them."""
    given = {name: getattr(arguments, name) for name in CONVENTIONS}
    return {name: value for name, value in given.items() if value is not None}


def problem(arguments: argparse.Namespace) -> Problem:
    """The question that a command's arguments ask."""
    from vhagar.network import read_onnx
    from vhagar.perturbation.loading import named
    from vhagar.problem import Problem

    return Problem(
        read_onnx(arguments.model, **conventions(arguments)),
        named(arguments.perturbation),
        arguments.source,
        arguments.target,
        arguments.clip,
        arguments.input_range,
    )


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
