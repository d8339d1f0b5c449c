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

# Of what is compared: who computes the same in another order of operations chooses alike.
_TIE = 1e-9


def quick_choice(hexagons: list[Hexagons], corners: list[Corners]) -> Choice:
    """For each neuron and each start coefficient, the rule with the smaller offset."""

    def choose(layer: int, a: Array, b: Array) -> tuple[Array, Array]:
        c = quick_slopes(hexagons[layer], corners[layer], a, b)
        return c[0] * a + c[1] * b, c[2] * a + c[3] * b

    return choose


def quick_slopes(h: Hexagons, corners: Corners, a: Array, b: Array) -> Array:
    """The better rule's slopes `(4, batch, neurons)`: `p = c0 a + c1 b`, `q = c2 a + c3 b`."""
    kappa, ratio = _difference_slope(h), h.ratio
    both = a / ratio + b
    sum_s = _slope(both, h.lower, h.upper)
    sum_t = _slope(both, h.lower_p, h.upper_p)
    zero = np.zeros_like(a)
    rules = (
        (_slope(a, h.lower, h.upper), zero, zero, _slope(b, h.lower_p, h.upper_p)),
        # The difference can be taken from either copy.
        (sum_s, ratio * (sum_s - kappa), zero, zero + kappa),
        (zero + kappa, zero, (sum_t - kappa) / ratio, sum_t),
    )
    best, best_offset = np.zeros((4, *a.shape)), np.full(a.shape, np.inf)
    tie = _TIE * (abs(a) + abs(b)) * corners.magnitude
    for rule in rules:
        slopes = np.stack(rule)
        p, q = slopes[0] * a + slopes[1] * b, slopes[2] * a + slopes[3] * b
        offset = corners.offset(a, b, p, q)
        better = offset + tie < best_offset
        best = np.where(better, slopes, best)
        best_offset = np.where(better, offset, best_offset)
    if h.linear is not None:
        best[:, :, h.linear] = np.array([1.0, 0.0, 0.0, 1.0])[:, None, None]
    return best


def _slope(coefficient: Array, low: Array, high: Array) -> Array:
    """The chord above where the coefficient is positive; below, 0 or 1, whichever is closer."""
    chord = np.where(low >= 0, 1.0, np.where(high <= 0, 0.0, 0.0))
    crossing = (low < 0) & (high > 0)
    span = np.where(crossing, high - low, 1.0)
    above = np.where(crossing, high / span, chord)
    below = np.where(crossing, (high + low > _TIE * span).astype(np.float64), chord)
    return np.where(coefficient > 0, above, below)


def _difference_slope(h: Hexagons) -> Array:
    """A slope of `relu(t) - relu(ratio * s)` as a function of the gap: 1 on, 0 off."""
    low, high = np.minimum(h.gap_lower, 0.0), np.maximum(h.gap_upper, 0.0)
    span = np.where(high > low, high - low, 1.0)
    # The difference of the ReLUs lies between min(gap, 0) and max(gap, 0).
    chord = np.where(high + low > 0, high, -low) / span
    chord = np.where(h.on, 1.0, np.where(h.off, 0.0, chord))
    return np.clip(chord, 0.0, 1.0)
