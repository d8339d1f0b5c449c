"""Hexagons: bounds on a neuron in both copies, and the offset that a ReLU costs backwards.

With `s` and `t` the pre-activations at `x` and at `x_p`, a hexagon is

    low <= s <= high,   low_p <= t <= high_p,   gap_low <= t - ratio * s <= gap_high

A linear unit passes its input through unchanged, whatever its sign: it counts as active.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from vhagar_check.layers import HALF_ULP, TINY, Floats, Indices, Mask


@dataclass(frozen=True, eq=False)
class Hexagons:
    """The hexagons of one layer, each field `(neurons,)`."""

    low: Floats
    high: Floats
    low_p: Floats
    high_p: Floats
    gap_low: Floats
    gap_high: Floats
    ratio: float
    linear: Mask | None = None  # the linear units; None if all units are ReLUs

    @property
    def on(self) -> Mask:
        found = np.asarray((self.low >= 0) & (self.low_p >= 0) & ~self.off)
        return found if self.linear is None else found | self.linear

    @property
    def off(self) -> Mask:
        found = np.asarray((self.high <= 0) & (self.high_p <= 0))
        return found if self.linear is None else found & ~self.linear

    @property
    def floor(self) -> Floats:
        """The least output of a unit: 0, or minus infinity for a linear unit."""
        if self.linear is None:
            return np.zeros(len(self.low))
        return np.where(self.linear, -np.inf, 0.0)

    def take(self, units: Indices) -> Hexagons:
        """The hexagons of some units."""
        return Hexagons(
            self.low[units],
            self.high[units],
            self.low_p[units],
            self.high_p[units],
            self.gap_low[units],
            self.gap_high[units],
            self.ratio,
            None if self.linear is None else self.linear[units],
        )

    def meet(self, other: Hexagons) -> Hexagons:
        """The intersection with other hexagons; a side that is NaN counts as absent."""
        return Hexagons(
            np.fmax(self.low, other.low),
            np.fmin(self.high, other.high),
            np.fmax(self.low_p, other.low_p),
            np.fmin(self.high_p, other.high_p),
            np.fmax(self.gap_low, other.gap_low),
            np.fmin(self.gap_high, other.gap_high),
            self.ratio,
            self.linear,
        )

    def tightened(self) -> Hexagons:
        """Tighten the six sides by each other, rounded outward; equal copies share their bounds."""
        k = self.ratio
        low, high, low_p, high_p = self.low, self.high, self.low_p, self.high_p
        equal = (self.gap_low == 0) & (self.gap_high == 0) & (k == 1.0)
        low = np.fmax(low, np.where(equal, low_p, _down(_down(low_p - self.gap_high) / k)))
        high = np.fmin(high, np.where(equal, high_p, _up(_up(high_p - self.gap_low) / k)))
        low_p = np.fmax(low_p, np.where(equal, low, _down(_down(k * low) + self.gap_low)))
        high_p = np.fmin(high_p, np.where(equal, high, _up(_up(k * high) + self.gap_high)))
        gap_low = np.fmax(self.gap_low, _down(low_p - _up(k * high)))
        gap_high = np.fmin(self.gap_high, _up(high_p - _down(k * low)))
        return Hexagons(
            low,
            high,
            low_p,
            high_p,
            np.where(equal, 0.0, gap_low),
            np.where(equal, 0.0, gap_high),
            k,
            self.linear,
        )

    def with_signs(self, rises: Mask, falls: Mask) -> Hexagons:
        """Limit gaps to at most 0 for neurons that cannot rise, at least 0 if they cannot fall."""
        return replace(
            self,
            gap_low=np.where(falls, self.gap_low, np.fmax(self.gap_low, 0.0)),
            gap_high=np.where(rises, self.gap_high, np.fmin(self.gap_high, 0.0)),
        )


@dataclass(frozen=True, eq=False)
class Corners:
    """The corners of the hexagons cut along s = 0 and t = 0, `(15, neurons)`.

    Every corner is computed up to `slack`; some points are not corners, which does not change a
    maximum.
    """

    s: Floats
    t: Floats
    magnitude: Floats  # (neurons,)
    floor: Floats  # (neurons,)

    @classmethod
    def of(cls, h: Hexagons) -> Corners:
        s_points, t_points = [], []
        for s in (h.low, np.clip(0.0, h.low, h.high), h.high):
            t_low = np.maximum(h.low_p, h.ratio * s + h.gap_low)
            t_high = np.maximum(np.minimum(h.high_p, h.ratio * s + h.gap_high), t_low)
            for t in (t_low, np.clip(0.0, t_low, t_high), t_high):
                s_points.append(s)
                t_points.append(t)
        for t in (h.low_p, np.clip(0.0, h.low_p, h.high_p), h.high_p):
            s_low = np.maximum(h.low, (t - h.gap_high) / h.ratio)
            s_high = np.maximum(np.minimum(h.high, (t - h.gap_low) / h.ratio), s_low)
            for s in (s_low, s_high):
                s_points.append(s)
                t_points.append(t)
        sides = [abs(side) for side in (h.low, h.high, h.low_p, h.high_p)]
        # Never so small that a corner's underflow exceeds the bound on its rounding.
        magnitude = np.maximum(np.max(sides, axis=0) * max(h.ratio, 1 / h.ratio), TINY)
        return cls(np.array(s_points), np.array(t_points), magnitude, h.floor)

    def take(self, units: Indices) -> Corners:
        """The corners of some units."""
        parts = self.s[:, units], self.t[:, units], self.magnitude[units], self.floor[units]
        return Corners(*parts)

    @property
    def slack(self) -> Floats:
        """A bound on how far rounding can move a corner."""
        return np.asarray(8 * HALF_ULP * self.magnitude)

    def offset(self, a: Floats, b: Floats, p: Floats, q: Floats) -> Floats:
        """The largest of `a relu(s) + b relu(t) - p s - q t` over each neuron's corners."""
        best = np.full(a.shape, -np.inf)
        for s, t in zip(self.s, self.t, strict=True):
            value = a * np.maximum(s, self.floor) + b * np.maximum(t, self.floor) - p * s - q * t
            np.maximum(best, value, out=best)
        return best

    def decided(
        self, neuron: int, signs: dict[int, int], a: float, b: float, p: float, q: float
    ) -> float:
        """As `offset`, for one neuron whose copies (0, 1) have decided signs (1, -1).

        A corner is left out only if it lies on the wrong side by more than rounding can explain.
        Minus infinity means that no point is left.
        """
        s, t, slack = self.s[:, neuron], self.t[:, neuron], self.slack[neuron]
        left = np.ones(len(s), dtype=np.bool_)
        for copy, sign in signs.items():
            left &= sign * (t if copy else s) >= -slack
        if not left.any():
            return float(-np.inf)
        s, t, floor = s[left], t[left], self.floor[neuron]
        values = a * np.maximum(s, floor) + b * np.maximum(t, floor) - p * s - q * t
        return float(values.max())


def exact_offset(
    h: Hexagons, neuron: int, signs: dict[int, int], numbers: tuple[Fraction, ...]
) -> Fraction | None:
    """The offset of one neuron in exact arithmetic; None if the signs leave no point."""
    low, high, low_p, high_p, gap_low, gap_high = (
        Fraction(float(side[neuron]))
        for side in (h.low, h.high, h.low_p, h.high_p, h.gap_low, h.gap_high)
    )
    k, zero = Fraction(h.ratio), Fraction(0)
    if signs.get(0, 0) > 0:
        low = max(low, zero)
    if signs.get(0, 0) < 0:
        high = min(high, zero)
    if signs.get(1, 0) > 0:
        low_p = max(low_p, zero)
    if signs.get(1, 0) < 0:
        high_p = min(high_p, zero)
    if low > high or low_p > high_p:
        return None
    floor = None if h.linear is not None and h.linear[neuron] else zero
    best = None
    for s in {low, high} | ({zero} if low <= 0 <= high else set()):
        ends = (max(low_p, k * s + gap_low), min(high_p, k * s + gap_high))
        for t in {*ends} | ({zero} if ends[0] <= 0 <= ends[1] else set()):
            if ends[0] <= ends[1]:
                best = _larger(best, numbers, floor, s, t)
    for t in {low_p, high_p} | ({zero} if low_p <= 0 <= high_p else set()):
        ends = (max(low, (t - gap_high) / k), min(high, (t - gap_low) / k))
        for s in ends:
            if ends[0] <= ends[1]:
                best = _larger(best, numbers, floor, s, t)
    return best


def _larger(
    best: Fraction | None,
    numbers: tuple[Fraction, ...],
    floor: Fraction | None,
    s: Fraction,
    t: Fraction,
) -> Fraction:
    a, b, p, q = numbers
    left, right = (s, t) if floor is None else (max(s, floor), max(t, floor))
    value = a * left + b * right - p * s - q * t
    return value if best is None else max(best, value)


def quick_multipliers(h: Hexagons, corners: Corners, a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Choose multipliers `(p, q)` of ReLUs without optimisation; any others are valid as well.

    The best of three rules by its offset: each copy separately with the usual slopes of a relaxed
    ReLU; or the sum through one of the copies, and the rest through the difference of both.
    """
    k, kappa = h.ratio, _difference_slope(h)
    both = a / k + b
    sum_s, sum_t = _slope(both, h.low, h.high), _slope(both, h.low_p, h.high_p)
    rules = (
        (_slope(a, h.low, h.high) * a, _slope(b, h.low_p, h.high_p) * b),
        (sum_s * a + k * (sum_s - kappa) * b, kappa * b),
        (kappa * a, (sum_t - kappa) / k * a + sum_t * b),
    )
    # A later rule must be better by more than rounding, so that every program chooses the same.
    room = 1e-9 * (abs(a) + abs(b)) * corners.magnitude
    best_p, best_q = np.zeros_like(a), np.zeros_like(a)
    best = np.full(a.shape, np.inf)
    for p, q in rules:
        offset = corners.offset(a, b, p, q)
        better = offset < best - room
        best_p, best_q = np.where(better, p, best_p), np.where(better, q, best_q)
        best = np.where(better, offset, best)
    return best_p, best_q


def _slope(coefficient: Floats, low: Floats, high: Floats) -> Floats:
    crossing = (low < 0) & (high > 0)
    fixed = (low >= 0).astype(np.float64)
    span = np.where(crossing, high - low, 1.0)
    above = np.where(crossing, high / span, fixed)
    below = np.where(crossing, (high + low > 1e-9 * span).astype(np.float64), fixed)
    return np.where(coefficient > 0, above, below)


def _difference_slope(h: Hexagons) -> Floats:
    low, high = np.minimum(h.gap_low, 0.0), np.maximum(h.gap_high, 0.0)
    span = np.where(high > low, high - low, 1.0)
    chord = np.where(high + low > 0, high, -low) / span
    return np.clip(np.where(h.on, 1.0, np.where(h.off, 0.0, chord)), 0.0, 1.0)


def _down(values: Floats) -> Floats:
    return np.nextafter(values, -np.inf)


def _up(values: Floats) -> Floats:
    return np.nextafter(values, np.inf)
