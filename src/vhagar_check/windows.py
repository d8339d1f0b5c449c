"""Reads operators that slide a window over an image: convolutions and pools."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vhagar_check.graph import Node
from vhagar_check.joined import Pick
from vhagar_check.layers import Conv, Floats, Indices, Scale, Shape, Transposed
from vhagar_check.reading import Reader, Wire, axis_of, refuse_unless


def conv(reader: Reader, node: Node) -> Wire:
    """Read a convolution over images, or over vectors, which are images of one row."""
    node.only("kernel_shape", "strides", "dilations", "pads", "auto_pad", "group")
    wire, weight = reader.wire(node), reader.floats(node, 1)
    if weight.ndim not in (3, 4) or len(wire.shape) != weight.ndim:
        raise node.refused("is not a two-dimensional convolution")
    filters, channels, *kernel = weight.shape
    has_bias = len(node.inputs) > 2 and node.inputs[2]
    bias = reader.floats(node, 2) if has_bias else np.zeros(filters)
    groups = node.integer("group", 1)
    if groups < 1 or bias.shape != (filters,) or not weight.size:
        raise node.refused("has strides, dilations, pads or a bias that do not fit")
    fits = channels * groups == wire.shape[1] and filters % groups == 0
    if node.integers("kernel_shape", kernel) != kernel or not fits:
        raise node.refused("has a kernel that does not fit its input")
    frame = _frame(node, wire.shape[2:], kernel)
    reader.flow.budget.spend(channels * groups * math.prod(frame.padded))
    reader.flow.budget.spend(filters * math.prod(frame.extents))
    layer = Conv(
        weight.reshape(filters, channels, *frame.kernel),
        bias,
        (wire.shape[1], *frame.image),
        frame.strides,
        frame.pads,
        frame.dilations,
        groups,
    )
    refuse_unless(layer.out_shape[1:] == frame.extents, node, "does not fit its input")
    extents = frame.extents[2 - len(kernel) :]
    return Wire(reader.flow.through(wire.value, layer), (1, filters, *extents))


def conv_transpose(reader: Reader, node: Node) -> Wire:
    """Read the transpose of the convolution that would lead from its output to its input."""
    node.only("kernel_shape", "strides", "dilations", "pads", "group", "output_padding", "auto_pad")
    wire, weight = reader.wire(node), reader.floats(node, 1)
    if weight.ndim != 4 or len(wire.shape) != 4 or node.text("auto_pad", "NOTSET") != "NOTSET":
        raise node.refused("is not a two-dimensional convolution with given pads")
    inputs, per_group, *kernel = weight.shape
    groups, more = node.integer("group", 1), node.integers("output_padding", [0, 0])
    strides, dilations = node.integers("strides", [1, 1]), node.integers("dilations", [1, 1])
    pads = node.integers("pads", [0] * 4)
    lengths = [len(part) for part in (strides, dilations, more, pads)]
    if lengths != [2, 2, 2, 4] or min(*strides, *dilations, *kernel, groups) < 1:
        raise node.refused("has strides, dilations or pads that do not fit")
    if min(*pads, *more) < 0 or more[0] >= strides[0] or more[1] >= strides[1]:
        raise node.refused("has pads that do not fit")
    if inputs != wire.shape[1] or inputs % groups:
        raise node.refused("has a kernel that does not fit its input")
    if node.integers("kernel_shape", kernel) != kernel:
        raise node.refused("has a kernel that does not fit its input")
    spans = [strides[k] * (wire.shape[2 + k] - 1) + dilations[k] * (kernel[k] - 1) for k in (0, 1)]
    image = [spans[k] + 1 + more[k] - pads[k] - pads[k + 2] for k in (0, 1)]
    refuse_unless(min(image) > 0, node, "has pads that leave nothing")
    reader.flow.budget.spend(per_group * groups * (image[0] + sum(pads)) * (image[1] + sum(pads)))
    has_bias = len(node.inputs) > 2 and node.inputs[2]
    bias = reader.floats(node, 2) if has_bias else np.zeros(per_group * groups)
    shape = (per_group * groups, *image)
    back = Conv(
        weight, np.zeros(inputs), shape, tuple(strides), tuple(pads), tuple(dilations), groups
    )
    fits = back.out_shape == wire.shape[1:] and bias.shape == (shape[0],)
    refuse_unless(fits, node, "has a kernel or a bias that does not fit its input")
    value = reader.flow.through(wire.value, Transposed(back, np.repeat(bias, math.prod(image))))
    return Wire(value, (1, *shape))


@dataclass(frozen=True)
class _Frame:
    """The geometry of a sliding window. Pads are (top, left, bottom, right)."""

    image: Shape
    kernel: Shape
    strides: Shape
    dilations: Shape
    pads: Shape
    padded: Shape
    extents: Shape  # the number of positions of the window

    def met(self, axis: int) -> Indices:
        """The rows (or columns) of the image that each position covers; some lie outside."""
        first = np.arange(self.extents[axis]) * self.strides[axis] - self.pads[axis]
        return np.asarray(first[:, None] + self.dilations[axis] * np.arange(self.kernel[axis]))


def _frame(node: Node, image: Shape, kernel: list[int], ceil: bool = False) -> _Frame:
    rank = len(kernel)
    strides, dilations = (
        node.integers("strides", [1] * rank),
        node.integers("dilations", [1] * rank),
    )
    pads, mode = node.integers("pads", [0] * 2 * rank), node.text("auto_pad", "NOTSET")
    lengths = [len(part) for part in (image, strides, dilations, pads)]
    if rank not in (1, 2) or lengths != [rank, rank, rank, 2 * rank]:
        raise node.refused("has strides, dilations or pads that do not fit")
    if min(*strides, *dilations, *kernel) < 1 or min(pads) < 0:
        raise node.refused("has strides, dilations or pads that do not fit")
    if rank == 1:
        image, kernel, strides, dilations = (
            (1, *image),
            [1, *kernel],
            [1, *strides],
            [1, *dilations],
        )
        pads = [0, pads[0], 0, pads[1]]
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        if dilations != [1, 1]:
            raise node.refused("has dilations and an automatic padding")
        pads = _same_pads(image, kernel, strides, mode == "SAME_UPPER")
    elif mode not in ("NOTSET", "VALID"):
        raise node.refused(f"has an unknown auto_pad {mode!r}")
    elif mode == "VALID":
        if ceil:  # by ONNX's text this changes nothing, but runtimes round up
            raise node.refused("rounds up without padding, which can be read in two ways")
        pads = [0] * 4
    padded = [image[k] + pads[k] + pads[k + 2] for k in (0, 1)]
    extents = []
    for k in (0, 1):
        room = padded[k] - dilations[k] * (kernel[k] - 1) - 1
        count = room // strides[k] + 1
        if ceil:
            count = -(-room // strides[k]) + 1
            # A position that begins in the padding behind the image does not count.
            count -= (count - 1) * strides[k] >= image[k] + pads[k]
        extents.append(count)
    if min(extents) < 1:
        raise node.refused("has a kernel that does not fit its input")
    parts = (image, kernel, strides, dilations, pads, padded, extents)
    return _Frame(*(tuple(part) for part in parts))


def _same_pads(shape: Shape, kernel: list[int], strides: list[int], upper: bool) -> list[int]:
    before, after = [], []
    for size, width, step in zip(shape, kernel, strides, strict=True):
        total = max((-(-size // step) - 1) * step + width - size, 0)
        first = total // 2 if upper else total - total // 2
        before.append(first)
        after.append(total - first)
    return before + after


def windows(reader: Reader, node: Node, wire: Wire) -> tuple[Indices, Shape, _Frame]:
    """The entries that each output of a pool sees, -1 outside the image, and its shape."""
    kernel = node.integers("kernel_shape", [])
    if len(wire.shape) != 2 + len(kernel):
        raise node.refused("is not over an image of as many dimensions as its kernel")
    channels = wire.shape[1]
    frame = _frame(node, wire.shape[2:], kernel, bool(node.integer("ceil_mode", 0)))
    shape = (channels, *frame.extents)
    reader.flow.budget.spend(math.prod(shape) * math.prod(kernel))
    height, width = frame.image
    rows, columns = frame.met(0)[:, None, :, None], frame.met(1)[None, :, None, :]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    place = np.where(inside, rows * width + columns, -1)
    offsets = np.arange(channels)[:, None, None, None, None] * height * width
    table = np.where(place >= 0, place + offsets, -1).reshape(math.prod(shape), -1)
    if (table < 0).all(axis=1).any():
        raise node.refused("has a window without any entry of the image")
    return table, (1, channels, *frame.extents[2 - len(kernel) :]), frame


def average_pool(reader: Reader, node: Node) -> Wire:
    node.only(
        "kernel_shape", "strides", "dilations", "pads", "auto_pad", "ceil_mode", "count_include_pad"
    )
    wire = reader.wire(node)
    table, shape, frame = windows(reader, node, wire)
    count: Floats = (table >= 0).sum(axis=1).astype(np.float64)
    if node.integer("count_include_pad", 0):
        # A window may reach beyond the padding, where entries do not count.
        rows, columns = (
            (frame.met(k) < frame.image[k] + frame.pads[k + 2]).sum(axis=1) for k in (0, 1)
        )
        count = np.tile(np.outer(rows, columns).reshape(-1), shape[1]).astype(np.float64)
    return _mean(reader, wire, table, count, shape)


def _mean(reader: Reader, wire: Wire, table: Indices, count: Floats, shape: Shape) -> Wire:
    """Divide the sums of groups of entries; the sums and the division are exact."""
    total = reader.flow.through(wire.value, Pick.of(table, wire.value.size))
    share = Scale(np.ones(total.size), count, np.zeros(total.size))
    return Wire(reader.flow.through(total, share), shape)


def over_the_image(node: Node, wire: Wire) -> tuple[Indices, Shape]:
    """The groups of a global pool, each a channel's whole image, and the resulting shape."""
    node.only()
    if len(wire.shape) < 3:
        raise node.refused("is not over an image")
    table = wire.positions.reshape(wire.shape[1], -1)
    return table, (1, wire.shape[1], *([1] * (len(wire.shape) - 2)))


def global_average_pool(reader: Reader, node: Node) -> Wire:
    wire = reader.wire(node)
    table, shape = over_the_image(node, wire)
    return _mean(reader, wire, table, np.full(len(table), float(table.shape[1])), shape)


def reduced(reader: Reader, node: Node) -> tuple[Wire, Indices, Shape]:
    """The groups of a reduction: the entries along some axes, in order."""
    node.only("axes", "keepdims", "noop_with_empty_axes")
    wire = reader.wire(node)
    rank = len(wire.shape)
    axes = reader.integers(node, "axes", 1)
    if not axes and node.integer("noop_with_empty_axes", 0):
        raise node.refused("reduces nothing")
    chosen = {axis_of(node, axis, rank) for axis in axes} if axes else set(range(rank))
    kept = [k for k in range(rank) if k not in chosen]
    table = wire.positions.transpose([*kept, *sorted(chosen)])
    outputs = math.prod(wire.shape[k] for k in kept)
    if node.integer("keepdims", 1):
        shape = tuple(1 if k in chosen else size for k, size in enumerate(wire.shape))
    else:
        shape = tuple(wire.shape[k] for k in kept)
    reader.require_batch(node, shape)
    return wire, table.reshape(outputs, -1), shape


def reduce_sum(reader: Reader, node: Node) -> Wire:
    wire, table, shape = reduced(reader, node)
    return Wire(reader.flow.through(wire.value, Pick.of(table, wire.value.size)), shape)


def reduce_mean(reader: Reader, node: Node) -> Wire:
    wire, table, shape = reduced(reader, node)
    return _mean(reader, wire, table, np.full(len(table), float(table.shape[1])), shape)
