"""Proofs that a symmetric matrix is positive definite, by a shifted Cholesky factorisation.

S. M. Rump, "Verification of positive definiteness", BIT Numerical Mathematics 46 (2006): a
Cholesky factorisation in float64 that runs to completion is the exact factorisation of a matrix
nearby, `R'R = S + E` with `|E_ij| <= gamma |r_i| |r_j|` and `|r_i|^2 = s_ii + E_ii`, so the norm of
`E` is at most `gamma / (1 - gamma) * trace(S)` and a term for underflow. Subtract at least that
from the diagonal before factorising: if LAPACK then succeeds, the matrix itself is positive
definite. The converse does not hold: a matrix that is barely positive definite is not proved.

The matrix is first scaled by powers of two so that its diagonal is near 1. That is exact, and the
shift is then small relative to every diagonal entry, however different they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_HALF_ULP = 2.0**-53
# Operations on one entry of the factor: its row of products, the division (perhaps as a product
# with a reciprocal, which rounds twice), the root, and one for good measure.
_EXTRA_OPERATIONS = 4
# More than any absolute error by underflow, even where a library flushes subnormal numbers to 0.
_UNDERFLOW = 2.0**-1000


def is_positive_definite(matrix: Array, radius: float | Array = 0.0) -> bool:
    """Whether every symmetric matrix within the radius is proved to be positive definite.

    `matrix` is `(n, n)`, exactly symmetric. A number as `radius` bounds the spectral norm of the
    deviation from it, an array `(n, n)` bounds the deviation entry by entry. False means "not
    proved": because of an eigenvalue below 0 or too near to it, or because of numbers beyond
    float64.
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


def _shifted(matrix: Array, deviation: Array) -> Array | None:
    """The scaled matrix minus all that rounding and the deviation can amount to."""
    size = len(matrix)
    norm = deviation if deviation.ndim == 0 else np.float64(0.0)
    diagonal = _down(matrix.diagonal() - norm)
    if not (diagonal > 0).all():
        return None
    exponent = np.frexp(diagonal)[1] // 2
    powers = -(exponent[:, None] + exponent[None, :])
    scaled: Array = np.ldexp(matrix, powers)
    # Between 1/2 and 2, each.
    diagonal = np.ldexp(diagonal, -2 * exponent)
    operations = (size + _EXTRA_OPERATIONS) * _HALF_ULP
    # A sum of n positive numbers errs by less than `operations` relatively, each way.
    trace = diagonal.sum() * (1 + 2 * operations)
    shift = operations / (1 - 4 * operations) * trace + size * (size + 8) * _UNDERFLOW
    removed = np.full(size, shift * (1 + 8 * _HALF_ULP))
    if deviation.ndim:
        removed = removed + _row_sums(np.ldexp(np.maximum(deviation, deviation.T), powers))
    np.fill_diagonal(scaled, _down(diagonal - removed * (1 + 4 * _HALF_ULP)))
    return scaled if np.isfinite(scaled).all() else None


def _row_sums(radius: Array) -> Array:
    """`y'Ey <= sum_i y_i^2 * row_sums_i` for every symmetric `E` with `|E_ij| <= radius_ij`."""
    size = len(radius)
    sums: Array = radius.sum(axis=1) * (1 + 2 * (size + 2) * _HALF_ULP) + size * _UNDERFLOW
    return sums


def _factorises(matrix: Array) -> bool:
    """Whether LAPACK's Cholesky factorisation runs to completion, with finite numbers."""
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    # Some libraries let NaN pass.
    return bool(np.isfinite(factor).all() and (factor.diagonal() > 0).all())


def _down(values: Array) -> Array:
    lower: Array = np.nextafter(values, -np.inf)
    return lower
