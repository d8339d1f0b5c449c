"""A quick choice of the twin dual's multipliers: no optimisation, the better of two rules.

1. Each copy for itself, with the usual slopes of a linear relaxation of ReLU.
2. The sum through the first copy and the rest through the difference of the copies:
   `a relu(s) + b relu(t) = (a + b) relu(s) + b (relu(t) - relu(s))`. Where the copies differ by a
   ratio, `ratio * s` stands for `s`, since `relu(ratio * s) = ratio * relu(s)`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.twin import Choice, Corners

Array = NDArray[np.float64]


def quick_choice(hexagons: list[Hexagons], corners: list[Corners]) -> Choice:
    """For each neuron and each start coefficient, the rule with the smaller offset."""

    def choose(layer: int, a: Array, b: Array) -> tuple[Array, Array]:
        h, c = hexagons[layer], corners[layer]
        best_p = _slope(a, h.lower, h.upper) * a
        best_q = _slope(b, h.lower_p, h.upper_p) * b
        best_r = c.offset(a, b, best_p, best_q)
        kappa = _difference_slope(h)
        # The difference can be taken from either copy.
        both = a / h.ratio + b
        sum_s = _slope(both, h.lower, h.upper) * both
        sum_t = _slope(both, h.lower_p, h.upper_p) * both
        by_s = (h.ratio * (sum_s - kappa * b), kappa * b)
        by_t = (kappa * a, sum_t - kappa * (a / h.ratio))
        for p, q in (by_s, by_t):
            r = c.offset(a, b, p, q)
            better = r < best_r
            best_p = np.where(better, p, best_p)
            best_q = np.where(better, q, best_q)
            best_r = np.where(better, r, best_r)
        return best_p, best_q

    return choose


def _slope(coefficient: Array, low: Array, high: Array) -> Array:
    """The chord above where the coefficient is positive; below, 0 or 1, whichever is closer."""
    chord = np.where(low >= 0, 1.0, np.where(high <= 0, 0.0, 0.0))
    crossing = (low < 0) & (high > 0)
    span = np.where(crossing, high - low, 1.0)
    above = np.where(crossing, high / span, chord)
    below = np.where(crossing, (high > -low).astype(np.float64), chord)
    return np.where(coefficient > 0, above, below)


def _difference_slope(h: Hexagons) -> Array:
    """A slope of `relu(t) - relu(ratio * s)` as a function of the gap: 1 on, 0 off."""
    low, high = np.minimum(h.gap_lower, 0.0), np.maximum(h.gap_upper, 0.0)
    span = np.where(high > low, high - low, 1.0)
    # The difference of the ReLUs lies between min(gap, 0) and max(gap, 0).
    chord = np.where(high + low > 0, high, -low) / span
    chord = np.where(h.on, 1.0, np.where(h.off, 0.0, chord))
    return np.clip(chord, 0.0, 1.0)
