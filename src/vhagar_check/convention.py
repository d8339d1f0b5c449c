"""The input convention that a certificate states: what happens to an image before the model.

The certificate's question is about images, channels first. In the header's `model.convention` it
says how the model takes them: normalised, with the channels last, in another shape. Here this
becomes layers in front of the network, so that every proof is about the images themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.layers import Array, Floats, Linear, Network, Plain, Scale, Shape

_KNOWN = {"layout", "model_shape", "mean", "std"}


@dataclass(eq=False)
class Permute(Plain):
    """Entry k of the result is entry `order[k]` of the input."""

    order: NDArray[np.int64]

    def __post_init__(self) -> None:
        self.out_size = self.in_size = len(self.order)
        self.bias = np.zeros(len(self.order))
        self.terms = 1

    @property
    def kernel(self) -> Floats:
        return np.ones(len(self.order))

    @property
    def exact_kernel(self) -> Exact:
        return Exact.of(self.kernel)

    def forward(self, kernel: Array, z: Array) -> Array:
        return np.asarray(z[:, self.order] * kernel)

    def backward(self, kernel: Array, p: Array) -> Array:
        found = np.empty_like(p)
        found[:, self.order] = p * kernel
        return found


def with_convention(network: Network, stated: Any, input_shape: Shape) -> tuple[Network, str]:
    """Put the convention in front of the network, and describe it in words."""
    if stated is None:
        return network, ""
    if not isinstance(stated, dict) or set(stated) != _KNOWN:
        raise Rejected("the certificate's input convention is not understood")
    size = math.prod(network.input_shape)
    if tuple(stated["model_shape"]) != network.input_shape or math.prod(input_shape) != size:
        raise Rejected("the certificate's input convention is about inputs of another shape")
    last = stated["layout"] == "hwc" and len(input_shape) == 3
    taken = (*input_shape[1:], input_shape[0]) if last else input_shape
    if len(_sizes(network.input_shape)) > 1 and _sizes(taken) != _sizes(network.input_shape):
        raise Rejected("the certificate reads the model's image input as one of another shape")
    layers: list[Linear] = []
    words = []
    one, zero = np.ones(size), np.zeros(size)
    mean, std = (_numbers(stated[name], input_shape) for name in ("mean", "std"))
    if mean is not None:
        layers.append(Scale(one, one, -mean))
        words.append(f"minus {_listed(stated['mean'])}")
    if std is not None:
        if not (std > 0).all():
            raise Rejected("the certificate's input convention divides by what is not above 0")
        layers.append(Scale(one, std, zero))
        words.append(f"divided by {_listed(stated['std'])}")
    if stated["layout"] == "hwc" and len(input_shape) == 3:
        order = np.arange(size).reshape(input_shape).transpose(1, 2, 0)
        layers.append(Permute(np.ascontiguousarray(order).reshape(-1)))
        words.append("with its channels last")
    elif stated["layout"] != "chw":
        raise Rejected("the certificate's input convention has an unknown layout")
    words.append(f"as {'x'.join(map(str, network.input_shape))} values")
    first = (*layers, *network.stages[0])
    stages = (first, *network.stages[1:])
    return replace(network, stages=stages, input_shape=input_shape), ", ".join(words)


def _sizes(shape: Shape) -> Shape:
    """The shape without dimensions of 1; with two or more others, the model takes an image."""
    return tuple(size for size in shape if size != 1)


def _numbers(stated: Any, shape: Shape) -> Floats | None:
    """Spread one number over all entries, or one for each channel or entry of a vector."""
    values = np.array([float(value) for value in stated])
    if not len(values):
        return None
    if len(values) not in (1, 1 if len(shape) == 2 else shape[0]) or not np.isfinite(values).all():
        raise Rejected("the certificate's input convention has numbers that do not fit")
    spread = values.reshape(-1, *(1,) * (len(shape) - 1))
    return np.ascontiguousarray(np.broadcast_to(spread, shape)).reshape(-1)


def _listed(values: list[float]) -> str:
    text = ",".join(repr(float(value)) for value in values)
    return text if len(values) == 1 else f"[{text}]"
