"""Bounds on the slopes between the copies, and on the change of the input.

For every pair of inputs and every unit, `z - z_p = slope * (s - s_p)` with a slope between 0 and 1.
It is 1 for linear units and units that are always active in both copies, and 0 for units that are
always inactive in both. Where the copies are always equal it does not matter, and counts as 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Index, Mask
from vhagar.network import Network, Relu
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.differences import pixel_differences
from vhagar.relaxation.interval import Bounds, network_bounds
from vhagar.relaxation.stages import stages_of

# Relative to a neuron's bounds: a sign closer to 0 than this is left open.
_CLEAR = 1e-9


@dataclass(frozen=True, eq=False)
class LayerSlopes:
    """The slopes of one ReLU layer: `on` where they are 1, `free` where they may be 0 to 1."""

    on: Mask
    free: Mask

    @property
    def status(self) -> NDArray[np.uint8]:
        """The slopes' codes in certificates: 0 for a slope of 0, 1 for 1, 2 for a free slope."""
        return np.where(self.free, 2, np.where(self.on, 1, 0)).astype(np.uint8)

    @property
    def middle(self) -> Array:
        """The middle of each slope's range; free slopes differ from it by at most 1/2."""
        return np.where(self.on, 1.0, np.where(self.free, 0.5, 0.0))


@dataclass(frozen=True, eq=False)
class InputChange:
    """Bounds `(size,)` on `x - x_p`, entry by entry, rounded outward."""

    lower: Array
    upper: Array

    @property
    def middle(self) -> Array:
        """The middle, exact where the bounds are opposite numbers; else within an ulp of it."""
        return (self.lower + self.upper) / 2

    @property
    def radius(self) -> Array:
        """At least the distance from `middle` to either end."""
        middle = self.middle
        far = np.maximum(self.upper - middle, middle - self.lower)
        return np.where(far == 0, 0.0, np.nextafter(far, np.inf))

    @property
    def pixels(self) -> NDArray[np.int64]:
        """The pixels that have a coordinate of their own."""
        return np.flatnonzero(self.radius)

    @property
    def magnitude(self) -> Array:
        return np.maximum(abs(self.lower), abs(self.upper))


def input_change(piece: AbstractPiece, among: Index | None = None) -> InputChange:
    """Bounds on `x - x_p` over a piece, for all pixels or for some."""
    change = pixel_differences(piece, among)
    return InputChange(-change.upper, -change.lower)


def layer_slopes(
    network: Network, piece: AbstractPiece, change: InputChange
) -> tuple[LayerSlopes, ...]:
    """The slopes of every ReLU layer, by interval arithmetic."""
    boxes = Bounds.over(piece.domain), Bounds(*piece.image_box)
    first, second = ([inputs, *network_bounds(network, inputs)] for inputs in boxes)
    reached = change.magnitude > 0
    stages = iter(stages_of(network))
    found = []
    for k, layer in enumerate(network.layers):
        if not isinstance(layer, Relu):
            continue
        for linear in next(stages).layers:
            weights = linear.mapped(lambda weight: (weight != 0).astype(np.float64))
            reached = weights.times(reached[None].astype(np.float64))[0] > 0
        linear_units = np.zeros(layer.in_size, np.bool_) if layer.linear is None else layer.linear
        always_on = linear_units | (_clearly_on(first[k]) & _clearly_on(second[k]))
        always_off = ~linear_units & _clearly_off(first[k]) & _clearly_off(second[k])
        found.append(LayerSlopes(always_on & reached, reached & ~always_on & ~always_off))
        reached = reached & ~always_off
    return tuple(found)


def _clearly_on(bounds: Bounds) -> Mask:
    """Which units are so far above 0 that the checker, which rounds differently, agrees."""
    return bounds.lower > _CLEAR * bounds.magnitude


def _clearly_off(bounds: Bounds) -> Mask:
    return bounds.upper < -_CLEAR * bounds.magnitude
