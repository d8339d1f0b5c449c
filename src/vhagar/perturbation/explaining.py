"""Which parameters of an affine map explain a pair of inputs."""

from __future__ import annotations

import numpy as np

from vhagar.perturbation.domain import Array
from vhagar.perturbation.maps import AffineMap

# Parameters that move the same pixels are found by least squares, up to this part of what they do.
_LEAST_SQUARES = 1e-9


def explain(affine: AffineMap, rest: Array, room: Array) -> tuple[Array, bool]:
    """Parameters in their box with `directions @ e = rest`, as well as any do, and if they do.

    `rest` `(size,)` may be off by `room` `(size,)`.
    """
    moved = np.diff(affine.directions.indptr)
    still = bool((abs(rest) <= room)[moved == 0].all())
    if (moved <= 1).all():
        found, explained = _one_by_one(affine, rest, room)
    else:
        found, explained = _together(affine, rest, room)
    return found, still and explained


def _one_by_one(affine: AffineMap, rest: Array, room: Array) -> tuple[Array, bool]:
    """No pixel is moved by two parameters: each pixel leaves an interval of its parameter."""
    directions = affine.directions
    rows = np.flatnonzero(np.diff(directions.indptr))
    which, weight = directions.indices, directions.data
    ends = (rest[rows] - room[rows]) / weight, (rest[rows] + room[rows]) / weight
    low, high = affine.lower.copy(), affine.upper.copy()
    # One step outward, as the quotients are rounded.
    np.maximum.at(low, which, np.nextafter(np.minimum(*ends), -np.inf))
    np.minimum.at(high, which, np.nextafter(np.maximum(*ends), np.inf))
    middle = low + (high - low) / 2
    return np.clip(middle, affine.lower, affine.upper), bool((low <= high).all())


def _together(affine: AffineMap, rest: Array, room: Array) -> tuple[Array, bool]:
    """Least squares over the box."""
    from scipy.optimize import lsq_linear

    free = np.flatnonzero(affine.lower < affine.upper)
    found = affine.lower.copy()
    left = rest - affine.directions @ found
    if free.size:
        spread = (affine.upper - affine.lower)[free]
        matrix = affine.directions[:, free].toarray() * spread
        used = matrix.any(axis=1)
        answer = lsq_linear(matrix[used], left[used], (0.0, 1.0), method="bvls", tol=1e-14)
        found[free] = np.clip(
            affine.lower[free] + spread * answer.x, affine.lower[free], affine.upper[free]
        )
    size = abs(affine.directions) @ np.maximum(abs(affine.lower), abs(affine.upper))
    close = abs(rest - affine.directions @ found) <= room + _LEAST_SQUARES * size
    return found, bool(close.all())
