"""The bound that multipliers of quadratic constraints give, in float64, and its gradient.

For every pair of inputs, with `s_i` short for the difference of pair i's pre-activations,

    w_i (s_i - w_i) >= 0                       a ReLU's slope is between 0 and 1: multiplier T_i
    radius_k^2 - (u_k - middle_k)^2 >= 0       the box of the input's change: multiplier D_k

The lead's change plus these *facts*, each times its multiplier, is a quadratic function. If a
matrix `M` is positive definite, the function is concave, and its maximum bounds the lead's change
(M. Fazlyab et al., "Efficient and Accurate Estimation of Lipschitz Constants for Deep Neural
Networks", 2019, with the facts about the box added). `D` is diagonal, so `u` is eliminated first:
the order of the matrix that is factorised is the number of pairs.

The derivative by a multiplier is the value of its fact at the maximiser.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array
from vhagar.relaxation.quadratic.differences import Differences


@dataclass(frozen=True, eq=False)
class Multipliers:
    """`slopes` is T, one for each free pair; `box` is D, one for each input; all are positive."""

    slopes: Array
    box: Array


@dataclass(frozen=True, eq=False)
class DualEvaluation:
    """The bound of some multipliers, not rounded outward, and its gradient.

    `slope_facts` and `box_facts` are the values of the facts at the maximiser: the gradient.
    `probed_slopes` and `probed_box` estimate the gradient of the matrix's log-determinant.
    """

    value: float
    slope_facts: Array
    box_facts: Array
    probed_slopes: Array
    probed_box: Array


def evaluate(
    known: Differences, multipliers: Multipliers, probes: Array | None = None
) -> DualEvaluation | None:
    """The bound of the multipliers; None where the matrix is not positive definite.

    The columns of `probes` `(pairs, probes)` are random signs. With `M = L L'` and a column p, the
    mean of `y y'` for `y = L'^-1 p` is the inverse of `M`, so that the mean of `y' dM y` is the
    derivative of `log det M`. The probes share the factorisation and cost almost nothing.
    """
    with np.errstate(all="ignore"):  # a value that is not finite is rejected
        return _evaluated(known, multipliers.slopes, multipliers.box, probes)


def _evaluated(
    known: Differences, slopes: Array, box: Array, probes: Array | None
) -> DualEvaluation | None:
    from scipy.linalg import lapack  # takes long to import

    on_inputs, on_pairs = known.on_inputs, known.on_pairs
    shift = known.lead_on_inputs / (2 * box)
    at = known.middle + shift
    right = known.lead_on_pairs + slopes * (on_inputs @ at)
    constant = known.lead_on_inputs @ (known.middle + shift / 2) + box @ known.radius**2
    factor = _factor(known, slopes, box)
    if factor is None:
        return None
    pairs = np.zeros((len(slopes), 1))
    if len(slopes):
        pairs[:, 0] = lapack.dpotrs(factor, right, lower=1)[0] / 2
        if probes is not None:
            pairs = np.column_stack([pairs, lapack.dtrtrs(factor, probes, lower=1, trans=1)[0]])
    value = float(constant + right @ pairs[:, 0] / 2)
    if not np.isfinite(value):
        return None
    rows = on_inputs if known.sparse_on_inputs is None else known.sparse_on_inputs
    moved = (rows.T @ (slopes[:, None] * pairs)) / (2 * box)[:, None]
    moved[:, 0] += shift
    changes = rows @ moved + on_pairs @ pairs
    changes[:, 0] += on_inputs @ known.middle
    slope_facts, squares = pairs * (changes - pairs), moved**2
    return DualEvaluation(
        value,
        slope_facts[:, 0],
        known.radius**2 - squares[:, 0],
        -slope_facts[:, 1:].sum(axis=1) / max(1, pairs.shape[1] - 1),
        squares[:, 1:].sum(axis=1) / max(1, pairs.shape[1] - 1),
    )


def _factor(known: Differences, slopes: Array, box: Array) -> Array | None:
    """The Cholesky factor of M with the inputs eliminated; only its lower triangle counts."""
    if not len(slopes):
        return np.zeros((0, 0))
    from scipy.linalg import lapack

    half = slopes / 2
    matrix = -half[:, None] * known.on_pairs - squares(known, half, box)
    matrix[np.diag_indices(len(slopes))] += slopes
    factor, info = lapack.dpotrf(np.asfortranarray(matrix), lower=1, overwrite_a=1)
    return factor if info == 0 else None


def squares(known: Differences, half: Array, box: Array) -> Array:
    """`H A D^-1 A' H` with the pairs' rows on the inputs; only its lower triangle counts.

    An entry is a sum of one product for each input of two factors of two products each.
    """
    rows, scale = known.sparse_on_inputs, 1 / np.sqrt(box)
    if rows is not None:
        # The longest step on large images: units see a few pixels each.
        scaled = rows.copy()
        scaled.data *= np.repeat(half, np.diff(rows.indptr))
        scaled.data *= scale[rows.indices]
        return np.asarray((scaled @ scaled.T).toarray())
    dense = known.on_inputs * half[:, None]
    dense *= scale
    if not dense.size:
        return np.zeros((len(half), len(half)))
    from scipy.linalg import blas  # takes long to import

    # The transpose is in Fortran order, which BLAS takes without a copy.
    return np.asarray(blas.dsyrk(1.0, dense.T, trans=1, lower=1))
