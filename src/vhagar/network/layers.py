"""The layers of a network: plain, frozen, in float64.

Every layer maps flat batches `(batch, in_size)` to `(batch, out_size)`. Shapes are stored as well,
for code that needs the image (convolutions, perturbations, plots); flattening is never a layer,
because rows of a batch are always flat in C order.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy import sparse

from vhagar.array_types import Array, Mask
from vhagar.errors import InvalidNetwork

Shape = tuple[int, ...]

# Most entries of one tensor or matrix (gigabytes); a file that asks for more is refused.
LARGEST_TENSOR = 2**27


class AbstractLayer(ABC):
    """One step of a network."""

    in_shape: Shape
    out_shape: Shape

    @property
    def in_size(self) -> int:
        return math.prod(self.in_shape)

    @property
    def out_size(self) -> int:
        return math.prod(self.out_shape)

    @abstractmethod
    def forward(self, batch: Array) -> Array:
        """Map `(batch, in_size)` to `(batch, out_size)`."""


class AbstractLinear(AbstractLayer):
    """A layer `y = W x + bias`, whatever the structure of `W`."""

    @property
    @abstractmethod
    def matrix(self) -> sparse.csr_array:
        """`W` as a sparse matrix `(out_size, in_size)`."""

    @property
    @abstractmethod
    def flat_bias(self) -> Array:
        """The bias of every output, `(out_size,)`."""

    @property
    @abstractmethod
    def fan_in(self) -> int:
        """The largest number of products in any output, which bounds the rounding error."""

    @abstractmethod
    def times(self, batch: Array) -> Array:
        """`W x` of every row: `(batch, in_size)` to `(batch, out_size)`, plain sums of products."""

    @abstractmethod
    def pull(self, batch: Array) -> Array:
        """`W' y` of every row: `(batch, out_size)` to `(batch, in_size)`, plain sums of products.

        An entry sums at most `out_size` products.
        """

    @abstractmethod
    def mapped(self, function: Callable[[Array], Array]) -> Self:
        """Return the layer with a function applied to each of its weights and biases."""

    @cached_property
    def absolute(self) -> AbstractLinear:
        """The layer with the absolute values of its weights and biases."""
        return self.mapped(np.abs)


@dataclass(frozen=True, eq=False)
class Affine(AbstractLinear):
    """A fully connected layer: `weight` is `(out_size, in_size)`, `bias` is `(out_size,)`."""

    weight: Array
    bias: Array
    in_shape: Shape
    out_shape: Shape

    def __post_init__(self) -> None:
        freeze(self, "weight", "bias")
        if self.weight.shape != (self.out_size, self.in_size):
            raise InvalidNetwork(
                f"a fully connected layer from {self.in_shape} to {self.out_shape} needs a weight "
                f"of shape {(self.out_size, self.in_size)}, not {self.weight.shape}. "
                "Is a Flatten missing before it?"
            )
        if self.bias.shape != (self.out_size,):
            raise InvalidNetwork(
                f"a layer with {self.out_size} outputs needs a bias of that length, "
                f"not of shape {self.bias.shape}"
            )

    def forward(self, batch: Array) -> Array:
        return batch @ self.weight.T + self.bias

    def times(self, batch: Array) -> Array:
        return batch @ self.weight.T

    def pull(self, batch: Array) -> Array:
        return batch @ self.weight

    def mapped(self, function: Callable[[Array], Array]) -> Self:
        return replace(self, weight=function(self.weight), bias=function(self.bias))

    @cached_property
    def matrix(self) -> sparse.csr_array:
        return sparse.csr_array(self.weight)

    @property
    def flat_bias(self) -> Array:
        return self.bias

    @property
    def fan_in(self) -> int:
        return self.in_size


@dataclass(frozen=True, eq=False)
class SparseAffine(AbstractLinear):
    """`y = weight x + bias` with a sparse weight, as branches and joins need it."""

    weight: sparse.csr_array
    bias: Array
    in_shape: Shape
    out_shape: Shape

    def __post_init__(self) -> None:
        freeze(self, "bias")
        matrix = sparse.csr_array(self.weight, dtype=np.float64)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        if matrix.shape != (self.out_size, self.in_size) or self.bias.shape != (self.out_size,):
            raise InvalidNetwork(
                f"a sparse layer from {self.in_shape} to {self.out_shape} needs a weight of shape "
                f"{(self.out_size, self.in_size)} and a bias of that many rows, not "
                f"{matrix.shape} and {self.bias.shape}"
            )
        _require_finite(matrix.data, "weight", self)
        object.__setattr__(self, "weight", matrix)

    def forward(self, batch: Array) -> Array:
        return self.times(batch) + self.bias

    def times(self, batch: Array) -> Array:
        return rows_times(batch, self._transposed)

    def pull(self, batch: Array) -> Array:
        return rows_times(batch, self.weight)

    @cached_property
    def _transposed(self) -> sparse.csr_array:
        return sparse.csr_array(self.weight.T)

    def mapped(self, function: Callable[[Array], Array]) -> Self:
        weight = self.weight.copy()
        weight.data = function(weight.data)
        return replace(self, weight=weight, bias=function(self.bias))

    @property
    def matrix(self) -> sparse.csr_array:
        return self.weight

    @property
    def flat_bias(self) -> Array:
        return self.bias

    @cached_property
    def fan_in(self) -> int:
        return max(1, int(np.diff(self.weight.indptr).max(initial=0)))


@dataclass(frozen=True, eq=False)
class Relu(AbstractLayer):
    """`max(x, 0)`, element by element, except for linear units, which pass their input through.

    `linear` `(size,)` marks the linear units, which skip connections need; None means no such unit.
    """

    shape: Shape
    linear: Mask | None = None
    in_shape: Shape = field(init=False)
    out_shape: Shape = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "in_shape", self.shape)
        object.__setattr__(self, "out_shape", self.shape)
        if self.linear is None:
            return
        mask = np.array(self.linear, dtype=np.bool_)
        if mask.shape != (self.in_size,):
            raise InvalidNetwork(
                f"a ReLU layer of {self.in_size} units needs a mask of that size, not {mask.shape}"
            )
        mask.setflags(write=False)
        object.__setattr__(self, "linear", mask if mask.any() else None)

    @property
    def neurons(self) -> int:
        """The number of ReLU units."""
        return self.in_size if self.linear is None else int((~self.linear).sum())

    def forward(self, batch: Array) -> Array:
        positive = np.maximum(batch, 0.0)
        return positive if self.linear is None else np.where(self.linear, batch, positive)


def rows_times(batch: Array, matrix: sparse.csr_array) -> Array:
    """`batch @ matrix` for a sparse matrix."""
    product: Array = np.ascontiguousarray((matrix.T @ batch.T).T)
    return product


def freeze(layer: object, *names: str) -> None:
    """Replace fields by read-only float64 copies, and refuse numbers that are not finite."""
    for name in names:
        values = np.array(getattr(layer, name), dtype=np.float64)
        _require_finite(values, name, layer)
        values.setflags(write=False)
        object.__setattr__(layer, name, values)


def _require_finite(values: Array, name: str, layer: object) -> None:
    if not np.isfinite(values).all():
        raise InvalidNetwork(
            f"the {name} of a {type(layer).__name__} layer holds NaN or infinity; "
            "the model was probably damaged in training or export"
        )
