"""A classifier as a list of layers, evaluated in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vhagar.array_types import Array
from vhagar.errors import InvalidNetwork
from vhagar.network.conventions import Convention
from vhagar.network.layers import AbstractLayer, Relu, Shape
from vhagar.network.scores import Scores


@dataclass(frozen=True)
class ModelFile:
    """The file a network was read from, and the SHA-256 of its bytes, in hexadecimal."""

    path: Path
    sha256: str


@dataclass(frozen=True, eq=False)
class Network:
    """An ordered list of layers from an input of `input_shape` to a vector of scores.

    `model` holds the bytes of the ONNX file the network was read from, so that the witness check
    can ask onnxruntime about the original. It is None for networks built in memory, and so is
    `file`. `convention` is applied to an input before that model takes it, and the layers include
    it; None means that the model takes inputs as they are. `scores` says how scores are taken from
    the file's model; None means that its only output holds them, and those of `model` always are.
    `notes` are remarks of the reader.
    """

    layers: tuple[AbstractLayer, ...]
    input_shape: Shape
    name: str = "network"
    model: bytes | None = field(default=None, repr=False)
    file: ModelFile | None = None
    convention: Convention | None = None
    scores: Scores | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.layers:
            raise InvalidNetwork("the network has no layers; was the right file given?")
        size = math.prod(self.input_shape)
        for position, layer in enumerate(self.layers):
            if layer.in_size != size:
                raise InvalidNetwork(
                    f"layer {position} ({type(layer).__name__}) takes {layer.in_size} values but "
                    f"receives {size}"
                )
            size = layer.out_size
        if size < 2:
            raise InvalidNetwork(
                f"a classifier needs at least two scores; this network has {size} output(s)"
            )

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.input_shape))
        units = f"{self.hidden_neurons} hidden neurons, {self.classes} classes"
        return f"Network({self.name}, input {shape}, {units})"

    @property
    def input_size(self) -> int:
        return math.prod(self.input_shape)

    @property
    def classes(self) -> int:
        """The number of classes, which are labelled from 0."""
        return self.layers[-1].out_size

    @property
    def hidden_neurons(self) -> int:
        """The number of ReLU units."""
        return sum(layer.neurons for layer in self.layers if isinstance(layer, Relu))

    @property
    def linear_units(self) -> int:
        """The number of units of ReLU layers that pass their input through."""
        relus = [layer for layer in self.layers if isinstance(layer, Relu)]
        return sum(layer.in_size - layer.neurons for layer in relus)

    def forward(self, batch: Array) -> Array:
        """Scores `(batch, classes)` of inputs `(batch, ...)`, in float64."""
        values = self._flat(batch)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite, nobody believes
            for layer in self.layers:
                values = layer.forward(values)
        return values

    def preactivations(self, batch: Array) -> tuple[list[Array], Array]:
        """Return the input of each ReLU layer, each `(batch, neurons)`, and the scores."""
        values = self._flat(batch)
        entering = []
        with np.errstate(over="ignore", invalid="ignore"):
            for layer in self.layers:
                if isinstance(layer, Relu):
                    entering.append(values)
                values = layer.forward(values)
        return entering, values

    def _flat(self, batch: Array) -> Array:
        values = np.asarray(batch, dtype=np.float64)
        return values.reshape(-1, self.input_size)


def plain_conventions(network: Network) -> dict[str, dict[str, Any] | None]:
    """How a network's model takes an input and gives its scores, in JSON's own types."""
    taken, scores = network.convention, network.scores
    return {
        "convention": None if taken is None else taken.plain(),
        "scores": None if scores is None else scores.plain(),
    }


def confidence(scores: Array, label: int) -> Array:
    """`score[label] - max(other scores)` for each row of `(batch, classes)`."""
    others = np.delete(scores, label, axis=-1)
    with np.errstate(invalid="ignore"):  # scores beyond float64 have no difference: NaN
        margins: Array = scores[..., label] - others.max(axis=-1)
    return margins
