"""Interval arithmetic through a network, rounded outward.

In float64 a sum of n products errs by at most `gamma(n) * sum of the absolute products`, whatever
the order of summation. That error is added on both sides, so the intervals hold in exact
arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.network import AbstractLinear, Affine, Network

Array = NDArray[np.float64]

_HALF_ULP = 2.0**-53
# Below the normal range relative error bounds fail; no honest network lives there.
_UNDERFLOW = 2.0**-1000


@dataclass(frozen=True, eq=False)
class Bounds:
    """`lower <= value <= upper`, each `(size,)`, guaranteed in exact arithmetic."""

    lower: Array
    upper: Array

    @property
    def magnitude(self) -> Array:
        return np.maximum(abs(self.lower), abs(self.upper))


def network_bounds(network: Network, inputs: Bounds) -> list[Bounds]:
    """What leaves each layer, for every input between the given bounds."""
    found = []
    current = inputs
    for layer in network.layers:
        if isinstance(layer, AbstractLinear):
            current = linear_bounds(layer, current)
        else:
            current = Bounds(np.maximum(current.lower, 0.0), np.maximum(current.upper, 0.0))
        found.append(current)
    return found


def linear_bounds(layer: AbstractLinear, inputs: Bounds) -> Bounds:
    """Bounds on `W x + bias`."""
    matrix: Array | sparse.csr_array
    matrix = layer.weight if isinstance(layer, Affine) else layer.matrix
    return matrix_bounds(matrix, layer.flat_bias, inputs, layer.fan_in)


def matrix_bounds(
    matrix: Array | sparse.csr_array, bias: Array, inputs: Bounds, terms: int
) -> Bounds:
    """Bounds on `matrix @ x + bias`, where a row has at most `terms` entries."""
    middle = (inputs.lower + inputs.upper) / 2
    # Both halves of the interval, measured from the rounded middle.
    radius = np.maximum(inputs.upper - middle, middle - inputs.lower) * (1 + 4 * _HALF_ULP)
    absolute = abs(matrix)
    centre = matrix @ middle + bias
    spread = absolute @ radius
    size = absolute @ (abs(middle) + radius) + abs(bias)
    error = _gamma(2 * terms + 8) * size + _UNDERFLOW
    return Bounds(centre - spread - error, centre + spread + error)


def _gamma(terms: int) -> float:
    """The relative error of that many float64 operations, itself rounded up."""
    return 1.01 * terms * _HALF_ULP


def confidence_bounds(network: Network, hidden: Bounds, label: int) -> tuple[Array, Array]:
    """Bounds on `score[label] - score[j]` for every other class j, in order of j.

    `hidden` bounds what enters the last layer. The differences of the last layer's rows are
    bounded directly, which is tighter than the difference of the scores' bounds.
    """
    others = [j for j in range(network.classes) if j != label]
    last = network.layers[-1]
    if not isinstance(last, AbstractLinear):
        positive = Bounds(np.maximum(hidden.lower, 0.0), np.maximum(hidden.upper, 0.0))
        low = np.nextafter(positive.lower[label] - positive.upper[others], -np.inf)
        return low, np.nextafter(positive.upper[label] - positive.lower[others], np.inf)
    weight: Array = last.matrix.toarray()
    bias = last.flat_bias
    found = matrix_bounds(
        weight[label] - weight[others], bias[label] - bias[others], hidden, last.fan_in
    )
    # The subtraction of the rows rounded each entry by at most half an ulp.
    reach = (abs(weight[label]) + abs(weight[others])) @ hidden.magnitude
    error = _gamma(8) * (reach + abs(bias[label]) + abs(bias[others]))
    return found.lower - error, found.upper + error


def largest_confidence(network: Network, inputs: Bounds, label: int) -> float:
    """An upper bound on the confidence in `label` over all inputs between the bounds."""
    hidden = inputs if len(network.layers) == 1 else network_bounds(network, inputs)[-2]
    return float(confidence_bounds(network, hidden, label)[1].min())
