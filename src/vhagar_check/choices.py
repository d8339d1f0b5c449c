"""Choices by a comparison: a comparison jumps, but the choice is continuous if both sides meet.

`where(x > 0, a x, b x)` is `b (x - relu(x)) + a relu(x)`, `x * (x > 0)` has no second side, and
`where(x > c, x, c)` is the larger of x and c. Which side the limit itself belongs to never matters.
Any other choice by a comparison is refused.
"""

from __future__ import annotations

import numpy as np

from vhagar_check.graph import Node
from vhagar_check.layers import Scale
from vhagar_check.lowering import Operand
from vhagar_check.reading import Reader, Result, Sides, Wire
from vhagar_check.units import at_least, at_most

_ABOVE = {"Greater": True, "GreaterOrEqual": True, "Less": False, "LessOrEqual": False}
COMPARISONS = (*_ABOVE, "Not")
_FLOATS, _BOOL = (1, 11), 9


def compared(reader: Reader, node: Node) -> Wire | Sides:
    """Read a node that compares, or that takes a comparison as an input."""
    if node.kind in _ABOVE:
        return _compare(reader, node)
    sides = reader.sides(node, 0)
    if node.kind == "Not" and sides is not None:
        node.only()
        return Sides(sides.wire, sides.limit, not sides.above)
    if node.kind == "Cast" and sides is not None:
        if node.cast_to() not in (*_FLOATS, _BOOL):
            raise node.refused("is to a type that is not understood")
        return sides
    return _chosen(reader, node)


def _compare(reader: Reader, node: Node) -> Sides:
    """Read a comparison of a value with constants."""
    node.only()
    given = reader.all_given(node)
    if len(given) != 2 or isinstance(given[0], Wire) == isinstance(given[1], Wire):
        raise node.refused("does not compare a value with constants")
    first = isinstance(given[0], Wire)
    wire, limit = reader.wire(node, 1 - int(first)), reader.floats(node, int(first))
    if reader.joint_shape(node, [wire, limit]) != wire.shape:
        raise node.refused("has limits of another shape")
    full = np.broadcast_to(limit, wire.shape).ravel()
    return Sides(wire, full, _ABOVE[node.kind] == first)


def _chosen(reader: Reader, node: Node) -> Wire:
    """Read a Where or Mul node with a comparison as an input."""
    node.only()
    if node.kind == "Where":
        sides, branches = reader.sides(node, 0), [reader.taken(node, k) for k in (1, 2)]
    elif node.kind == "Mul" and len(node.inputs) == 2:
        place = 0 if reader.sides(node, 0) is not None else 1
        sides, branches = reader.sides(node, place), [reader.taken(node, 1 - place), np.zeros(1)]
    else:
        raise node.refused("takes a comparison, which Where and Mul alone can take")
    if sides is None:
        raise node.refused("is not a choice by one comparison")
    above, below = branches if sides.above else branches[::-1]
    # A branch with as many entries as the value then has them in its order.
    if reader.joint_shape(node, [sides.wire, above, below]) != sides.wire.shape:
        raise node.refused("chooses between sides of another shape than what it compares")
    value, limit = sides.wire.value, sides.limit
    if not limit.any():
        slopes = [_slope(reader, branch, sides.wire) for branch in (above, below)]
        if slopes[0] is not None and slopes[1] is not None:
            return _bent(reader, sides.wire, slopes[0], slopes[1])
    if _is(above, sides.wire) and _is_limit(below, sides):
        return Wire(at_least(reader, value, limit), sides.wire.shape)
    if _is(below, sides.wire) and _is_limit(above, sides):
        return Wire(at_most(reader, value, limit), sides.wire.shape)
    raise node.refused("chooses between sides that are not seen to meet at the limit")


def _bent(reader: Reader, wire: Wire, above: Scale, below: Scale) -> Wire:
    flow = reader.flow
    positive = flow.units(wire.value)
    if not below.factor.any():
        return Wire(flow.through(positive, above), wire.shape)
    rest = flow.sum(Operand(wire.value), Operand(positive, factor=-1.0))
    return Wire(flow.sum(Operand(rest, below), Operand(positive, above)), wire.shape)


def _slope(reader: Reader, branch: Result, wire: Wire) -> Scale | None:
    """The factor of a branch that is a multiple of the value; None for any other branch."""
    one, zero = np.ones(wire.value.size), np.zeros(wire.value.size)
    if not isinstance(branch, Wire):
        return Scale(zero, one, zero) if branch.dtype.kind == "f" and not branch.any() else None
    if _is(branch, wire):
        return Scale(one, one, zero)
    operands = reader.flow.summands(branch.value)
    if len(operands) != 1 or operands[0].value is not wire.value:
        return None
    layer = operands[0].layer
    if layer is None:
        return Scale(np.full(wire.value.size, operands[0].factor), one, zero)
    return layer if isinstance(layer, Scale) and not layer.bias.any() else None


def _is(branch: Result, wire: Wire) -> bool:
    return isinstance(branch, Wire) and branch.value is wire.value


def _is_limit(branch: Result, sides: Sides) -> bool:
    if isinstance(branch, Wire) or branch.dtype.kind != "f":
        return False
    return bool((np.broadcast_to(branch, sides.wire.shape).ravel() == sides.limit).all())
