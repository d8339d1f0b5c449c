"""The options for how a model takes an image and gives its scores."""

from __future__ import annotations

import argparse
from typing import Any

from vhagar.cli.types import LAYOUTS, layouts, number, numbers, sizes

CONVENTIONS = ("layout", "image_shape", "mean", "std", "output", "threshold", "argmin")


def add_conventions(parser: argparse.ArgumentParser, two: bool = False) -> None:
    """Add the options that say how the model takes an image and gives its scores.

    Of `two` models, each may have its own layout.
    """
    add = parser.add_argument_group("input convention of the model").add_argument
    first_or_last = "channels first (chw, default) or last (hwc)"
    if two:
        own = f"{first_or_last}; of both models, or of A and B, such as chw,hwc"
        add("--layout", type=layouts, metavar="L[,L]", help=own)
    else:
        add("--layout", choices=LAYOUTS, help=first_or_last)
    add(
        "--image-shape",
        type=sizes,
        metavar="C,H,W",
        help="image shape of a flat input: channels, rows, columns; or rows, columns",
    )
    add(
        "--mean",
        type=numbers,
        metavar="M",
        help="subtract M from the input before the model sees it: one number, or one per channel",
    )
    add("--std", type=numbers, metavar="S", help="divide by S after subtracting the mean")
    add = parser.add_argument_group("scores of the model").add_argument
    add("--output", metavar="NAME", help="the output that holds the scores, if there are several")
    add(
        "--threshold",
        type=number,
        metavar="T",
        help="for a model with one score: class 1 is an output above T (default: a score above 0)",
    )
    add(
        "--argmin",
        action="store_true",
        default=None,
        help="the smallest output wins, not the largest (as for ACAS Xu)",
    )


def conventions_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options that were given, as keyword arguments of `read_onnx`."""
    given = {name: getattr(arguments, name) for name in CONVENTIONS}
    return {name: value for name, value in given.items() if value is not None}
