"""Which constants a runtime may round, and where that may not matter.

A runtime computes constants with the digits of the file's type. What it may round is a weight like
any other, but it must not decide anything, as the operand of a comparison or a floor would.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vhagar_check.graph import Constant, Node
from vhagar_check.reading import Product, Reader, Result

# ONNX's numbers for types.
FLOAT, INTEGER, BOOL, DOUBLE, INT32 = 1, 7, 9, 11, 6
# Operators that jump, so that rounding can change their results by any amount.
_JUMPS = ("Floor", "Ceil", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
# How far single precision, which errs by 2**-24, never moves a number of size 1.
_FAR = 2.0**-20


def takes_rounded(reader: Reader, node: Node) -> bool:
    """Whether it takes a constant that a runtime may round; a cast takes stored halves exactly."""
    if node.kind == "Cast" and reader.halves.issuperset(node.inputs):
        return False
    return not reader.rounded.isdisjoint(node.inputs)


def jumps(node: Node) -> bool:
    to_whole = node.kind == "Cast" and node.cast_to() in (INTEGER, INT32, BOOL)
    return to_whole or node.kind in _JUMPS


def has_known_floor(reader: Reader, node: Node) -> bool:
    """Whether it rounds numbers to whole ones that are so far from them that no runtime differs.

    They have to be rounded once: what is computed from a rounded number may be anywhere.
    """
    if node.kind not in ("Floor", "Ceil") or not reader.rounded_once.issuperset(node.inputs):
        return False
    value = reader.floats(node, 0)
    return bool((abs(value - np.rint(value)) > _FAR * np.maximum(abs(value), 1)).all())


def is_rounded(node: Node, given: list[Result | None], found: Sequence[Constant | Product]) -> bool:
    """Whether a runtime may round the result: that of float32 numbers is one, or it does."""
    if node.kind == "ConstantOfShape":
        return node.holds_half()
    widened = any(isinstance(item, np.ndarray) and item.dtype == np.float64 for item in found)
    single = all(isinstance(item, np.ndarray) and item.dtype == np.float32 for item in given)
    return widened and single and node.kind != "Cast"


def note_rounded(reader: Reader, node: Node, from_rounded: bool) -> None:
    """Remember that a runtime may round what a node gives, and whether it is the first to do so."""
    names = {*filter(None, node.outputs)}
    reader.rounded.update(names)
    if from_rounded:
        once = node.kind == "Cast" and reader.rounded_once.issuperset(node.inputs)
    else:
        once = node.kind in ("Add", "Sub", "Mul")
    if once:
        reader.rounded_once.update(names)
