"""Hexagons without the twin dual: by interval arithmetic, with gap signs from those of weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vhagar.array_types import Mask
from vhagar.network import Network, Relu
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.interval import Bounds, layer_bounds, network_bounds
from vhagar.relaxation.stages import Stage


def plain_hexagons(network: Network, piece: AbstractPiece) -> list[Hexagons]:
    """Hexagons by interval arithmetic on each copy separately; the gaps are unbounded."""
    first = _entering(network, Bounds.over(piece.domain))
    second = _entering(network, Bounds(*piece.image_box))
    relus = [layer for layer in network.layers if isinstance(layer, Relu)]
    return [
        _without_gap(one, other, piece.ratio, layer.linear)
        for layer, one, other in zip(relus, first, second, strict=True)
    ]


def linear_units(stage: Stage, below: Hexagons, linear: Mask) -> Hexagons:
    """Bounds on linear units by interval arithmetic from the layer below; they need no better."""
    relu = Relu((len(below),), below.linear)
    found = []
    for low, high in ((below.lower, below.upper), (below.lower_p, below.upper_p)):
        copy = layer_bounds(relu, Bounds(low, high))
        for step in stage.layers:
            copy = layer_bounds(step, copy)
        found.append(
            Bounds(np.where(linear, copy.lower, -np.inf), np.where(linear, copy.upper, np.inf))
        )
    return _without_gap(found[0], found[1], below.ratio, None)


def _without_gap(one: Bounds, other: Bounds, ratio: float, linear: Mask | None) -> Hexagons:
    gap = np.full(len(one.lower), np.inf)
    return Hexagons(one.lower, one.upper, other.lower, other.upper, -gap, gap, ratio, linear)


def with_known_signs(found: Hexagons, moves: Mask | None) -> Hexagons:
    """Restrict gaps to the sign that follows from what can rise and fall (`moving`), exactly."""
    if moves is None:
        return found
    rises, falls = moves
    return replace(
        found,
        gap_lower=np.where(falls, found.gap_lower, np.maximum(found.gap_lower, 0.0)),
        gap_upper=np.where(rises, found.gap_upper, np.minimum(found.gap_upper, 0.0)),
    )


def moving(piece: AbstractPiece, stage: Stage, before: Hexagons | None) -> Mask | None:
    """Which outputs of a stage can rise, and which can fall, from the first copy to the second.

    This is the paper's dependency propagation, from the signs of the weights alone: a neuron can
    rise only through a positive weight on something that can rise or a negative one on something
    that can fall. `before` is the layer below, None below the first stage.

    None where the ratio is not 1: the gap is not the difference of the copies then.
    """
    if piece.ratio != 1.0:
        return None
    if before is None:
        rises, falls = piece.changes()
    else:
        rises = (before.gap_upper > 0) & ~before.off
        falls = (before.gap_lower < 0) & ~before.off
    for linear in stage.layers:
        positive = linear.mapped(lambda weight: (weight > 0).astype(np.float64))
        negative = linear.mapped(lambda weight: (weight < 0).astype(np.float64))
        moves = np.stack([rises, falls]).astype(np.float64)
        # Sums of zeros and ones are exact.
        rises, falls = (positive.times(moves) + negative.times(moves[::-1])) > 0
    return np.stack([rises, falls])


def _entering(network: Network, inputs: Bounds) -> list[Bounds]:
    """Bounds on the inputs of each ReLU layer, by interval arithmetic."""
    before = [inputs, *network_bounds(network, inputs)]
    return [
        bounds
        for layer, bounds in zip(network.layers, before, strict=False)
        if isinstance(layer, Relu)
    ]
