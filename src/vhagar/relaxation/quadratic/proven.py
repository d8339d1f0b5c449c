"""Prove the bound of multipliers: enclose every number, and factorise to show definiteness.

The float64 multipliers count as exact numbers. With `u` eliminated, the bound is at most `beta` if

    [[4 (beta - constant), r'], [r, S]]

is positive definite (`docs/certificate.md`, "The quadratic bound"). Its entries are computed in
float64, and their distance from the exact ones is bounded by the same sums with absolute values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vhagar.array_types import Array
from vhagar.relaxation.interval import HALF_ULP
from vhagar.relaxation.positive_definite import is_positive_definite
from vhagar.relaxation.quadratic.differences import Differences
from vhagar.relaxation.quadratic.dual import Multipliers, evaluate, squares

# Far more than products lose to underflow; and the multipliers' range, far from overflow.
_UNDERFLOW, _SMALLEST, _LARGEST = 1e-250, 1e-60, 1e60
# Relative distances above a bound's float64 value at which a proof is tried.
_ROOM = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2)


def proven_bound(
    known: Differences, multipliers: Multipliers, room: Sequence[float] = _ROOM
) -> float | None:
    """A proven upper bound on the lead's change; None where there is no proof."""
    found = evaluate(known, multipliers) if _is_usable(multipliers) else None
    if found is None:
        return None
    with np.errstate(all="ignore"):
        matrix, radius, constant, error = _enclosed(known, multipliers)
        size = abs(found.value) + abs(constant) + error
        for share in room:
            beta = found.value + share * size
            corner = 4 * (beta - constant)
            matrix[0, 0] = corner
            radius[0, 0] = 8 * error + 8 * HALF_ULP * (abs(beta) + abs(constant)) + _UNDERFLOW
            if math.isfinite(beta) and is_positive_definite(matrix, radius):
                return beta
    return None


def _is_usable(multipliers: Multipliers) -> bool:
    numbers = np.concatenate([multipliers.slopes, multipliers.box])
    return bool(((numbers > _SMALLEST) & (numbers < _LARGEST)).all())  # false for NaN, too


def _enclosed(known: Differences, multipliers: Multipliers) -> tuple[Array, Array, float, float]:
    """The matrix except its first entry, the radius of each entry, the constant and its error."""
    slopes, box = multipliers.slopes, multipliers.box
    pairs, inputs = len(slopes), len(box)
    lead, on_inputs, on_pairs = known.lead_on_inputs, known.on_inputs, known.on_pairs
    lead_size, input_sizes, pair_sizes = known.sizes[-1, :inputs], *_parts(known)
    # The errors of the rows and of the sums over inputs, doubled: most terms multiply two of them.
    relative = 4 * (known.error + (inputs + 16) * HALF_ULP)

    constant = float(lead @ known.middle + (lead**2 / (4 * box)).sum() + box @ known.radius**2)
    spread = lead_size @ abs(known.middle) + (lead_size**2 / (4 * box)).sum()
    error = relative * float(spread + box @ known.radius**2) + _UNDERFLOW

    shift = lead / (2 * box) + known.middle
    right = known.lead_on_pairs + slopes * (on_inputs @ shift)
    shift_size = lead_size / (2 * box) + abs(known.middle)
    right_error = relative * (known.sizes[-1, inputs:] + slopes * (input_sizes @ shift_size))

    half = slopes / 2
    coupling = half[:, None] * on_pairs
    lower = np.tril(-squares(known, half, box) - coupling - coupling.T)
    lower[np.diag_indices(pairs)] += slopes
    # By Cauchy-Schwarz, sums over the inputs of products of absolute values are at most this.
    norms = half * np.sqrt(input_sizes**2 @ (1 / box))
    coupling_size = half[:, None] * pair_sizes
    lower_error = np.outer(norms, norms) + coupling_size + coupling_size.T
    lower_error[np.diag_indices(pairs)] += slopes

    matrix, radius = np.zeros((2, pairs + 1, pairs + 1))
    matrix[1:, 1:] = lower + np.tril(lower, -1).T
    matrix[0, 1:] = matrix[1:, 0] = right
    radius[1:, 1:] = relative * (1 + 1e-6) * lower_error + _UNDERFLOW
    radius[0, 1:] = radius[1:, 0] = right_error * (1 + 1e-6) + _UNDERFLOW
    return matrix, radius, constant, error


def _parts(known: Differences) -> tuple[Array, Array]:
    """The pairs' rows of `sizes`: on inputs, and on pairs."""
    inputs = len(known.inputs)
    return known.sizes[:-1, :inputs], known.sizes[:-1, inputs:]
