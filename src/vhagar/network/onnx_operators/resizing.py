"""Resize and Upsample to a multiple of the size, each entry taken from the nearest one."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from vhagar.errors import InvalidNetwork
from vhagar.network.onnx_node import Constant, Node, require_modest

_HALF = Fraction(1, 2)
_NEAREST: dict[bytes, Callable[[Fraction], int]] = {
    b"floor": math.floor,
    b"ceil": math.ceil,
    b"round_prefer_floor": lambda place: math.ceil(place - _HALF),
    b"round_prefer_ceil": lambda place: math.floor(place + _HALF),
}
_HALF_PIXEL = (b"half_pixel", b"pytorch_half_pixel")


def resize(node: Node, array: Constant) -> list[Constant]:
    """Resize from operator set 11 on; before it, Resize is Upsample."""
    if node.opset < 11:
        return upsample(node, array)
    found = node.attributes(
        mode=b"nearest",
        nearest_mode=b"round_prefer_floor",
        coordinate_transformation_mode=b"half_pixel",
        cubic_coeff_a=-0.75,
        exclude_outside=0,
        extrapolation_value=0.0,
        keep_aspect_ratio_policy=b"stretch",
        antialias=0,
        axes=[],
    )
    _require_nearest(node, found["mode"])
    moved = found["coordinate_transformation_mode"]
    if moved not in (*_HALF_PIXEL, b"asymmetric") or found["nearest_mode"] not in _NEAREST:
        raise node.refusal(f"places pixels by {moved.decode()}; use asymmetric or half_pixel")
    axes = [node.axis(axis, array.ndim) for axis in found["axes"]] or list(range(array.ndim))
    if node.has(2) and node.constant(2, "scales").size:
        factors = _scales(node, 2)
    elif found["keep_aspect_ratio_policy"] != b"stretch":
        raise node.refusal("keeps the aspect ratio; export the sizes or scales themselves")
    else:
        sizes = node.integers(3, "sizes")
        if len(sizes) != len(axes):
            raise InvalidNetwork(f"its sizes {sizes} do not fit an image of {array.ndim} axes")
        if any(size != 1 for size, axis in zip(sizes, axes, strict=True) if axis == 0):
            raise node.refusal("resizes the batch dimension")
        # The batch has two entries here, whatever its size.
        factors = [
            1 if axis == 0 else size / array.shape[axis]
            for size, axis in zip(sizes, axes, strict=True)
        ]
    return [_enlarged(node, array, axes, factors, moved in _HALF_PIXEL, found["nearest_mode"])]


def upsample(node: Node, array: Constant) -> list[Constant]:
    found = node.attributes(mode=b"nearest", scales=())
    _require_nearest(node, found["mode"])
    given = found["scales"] if node.opset < 9 else _scales(node, 1)
    return [_enlarged(node, array, list(range(array.ndim)), list(given), False, b"floor")]


def _scales(node: Node, position: int) -> list[float]:
    scales = node.weights(position, "scales")
    if node.proto.input[position] in node.context.rounded:
        raise node.refusal("has scales that a runtime may round")
    return [float(scale) for scale in scales.ravel()]


def _require_nearest(node: Node, mode: bytes) -> None:
    if mode != b"nearest":
        raise node.refusal(f"interpolates ({mode.decode()}); only nearest is supported")


def _enlarged(
    node: Node,
    array: Constant,
    axes: list[int],
    factors: list[float],
    half_pixel: bool,
    rounding: bytes,
) -> Constant:
    if len(factors) != len(axes):
        raise InvalidNetwork(f"its scales {factors} do not fit an image of {array.ndim} axes")
    if any(factor != int(factor) or factor < 1 for factor in factors):
        raise node.refusal(f"scales by {factors}; only whole numbers from 1 are supported")
    for axis, factor in zip(axes, map(int, factors), strict=True):
        if factor == 1:
            continue
        size = array.shape[axis]
        require_modest([*array.shape, factor], array.size)
        places = [
            _source(place, factor, size, half_pixel, rounding) for place in range(size * factor)
        ]
        array = np.take(array, places, axis=axis)
    return array


def _source(place: int, factor: int, size: int, half_pixel: bool, rounding: bytes) -> int:
    """The entry that another one of the enlarged axis is taken from."""
    middle = _HALF if half_pixel else Fraction(0)
    exact = (place + middle) / factor - middle
    return min(max(_NEAREST[rounding](exact), 0), size - 1)
