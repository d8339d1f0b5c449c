"""Computes hexagons of all neurons, layer by layer, by intervals and by the formula."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vhagar_check.crops import convolutions, crops
from vhagar_check.formula import Bounds, directions, from_sides
from vhagar_check.hexagon import Hexagons
from vhagar_check.intervals import MOST_ENTRIES, Box, directions_of_change, leaving
from vhagar_check.layers import Floats, Indices, Mask, Network
from vhagar_check.pieces import Piece

# Sides of a hexagon that are about the first copy alone; they come first.
_OF_ONE_COPY = 2


def quick_bounds(network: Network, piece: Piece, kind: type[Bounds] = Bounds) -> Bounds:
    """Bound all neurons by intervals, the formula with quick multipliers, and signs of changes.

    For a linear unit only its size and the sign of its gap matter: intervals and signs suffice.
    """
    bounds = kind(network, piece)
    boxes = [piece.inputs, piece.image_box]
    rises, falls = piece.rises, piece.falls
    for k in range(len(network.stages) - 1):
        linear = network.linear_units(k)
        boxes = bounds.entering(k, boxes)
        found = _plain(boxes, piece.ratio, linear)
        alike = np.zeros(len(found.low), dtype=np.bool_)
        if piece.ratio == 1.0:
            rises, falls = directions_of_change(network, k, rises, falls)
            alike = ~rises & ~falls
        found = found.meet(from_sides(_all_sides(bounds, k, alike), piece.ratio))
        if linear is not None and k:
            found = found.meet(_one_step(bounds, k, linear))
        if piece.ratio == 1.0:
            found = found.with_signs(rises, falls)
        found = found.tightened()
        bounds.append(found)
        boxes = [leaving(network, k, box) for box in boxes]
        rises, falls = (found.gap_high > 0) & ~found.off, (found.gap_low < 0) & ~found.off
    return bounds


def _plain(boxes: list[Box], ratio: float, linear: Mask | None) -> Hexagons:
    """Make hexagons of the intervals of both copies; nothing is known of their gap."""
    (low, high), (low_p, high_p) = boxes
    unknown = np.full(len(low), np.inf)
    return Hexagons(low, high, low_p, high_p, -unknown, unknown, ratio, linear)


def _one_step(bounds: Bounds, k: int, linear: Mask) -> Hexagons:
    """Bound linear units by one step of interval arithmetic; other units stay unknown."""
    below = bounds.hexagons[-1]
    boxes = [
        leaving(bounds.network, k - 1, box)
        for box in ((below.low, below.high), (below.low_p, below.high_p))
    ]
    known = [
        (np.where(linear, low, -np.inf), np.where(linear, high, np.inf))
        for low, high in bounds.entering(k, boxes)
    ]
    return _plain(known, bounds.piece.ratio, linear)


def _all_sides(bounds: Bounds, stage: int, alike: Mask) -> list[Floats]:
    """Bound the six sides of the hexagons of a layer's ReLU units; infinity for linear units.

    Where the copies are `alike`, only the sides of the first copy are bounded.
    """
    linear = bounds.network.linear_units(stage)
    wanted = np.ones(len(alike), dtype=np.bool_) if linear is None else ~linear
    sides = [np.full(len(alike), np.inf) for _ in directions(1.0)]
    for some, count in ((wanted & alike, _OF_ONE_COPY), (wanted & ~alike, len(sides))):
        for part, places, units in _batches(bounds, stage, some):
            rows = np.zeros((len(places), part.network.relu_sizes_and_classes[stage]))
            rows[np.arange(len(places)), places] = 1.0
            found = part.sides(stage, rows, part.quick, count)
            for side, values in zip(sides, found, strict=False):
                side[units] = values
    return sides


def _batches(bounds: Bounds, stage: int, wanted: Mask) -> Iterator[tuple[Bounds, Indices, Indices]]:
    """Divide some units of a layer into batches.

    Yields the part of the network on which a batch depends, and the units' indices in the part and
    in the layer.
    """
    layers = convolutions(bounds.network, stage)
    if layers is not None:
        for seen in crops(layers):
            places = np.flatnonzero(wanted[seen.outputs])
            if len(places):
                yield bounds.cropped(seen), places, seen.outputs[places]
        return
    sizes = bounds.network.relu_sizes_and_classes
    rows = max(1, MOST_ENTRIES // max(bounds.piece.domain.size, *sizes))
    chosen = np.flatnonzero(wanted)
    for begin in range(0, len(chosen), rows):
        units = chosen[begin : begin + rows]
        yield bounds, units, units
