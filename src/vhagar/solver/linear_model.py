"""A mixed-integer linear model as plain arrays, independent of any solver.

Perturbations and encodings add columns and rows here; a backend turns the finished model into the
solver's own form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from vhagar.array_types import Array

Columns = NDArray[np.int64]
Block = tuple[Columns, ArrayLike | sparse.sparray]

_NO_ROWS: Columns = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Products:
    """`result - shift = factor * (other - shift)` for two lists of columns and one column.

    Rows contain a relaxation of it as well, for solvers without products.
    """

    result: Columns
    factor: int
    other: Columns
    shift: float


@dataclass(frozen=True, eq=False)
class LinearArrays:
    """`row_lower <= matrix @ columns <= row_upper`, each column within its bounds.

    `products` are additional constraints, for solvers that support them. `twins` are two lists of
    rows, of which those in the second mostly repeat those in the first.
    """

    column_lower: Array
    column_upper: Array
    integer: NDArray[np.bool_]
    matrix: sparse.csr_array
    row_lower: Array
    row_upper: Array
    products: tuple[Products, ...] = ()
    twins: tuple[Columns, Columns] = (_NO_ROWS, _NO_ROWS)


class LinearModel:
    """Collects columns and rows, and returns them as `arrays()`."""

    def __init__(self) -> None:
        # Each list starts with an empty part, because an empty list cannot be concatenated.
        nothing, nowhere = np.zeros(0), np.zeros(0, dtype=np.int64)
        self._lower: list[Array] = [nothing]
        self._upper: list[Array] = [nothing]
        self._integer: list[NDArray[np.bool_]] = [np.zeros(0, dtype=np.bool_)]
        self._row_lower: list[Array] = [nothing]
        self._row_upper: list[Array] = [nothing]
        self._entries: list[tuple[Columns, Columns, Array]] = [(nowhere, nowhere, nothing)]
        self._products: list[Products] = []
        self.column_count = 0
        self.row_count = 0

    def add_columns(self, lower: ArrayLike, upper: ArrayLike, integer: bool = False) -> Columns:
        """New columns, one for each bound; returns their indices."""
        low, high = np.broadcast_arrays(
            np.atleast_1d(np.asarray(lower, dtype=np.float64)), np.asarray(upper, dtype=np.float64)
        )
        self._lower.append(low)
        self._upper.append(high)
        self._integer.append(np.full(low.size, integer))
        first = self.column_count
        self.column_count += low.size
        return np.arange(first, self.column_count)

    def add_rows(self, blocks: Sequence[Block], lower: ArrayLike, upper: ArrayLike) -> Columns:
        """Rows `lower <= sum of block_matrix @ block_columns <= upper`; returns their indices.

        Each block is `(columns, matrix)` with a matrix `(rows, len(columns))`, dense or sparse, or
        a scalar or vector that stands for a diagonal matrix. A column may occur in several blocks:
        its coefficients add up.
        """
        parts = [_as_coo(matrix, len(columns)) for columns, matrix in blocks]
        counts = {part.shape[0] for part in parts}
        if len(counts) != 1:
            raise ValueError(f"blocks side by side need the same number of rows, not {counts}")
        (count,) = counts
        for (columns, _), part in zip(blocks, parts, strict=True):
            self._entries.append((part.row + self.row_count, columns[part.col], part.data))
        self._row_lower.append(np.broadcast_to(np.asarray(lower, dtype=np.float64), (count,)))
        self._row_upper.append(np.broadcast_to(np.asarray(upper, dtype=np.float64), (count,)))
        first = self.row_count
        self.row_count += count
        return np.arange(first, self.row_count)

    def add_products(self, products: Products) -> None:
        """Products that rows only relax."""
        self._products.append(products)

    def arrays(self) -> LinearArrays:
        """Return the finished model. Coefficients that a solver would drop are left to scaling."""
        rows, columns, values = (np.concatenate(part) for part in zip(*self._entries, strict=True))
        shape = (self.row_count, self.column_count)
        matrix = sparse.csr_array(sparse.coo_array((values, (rows, columns)), shape=shape))
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return LinearArrays(
            np.concatenate(self._lower),
            np.concatenate(self._upper),
            np.concatenate(self._integer),
            matrix,
            np.concatenate(self._row_lower),
            np.concatenate(self._row_upper),
            tuple(self._products),
        )


def _as_coo(matrix: ArrayLike | sparse.sparray, width: int) -> sparse.coo_array:
    if isinstance(matrix, sparse.sparray):
        return sparse.coo_array(matrix)
    dense = np.asarray(matrix, dtype=np.float64)
    if dense.ndim == 2:
        return sparse.coo_array(dense)
    diagonal = np.broadcast_to(dense, (width,))
    index = np.arange(width)
    return sparse.coo_array((diagonal, (index, index)), shape=(width, width))
