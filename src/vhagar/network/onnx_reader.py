"""ONNX files to networks.

The reader follows the one path from the model's input to its output, translating node by node
through the table `_TRANSLATORS`. It never runs the model: constants are read, everything else is
either translated or refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from vhagar.errors import InvalidInput, InvalidNetwork, UnsupportedOperator
from vhagar.network.chain import LayerChain
from vhagar.network.layers import Array, Shape
from vhagar.network.network import Network
from vhagar.network.onnx_tensors import load_external_tensors, read_tensor

Node = Any  # onnx.NodeProto: protobuf classes carry no types


def read_onnx(path: str | Path) -> Network:
    """Read a ReLU classifier from an ONNX file."""
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
    return _GraphReader(model).read(path.stem)


class _GraphReader:
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
        self.data, shape = self._input()
        self.chain = LayerChain(shape)
        for node in self._nodes_on_the_way():
            self._translate(node)
        output = self.graph.output[0].name
        if output != self.data:
            raise InvalidNetwork(
                f"the output {output!r} does not depend on the input; the graph is disconnected"
            )
        layers = self.chain.finish()
        return Network(layers, shape, name, self.model.SerializeToString())

    def _input(self) -> tuple[str, Shape]:
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
        return inputs[0].name, tuple(dims[1:])

    def _nodes_on_the_way(self) -> list[Node]:
        """The nodes the output depends on, in the file's (topological) order."""
        needed = {self.graph.output[0].name}
        chosen = []
        for node in reversed(self.graph.node):
            if needed.intersection(node.output):
                chosen.append(node)
                needed.update(node.input)
        return chosen[::-1]

    def _translate(self, node: Node) -> None:
        translator = _TRANSLATORS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if translator is None:
            raise self.refusal(node, "is not supported")
        try:
            translator(self, node)
        except InvalidNetwork as error:
            if isinstance(error, UnsupportedOperator):
                raise
            raise InvalidNetwork(f"node {_label(node)!r} ({node.op_type}): {error}") from error

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
        if values.dtype.kind not in "fiu":
            raise InvalidNetwork(f"its {what} has type {values.dtype}, not a number")
        array = np.asarray(values, dtype=np.float64)
        if not np.isfinite(array).all():
            raise InvalidNetwork(
                f"its {what} {node.input[position]!r} holds NaN or infinity; "
                "the model was probably damaged in training or export"
            )
        return array

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


def _attributes(node: Node) -> dict[str, Any]:
    return {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}


def _constant(reader: _GraphReader, node: Node) -> None:
    attributes = _attributes(node)
    if "value" in attributes:
        value = read_tensor(attributes["value"])
    else:
        plain = [attributes[key] for key in attributes if key.startswith("value_")]
        if len(plain) != 1 or isinstance(plain[0], bytes):
            raise reader.refusal(node, "holds something other than a dense tensor of numbers")
        value = np.asarray(plain[0])
    reader.constants[node.output[0]] = value


def _identity(reader: _GraphReader, node: Node) -> None:
    if node.input[0] in reader.constants:
        reader.constants[node.output[0]] = reader.constants[node.input[0]]
        return
    reader.require_data(node)
    reader.advance(node)


def _dropout(reader: _GraphReader, node: Node) -> None:
    if len(node.input) > 2 and node.input[2] and bool(reader.constant(node, 2, "training mode")):
        raise reader.refusal(node, "is in training mode; export the model in evaluation mode")
    reader.require_data(node)
    reader.advance(node)


def _relu(reader: _GraphReader, node: Node) -> None:
    reader.require_data(node)
    reader.chain.relu()
    reader.advance(node)


def _gemm(reader: _GraphReader, node: Node) -> None:
    attributes = _attributes(node)
    reader.require_data(node)
    if attributes.get("transA", 0):
        raise reader.refusal(node, "transposes its data, which would mix the images of a batch")
    weight = reader.weights(node, 1, "weight")
    if weight.ndim != 2:
        raise InvalidNetwork(f"its weight has rank {weight.ndim}, not 2")
    # Gemm multiplies from the right: y = x B, so W is B transposed.
    weight = weight if attributes.get("transB", 0) else weight.T
    bias = np.zeros(len(weight))
    if len(node.input) > 2 and node.input[2]:
        given = reader.weights(node, 2, "bias")
        if given.size not in (1, len(weight)):
            raise InvalidNetwork(f"its bias has shape {given.shape}, not ({len(weight)},)")
        bias = bias + given.reshape(-1) * attributes.get("beta", 1.0)
    reader.chain.fully_connected(weight * attributes.get("alpha", 1.0), bias)
    reader.advance(node)


def _matmul(reader: _GraphReader, node: Node) -> None:
    reader.require_data(node)
    weight = reader.weights(node, 1, "weight")
    if weight.ndim != 2:
        raise InvalidNetwork(f"its weight has rank {weight.ndim}, not 2")
    reader.chain.fully_connected(weight.T, np.zeros(weight.shape[1]))
    reader.advance(node)


def _convolution(reader: _GraphReader, node: Node) -> None:
    attributes = _attributes(node)
    reader.require_data(node)
    weight = reader.weights(node, 1, "weight")
    if weight.ndim != 4:
        raise InvalidNetwork(f"its weight has rank {weight.ndim}; only 2-D convolutions (rank 4)")
    has_bias = len(node.input) > 2 and node.input[2]
    bias = reader.weights(node, 2, "bias") if has_bias else np.zeros(len(weight))
    kernel = tuple(attributes.get("kernel_shape", weight.shape[2:]))
    if kernel != weight.shape[2:]:
        raise InvalidNetwork(f"kernel_shape {kernel} disagrees with its weight {weight.shape}")
    stride = tuple(attributes.get("strides", (1, 1)))
    dilation = tuple(attributes.get("dilations", (1, 1)))
    mode = attributes.get("auto_pad", b"NOTSET").decode()
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        padding = _same_padding(reader.chain.shape, kernel, stride, dilation, mode)
    else:
        padding = tuple(attributes.get("pads", (0, 0, 0, 0)))
    if not len(stride) == len(dilation) == 2 or len(padding) != 4:
        raise InvalidNetwork("its strides, dilations or pads are not those of a 2-D convolution")
    reader.chain.convolution(weight, bias, stride, padding, dilation, attributes.get("group", 1))
    reader.advance(node)


def _same_padding(
    shape: Shape, kernel: Shape, stride: Shape, dilation: Shape, mode: str
) -> tuple[int, ...]:
    before, after = [], []
    for size, width, step, gap in zip(shape[1:], kernel, stride, dilation, strict=True):
        total = max((-(-size // step) - 1) * step + gap * (width - 1) + 1 - size, 0)
        small, large = total // 2, total - total // 2
        before.append(small if mode == "SAME_UPPER" else large)
        after.append(large if mode == "SAME_UPPER" else small)
    return (*before, *after)


def _elementwise(reader: _GraphReader, node: Node) -> None:
    """Add, Sub, Mul and Div with a constant: `x * scale + offset`, folded into a linear layer."""
    position = reader.data_position(node)
    value = reader.weights(node, 1 - position, "constant")
    constant_first = position == 1
    kind = node.op_type
    if kind == "Div" and constant_first:
        raise reader.refusal(node, "divides by the data, which is not linear")
    if kind == "Div" and not value.all():
        raise InvalidNetwork("it divides by zero")
    one, zero = np.ones_like(value), np.zeros_like(value)
    scale, offset = {
        "Add": (one, value),
        "Sub": (-one, value) if constant_first else (one, -value),
        "Mul": (value, zero),
        "Div": (1.0 / value if kind == "Div" else one, zero),
    }[kind]
    reader.chain.scale_and_shift(scale, offset)
    reader.advance(node)


def _flatten(reader: _GraphReader, node: Node) -> None:
    reader.require_data(node)
    axis = _attributes(node).get("axis", 1)
    if axis not in (1, -len(reader.chain.shape)):
        raise reader.refusal(node, f"flattens from axis {axis}; only axis 1 keeps the batch apart")
    reader.chain.reshape((reader.chain.size,))
    reader.advance(node)


def _reshape(reader: _GraphReader, node: Node) -> None:
    if node.input[0] in reader.constants:
        shape = [int(size) for size in reader.constant(node, 1, "shape")]
        reader.constants[node.output[0]] = reader.constants[node.input[0]].reshape(shape)
        return
    reader.require_data(node)
    wanted = [int(size) for size in reader.constant(node, 1, "shape").reshape(-1)]
    if not wanted or wanted[0] not in (-1, 0, 1) or (wanted[0] == -1 and -1 in wanted[1:]):
        raise reader.refusal(node, f"reshapes to {wanted}; the batch dimension must stay first")
    if not _attributes(node).get("allowzero", 0):
        old = (1, *reader.chain.shape)
        if any(size == 0 and k >= len(old) for k, size in enumerate(wanted)):
            raise InvalidNetwork(f"it copies a dimension that {old} does not have")
        wanted = [old[k] if size == 0 else size for k, size in enumerate(wanted)]
    reader.chain.reshape(_resolve(tuple(wanted[1:]), reader.chain.size))
    reader.advance(node)


def _resolve(shape: Shape, size: int) -> Shape:
    """Fill in the one dimension that is -1, and check that the sizes agree."""
    known = int(np.prod([dim for dim in shape if dim != -1], dtype=np.int64))
    if shape.count(-1) == 1 and known > 0 and size % known == 0:
        return tuple(size // known if dim == -1 else dim for dim in shape)
    if -1 in shape or known != size:
        raise InvalidNetwork(f"it reshapes {size} values to {shape}, which does not fit")
    return shape


_TRANSLATORS: dict[str, Callable[[_GraphReader, Node], None]] = {
    "Add": _elementwise,
    "Constant": _constant,
    "Conv": _convolution,
    "Div": _elementwise,
    "Dropout": _dropout,
    "Flatten": _flatten,
    "Gemm": _gemm,
    "Identity": _identity,
    "MatMul": _matmul,
    "Mul": _elementwise,
    "Relu": _relu,
    "Reshape": _reshape,
    "Sub": _elementwise,
}

SUPPORTED_OPERATORS = tuple(_TRANSLATORS)
