"""Rows of the second copy as differences from those of the first, which they mostly repeat.

A perturbation changes some pixels, or all of them by one number. A neuron's row in the second copy
then has the same coefficients as its row in the first, but for a few. The difference of the two
rows says the same and is sparse, and every iteration of the simplex method goes through the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.solver.linear_model import Columns, LinearArrays

Array = NDArray[np.float64]

# A difference replaces a row if it has at most this share of the row's entries.
_SPARSE = 0.5
# Where the largest term of a difference is no more than this share of the row's, it is mostly
# rounding, and scaling would make much of it.
_NOISE = 1e-6


@dataclass(frozen=True, eq=False)
class GapRows:
    """Which rows are replaced: each of `second` by its difference from that of `first`."""

    first: Columns
    second: Columns

    @classmethod
    def of(cls, arrays: LinearArrays) -> GapRows:
        """Those of a model's twin rows whose differences are sparse."""
        first, second = arrays.twins
        row, gap = arrays.matrix[second], arrays.matrix[second] - arrays.matrix[first]
        gap.eliminate_zeros()
        sizes = np.maximum(abs(arrays.column_lower), abs(arrays.column_upper))
        with np.errstate(invalid="ignore", over="ignore"):
            chosen = np.diff(gap.indptr) <= _SPARSE * np.diff(row.indptr)
            chosen &= _largest(gap, sizes) > _NOISE * _largest(row, sizes)
        for rows in arrays.twins:  # inequalities cannot be subtracted
            chosen &= arrays.row_lower[rows] == arrays.row_upper[rows]
        return cls(first[chosen], second[chosen])

    def subtracted(self, arrays: LinearArrays) -> LinearArrays:
        """The same model with the differences."""
        if not len(self.second):
            return arrays
        count = len(arrays.row_lower)
        one = np.ones(len(self.second))
        minus = sparse.csr_array((one, (self.second, self.first)), shape=(count, count))
        matrix = sparse.csr_array(arrays.matrix - minus @ arrays.matrix)
        matrix.eliminate_zeros()
        lower, upper = arrays.row_lower.copy(), arrays.row_upper.copy()
        lower[self.second] -= lower[self.first]
        upper[self.second] = lower[self.second]
        return replace(arrays, matrix=matrix, row_lower=lower, row_upper=upper)

    def restored(self, multipliers: Array) -> Array:
        """Multipliers of the model's own rows, from those of the differences."""
        found = multipliers.copy()
        found[self.first] -= multipliers[self.second]
        return found


def _largest(rows: sparse.csr_array, sizes: Array) -> Array:
    """Each row's largest term."""
    terms, owner = abs(rows.data) * sizes[rows.indices], np.diff(rows.indptr)
    found = np.zeros(rows.shape[0])
    np.maximum.at(found, np.repeat(np.arange(len(found)), owner), terms)
    return found
