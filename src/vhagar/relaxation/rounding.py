"""How far a forward pass in floating-point arithmetic can be from the network itself.

Interval arithmetic bounds the error for one input at a time. This bound holds for every input of a
box, so that a batch of any size costs one plain forward pass and no more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vhagar.network import AbstractLinear, Network
from vhagar.relaxation.interval import HALF_ULP, Bounds, layer_bounds

Array = NDArray[np.float64]

# More than underflow can lose in one entry, however many products it sums.
_UNDERFLOW = 2.0**-1000


def forward_error(network: Network, inputs: Bounds) -> Array:
    """Bounds on `|computed - exact|` of every score, `(classes,)`, for all inputs in the box.

    Any order of summation is covered, fused operations too. A layer `W x + b` of fan-in `n` takes
    an error `e` to `|W| e + gamma (|W| (m + e) + |b|)`, where `m` bounds the exact values and
    `gamma` is what `n + 1` roundings amount to; a ReLU never makes an error larger.
    """
    error = np.zeros(network.input_size)
    exact = inputs
    with np.errstate(over="ignore", invalid="ignore"):
        for layer in network.layers:
            if isinstance(layer, AbstractLinear):
                error = _through(layer, error, exact.magnitude)
            exact = layer_bounds(layer, exact)
    # Numbers beyond float64 bound nothing.
    return np.where(np.isnan(error), np.inf, error)


def _through(layer: AbstractLinear, error: Array, magnitude: Array) -> Array:
    inherited, size = layer.absolute.times(np.stack([error, magnitude + error]))
    gamma = 1.01 * (layer.fan_in + 2) * HALF_ULP
    total: Array = inherited + gamma * (size + abs(layer.flat_bias))
    # The bound itself was computed with no more roundings than these.
    return total * (1 + 4 * gamma + 16 * HALF_ULP) + _UNDERFLOW
