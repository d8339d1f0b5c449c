"""Neurons as convex combinations of their hexagons' corners: columns and rows of a model.

A pair `(s, t)` of pre-activations is `sum of lambda * corner` with weights lambda that sum to 1.
ReLU is linear on either side of an axis. So if all corners with a weight lie on one side of each
axis, the same sum over the corners' ReLUs is the pair of post-activations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from vhagar.array_types import Array, Mask
from vhagar.solver.linear_model import Columns, LinearModel

# Relative to a neuron's range: corners closer than this are merged.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class CornerWeights:
    """One column for each distinct corner of some neurons, except the origin.

    `owner` is the neuron's place among the given neurons and `which` the corner's number. Where the
    origin is a corner (`has_origin`), its weight is 1 minus the sum of the others.
    """

    column: Columns
    owner: Columns
    which: Columns
    s: Array
    t: Array
    has_origin: Mask

    def sums(self, values: Array) -> sparse.coo_array:
        """Each neuron's sum of weights times values, as a matrix over the columns."""
        count = len(self.column)
        places = (self.owner, np.arange(count))
        return sparse.coo_array((values, places), shape=(len(self.has_origin), count))


def add_weights(model: LinearModel, s: Array, t: Array) -> CornerWeights:
    """Add columns for corners `(CORNERS, neurons)`."""
    s, t = on_axes(s, t)
    origin = (s == 0) & (t == 0)
    # Transposed, so that the columns are in the order of the neurons.
    owner, which = np.nonzero((_different(s, t) & ~origin).T)
    columns = np.zeros(0, dtype=np.int64)
    if len(owner):
        columns = model.add_columns(np.zeros(len(owner)), 1.0)
    # `origin` is taken over all corners, because one that was merged with the origin has no column.
    return CornerWeights(
        columns, owner, which, s.T[owner, which], t.T[owner, which], origin.any(axis=0)
    )


def add_convexity(model: LinearModel, weights: CornerWeights) -> Columns:
    """Add rows: a neuron's weights sum to 1, or to at most 1 where the origin is a corner."""
    if not len(weights.has_origin):
        return np.zeros(0, dtype=np.int64)
    total = weights.sums(np.ones(len(weights.column)))
    return model.add_rows([(weights.column, total)], np.where(weights.has_origin, 0.0, 1.0), 1.0)


def on_axes(s: Array, t: Array) -> tuple[Array, Array]:
    """Put corners that miss an axis by rounding onto it, so that decisions do not cut them off."""
    size = _rounding(s, t)
    return np.where(abs(s) <= size, 0.0, s), np.where(abs(t) <= size, 0.0, t)


def _rounding(s: Array, t: Array) -> Array:
    size: Array = ROUNDING * (abs(s).max(axis=0, initial=0.0) + abs(t).max(axis=0, initial=0.0))
    return size


def _different(s: Array, t: Array) -> Mask:
    """Which corners `(CORNERS, neurons)` are the first of their kind, up to rounding."""
    size = _rounding(s, t)
    keep = np.ones(s.shape, dtype=np.bool_)
    for k in range(1, len(s)):
        close = (abs(s[:k] - s[k]) <= size) & (abs(t[:k] - t[k]) <= size)
        keep[k] = ~close.any(axis=0)
    return keep
