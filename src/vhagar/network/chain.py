"""Builds the list of layers of a network step by step.

Element-wise scalings and shifts (input normalisation, biases written as an Add) do not become
layers: they are folded into the linear layer before them or, if there is none, into the next one.
Sparse layers are composed with the neighbouring linear layers as long as the product stays small.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy import sparse

from vhagar.array_types import Array, Mask
from vhagar.errors import InvalidNetwork
from vhagar.network.convolution import LARGEST_MATRIX, Convolution
from vhagar.network.layers import (
    LARGEST_TENSOR,
    AbstractLayer,
    AbstractLinear,
    Affine,
    Relu,
    Shape,
    SparseAffine,
)

# A layer with a matrix of up to this many entries may become dense; a larger one stays sparse.
_LARGEST_FULL_MATRIX = 2**24


class LayerChain:
    """The layers so far and the shape of their output."""

    def __init__(self, input_shape: Shape) -> None:
        self.shape: Shape = input_shape
        self._layers: list[AbstractLayer] = []
        # A scaling `x * scale + offset` of the last output that waits for a linear layer.
        self._pending: tuple[Array, Array] | None = None

    def finish(self) -> tuple[AbstractLayer, ...]:
        self._settle()
        return tuple(self._layers)

    def reshape(self, shape: Shape) -> None:
        self.shape = shape

    def relu(self, linear: Mask | None = None) -> None:
        self._settle()
        self._append(Relu(self.shape, linear))

    def fully_connected(self, weight: Array, bias: Array) -> None:
        """`weight` is `(out, in)` and acts on a flat input."""
        if self._pending is not None:
            scale, offset = (part.reshape(-1) for part in self._pending)
            bias = bias + weight @ offset
            weight = weight * scale
            self._pending = None
        self._join(Affine(weight, bias, self.shape, (len(weight),)))

    def convolution(self, layer: Convolution) -> None:
        if self._pending is None:
            self._join(layer)
            return
        scale, offset = (part.reshape(self.shape) for part in self._pending)
        self._pending = None
        # The shift does not apply to the padding, so the bias depends on the position.
        shifted = (layer.flat_bias + layer.correlate(offset[None]).reshape(-1)).reshape(
            layer.out_shape
        )
        per_channel = scale[:, :1, :1]
        if (scale == per_channel).all():
            filters, groups = len(layer.weight), layer.groups
            spread = np.repeat(
                per_channel.reshape(groups, 1, -1), filters // groups, axis=1
            ).reshape(filters, -1, 1, 1)
            self._join(replace(layer, weight=layer.weight * spread, bias=shifted))
        else:
            columns = _writable(layer) * scale.reshape(1, -1)
            self._join(_matrix_layer(columns, shifted.reshape(-1), self.shape, layer.out_shape))

    def sparse(self, matrix: sparse.csr_array, offset: Array, out_shape: Shape) -> None:
        """Append any linear map of the current value."""
        if self._pending is not None:
            scale, shift = (part.reshape(-1) for part in self._pending)
            offset = offset + matrix @ shift
            matrix = sparse.csr_array(matrix @ sparse.diags_array(scale, format="csr"))
            self._pending = None
        layer = SparseAffine(matrix, offset, self.shape, out_shape)
        self._join(_dense_if_full(layer))

    def scale_and_shift(self, scale: Array, offset: Array) -> None:
        """`x * scale + offset`; both constants have the current shape."""
        last = self._layers[-1] if self._layers else None
        if isinstance(last, AbstractLinear) and self._pending is None:
            self._layers[-1] = _scaled_output(last, scale.reshape(-1), offset.reshape(-1))
        elif self._pending is None:
            self._pending = scale, offset
        else:
            old_scale, old_offset = (part.reshape(self.shape) for part in self._pending)
            self._pending = old_scale * scale, old_offset * scale + offset

    def _settle(self) -> None:
        """Turn a pending scaling into a diagonal linear layer."""
        if self._pending is None:
            return
        scale, offset = (part.reshape(-1) for part in self._pending)
        self._pending = None
        diagonal = sparse.diags_array(scale, format="csr")
        self._append(_matrix_layer(diagonal, offset, self.shape, self.shape))

    def _join(self, layer: AbstractLinear) -> None:
        """Append a linear layer, or compose it with the one before."""
        last = self._layers[-1] if self._layers else None
        joined = _composed(last, layer) if isinstance(last, AbstractLinear) else None
        if joined is None:
            self._append(layer)
            return
        self._layers.pop()
        self._append(joined)

    def _append(self, layer: AbstractLayer) -> None:
        self._layers.append(layer)
        self.shape = layer.out_shape


def _composed(first: AbstractLinear, second: AbstractLinear) -> AbstractLinear | None:
    """Compose two layers if one of them is sparse and the product is small; else return None.

    Bounds through one layer are tighter than bounds through two.
    """
    if not (isinstance(first, SparseAffine) or isinstance(second, SparseAffine)):
        return None
    if max(_entries(first), _entries(second)) > LARGEST_MATRIX:
        return None
    left, right = second.matrix, first.matrix
    if int(np.diff(right.indptr)[left.indices].sum(dtype=np.int64)) > LARGEST_MATRIX:
        return None
    bias = left @ first.flat_bias + second.flat_bias
    product = sparse.csr_array(left @ right)
    dense = isinstance(first, Affine) or isinstance(second, Affine)
    if dense and math.prod(product.shape) <= _LARGEST_FULL_MATRIX:
        return Affine(product.toarray(), bias, first.in_shape, second.out_shape)
    return SparseAffine(product, bias, first.in_shape, second.out_shape)


def _dense_if_full(layer: SparseAffine) -> AbstractLinear:
    """Make a matrix dense, which is faster, if most of its entries are nonzero."""
    size = math.prod(layer.weight.shape)
    if size > _LARGEST_FULL_MATRIX or layer.weight.nnz < size / 2:
        return layer
    return Affine(layer.weight.toarray(), layer.bias, layer.in_shape, layer.out_shape)


def _entries(layer: AbstractLinear) -> int:
    return layer.weight.nnz if isinstance(layer, SparseAffine) else layer.out_size * layer.fan_in


def _scaled_output(layer: AbstractLinear, scale: Array, offset: Array) -> AbstractLinear:
    bias = layer.flat_bias * scale + offset
    if isinstance(layer, Affine):
        return replace(layer, weight=layer.weight * scale[:, None], bias=bias)
    if isinstance(layer, SparseAffine):
        rows = sparse.csr_array(sparse.diags_array(scale, format="csr") @ layer.weight)
        return replace(layer, weight=rows, bias=bias)
    assert isinstance(layer, Convolution)  # the only other linear layer
    grid = scale.reshape(layer.out_shape)
    per_filter = grid[:, 0, 0]
    if (grid == per_filter[:, None, None]).all():
        by_place = bias.reshape(layer.out_shape)
        uniform = (by_place == by_place[:, :1, :1]).all()
        kept = by_place[:, 0, 0] if uniform else by_place
        return replace(layer, weight=layer.weight * per_filter[:, None, None, None], bias=kept)
    rows = _writable(layer) * scale[:, None]
    return _matrix_layer(rows, bias, layer.in_shape, layer.out_shape)


def _writable(layer: Convolution) -> sparse.coo_array:
    """Return the convolution's matrix, unless it is too large."""
    require_size(layer.out_size * layer.fan_in)
    return layer.matrix.tocoo()


def _matrix_layer(
    matrix: sparse.sparray, bias: Array, in_shape: Shape, out_shape: Shape
) -> AbstractLinear:
    if math.prod(matrix.shape) <= _LARGEST_FULL_MATRIX:
        return Affine(matrix.toarray(), bias, in_shape, out_shape)
    return SparseAffine(sparse.csr_array(matrix), bias, in_shape, out_shape)


def require_size(entries: int) -> None:
    """Refuse a matrix that would take gigabytes."""
    if entries > LARGEST_TENSOR:
        raise InvalidNetwork(
            f"written as one linear layer, a part of the network takes a matrix of {entries:,} "
            f"entries, more than {LARGEST_TENSOR:,}; the network is too large for its "
            "branches"
        )
