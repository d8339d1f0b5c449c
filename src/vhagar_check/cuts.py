"""Cuts: linear facts about the outputs of a ReLU layer, and how they join a bound.

A cut says that `a.y + b.y_p + c.x + d.x_p <= limit` for the outputs `y` and `y_p` of some units of
a ReLU layer in both copies and for some pixels of `x` and of `x_p`, for all pairs of a region. So
for every weight `rho >= 0`

    e.y + f.y_p  <=  (e - rho a).y + (f - rho b).y_p - rho c.x - rho d.x_p + rho limit:

on its way backwards, a bound may take `rho a`, `rho b` and in the end `rho c`, `rho d` off its
coefficients for that price.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from vhagar_check.exact import Exact
from vhagar_check.layers import HALF_ULP, UNDERFLOW, Floats, Indices, gamma


def _no_pixels() -> Indices:
    return np.zeros(0, dtype=np.int64)


def _nothing() -> Floats:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Cut:
    """A fact about some units of ReLU layer `layer`, some `pixels` of `x` and some of `x_p`, those
    `perturbed`; an infinite limit says nothing."""

    layer: int
    units: Indices
    a: Floats
    b: Floats
    limit: float
    pixels: Indices = field(default_factory=_no_pixels)
    c: Floats = field(default_factory=_nothing)
    perturbed: Indices = field(default_factory=_no_pixels)
    d: Floats = field(default_factory=_nothing)

    @property
    def about_inputs(self) -> bool:
        """Whether some pixels have coefficients."""
        return bool(len(self.pixels) or len(self.perturbed))


@dataclass(frozen=True, eq=False)
class Weighted:
    """Cuts with weights that are at least 0, `(cases, cuts)`."""

    cuts: tuple[Cut, ...]
    weights: Floats

    def row(self, case: int) -> Weighted:
        """The cuts with the weights of one case."""
        return Weighted(self.cuts, self.weights[[case]])

    def taken_off(
        self, layer: int, a: Floats, b: Floats, constant: Floats, error: Floats, magnitude: Floats
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Take the cuts of a layer off the coefficients on its outputs, and pay their limits.

        The outputs' absolute values are at most `magnitude` in either copy. A case with weight on
        a cut without a limit has an infinite constant.
        """
        used = [
            k
            for k, cut in enumerate(self.cuts)
            if cut.layer == layer and (self.weights[:, k] != 0).any()
        ]
        if not used:
            return a, b, constant, error
        a, b, size = a.copy(), b.copy(), abs(a) + abs(b)
        price, paid = np.zeros(len(a)), np.zeros(len(a))
        for k in used:
            cut, weight = self.cuts[k], self.weights[:, k]
            a[:, cut.units] -= weight[:, None] * cut.a
            b[:, cut.units] -= weight[:, None] * cut.b
            size[:, cut.units] += weight[:, None] * (abs(cut.a) + abs(cut.b))
            # Without weight, a cut without a limit costs nothing: 0 times infinity is not meant.
            own = np.where(weight > 0, weight * cut.limit, 0.0)
            price, paid = price + own, paid + abs(own)
        constant = constant + price
        # The rounding error of a coefficient is multiplied by the size of its output.
        error = error + gamma(2 * len(used) + 4) * (size @ magnitude + paid)
        error = error + 2 * UNDERFLOW * (len(used) + 1) * magnitude.sum()
        return a, b, constant, error + HALF_ULP * abs(constant)

    def exactly_taken_off(self, layer: int, a: Exact, b: Exact) -> tuple[Exact, Exact, Fraction]:
        """As `taken_off`, for the first case, without rounding; the last result is the price.

        An OverflowError if a cut that is used has no limit.
        """
        weights = zip(self.cuts, self.weights[0].tolist(), strict=True)
        used = [(cut, Fraction(own)) for cut, own in weights if cut.layer == layer and own]
        if not used:
            return a, b, Fraction(0)
        left, right, price = a.fractions(), b.fractions(), Fraction(0)
        for cut, weight in used:
            price += weight * Fraction(cut.limit)
            ends = zip(cut.units.tolist(), cut.a.tolist(), cut.b.tolist(), strict=True)
            for unit, on_first, on_second in ends:
                left[unit] -= weight * Fraction(on_first)
                right[unit] -= weight * Fraction(on_second)
        return Exact.of_fractions(left), Exact.of_fractions(right), price

    def taken_off_inputs(
        self, a: Floats, b: Floats, error: Floats, magnitude: float
    ) -> tuple[Floats, Floats, Floats]:
        """Take all cuts off the coefficients on `x` and `x_p`, whose entries are at most
        `magnitude`."""
        used = [k for k, cut in enumerate(self.cuts) if cut.about_inputs]
        used = [k for k in used if self.weights[:, k].any()]
        if not used:
            return a, b, error
        a, b, size = a.copy(), b.copy(), (abs(a) + abs(b)).sum(axis=1)
        for k in used:
            cut, weight = self.cuts[k], self.weights[:, k]
            a[:, cut.pixels] -= weight[:, None] * cut.c
            b[:, cut.perturbed] -= weight[:, None] * cut.d
            size = size + weight * (abs(cut.c).sum() + abs(cut.d).sum())
        terms = 2 * a.shape[1]
        error = error + gamma(2 * len(used) + terms + 4) * (size * magnitude)
        return a, b, error + 2 * UNDERFLOW * (len(used) + 1) * (terms * magnitude)

    def exactly_taken_off_inputs(self, a: Exact, b: Exact) -> tuple[Exact, Exact]:
        """As `taken_off_inputs`, for the first case, without rounding."""
        weights = zip(self.cuts, self.weights[0].tolist(), strict=True)
        used = [(cut, Fraction(own)) for cut, own in weights if cut.about_inputs and own]
        if not used:
            return a, b
        left, right = a.fractions(), b.fractions()
        for cut, weight in used:
            for pixel, own in zip(cut.pixels.tolist(), cut.c.tolist(), strict=True):
                left[pixel] -= weight * Fraction(own)
            for pixel, own in zip(cut.perturbed.tolist(), cut.d.tolist(), strict=True):
                right[pixel] -= weight * Fraction(own)
        return Exact.of_fractions(left), Exact.of_fractions(right)
