"""Reads operators that are linear in the values that depend on the input."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import numpy as np

from vhagar_check.graph import Constant, Node
from vhagar_check.layers import Conv, Dense, Floats, Indices, Scale, Shape
from vhagar_check.lowering import Operand, Value
from vhagar_check.reading import Reader, Result, Wire, axis_of, checked, refuse_unless


def gemm(reader: Reader, node: Node) -> Wire:
    node.only("alpha", "beta", "transA", "transB")
    wire, weight = reader.wire(node), reader.floats(node, 1)
    if weight.ndim != 2 or node.integer("transA", 0) or len(wire.shape) != 2:
        raise node.refused("does not multiply a vector by a matrix")
    weight = weight if node.integer("transB", 0) else weight.T
    bias = np.zeros(len(weight))
    if len(node.inputs) > 2 and node.inputs[2]:
        given = reader.floats(node, 2)
        if given.size not in (1, bias.size) or (given.shape or (1,))[-1] != given.size:
            raise node.refused("has a bias of another size")
        bias = bias + _times(node, given.reshape(-1), node.number("beta", 1.0))
    weight = _times(node, weight, node.number("alpha", 1.0))
    return _dense(reader, node, wire, weight, bias)


def _times(node: Node, values: Floats, factor: float) -> Floats:
    """Scale constants exactly: products of float32 numbers fit into float64, others are refused."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32).astype(np.float64)
    if factor != 1.0 and not ((single == values).all() and math.isfinite(factor)):
        raise node.refused("scales constants of double precision")
    return values * factor


def matmul(reader: Reader, node: Node) -> Wire:
    """Multiply by a constant matrix or vector on either side; rows of values count as vectors."""
    node.only()
    product = reader.product(node, 1)
    if product is not None:
        wire = reader.wire(node)
        for factor in product.factors:
            wire = _times_matrix(reader, node, wire, factor)
        return wire
    given = reader.all_given(node)
    left = len(given) == 2 and isinstance(given[1], Wire)
    wire, weight = reader.wire(node, int(left)), reader.floats(node, 1 - int(left))
    if not left:
        return _times_matrix(reader, node, wire, weight)
    is_vector = weight.ndim == 1
    weight = weight[None] if is_vector else weight
    if reader.takes_vectors and len(wire.shape) == 1 and not is_vector and weight.ndim == 2:
        return _dense(reader, node, wire, weight, np.zeros(len(weight)))
    if weight.ndim != 2 or not weight.size or len(wire.shape) < 3:
        raise node.refused("does not multiply a vector by a matrix")
    *outer, size, columns = wire.shape
    found = _columns(reader, node, wire, weight, (math.prod(outer), size, columns))
    shape = (*outer, *([] if is_vector else [len(weight)]), columns)
    return reader.shaped(node, found, shape)


def _times_matrix(reader: Reader, node: Node, wire: Wire, weight: Floats) -> Wire:
    """Multiply a value by a constant matrix or vector to its right."""
    is_vector = weight.ndim == 1
    weight = weight[None] if is_vector else weight.T
    fewest = 1 if reader.takes_vectors and not is_vector else 2
    if weight.ndim != 2 or not weight.size or len(wire.shape) < fewest:
        raise node.refused("does not multiply a vector by a matrix")
    *outer, size = wire.shape
    rows = math.prod(outer)
    shape = (*outer, *([] if is_vector else [len(weight)]))
    if rows == 1:
        value = _dense(reader, node, wire, weight, np.zeros(len(weight))).value
        return reader.shaped(node, value, shape)
    turned = wire.positions.reshape(rows, size).T
    standing = Wire(reader.flow.sum(reader.operand(wire, turned)), (1, size, rows))
    value = _columns(reader, node, standing, weight, (1, size, rows))
    back = np.arange(value.size).reshape(len(weight), rows).T
    whole = Wire(value, (1, len(weight), rows))
    return reader.shaped(node, reader.flow.sum(reader.operand(whole, back)), shape)


def _columns(
    reader: Reader, node: Node, wire: Wire, weight: Floats, shape: tuple[int, int, int]
) -> Value:
    """Multiply a matrix by each of several matrices, as a convolution with 1x1 kernels."""
    count, size, columns = shape
    refuse_unless(weight.shape[1] == size, node, "has a matrix that does not fit")
    reader.flow.budget.spend(count * weight.size)
    reader.flow.budget.spend(count * len(weight) * columns)
    kernel = np.tile(weight, (count, 1))[:, :, None, None]
    bias = np.zeros(len(kernel))
    image = (count * size, 1, columns)
    layer = Conv(kernel, bias, image, (1, 1), (0, 0, 0, 0), (1, 1), count)
    return reader.flow.through(wire.value, layer)


def _dense(reader: Reader, node: Node, wire: Wire, weight: Floats, bias: Floats) -> Wire:
    refuse_unless(weight.size > 0, node, "has an empty matrix")
    value = reader.flow.through(wire.value, Dense(np.ascontiguousarray(weight), bias))
    return Wire(value, (*wire.shape[:-1], len(weight)))


def elementwise(reader: Reader, node: Node) -> Wire:
    """Read Add, Sub, Mul and Div; Mul and Div only by constants."""
    node.only()
    given = reader.all_given(node)
    if len(given) != 2:
        raise node.refused("does not have two inputs")
    shape = _whole_shape(reader, node, given)
    if all(isinstance(item, Wire) for item in given):
        return _both(reader, node, given, shape)
    position = 0 if isinstance(given[0], Wire) else 1
    constant = _constant(reader, node, 1 - position, shape)
    parts = _scaling(node, constant, position == 1)
    operand = reader.spread(node, reader.wire(node, position), shape)
    if operand.layer is None:
        return Wire(reader.flow.through(operand.value, Scale(*parts)), shape)
    return Wire(reader.flow.through(reader.flow.sum(operand), Scale(*parts)), shape)


def _both(reader: Reader, node: Node, given: list[Result], shape: Shape) -> Wire:
    if node.kind not in ("Add", "Sub"):
        raise node.refused("is not linear: both operands depend on the input")
    signs = (1.0, 1.0 if node.kind == "Add" else -1.0)
    operands = [
        reader.spread(node, item, shape, sign)
        for item, sign in zip(given, signs, strict=True)
        if isinstance(item, Wire)
    ]
    return Wire(reader.flow.sum(*operands), shape)


def _scaling(node: Node, value: Floats, reverse: bool) -> tuple[Floats, Floats, Floats]:
    """Factor, divisor and bias; with `reverse` the constant is the first operand."""
    one, zero = np.ones_like(value), np.zeros_like(value)
    if node.kind == "Div" and (reverse or not value.all()):
        raise node.refused("divides by its input or by zero")
    return {
        "Add": (one, one, value),
        "Sub": (-one, one, value) if reverse else (one, one, -value),
        "Mul": (value, one, zero),
        "Div": (one, value, zero),
    }[node.kind]


def _whole_shape(reader: Reader, node: Node, given: list[Result]) -> Shape:
    shape = checked(node, reader.joint_shape(node, given), reader)
    reader.require_batch(node, shape)
    return shape


def _constant(reader: Reader, node: Node, position: int, shape: Shape) -> Floats:
    return np.broadcast_to(reader.floats(node, position), shape).reshape(-1)


def sum_of(reader: Reader, node: Node) -> Wire:
    """Add any number of operands; constants are added one by one, which is exact."""
    node.only()
    given = reader.all_given(node)
    shape = _whole_shape(reader, node, given)
    operands = [reader.spread(node, item, shape) for item in given if isinstance(item, Wire)]
    constants = [
        _constant(reader, node, k, shape)
        for k, item in enumerate(given)
        if not isinstance(item, Wire)
    ]
    return Wire(reduce(reader.added, constants, reader.flow.sum(*operands)), shape)


def mean_of(reader: Reader, node: Node) -> Wire:
    """Divide the sum of the operands by their number."""
    wire = sum_of(reader, node)
    size = wire.value.size
    share = Scale(np.ones(size), np.full(size, float(len(node.inputs))), np.zeros(size))
    return Wire(reader.flow.through(wire.value, share), wire.shape)


def negative(reader: Reader, node: Node) -> Wire:
    node.only()
    wire = reader.wire(node)
    return Wire(reader.flow.sum(Operand(wire.value, factor=-1.0)), wire.shape)


def batch_normalization(reader: Reader, node: Node) -> Wire:
    """`(v - mean) * factor + beta`, the factor `gamma / sqrt(variance + epsilon)` in float64."""
    node.only("epsilon", "momentum", "spatial", "training_mode")
    # Before version 14, more results than one ask for the training mode.
    in_training = reader.graph.opset < 14 and len(node.outputs) > 1
    if node.integer("training_mode", 0) or not node.integer("spatial", 1) or in_training:
        raise node.refused("is in training mode or not per channel")
    wire = reader.wire(node)
    parts = [reader.floats(node, k) for k in range(1, 5)]
    if len(wire.shape) < 2 or any(part.shape != (wire.shape[1],) for part in parts):
        raise node.refused("does not have four numbers for each channel")
    gamma, beta, mean, variance = parts
    spread = variance + node.number("epsilon", float(np.float32(1e-5)))
    if not (spread > 0).all():
        raise node.refused("has a variance that is not positive")
    factor = gamma / np.sqrt(spread)
    each = math.prod(wire.shape[2:])
    factor, beta, mean = (np.repeat(part, each) for part in (factor, beta, mean))
    one = np.ones(wire.value.size)
    layers = Scale(one, one, -mean), Scale(factor, one, beta)
    return Wire(reader.flow.through(wire.value, *layers), wire.shape)


def concat(reader: Reader, node: Node) -> Wire:
    node.only("axis")
    given = reader.all_given(node)
    shapes = [item.shape for item in given]
    axis = axis_of(node, node.integer("axis", 1), len(shapes[0]))
    rest = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    refuse_unless(len(rest) == 1 and axis > 0, node, "joins values that do not fit")
    ends = np.cumsum([shape[axis] for shape in shapes])
    whole = (*shapes[0][:axis], int(ends[-1]), *shapes[0][axis + 1 :])
    checked(node, whole, reader)
    places = []
    for item, end in zip(given, ends, strict=True):
        place = np.full(whole, -1)
        where = (*([slice(None)] * axis), slice(int(end) - item.shape[axis], int(end)))
        reader.flow.budget.spend(place.size)
        place[where] = np.arange(math.prod(item.shape)).reshape(item.shape)
        places.append(place)
    return _placed(reader, node, given, places, whole)


def _placed(
    reader: Reader, node: Node, given: list[Result], places: list[Indices], shape: Shape
) -> Wire:
    """Build a value whose entries are each an entry of one operand, which may be a constant."""
    operands, constants = [], np.zeros(shape)
    for position, (item, place) in enumerate(zip(given, places, strict=True)):
        if isinstance(item, Wire):
            operands.append(reader.operand(item, place))
        else:
            values = _numbers(node, item, position).reshape(-1)
            constants[place >= 0] = values[place[place >= 0]]
    return Wire(reader.added(reader.flow.sum(*operands), constants), shape)


def _numbers(node: Node, item: Constant, position: int) -> Floats:
    if item.dtype.kind != "f" or not np.isfinite(item).all():
        raise node.refused(f"needs finite float constants as its input {position + 1}")
    return item.astype(np.float64)


def where(reader: Reader, node: Node) -> Wire:
    """Choose between two operands by a constant condition, entry by entry."""
    node.only()
    given = reader.all_given(node)
    if len(given) != 3 or isinstance(given[0], Wire) or given[0].dtype.kind != "b":
        raise node.refused("does not choose by a constant condition")
    shape = _whole_shape(reader, node, given)
    first = np.broadcast_to(given[0], shape)
    places = []
    for item, chosen in ((given[1], first), (given[2], ~first)):
        numbers = np.arange(math.prod(item.shape)).reshape(item.shape)
        places.append(np.where(chosen, np.broadcast_to(numbers, shape), -1))
    return _placed(reader, node, given[1:], places, shape)


_PADS: dict[str, Callable[[Indices, list[tuple[int, int]]], Indices]] = {
    "constant": lambda index, widths: np.pad(index, widths, constant_values=-1),
    "reflect": lambda index, widths: np.pad(index, widths, mode="reflect"),
    "edge": lambda index, widths: np.pad(index, widths, mode="edge"),
    "wrap": lambda index, widths: np.pad(index, widths, mode="wrap"),
}


def pad(reader: Reader, node: Node) -> Wire:
    node.only("mode", "pads", "value")
    wire, mode = reader.wire(node), node.text("mode", "constant")
    pads, rank = reader.integers(node, "pads", 1), len(wire.shape)
    axes = reader.integers(node, "axes", 3)
    places = [axis_of(node, axis, rank) for axis in (range(rank) if axes is None else axes)]
    if mode not in _PADS:
        raise node.refused(f"pads in a way that is not understood ({mode!r})")
    if pads is None or len(pads) != 2 * len(places) or len(set(places)) != len(places):
        raise node.refused("has pads that do not fit")
    number = reader.scalar(node, 2) if len(node.inputs) > 2 else node.number("value", 0.0)
    if number is not None and not math.isfinite(number):
        raise node.refused("pads with a number that is not finite")
    index = wire.positions
    for place, before, after in zip(places, pads, pads[len(places) :], strict=False):
        index = _padded(reader, node, index, place, (before, after), mode)
    reader.require_batch(node, index.shape)
    value = reader.flow.sum(reader.operand(wire, index))
    return Wire(reader.added(value, np.where(index < 0, number or 0.0, 0.0)), index.shape)


def _padded(
    reader: Reader, node: Node, index: Indices, axis: int, ends: tuple[int, int], mode: str
) -> Indices:
    """Pad along one axis; a negative number cuts off entries."""
    size = index.shape[axis]
    if mode != "constant" and not all(0 <= end < size for end in ends):
        raise node.refused("repeats more of the image than there is inside")
    more = [max(end, 0) for end in ends]
    for length in (size + sum(ends), size + sum(more)):
        checked(node, (*index.shape[:axis], length, *index.shape[axis + 1 :]), reader)
    widths = [(0, 0)] * index.ndim
    widths[axis] = more[0], more[1]
    whole = _PADS[mode](index, widths)
    begin = max(-ends[0], 0)
    return np.take(whole, np.arange(begin, begin + size + sum(ends)), axis=axis)
