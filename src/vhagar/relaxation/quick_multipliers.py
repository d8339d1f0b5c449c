"""A quick choice of the twin dual's multipliers: no optimisation, the best of three rules.

1. Each copy separately, with the usual slopes of a linear relaxation of ReLU.
2. The sum of both through the first copy and the rest through the difference of the copies:
   `a relu(s) + b relu(t) = (a + b) relu(s) + b (relu(t) - relu(s))`. Where the copies differ by a
   ratio, `ratio * s` stands for `s`, since `relu(ratio * s) = ratio * relu(s)`.
3. The same with the copies exchanged.

The multipliers are `p = c0 a + c1 b` and `q = c2 a + c3 b`, with slopes c.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar.relaxation.arrays import AnyArray, namespace
from vhagar.relaxation.corners import Corners
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.twin_dual import Payment

# Relative size of differences that count as ties, so that the choice does not depend on rounding.
TIE = 1e-9

# The slopes `c0` to `c3`: for every row and neuron, for every neuron, or one number for all.
RelaxationSlopes = tuple[AnyArray, AnyArray | float, AnyArray | float, AnyArray]
# Maps slopes to their offsets, followed by whatever the caller needs of the best rule.
Price = Callable[[RelaxationSlopes], tuple[AnyArray, ...]]


def quick_payment(
    corners: Sequence[Corners], inside: Sequence[AnyArray | None] | None = None
) -> Payment:
    """Pay by the rule with the smallest offset for each neuron and row; `inside` as in `paying`."""
    parts: dict[int, UnitParts] = {}

    def pay(layer: int, a: AnyArray, b: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
        exists = None if inside is None else inside[layer]
        if exists is not None:
            a, b = a * exists, b * exists
        if not isinstance(a, np.ndarray):
            return _paid(corners[layer], a, b)
        if layer not in parts:
            parts[layer] = UnitParts.of(corners[layer])
        return parts[layer].paid(a, b)

    return pay


def _paid(seen: Corners, a: AnyArray, b: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Multipliers by the best rule of each neuron, and their offsets."""

    def price(slopes: RelaxationSlopes) -> tuple[AnyArray, ...]:
        p, q = _multipliers(slopes, a, b)
        return seen.offset(a, b, p, q), p, q

    r, p, q = best_rule(seen.hexagons, seen.magnitude, a, b, price)
    return p, q, r


@dataclass(frozen=True, eq=False)
class UnitParts:
    """The units of a layer, by what has to be computed for them.

    Units that are on pass their coefficients on, and units that are off pass on 0, at no cost: no
    rule does better. Undecided units have three corners if their copies are equal, else all.
    """

    on: NDArray[np.bool_]
    undecided: tuple[tuple[NDArray[np.int64], Corners], ...]

    @classmethod
    def of(cls, corners: Corners) -> UnitParts:
        """Sort the units of a layer."""
        h = corners.hexagons
        # A neuron that is 0 for every input is off, and could be on: the rules pass it on.
        on = np.asarray(h.on | ((h.lower >= 0) & (h.lower_p >= 0)))
        free = ~on & ~h.off
        equal = np.flatnonzero(free & h.equal)
        others = np.flatnonzero(free & ~h.equal)
        parts = ((equal, corners.take(equal).diagonal()), (others, corners.take(others)))
        return cls(on, tuple(part for part in parts if len(part[0])))

    def paid(
        self, a: NDArray[np.float64], b: NDArray[np.float64]
    ) -> tuple[AnyArray, AnyArray, AnyArray]:
        """Multipliers by the best rule of each neuron, and their offsets."""
        p, q = np.where(self.on, a, 0.0), np.where(self.on, b, 0.0)
        offsets = np.zeros_like(p)
        for units, corners in self.undecided:
            if len(units) == a.shape[1]:
                return _paid(corners, a, b)
            found = _paid(corners, a[:, units], b[:, units])
            p[:, units], q[:, units], offsets[:, units] = found
        return p, q, offsets


def _multipliers(slopes: RelaxationSlopes, a: AnyArray, b: AnyArray) -> tuple[AnyArray, AnyArray]:
    first, across, back, second = slopes
    p = first * a if isinstance(across, float) else first * a + across * b
    q = second * b if isinstance(back, float) else back * a + second * b
    return p, q


def best_rule(
    hexagons: Hexagons, magnitude: AnyArray, a: AnyArray, b: AnyArray, price: Price
) -> tuple[AnyArray, ...]:
    """The results of `price` for the rule with the smallest offset, element by element.

    An offset that is NaN counts as infinite.
    """
    xp = namespace(a)
    tie = TIE * (abs(a) + abs(b)) * magnitude
    best: tuple[AnyArray, ...] = ()
    for slopes in _rules(hexagons, a, b):
        found = price(slopes)
        if not best:
            best = (xp.full_like(a, np.inf), *(xp.zeros_like(part) for part in found[1:]))
        better = found[0] + tie < best[0]
        best = tuple(xp.where(better, new, old) for new, old in zip(found, best, strict=True))
    return best


def _rules(
    h: Hexagons, a: AnyArray, b: AnyArray
) -> tuple[RelaxationSlopes, RelaxationSlopes, RelaxationSlopes]:
    ratio, kappa = h.ratio, _difference_slope(h)
    both = a / ratio + b
    sum_s, sum_t = (
        _slope(h, both, low, high) for low, high in ((h.lower, h.upper), (h.lower_p, h.upper_p))
    )
    return (
        (_slope(h, a, h.lower, h.upper), 0.0, 0.0, _slope(h, b, h.lower_p, h.upper_p)),
        (sum_s, ratio * (sum_s - kappa), 0.0, kappa),
        (kappa, 0.0, (sum_t - kappa) / ratio, sum_t),
    )


def _slope(h: Hexagons, coefficient: AnyArray, low: AnyArray, high: AnyArray) -> AnyArray:
    """The chord's slope for positive coefficients; for others 0 or 1, whichever is closer to it."""
    xp = namespace(low)
    one, zero = xp.ones_like(low), xp.zeros_like(low)
    crossing, on = (low < 0) & (high > 0), low >= 0
    if h.linear is not None:
        crossing, on = crossing & ~h.linear, on | h.linear
    span = xp.where(crossing, high - low, one)
    above = xp.where(crossing, high / span, xp.where(on, one, zero))
    below = xp.where(xp.where(crossing, high + low > TIE * span, on), one, zero)
    return xp.where(coefficient > 0, above, below)


def _difference_slope(h: Hexagons) -> AnyArray:
    """A slope of `relu(t) - relu(ratio * s)` by the gap: 1 for active neurons, 0 for inactive."""
    xp = namespace(h.lower)
    one, zero = xp.ones_like(h.lower), xp.zeros_like(h.lower)
    low, high = h.gap_lower.clip(max=0.0), h.gap_upper.clip(min=0.0)
    span = xp.where(high > low, high - low, one)
    # The difference of the ReLUs lies between min(gap, 0) and max(gap, 0).
    chord = xp.where(high + low > 0, high, -low) / span
    chord = xp.where(h.on, one, xp.where(h.off, zero, chord))
    return chord.clip(0.0, 1.0)
