"""The linear layers in torch: coefficients backwards, values forwards.

They have the interface of the network's own layers (`flat_bias`, `pull`, `forward`, `absolute`). In
float32, convolutions stay convolutions unless their matrix is small: then one dense product is
faster. In float64, every layer is a dense matrix, because the bounds on rounding are for plain sums
of products.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from vhagar.network import AbstractLinear, Convolution, SparseAffine
from vhagar.relaxation.stages import Stage
from vhagar.runtime.devices import Tensor, require_torch, sparse_tensor

# Most entries of a small matrix; far fewer on a CPU, where a dense product's extra operations cost.
_SMALL = {"cpu": 2**14, "cuda": 2**21}


def torch_stages(stages: Sequence[Stage], device: Any, dtype: Any = None) -> list[Stage]:
    """The stages in torch, in float32 unless told otherwise."""
    kind = require_torch().float32 if dtype is None else dtype
    return [Stage(tuple(_layer(layer, device, kind) for layer in s.layers)) for s in stages]


def _layer(layer: AbstractLinear, device: Any, dtype: Any) -> AbstractTorchLayer:
    small = layer.in_size * layer.out_size <= _SMALL[device.type]
    exact = dtype == require_torch().float64
    if isinstance(layer, Convolution) and not small and not exact:
        return _ConvolutionLayer(layer, device, dtype)
    if isinstance(layer, SparseAffine) and not small and not exact:
        return _SparseLayer(layer, device, dtype)
    return _DenseLayer(layer, device, dtype)


class AbstractTorchLayer(ABC):
    """`y = W x + bias` on flat rows."""

    def __init__(self, layer: AbstractLinear, device: Any, dtype: Any) -> None:
        self._plain = layer
        self._device, self._dtype = device, dtype
        self.in_size, self.out_size = layer.in_size, layer.out_size
        self.flat_bias = self._tensor(layer.flat_bias)

    def _tensor(self, values: Any) -> Tensor:
        return require_torch().tensor(values, dtype=self._dtype, device=self._device)

    @abstractmethod
    def pull(self, coefficients: Tensor) -> Tensor:
        """Map coefficients on the outputs, `(rows, out)`, to those on the inputs, `(rows, in)`."""

    @abstractmethod
    def forward(self, values: Tensor) -> Tensor:
        """Map inputs `(rows, in)` to outputs `(rows, out)`, bias included."""

    @cached_property
    def absolute(self) -> AbstractTorchLayer:
        """The layer with the absolute values of its weights and biases."""
        return type(self)(self._plain.absolute, self._device, self._dtype)


class _DenseLayer(AbstractTorchLayer):
    def __init__(self, layer: AbstractLinear, device: Any, dtype: Any) -> None:
        super().__init__(layer, device, dtype)
        self._matrix = self._tensor(layer.matrix.toarray()).contiguous()

    def pull(self, coefficients: Tensor) -> Tensor:
        return coefficients @ self._matrix

    def forward(self, values: Tensor) -> Tensor:
        return require_torch().addmm(self.flat_bias, values, self._matrix.T)


class _SparseLayer(AbstractTorchLayer):
    def __init__(self, layer: SparseAffine, device: Any, dtype: Any) -> None:
        super().__init__(layer, device, dtype)
        self._forward, self._pull = (
            sparse_tensor(matrix, dtype, device) for matrix in (layer.weight, layer.weight.T)
        )

    def pull(self, coefficients: Tensor) -> Tensor:
        return (self._pull @ coefficients.T).T.contiguous()

    def forward(self, values: Tensor) -> Tensor:
        return (self._forward @ values.T).T + self.flat_bias


class _ConvolutionLayer(AbstractTorchLayer):
    def __init__(self, layer: Convolution, device: Any, dtype: Any) -> None:
        super().__init__(layer, device, dtype)
        self._layer = layer
        self._weight = self._tensor(layer.weight)
        top, left, bottom, right = layer.padding
        self._padding = (left, right, top, bottom)
        _, height, width = layer.in_shape
        self._padded = (height + top + bottom, width + left + right)

    def pull(self, coefficients: Tensor) -> Tensor:
        layer, functional = self._layer, require_torch().nn.functional
        images = coefficients.reshape(-1, *layer.out_shape)
        found = functional.conv_transpose2d(
            images, self._weight, stride=layer.stride, groups=layer.groups, dilation=layer.dilation
        )
        # A stride may leave the last pixels unused.
        missing = [full - has for full, has in zip(self._padded, found.shape[2:], strict=True)]
        if any(missing):
            found = functional.pad(found, (0, missing[1], 0, missing[0]))
        left, _, top, _ = self._padding
        _, height, width = layer.in_shape
        inner = found[:, :, top : top + height, left : left + width]
        return inner.reshape(len(coefficients), -1)

    def forward(self, values: Tensor) -> Tensor:
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
        return found.reshape(len(values), -1) + self.flat_bias
