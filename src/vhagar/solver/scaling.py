"""Scaling by powers of two, which changes nothing but the units.

Every bounded column then lies in [-1, 1] and every row's largest coefficient is near 1, whatever
the weights of the network: a solver's absolute tolerances mean the same for every model.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from vhagar.array_types import Array
from vhagar.solver.linear_model import LinearArrays

# Solvers drop coefficients up to about 1e-9 with no more than a warning; SCIP takes them for 0.
SMALLEST_COEFFICIENT = 2e-9
_NEARLY_ZERO = 2.0**-1000


class Scaled:
    """A scaled model: `column = column_scale * scaled column`, rows multiplied by `row_scale`.

    Coefficients too small for a solver are dropped, and the rows are widened by what they can
    contribute: `reach`.
    """

    def __init__(self, arrays: LinearArrays) -> None:
        with np.errstate(all="ignore"):  # what is beyond float64 is the solver's to refuse
            self._scale(arrays)

    def _scale(self, arrays: LinearArrays) -> None:
        largest = np.maximum(abs(arrays.column_lower), abs(arrays.column_upper))
        self.column_scale = powers_of_two(largest)
        self.column_scale[arrays.integer] = 1.0
        matrix = arrays.matrix.copy()
        lengths = np.diff(matrix.indptr)
        # A column fixed at 0 contributes nothing, and must not determine the scale of a row.
        relevant = np.where(largest > 0, self.column_scale, 0.0)
        matrix.data = matrix.data * relevant[matrix.indices]
        peaks = np.zeros(matrix.shape[0])
        np.maximum.at(peaks, np.repeat(np.arange(len(peaks)), lengths), abs(matrix.data))
        self.row_scale = 1.0 / powers_of_two(peaks)
        matrix.data = matrix.data * np.repeat(self.row_scale, lengths)
        tiny = abs(matrix)
        tiny.data = np.where(tiny.data < SMALLEST_COEFFICIENT, tiny.data, 0.0)
        tiny.eliminate_zeros()  # a zero times an infinite bound would not be zero
        self.reach: Array = 2.0 * (tiny @ np.where(np.isfinite(largest), 1.0, np.inf))
        matrix.data[abs(matrix.data) < SMALLEST_COEFFICIENT] = 0.0
        matrix.eliminate_zeros()
        self.matrix = matrix
        self.column_lower = arrays.column_lower / self.column_scale
        self.column_upper = arrays.column_upper / self.column_scale
        self.row_lower = arrays.row_lower * self.row_scale - self.reach
        self.row_upper = arrays.row_upper * self.row_scale + self.reach

    def rows(self, matrix: sparse.csr_array, upper: Array) -> Scaled:
        """Scale rows `matrix @ columns <= upper` on the unscaled model's columns."""
        columns = self.column_lower * self.column_scale, self.column_upper * self.column_scale
        nothing = np.zeros(len(self.column_scale), dtype=bool)
        return Scaled(LinearArrays(*columns, nothing, matrix, np.full(len(upper), -np.inf), upper))

    def append(self, rows: Scaled) -> None:
        """Append rows on the same columns."""
        self.matrix = sparse.csr_array(sparse.vstack([self.matrix, rows.matrix]))
        for name in ("row_scale", "row_lower", "row_upper", "reach"):
            setattr(self, name, np.concatenate([getattr(self, name), getattr(rows, name)]))


def powers_of_two(values: Array) -> Array:
    """The smallest power of two that is at least each value; 1 for zeros and what is nearly 0.

    The inverse of the power of a subnormal number would be infinite.
    """
    safe = np.where((values > _NEARLY_ZERO) & np.isfinite(values), values, 1.0)
    mantissa, exponent = np.frexp(safe)
    exponent = np.where(mantissa == 0.5, exponent - 1, exponent)
    return np.ldexp(1.0, exponent)
