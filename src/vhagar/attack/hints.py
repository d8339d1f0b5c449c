"""Hints for a solver's booleans: signs on which most attacks agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.network import Network

Signs = NDArray[np.int8]

NO_HINT = -1


@dataclass(frozen=True, eq=False)
class Hints:
    """For each neuron of each ReLU layer, in both copies: 1 (active), 0 (inactive) or `NO_HINT`."""

    first: tuple[Signs, ...]
    second: tuple[Signs, ...]


def hints_of(network: Network, x: Array, x_p: Array, majority: float) -> Hints:
    """The signs that more than a `majority` share of the solutions `(batch, size)` have.

    Without solutions there are no hints.
    """
    return Hints(_signs(network, x, majority), _signs(network, x_p, majority))


def _signs(network: Network, inputs: Array, majority: float) -> tuple[Signs, ...]:
    entering, _ = network.preactivations(inputs)
    found = []
    for values in entering:
        active = (values >= 0).sum(axis=0) / max(len(inputs), 1)
        inactive = (values < 0).sum(axis=0) / max(len(inputs), 1)
        signs = np.full(values.shape[1], NO_HINT, dtype=np.int8)
        signs[active > majority], signs[inactive > majority] = 1, 0
        found.append(signs)
    return tuple(found)
