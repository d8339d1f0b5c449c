"""Arrays of exact numbers: integers over one common denominator.

A float is an integer over a power of two, so everything that a network computes from floats is of
this form. Python's integers have no limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Exact:
    """`numerators / denominator`, entry by entry."""

    numerators: Integers
    denominator: int

    @classmethod
    def of(cls, values: Floats) -> Exact:
        """Convert floats exactly; an OverflowError if one is infinite or NaN, as for fractions."""
        values = np.asarray(values, dtype=np.float64)
        if not np.isfinite(values).all():
            raise OverflowError("an infinite number has no exact value")
        mantissas, exponents = np.frexp(values.reshape(-1))
        whole = (mantissas * 2.0**53).astype(np.int64).tolist()
        shifts = [e - 53 if m else 0 for m, e in zip(whole, exponents.tolist(), strict=True)]
        lowest = min([0, *shifts])
        found = np.empty(len(whole), dtype=object)
        for k, (m, e) in enumerate(zip(whole, shifts, strict=True)):
            found[k] = m << (e - lowest)
        return cls(found.reshape(values.shape), 1 << -lowest)

    @classmethod
    def of_fractions(cls, values: list[Fraction]) -> Exact:
        common = math.lcm(1, *(value.denominator for value in values))
        found = np.empty(len(values), dtype=object)
        for k, value in enumerate(values):
            found[k] = value.numerator * (common // value.denominator)
        return cls(found, common)

    def fractions(self) -> list[Fraction]:
        return [Fraction(int(n), self.denominator) for n in self.numerators.reshape(-1)]

    def __add__(self, other: Exact) -> Exact:
        common = math.lcm(self.denominator, other.denominator)
        left = self.numerators * (common // self.denominator)
        return Exact(left + other.numerators * (common // other.denominator), common)

    def dot(self, other: Exact) -> Fraction:
        """The sum of the products, entry by entry."""
        products = self.numerators.reshape(-1) * other.numerators.reshape(-1)
        return Fraction(int(products.sum()), self.denominator * other.denominator)

    def positive(self, kept: NDArray[np.bool_] | None = None) -> Exact:
        """The larger of each entry and 0; entries of `kept` stay as they are."""
        found = np.maximum(self.numerators, 0)
        if kept is not None:
            found[kept] = self.numerators[kept]
        return Exact(found, self.denominator)

    def part(self, entries: slice) -> Exact:
        """Some of the entries of a vector."""
        return Exact(self.numerators[entries], self.denominator)

    @classmethod
    def summed(cls, size: int, parts: list[tuple[slice, Exact]]) -> Exact:
        """Add vectors, each at its place, to a vector of zeros."""
        common = math.lcm(1, *(part.denominator for _, part in parts))
        found = np.zeros(size, dtype=object)
        for place, part in parts:
            found[place] += part.numerators * (common // part.denominator)
        return cls(found, common)
