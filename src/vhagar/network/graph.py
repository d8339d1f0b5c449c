"""A classifier as a graph of values: linear operations and ReLU units, nothing else.

The functions of `units/` express everything else by these two. Every value has a depth, the number
of ReLU layers below it: a linear operation is as deep as its deepest operand, units are one deeper
than their operand. `lowering.py` turns the graph into a chain of layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vhagar.array_types import Array
from vhagar.errors import InvalidNetwork
from vhagar.network.layers import LARGEST_TENSOR, Shape
from vhagar.network.maps import AbstractMap, ScaleMap, selection


@dataclass(frozen=True, eq=False)
class Value:
    """A flat array of the computation. `number` counts values in order of creation."""

    size: int
    depth: int
    number: int


@dataclass(frozen=True)
class Tensor:
    """A value with a shape, without the batch dimension. Reshaping creates no new value."""

    value: Value
    shape: Shape

    @property
    def size(self) -> int:
        return self.value.size

    def reshaped(self, shape: Shape) -> Tensor:
        return replace(self, shape=shape)


@dataclass(frozen=True, eq=False)
class Term:
    """A linear map of a value, one summand of a linear operation."""

    value: Value
    map: AbstractMap


@dataclass(frozen=True, eq=False)
class Linear:
    """`output` is the sum of the terms and of `offset`, if there is one."""

    output: Value
    terms: tuple[Term, ...]
    offset: Array | None = None


@dataclass(frozen=True, eq=False)
class Units:
    """`output = max(operand, 0)`: a block of ReLU units in the layer of the operand's depth."""

    output: Value
    operand: Tensor


Operation = Linear | Units


class Graph:
    """The operations so far, in order, and methods that add more."""

    def __init__(self, input_shape: Shape) -> None:
        self.input = Tensor(Value(math.prod(input_shape), 0, 0), input_shape)
        self.operations: list[Operation] = []

    def linear(self, terms: Sequence[Term], shape: Shape, offset: Array | None = None) -> Tensor:
        """The sum of the terms, in the given shape; the offset has that shape as well."""
        size = math.prod(shape)
        if not size:
            raise InvalidNetwork(f"it gives a tensor of shape {shape}, which has no entries")
        if size > LARGEST_TENSOR:
            raise InvalidNetwork(f"it gives a tensor of shape {shape}, which is too large")
        if any(term.map.out_size != size for term in terms):
            raise InvalidNetwork(f"its operands do not fit a result of shape {shape}")
        value = self._new(size, max(term.value.depth for term in terms))
        flat = None if offset is None else np.asarray(offset, dtype=np.float64).reshape(-1)
        self.operations.append(Linear(value, tuple(terms), flat))
        return Tensor(value, shape)

    def mapped(self, operand: Tensor, linear: AbstractMap, shape: Shape) -> Tensor:
        """One linear map of one tensor."""
        return self.linear([Term(operand.value, linear)], shape)

    def scaled(self, operand: Tensor, scale: float | Array, shift: float | Array) -> Tensor:
        """`operand * scale + shift`; the constants broadcast to the operand's shape."""
        full = (_broadcast(part, operand.shape) for part in (scale, shift))
        return self.mapped(operand, ScaleMap(operand.shape, *full), operand.shape)

    def units(self, operand: Tensor) -> Tensor:
        """`max(operand, 0)`."""
        value = self._new(operand.size, operand.value.depth + 1)
        self.operations.append(Units(value, operand))
        return Tensor(value, operand.shape)

    def _new(self, size: int, depth: int) -> Value:
        return Value(size, depth, len(self.operations) + 1)


def times(operand: Tensor, factor: float | Array = 1.0) -> Term:
    """`factor * operand` as a term; an array of factors broadcasts to the operand's shape."""
    scale, zero = _broadcast(factor, operand.shape), _broadcast(0.0, operand.shape)
    return Term(operand.value, ScaleMap(operand.shape, scale, zero))


def _broadcast(values: float | Array, shape: Shape) -> Array:
    full: Array = np.broadcast_to(np.asarray(values, dtype=np.float64), shape)
    return full


def spread(operand: Tensor, shape: Shape, factor: float = 1.0) -> Term:
    """The operand broadcast to a shape, times a factor, as a term."""
    if operand.shape == shape:
        return times(operand, factor)
    try:
        index = np.broadcast_to(np.arange(operand.size).reshape(operand.shape), shape)
    except ValueError as error:
        raise InvalidNetwork(
            f"a tensor of shape {operand.shape} does not fit one of shape {shape}"
        ) from error
    return Term(operand.value, selection(operand.shape, index, factor))
