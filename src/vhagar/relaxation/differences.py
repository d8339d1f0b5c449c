"""Hexagons by interval arithmetic alone, for each copy and for the difference of the copies.

A ReLU's output differs between the copies by no more than its input does, and in the same
direction. So a box around `x_p - x` passes through the network like a box around `x`, without the
biases. This takes one forward pass, however wide the network is. Where a perturbation is small, or
changes few pixels, it is often far tighter than the difference of the copies' own bounds.

In terms of the twin dual, a layer's differences are bounded with the multipliers of all undecided
neurons set to 0; a certificate proves them in this way (`Refined` without numbers).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vhagar.array_types import Array, Index
from vhagar.network import AbstractLinear, Affine, Convolution, Network, SparseAffine
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.interval import Bounds, linear_bounds
from vhagar.relaxation.interval_hexagons import plain_hexagons
from vhagar.relaxation.layerwise import Refined, TwinBounds
from vhagar.relaxation.stages import Stage


def difference_bounds(network: Network, piece: AbstractPiece) -> TwinBounds:
    """Hexagons of all hidden neurons by interval arithmetic, differences included."""
    bounds = TwinBounds(network, piece)
    # If the ratio is not 1, the gap `t - ratio * s` is not the difference of the copies.
    change = pixel_differences(piece) if piece.ratio == 1.0 else None
    for layer, plain in enumerate(plain_hexagons(network, piece)):
        if change is None:
            bounds.append_plain(plain)
            continue
        gap = _through(bounds.stages[layer], change)
        bounds.append_plain(replace(plain, gap_lower=gap.lower, gap_upper=gap.upper))
        change = _leaving(bounds.hexagons[layer], gap)
        _state(bounds, layer)
    return bounds


def pixel_differences(piece: AbstractPiece, among: Index | None = None) -> Bounds:
    """Bounds on `x_p - x` for every pixel, or for some and 0 for others: supports in their
    directions."""
    size = piece.domain.size
    rises, falls = piece.changes()
    low, high = np.zeros(size), np.zeros(size)
    moving = np.flatnonzero(rises | falls)
    if among is not None:
        moving = np.intersect1d(moving, among)
    low[moving], high[moving] = piece.pixel_ends(moving, -1.0)
    # A pixel that never rises has no positive difference, whatever rounding gave.
    return Bounds(
        np.where(falls, low, np.maximum(low, 0.0)), np.where(rises, high, np.minimum(high, 0.0))
    )


def _through(stage: Stage, change: Bounds) -> Bounds:
    """Bounds on the differences of a stage's outputs; the biases cancel."""
    for layer in stage.layers:
        change = linear_bounds(_without_bias(layer), change)
    return change


def _without_bias(layer: AbstractLinear) -> AbstractLinear:
    assert isinstance(layer, Affine | Convolution | SparseAffine)
    return replace(layer, bias=np.zeros_like(layer.bias))


def _leaving(hexagons: Hexagons, entering: Bounds) -> Bounds:
    """Bounds on the differences of a ReLU layer's outputs, from those `entering` it.

    For active neurons only `entering` is used and not the hexagon, because a certificate passes
    their coefficients on unchanged.
    """
    h = hexagons
    low = np.maximum(np.minimum(h.gap_lower, 0.0), _relu(h.lower_p) - _relu(h.upper))
    high = np.minimum(np.maximum(h.gap_upper, 0.0), _relu(h.upper_p) - _relu(h.lower))
    low = np.where(low < 0, np.nextafter(low, -np.inf), low)
    high = np.where(high > 0, np.nextafter(high, np.inf), high)
    low = np.where(h.on, entering.lower, np.where(h.off, 0.0, low))
    high = np.where(h.on, entering.upper, np.where(h.off, 0.0, high))
    return Bounds(low, high)


def _relu(values: Array) -> Array:
    return np.maximum(values, 0.0)


def _state(bounds: TwinBounds, layer: int) -> None:
    """Record for a certificate how the layer's gaps are proven: with all multipliers 0."""
    if layer == 0:
        return  # the first layer's gaps are proven by supports
    known = bounds.hexagons[layer]
    neurons = np.arange(len(known))
    if known.linear is not None:
        neurons = neurons[~known.linear]
    if not len(neurons):
        return
    nothing = np.zeros((6 * len(neurons), 0), dtype=np.float32)
    unseen = [np.zeros(0, dtype=np.int64)] * layer
    bounds.refined.append(Refined(layer, neurons, [(nothing, nothing)] * layer, unseen))
