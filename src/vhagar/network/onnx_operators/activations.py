"""Operators that become piecewise-linear units, and the softmax at the end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vhagar.array_types import Array
from vhagar.errors import InvalidNetwork
from vhagar.network.graph import Tensor
from vhagar.network.layers import Shape
from vhagar.network.onnx_node import Node, full_shape
from vhagar.network.onnx_operators.reasons import INSTEAD, REASONS
from vhagar.network.units import NO_LIMIT, absolute, clip, leaky_relu, maximum, minimum

ONLY_PIECEWISE_LINEAR = (
    f"is smooth, and only piecewise-linear networks can be verified: {INSTEAD} (as the last step "
    "it would be ignored)"
)


def relu(node: Node) -> Tensor:
    node.attributes()
    data = node.tensor()
    # A ReLU before a max pool is applied after it: the result is the same, with fewer units.
    return data if node.result in node.context.relu_moved_from else node.graph.units(data)


def leaky(node: Node) -> Tensor:
    alpha = node.attributes(alpha=0.01)["alpha"]
    if not math.isfinite(alpha):
        raise InvalidNetwork(f"its alpha {alpha} is not finite")
    return leaky_relu(node.graph, node.tensor(), float(alpha))


def parametric(node: Node) -> Tensor:
    node.attributes()
    data, slope = node.tensor(), node.weights(1, "slope")
    return leaky_relu(node.graph, data, broadcast(slope, data.shape, "slope"))


def broadcast(values: Array, shape: Shape, what: str) -> Array:
    """A constant operand in the shape of the data."""
    try:
        full: Array = np.broadcast_to(values, (1, *shape))[0]
        return full
    except ValueError as error:
        raise InvalidNetwork(
            f"its {what} of shape {values.shape} does not fit data of shape {shape}"
        ) from error


def thresholded(node: Node) -> Tensor:
    """ThresholdedRelu: `v` where it is above alpha, 0 elsewhere; with an alpha of 0, a ReLU."""
    if node.attributes(alpha=1.0)["alpha"]:
        raise node.refusal("jumps at its threshold; only continuous functions can be verified")
    return node.graph.units(node.tensor())


def hard_sigmoid(node: Node) -> Tensor:
    """`min(max(alpha * v + beta, 0), 1)`."""
    found = node.attributes(alpha=0.2, beta=0.5)
    if not (math.isfinite(found["alpha"]) and math.isfinite(found["beta"])):
        raise InvalidNetwork("its alpha or beta is not finite")
    line = node.graph.scaled(node.tensor(), float(found["alpha"]), float(found["beta"]))
    return clip(node.graph, line, 0.0, 1.0)


def clipped(node: Node) -> Tensor:
    attributes = node.attributes(min=-math.inf, max=math.inf)
    low = _limit(node, 1, "lower limit") if node.has(1) else attributes["min"]
    high = _limit(node, 2, "upper limit") if node.has(2) else attributes["max"]
    return clip(node.graph, node.tensor(), float(low), float(high))


def _limit(node: Node, position: int, what: str) -> float:
    values = node.constant(position, what)
    if values.dtype.kind != "f" or values.size != 1:
        raise InvalidNetwork(f"its {what} is not one number")
    limit = float(values.reshape(()))
    if values.dtype == np.float64 and NO_LIMIT <= abs(limit) < np.finfo(np.float64).max:
        raise node.refusal(f"has a limit beyond float32, {limit:g}, which would count as none")
    return limit


def absolute_value(node: Node) -> Tensor:
    node.attributes()
    return absolute(node.graph, node.tensor())


def extremum(node: Node) -> Tensor:
    """Max and Min of any number of operands."""
    node.attributes()
    if any(operand is None for operand in node.operands):
        raise InvalidNetwork("one of its operands is missing")
    tensors: list[Tensor] = [one for one in node.operands if isinstance(one, Tensor)]
    constants: list[Any] = [
        node.weights(k, "constant")
        for k, operand in enumerate(node.operands)
        if not isinstance(operand, Tensor)
    ]
    shape = common_shape(node)
    pick = np.maximum if node.kind == "Max" else np.minimum
    constant = None
    if constants:
        constant = constants[0]
        for more in constants[1:]:
            constant = pick(constant, more)
        constant = broadcast(constant, shape, "constant")
    unit = maximum if node.kind == "Max" else minimum
    return unit(node.graph, tensors, constant, shape)


def common_shape(node: Node) -> Shape:
    """The shape that all operands broadcast to, without the batch."""
    shapes = [full_shape(operand) for operand in node.operands if operand is not None]
    try:
        found = np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise InvalidNetwork(f"its operands of shapes {shapes} do not fit each other") from error
    ranks = {len(one.shape) + 1 for one in node.operands if isinstance(one, Tensor)}
    if found[0] != 1 or (ranks and min(ranks) < len(found)):
        raise InvalidNetwork(
            f"its operands of shapes {shapes} do not fit each other: the batch dimension is lost"
        )
    return tuple(found[1:])


def softmax(node: Node) -> Tensor:
    """Softmax and LogSoftmax at the end do not change which score is the largest."""
    axis = node.attributes(axis=-1 if node.opset >= 13 else 1)["axis"]
    data = node.tensor()
    if node.result not in node.context.tail:
        raise node.refusal("is supported only as the last node, over the scores")
    first = node.axis(axis, len(data.shape) + 1)
    sizes = data.shape[first - 1 :] if node.opset < 13 else data.shape[first - 1 : first]
    if first == 0 or math.prod(sizes) != data.size:
        raise node.refusal(f"works along axis {axis}, which is not the axis of the scores")
    if data.size == 1:
        raise node.refusal("works on one score, of which it always makes the same number")
    node.context.drop(node.proto)
    return data


def increasing(node: Node) -> Tensor:
    """A smooth, strictly increasing function at the end does not change the order of scores."""
    node.attributes()
    return _ignored(node)


def exponential_linear(node: Node) -> Tensor:
    """Celu, Elu and Selu at the end: strictly increasing if their factors are positive."""
    known = {"alpha": 1.0, "gamma": 1.0} if node.kind == "Selu" else {"alpha": 1.0}
    if not all(0 < factor < math.inf for factor in node.attributes(**known).values()):
        raise node.refusal("has a factor that is not positive, so it does not increase everywhere")
    return _ignored(node)


def logarithm(node: Node) -> Tensor:
    """Log at the end, of a Softmax, Sigmoid, Exp or Softplus: their results are positive."""
    node.attributes()
    if node.proto.input[0] not in node.context.tail:
        raise node.refusal(REASONS["Log"])
    return _ignored(node)


def _ignored(node: Node) -> Tensor:
    data = node.tensor()
    if node.result not in node.context.tail:
        raise node.refusal(ONLY_PIECEWISE_LINEAR)
    node.context.drop(node.proto)
    return data
