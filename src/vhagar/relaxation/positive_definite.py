"""Proofs that a symmetric matrix is positive definite, by a shifted Cholesky factorisation.

S. M. Rump, "Verification of positive definiteness", BIT Numerical Mathematics 46 (2006): a
Cholesky factorisation in float64 that runs to completion is the exact factorisation of a matrix
nearby, `R'R = S + E` with `|E_ij| <= gamma |r_i| |r_j|` and `|r_i|^2 = s_ii + E_ii`, so the norm of
`E` is at most `gamma / (1 - gamma) * trace(S)` and a term for underflow. Subtract at least that
from the diagonal before factorising: if LAPACK then succeeds, the matrix itself is positive
definite. The converse does not hold: the proof fails for a matrix that is barely positive definite.

The matrix is first scaled by powers of two so that its diagonal is near 1. That is exact, and the
shift is then small relative to every diagonal entry, however different they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.array_types import Array
from vhagar.relaxation.interval import HALF_ULP

# Operations on one entry of the factor besides its row of products: the division (perhaps as a
# product with a reciprocal, which rounds twice), the root, and one in reserve.
_EXTRA_OPERATIONS = 4
# More than any absolute error by underflow, even where a library flushes subnormal numbers to 0.
_UNDERFLOW = 2.0**-1000
# A banded factorisation is used if the band is at most the matrix's order divided by this.
_NARROW = 3


def is_positive_definite(matrix: Array, radius: float | Array = 0.0) -> bool:
    """Whether every symmetric matrix within the radius is proven to be positive definite.

    `matrix` is `(n, n)`, exactly symmetric. If `radius` is a number, it bounds the spectral norm of
    the deviation from `matrix`; if it is an array `(n, n)`, it bounds the deviation entry by entry.
    False means "not proven": an eigenvalue is below 0 or too close to it, or numbers overflow.
    """
    size = len(matrix)
    if matrix.shape != (size, size):
        raise ValueError(f"a square matrix is needed, not one of shape {matrix.shape}")
    deviation = np.asarray(radius, dtype=np.float64)
    if not (np.isfinite(matrix).all() and np.isfinite(deviation).all() and (deviation >= 0).all()):
        return False
    if not np.array_equal(matrix, matrix.T):
        raise ValueError("a symmetric matrix is needed; take the same float64 for both halves")
    if size == 0:
        return True
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        shifted = _shifted(np.asarray(matrix, dtype=np.float64), deviation)
        return shifted is not None and _factorises(shifted)


def is_sparse_positive_definite(matrix: sparse.csr_array, radius: float = 0.0) -> bool:
    """As `is_positive_definite`, by a banded factorisation where the matrix allows a narrow band.

    `radius` bounds the spectral norm of the deviation.
    """
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    whole = sparse.csr_array(matrix, dtype=np.float64)
    size = whole.shape[0]
    order = reverse_cuthill_mckee(whole, symmetric_mode=True)
    place = np.empty(size, dtype=np.int64)
    place[order] = np.arange(size)
    entries = sparse.coo_array(whole)
    rows, columns = place[entries.coords[0]], place[entries.coords[1]]
    width = int(abs(rows - columns).max(initial=0)) + 1
    if width * _NARROW > size:
        return is_positive_definite(whole.toarray(), radius)
    if not (np.isfinite(entries.data).all() and np.isfinite(radius) and radius >= 0):
        return False
    if (whole != whole.T).nnz:
        raise ValueError("a symmetric matrix is needed; take the same float64 for both halves")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        found = _scaled_diagonal(whole.diagonal()[order], radius)
        if found is None:
            return False
        diagonal, exponent = found
        band = np.zeros((width, size))
        below = rows >= columns
        rows, columns = rows[below], columns[below]
        powers = -(exponent[rows] + exponent[columns])
        band[rows - columns, columns] = np.ldexp(entries.data[below], powers)
        band[0] = _down(diagonal - _shift(diagonal))
        return bool(np.isfinite(band).all()) and _band_factorises(band)


def _shifted(matrix: Array, deviation: Array) -> Array | None:
    """The scaled matrix minus bounds on the effects of rounding and of the deviation."""
    norm = float(deviation) if deviation.ndim == 0 else 0.0
    found = _scaled_diagonal(matrix.diagonal(), norm)
    if found is None:
        return None
    diagonal, exponent = found
    powers = -(exponent[:, None] + exponent[None, :])
    scaled: Array = np.ldexp(matrix, powers)
    removed = np.full(len(matrix), _shift(diagonal))
    if deviation.ndim:
        removed = removed + _row_sums(np.ldexp(np.maximum(deviation, deviation.T), powers))
    np.fill_diagonal(scaled, _down(diagonal - removed * (1 + 4 * HALF_ULP)))
    return scaled if np.isfinite(scaled).all() else None


def _scaled_diagonal(diagonal: Array, norm: float) -> tuple[Array, NDArray[np.int32]] | None:
    """The diagonal minus a norm, scaled to between 1/2 and 2, and the exponents of the scaling."""
    lower = _down(diagonal - norm)
    if not (lower > 0).all():
        return None
    exponent = np.frexp(lower)[1] // 2
    return np.ldexp(lower, -2 * exponent), exponent


def _shift(diagonal: Array) -> float:
    """An upper bound on the norm of a factorisation's rounding errors."""
    size = len(diagonal)
    operations = (size + _EXTRA_OPERATIONS) * HALF_ULP
    # The relative error of a sum of n positive numbers is less than `operations`.
    trace = float(diagonal.sum()) * (1 + 2 * operations)
    shift = operations / (1 - 4 * operations) * trace + size * (size + 8) * _UNDERFLOW
    return shift * (1 + 8 * HALF_ULP)


def _row_sums(radius: Array) -> Array:
    """`y'Ey <= sum_i y_i^2 * row_sums_i` for every symmetric `E` with `|E_ij| <= radius_ij`."""
    size = len(radius)
    sums: Array = radius.sum(axis=1) * (1 + 2 * (size + 2) * HALF_ULP) + size * _UNDERFLOW
    return sums


def _factorises(matrix: Array) -> bool:
    """Whether LAPACK's Cholesky factorisation runs to completion, with finite numbers."""
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    # Some libraries do not report NaN.
    return bool(np.isfinite(factor).all() and (factor.diagonal() > 0).all())


def _band_factorises(band: Array) -> bool:
    """As `_factorises`, for the lower diagonals `(width, size)` of a band."""
    from scipy.linalg import cholesky_banded  # takes long to import

    try:
        factor = cholesky_banded(band, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return False
    return bool(np.isfinite(factor).all() and (factor[0] > 0).all())


def _down(values: Array) -> Array:
    lower: Array = np.nextafter(values, -np.inf)
    return lower
