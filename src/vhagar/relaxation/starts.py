"""The twin dual's start coefficients on both copies' outputs, in numpy or in torch.

For the confidence of attacked inputs: with `alpha` on the simplex over the classes other than the
source and `mu >= 0` over the classes other than the target,

    sum of alpha_j (y_source - y_j)  +  sum of mu_j (y_p_target - y_p_j)

is at least the source's confidence wherever the target leads in the second copy. For the neurons of
a layer: the six directions in which a hexagon is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vhagar.array_types import Array, Index
from vhagar.network import Network
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.arrays import arange
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.interval import Bounds, network_bounds

Directions = tuple[tuple[float, float], ...]

# The number of a hexagon's directions that are about the first copy alone; they come first.
FIRST_COPY = 2


@dataclass(frozen=True, eq=False)
class ClassMultipliers:
    """Multipliers of the classes, `(rows, classes)` each, in numpy or in torch.

    `alpha` is 0 at the source, `mu` at the target, and all of `mu` is 0 without a target.
    """

    alpha: Any
    mu: Any

    def start(self, source: int, target: Any) -> tuple[Any, Any]:
        """Coefficients on both copies' scores.

        `target` is one class for all rows, one for each of them `(rows,)`, or None.
        """
        a, b = -self.alpha, -self.mu
        a[:, source] = self.alpha.sum(axis=1)
        if isinstance(target, int):
            b[:, target] = self.mu.sum(axis=1)
        elif target is not None:
            # Added and not assigned, because a row without a target may name any class.
            b[arange(len(b), b), target] += self.mu.sum(axis=1)
        return a, b

    def total(self) -> Any:
        """The sum of all multipliers of each row."""
        return self.alpha.sum(axis=1) + self.mu.sum(axis=1)


def lead_start(classes: int, source: int, target: int) -> tuple[Array, Array]:
    """The start of the bound on how far the source's lead over the target can shift, one row.

    All of `alpha` is on the target, and `mu` is 1 on the source.
    """
    alpha, mu = np.zeros((2, 1, classes))
    alpha[0, target], mu[0, source] = 1.0, 1.0
    return ClassMultipliers(alpha, mu).start(source, target)


def outward(value: Array, total: Array, score_size: float, classes: int) -> Array:
    """A bound on the confidence that allows for the rounding of the start coefficients.

    The sums of alpha and mu are rounded, and alpha sums to 1 only up to rounding. `total` `(rows,)`
    are the sums of all multipliers. NaN, which proves nothing, becomes infinity.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        proven = value + 2.0**-51 * (classes + 8) * (total * score_size + abs(value))
    return np.where(np.isnan(proven), np.inf, proven)


def score_size(network: Network, piece: AbstractPiece) -> float:
    """A bound on the absolute scores in either copy."""
    boxes = Bounds.over(piece.domain), Bounds(*piece.image_box)
    return max(float(network_bounds(network, b)[-1].magnitude.max()) for b in boxes)


def hexagon_directions(ratio: float) -> Directions:
    """Coefficients of `s` and of `t` whose maxima are the six bounds of a hexagon."""
    return ((-1, 0), (1, 0), (0, -1), (0, 1), (ratio, -1), (-ratio, 1))


def neuron_starts(directions: Directions, size: int, neurons: Index) -> tuple[Array, Array]:
    """Coefficients `(directions * neurons, size)` on both copies of a layer of the given size.

    The directions are the outer index.
    """
    unit = np.zeros((len(neurons), size))
    unit[np.arange(len(neurons)), neurons] = 1.0
    on_s, on_t = (np.concatenate([part[k] * unit for part in directions]) for k in (0, 1))
    return on_s, on_t


def hexagons_of(largest: Array, ratio: float) -> Hexagons:
    """The hexagons whose maxima in the six directions are given, `(6, neurons)`."""
    low, high, low_p, high_p, gap_low, gap_high = largest
    return Hexagons(-low, high, -low_p, high_p, -gap_low, gap_high, ratio)


def maxima_of(hexagons: Hexagons) -> Array:
    """The maxima in the six directions, `(6, neurons)`."""
    h = hexagons
    return np.stack((-h.lower, h.upper, -h.lower_p, h.upper_p, -h.gap_lower, h.gap_upper))
