"""The table of models, and the parts that they are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

IMAGE = (3, 8, 6)
OPSETS = (8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22)

# Strictly increasing functions, which are ignored at the end of a model: since which operator set.
INCREASING = {
    **dict.fromkeys(("Atan", "Erf", "Exp", "Sigmoid", "Softplus", "Softsign", "Tanh"), 9),
    "Elu": 9,
    "Selu": 9,
    "Celu": 12,
}

Builder = Any
Model = Callable[[Builder], Builder]
RNG = np.random.default_rng(29)
_START = RNG.bit_generator.state


@dataclass(frozen=True)
class Entry:
    """A model, the operator sets it is built for, and the size of its batch."""

    make: Model
    opsets: tuple[int, ...]
    batch: int | str

    def built(self, build: type, opset: int | None = None) -> Builder:
        """The model of an operator set; of the latest, if none is named.

        Its weights are the same whenever it is built.
        """
        RNG.bit_generator.state = _START
        return self.make(build(IMAGE, opset or self.opsets[-1], self.batch))


MODELS: dict[str, Entry] = {}


def model(since: int = 8, batch: int | str = "batch") -> Callable[[Model], Model]:
    """Enter a model into the table."""

    def enter(make: Model) -> Model:
        opsets = tuple(opset for opset in OPSETS if opset >= since)
        MODELS[make.__name__] = Entry(make, opsets, batch)
        return make

    return enter


def weights(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape) / np.sqrt(max(np.prod(shape[1:]), 1))


def scores(builder: Builder, size: int) -> Builder:
    return builder.add("Flatten").add("Gemm", weights(size, 5), weights(5))


def conv(builder: Builder, filters: int, channels: int, **attributes: Any) -> Builder:
    """A convolution that keeps the image's size."""
    weight = weights(filters, channels, 3, 3)
    return builder.add("Conv", weight, weights(filters), pads=[1, 1, 1, 1], **attributes)


def normalised(builder: Builder, channels: int) -> Builder:
    means, variances = weights(channels), abs(weights(channels)) + 0.1
    return builder.add(
        "BatchNormalization", weights(channels), weights(channels), means, variances, epsilon=1e-3
    )
