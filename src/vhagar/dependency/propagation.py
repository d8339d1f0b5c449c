"""Dependency propagation: the paper's lemma, for equal and for shifted indices.

A pair of neurons, `k` in the first copy and `k'` in the second, differs by

    sum of w (y_p[i'] - y[i])  +  sum of (w' - w) y_p[i']  -  sum of u y[i]  +  (b' - b)

where `(i, i')` are the related inputs, `w` and `w'` their weights into `k` and `k'`, and `u` the
weights into `k` from inputs without a partner. Each term's sign follows from a relation below, the
sign of a value, and a comparison of two numbers. Nothing is summed, so nothing is rounded: the
only subtraction, `w' - w`, has the right sign in float64.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from vhagar.array_types import Mask
from vhagar.dependency.relation import Relations, Rule
from vhagar.network import AbstractLinear, Relu
from vhagar.relaxation import Bounds


def through_linear(
    layer: AbstractLinear, below: Relations, pairs: Relations, first: Bounds, second: Bounds
) -> Relations:
    """Derive relations of a linear layer's outputs from those of its inputs.

    `first` and `second` bound the inputs. No index occurs twice on one side of `below`.
    """
    weight, weight_p = layer.matrix[pairs.first], layer.matrix[pairs.second]
    onto = _selection(below, layer.in_size)
    related = sparse.csr_array(weight @ onto)  # every entry is one product with 1
    rest = sparse.csr_array(weight_p - related)
    alone = weight.copy()
    alone.data = np.where(np.isin(alone.indices, below.first), 0.0, alone.data)
    step = layer.flat_bias[pairs.second], layer.flat_bias[pairs.first]
    up, down = (_partners(below, mask, layer.in_size) for mask in (below.can_rise, below.can_fall))
    positive, negative = first.upper > 0, first.lower < 0
    positive_p, negative_p = second.upper > 0, second.lower < 0
    can_rise = _touches(related, up, down) | _touches(rest, positive_p, negative_p)
    can_fall = _touches(related, down, up) | _touches(rest, negative_p, positive_p)
    can_rise |= _touches(alone, negative, positive) | (step[0] > step[1])
    can_fall |= _touches(alone, positive, negative) | (step[0] < step[1])
    return pairs.restricted(can_rise, can_fall, Rule.PROPAGATION)


def through_relu(layer: Relu, pairs: Relations, first: Bounds, second: Bounds) -> Relations:
    """Pass relations through a ReLU, which keeps them. `first` and `second` bound its outputs.

    An output that is always 0 exceeds no other output, except that of a linear unit.
    """
    linear = np.zeros(layer.in_size, dtype=np.bool_) if layer.linear is None else layer.linear
    either = linear[pairs.first] | linear[pairs.second]
    can_rise = either | (second.upper[pairs.second] > 0)
    can_fall = either | (first.upper[pairs.first] > 0)
    return pairs.restricted(can_rise, can_fall, Rule.BOUNDS)


def _selection(below: Relations, size: int) -> sparse.csr_array:
    """Return the matrix that maps the first copy's inputs to their partners."""
    places = (below.first, below.second)
    return sparse.csr_array(
        sparse.coo_array((np.ones(len(below)), places), shape=(size, size), dtype=np.float64)
    )


def _partners(below: Relations, mask: Mask, size: int) -> Mask:
    """Return the second copy's side of some pairs as a mask over its inputs."""
    found = np.zeros(size, dtype=np.bool_)
    found[below.second[mask]] = True
    return found


def _touches(matrix: sparse.csr_array, plus: Mask, minus: Mask) -> Mask:
    """Return the rows with a positive weight on `plus` or a negative one on `minus`."""
    hit = np.where(matrix.data > 0, plus[matrix.indices], minus[matrix.indices])
    hit &= matrix.data != 0
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    touched = np.zeros(matrix.shape[0], dtype=np.bool_)
    touched[row[hit]] = True
    return touched
