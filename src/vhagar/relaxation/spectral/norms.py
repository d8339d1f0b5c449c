"""Proven upper bounds on the spectral norm of a scaled block.

`|B| <= sqrt(g)` follows if `g I - B B'` (or with `B'B`, whichever is smaller) is positive definite.
Rump's shifted Cholesky factorisation proves that, banded where the block is a convolution. An
eigenvalue routine only proposes `g`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from vhagar.array_types import Array
from vhagar.relaxation.interval import HALF_ULP
from vhagar.relaxation.positive_definite import is_positive_definite, is_sparse_positive_definite
from vhagar.relaxation.spectral.expansion import Block, Matrix

# Relative distances above the proposed largest eigenvalue at which the proof is tried, in order.
_SLACKS = (1e-5, 1e-3, 3e-2)
# More than the relative error of a few operations.
_ROUNDING = 2.0**-40
# Gram matrices up to this order have all their eigenvalues computed; above it, only the largest.
_SMALL = 400
# More than underflow takes from products of a block's entries, which nothing large multiplies.
UNDERFLOW = 2.0**-800


def scaled(block: Block, left: Array, right: Array) -> Matrix:
    """`diag(left) block diag(1 / right)`, rounded."""
    matrix = block.matrix
    if not sparse.issparse(matrix):
        return np.asarray(left[:, None] * matrix / right)
    return sparse.csr_array(sparse.diags_array(left) @ matrix @ sparse.diags_array(1 / right))


def length(values: Array) -> float:
    """At least the Euclidean length; divided by the largest value, as squares may underflow."""
    largest = float(values.max(initial=0.0))
    if largest == 0 or not math.isfinite(largest):
        return largest
    return largest * math.sqrt(float(((values / largest) ** 2).sum())) * (1 + _ROUNDING)


@dataclass(frozen=True)
class Norm:
    """A proven upper bound on a norm, and one on the Gram matrix's eigenvalues.

    Both may be infinite, which proves nothing.
    """

    bound: float
    square: float


def norm_bound(block: Block, left: Array, right: Array) -> Norm:
    """A proven upper bound on the norm of `diag(left) block diag(1 / right)`."""
    if 0 in block.matrix.shape:
        return Norm(0.0, 0.0)
    with np.errstate(all="ignore"):
        matrix = scaled(block, left, right)
        size = block.chain.size(left, 1 / right)
        rounding = block.chain.relative_error * math.sqrt(size) + UNDERFLOW
        rounding += length(left * block.chain.lost()) * length(1 / right)
        square = _largest_square(matrix, size)
        bound: float = (math.sqrt(square) + rounding) * (1 + 8 * HALF_ULP)
    return Norm(bound, square) if math.isfinite(bound) else Norm(math.inf, math.inf)


def _largest_square(matrix: Matrix, size: float) -> float:
    """A proven upper bound on the squared norm of a float64 matrix.

    `size` is at least the squared norm of the matrix of absolute values.
    """
    wide = matrix.shape[0] <= matrix.shape[1]
    one, other = (matrix, matrix.T) if wide else (matrix.T, matrix)
    gram = one @ other
    inner = one.shape[1]
    radius = 4 * (inner + 8) * HALF_ULP * size + UNDERFLOW
    if not math.isfinite(radius):
        return math.inf
    if sparse.issparse(gram):
        lower = sparse.tril(gram)
        gram = sparse.csr_array(lower + sparse.tril(gram, -1).T)
    else:
        gram = np.tril(gram) + np.tril(gram, -1).T
    largest = _proposed(gram)
    for slack in _SLACKS:
        square: float = largest * (1 + slack) + 2 * radius
        if _is_below(gram, square, radius):
            return square
    return size


def _proposed(gram: Matrix) -> float:
    """An estimate of the largest eigenvalue; no proof relies on it."""
    order = gram.shape[0]
    if order <= _SMALL:
        whole = gram.toarray() if sparse.issparse(gram) else gram
        return float(np.linalg.eigvalsh(whole)[-1])
    from scipy.sparse.linalg import ArpackError, eigsh  # takes long to import

    start = np.ones(order)
    try:
        return float(eigsh(gram, k=1, tol=1e-6, v0=start, return_eigenvectors=False)[0])
    except ArpackError:
        return math.nan


def _is_below(gram: Matrix, square: float, radius: float) -> bool:
    """Whether `square` is proven to exceed all eigenvalues of all matrices within the radius."""
    if not math.isfinite(square):
        return False
    # The subtraction on the diagonal rounds, too.
    more = radius + 4 * HALF_ULP * square
    if sparse.issparse(gram):
        rest = sparse.csr_array(square * sparse.eye_array(gram.shape[0]) - gram)
        return is_sparse_positive_definite(rest, more)
    negative = -np.asarray(gram)
    np.fill_diagonal(negative, square + negative.diagonal())
    return is_positive_definite(negative, more)
