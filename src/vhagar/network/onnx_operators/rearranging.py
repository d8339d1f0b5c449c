"""Operators that move, select or repeat entries, of constants and of data alike.

Each is one function from arrays to arrays. For data, it is applied to the indices of the entries in
a batch of two: the result says where each entry goes, and whether the images stay separate. A batch
of one must give the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vhagar.errors import InvalidNetwork
from vhagar.network.graph import Tensor
from vhagar.network.maps import SparseMap, selection
from vhagar.network.onnx_node import Constant, Node, Operand, require_modest

Rearrangement = Callable[[Node, Constant], list[Constant]]


def rearranged(function: Rearrangement) -> Callable[[Node], list[Operand]]:
    """Make a translator that applies the function to the first operand, constant or data."""

    def translate(node: Node) -> list[Operand]:
        operand = node.operands[0]
        if not isinstance(operand, Tensor):
            return list(function(node, node.constant(0, "operand")))
        numbers = np.arange(2 * operand.size).reshape(2, *operand.shape)
        found = function(node, numbers)
        for index, alone in zip(found, function(node, numbers[:1]), strict=True):
            if not np.array_equal(index[:1], alone):  # as Expand to two images does
                raise node.refusal("works along the batch dimension, which would mix images")
        return [_picked(node, operand, index) for index in found]

    return translate


def _picked(node: Node, data: Tensor, index: Constant, shift: Any = None) -> Tensor:
    apart = index.ndim and len(index) == 2
    if not apart or not (index[1] == np.where(index[0] < 0, -1, index[0] + data.size)).all():
        raise node.refusal("works along the batch dimension, which would mix images")
    picked = selection(data.shape, index[0])
    if shift is not None:
        picked = SparseMap(data.shape, picked.weight, shift.reshape(-1))
    return node.graph.mapped(data, picked, index.shape[1:])


def transpose(node: Node, array: Constant) -> list[Constant]:
    axes = node.attributes(perm=[])["perm"] or list(range(array.ndim))[::-1]
    return [array.transpose(axes)]


def gather(node: Node, array: Constant) -> list[Constant]:
    axis = node.axis(node.attributes(axis=0)["axis"], array.ndim)
    index = node.constant(1, "indices")
    if index.dtype.kind not in "iu":
        raise InvalidNetwork("its indices are not whole numbers")
    require_modest((*array.shape[:axis], *index.shape, *array.shape[axis + 1 :]), array.size)
    if ((index < -array.shape[axis]) | (index >= array.shape[axis])).any():
        raise InvalidNetwork(
            f"its indices are out of range for an axis of {array.shape[axis]} entries"
        )
    return [np.take(array, index, axis=axis)]


def features(node: Node, array: Constant) -> list[Constant]:
    """ArrayFeatureExtractor: the features of each vector that the index names."""
    node.attributes()
    index = node.constant(1, "index")
    if array.ndim != 2:
        raise node.refusal("chooses from something else than a vector of features")
    if index.dtype.kind not in "iu" or not ((index >= 0) & (index < array.shape[1])).all():
        raise InvalidNetwork(f"its index does not name some of {array.shape[1]} features")
    require_modest((len(array), index.size), array.size)
    return [array[:, index.reshape(-1)]]


def slice_of(node: Node, array: Constant) -> list[Constant]:
    if node.opset < 10:
        attributes = node.attributes(starts=[], ends=[], axes=[])
        starts, ends, axes = (list(attributes[key]) for key in ("starts", "ends", "axes"))
        steps = [1] * len(starts)
    else:
        node.attributes()
        starts, ends = node.integers(1, "starts"), node.integers(2, "ends")
        axes = node.integers(3, "axes") if node.has(3) else []
        steps = node.integers(4, "steps") if node.has(4) else [1] * len(starts)
    axes = axes or list(range(len(starts)))
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise InvalidNetwork("its starts, ends, axes or steps do not fit each other")
    chosen = [slice(None)] * array.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = node.axis(axis, array.ndim)
        chosen[place] = _slice(start, end, step, array.shape[place])
    return [array[tuple(chosen)]]


def _slice(start: int, end: int, step: int, size: int) -> slice:
    """Clamp the limits to the axis; a negative step may end before the first entry."""
    start = start + size if start < 0 else start
    end = end + size if end < 0 else end
    if step > 0:
        return slice(min(max(start, 0), size), min(max(end, 0), size), step)
    last = min(max(end, -1), size - 1)
    return slice(min(max(start, 0), size - 1), None if last < 0 else last, step)


def split(node: Node, array: Constant) -> list[Constant]:
    attributes = node.attributes(axis=0, split=[], num_outputs=0)
    axis = node.axis(attributes["axis"], array.ndim)
    size, count = array.shape[axis], len(node.proto.output)
    if attributes["num_outputs"] not in (0, count):  # onnxruntime ends at once then
        raise InvalidNetwork(f"it has {count} outputs, and not as many as it says")
    given = node.integers(1, "split") if node.has(1) else list(attributes["split"])
    if not given:
        each = -(-size // count)
        given = [each] * (count - 1) + [size - each * (count - 1)]
    if len(given) != count or sum(given) != size or min(given) < 0:
        raise InvalidNetwork(f"its parts {given} do not add up to an axis of {size} entries")
    return list(np.split(array, np.cumsum(given)[:-1], axis=axis))


def tile(node: Node, array: Constant) -> list[Constant]:
    node.attributes()
    repeats = node.integers(1, "repeats")
    if len(repeats) != array.ndim or min(repeats, default=1) < 1:
        raise InvalidNetwork(f"its repeats {repeats} do not fit {array.ndim} dimensions")
    require_modest([a * b for a, b in zip(array.shape, repeats, strict=True)], array.size)
    return [np.tile(array, repeats)]


def expand(node: Node, array: Constant) -> list[Constant]:
    node.attributes()
    wanted = node.integers(1, "shape")
    shape = np.broadcast_shapes(array.shape, tuple(wanted))
    require_modest(shape, array.size)
    return [np.broadcast_to(array, shape)]


def depth_to_space(node: Node, array: Constant) -> list[Constant]:
    attributes = node.attributes(blocksize=0, mode=b"DCR")
    batch, channels, height, width = array.shape
    block = attributes["blocksize"]
    if block < 1 or channels % block**2:
        raise InvalidNetwork(f"its blocksize {block} does not fit {channels} channels")
    depth = channels // block**2
    if attributes["mode"] == b"DCR":
        parts = array.reshape(batch, block, block, depth, height, width)
        moved = parts.transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = array.reshape(batch, depth, block, block, height, width)
        moved = parts.transpose(0, 1, 4, 2, 5, 3)
    return [moved.reshape(batch, depth, height * block, width * block)]


def space_to_depth(node: Node, array: Constant) -> list[Constant]:
    block = node.attributes(blocksize=0)["blocksize"]
    batch, channels, height, width = array.shape
    if block < 1 or height % block or width % block:
        raise InvalidNetwork(f"its blocksize {block} does not fit an image {height} x {width}")
    parts = array.reshape(batch, channels, height // block, block, width // block, block)
    moved = parts.transpose(0, 3, 5, 1, 2, 4)
    return [moved.reshape(batch, -1, height // block, width // block)]


def pad(node: Node) -> Operand:
    """Pad with a constant or with entries of the image itself."""
    attributes = node.attributes(mode=b"constant", pads=[], value=0.0)
    operand = node.operands[0]
    rank = len(operand.shape) + isinstance(operand, Tensor) if operand is not None else 0
    pads = list(attributes["pads"]) if node.opset < 11 else node.integers(1, "pads")
    value = attributes["value"]
    if node.opset >= 11 and node.has(2):
        value = float(node.constant(2, "value").reshape(()))
    given = node.integers(3, "axes") if node.has(3) else list(range(rank))
    axes = [node.axis(axis, rank) for axis in given]
    if len(pads) != 2 * len(axes) or not math.isfinite(value):
        raise InvalidNetwork(f"its pads {pads} or its value {value} are invalid")
    ends = {axis: (pads[k], pads[len(axes) + k]) for k, axis in enumerate(axes)}
    if not isinstance(operand, Tensor):
        return _padded(node, node.constant(0, "operand"), ends, attributes["mode"], value)
    if any(ends.get(0, ())):
        raise node.refusal("pads the batch dimension")
    numbers = np.arange(2 * operand.size).reshape(2, *operand.shape)
    index = _padded(node, numbers, ends, attributes["mode"], -1)
    shift = np.where(index[0] < 0, value, 0.0)
    return _picked(node, operand, index, shift if value and shift.any() else None)


_MODES = (b"constant", b"reflect", b"edge", b"wrap")


def _padded(
    node: Node, array: Constant, ends: dict[int, tuple[int, int]], mode: bytes, value: float
) -> Constant:
    if mode not in _MODES:
        raise node.refusal(f"pads in the unknown mode {mode!r}")
    widths = [ends.get(axis, (0, 0)) for axis in range(array.ndim)]
    # Negative pads cut entries off.
    cut = tuple(
        slice(max(-before, 0), size - max(-after, 0))
        for size, (before, after) in zip(array.shape, widths, strict=True)
    )
    wider = [(max(before, 0), max(after, 0)) for before, after in widths]
    wide = (size + sum(more) for size, more in zip(array.shape, wider, strict=True))
    require_modest(wide, array.size)
    filling = {"constant_values": value} if mode == b"constant" else {}
    return np.pad(array[cut], wider, mode=mode.decode(), **filling)  # type: ignore[call-overload,no-any-return]
