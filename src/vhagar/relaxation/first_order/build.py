"""Duals of a network's bounds: of whole layers, or of what tiles of a convolution see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.relaxation.first_order.dual import Dual
from vhagar.relaxation.first_order.fused import Cells
from vhagar.relaxation.first_order.maps import AbstractMap, map_of
from vhagar.relaxation.first_order.support import Pixels, support_of
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.receptive import LocalNetwork, View
from vhagar.relaxation.twin import Stage
from vhagar.runtime.devices import Tensor, require_torch

Array = NDArray[np.float64]


def hexagon_tensor(hexagons: Hexagons, device: Any) -> Tensor:
    """`(6, neurons)` in float32, rounded outward.

    Linear units appear as neurons that are always on: their multipliers are what reaches them, and
    then it does not matter where they are.
    """
    h = hexagons if hexagons.linear is None else _as_if_on(hexagons, hexagons.linear)
    downward = (h.lower, h.lower_p, h.gap_lower)
    upward = (h.upper, h.upper_p, h.gap_upper)
    low, low_p, gap_low = (_rounded(values, -np.inf) for values in downward)
    high, high_p, gap_high = (_rounded(values, np.inf) for values in upward)
    stacked = np.stack([low, high, low_p, high_p, gap_low, gap_high])
    return require_torch().as_tensor(stacked, device=device)


def _as_if_on(hexagons: Hexagons, linear: NDArray[np.bool_]) -> Hexagons:
    h = hexagons
    return Hexagons(
        np.where(linear, 0.0, h.lower),
        np.where(linear, 1.0, h.upper),
        np.where(linear, 0.0, h.lower_p),
        np.where(linear, 1.0, h.upper_p),
        np.where(linear, -h.ratio, h.gap_lower),
        np.where(linear, 1.0, h.gap_upper),
        h.ratio,
    )


def _rounded(values: Array, towards: float) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
    beyond = near > values if towards < 0 else near < values
    moved: NDArray[np.float32] = np.where(
        beyond, np.nextafter(near, np.float32(towards)), near
    ).astype(np.float32)
    # Infinite gaps would make corners that are no numbers.
    largest = np.finfo(np.float32).max / 16
    return np.clip(moved, -largest, largest)


def maps_of(stages: Sequence[Stage], device: Any) -> list[AbstractMap]:
    """The stages in torch."""
    return [map_of(stage, device) for stage in stages]


def whole_dual(
    bounds: TwinBounds,
    layer: int,
    maps: list[AbstractMap],
    device: Any,
    codes: list[Tensor | None] | None = None,
) -> Dual:
    """The dual of what leaves stage `layer`; `codes` hold decided signs of each layer's neurons."""
    ratio = bounds.piece.ratio
    codes = codes or [None] * layer
    cells = [
        Cells(hexagon_tensor(hexagons, device)[None], ratio, code)
        for hexagons, code in zip(bounds.hexagons[:layer], codes, strict=True)
    ]
    size = bounds.piece.domain.size
    pixels = Pixels(np.arange(size)[None], np.ones((1, size), dtype=np.bool_), device)
    return Dual(maps[: layer + 1], cells, support_of(bounds.piece, pixels))


def local_dual(
    bounds: TwinBounds,
    local: LocalNetwork,
    places: Sequence[tuple[int, int]],
    maps: list[AbstractMap],
    device: Any,
) -> Dual:
    """The dual of some tiles of a convolution, one group of rows for each."""
    cells = []
    for k, hexagons in enumerate(bounds.hexagons[: len(local.stages) - 1]):
        views = [local.windows[k + 1].at(place) for place in places]
        seen = _seen(hexagon_tensor(hexagons, device), views, bounds.piece.ratio)
        cells.append(Cells(seen, bounds.piece.ratio))
    views = [local.windows[0].at(place) for place in places]
    pixels = Pixels(
        np.stack([view.index for view in views]), np.stack([view.inside for view in views]), device
    )
    return Dual(maps, cells, support_of(bounds.piece, pixels))


def _seen(hexagons: Tensor, views: list[View], ratio: float) -> Tensor:
    """`(tiles, 6, window)`; neurons that do not exist are off, at -1 in both copies."""
    torch = require_torch()
    index = torch.as_tensor(np.stack([view.index for view in views]), device=hexagons.device)
    inside = torch.as_tensor(np.stack([view.inside for view in views]), device=hexagons.device)
    off = hexagons.new_tensor([-1.0, -1.0, -1.0, -1.0, ratio - 1.0, ratio - 1.0])
    gathered = torch.where(inside, hexagons[:, index], off[:, None, None])
    return gathered.transpose(0, 1).contiguous()
