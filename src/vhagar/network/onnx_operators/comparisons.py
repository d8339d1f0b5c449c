"""Activations written as a choice: `where(x > 0, x, a * x)`, `x * (x > 0)`, `where(x > c, x, c)`.

A comparison alone jumps, which no piecewise-linear network does. It is translated only together
with the choice that it makes, where both branches have the same value at the limit.
"""

from __future__ import annotations

import numpy as np

from vhagar.array_types import Array
from vhagar.errors import InvalidNetwork
from vhagar.network.graph import Graph, Linear, Tensor, times
from vhagar.network.layers import Shape
from vhagar.network.maps import ScaleMap
from vhagar.network.onnx_node import Comparison, Constant, Node, Operand, full_shape
from vhagar.network.onnx_operators.activations import broadcast
from vhagar.network.units import maximum, minimum

_ABOVE = ("Greater", "GreaterOrEqual")


def compare(node: Node) -> Comparison:
    """Compare data with a constant; at the limit itself, either answer is as good."""
    node.attributes()
    places = [k for k, operand in enumerate(node.operands) if isinstance(operand, Tensor)]
    if len(node.operands) != 2 or len(places) != 1:
        raise node.refusal("compares two values that both depend on the input")
    (place,) = places
    data = node.tensor(place)
    limit = broadcast(node.weights(1 - place, "limit"), data.shape, "limit")
    return Comparison(data, limit, (node.kind in _ABOVE) == (place == 0))


def negated(node: Node) -> Comparison:
    node.attributes()
    operand = node.operands[0]
    if not isinstance(operand, Comparison):
        raise node.refusal("needs a comparison or constants")
    return Comparison(operand.tensor, operand.limit, not operand.above)


def choice(node: Node, condition: Comparison, first: Operand, second: Operand) -> Tensor:
    """`first` where the condition holds, `second` elsewhere; refused unless it is continuous."""
    above, below = (first, second) if condition.above else (second, first)
    x, limit = condition.tensor, condition.limit
    shapes = [full_shape(operand) for operand in (x, first, second)]
    if not _have_the_first(shapes):
        raise InvalidNetwork(
            f"its branches of shapes {shapes[1:]} do not fit what it compares, of shape {shapes[0]}"
        )
    if not limit.any():
        slopes = [_multiple(node.graph, operand, x) for operand in (above, below)]
        if slopes[0] is not None and slopes[1] is not None:
            return _bent(node.graph, x, slopes[0], slopes[1])
    if _is(above, x) and _equals(below, limit):
        return maximum(node.graph, [x], limit, x.shape)
    if _equals(above, limit) and _is(below, x):
        return minimum(node.graph, [x], limit, x.shape)
    raise node.refusal(
        "chooses by a comparison, and is not recognised as a continuous function such as "
        "where(x > 0, x, a * x), x * (x > 0) or where(x > c, x, c)"
    )


def _have_the_first(shapes: list[Shape]) -> bool:
    """Whether shapes broadcast to the first of them."""
    try:
        return np.broadcast_shapes(*shapes) == shapes[0]
    except ValueError:
        return False


def _bent(graph: Graph, x: Tensor, above: Array, below: Array) -> Tensor:
    """`below * x + (above - below) * relu(x)`; a `below` of 0 needs no first term."""
    positive = graph.units(x)
    terms = [times(x, below)] if below.any() else []
    return graph.linear([*terms, times(positive, above - below)], x.shape)


def _multiple(graph: Graph, operand: Operand, x: Tensor) -> Array | None:
    """The factors of which the operand is the multiple of x, if it is one."""
    if isinstance(operand, Tensor):
        if _is(operand, x):
            return np.ones(x.shape)
        return _factors(graph, operand, x)
    if isinstance(operand, Comparison) or operand.any():
        return None
    return np.zeros(x.shape)


def _factors(graph: Graph, operand: Tensor, x: Tensor) -> Array | None:
    if not operand.value.number or operand.shape != x.shape:
        return None
    made = graph.operations[operand.value.number - 1]
    if not isinstance(made, Linear) or len(made.terms) != 1 or made.terms[0].value is not x.value:
        return None
    scaling, offset = made.terms[0].map, made.offset
    if not isinstance(scaling, ScaleMap) or scaling.shift.any():
        return None
    return None if offset is not None and offset.any() else scaling.scale.reshape(x.shape)


def _is(operand: Operand, x: Tensor) -> bool:
    return isinstance(operand, Tensor) and operand.value is x.value and operand.shape == x.shape


def _equals(operand: Operand, limit: Array) -> bool:
    """Whether a constant is the limit, entry by entry."""
    if isinstance(operand, Tensor | Comparison):
        return False
    values: Constant = operand
    if values.dtype.kind != "f" or values.ndim > limit.ndim + 1:
        return False
    try:
        return bool((np.broadcast_to(values, (1, *limit.shape))[0] == limit).all())
    except ValueError:
        return False
