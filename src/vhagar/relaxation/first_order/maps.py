"""The linear stages in torch: coefficients backwards, values forwards.

Convolutions stay convolutions unless their matrix is small, where one dense product is faster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from vhagar.network import AbstractLinear, Convolution, SparseAffine
from vhagar.relaxation.twin import Stage
from vhagar.runtime.devices import Tensor, require_torch, sparse_tensor

# Entries of a matrix that is small; far fewer on a CPU, which has few operations to spare.
_SMALL = {"cpu": 2**14, "cuda": 2**21}


class AbstractMap(ABC):
    """`y = W x + bias` on flat rows."""

    bias: Tensor  # (out,)
    absolute_bias: Tensor

    @abstractmethod
    def back(self, coefficients: Tensor) -> Tensor:
        """`(rows, out)` to `(rows, in)`."""

    @abstractmethod
    def forth(self, values: Tensor) -> Tensor:
        """`(rows, in)` to `(rows, out)`, bias included."""

    @abstractmethod
    def back_absolute(self, coefficients: Tensor) -> Tensor:
        """As `back`, with the absolute values of the weights."""


class _DenseMap(AbstractMap):
    def __init__(self, layer: AbstractLinear, device: Any) -> None:
        torch = require_torch()
        self._matrix = torch.tensor(
            layer.matrix.toarray(), dtype=torch.float32, device=device
        ).contiguous()
        self.bias = torch.tensor(layer.flat_bias, dtype=torch.float32, device=device)
        self.absolute_bias = self.bias.abs()

    def back(self, coefficients: Tensor) -> Tensor:
        return coefficients @ self._matrix

    def forth(self, values: Tensor) -> Tensor:
        return require_torch().addmm(self.bias, values, self._matrix.T)

    def back_absolute(self, coefficients: Tensor) -> Tensor:
        return coefficients @ self._matrix.abs()


class _SparseMap(AbstractMap):
    def __init__(self, layer: SparseAffine, device: Any) -> None:
        torch = require_torch()
        self._forth, self._back, self._back_absolute = (
            sparse_tensor(matrix, torch.float32, device)
            for matrix in (layer.weight, layer.weight.T, abs(layer.weight).T)
        )
        self.bias = torch.tensor(layer.flat_bias, dtype=torch.float32, device=device)
        self.absolute_bias = self.bias.abs()

    def back(self, coefficients: Tensor) -> Tensor:
        return (self._back @ coefficients.T).T.contiguous()

    def forth(self, values: Tensor) -> Tensor:
        return (self._forth @ values.T).T + self.bias

    def back_absolute(self, coefficients: Tensor) -> Tensor:
        return (self._back_absolute @ coefficients.T).T.contiguous()


class _ConvolutionMap(AbstractMap):
    def __init__(self, layer: Convolution, device: Any) -> None:
        torch = require_torch()
        self._layer = layer
        self._weight = torch.tensor(layer.weight, dtype=torch.float32, device=device)
        self.bias = torch.tensor(layer.flat_bias, dtype=torch.float32, device=device)
        self.absolute_bias = self.bias.abs()
        _, height, width = layer.in_shape
        top, left, bottom, right = layer.padding
        self._padding = (left, right, top, bottom)
        self._padded = (height + top + bottom, width + left + right)

    def back(self, coefficients: Tensor) -> Tensor:
        return self._spread(coefficients, self._weight)

    def back_absolute(self, coefficients: Tensor) -> Tensor:
        return self._spread(coefficients, self._weight.abs())

    def _spread(self, coefficients: Tensor, weight: Tensor) -> Tensor:
        layer, functional = self._layer, require_torch().nn.functional
        images = coefficients.reshape(-1, *layer.out_shape)
        found = functional.conv_transpose2d(
            images, weight, stride=layer.stride, groups=layer.groups, dilation=layer.dilation
        )
        # A stride may leave the last pixels unused.
        missing = [full - has for full, has in zip(self._padded, found.shape[2:], strict=True)]
        if any(missing):
            found = functional.pad(found, (0, missing[1], 0, missing[0]))
        left, _, top, _ = self._padding
        _, height, width = layer.in_shape
        inner = found[:, :, top : top + height, left : left + width]
        return inner.reshape(len(coefficients), -1)

    def forth(self, values: Tensor) -> Tensor:
        layer, functional = self._layer, require_torch().nn.functional
        images = values.reshape(-1, *layer.in_shape)
        if any(self._padding):
            images = functional.pad(images, self._padding)
        found = functional.conv2d(
            images,
            self._weight,
            stride=layer.stride,
            dilation=layer.dilation,
            groups=layer.groups,
        )
        return found.reshape(len(values), -1) + self.bias


class _ChainMap(AbstractMap):
    """Several linear layers in a row; their composed bias is rounded."""

    def __init__(self, maps: list[AbstractMap], stage: Stage) -> None:
        torch = require_torch()
        self._maps = maps
        last = maps[-1].bias
        self.bias = torch.as_tensor(stage.bias()).to(last)
        self.absolute_bias = maps[0].absolute_bias
        for one in maps[1:]:
            size = torch.zeros((1, len(self.absolute_bias))).to(last) + self.absolute_bias
            self.absolute_bias = _forth_absolute(one, size)[0]

    def back(self, coefficients: Tensor) -> Tensor:
        for one in reversed(self._maps):
            coefficients = one.back(coefficients)
        return coefficients

    def back_absolute(self, coefficients: Tensor) -> Tensor:
        for one in reversed(self._maps):
            coefficients = one.back_absolute(coefficients)
        return coefficients

    def forth(self, values: Tensor) -> Tensor:
        for one in self._maps:
            values = one.forth(values)
        return values


def _forth_absolute(one: AbstractMap, size: Tensor) -> Tensor:
    """How large the outputs can be where the inputs are that large."""
    torch = require_torch()
    unit = torch.eye(len(one.bias), dtype=size.dtype, device=size.device)
    return size @ one.back_absolute(unit).T + one.absolute_bias


def map_of(stage: Stage, device: Any) -> AbstractMap:
    """The stage in torch."""
    maps = [_map_of(layer, device) for layer in stage.layers]
    return maps[0] if len(maps) == 1 else _ChainMap(maps, stage)


def _map_of(layer: AbstractLinear, device: Any) -> AbstractMap:
    small = layer.in_size * layer.out_size <= _SMALL[device.type]
    if isinstance(layer, Convolution) and not small:
        return _ConvolutionMap(layer, device)
    if isinstance(layer, SparseAffine) and not small:
        return _SparseMap(layer, device)
    return _DenseMap(layer, device)
