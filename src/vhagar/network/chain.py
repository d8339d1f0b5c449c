"""Builds the list of layers of a network step by step.

Element-wise scalings and shifts (input normalisation, biases that come as an Add) are not layers of
their own: they fold into the linear layer before them or, where there is none, into the next one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from vhagar.errors import InvalidNetwork
from vhagar.network.convolution import Convolution
from vhagar.network.layers import AbstractLayer, AbstractLinear, Affine, Array, Relu, Shape

# The most entries of a full matrix that a scaling from pixel to pixel may make of a convolution.
_LARGEST_MATRIX = 50_000_000


class LayerChain:
    """The layers so far and the shape of what leaves them."""

    def __init__(self, input_shape: Shape) -> None:
        self.shape: Shape = input_shape
        self._layers: list[AbstractLayer] = []
        # A scaling `x * scale + offset` of what leaves the last layer, waiting for a linear layer.
        self._pending: tuple[Array, Array] | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def finish(self) -> tuple[AbstractLayer, ...]:
        self._settle()
        return tuple(self._layers)

    def reshape(self, shape: Shape) -> None:
        self.shape = shape

    def relu(self) -> None:
        self._settle()
        self._append(Relu(self.shape))

    def fully_connected(self, weight: Array, bias: Array) -> None:
        """`weight` is `(out, in)` and acts on a flat input."""
        if len(self.shape) != 1 or weight.shape[1] != self.size:
            raise InvalidNetwork(
                f"its weight takes {weight.shape[1]} values, but it receives {self.shape}. "
                "Is a Flatten missing before it?"
            )
        if self._pending is not None:
            scale, offset = (part.reshape(-1) for part in self._pending)
            bias = bias + weight @ offset
            weight = weight * scale
            self._pending = None
        self._append(Affine(weight, bias, self.shape, (len(weight),)))

    def convolution(
        self, weight: Array, bias: Array, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> None:
        layer = Convolution(weight, bias, self.shape, stride, padding, dilation, groups)
        if self._pending is None:
            self._append(layer)
            return
        scale, offset = (part.reshape(self.shape) for part in self._pending)
        self._pending = None
        # With padding, the shift does not reach the border's zeros: the bias differs by place.
        shifted = (layer.flat_bias + layer.correlate(offset[None]).reshape(-1)).reshape(
            layer.out_shape
        )
        per_channel = scale[:, :1, :1]
        if (scale == per_channel).all():
            spread = np.repeat(
                per_channel.reshape(groups, 1, -1), len(weight) // groups, axis=1
            ).reshape(len(weight), -1, 1, 1)
            self._append(replace(layer, weight=weight * spread, bias=shifted))
        else:
            columns = _full_matrix(layer) * scale.reshape(-1)
            self._append(Affine(columns, shifted.reshape(-1), self.shape, layer.out_shape))

    def scale_and_shift(self, scale: Array, offset: Array) -> None:
        """`x * scale + offset`; both constants broadcast to the current shape."""
        scale, offset = self._broadcast(scale), self._broadcast(offset)
        last = self._layers[-1] if self._layers else None
        if isinstance(last, AbstractLinear) and self._pending is None:
            self._layers[-1] = _scaled_output(last, scale.reshape(-1), offset.reshape(-1))
        elif self._pending is None:
            self._pending = scale, offset
        else:
            old_scale, old_offset = (part.reshape(self.shape) for part in self._pending)
            self._pending = old_scale * scale, old_offset * scale + offset

    def _broadcast(self, values: Array) -> Array:
        if values.ndim == len(self.shape) + 1 and values.shape[0] == 1:
            values = values[0]  # the batch dimension
        try:
            return np.broadcast_to(values, self.shape)
        except ValueError as error:
            raise InvalidNetwork(
                f"its constant of shape {values.shape} does not fit data of shape {self.shape}"
            ) from error

    def _settle(self) -> None:
        """A scaling that no linear layer follows becomes a (diagonal) linear layer."""
        if self._pending is None:
            return
        scale, offset = (part.reshape(-1) for part in self._pending)
        if self.size**2 > _LARGEST_MATRIX:
            raise InvalidNetwork(
                f"a scaling of {self.size} values has no linear layer beside it to fold into"
            )
        self._pending = None
        self._append(Affine(np.diag(scale), offset, self.shape, self.shape))

    def _append(self, layer: AbstractLayer) -> None:
        self._layers.append(layer)
        self.shape = layer.out_shape


def _scaled_output(layer: AbstractLinear, scale: Array, offset: Array) -> AbstractLinear:
    bias = layer.flat_bias * scale + offset
    if isinstance(layer, Affine):
        return replace(layer, weight=layer.weight * scale[:, None], bias=bias)
    assert isinstance(layer, Convolution)  # the only other linear layer
    grid = scale.reshape(layer.out_shape)
    per_filter = grid[:, 0, 0]
    if (grid == per_filter[:, None, None]).all():
        by_place = bias.reshape(layer.out_shape)
        uniform = (by_place == by_place[:, :1, :1]).all()
        kept = by_place[:, 0, 0] if uniform else by_place
        return replace(layer, weight=layer.weight * per_filter[:, None, None, None], bias=kept)
    return Affine(_full_matrix(layer) * scale[:, None], bias, layer.in_shape, layer.out_shape)


def _full_matrix(layer: Convolution) -> Array:
    if layer.in_size * layer.out_size > _LARGEST_MATRIX:
        raise InvalidNetwork(
            "a scaling that differs from pixel to pixel cannot fold into so large a convolution"
        )
    matrix: Array = layer.matrix.toarray()
    return matrix
