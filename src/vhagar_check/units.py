"""Reads piecewise linear operators, which become ReLU units."""

from __future__ import annotations

import math

import numpy as np

from vhagar_check.graph import Node
from vhagar_check.joined import Pick
from vhagar_check.layers import Floats, Indices, Scale
from vhagar_check.lowering import Flow, Operand, Value
from vhagar_check.reading import Reader, Wire, checked
from vhagar_check.windows import over_the_image, reduced, windows

# A limit beyond the range of float32 limits nothing.
_ENDS = float(np.finfo(np.float32).max)
_PASSING = ("Identity", "Dropout")
_POOLS = ("MaxPool", "GlobalMaxPool")


def relu(reader: Reader, node: Node) -> Wire:
    node.only()
    wire = reader.wire(node)
    if _pool_follows(reader, node):
        return Wire(wire.value, wire.shape, waits_for_relu=True)
    return Wire(reader.flow.units(wire.value), wire.shape)


def _pool_follows(reader: Reader, node: Node) -> bool:
    """Whether only a max pool takes the ReLU: they commute, and after it there are fewer units."""
    while True:
        (name,) = node.outputs[:1]
        takers = reader.consumers.get(name, [])
        if len(takers) != 1:
            return False
        node = takers[0]
        if node.kind in _POOLS:
            return True
        if node.kind not in _PASSING or node.inputs[0] != name:
            return False


def leaky(reader: Reader, node: Node) -> Wire:
    """`slope * v + (1 - slope) * relu(v)`, computed as `slope * (v - relu(v)) + relu(v)`."""
    wire = reader.wire(node)
    if node.kind == "LeakyRelu":
        node.only("alpha")
        alpha = node.number("alpha", float(np.float32(0.01)))
        slope = np.full(wire.value.size, alpha)
        if not math.isfinite(alpha):
            raise node.refused("has a slope that is not finite")
    else:
        node.only()
        given = reader.floats(node, 1)
        if reader.joint_shape(node, [wire, given]) != wire.shape:
            raise node.refused("has slopes of another shape")
        slope = np.broadcast_to(given, wire.shape).reshape(-1)
    flow, one, zero = reader.flow, np.ones(wire.value.size), np.zeros(wire.value.size)
    positive = flow.units(wire.value)
    rest = flow.sum(Operand(wire.value), Operand(positive, factor=-1.0))
    value = flow.sum(Operand(rest, Scale(slope, one, zero)), Operand(positive))
    return Wire(value, wire.shape)


def absolute(reader: Reader, node: Node) -> Wire:
    node.only()
    wire = reader.wire(node)
    positive = reader.flow.units(wire.value)
    value = reader.flow.sum(Operand(positive, factor=2.0), Operand(wire.value, factor=-1.0))
    return Wire(value, wire.shape)


def clip(reader: Reader, node: Node) -> Wire:
    """`low + relu(v - low) - relu(v - high)`."""
    node.only("min", "max")
    wire = reader.alias(node)
    low, high = (_limit(reader, node, k, name) for k, name in ((1, "min"), (2, "max")))
    low = None if low is None or low <= -_ENDS else low
    high = None if high is None or high >= _ENDS else high
    if low is None and high is None:
        return wire
    wire, size = reader.wire(node), wire.value.size
    if any(end is not None and not abs(end) < _ENDS for end in (low, high)):
        raise node.refused("has a limit that is not finite")
    if low is not None and high is not None and low > high:
        raise node.refused("has a lower limit above the upper one")
    if low is None and high is not None:
        return Wire(at_most(reader, wire.value, np.full(size, high)), wire.shape)
    bottom = np.full(size, low)
    if high is None:
        return Wire(at_least(reader, wire.value, bottom), wire.shape)
    return Wire(_between(reader, wire.value, bottom, np.full(size, high)), wire.shape)


def _limit(reader: Reader, node: Node, position: int, name: str) -> float | None:
    """A limit of a Clip, which may be an attribute; None if there is none."""
    if name in node.attributes:
        return node.number(name, 0.0)
    given, end = reader.given(node, position), reader.scalar(node, position)
    is_double = isinstance(given, np.ndarray) and given.dtype == np.float64
    if end is not None and is_double and _ENDS <= abs(end) < np.finfo(np.float64).max:
        raise node.refused("has a limit beyond the range of float32, in double precision")
    return end


def _between(reader: Reader, value: Value, low: Floats, high: Floats) -> Value:
    """`low + relu(v - low) - relu(v - high)`."""
    above = reader.flow.units(reader.added(value, -low))
    beyond = reader.flow.units(reader.added(value, -high))
    return reader.added(reader.flow.sum(Operand(above), Operand(beyond, factor=-1.0)), low)


def hard_sigmoid(reader: Reader, node: Node) -> Wire:
    """Read `alpha * v + beta`, clipped to 0 and 1."""
    node.only("alpha", "beta")
    wire = reader.wire(node)
    alpha = node.number("alpha", float(np.float32(0.2)))
    beta = node.number("beta", 0.5)
    if not (math.isfinite(alpha) and math.isfinite(beta)):
        raise node.refused("has a line that is not finite")
    size, one = wire.value.size, np.ones(wire.value.size)
    line = reader.flow.through(wire.value, Scale(np.full(size, alpha), one, np.full(size, beta)))
    return Wire(_between(reader, line, np.zeros(size), one), wire.shape)


def thresholded(reader: Reader, node: Node) -> Wire:
    """Read a thresholded ReLU with threshold 0; with any other it jumps."""
    node.only("alpha")
    if node.number("alpha", 1.0) != 0:
        raise node.refused("jumps at its threshold")
    wire = reader.wire(node)
    return Wire(reader.flow.units(wire.value), wire.shape)


def at_least(reader: Reader, value: Value, limit: Floats) -> Value:
    """`limit + relu(v - limit)`."""
    return reader.added(reader.flow.units(reader.added(value, -limit)), limit)


def at_most(reader: Reader, value: Value, limit: Floats) -> Value:
    """`limit - relu(limit - v)`."""
    one = np.ones(value.size)
    below = reader.flow.units(reader.flow.through(value, Scale(-one, one, limit)))
    return reader.flow.through(below, Scale(-one, one, limit))


def extreme(reader: Reader, node: Node) -> Wire:
    """Read Max and Min of any number of operands; constants are combined first."""
    node.only()
    given = reader.all_given(node)
    least = node.kind == "Min"
    shape = checked(node, reader.joint_shape(node, given), reader)
    reader.require_batch(node, shape)
    wires = [item for item in given if isinstance(item, Wire)]
    constants = [
        np.broadcast_to(reader.floats(node, k), shape).reshape(-1)
        for k, item in enumerate(given)
        if not isinstance(item, Wire)
    ]
    limit = (np.minimum if least else np.maximum).reduce(constants) if constants else None
    flow = reader.flow
    if len(wires) == 1:
        operand = reader.spread(node, wires[0], shape)
        if limit is None:
            return Wire(flow.sum(operand), shape)
        value = operand.value if operand.layer is None else flow.sum(operand)
        return Wire((at_most if least else at_least)(reader, value, limit), shape)
    if len(wires) == 2 and limit is None:
        first, second = (reader.spread(node, wire, shape) for wire in wires)
        over = flow.units(flow.sum(first, reader.spread(node, wires[1], shape, -1.0)))
        if least:
            return Wire(flow.sum(first, Operand(over, factor=-1.0)), shape)
        return Wire(flow.sum(second, Operand(over)), shape)
    return _of_many(reader, node, wires, limit, shape, least)


def _of_many(
    reader: Reader,
    node: Node,
    wires: list[Wire],
    limit: Floats | None,
    shape: tuple[int, ...],
    least: bool,
) -> Wire:
    """Put the operands side by side, and group one entry of each; the constant comes last."""
    size, count = math.prod(shape), len(wires) + (limit is not None)
    checked(node, (size * count,), reader)
    operands = []
    for k, wire in enumerate(wires):
        place = np.full(size * count, -1)
        reader.flow.budget.spend(place.size)
        place[k * size : (k + 1) * size] = np.broadcast_to(wire.positions, shape).reshape(-1)
        operands.append(reader.operand(wire, place))
    entries = reader.flow.sum(*operands)
    if limit is not None:
        entries = reader.added(entries, np.concatenate([np.zeros(size * len(wires)), limit]))
    table = np.arange(size * count).reshape(count, size).T
    return Wire(extremes(reader.flow, entries, table, least), shape)


def max_pool(reader: Reader, node: Node) -> Wire:
    node.only(
        "kernel_shape", "strides", "dilations", "pads", "auto_pad", "ceil_mode", "storage_order"
    )
    if len([name for name in node.outputs if name]) != 1:
        raise node.refused("gives the places of its maxima too")
    waiting = reader.alias(node)
    wire = _awaited(reader, node, waiting)
    table, shape, _ = windows(reader, node, wire)
    return _pooled(reader, wire, table, shape, waiting.waits_for_relu)


def global_max_pool(reader: Reader, node: Node) -> Wire:
    waiting = reader.alias(node)
    wire = _awaited(reader, node, waiting)
    table, shape = over_the_image(node, wire)
    return _pooled(reader, wire, table, shape, waiting.waits_for_relu)


def _awaited(reader: Reader, node: Node, wire: Wire) -> Wire:
    """The input of a pool, without the ReLU that is applied after the pool instead."""
    return Wire(wire.value, wire.shape) if wire.waits_for_relu else reader.wire(node)


def _pooled(
    reader: Reader, wire: Wire, table: Indices, shape: tuple[int, ...], then_relu: bool
) -> Wire:
    value = extremes(reader.flow, wire.value, table, False)
    return Wire(reader.flow.units(value) if then_relu else value, shape)


def reduce_extreme(reader: Reader, node: Node) -> Wire:
    wire, table, shape = reduced(reader, node)
    return Wire(extremes(reader.flow, wire.value, table, node.kind == "ReduceMin"), shape)


def extremes(flow: Flow, entries: Value, table: Indices, least: bool) -> Value:
    """The maximum (or the minimum) of each group of entries, a row of the table, -1 for none.

    Level by level, neighbours a, b become `b + relu(a - b)` (the minimum: `a - relu(a - b)`); an
    entry left over at the end of a group waits for the next level. Every level is a ReLU layer.
    """
    order = np.argsort(table < 0, axis=1, kind="stable")
    table = np.take_along_axis(table, order, axis=1)
    if not (table[:, 1:] >= 0).any():
        return flow.through(entries, Pick.of(table[:, 0], entries.size))
    while (table[:, 1:] >= 0).any():
        if table.shape[1] % 2:
            table = np.concatenate([table, np.full((len(table), 1), -1)], axis=1)
        first, second = table[:, 0::2], table[:, 1::2]
        pair, there = second >= 0, first >= 0
        flow.budget.spend(table.size)
        kept = first if least else np.where(pair, second, first)
        carried = flow.through(entries, Pick.of(kept[there], entries.size))
        over = flow.units(
            flow.sum(
                Operand(entries, Pick.of(first[pair], entries.size)),
                Operand(entries, Pick.of(second[pair], entries.size, -1.0)),
            )
        )
        unit = np.where(pair[there], np.cumsum(pair[there]) - 1, -1)
        moved = Operand(over, Pick.of(unit, over.size, -1.0 if least else 1.0))
        entries = flow.sum(Operand(carried), moved)
        table = np.where(there, (np.cumsum(there) - 1).reshape(there.shape), -1)
    return entries
