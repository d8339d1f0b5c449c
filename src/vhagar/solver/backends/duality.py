"""The bound on a linear program that any row duals prove, whoever proposes them."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from vhagar.array_types import Array


def weak_duality(
    matrix: sparse.csr_array,
    cost: Array,
    columns: tuple[Array, Array],
    rows: tuple[Array, Array],
    duals: Array,
) -> float:
    """An upper bound on `cost . x` over columns and rows within their bounds.

    `c.x = y.(A x) + (c - A'y).x`, and each term is at most its larger end.
    """
    (left, right), (low, high) = columns, rows
    if duals.shape != low.shape or not np.isfinite(duals).all():
        return math.inf
    # A dual that leans on a side that is not there proves nothing: 0 always does.
    y = np.where((duals > 0) & np.isfinite(high) | (duals < 0) & np.isfinite(low), duals, 0.0)
    rest = cost - matrix.T @ y
    sides = np.where(y == 0, 0.0, np.where(y > 0, high, low))
    bound = y @ sides + rest @ np.where(rest > 0, right, left)
    # Large duals round by more than the tolerances: each sum errs by at most half an ulp of its
    # absolute terms for each of them.
    reach = np.maximum(abs(left), abs(right))
    size = abs(y) @ abs(sides) + (abs(cost) + abs(matrix).T @ abs(y)) @ reach
    return float(bound + 2.0**-52 * (len(y) + 2 * len(cost) + 8) * size)
