"""Linear maps of one tensor, the terms of a graph's linear operations.

A map can be appended to a chain of layers, in the form that suits it, or be expanded into a sparse
matrix and composed with others.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.array_types import Array
from vhagar.network.chain import LayerChain
from vhagar.network.convolution import Convolution
from vhagar.network.layers import Shape

Indices = NDArray[np.int64]


class AbstractMap(ABC):
    """`y = matrix x + offset` for a flat `x` of shape `in_shape`."""

    in_shape: Shape

    @property
    @abstractmethod
    def out_size(self) -> int:
        """The number of outputs."""

    @property
    @abstractmethod
    def entries(self) -> int:
        """An upper bound on the entries of the matrix, known without expanding it."""

    @property
    @abstractmethod
    def matrix(self) -> sparse.csr_array:
        """`(out_size, in_size)`."""

    @property
    @abstractmethod
    def offset(self) -> Array | None:
        """`(out_size,)`, or None for zeros."""

    @abstractmethod
    def join(self, chain: LayerChain) -> None:
        """Append the map to a chain whose output is its operand."""

    @property
    def in_size(self) -> int:
        return math.prod(self.in_shape)


@dataclass(frozen=True, eq=False)
class DenseMap(AbstractMap):
    """A fully connected layer: `weight` is `(out, in)`."""

    weight: Array
    bias: Array

    @property
    def in_shape(self) -> Shape:  # type: ignore[override] # derived, not stored
        return (self.weight.shape[1],)

    @property
    def out_size(self) -> int:
        return len(self.weight)

    @property
    def entries(self) -> int:
        return self.weight.size

    @cached_property
    def matrix(self) -> sparse.csr_array:
        return sparse.csr_array(self.weight)

    @property
    def offset(self) -> Array:
        return self.bias

    def join(self, chain: LayerChain) -> None:
        chain.reshape(self.in_shape)
        chain.fully_connected(self.weight, self.bias)


@dataclass(frozen=True, eq=False)
class ConvolutionMap(AbstractMap):
    """A convolution."""

    layer: Convolution

    @property
    def in_shape(self) -> Shape:  # type: ignore[override] # derived, not stored
        return self.layer.in_shape

    @property
    def out_size(self) -> int:
        return self.layer.out_size

    @property
    def entries(self) -> int:
        return self.layer.out_size * self.layer.fan_in

    @property
    def matrix(self) -> sparse.csr_array:
        return self.layer.matrix

    @property
    def offset(self) -> Array:
        return self.layer.flat_bias

    def join(self, chain: LayerChain) -> None:
        chain.reshape(self.in_shape)
        chain.convolution(self.layer)


@dataclass(frozen=True, eq=False)
class ScaleMap(AbstractMap):
    """`x * scale + shift`, element by element; both have the shape `in_shape`."""

    in_shape: Shape
    scale: Array
    shift: Array

    @property
    def out_size(self) -> int:
        return self.in_size

    @property
    def entries(self) -> int:
        return self.in_size

    @property
    def matrix(self) -> sparse.csr_array:
        return sparse.diags_array(self.scale.reshape(-1), format="csr")

    @property
    def offset(self) -> Array:
        return self.shift.reshape(-1)

    def join(self, chain: LayerChain) -> None:
        chain.reshape(self.in_shape)
        chain.scale_and_shift(self.scale, self.shift)


@dataclass(frozen=True, eq=False)
class SparseMap(AbstractMap):
    """Any other map as a sparse matrix, such as moving, selecting or averaging entries."""

    in_shape: Shape
    weight: sparse.csr_array
    shift: Array | None = None

    @property
    def out_size(self) -> int:
        return int(self.weight.shape[0])

    @property
    def entries(self) -> int:
        return int(self.weight.nnz)

    @property
    def matrix(self) -> sparse.csr_array:
        return self.weight

    @property
    def offset(self) -> Array | None:
        return self.shift

    def join(self, chain: LayerChain) -> None:
        chain.reshape(self.in_shape)
        offset = np.zeros(self.out_size) if self.shift is None else self.shift
        chain.sparse(self.weight, offset, (self.out_size,))


def selection(in_shape: Shape, index: Any, factor: float = 1.0) -> SparseMap:
    """Output k is `factor` times the entry `index[k]` of the flat operand, and 0 if that is -1.

    `index` may have any shape; it is taken in C order.
    """
    flat = np.asarray(index, dtype=np.int64).reshape(-1)
    return groups_of(in_shape, flat, (flat >= 0).astype(np.int64), factor)


def groups_of(in_shape: Shape, members: Indices, counts: Indices, factor: Any = 1.0) -> SparseMap:
    """Output k is the sum of `counts[k]` entries, times the factor (one, or one for each output).

    `members` lists the entries of all outputs one after another; negative ones are skipped.
    """
    chosen = members[members >= 0]
    starts = np.concatenate([[0], np.cumsum(counts)])
    values = np.repeat(np.broadcast_to(np.asarray(factor, dtype=np.float64), counts.shape), counts)
    shape = (len(counts), math.prod(in_shape))
    return SparseMap(in_shape, sparse.csr_array((values, chosen, starts), shape=shape))
