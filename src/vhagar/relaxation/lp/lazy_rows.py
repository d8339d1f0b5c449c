"""Lazy rows: rows that an LP leaves out until a solution violates them.

Where a perturbation changes only a part of the input, most neurons have the same value in both
copies, and their contributions to the bound nearly cancel. Without the rows that tie such a neuron
to the layers below, it is free between 0 and its largest value; the bound is hardly worse, and the
LP is many times smaller. So the LP starts without these rows. If a solution gains by violating some
of them, they are restored.
"""

from __future__ import annotations

import numpy as np

from vhagar.array_types import Array
from vhagar.relaxation.arrays import distinct
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.lp.lambda_model import PairModel
from vhagar.relaxation.lp.node_bound import Coefficients
from vhagar.solver.linear_model import Columns

Neuron = tuple[int, int]  # a ReLU layer and a neuron in it

# A layer with fewer such rows keeps them, because omitting them saves nothing.
_FEWEST = 32
# Least distance of a violating solution from the neuron's triangle, relative to its range.
_OUTSIDE = 1e-7
# Rows with less than this share of the largest gain stay out: often they follow from the others.
_SMALLEST_GAIN = 0.1
# No coefficient counts as less than this share of its layer's mean: multipliers are not unique.
LEAST_COEFFICIENT = 0.1


class LazyRows:
    """The rows that a model leaves out; they belong to neurons that are equal in both copies."""

    def __init__(self, bounds: TwinBounds, model: PairModel) -> None:
        layers = [
            (layer, rows.equal, rows.equal_rows, rows.equal_sums)
            for layer, rows in enumerate(model.rows)
            if len(rows.equal) >= _FEWEST
        ]
        none = np.zeros(0, dtype=np.int64)
        self._rows = np.concatenate([none, *(rows for _, _, rows, _ in layers)])
        self._sums = np.concatenate([none, *(sums for _, _, _, sums in layers)])
        self._neuron = np.concatenate([none, *(neurons for _, neurons, _, _ in layers)])
        counts = [len(neurons) for _, neurons, _, _ in layers]
        self._layer = np.repeat(np.array([layer for layer, *_ in layers], dtype=np.int64), counts)
        places = zip(self._layer.tolist(), self._neuron.tolist(), strict=True)
        self._number = {place: k for k, place in enumerate(places)}
        self._left_out = np.ones(len(self._rows), dtype=np.bool_)
        self._lower, self._upper = _ranges(bounds, self._layer, self._neuron)
        self._matrix = model.arrays.matrix[self._rows]
        self._constant = model.arrays.row_lower[self._rows]
        weights = model.weights
        places = zip(weights.layer.tolist(), weights.neuron.tolist(), strict=True)
        owner = np.array([self._number.get(place, -1) for place in places], dtype=np.int64)
        own = owner >= 0
        self._owner, self._column, self._value = owner[own], weights.column[own], weights.s[own]

    def __len__(self) -> int:
        return int(self._left_out.sum())

    @property
    def rows(self) -> Columns:
        """The omitted rows' numbers in the model, those of the neurons' convexity rows included.

        For a neuron that is free, the bounds 0 and 1 of its weight are enough.
        """
        return np.concatenate([self._rows[self._left_out], self._sums[self._left_out]])

    @property
    def places(self) -> set[Neuron]:
        """The neurons that the omitted rows belong to."""
        out = self._left_out
        return set(zip(self._layer[out].tolist(), self._neuron[out].tolist(), strict=True))

    def gains(self, primal: Array, coefficients: Coefficients, exactly: bool = False) -> Array:
        """How much a solution gains by violating each omitted row, all else being equal.

        The violation is the distance from the neuron's triangle or, `exactly`, from ReLU itself.
        """
        lambdas, count = np.maximum(primal[self._column], 0.0), len(self._rows)
        believed = np.bincount(self._owner, lambdas * self._value, count)
        after = np.bincount(self._owner, lambdas * np.maximum(self._value, 0.0), count)
        # A row equates the neuron's pre-activation with the weighted sum of its corners.
        before = believed + self._matrix @ primal - self._constant
        span = self._upper - self._lower
        most = self._upper * (before - self._lower) / span
        outside = np.maximum(np.maximum(before, 0.0) - after, after - most)
        if exactly:
            outside = abs(np.maximum(before, 0.0) - after)
        counts = self._left_out & (outside > _OUTSIDE * span)
        gains = np.where(counts, outside * self._worth(coefficients), 0.0)
        return np.minimum(gains, 1e100)  # finite, so that gains can be compared

    def _worth(self, coefficients: Coefficients) -> Array:
        """How much the bound changes with each neuron's value."""
        worth = np.zeros(len(self._rows))
        for layer in distinct(self._layer):
            own = self._layer == layer
            on_both = abs(sum(coefficients.layers[layer]))[self._neuron[own]]
            worth[own] = np.maximum(on_both, LEAST_COEFFICIENT * on_both.mean())
        # A neuron on which nothing depends while rows are missing may matter once they are back.
        return np.maximum(worth, 1e-12)  # never 0, so that gains can be compared

    def restore(self, gains: Array) -> bool:
        """Restore the rows by whose violation a solution gains most; whether there are any."""
        before = len(self)
        self._left_out &= gains <= _SMALLEST_GAIN * gains.max(initial=0.0)
        return len(self) < before

    def restore_places(self, places: set[Neuron]) -> None:
        """Restore the rows of the given neurons."""
        self._left_out[[self._number[place] for place in places if place in self._number]] = False


def _ranges(bounds: TwinBounds, layers: Columns, neurons: Columns) -> tuple[Array, Array]:
    lower, upper = np.zeros(len(layers)), np.zeros(len(layers))
    for layer in distinct(layers):
        own = layers == layer
        values = bounds.corners[layer].s[:, neurons[own]]
        lower[own], upper[own] = values.min(axis=0), values.max(axis=0)
    return lower, upper
