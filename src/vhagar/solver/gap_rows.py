"""Replaces rows of the second copy by their differences from the first copy's, where sparse.

A perturbation changes some pixels, or all of them by one number. A neuron's row in the second copy
then has the same coefficients as its row in the first, but for a few. Their difference, beside the
first row, says the same and is sparse, and every iteration of the simplex method reads all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from vhagar.array_types import Array
from vhagar.solver.linear_model import Columns, LinearArrays

# A difference replaces a row if it has at most this share of the row's entries.
_SPARSE = 0.5
# Where the largest term of a difference is no more than this share of the row's, it is mostly
# rounding error, which scaling would magnify.
_NOISE = 1e-6


@dataclass(frozen=True, eq=False)
class GapRows:
    """The rows that are replaced: each of `second` by its difference from its twin in `first`."""

    first: Columns
    second: Columns

    @classmethod
    def of(cls, arrays: LinearArrays) -> GapRows:
        """Choose those of a model's twin rows whose differences are sparse."""
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
        """Return an equivalent model, with the differences in place of the second rows."""
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
        """Translate multipliers of the differences into those of the model's own rows."""
        found = multipliers.copy()
        found[self.first] -= multipliers[self.second]
        return found


def _largest(rows: sparse.csr_array, sizes: Array) -> Array:
    """Bound each row's largest term; columns are at most `sizes` in absolute value."""
    terms, owner = abs(rows.data) * sizes[rows.indices], np.diff(rows.indptr)
    found = np.zeros(rows.shape[0])
    np.maximum.at(found, np.repeat(np.arange(len(found)), owner), terms)
    return found
