"""Linear regions of both copies: the signs of all neurons, and the columns that contradict them.

With the signs of all neurons decided, the lambda-LP is exact. If only some of them keep their
signs, it is a relaxation of the regions around.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Mask
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.arrays import distinct
from vhagar.relaxation.lp.region_model import RegionModel

# Which neurons are active, in the first copy and in the second.
Signs = tuple[Mask, Mask]


def parameter_is_fixed(piece: AbstractPiece) -> bool:
    """Whether the piece is nonconvex unless its one parameter is fixed."""
    return piece.span is not None and not piece.convex


def neuron_offsets(region_model: RegionModel) -> NDArray[np.int64]:
    """Where the neurons of each layer begin in arrays of all neurons, and where they end."""
    sizes = [len(hexagons) for hexagons in region_model.bounds.hexagons]
    return np.cumsum([0, *sizes], dtype=np.int64)


def signs_at(region_model: RegionModel, x: Array, parameters: Array) -> Signs:
    """The signs of all neurons at an input and at its image."""
    x_p = region_model.piece.apply(x[None], parameters[None])
    found = []
    for inputs in (x[None], x_p):
        entering, _ = region_model.problem.network.preactivations(inputs)
        found.append(np.concatenate([np.zeros(0), *(layer[0] for layer in entering)]) > 0)
    return found[0], found[1]


def outside_region(
    region_model: RegionModel, signs: Signs, kept: Signs | None = None
) -> NDArray[np.int64]:
    """The lambda columns of corners on the other side of a neuron's sign.

    With `kept`, only of neurons that keep their signs, in each copy.
    """
    weights = region_model.model.weights
    place = neuron_offsets(region_model)[weights.layer] + weights.neuron
    cut = np.zeros(len(weights.column), dtype=np.bool_)
    for copy, (values, active) in enumerate(zip((weights.s, weights.t), signs, strict=True)):
        beyond = np.where(active[place], values < 0, values > 0)
        cut |= beyond if kept is None else beyond & kept[copy][place]
    return distinct(weights.column[cut])


def randomly_kept(count: int, free: float, rng: np.random.Generator) -> Signs:
    """Which of `count` neurons keep their signs if about the share `free` of them does not."""
    kept = rng.random((2, count)) > free
    if rng.random() < 0.5:  # treat both copies of a neuron alike
        kept[1] = kept[0]
    return kept[0], kept[1]


def other_parts(region_model: RegionModel, x_p: Array) -> NDArray[np.int64]:
    """The columns of corners on the other side of some pixel's clip."""
    corners, columns = region_model.piece.pixel_corners(), region_model.model.inputs.pixels
    if corners is None or columns is None:
        return np.zeros(0, dtype=np.int64)
    clipped = x_p == corners.x_p[0]
    sides = corners.side[1:]
    return columns[np.where(clipped[:, None], sides < 0, sides > 0)]
