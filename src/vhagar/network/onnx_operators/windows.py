"""The positions of the windows of pools and convolutions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from vhagar.array_types import Mask
from vhagar.errors import InvalidNetwork
from vhagar.network.layers import Shape
from vhagar.network.maps import Indices
from vhagar.network.onnx_node import require_modest


def automatic_padding(
    mode: bytes, extents: Shape, spans: Shape, stride: Shape, padding: Shape
) -> Shape:
    """Return the pads that `auto_pad` means, as `(starts..., ends...)`."""
    if mode == b"NOTSET":
        return padding
    if mode == b"VALID":
        return (0,) * len(padding)
    if mode not in (b"SAME_UPPER", b"SAME_LOWER"):
        raise InvalidNetwork(f"its auto_pad {mode!r} is unknown")
    before, after = [], []
    for size, span, step in zip(extents, spans, stride, strict=True):
        total = max((-(-size // step) - 1) * step + span - size, 0)
        small, large = total // 2, total - total // 2
        before.append(small if mode == b"SAME_UPPER" else large)
        after.append(large if mode == b"SAME_UPPER" else small)
    return (*before, *after)


@dataclass(frozen=True, eq=False)
class Windows:
    """The windows of a pool over a tensor `(channels, ...)`.

    `members[g, j]` is the entry at kernel position j of window g, -1 outside of the image; windows
    and positions are in C order. `padded[g]` counts positions inside the image or its padding.
    """

    out_shape: Shape
    members: Indices
    padded: Indices


def windows(shape: Shape, attributes: dict[str, Any]) -> Windows:
    """Return the windows that a pool's attributes describe."""
    axes = len(shape) - 1
    kernel = tuple(attributes["kernel_shape"])
    stride = tuple(attributes["strides"]) or (1,) * axes
    dilation = tuple(attributes["dilations"]) or (1,) * axes
    padding = tuple(attributes["pads"]) or (0,) * 2 * axes
    if not axes or not len(kernel) == len(stride) == len(dilation) == axes == len(padding) // 2:
        raise InvalidNetwork(
            f"its kernel {kernel}, strides {stride} or pads {padding} do not fit data of shape "
            f"{shape}"
        )
    if min(*kernel, *stride, *dilation) < 1 or min(padding) < 0:
        raise InvalidNetwork(f"its kernel {kernel}, strides {stride} or pads {padding} are invalid")
    spans = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    padding = automatic_padding(attributes["auto_pad"], shape[1:], spans, stride, padding)
    ceil = bool(attributes["ceil_mode"]) and attributes["auto_pad"] == b"NOTSET"
    places = []
    for k in range(axes):
        ends = padding[k], padding[axes + k]
        count = _count(shape[1 + k], spans[k], stride[k], ends, ceil)
        require_modest([count, kernel[k]], math.prod(shape) * math.prod(kernel))
        places.append(
            stride[k] * np.arange(count)[:, None] - ends[0] + dilation[k] * np.arange(kernel[k])
        )
    counts = [len(place) for place in places]
    require_modest([shape[0], *counts, *kernel], math.prod(shape) * math.prod(kernel))
    return _together(shape, places, padding[axes:])


def _count(size: int, span: int, step: int, padding: tuple[int, int], ceil: bool) -> int:
    room = size + sum(padding) - span
    if room < 0:
        raise InvalidNetwork(f"its windows of {span} do not fit an image of {size}")
    count = (-(-room // step) if ceil else room // step) + 1
    # With ceil_mode, the last window must still start in the image or in the padding before it.
    return count - 1 if ceil and (count - 1) * step >= size + padding[0] else count


def _together(shape: Shape, places: list[Indices], after: Shape) -> Windows:
    """Combine the positions along each axis into windows."""
    axes = len(places)
    number = np.zeros((1,) * (2 * axes), dtype=np.int64)
    inside: Mask = np.ones_like(number, dtype=np.bool_)
    padded = inside
    for k, place in enumerate(places):
        form = [1] * (2 * axes)
        form[k], form[axes + k] = place.shape
        along = place.reshape(form)
        number = number * shape[1 + k] + along
        inside = inside & (along >= 0) & (along < shape[1 + k])
        padded = padded & (along < shape[1 + k] + after[k])
    counts = tuple(len(place) for place in places)
    positions = int(np.prod([place.shape[1] for place in places]))
    plane = np.where(inside, number, -1).reshape(-1, positions)
    channels = np.arange(shape[0])[:, None, None] * int(np.prod(shape[1:]))
    members = np.where(plane >= 0, plane + channels, -1).reshape(-1, positions)
    in_padding = np.broadcast_to(padded, number.shape).reshape(-1, positions).sum(axis=1)
    return Windows((shape[0], *counts), members, np.tile(in_padding, shape[0]))
