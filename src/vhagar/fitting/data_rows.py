"""Fits linear rows to data: for how likely inputs are, and for coordinates along components.

If every entry were at one end of its range or at the other, independently of all others, the
logarithm of an input's likelihood would be linear in the input: an entry at the upper end adds
`log(p / (1 - p))`, where `p` is the entry's mean as a share of the range. So one row,
`weights.x <= end`, limits how much in an input is unusual, wherever it is. Ranges limit each entry
alone, so that all of them together may be unusual.
"""

from __future__ import annotations

import math

import numpy as np

from vhagar.array_types import Array, Mask
from vhagar.perturbation import Domain, LinearRows, linear_rows

# Probability of an end of the range at which no input of the data is.
_RAREST = 0.01
# Coefficients are multiples of this, so that they are short numbers.
_UNIT = 2.0**-12


def unlikely_weights(known: Array, domain: Domain) -> Array:
    """Compute coefficients `(size,)`: the larger `weights.x` is, the less likely is the input."""
    share = np.clip((known.mean(axis=0) - domain.lower) / domain.width, 0.0, 1.0)
    p = _RAREST + (1 - 2 * _RAREST) * share
    return _short(np.log((1 - p) / p) / domain.width)


def component_weights(known: Array, count: int) -> Array:
    """Compute coefficients `(count, size)` of the coordinates along principal components."""
    return _short(np.linalg.svd(known - known.mean(axis=0), full_matrices=False)[2][:count])


def _short(weights: Array) -> Array:
    """Round to multiples of `_UNIT`."""
    found: Array = np.rint(weights / _UNIT) * _UNIT
    return found


def likely_row(weights: Array, versions: list[Array], inside: Mask, cover: float) -> LinearRows:
    """Make the row with the least end such that the share `cover` of the inputs is covered.

    `versions` are the inputs as they are and rounded. Only inputs that are `inside` otherwise can
    be covered; their share must be at least `cover`.
    """
    values = np.max([each @ weights for each in versions], axis=0)
    last = math.ceil(cover * len(inside)) - 1
    end = float(np.sort(values[inside])[last])
    return linear_rows(weights, len(weights), at_most=end + _room(weights, versions))


def component_rows(weights: Array, versions: list[Array], covered: Mask) -> LinearRows:
    """Make rows with the least ranges of coordinates that contain the covered inputs."""
    values = np.concatenate([each[covered] @ weights.T for each in versions])
    room = _room(weights, versions)
    ends = values.min(axis=0) - room, values.max(axis=0) + room
    return linear_rows(weights, weights.shape[1], *ends)


def _room(weights: Array, versions: list[Array]) -> Array:
    """Bound the rounding errors of the rows' values."""
    largest = max(float(abs(each).max()) for each in versions)
    found: Array = 2.0**-40 * abs(weights).sum(axis=-1) * largest
    return found
