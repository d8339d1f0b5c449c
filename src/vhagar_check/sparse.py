"""A sparse matrix, with the few operations that supports need."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vhagar_check.layers import Floats

Integers = NDArray[np.int64]

# Most products that are kept in memory at once.
_MOST_PRODUCTS = 2**22


@dataclass(frozen=True, eq=False)
class Sparse:
    """Entries `weight` at `(row, column)`, in order of rows."""

    shape: tuple[int, int]
    row: Integers
    column: Integers
    weight: Floats

    @classmethod
    def of(cls, dense: Floats) -> Sparse:
        row, column = np.nonzero(dense)
        return cls((dense.shape[0], dense.shape[1]), row, column, dense[row, column])

    @classmethod
    def picking(cls, source: Integers) -> Sparse:
        """The matrix that picks column `source[k]` in row k; -1 stands for an empty row."""
        row = np.flatnonzero(source >= 0)
        return cls((len(source), len(source)), row, source[row], np.ones(len(row)))

    @cached_property
    def _by_column(self) -> Integers:
        return np.argsort(self.column, kind="stable")

    def pulled(self, coefficients: Floats) -> Floats:
        """`coefficients @ matrix`, `(cases, rows)` to `(cases, columns)`."""
        found = np.zeros((len(coefficients), self.shape[1]))
        if not len(self.row):
            return found
        order = self._by_column
        row, column, weight = self.row[order], self.column[order], self.weight[order]
        starts = np.flatnonzero(np.diff(column, prepend=-1))
        step = max(1, _MOST_PRODUCTS // len(row))
        for begin in range(0, len(coefficients), step):
            products = coefficients[begin : begin + step, row] * weight
            found[begin : begin + step, column[starts]] = np.add.reduceat(products, starts, axis=1)
        return found

    def times(self, values: Floats) -> Floats:
        """`matrix @ values` for one vector."""
        return _summed(self.row, self.weight * values[self.column], self.shape[0])

    def absolute(self) -> Sparse:
        return Sparse(self.shape, self.row, self.column, abs(self.weight))

    @cached_property
    def counts(self) -> Integers:
        """The number of entries of each row."""
        return np.bincount(self.row, minlength=self.shape[0])

    def extremes(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """The least and the largest `matrix @ v` over `low <= v <= high`."""
        ends = self.weight * low[self.column], self.weight * high[self.column]
        rows = self.shape[0]
        least = _summed(self.row, np.minimum(*ends), rows)
        return least, _summed(self.row, np.maximum(*ends), rows)

    def exact_row(self, row: int) -> dict[int, Fraction]:
        begin, end = np.searchsorted(self.row, [row, row + 1])
        weights = map(Fraction, self.weight[begin:end].tolist())
        return dict(zip(self.column[begin:end].tolist(), weights, strict=True))


def _summed(place: Integers, values: Floats, size: int) -> Floats:
    """The sums of the values at each place."""
    return np.bincount(place, values, size).astype(np.float64)
