"""Interval arithmetic through a network, rounded outward.

In float64 a sum of n products errs by at most `gamma(n) * sum of the absolute products`, whatever
the order of summation. That error is added on both sides, so the intervals hold in exact
arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array
from vhagar.network import AbstractLayer, AbstractLinear, Affine, Network, Relu
from vhagar.perturbation import Domain

# The relative rounding error of one float64 operation.
HALF_ULP = 2.0**-53
# Relative error bounds fail below the normal range; no real network has numbers so small.
_UNDERFLOW = 2.0**-1000


@dataclass(frozen=True, eq=False)
class Bounds:
    """`lower <= value <= upper`, each `(size,)`, guaranteed in exact arithmetic."""

    lower: Array
    upper: Array

    @classmethod
    def over(cls, domain: Domain) -> Bounds:
        """The box of a domain's inputs."""
        return cls(domain.low, domain.high)

    @property
    def magnitude(self) -> Array:
        return np.maximum(abs(self.lower), abs(self.upper))


def network_bounds(network: Network, inputs: Bounds) -> list[Bounds]:
    """Bounds on the outputs of every layer, for all inputs between the given bounds."""
    found = []
    current = inputs
    for layer in network.layers:
        current = layer_bounds(layer, current)
        found.append(current)
    return found


def layer_bounds(layer: AbstractLayer, inputs: Bounds) -> Bounds:
    """Bounds on the outputs of a layer, for all inputs between the given bounds."""
    if isinstance(layer, AbstractLinear):
        return linear_bounds(layer, inputs)
    assert isinstance(layer, Relu)
    # ReLU is monotone, and so are linear units.
    return Bounds(*(layer.forward(side) for side in (inputs.lower, inputs.upper)))


def linear_bounds(layer: AbstractLinear, inputs: Bounds) -> Bounds:
    """Bounds on `W x + bias`."""
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = _rounded_outward(layer, inputs)
    # Overflow proves nothing.
    return Bounds(np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high))


def middle_and_radius(low: Array, high: Array) -> tuple[Array, Array]:
    """The rounded middle of each interval, and at least its distance from either end."""
    middle = (low + high) / 2
    return middle, np.maximum(high - middle, middle - low) * (1 + 4 * HALF_ULP)


def _rounded_outward(layer: AbstractLinear, inputs: Bounds) -> tuple[Array, Array]:
    middle, radius = middle_and_radius(inputs.lower, inputs.upper)
    bias = layer.flat_bias
    live = ((inputs.lower != 0) | (inputs.upper != 0)).astype(np.float64)
    (centre,) = layer.times(middle[None]) + bias
    spread, size, weights = layer.absolute.times(np.stack([radius, abs(middle) + radius, live]))
    size = size + abs(bias)
    # A row without weights, or with weights on inputs that are 0, gives exactly 0.
    empty = (weights == 0) & (bias == 0)
    error = np.where(empty, 0.0, _gamma(2 * layer.fan_in + 8) * size + _UNDERFLOW)
    return centre - spread - error, centre + spread + error


def _gamma(terms: int) -> float:
    """The relative error of `terms` float64 operations, itself rounded up."""
    return 1.01 * terms * HALF_ULP


def confidence_bounds(network: Network, hidden: Bounds, label: int) -> tuple[Array, Array]:
    """Bounds on `score[label] - score[j]` for every other class j, in order of j.

    `hidden` bounds the inputs of the last layer. The differences of the last layer's rows are
    bounded directly, which is tighter than the difference of the scores' bounds.
    """
    others = [j for j in range(network.classes) if j != label]
    last = network.layers[-1]
    if not isinstance(last, AbstractLinear):
        positive = layer_bounds(last, hidden)
        low = positive.lower[label] - positive.upper[others]
        high = positive.upper[label] - positive.lower[others]
        # Only a difference of 0 is certain not to have been rounded.
        low = np.where(low == 0, low, np.nextafter(low, -np.inf))
        return low, np.where(high == 0, high, np.nextafter(high, np.inf))
    weight = last.pull(np.eye(last.out_size))
    bias = last.flat_bias
    gaps, shifts = weight[label] - weight[others], bias[label] - bias[others]
    found = linear_bounds(Affine(gaps, shifts, last.in_shape, (len(others),)), hidden)
    # The subtractions rounded each entry by at most half an ulp; differences of 0 are exact.
    error = _gamma(8) * (abs(gaps) @ hidden.magnitude + abs(shifts))
    return found.lower - error, found.upper + error


def largest_confidence(network: Network, inputs: Bounds, label: int) -> float:
    """An upper bound on the confidence in `label` over all inputs between the bounds."""
    hidden = inputs if len(network.layers) == 1 else network_bounds(network, inputs)[-2]
    return float(confidence_bounds(network, hidden, label)[1].min())
