"""The hexagons of the lambda formulation, from twin bounds, concrete bounds and relations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vhagar.dependency import Ranges, Relations
from vhagar.network import Network, Relu
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.refinement import refine_layer


def hexagons_of(
    network: Network,
    piece: AbstractPiece,
    ranges: Ranges,
    relations: Sequence[Relations] | None,
    refined: bool = False,
) -> list[Hexagons]:
    """The hexagons of every ReLU layer's inputs, `refined` by first-order steps or not."""
    bounds = quick_bounds(network, piece)
    positions = [k for k, layer in enumerate(network.layers) if isinstance(layer, Relu)]
    for layer, position in enumerate(positions):
        # Tighter hexagons of earlier layers tighten this one.
        before = bounds.hexagons[layer]
        found = bounds.quick(layer, before.linear).meet(before)
        own = None if relations is None else relations[position]
        known = _known(found, ranges, own, position)
        bounds.replace(layer, found.meet(known).tightened())
        if refined:
            refine_layer(bounds, layer)
    return bounds.hexagons


def _known(found: Hexagons, ranges: Ranges, relations: Relations | None, position: int) -> Hexagons:
    """Concrete bounds and relations of a layer's inputs, as hexagons of the same ratio."""
    first, second = ranges.first[position], ranges.second[position]
    gap_lower, gap_upper = np.full(len(found), -np.inf), np.full(len(found), np.inf)
    if relations is not None and found.ratio == 1.0:  # otherwise the gap is no difference
        own = relations.kept(relations.first == relations.second)
        np.maximum.at(gap_lower, own.first, own.gap_lower)
        np.minimum.at(gap_upper, own.first, own.gap_upper)
    return Hexagons(
        first.lower, first.upper, second.lower, second.upper, gap_lower, gap_upper, found.ratio
    )
