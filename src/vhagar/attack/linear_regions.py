"""Linear regions of both copies: the signs of all neurons, and the columns that contradict them.

With the signs of all neurons decided, the lambda-LP is exact. If only some of them keep their
signs, it is a relaxation of the regions around.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Mask
from vhagar.perturbation import AbstractPiece
from vhagar.perturbation.nearest import nearest_parameters
from vhagar.relaxation.arrays import distinct
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.solver.lp_answer import LpAnswer

# A pre-activation that counts as 0, relative to the neuron's range, and a gain that counts as none,
# relative to the LP's optimum.
_ZERO, _NO_GAIN = 1e-7, 1e-7

# Which neurons are active, in the first copy and in the second.
Signs = tuple[Mask, Mask]


def parameter_is_fixed(piece: AbstractPiece) -> bool:
    """Whether the piece is nonconvex unless its one parameter is fixed."""
    return piece.span is not None and not piece.convex


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
    place = region_model.bounds.offsets[weights.layer] + weights.neuron
    cut = np.zeros(len(weights.column), dtype=np.bool_)
    for copy, (values, active) in enumerate(zip((weights.s, weights.t), signs, strict=True)):
        beyond = np.where(active[place], values < 0, values > 0)
        cut |= beyond if kept is None else beyond & kept[copy][place]
    return distinct(weights.column[cut])


def proposed(
    region_model: RegionModel, primal: Array, of_region: bool = False
) -> tuple[Array, Array]:
    """The input of an LP solution, and parameters that go with it.

    Unless a zonotope is small, only an LP of a single linear region has its rows. The inputs of
    others are mostly outside, and stay there: their regions are better than those of the nearest
    inputs inside.
    """
    inputs, domain = region_model.model.inputs, region_model.piece.domain
    x, inside = inputs.x.value(primal), of_region or not len(region_model.model.region_rows)
    if inputs.zonotope is None:
        x = domain.project(x)
    elif inside and domain.zonotope is not None:
        domain.zonotope.note(primal[inputs.zonotope.coordinates])
        x = domain.project(x)
    else:
        x = domain.clipped(x)
    if inputs.parameters is not None:
        return x, region_model.piece.project(inputs.parameters.value(primal))
    assert inputs.x_p is not None  # one of the two is always there
    return x, nearest_parameters(region_model.piece, x, inputs.x_p.value(primal))


def better_signs(region_model: RegionModel, signs: Signs, answer: LpAnswer) -> Signs | None:
    """The signs of a region that touches the optimum of another one's LP and is better beside it.

    Where a pre-activation is 0, the neuron takes its other sign if a corner on that side has a
    positive reduced cost. All of them do so at once: the optimum lies in the resulting region, too,
    so that this region's own is no worse. None if no sign would gain.
    """
    if answer.primal is None or answer.duals is None:
        return None
    weights, offsets = region_model.model.weights, region_model.bounds.offsets
    arrays = region_model.model.arrays
    gain = -(arrays.matrix.T @ answer.duals)[weights.column]
    place = offsets[weights.layer] + weights.neuron
    lambdas = np.maximum(answer.primal[weights.column], 0.0)
    sizes = np.concatenate([np.zeros(0), *(h.magnitude for h in region_model.bounds.hexagons)])
    found = gain > _NO_GAIN * abs(answer.objective)
    beyond = []
    for values, active in zip((weights.s, weights.t), signs, strict=True):
        other_side = np.where(active[place], values < 0, values > 0)
        at_zero = abs(np.bincount(place, lambdas * values, len(sizes))) <= _ZERO * sizes
        found &= ~other_side | at_zero[place]
        beyond.append(other_side)
    corners = np.flatnonzero(found & (beyond[0] | beyond[1]))
    if not len(corners):
        return None
    # Of each neuron's corners, the one that gains most.
    corners = corners[np.argsort(-gain[corners], kind="stable")]
    _, first = np.unique(place[corners], return_index=True)
    chosen = corners[first]
    changed = [active.copy() for active in signs]
    for active, other_side in zip(changed, beyond, strict=True):
        turned = place[chosen[other_side[chosen]]]
        active[turned] = ~active[turned]
    return changed[0], changed[1]


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
