"""Random inputs: a relation that one of them breaks need not be asked about."""

from __future__ import annotations

import numpy as np

from vhagar.array_types import Array
from vhagar.network import Network
from vhagar.perturbation import AbstractPiece


def largest_gaps(
    network: Network, piece: AbstractPiece, count: int, seed: int
) -> list[tuple[Array, Array]]:
    """Return the largest rise and fall seen, of the input and of the outputs of each layer.

    They are computed in float64, and only say which questions are not worth asking.
    """
    rng = np.random.default_rng(seed)
    domain, (low, high) = piece.domain, piece.parameter_bounds
    x = rng.uniform(domain.low, domain.high, (count, domain.size))
    ends = np.where(rng.choice([False, True], x.shape), domain.high, domain.low)
    x = np.where(rng.random(x.shape) < rng.random((count, 1)), ends, x)
    parameters = rng.uniform(low, high, (count, len(low)))
    corners = np.where(rng.random(parameters.shape) < 0.5, low, high)
    parameters = np.where(rng.random((count, 1)) < 0.5, corners, parameters)
    values, values_p = x, piece.apply(x, piece.project(parameters))
    found = [_extremes(values, values_p)]
    for layer in network.layers:
        values, values_p = layer.forward(values), layer.forward(values_p)
        found.append(_extremes(values, values_p))
    return found


def _extremes(values: Array, values_p: Array) -> tuple[Array, Array]:
    gaps = values_p - values
    return gaps.max(axis=0, initial=0.0), (-gaps).max(axis=0, initial=0.0)
