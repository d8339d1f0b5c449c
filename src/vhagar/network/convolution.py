"""The two-dimensional convolution."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import sparse

from vhagar.array_types import Array
from vhagar.errors import InvalidNetwork
from vhagar.network.layers import LARGEST_TENSOR, AbstractLinear, Shape, freeze, rows_times

# A convolution with more products than this is never expanded into a matrix.
LARGEST_MATRIX = 2**20


@dataclass(frozen=True, eq=False)
class Convolution(AbstractLinear):
    """A two-dimensional convolution with zero padding, as in ONNX's Conv.

    `weight` is `(filters, channels / groups, height, width)`, `padding` is
    `(top, left, bottom, right)`. `bias` is `(filters,)`, or `(filters, height, width)` when a
    normalisation folded into a padded convolution makes it depend on the position.
    """

    weight: Array
    bias: Array
    in_shape: Shape
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    out_shape: Shape = field(init=False)

    def __post_init__(self) -> None:
        freeze(self, "weight", "bias")
        if self.weight.ndim != 4 or len(self.in_shape) != 3 or not self.weight.size:
            raise InvalidNetwork(
                "a convolution needs a weight of rank 4 and an input (channels, height, width), "
                f"not shapes {self.weight.shape} and {self.in_shape}; "
                "only two-dimensional convolutions are supported"
            )
        filters, group_channels = self.weight.shape[:2]
        if self.in_shape[0] != group_channels * self.groups or filters % self.groups:
            raise InvalidNetwork(
                f"a convolution with weight {self.weight.shape} and {self.groups} group(s) does "
                f"not fit an input with {self.in_shape[0]} channels"
            )
        extents = tuple(self._extent(axis) for axis in (0, 1))
        if min(extents) < 1 or min(*self.stride, *self.dilation) < 1 or min(self.padding) < 0:
            raise InvalidNetwork(
                f"a convolution with kernel {self.weight.shape[2:]}, stride {self.stride}, "
                f"padding {self.padding} and dilation {self.dilation} does not fit an image "
                f"{self.in_shape[1:]}"
            )
        object.__setattr__(self, "out_shape", (filters, *extents))
        padded = self.in_shape[0] * self._padded(0) * self._padded(1)
        if max(self.out_size, padded) > LARGEST_TENSOR:
            raise InvalidNetwork(
                f"a convolution of an image {self.in_shape} with padding {self.padding} to "
                f"{self.out_shape} is too large"
            )
        if self.bias.shape not in ((filters,), self.out_shape):
            raise InvalidNetwork(
                f"a convolution with {filters} filters needs a bias of that length, "
                f"not of shape {self.bias.shape}"
            )

    def _padded(self, axis: int) -> int:
        return self.in_shape[1 + axis] + self.padding[axis] + self.padding[axis + 2]

    def _extent(self, axis: int) -> int:
        span = self.dilation[axis] * (self.weight.shape[2 + axis] - 1) + 1
        return int((self._padded(axis) - span) // max(self.stride[axis], 1) + 1)

    def forward(self, batch: Array) -> Array:
        flat = self.correlate(batch.reshape(-1, *self.in_shape)).reshape(len(batch), self.out_size)
        return flat + self.flat_bias

    def correlate(self, images: Array) -> Array:
        """The convolution without its bias: `(batch, C, H, W)` to `(batch, *out_shape)`."""
        top, left, bottom, right = self.padding
        padded = np.pad(images, ((0, 0), (0, 0), (top, bottom), (left, right)))
        (sh, sw), (dh, dw), (kh, kw) = self.stride, self.dilation, self.weight.shape[2:]
        spans = (dh * (kh - 1) + 1, dw * (kw - 1) + 1)
        windows = sliding_window_view(padded, spans, axis=(2, 3))[:, :, ::sh, ::sw, ::dh, ::dw]
        filters = self.weight.shape[0] // self.groups
        channels = self.weight.shape[1]
        parts = [
            np.tensordot(
                windows[:, g * channels : (g + 1) * channels],
                self.weight[g * filters : (g + 1) * filters],
                axes=((1, 4, 5), (1, 2, 3)),
            ).transpose(0, 3, 1, 2)
            for g in range(self.groups)
        ]
        return np.ascontiguousarray(np.concatenate(parts, axis=1))

    def times(self, batch: Array) -> Array:
        if self._is_small:
            return rows_times(batch, self.matrix.T)
        return self.correlate(batch.reshape(-1, *self.in_shape)).reshape(len(batch), self.out_size)

    def pull(self, batch: Array) -> Array:
        if self._is_small:
            return rows_times(batch, self.matrix)
        return self._spread(batch.reshape(-1, *self.out_shape)).reshape(len(batch), self.in_size)

    def _spread(self, images: Array) -> Array:
        """The transpose of `correlate`."""
        top, left = self.padding[:2]
        (sh, sw), (dh, dw), (kh, kw) = self.stride, self.dilation, self.weight.shape[2:]
        _, height, width = self.out_shape
        count, per_group = len(images), self.weight.shape[0] // self.groups
        # Channels last, so that each kernel position is one matrix product for the whole batch.
        padded = np.zeros((count, self._padded(0), self._padded(1), self.in_shape[0]))
        flat = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
        for g in range(self.groups):
            filters = slice(g * per_group, (g + 1) * per_group)
            channels = slice(g * self.weight.shape[1], (g + 1) * self.weight.shape[1])
            for i in range(kh):
                for j in range(kw):
                    rows = slice(i * dh, i * dh + sh * (height - 1) + 1, sh)
                    columns = slice(j * dw, j * dw + sw * (width - 1) + 1, sw)
                    part = flat[..., filters] @ self.weight[filters, :, i, j]
                    padded[:, rows, columns, channels] += part
        inner = padded[:, top : top + self.in_shape[1], left : left + self.in_shape[2]]
        return np.ascontiguousarray(inner.transpose(0, 3, 1, 2))

    @property
    def _is_small(self) -> bool:
        return self.out_size * self.fan_in <= LARGEST_MATRIX

    def mapped(self, function: Callable[[Array], Array]) -> Self:
        return replace(self, weight=function(self.weight), bias=function(self.bias))

    @cached_property
    def matrix(self) -> sparse.csr_array:
        # The input that each weight multiplies, for every output.
        filters, height, width = self.out_shape
        per_group, (kh, kw) = filters // self.groups, self.weight.shape[2:]
        grid = np.arange(height * width).reshape(height, width)
        row_of, col_of = np.divmod(grid[..., None, None], width)
        rows = row_of * self.stride[0] - self.padding[0]
        cols = col_of * self.stride[1] - self.padding[1]
        rows = rows + self.dilation[0] * np.arange(kh)[:, None]
        cols = cols + self.dilation[1] * np.arange(kw)[None, :]
        inside = (rows >= 0) & (rows < self.in_shape[1]) & (cols >= 0) & (cols < self.in_shape[2])
        place = rows * self.in_shape[2] + cols
        entries = []
        for f in range(filters):
            for c in range(self.weight.shape[1]):
                channel = (f // per_group) * self.weight.shape[1] + c
                weights = np.broadcast_to(self.weight[f, c], inside.shape)[inside]
                outputs = np.broadcast_to(grid[..., None, None], inside.shape)[inside]
                inputs = np.broadcast_to(place, inside.shape)[inside]
                pixels = self.in_shape[1] * self.in_shape[2]
                entries.append((weights, outputs + f * grid.size, inputs + channel * pixels))
        values, outs, ins = (np.concatenate(part) for part in zip(*entries, strict=True))
        full = sparse.coo_array((values, (outs, ins)), shape=(self.out_size, self.in_size))
        return sparse.csr_array(full)

    @cached_property
    def flat_bias(self) -> Array:
        bias = self.bias if self.bias.ndim == 3 else self.bias[:, None, None]
        flat = np.broadcast_to(bias, self.out_shape).reshape(-1)
        flat.setflags(write=False)
        return flat

    @property
    def fan_in(self) -> int:
        return math.prod(self.weight.shape[1:])
