"""Bound the rounding error of a forward pass in floating-point arithmetic.

Interval arithmetic bounds the error for one input at a time. This bound holds for every input of a
box, so that a batch of any size costs only one plain forward pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.network import AbstractLinear, Network
from vhagar.network.network import confidence
from vhagar.relaxation.interval import HALF_ULP, Bounds, layer_bounds

# If k times the error of one rounding is at most this, k roundings err by at most 1.01 times that.
_MOST_ROUNDING = 0.009


@dataclass(frozen=True)
class Precision:
    """A floating-point type: the relative error of one rounding, and its range of normal numbers.

    Numbers below `tiny` may be flushed to 0, as some processors do; numbers beyond `largest`
    overflow.
    """

    half_ulp: float
    tiny: float
    largest: float


FLOAT32 = Precision(2.0**-24, 2.0**-126, float(np.finfo(np.float32).max))
FLOAT64 = Precision(HALF_ULP, 2.0**-1022, float(np.finfo(np.float64).max))


def float32_above(values: Array) -> NDArray[np.float32]:
    """The smallest float32 numbers that are not below the values."""
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
    above: NDArray[np.float32] = np.nextafter(near, np.float32(np.inf))
    return np.where(near < values, above, near).astype(np.float32)


def forward_error(network: Network, inputs: Bounds, precision: Precision = FLOAT64) -> Array:
    """Bounds on `|computed - exact|` of every score, `(classes,)`, for all inputs in the box.

    The inputs are exact in this precision; weights are rounded to it. Any order of summation is
    covered, and so are fused operations. A layer `W x + b` of fan-in `n` turns an error `e` into
    `|W| e + gamma (|W| (m + e) + |b|)`, where `m` bounds the exact values and `gamma` is the
    relative error of `n + 3` roundings; a ReLU never makes an error larger.
    """
    error = np.zeros(network.input_size)
    exact = inputs
    with np.errstate(over="ignore", invalid="ignore"):
        for layer in network.layers:
            if isinstance(layer, AbstractLinear):
                error = _through(layer, error, exact.magnitude, precision)
            exact = layer_bounds(layer, exact)
    # Overflow gives no bound.
    return np.where(np.isnan(error), np.inf, error)


def confidence_error(error: Array, label: int) -> float:
    """A bound on the error of a computed confidence in a class, from the errors of the scores.

    The subtraction of the two scores rounds once more; the caller must allow for that.
    """
    return float((error[label] + np.delete(error, label).max()) * (1 + 2.0**-50))


def sure_confidences(scores: Array, error: Array, label: int) -> Array:
    """Lower bounds on confidences in a class, from computed scores and their error."""
    plain = confidence(scores, label)
    # Two subtractions round: that of the scores and this one.
    with np.errstate(invalid="ignore"):
        least = plain - confidence_error(error, label) - 2.0**-51 * abs(plain)
    bounds: Array = np.nextafter(least, -np.inf)
    return np.where(np.isfinite(bounds), bounds, -np.inf)


def _through(layer: AbstractLinear, error: Array, magnitude: Array, precision: Precision) -> Array:
    roundings = (layer.fan_in + 3) * precision.half_ulp
    if roundings > _MOST_ROUNDING:
        return np.full(layer.out_size, np.inf)
    gamma = 1.01 * roundings
    ones = np.ones_like(error)
    inherited, size, weights = layer.absolute.times(np.stack([error, magnitude + error, ones]))
    size = size + abs(layer.flat_bias)
    # What flushing to 0 can lose: an entry, a weight, a product, a sum, the bias.
    values = layer.fan_in * (magnitude + error).max(initial=0.0)
    lost = precision.tiny * (weights + values + 2 * layer.fan_in + 4)
    total: Array = inherited + gamma * size + lost
    # The factor allows for the roundings, in float64, of the bound itself.
    total = total * (1 + 4 * gamma + 4 * (layer.fan_in + 8) * HALF_ULP)
    # Where a weight or a value may overflow, there is no bound: infinity times 0 is NaN.
    return np.where(2 * np.maximum(size, weights) < precision.largest, total, np.inf)
