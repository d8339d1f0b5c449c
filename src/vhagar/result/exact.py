"""Evaluate a network in exact rational arithmetic, because float64 cannot decide an exact tie.

Weights and inputs are floats, so every value is an integer times a power of two. Python's integers
have no limit; the power of two is kept separately.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.array_types import Array
from vhagar.network import AbstractLinear, Network, Relu

# Products of Python integers are slow; beyond this many, a tie stays undecided and is rejected.
_MOST_PRODUCTS = 3_000_000


def exact_scores(network: Network, x: Array) -> list[Fraction] | None:
    """Compute the exact scores of one flat input; None if the network is too large for this."""
    linear = [layer for layer in network.layers if isinstance(layer, AbstractLinear)]
    if sum(layer.matrix.nnz for layer in linear) > _MOST_PRODUCTS:
        return None
    values, exponent = _integers(x)
    for layer in network.layers:
        if isinstance(layer, AbstractLinear):
            values, exponent = _apply(layer.matrix, layer.flat_bias, values, exponent)
        else:
            assert isinstance(layer, Relu)
            passes = np.False_ if layer.linear is None else layer.linear
            values = np.where(passes, values, np.maximum(values, 0))
    return [Fraction(int(value)) * Fraction(2) ** exponent for value in values]


def exact_confidence_sign(network: Network, x: Array, label: int) -> int | None:
    """Compute the exact sign of the confidence in `label`: -1, 0 or 1; None if undecided."""
    scores = exact_scores(network, x)
    if scores is None:
        return None
    margin = scores[label] - max(score for k, score in enumerate(scores) if k != label)
    return (margin > 0) - (margin < 0)


def _integers(values: Array) -> tuple[NDArray[Any], int]:
    """Write floats as `integers * 2**exponent`."""
    mantissas, exponents = np.frexp(np.asarray(values, dtype=np.float64).reshape(-1))
    whole = (mantissas * 2.0**53).astype(np.int64)
    exponents = np.where(whole == 0, 0, exponents - 53)
    lowest = int(exponents.min(initial=0))
    shifted = [
        int(m) << int(e - lowest) for m, e in zip(whole.tolist(), exponents.tolist(), strict=True)
    ]
    return np.array(shifted, dtype=object), lowest


def _apply(
    matrix: sparse.csr_array, bias: Array, values: NDArray[Any], exponent: int
) -> tuple[NDArray[Any], int]:
    weights, weight_exponent = _integers(matrix.data)
    biases, bias_exponent = _integers(bias)
    product_exponent = weight_exponent + exponent
    lowest = min(product_exponent, bias_exponent)
    products = weights * values[matrix.indices]
    starts = matrix.indptr
    sums = [
        (sum(products[start:end]) << (product_exponent - lowest))
        + (int(bias_value) << (bias_exponent - lowest))
        for start, end, bias_value in zip(starts[:-1], starts[1:], biases, strict=True)
    ]
    return np.array(sums, dtype=object), lowest
