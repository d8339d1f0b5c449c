"""ONNX files to networks.

The reader follows the one path from the model's input to its output, translating node by node
through the table `TRANSLATORS`. It never runs the model: constants are read, everything else is
either translated or refused by name.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto

from vhagar.errors import InvalidInput, InvalidNetwork, UnsupportedOperator
from vhagar.network.chain import LayerChain
from vhagar.network.conventions import Numbers, convention
from vhagar.network.layers import LARGEST_TENSOR, Array, Shape
from vhagar.network.network import ModelFile, Network
from vhagar.network.onnx_front import with_front
from vhagar.network.onnx_operators import SUPPORTED_OPERATORS, TRANSLATORS, Node
from vhagar.network.onnx_tensors import load_external_tensors, read_tensor

_ATTRIBUTE_TYPES = {
    int: AttributeProto.INT,
    float: AttributeProto.FLOAT,
    bytes: AttributeProto.STRING,
    list: AttributeProto.INTS,
}


def read_onnx(
    path: str | Path,
    *,
    layout: str = "chw",
    image_shape: Sequence[int] | None = None,
    mean: Numbers | None = None,
    std: Numbers | None = None,
) -> Network:
    """Read a ReLU classifier from an ONNX file.

    The options say how the model takes an image (`vhagar.network.conventions`): `layout` is "hwc"
    where its channels are last, `image_shape` is `(channels, rows, columns)` or `(rows, columns)`
    where its input is flat, and `mean` and `std` normalise where the model does not do so itself.
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidInput(f"no model file at {path}; check the path")
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:  # protobuf raises classes of its own for damaged files
        raise InvalidNetwork(
            f"{path} is not a readable ONNX file ({error}); export the model again"
        ) from error
    load_external_tensors(model, path)
    network = read_model(model, path.stem, layout, image_shape, mean, std)
    file = ModelFile(path, hashlib.sha256(path.read_bytes()).hexdigest())
    return replace(network, file=file)


def read_model(model: Any, name: str, *conventions: Any) -> Network:
    """The network of a model in memory; the conventions are those of `read_onnx`, in its order."""
    # What overflows here is found where layers check that their numbers are finite.
    with np.errstate(all="ignore"):
        reader = GraphReader(model)
        input_name, shape = reader.input()
        front = convention(shape, *conventions)
        if front.is_plain:
            return reader.read(name)
        network = GraphReader(with_front(model, input_name, front)).read(name)
    return replace(network, model=model.SerializeToString(), convention=front)


class GraphReader:
    """Walks one graph. `data` is the name of the tensor that the chain's end produces."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.graph = model.graph
        self.constants: dict[str, np.ndarray[Any, Any]] = {
            tensor.name: read_tensor(tensor) for tensor in self.graph.initializer
        }
        self.data = ""
        self.chain: LayerChain

    def read(self, name: str) -> Network:
        if len(self.graph.output) != 1:
            outputs = [value.name for value in self.graph.output]
            raise InvalidNetwork(f"a classifier has one output; this model has {outputs}")
        self.data, shape = self.input()
        self.chain = LayerChain(shape)
        for node in self._nodes_on_the_way():
            self._translate(node)
        output = self.graph.output[0].name
        if output != self.data:
            raise InvalidNetwork(
                f"the output {output!r} does not depend on the input; the graph is disconnected"
            )
        if len(self.chain.shape) != 1:
            raise InvalidNetwork(
                f"the output {output!r} has shape {self.chain.shape} for each input, not that of a "
                "vector of scores; is a Flatten missing at the end?"
            )
        layers = self.chain.finish()
        return Network(layers, shape, name, self.model.SerializeToString())

    def input(self) -> tuple[str, Shape]:
        """The name and the shape of the model's one input."""
        # Old files list the initialisers among the inputs.
        inputs = [value for value in self.graph.input if value.name not in self.constants]
        if len(inputs) != 1:
            names = [value.name for value in inputs]
            raise InvalidNetwork(f"a classifier has one input; this model has {names}")
        kind = inputs[0].type.tensor_type
        if kind.elem_type not in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE):
            raise InvalidNetwork(
                f"the input {inputs[0].name!r} is not a float tensor; export the model in float32"
            )
        dims = [dim.dim_value if dim.HasField("dim_value") else 0 for dim in kind.shape.dim]
        if len(dims) < 2 or dims[0] > 1 or min(dims[1:]) < 1:
            raise InvalidNetwork(
                f"the input {inputs[0].name!r} has shape {dims} (0 stands for unknown); it needs a "
                "batch dimension (1 or symbolic) first and fixed dimensions after it"
            )
        if math.prod(dims[1:]) > LARGEST_TENSOR:
            raise InvalidNetwork(f"the input {inputs[0].name!r} of shape {dims} is too large")
        return inputs[0].name, tuple(dims[1:])

    def _nodes_on_the_way(self) -> list[Node]:
        """The nodes the output depends on, in the file's (topological) order."""
        needed = {self.graph.output[0].name}
        chosen = []
        for node in reversed(self.graph.node):
            if needed.intersection(node.output):
                chosen.append(node)
                needed.update(filter(None, node.input))  # the empty name is an input left out
        return chosen[::-1]

    def _translate(self, node: Node) -> None:
        translator = TRANSLATORS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if translator is None:
            raise self.refusal(node, "is not supported")
        try:
            translator(self, node)
        except InvalidNetwork as error:
            if isinstance(error, UnsupportedOperator):
                raise
            raise InvalidNetwork(f"node {_label(node)!r} ({node.op_type}): {error}") from error
        except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
            raise InvalidNetwork(
                f"node {_label(node)!r} ({node.op_type}) is malformed ({error}); "
                "export the model again"
            ) from error

    def refusal(self, node: Node, reason: str) -> UnsupportedOperator:
        return UnsupportedOperator(node.op_type, _label(node), reason, SUPPORTED_OPERATORS)

    def advance(self, node: Node) -> None:
        """The node's first output is the chain's new end."""
        self.data = node.output[0]

    def constant(self, node: Node, position: int, what: str) -> np.ndarray[Any, Any]:
        """The constant at an input of the node, or an error that says it is missing."""
        name = node.input[position] if position < len(node.input) else ""
        if name not in self.constants:
            raise InvalidNetwork(
                f"its {what} {name!r} is not a constant of the model (missing initialiser?)"
            )
        return self.constants[name]

    def weights(self, node: Node, position: int, what: str) -> Array:
        values = self.constant(node, position, what)
        if values.dtype.kind != "f":
            raise InvalidNetwork(f"its {what} has type {values.dtype}, not a float type")
        array = np.asarray(values, dtype=np.float64)
        if not np.isfinite(array).all():
            raise InvalidNetwork(
                f"its {what} {node.input[position]!r} holds NaN or infinity; "
                "the model was probably damaged in training or export"
            )
        if not array.size:
            raise InvalidNetwork(f"its {what} {node.input[position]!r} is empty")
        return array

    def attributes(self, node: Node, **defaults: Any) -> dict[str, Any]:
        """The node's attributes over their defaults, whose types they must have."""
        found = dict(defaults)
        for item in node.attribute:
            if item.name not in defaults:
                raise self.refusal(node, f"has the attribute {item.name!r}, which is not known")
            if item.type != _ATTRIBUTE_TYPES[type(defaults[item.name])] or item.ref_attr_name:
                raise InvalidNetwork(f"its attribute {item.name!r} has the wrong type")
            found[item.name] = onnx.helper.get_attribute_value(item)
        return found

    def require_data(self, node: Node, position: int = 0) -> None:
        if position >= len(node.input) or node.input[position] != self.data:
            raise self.refusal(
                node,
                "takes a tensor that is not the previous node's output; "
                "branches and skip connections are not supported yet",
            )

    def data_position(self, node: Node) -> int:
        """Which of a binary node's two inputs is the data; the other must be a constant."""
        places = [k for k, name in enumerate(node.input) if name == self.data]
        if len(places) != 1 or len(node.input) != 2:
            raise self.refusal(node, "needs one constant input; branches are not supported")
        if node.input[1 - places[0]] not in self.constants:
            self.require_data(node, 1 - places[0])
        return places[0]


def _label(node: Node) -> str:
    return str(node.name or (node.output[0] if node.output else "unnamed"))
