"""Bounds on a neuron in both copies of the network: a hexagon, and its corners.

With `s` and `t` the neuron's pre-activations at `x` and at `x_p`:

    lower <= s <= upper,   lower_p <= t <= upper_p,   gap_lower <= t - ratio * s <= gap_upper

The ratio is 1 except for contrast, which scales the input, so that `t` stays close to a multiple of
`s`. The paper's dependencies are special cases: equal copies have a gap of exactly 0, ordered
copies a gap of one sign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.relaxation.arrays import AnyArray, namespace

# Most corners of a hexagon that is cut along s = 0 and t = 0.
CORNERS = 15
# Relative to a neuron's range. Rounding, and merging corners that nearly coincide, move a corner by
# far less, and a MIP solver's tolerance is smaller, too. (With thinner hexagons, HiGHS's presolve
# declared feasible models infeasible.)
_MARGIN = 1e-7


@dataclass(frozen=True, eq=False)
class Hexagons:
    """The hexagons of one layer, each field `(neurons,)`.

    `linear` marks linear units, which pass their input through whatever its sign; None if there are
    none. For many rows at once, the fields may be tensors of any shape that ends in `neurons`; the
    methods on which soundness depends (`tightened`, `widened`) take numpy arrays only.
    """

    lower: AnyArray
    upper: AnyArray
    lower_p: AnyArray
    upper_p: AnyArray
    gap_lower: AnyArray
    gap_upper: AnyArray
    ratio: float = 1.0
    linear: AnyArray | None = None

    @classmethod
    def of(
        cls, sides: Iterable[AnyArray], ratio: float, linear: AnyArray | None = None
    ) -> Hexagons:
        """The hexagons of six bounds, in the order of the fields."""
        low, high, low_p, high_p, gap_low, gap_high = sides
        return cls(low, high, low_p, high_p, gap_low, gap_high, ratio, linear)

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def sides(self) -> tuple[AnyArray, ...]:
        """The six bounds."""
        return (
            self.lower, self.upper, self.lower_p, self.upper_p, self.gap_lower, self.gap_upper
        )  # fmt: skip

    @property
    def equal(self) -> AnyArray:
        """Neurons whose copies always agree."""
        same = (self.gap_lower == 0) & (self.gap_upper == 0)
        return same & (self.ratio == 1.0)

    @property
    def off(self) -> AnyArray:
        """Neurons that are inactive in both copies, whatever the input."""
        off = (self.upper <= 0) & (self.upper_p <= 0)
        return off if self.linear is None else off & ~self.linear

    @property
    def on(self) -> AnyArray:
        """Neurons that pass their input through in both copies: active ones and linear units."""
        on = (self.lower >= 0) & (self.lower_p >= 0) & ~self.off
        return on if self.linear is None else on | self.linear

    @property
    def undecided(self) -> AnyArray:
        """Neurons whose ReLU depends on the input, in one copy at least."""
        return ~(self.on | self.off)

    @property
    def magnitude(self) -> AnyArray:
        """The largest absolute pre-activation in either copy, times `max(ratio, 1 / ratio)`."""
        larger = namespace(self.lower).maximum
        first = larger(abs(self.lower), abs(self.upper))
        largest = larger(first, larger(abs(self.lower_p), abs(self.upper_p)))
        # A corner's s may be computed from t by a division, its t from s by a product.
        return largest * max(self.ratio, 1.0 / self.ratio)

    def after(self, values: AnyArray) -> AnyArray:
        """The post-activations of such values: their ReLUs, or the values of linear units."""
        positive = values.clip(min=0.0)
        if self.linear is None:
            return positive
        return namespace(values).where(self.linear, values, positive)

    def mapped(self, function: Callable[[AnyArray], AnyArray]) -> Hexagons:
        """The same with a function applied to each field."""
        linear = None if self.linear is None else function(self.linear)
        return Hexagons.of(map(function, self.sides), self.ratio, linear)

    def take(self, neurons: NDArray[np.int64]) -> Hexagons:
        """The hexagons of the given neurons."""
        return self.mapped(lambda values: values[..., neurons])

    def meet(self, other: Hexagons) -> Hexagons:
        """The intersection of both; they have the same ratio, and either may name linear units."""
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
        """Tighten each of the six bounds by the others, rounded outward."""
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
        """Widen a little, so that the hull of the computed corners contains the exact hexagon.

        No bound crosses 0, because corners on the axes are exact. Equal copies stay equal.
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

    def corners(self) -> tuple[AnyArray, AnyArray]:
        """`s` and `t` of the corners of each hexagon cut along the axes, `(CORNERS, neurons)`.

        Some coincide. Rounding may put one an ulp outside or inside the hexagon; a maximum over the
        corners must allow for that.
        """
        xp = namespace(self.lower)
        s_points, t_points = [], []
        for s in (self.lower, _zero(xp, self.lower, self.upper), self.upper):
            t_low = xp.maximum(self.lower_p, self.ratio * s + self.gap_lower)
            t_high = xp.maximum(xp.minimum(self.upper_p, self.ratio * s + self.gap_upper), t_low)
            for t in (t_low, _zero(xp, t_low, t_high), t_high):
                s_points.append(s)
                t_points.append(t)
        for t in (self.lower_p, _zero(xp, self.lower_p, self.upper_p), self.upper_p):
            s_low = xp.maximum(self.lower, (t - self.gap_upper) / self.ratio)
            s_high = xp.maximum(xp.minimum(self.upper, (t - self.gap_lower) / self.ratio), s_low)
            for s in (s_low, s_high):
                s_points.append(s)
                t_points.append(t)
        return xp.stack(s_points), xp.stack(t_points)


def _zero(xp: Any, low: AnyArray, high: AnyArray) -> AnyArray:
    """The number between the bounds that is closest to 0."""
    return xp.minimum(low.clip(min=0.0), high)


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
