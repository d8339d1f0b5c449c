"""Two mixed-integer formulations of `max(s, 0)`.

Big-M: each copy separately, four rows with the concrete bounds as constants. Lambda: a neuron in
both copies at once, as a convex combination of the corners of its hexagon cut along the axes; one
boolean per sign sets the weights on the other side to 0. Relaxing the booleans gives a product of
triangles for big-M, and the convex hull of the pair for lambda.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array, Mask
from vhagar.relaxation import Bounds
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.pair_hulls import CornerWeights, add_convexity, add_weights
from vhagar.solver.linear_model import Columns, LinearModel


@dataclass(frozen=True, eq=False)
class Neurons:
    """The columns of a layer's neurons in one copy: before ReLU, after it, and the booleans.

    A boolean is -1 if none is needed.
    """

    s: Columns
    z: Columns
    active: Columns

    def kept(self, chosen: Columns) -> Neurons:
        return Neurons(self.s[chosen], self.z[chosen], self.active[chosen])


def add_relu(
    model: LinearModel, s: Columns, bounds: Bounds, linear: Mask | None = None
) -> tuple[Columns, Columns]:
    """`z = max(s, 0)` with one boolean for each neuron that can have either sign.

    Linear units keep their columns.
    """
    z, active = add_outputs(model, s, bounds, linear)
    open_ = active >= 0
    if open_.any():
        low, high = bounds.lower[open_], bounds.upper[open_]
        leaving, entering, on = z[open_], s[open_], active[open_]
        model.add_rows([(leaving, 1.0), (entering, -1.0)], 0.0, np.inf)
        model.add_rows([(leaving, 1.0), (on, -high)], -np.inf, 0.0)
        model.add_rows([(leaving, 1.0), (entering, -1.0), (on, -low)], -np.inf, -low)
    return z, active


def add_outputs(
    model: LinearModel, s: Columns, bounds: Bounds, linear: Mask | None = None
) -> tuple[Columns, Columns]:
    """Add columns for `max(s, 0)` and booleans (-1 if none is needed), not yet tied to `s`."""
    z, active = s.copy(), np.full(len(s), -1)
    bends = np.ones(len(s), dtype=np.bool_) if linear is None else ~linear
    off = bends & (bounds.upper <= 0)
    if off.any():
        z[off] = model.add_columns(0.0, 0.0)[0]
    open_ = bends & (bounds.lower < 0) & (bounds.upper > 0)
    if open_.any():
        high = bounds.upper[open_]
        z[open_] = model.add_columns(np.zeros(len(high)), high)
        active[open_] = model.add_columns(np.zeros(len(high)), 1.0, integer=True)
    return z, active


def add_pairs(model: LinearModel, first: Neurons, second: Neurons, hexagons: Hexagons) -> None:
    """Tie a layer's outputs to its inputs in both copies; neurons may share columns.

    The hexagons are widened, so that rounding a corner never cuts off a feasible point.
    """
    needed = (first.active >= 0) | (second.active >= 0)
    same = hexagons.equal | (first.s == second.s)
    for chosen, alike in ((needed & same, True), (needed & ~same, False)):
        if not chosen.any():
            continue
        index = np.flatnonzero(chosen)
        some = hexagons.take(index)
        weights = add_weights(model, *(_as_one(some) if alike else some).widened().corners())
        add_convexity(model, weights)
        _tie(model, weights, first.kept(index), weights.s)
        _tie(model, weights, second.kept(index), weights.t)


def _as_one(hexagons: Hexagons) -> Hexagons:
    """Return the hexagons of neurons whose copies are equal, from the bounds of the first."""
    zero = np.zeros(len(hexagons))
    low, high = hexagons.lower, hexagons.upper
    return Hexagons(low, high, low, high, zero, zero, linear=hexagons.linear)


def _tie(model: LinearModel, weights: CornerWeights, neurons: Neurons, corner: Array) -> None:
    """Tie one copy of some neurons to the weights, before and after the ReLU."""
    s, z = neurons.s, neurons.z
    model.add_rows([(s, 1.0), (weights.column, weights.sums(-corner))], 0.0, 0.0)
    own = np.flatnonzero(z != s)
    if len(own):
        after = weights.sums(-np.maximum(corner, 0.0)).tocsr()[own]
        model.add_rows([(z[own], 1.0), (weights.column, after)], 0.0, 0.0)
    signed = np.flatnonzero(neurons.active >= 0)
    if len(signed):
        above, below = (
            weights.sums(side.astype(np.float64)).tocsr()[signed]
            for side in (corner > 0, corner < 0)
        )
        on = neurons.active[signed]
        model.add_rows([(weights.column, above), (on, -1.0)], -np.inf, 0.0)
        model.add_rows([(weights.column, below), (on, 1.0)], -np.inf, 1.0)
