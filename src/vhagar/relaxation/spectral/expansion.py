"""The difference of the copies, expanded over the layers in which slopes differ from their middle.

Write each slope as `middle + half * e` with `e` in [-1, 1]; `half` is 1/2 for the free slopes and 0
for the others. Multiplied out (P. L. Combettes and J.-C. Pesquet, "Lipschitz certificates for
layered network structures driven by averaged activation operators", SIAM J. Math. Data Sci. 2020),
the difference of the scores is a sum over sets of layers: the layers in the set contribute the
diagonal matrix of the `e`, all others that of the middles. Between two consecutive layers of a set
there is a fixed matrix, a *block*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.array_types import Array
from vhagar.network import Network
from vhagar.relaxation.interval import HALF_ULP
from vhagar.relaxation.spectral.slopes import InputChange, LayerSlopes
from vhagar.relaxation.stages import stages_of

# Sparse or dense.
Matrix = Any
# From a layer to a later one; layer 0 is the input, and ReLU layers count from 1.
Pair = tuple[int, int]

# A block with more entries than this takes more memory and time than the bound is worth.
_MOST_ENTRIES = 40_000_000
# More than underflow takes from a product: some processors flush all subnormal numbers to 0.
_FLUSHED = 2.0**-1022
# Matrices with more than this share of entries are kept dense.
_DENSE = 0.2


@dataclass(frozen=True, eq=False)
class Chain:
    """A product of matrices that is not multiplied out; the factor applied first comes first."""

    factors: tuple[Matrix, ...]

    @property
    def relative_error(self) -> float:
        """The error of the product in float64, relative to the product of absolute values.

        It holds for any order of multiplication, and covers a few more operations at both ends.
        """
        operations = sum(_longest_sum(factor) + 2 for factor in self.factors) + 16
        return 2 * operations * HALF_ULP

    def pull(self, row: Array) -> Array:
        """`row' product`, rounded."""
        for factor in reversed(self.factors):
            row = factor.T @ row
        return row

    def absolute(self) -> Chain:
        """The product of the absolute values."""
        return Chain(tuple(abs(factor) for factor in self.factors))

    def lost(self, backwards: bool = False) -> Array:
        """Bounds on what underflow takes from each entry of the product with a column, or a row.

        A product that underflows may be multiplied by huge numbers afterwards.
        """
        factors = self.factors
        if backwards:
            factors = tuple(factor.T for factor in reversed(factors))
        lost = np.zeros(factors[0].shape[1])
        for factor in factors:
            lost = 1.01 * (abs(factor) @ lost) + _FLUSHED * (_longest_sum(factor) + 1)
        return np.asarray(lost)

    def size(self, left: Array, right: Array) -> float:
        """An upper bound on the squared norm of `diag(left) |product| diag(right)`.

        The squared norm of a matrix is at most its largest row sum times its largest column sum.
        """
        absolute = self.absolute()
        rows = right
        for factor in absolute.factors:
            rows = factor @ rows
        rows, columns = rows + self.lost(), absolute.pull(left) + self.lost(backwards=True)
        one, other = (float(part.max(initial=0.0)) for part in (left * rows, right * columns))
        return (one + _FLUSHED) * (other + _FLUSHED) * (1 + 1e-6)


@dataclass(frozen=True, eq=False)
class Block:
    """The matrix between two layers, computed in float64, and the exact product that it rounds.

    Its rows are the free units of the later layer, halved; its columns are the free units of the
    earlier one, or the coordinates of the input's change.
    """

    matrix: Matrix
    chain: Chain


@dataclass(frozen=True, eq=False)
class Expansion:
    """The blocks between any two layers.

    `to_scores` maps each ReLU layer's free units to the scores; its first entry maps `x - x_p`.
    `coordinates` is the number p of coordinates of the input's change: `x - x_p = K y` with `y` in
    [-1, 1]^p.
    """

    layers: int
    coordinates: int
    blocks: dict[Pair, Block]
    to_scores: tuple[Chain, ...]
    free: tuple[NDArray[np.int64], ...]

    def scaled_sizes(self) -> list[int]:
        """The number of scalings of each ReLU layer."""
        return [len(units) for units in self.free]


def expand(
    network: Network, change: InputChange, slopes: Sequence[LayerSlopes]
) -> Expansion | None:
    """Multiply the blocks out; None if one is too large."""
    stages = [[_matrix(layer.matrix) for layer in stage.layers] for stage in stages_of(network)]
    free = tuple(np.flatnonzero(layer.free) for layer in slopes)
    layers, start = len(slopes), _coordinates(change)
    blocks: dict[Pair, Block] = {}
    to_scores: list[Chain] = []
    for i in range(layers + 1):
        product: Matrix = start if i == 0 else sparse.csr_array(_picking(slopes[i - 1]).T)
        factors = [product]
        for j in range(i, layers + 1):
            for factor in stages[j]:
                if j < layers:
                    if _entries(factor, product) > _MOST_ENTRIES:
                        return None
                    product = _matrix(factor @ product)
                factors.append(factor)
            if j < layers:
                # A product with 0.5 is exact.
                picking = _picking(slopes[j]) * 0.5
                blocks[i, j + 1] = Block(_matrix(picking @ product), Chain((*factors, picking)))
                middle = sparse.csr_array(sparse.diags_array(slopes[j].middle))
                product = _matrix(middle @ product)
                factors.append(middle)
        to_scores.append(Chain(tuple(factors[1:] if i == 0 else factors)))
    return Expansion(layers, start.shape[1], blocks, tuple(to_scores), free)


def _coordinates(change: InputChange) -> sparse.csr_array:
    """A column with the radius of each pixel that changes, and one of all middles unless 0."""
    radius, middle = change.radius, change.middle
    own = sparse.csr_array(sparse.diags_array(radius))[:, change.pixels]
    if not middle.any():
        return sparse.csr_array(own)
    return sparse.csr_array(sparse.hstack([own, sparse.csr_array(middle[:, None])]))


def _picking(slopes: LayerSlopes) -> sparse.csr_array:
    """The matrix that selects the free units of a layer."""
    every = sparse.csr_array(sparse.eye_array(len(slopes.free)))
    return sparse.csr_array(every[np.flatnonzero(slopes.free)])


def _matrix(matrix: Matrix) -> Matrix:
    """The matrix in sparse or dense form, depending on its share of nonzero entries."""
    if not sparse.issparse(matrix):
        return np.asarray(matrix)
    rows, columns = matrix.shape
    if matrix.nnz > _DENSE * rows * columns:
        return np.asarray(matrix.toarray())
    return sparse.csr_array(matrix)


def _entries(left: Matrix, right: Matrix) -> int:
    """An upper bound on the number of nonzero entries of a product."""
    whole = left.shape[0] * right.shape[1]
    if not (sparse.issparse(left) and sparse.issparse(right)):
        return int(whole)
    per_row = np.diff(right.indptr)
    return int(min(whole, per_row[left.indices].sum()))


def _longest_sum(matrix: Matrix) -> int:
    """The most terms that any entry of a product with the matrix, or its transpose, sums up."""
    if not sparse.issparse(matrix):
        return int(max(matrix.shape))
    whole = sparse.csr_array(matrix)
    per_column = np.bincount(whole.indices, minlength=1)
    return int(max(np.diff(whole.indptr).max(initial=0), per_column.max(initial=0)))
