"""The layers of a network: forwards on values, and backwards on coefficients of their outputs.

Every linear layer is `y = K z + bias` for some kernel K, and offers `forward(K, z)` and
`backward(K, p) = p K`, on arrays with one row for each case. The kernel is an argument, so the same
lines serve floats, absolute values and exact integers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact

Floats = NDArray[np.float64]
Array = NDArray[Any]
Mask = NDArray[np.bool_]
Indices = NDArray[np.int64]
Shape = tuple[int, ...]

HALF_ULP = 2.0**-53
# More than underflow can change a sum whose terms are not multiplied by anything afterwards.
TINY = 2.0**-900
# More than one product can lose to underflow, even if subnormal numbers are flushed to 0. What a
# coefficient loses is multiplied by the size of its value.
UNDERFLOW = 2.0**-1022


def gamma(terms: int) -> float:
    """A bound on the error of a sum of that many products, in any order, relative to the sum of
    their absolute values; with room for a few more operations and for its own rounding."""
    return 1.01 * HALF_ULP * (terms + 4)


class Linear(ABC):
    """`y = K z + bias`."""

    in_size: int
    out_size: int
    bias: Floats
    terms: int  # the most products in a sum, forwards or backwards
    joins = False  # whether an output may depend on one input by several terms, which may cancel

    @property
    @abstractmethod
    def kernel(self) -> Floats: ...

    @abstractmethod
    def forward(self, kernel: Array, z: Array) -> Array: ...

    @abstractmethod
    def backward(self, kernel: Array, p: Array) -> Array: ...

    @abstractmethod
    def exact_forward(self, z: Exact) -> Exact: ...

    @abstractmethod
    def exact_backward(self, p: Exact) -> Exact: ...

    @cached_property
    def size(self) -> Floats:
        """The kernel's absolute values."""
        return np.asarray(abs(self.kernel))


class Plain(Linear):
    """A layer whose kernel is known exactly, over one denominator."""

    @property
    @abstractmethod
    def exact_kernel(self) -> Exact: ...

    def exact_forward(self, z: Exact) -> Exact:
        kernel = self.exact_kernel
        moved = self.forward(kernel.numerators, z.numerators.reshape(1, -1))
        return Exact(moved[0], kernel.denominator * z.denominator) + Exact.of(self.bias)

    def exact_backward(self, p: Exact) -> Exact:
        kernel = self.exact_kernel
        moved = self.backward(kernel.numerators, p.numerators.reshape(1, -1))
        return Exact(moved[0], kernel.denominator * p.denominator)


@dataclass(eq=False)
class Dense(Plain):
    weight: Floats
    bias: Floats

    def __post_init__(self) -> None:
        self.out_size, self.in_size = self.weight.shape
        self.terms = max(self.weight.shape)

    @property
    def kernel(self) -> Floats:
        return self.weight

    @cached_property
    def exact_kernel(self) -> Exact:
        return Exact.of(self.weight)

    def forward(self, kernel: Array, z: Array) -> Array:
        return np.asarray(z @ kernel.T)

    def backward(self, kernel: Array, p: Array) -> Array:
        return np.asarray(p @ kernel)


@dataclass(eq=False)
class Scale(Plain):
    """`y = z * factor / divisor + bias`, entry by entry."""

    factor: Floats
    divisor: Floats
    bias: Floats

    def __post_init__(self) -> None:
        self.out_size = self.in_size = len(self.factor)
        self.terms = 3  # a product, and the division's own rounding
        # A subnormal quotient has no relative error bound.
        small = (abs(self.kernel) < UNDERFLOW) & (self.factor != 0) & (abs(self.divisor) != 1)
        if small.any() or not np.isfinite(self.kernel).all():
            raise Rejected("a scaling of the model leaves the range of float64")

    @cached_property
    def kernel(self) -> Floats:
        return self.factor / self.divisor

    @cached_property
    def exact_kernel(self) -> Exact:
        pairs = zip(self.factor.tolist(), self.divisor.tolist(), strict=True)
        return Exact.of_fractions([Fraction(f) / Fraction(d) for f, d in pairs])

    def forward(self, kernel: Array, z: Array) -> Array:
        return np.asarray(z * kernel)

    def backward(self, kernel: Array, p: Array) -> Array:
        return np.asarray(p * kernel)


@dataclass(eq=False)
class Conv(Plain):
    """A two-dimensional convolution with zero padding (top, left, bottom, right)."""

    weight: Floats  # (filters, channels / groups, height, width)
    filter_bias: Floats
    in_shape: Shape
    stride: Shape
    padding: Shape
    dilation: Shape
    groups: int

    def __post_init__(self) -> None:
        filters, channels, *kernel = self.weight.shape
        extents = []
        for axis in (0, 1):
            span = self.dilation[axis] * (kernel[axis] - 1) + 1
            room = self.in_shape[1 + axis] + self.padding[axis] + self.padding[axis + 2]
            extents.append((room - span) // self.stride[axis] + 1)
        self.out_shape: Shape = (filters, *extents)
        self.in_size, self.out_size = math.prod(self.in_shape), math.prod(self.out_shape)
        self.terms = max(channels, filters // self.groups) * math.prod(kernel)
        self.bias = np.repeat(self.filter_bias, math.prod(extents))

    @property
    def kernel(self) -> Floats:
        return self.weight

    @cached_property
    def exact_kernel(self) -> Exact:
        return Exact.of(self.weight)

    def forward(self, kernel: Array, z: Array) -> Array:
        padded, inside = self._padded(z)
        padded[inside] = z.reshape(-1, *self.in_shape)
        out = np.zeros((len(z), *self.out_shape), dtype=z.dtype)
        for filters, channels, (rows, columns), part in self._places(kernel):
            patch = padded[:, channels, rows, columns]
            out[:, filters] += np.tensordot(patch, part, axes=((1,), (1,))).transpose(0, 3, 1, 2)
        return out.reshape(len(z), -1)

    def backward(self, kernel: Array, p: Array) -> Array:
        padded, inside = self._padded(p)
        grid = p.reshape(len(p), *self.out_shape)
        for filters, channels, (rows, columns), part in self._places(kernel):
            moved = np.tensordot(grid[:, filters], part, axes=((1,), (0,)))
            padded[:, channels, rows, columns] += moved.transpose(0, 3, 1, 2)
        return np.asarray(padded[inside].reshape(len(p), -1))

    def _padded(self, like: Array) -> tuple[Array, tuple[slice, ...]]:
        """A padded input of zeros for each row, and the position of the input itself in it."""
        top, left, bottom, right = self.padding
        channels, height, width = self.in_shape
        shape = (len(like), channels, height + top + bottom, width + left + right)
        everything = slice(None)
        inside = (everything, everything, slice(top, top + height), slice(left, left + width))
        return np.zeros(shape, dtype=like.dtype), inside

    def _places(self, kernel: Array) -> list[tuple[slice, slice, tuple[slice, slice], Array]]:
        """For each group and each entry of the kernel: the filters, the channels, the rows and
        columns of the padded image that it meets, and its weights (filters, channels)."""
        found = []
        per_filter, per_channel = kernel.shape[0] // self.groups, kernel.shape[1]
        for g in range(self.groups):
            filters = slice(g * per_filter, (g + 1) * per_filter)
            channels = slice(g * per_channel, (g + 1) * per_channel)
            for i in range(kernel.shape[2]):
                for j in range(kernel.shape[3]):
                    met = tuple(
                        slice(d * k, d * k + s * (extent - 1) + 1, s)
                        for k, d, s, extent in zip(
                            (i, j), self.dilation, self.stride, self.out_shape[1:], strict=True
                        )
                    )
                    found.append((filters, channels, (met[0], met[1]), kernel[filters, :, i, j]))
        return found


@dataclass(eq=False)
class Transposed(Plain):
    """A transposed convolution, with a bias."""

    conv: Conv
    bias: Floats

    def __post_init__(self) -> None:
        self.in_size, self.out_size = self.conv.out_size, self.conv.in_size
        self.terms = self.conv.terms

    @property
    def kernel(self) -> Floats:
        return self.conv.kernel

    @property
    def exact_kernel(self) -> Exact:
        return self.conv.exact_kernel

    def forward(self, kernel: Array, z: Array) -> Array:
        return self.conv.backward(kernel, z)

    def backward(self, kernel: Array, p: Array) -> Array:
        return self.conv.forward(kernel, p)


@dataclass(frozen=True, eq=False)
class Network:
    """Linear stages with a ReLU layer between each two; a stage may be empty.

    `linear` holds, for each ReLU layer, a mask of its linear units, or None if all are ReLUs; it is
    empty if no layer has linear units.
    """

    stages: tuple[tuple[Linear, ...], ...]
    input_shape: Shape
    linear: tuple[Mask | None, ...] = ()

    @property
    def classes(self) -> int:
        return self.relu_sizes_and_classes[-1]

    @cached_property
    def relu_sizes_and_classes(self) -> list[int]:
        """The number of outputs of each stage."""
        sizes, size = [], math.prod(self.input_shape)
        for stage in self.stages:
            size = stage[-1].out_size if stage else size
            sizes.append(size)
        return sizes

    def linear_units(self, layer: int) -> Mask | None:
        """A mask of the linear units of a ReLU layer; None if there are none."""
        return self.linear[layer] if self.linear else None

    def exact_scores(self, x: Exact) -> Exact:
        value = x
        for k, stage in enumerate(self.stages):
            value = value.positive(self.linear_units(k - 1)) if k else value
            for layer in stage:
                value = layer.exact_forward(value)
        return value


def interval(layer: Linear, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Bounds on the outputs of a linear layer, rounded outward."""
    middle = (low + high) / 2
    radius = np.maximum(high - middle, middle - low) * (1 + 4 * HALF_ULP)
    (centre,) = layer.forward(layer.kernel, middle[None])
    (spread,) = layer.forward(layer.size, radius[None])
    (size,) = layer.forward(layer.size, (abs(middle) + radius)[None])
    centre = centre + layer.bias
    error = gamma(2 * layer.terms + 8) * (size + abs(layer.bias)) + TINY
    return centre - spread - error, centre + spread + error
