"""Plain facts about a model file: its contents, and the layers it becomes."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vhagar.errors import InvalidInput, Refusal, UnsupportedOperator
from vhagar.network import AbstractLayer, Affine, Convolution, Network, Relu, SparseAffine
from vhagar.network.onnx_reader import model_content, model_shape, parse_model, read_onnx
from vhagar.network.onnx_usage import opset_of
from vhagar.version import __version__

# Increases when a field changes its meaning or is removed.
_SCHEMA = 1


@dataclass(frozen=True)
class LayerFacts:
    """One layer as every engine sees it; `weights` counts the numbers it holds."""

    kind: str
    in_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    relu_units: int
    linear_units: int
    weights: int
    detail: str


@dataclass(frozen=True)
class DatasetFacts:
    """What a network says about a data set; there is no accuracy without labels.

    `class_name` is that of the most frequent class, if the domain has names. `labels` are the
    smallest and the largest label.
    """

    file: str
    inputs: int
    accuracy: float | None
    most_frequent: int
    share: float
    class_name: str = ""
    labels: tuple[int, int] | None = None


@dataclass(frozen=True)
class Inspection:
    """The output of `vhagar inspect`; there are no layers if something is not supported."""

    model: str
    opset: int
    producer: str
    parameters: int
    operators: dict[str, int]
    input_range: tuple[float, float]
    input_shape: tuple[int, ...]
    convention: str | None
    classes: int | None
    layers: tuple[LayerFacts, ...]
    unsupported: tuple[Refusal, ...]
    notes: tuple[str, ...]
    dataset: DatasetFacts | None = None

    @property
    def relu_units(self) -> int:
        return sum(layer.relu_units for layer in self.layers)

    @property
    def linear_units(self) -> int:
        return sum(layer.linear_units for layer in self.layers)

    def json(self) -> str:
        """Return everything as strict JSON."""
        units = {"relu_units": self.relu_units, "linear_units": self.linear_units}
        head = {"schema": _SCHEMA, "vhagar": __version__}
        return json.dumps({**head, **asdict(self), **units}, indent=2, allow_nan=False) + "\n"


def inspect(
    path: Path, input_range: tuple[float, float] = (0.0, 1.0), **conventions: Any
) -> Inspection:
    """Inspect a model file; a file that is not a classifier is an error.

    The conventions are those of `read_onnx`.
    """
    low, high = input_range
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInput(f"the input range [{low}, {high}] is empty or not finite")
    model = parse_model(model_content(path), path)
    network: Network | None = None
    refusals: tuple[Refusal, ...] = ()
    try:
        network = read_onnx(path, **conventions)
    except UnsupportedOperator as error:
        refusals = error.refusals
    return Inspection(
        model=str(path),
        opset=opset_of(model),
        producer=f"{model.producer_name} {model.producer_version}".strip(),
        parameters=sum(math.prod(tensor.dims) for tensor in model.graph.initializer),
        operators=dict(sorted(Counter(node.op_type for node in model.graph.node).items())),
        input_range=input_range,
        input_shape=model_shape(model) if network is None else network.input_shape,
        convention=None if network is None or not network.convention else str(network.convention),
        classes=None if network is None else network.classes,
        layers=() if network is None else tuple(_facts(layer) for layer in network.layers),
        unsupported=refusals,
        notes=() if network is None else network.notes,
    )


def _facts(layer: AbstractLayer) -> LayerFacts:
    units = layer.neurons if isinstance(layer, Relu) else 0
    linear = layer.in_size - units if isinstance(layer, Relu) else 0
    shapes = tuple(int(size) for size in layer.in_shape), tuple(int(n) for n in layer.out_shape)
    return LayerFacts(type(layer).__name__, *shapes, units, linear, *_weights(layer))


def _weights(layer: AbstractLayer) -> tuple[int, str]:
    """Return the number of weights of a layer, and details about it."""
    if isinstance(layer, Convolution):
        return layer.weight.size + layer.bias.size, _convolution(layer)
    if isinstance(layer, Affine):
        return layer.weight.size + layer.bias.size, ""
    if isinstance(layer, SparseAffine):
        share = layer.weight.nnz / math.prod(layer.weight.shape)
        return int(layer.weight.nnz) + layer.bias.size, f"{100 * share:.2f} % of the matrix"
    return 0, ""


def _convolution(layer: Convolution) -> str:
    parts = ["kernel " + _times(layer.weight.shape[2:])]
    if layer.stride != (1, 1):
        parts.append("stride " + _times(layer.stride))
    if any(layer.padding):
        parts.append("padding " + ",".join(str(size) for size in layer.padding))
    if layer.dilation != (1, 1):
        parts.append("dilation " + _times(layer.dilation))
    if layer.groups != 1:
        parts.append(f"{layer.groups} groups")
    return ", ".join(parts)


def _times(sizes: Any) -> str:
    return "x".join(str(size) for size in sizes)
