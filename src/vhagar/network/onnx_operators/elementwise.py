"""Sums, differences and multiples, element by element."""

from __future__ import annotations

import numpy as np

from vhagar.array_types import Array
from vhagar.errors import InvalidNetwork
from vhagar.network.graph import Tensor, Term, spread
from vhagar.network.layers import Shape
from vhagar.network.maps import selection
from vhagar.network.onnx_node import Comparison, Node
from vhagar.network.onnx_operators.activations import common_shape
from vhagar.network.onnx_operators.comparisons import choice


def addition(node: Node) -> Tensor:
    """Add, Sub, Sum and Mean: each operand has a factor."""
    node.attributes()
    count = len(node.operands)
    if any(operand is None for operand in node.operands) or (
        node.kind in ("Add", "Sub") and count != 2
    ):
        raise InvalidNetwork("one of its operands is missing")
    factors = {"Sub": (1.0, -1.0), "Mean": (1.0 / count,) * count}.get(node.kind, (1.0,) * count)
    shape = common_shape(node)
    data = [
        (operand, factor)
        for operand, factor in zip(node.operands, factors, strict=True)
        if isinstance(operand, Tensor)
    ]
    offset = np.zeros((1, *shape))
    for position, factor in enumerate(factors):
        if not isinstance(node.operands[position], Tensor):
            offset = offset + factor * node.weights(position, "constant")
    if len(data) == 1 and data[0][0].shape == shape:
        return node.graph.scaled(data[0][0], data[0][1], offset[0])
    return node.graph.linear(
        [spread(operand, shape, factor) for operand, factor in data], shape, offset[0]
    )


def multiplication(node: Node) -> Tensor:
    """Mul and Div with a constant, and Mul with a comparison."""
    node.attributes()
    if len(node.operands) != 2:
        raise InvalidNetwork("one of its operands is missing")
    for masked, mask in (node.operands, node.operands[::-1]):
        if isinstance(mask, Comparison) and masked is not None and node.kind == "Mul":
            return choice(node, mask, masked, np.zeros(1))
    places = [k for k, operand in enumerate(node.operands) if isinstance(operand, Tensor)]
    if node.kind == "Div" and 1 in places:
        raise node.refusal(
            "divides by the data, as layer normalisation does: not linear, and only "
            "piecewise-linear networks can be verified"
        )
    if len(places) == 2:
        raise node.refusal(
            "multiplies two tensors that both depend on the input, as SiLU, GELU, hardswish and "
            "attention do: not linear, and only piecewise-linear networks can be verified"
        )
    value = node.weights(1 - places[0], "constant")
    if node.kind == "Div":
        if not value.all():
            raise InvalidNetwork("it divides by zero")
        value = 1.0 / value
    return _scaled(node, node.tensor(places[0]), value, common_shape(node))


def _scaled(node: Node, data: Tensor, factor: Array, shape: Shape) -> Tensor:
    if data.shape != shape:  # the constant is larger: the data is repeated first
        data = node.graph.linear([spread(data, shape)], shape)
    full = np.broadcast_to(factor, (1, *shape))[0]
    return node.graph.scaled(data, full, 0.0)


def scaler(node: Node) -> Tensor:
    """`(v - offset) * scale` for each feature, as scikit-learn's converter writes a scaler."""
    found, data = node.attributes(offset=(), scale=()), node.tensor()
    offset, scale = (np.array(found[name], dtype=np.float64) for name in ("offset", "scale"))
    if len(data.shape) != 1:
        raise node.refusal("scales something else than a vector of features")
    if any(part.size not in (1, data.size) for part in (offset, scale)):
        raise InvalidNetwork(f"it does not have an offset and a scale for {data.size} features")
    if not (np.isfinite(offset).all() and np.isfinite(scale).all()):
        raise InvalidNetwork("its offset or scale holds NaN or infinity")
    # A product of two float32 numbers is exact in float64.
    return node.graph.scaled(data, scale, -offset * scale)


def negation(node: Node) -> Tensor:
    node.attributes()
    return node.graph.scaled(node.tensor(), -1.0, 0.0)


def where(node: Node) -> Tensor:
    """Entries of one operand or the other, as a constant condition or a comparison says."""
    node.attributes()
    condition, first, second = (*node.operands, None, None, None)[:3]
    if isinstance(condition, Comparison) and first is not None and second is not None:
        return choice(node, condition, first, second)
    condition = node.constant(0, "condition")
    if condition.dtype != np.bool_ or len(node.operands) != 3:
        raise InvalidNetwork("its condition is not boolean")
    shape = common_shape(node)
    chosen = np.broadcast_to(condition, (1, *shape))
    terms, offset = [], np.zeros((1, *shape))
    for position, mask in ((1, chosen), (2, ~chosen)):
        operand = node.operands[position]
        if isinstance(operand, Tensor):
            numbers = np.arange(operand.size).reshape(operand.shape)
            index = np.where(mask, np.broadcast_to(numbers, shape), -1)
            terms.append(Term(operand.value, selection(operand.shape, index)))
        else:
            offset = offset + np.where(mask, node.weights(position, "constant"), 0.0)
    return node.graph.linear(terms, shape, offset)
