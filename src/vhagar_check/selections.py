"""Reads operators that only choose and arrange entries, as tables of the entries' indices."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from vhagar_check.feature_operators import chosen_features
from vhagar_check.graph import Node
from vhagar_check.layers import Indices, Shape
from vhagar_check.reading import Reader, axis_of, checked

_MOST = 2**62


def new_shape(reader: Reader, node: Node, old: Shape, batch: int = 1) -> Shape:
    """The shape after a Reshape; a fixed batch size in the first place stands for the batch."""
    node.only("allowzero")
    wanted = reader.integers(node, "shape", 1)
    if batch > 1 and wanted and wanted[0] in (1, batch):
        if wanted[0] == 1:
            raise node.refused("joins the inputs of a batch")
        wanted = [1, *wanted[1:]]
    if wanted is None or (node.integer("allowzero", 0) and 0 in wanted):
        raise node.refused("has a shape that is not understood")
    if any(size == 0 and k >= len(old) for k, size in enumerate(wanted)):
        raise node.refused("keeps the size of an axis that there is not")
    sizes = [old[k] if size == 0 else size for k, size in enumerate(wanted)]
    rest = math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and rest > 0 and math.prod(old) % rest == 0:
        sizes[sizes.index(-1)] = math.prod(old) // rest
    if any(size < 1 for size in sizes) or math.prod(sizes) != math.prod(old):
        raise node.refused("reshapes to a size that does not fit")
    return tuple(sizes)


def flat_shape(node: Node, old: Shape) -> Shape:
    """The shape after a Flatten."""
    node.only("axis")
    axis = node.integer("axis", 1)
    axis = axis + len(old) if axis < 0 else axis
    if not 1 <= axis <= len(old) or math.prod(old[:axis]) != 1:
        raise node.refused("flattens from an axis other than 1")
    return 1, math.prod(old)


def squeezed_shape(reader: Reader, node: Node, old: Shape) -> Shape:
    """The shape after a Squeeze; without axes it drops all of size 1, even the batch's."""
    node.only("axes")
    axes = reader.integers(node, "axes", 1)
    if not axes:
        return tuple(size for size in old if size != 1)
    gone = {axis_of(node, axis, len(old)) for axis in axes}
    if any(old[axis] != 1 for axis in gone):
        raise node.refused("removes an axis that is not of size 1")
    return tuple(size for k, size in enumerate(old) if k not in gone)


def unsqueezed_shape(reader: Reader, node: Node, old: Shape) -> Shape:
    node.only("axes")
    axes = reader.integers(node, "axes", 1)
    if axes is None or len(axes) > 8:
        raise node.refused("does not say which axes it adds")
    rank = len(old) + len(axes)
    new = {axis_of(node, axis, rank) for axis in axes}
    if len(new) != len(axes):
        raise node.refused("adds an axis twice")
    kept = iter(old)
    return tuple(1 if k in new else next(kept) for k in range(rank))


def _squeeze(reader: Reader, node: Node, positions: Indices) -> list[Indices]:
    return [positions.reshape(squeezed_shape(reader, node, positions.shape))]


def _unsqueeze(reader: Reader, node: Node, positions: Indices) -> list[Indices]:
    return [positions.reshape(unsqueezed_shape(reader, node, positions.shape))]


def _transpose(reader: Reader, node: Node, positions: Indices) -> list[Indices]:
    node.only("perm")
    order = node.integers("perm", list(range(positions.ndim))[::-1])
    if sorted(order) != list(range(positions.ndim)):
        raise node.refused("has an order of axes that is none")
    return [positions.transpose(order)]


def _slice(reader: Reader, node: Node, positions: Indices) -> list[Indices]:
    node.only("starts", "ends", "axes")
    starts, ends = (reader.integers(node, name, k) for k, name in ((1, "starts"), (2, "ends")))
    if starts is None or ends is None or len(starts) != len(ends):
        raise node.refused("does not say where it begins and ends")
    axes = reader.integers(node, "axes", 3)
    axes = list(range(len(starts))) if axes is None else axes
    steps = reader.integers(node, "steps", 4) or [1] * len(starts)
    if not len(starts) == len(axes) == len(steps) or 0 in steps:
        raise node.refused("has starts, ends, axes and steps that do not fit")
    places = [axis_of(node, axis, positions.ndim) for axis in axes]
    if len(set(places)) != len(places):
        raise node.refused("cuts an axis twice")
    parts = [slice(None)] * positions.ndim
    for place, start, end, step in zip(places, starts, ends, steps, strict=True):
        parts[place] = slice(start, end, step)
    return [positions[tuple(parts)]]


def _split(reader: Reader, node: Node, positions: Indices) -> list[Indices]:
    node.only("axis", "split", "num_outputs")
    axis = axis_of(node, node.integer("axis", 0), positions.ndim)
    size, count = positions.shape[axis], len(node.outputs)
    sizes = reader.integers(node, "split", 1)
    if node.integer("num_outputs", count) != count:
        raise node.refused("does not have as many outputs as it says")
    if sizes is None:
        each = -(-size // count)
        if size % count and "num_outputs" not in node.attributes:
            raise node.refused("splits into parts of different sizes without saying which")
        sizes = [min(each, size - k * each) for k in range(count)]
    if len(sizes) != count or min(sizes) < 0 or sum(sizes) != size:
        raise node.refused("splits into parts that do not fit")
    return np.split(positions, np.cumsum(sizes)[:-1], axis=axis)


def _gather(reader: Reader, node: Node, positions: Indices) -> list[Indices]:
    node.only("axis")
    index = reader.given(node, 1)
    axis = axis_of(node, node.integer("axis", 0), positions.ndim)
    if not isinstance(index, np.ndarray) or index.dtype.kind != "i":
        raise node.refused("does not have a constant index")
    size = positions.shape[axis]
    if not ((index >= -size) & (index < size)).all():
        raise node.refused("takes entries that there are not")
    checked(node, (max(1, positions.size // size * index.size),), reader)
    return [np.take(positions, index, axis=axis)]


def _expand(reader: Reader, node: Node, positions: Indices) -> list[Indices]:
    node.only()
    shape = reader.integers(node, "shape", 1)
    if shape is None or any(not 0 < size < _MOST for size in shape):
        raise node.refused("has a shape that is not understood")
    try:
        whole = np.broadcast_shapes(positions.shape, tuple(shape))
    except ValueError as error:
        raise node.refused("has a shape that does not fit") from error
    return [np.broadcast_to(positions, checked(node, whole, reader))]


def _tile(reader: Reader, node: Node, positions: Indices) -> list[Indices]:
    node.only()
    repeats = reader.integers(node, "repeats", 1)
    if repeats is None or len(repeats) != positions.ndim or min(repeats, default=1) < 1:
        raise node.refused("has repeats that do not fit")
    whole = tuple(size * times for size, times in zip(positions.shape, repeats, strict=True))
    checked(node, whole, reader)
    return [np.tile(positions, repeats)]


def _blocks(node: Node, positions: Indices) -> tuple[int, Shape]:
    size = node.integer("blocksize", 0)
    if positions.ndim != 4 or not 0 < size <= max(positions.shape):
        raise node.refused("is not about blocks of an image")
    return size, positions.shape


def _depth_to_space(reader: Reader, node: Node, positions: Indices) -> list[Indices]:
    node.only("blocksize", "mode")
    size, (batch, channels, height, width) = _blocks(node, positions)
    mode, rest = node.text("mode", "DCR"), channels // size**2
    if mode not in ("DCR", "CRD") or rest * size**2 != channels:
        raise node.refused("has a mode or channels that do not fit")
    if mode == "DCR":
        parts = positions.reshape(batch, size, size, rest, height, width)
        turned = parts.transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = positions.reshape(batch, rest, size, size, height, width)
        turned = parts.transpose(0, 1, 4, 2, 5, 3)
    return [turned.reshape(batch, rest, height * size, width * size)]


def _space_to_depth(reader: Reader, node: Node, positions: Indices) -> list[Indices]:
    node.only("blocksize")
    size, (batch, channels, height, width) = _blocks(node, positions)
    if height % size or width % size:
        raise node.refused("has blocks that do not fit")
    high, wide = height // size, width // size
    parts = positions.reshape(batch, channels, high, size, wide, size)
    return [parts.transpose(0, 3, 5, 1, 2, 4).reshape(batch, channels * size**2, high, wide)]


def _resize(reader: Reader, node: Node, positions: Indices) -> list[Indices]:
    """Read Resize since version 11, which states how pixels are placed and rounded."""
    if reader.graph.opset < 11:
        return _upsample(reader, node, positions)
    node.only(*_RESIZING)
    way, rounding = (
        node.text(name, default)
        for name, default in (
            ("coordinate_transformation_mode", "half_pixel"),
            ("nearest_mode", "round_prefer_floor"),
        )
    )
    known = way in ("half_pixel", "pytorch_half_pixel", "asymmetric") and rounding in _ROUNDINGS
    if node.text("mode", "nearest") != "nearest" or not known:
        raise node.refused("is not to the nearest entry in a way that is understood")
    axes = [axis_of(node, axis, positions.ndim) for axis in node.integers("axes", [])]
    axes = axes or list(range(positions.ndim))
    scales = reader.given(node, 2)
    if isinstance(scales, np.ndarray) and scales.size:
        factors = _scales(reader, node, 2)
    else:
        sizes = reader.integers(node, "sizes", 3)
        if sizes is None or node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
            raise node.refused("does not say its scales or sizes")
        factors = _ratios(node, positions, axes, sizes)
    return [_nearest(reader, node, positions, axes, factors, way != "asymmetric", rounding)]


def _scales(reader: Reader, node: Node, position: int) -> list[float]:
    scales = reader.floats(node, position)
    if node.inputs[position] in reader.rounded:
        raise node.refused("has scales that runtimes may round")
    return [float(scale) for scale in scales.ravel()]


def _ratios(node: Node, positions: Indices, axes: list[int], sizes: list[int]) -> list[float]:
    if len(sizes) != len(axes) or any(
        size < 1 or size % positions.shape[axis] for axis, size in zip(axes, sizes, strict=True)
    ):
        raise node.refused("does not resize to multiples of the size")
    return [float(size // positions.shape[axis]) for axis, size in zip(axes, sizes, strict=True)]


def _upsample(reader: Reader, node: Node, positions: Indices) -> list[Indices]:
    node.only("mode", "scales")
    if node.text("mode", "nearest") != "nearest":
        raise node.refused("is not to the nearest entry")
    if reader.graph.opset < 9:
        factors = node.numbers("scales").tolist()
    else:
        factors = _scales(reader, node, 1)
    axes = list(range(positions.ndim))
    return [_nearest(reader, node, positions, axes, factors, False, "floor")]


def _nearest(
    reader: Reader,
    node: Node,
    positions: Indices,
    axes: list[int],
    factors: list[float],
    half_pixel: bool,
    rounding: str,
) -> Indices:
    """Stretch axes: entry k of one f times as long is at `(k + 1/2) / f - 1/2`, or at `k / f`."""
    if len(factors) != len(axes) or len(set(axes)) != len(axes):
        raise node.refused("has scales that do not fit")
    for axis, factor in zip(axes, factors, strict=True):
        if not 1 <= factor <= _LONGEST or factor != int(factor):
            raise node.refused("does not resize to multiples of the size")
        size, times = positions.shape[axis], int(factor)
        checked(node, (positions.size, times), reader)
        twice = 2 * np.arange(size * times) + (1 if half_pixel else 0)
        # Twice the place is `twice / times` (less 1), so that whole numbers are enough.
        numerator = twice - (times if half_pixel else 0)
        place = _ROUNDINGS[rounding](numerator, 2 * times)
        positions = np.take(positions, np.clip(place, 0, size - 1), axis=axis)
    return positions


_LONGEST = 2**20
_RESIZING = (
    "mode",
    "nearest_mode",
    "coordinate_transformation_mode",
    "cubic_coeff_a",
    "exclude_outside",
    "extrapolation_value",
    "keep_aspect_ratio_policy",
    "antialias",
    "axes",
)
# Ways to round a fraction, given by its numerator and denominator, to a whole number.
_ROUNDINGS: dict[str, Callable[[Indices, int], Indices]] = {
    "floor": lambda n, d: n // d,
    "ceil": lambda n, d: -(-n // d),
    "round_prefer_floor": lambda n, d: -((d - 2 * n) // (2 * d)),
    "round_prefer_ceil": lambda n, d: (2 * n + d) // (2 * d),
}

Selection = Callable[[Reader, Node, Indices], list[Indices]]
# Functions from a table of an operand's indices to the tables of the results.
SELECTIONS: dict[str, Selection] = {
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Slice": _slice,
    "Split": _split,
    "Gather": _gather,
    "ml.ArrayFeatureExtractor": chosen_features,
    "Resize": _resize,
    "Upsample": _upsample,
    "Expand": _expand,
    "Tile": _tile,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
