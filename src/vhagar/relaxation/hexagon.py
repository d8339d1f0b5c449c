"""What is known of a neuron in both copies of the network: a hexagon, and its corners.

With `s` and `t` the neuron's pre-activations at `x` and at `x_p`:

    lower <= s <= upper,   lower_p <= t <= upper_p,   gap_lower <= t - ratio * s <= gap_upper

The ratio is 1 except for contrast, which multiplies: there `t` follows a multiple of `s`. The
paper's dependencies are special cases: equal copies have a gap of exactly 0, ordered copies a gap
of one sign.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Corners of a hexagon cut along s = 0 and t = 0, at most.
CORNERS = 15
# Of a neuron's range: far more than rounding, and merging corners that nearly coincide, can move
# one, and more than a MIP solver's tolerance. (In hexagons thinner than that HiGHS's presolve got
# lost, and called models infeasible that are not.)
_MARGIN = 1e-7


@dataclass(frozen=True, eq=False)
class Hexagons:
    """The hexagons of one layer, each field `(neurons,)`.

    `linear` marks units that pass on what they receive, whatever its sign; None where there are
    none.
    """

    lower: Array
    upper: Array
    lower_p: Array
    upper_p: Array
    gap_lower: Array
    gap_upper: Array
    ratio: float = 1.0
    linear: Mask | None = None

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def equal(self) -> Mask:
        """Neurons whose copies always agree."""
        same = (self.gap_lower == 0) & (self.gap_upper == 0)
        return np.asarray(same & (self.ratio == 1.0))

    @property
    def off(self) -> Mask:
        """Neurons that are inactive in both copies, whatever the input."""
        off = (self.upper <= 0) & (self.upper_p <= 0)
        return np.asarray(off if self.linear is None else off & ~self.linear)

    @property
    def on(self) -> Mask:
        """Neurons that pass on what they receive in both copies, whatever the input."""
        on = (self.lower >= 0) & (self.lower_p >= 0) & ~self.off
        return np.asarray(on if self.linear is None else on | self.linear)

    @property
    def magnitude(self) -> Array:
        """The largest absolute pre-activation in either copy, the ratio taken in."""
        first = np.maximum(abs(self.lower), abs(self.upper))
        largest: Array = np.maximum(first, np.maximum(abs(self.lower_p), abs(self.upper_p)))
        # A corner's s may be computed from t by a division, its t from s by a product.
        return largest * max(self.ratio, 1.0 / self.ratio)

    def take(self, neurons: NDArray[np.int64]) -> Hexagons:
        """Those of some neurons."""
        return replace(
            self,
            lower=self.lower[neurons],
            upper=self.upper[neurons],
            lower_p=self.lower_p[neurons],
            upper_p=self.upper_p[neurons],
            gap_lower=self.gap_lower[neurons],
            gap_upper=self.gap_upper[neurons],
            linear=None if self.linear is None else self.linear[neurons],
        )

    def meet(self, other: Hexagons) -> Hexagons:
        """What both know; they have the same ratio, and one of them knows the linear units."""
        return Hexagons(
            np.maximum(self.lower, other.lower),
            np.minimum(self.upper, other.upper),
            np.maximum(self.lower_p, other.lower_p),
            np.minimum(self.upper_p, other.upper_p),
            np.maximum(self.gap_lower, other.gap_lower),
            np.minimum(self.gap_upper, other.gap_upper),
            self.ratio,
            other.linear if self.linear is None else self.linear,
        )

    def tightened(self) -> Hexagons:
        """Let the six bounds sharpen each other, rounded outward."""
        low, high = self.lower, self.upper
        low_p, high_p = self.lower_p, self.upper_p
        gap_low, gap_high, ratio = self.gap_lower, self.gap_upper, self.ratio
        equal = self.equal
        low = np.maximum(low, np.where(equal, low_p, _down(_down(low_p - gap_high) / ratio)))
        high = np.minimum(high, np.where(equal, high_p, _up(_up(high_p - gap_low) / ratio)))
        low_p = np.maximum(low_p, np.where(equal, low, _down(_down(ratio * low) + gap_low)))
        high_p = np.minimum(high_p, np.where(equal, high, _up(_up(ratio * high) + gap_high)))
        gap_low = np.where(equal, 0.0, np.maximum(gap_low, _down(low_p - _up(ratio * high))))
        gap_high = np.where(equal, 0.0, np.minimum(gap_high, _up(high_p - _down(ratio * low))))
        return Hexagons(low, high, low_p, high_p, gap_low, gap_high, ratio, self.linear)

    def widened(self) -> Hexagons:
        """A little larger, so that the hull of the corners as computed holds all of the hexagon.

        Where a bound has a sign it keeps it: the axes are exact. Equal copies stay equal.
        """
        margin = _MARGIN * (1.0 + self.ratio) * self.magnitude
        low, high = _outward(self.lower, self.upper, margin)
        low_p, high_p = _outward(self.lower_p, self.upper_p, margin)
        gap = np.where(self.equal, 0.0, margin)
        return replace(
            self,
            lower=low,
            upper=high,
            lower_p=low_p,
            upper_p=high_p,
            gap_lower=self.gap_lower - gap,
            gap_upper=self.gap_upper + gap,
        )

    def corners(self) -> tuple[Array, Array]:
        """`s` and `t` of the corners of each hexagon cut along the axes, `(CORNERS, neurons)`.

        Some coincide, and rounding may leave one off the hexagon by an ulp; who maximises over
        them adds that much.
        """
        s_points, t_points = [], []
        zero = np.clip(0.0, self.lower, self.upper)
        for s in (self.lower, zero, self.upper):
            t_low = np.maximum(self.lower_p, self.ratio * s + self.gap_lower)
            t_high = np.maximum(np.minimum(self.upper_p, self.ratio * s + self.gap_upper), t_low)
            for t in (t_low, np.clip(0.0, t_low, t_high), t_high):
                s_points.append(s)
                t_points.append(t)
        zero_p = np.clip(0.0, self.lower_p, self.upper_p)
        for t in (self.lower_p, zero_p, self.upper_p):
            s_low = np.maximum(self.lower, (t - self.gap_upper) / self.ratio)
            s_high = np.maximum(np.minimum(self.upper, (t - self.gap_lower) / self.ratio), s_low)
            for s in (s_low, s_high):
                s_points.append(s)
                t_points.append(t)
        return np.array(s_points), np.array(t_points)


def _outward(low: Array, high: Array, margin: Array) -> tuple[Array, Array]:
    """The interval widened, but not across 0."""
    return (
        np.where(low >= 0, np.maximum(low - margin, 0.0), low - margin),
        np.where(high <= 0, np.minimum(high + margin, 0.0), high + margin),
    )


def _down(values: Array) -> Array:
    return np.nextafter(values, -np.inf)


def _up(values: Array) -> Array:
    return np.nextafter(values, np.inf)
