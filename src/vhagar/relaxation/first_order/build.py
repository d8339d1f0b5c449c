"""Build the duals that bound a network: of whole layers, or of a convolution's tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Mask
from vhagar.relaxation.first_order.dual import Dual
from vhagar.relaxation.first_order.hulls import Hulls
from vhagar.relaxation.first_order.support import Pixels, support_of
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.receptive_fields import LocalNetwork
from vhagar.relaxation.rounding import float32_above
from vhagar.relaxation.stages import Stage
from vhagar.relaxation.subnetworks import View
from vhagar.runtime.devices import require_torch


def hexagon_tensors(hexagons: Hexagons, device: Any) -> Hexagons:
    """The hexagons in torch, in float32 and rounded outward.

    Linear units appear as neurons that are always active: their multipliers equal the coefficients
    that reach them, and then their bounds do not matter.
    """
    h = hexagons if hexagons.linear is None else _as_if_on(hexagons, hexagons.linear)
    downward = (h.lower, h.lower_p, h.gap_lower)
    upward = (h.upper, h.upper_p, h.gap_upper)
    low, low_p, gap_low = (-_float32_above(-values) for values in downward)
    high, high_p, gap_high = (_float32_above(values) for values in upward)
    sides = (low, high, low_p, high_p, gap_low, gap_high)
    tensor = require_torch().as_tensor
    return Hexagons.of((tensor(side, device=device) for side in sides), h.ratio)


def _as_if_on(hexagons: Hexagons, linear: Mask) -> Hexagons:
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


def _float32_above(values: Array) -> NDArray[np.float32]:
    # Infinite gaps would give corners that are NaN.
    largest = np.finfo(np.float32).max / 16
    return np.clip(float32_above(values), -largest, largest)


def whole_dual(
    bounds: TwinBounds,
    layer: int,
    stages: Sequence[Stage],
    device: Any,
) -> Dual:
    """The dual that bounds the outputs of stage `layer`; the `stages` are in torch."""
    known = (hexagon_tensors(hexagons, device) for hexagons in bounds.hexagons[:layer])
    hulls = [Hulls.of(hexagons) for hexagons in known]
    size = bounds.piece.domain.size
    pixels = Pixels(np.arange(size)[None], np.ones((1, size), dtype=np.bool_), device)
    return Dual(stages[: layer + 1], hulls, support_of(bounds.piece, pixels))


def local_dual(
    bounds: TwinBounds,
    local: LocalNetwork,
    places: Sequence[tuple[int, int]],
    stages: Sequence[Stage],
    device: Any,
) -> Dual:
    """The dual of some tiles of a convolution, with one group of rows for each tile."""
    hulls = []
    for k, hexagons in enumerate(bounds.hexagons[: len(local.stages) - 1]):
        views = [local.windows[k + 1].at(place) for place in places]
        hulls.append(Hulls(_seen(hexagon_tensors(hexagons, device), views, device)))
    views = [local.windows[0].at(place) for place in places]
    pixels = Pixels(*_places(views), device)
    return Dual(stages, hulls, support_of(bounds.piece, pixels))


def seen_hexagons(
    bounds: TwinBounds, local: LocalNetwork, places: Sequence[tuple[int, int]], device: Any
) -> list[Hexagons]:
    """Every tile's window of hexagons in each layer below, `(tiles, 1, window)` in float64."""
    torch, found = require_torch(), []
    for k, hexagons in enumerate(bounds.hexagons[: len(local.stages) - 1]):
        h = hexagons if hexagons.linear is None else _as_if_on(hexagons, hexagons.linear)
        sides = (torch.as_tensor(side, device=device) for side in h.sides)
        views = [local.windows[k + 1].at(place) for place in places]
        found.append(_seen(Hexagons.of(sides, h.ratio), views, device))
    return found


def _places(views: list[View]) -> tuple[Any, Any]:
    """Every tile's window as indices, and which are not padding; both `(tiles, window)`."""
    everything = np.ones(len(views[0].index), dtype=np.bool_)
    inside = [everything if view.inside is None else view.inside for view in views]
    return np.stack([view.index for view in views]), np.stack(inside)


def _seen(hexagons: Hexagons, views: list[View], device: Any) -> Hexagons:
    """Every tile's window of hexagons, `(tiles, 1, window)`; padding is inactive, at -1."""
    torch = require_torch()
    index, inside = (torch.as_tensor(part, device=device)[:, None] for part in _places(views))
    gap = hexagons.ratio - 1.0
    outside = (-1.0, -1.0, -1.0, -1.0, gap, gap)
    sides = (
        torch.where(inside, side[index], off)
        for side, off in zip(hexagons.sides, outside, strict=True)
    )
    return Hexagons.of(sides, hexagons.ratio)
