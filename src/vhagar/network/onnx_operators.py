"""What each ONNX operator means: one translator for each, in the table `TRANSLATORS`.

A translator reads the node's constants and attributes through the reader, appends to the reader's
chain of layers, and refuses what it does not know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import AttributeProto

from vhagar.errors import InvalidNetwork
from vhagar.network.layers import Shape
from vhagar.network.onnx_tensors import read_tensor

if TYPE_CHECKING:
    from vhagar.network.onnx_reader import GraphReader

Node = Any  # onnx.NodeProto: protobuf classes carry no types

# The forms that a constant of numbers may have.
_CONSTANT_TYPES = {
    "value": AttributeProto.TENSOR,
    "value_float": AttributeProto.FLOAT,
    "value_floats": AttributeProto.FLOATS,
    "value_int": AttributeProto.INT,
    "value_ints": AttributeProto.INTS,
}


def _constant(reader: GraphReader, node: Node) -> None:
    items = [item for item in node.attribute if _CONSTANT_TYPES.get(item.name) == item.type]
    if len(items) != 1 or len(node.attribute) != 1:
        raise reader.refusal(node, "holds something other than a dense tensor of numbers")
    value = onnx.helper.get_attribute_value(items[0])
    is_tensor = items[0].name == "value"
    reader.constants[node.output[0]] = read_tensor(value) if is_tensor else np.asarray(value)


def _identity(reader: GraphReader, node: Node) -> None:
    reader.attributes(node)
    if node.input[0] in reader.constants:
        reader.constants[node.output[0]] = reader.constants[node.input[0]]
        return
    reader.require_data(node)
    reader.advance(node)


def _dropout(reader: GraphReader, node: Node) -> None:
    reader.attributes(node, ratio=0.5, seed=0)
    if len(node.input) > 2 and node.input[2] and reader.constant(node, 2, "training mode").any():
        raise reader.refusal(node, "is in training mode; export the model in evaluation mode")
    reader.require_data(node)
    reader.advance(node)


def _relu(reader: GraphReader, node: Node) -> None:
    reader.attributes(node)
    reader.require_data(node)
    reader.chain.relu()
    reader.advance(node)


def _gemm(reader: GraphReader, node: Node) -> None:
    attributes = reader.attributes(node, alpha=1.0, beta=1.0, transA=0, transB=0)
    reader.require_data(node)
    if attributes["transA"]:
        raise reader.refusal(node, "transposes its data, which would mix the images of a batch")
    weight = reader.weights(node, 1, "weight")
    if weight.ndim != 2:
        raise InvalidNetwork(f"its weight has rank {weight.ndim}, not 2")
    # Gemm multiplies from the right: y = x B, so W is B transposed.
    weight = weight if attributes["transB"] else weight.T
    bias = np.zeros(len(weight))
    if len(node.input) > 2 and node.input[2]:
        given = reader.weights(node, 2, "bias")
        if given.shape not in ((), (1,), (1, 1), (len(weight),), (1, len(weight))):
            raise InvalidNetwork(f"its bias has shape {given.shape}, not ({len(weight)},)")
        bias = bias + given.reshape(-1) * attributes["beta"]
    reader.chain.fully_connected(weight * attributes["alpha"], bias)
    reader.advance(node)


def _matmul(reader: GraphReader, node: Node) -> None:
    reader.attributes(node)
    reader.require_data(node)
    weight = reader.weights(node, 1, "weight")
    if weight.ndim != 2:
        raise InvalidNetwork(f"its weight has rank {weight.ndim}, not 2")
    reader.chain.fully_connected(weight.T, np.zeros(weight.shape[1]))
    reader.advance(node)


def _convolution(reader: GraphReader, node: Node) -> None:
    reader.require_data(node)
    weight = reader.weights(node, 1, "weight")
    if weight.ndim != 4:
        raise InvalidNetwork(f"its weight has rank {weight.ndim}; only 2-D convolutions (rank 4)")
    has_bias = len(node.input) > 2 and node.input[2]
    bias = reader.weights(node, 2, "bias") if has_bias else np.zeros(len(weight))
    attributes = reader.attributes(
        node,
        kernel_shape=list(weight.shape[2:]),
        strides=[1, 1],
        dilations=[1, 1],
        pads=[0, 0, 0, 0],
        auto_pad=b"NOTSET",
        group=1,
    )
    kernel, stride, dilation, padding = (
        tuple(attributes[key]) for key in ("kernel_shape", "strides", "dilations", "pads")
    )
    if kernel != weight.shape[2:] or bias.shape != weight.shape[:1]:
        raise InvalidNetwork(
            f"its kernel_shape {kernel} or its bias of shape {bias.shape} disagrees with its "
            f"weight {weight.shape}"
        )
    if not len(stride) == len(dilation) == 2 or len(padding) != 4 or min(stride) < 1:
        raise InvalidNetwork("its strides, dilations or pads are not those of a 2-D convolution")
    mode = attributes["auto_pad"]
    if mode in (b"SAME_UPPER", b"SAME_LOWER"):
        if dilation != (1, 1):  # onnxruntime, who is asked about every witness, cannot do this
            raise reader.refusal(node, "has dilations beside auto_pad; export explicit pads")
        padding = _same_padding(reader.chain.shape, kernel, stride, upper=mode == b"SAME_UPPER")
    elif mode == b"VALID":
        padding = (0, 0, 0, 0)
    elif mode != b"NOTSET":
        raise InvalidNetwork(f"its auto_pad {mode!r} is not known")
    reader.chain.convolution(weight, bias, stride, padding, dilation, attributes["group"])
    reader.advance(node)


def _same_padding(shape: Shape, kernel: Shape, stride: Shape, upper: bool) -> tuple[int, ...]:
    before, after = [], []
    for size, width, step in zip(shape[1:], kernel, stride, strict=True):
        total = max((-(-size // step) - 1) * step + width - size, 0)
        small, large = total // 2, total - total // 2
        before.append(small if upper else large)
        after.append(large if upper else small)
    return (*before, *after)


def _elementwise(reader: GraphReader, node: Node) -> None:
    """Add, Sub, Mul and Div with a constant: `x * scale + offset`, folded into a linear layer."""
    reader.attributes(node)
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


def _flatten(reader: GraphReader, node: Node) -> None:
    reader.require_data(node)
    axis = reader.attributes(node, axis=1)["axis"]
    if axis not in (1, -len(reader.chain.shape)):
        raise reader.refusal(node, f"flattens from axis {axis}; only axis 1 keeps the batch apart")
    reader.chain.reshape((reader.chain.size,))
    reader.advance(node)


def _reshape(reader: GraphReader, node: Node) -> None:
    if reader.attributes(node, allowzero=0)["allowzero"]:
        raise reader.refusal(node, "takes zeros as sizes (allowzero), which leaves no values")
    sizes = reader.constant(node, 1, "shape")
    if sizes.dtype != np.int64 or sizes.ndim != 1 or (sizes < -1).any():
        raise InvalidNetwork(f"its shape {sizes.tolist()} is not a list of sizes, 0 or -1")
    wanted = [int(size) for size in sizes]
    if node.input[0] in reader.constants:
        value = reader.constants[node.input[0]]
        reader.constants[node.output[0]] = value.reshape(_copied(wanted, value.shape))
        return
    reader.require_data(node)
    if not wanted or wanted[0] not in (-1, 0, 1) or (wanted[0] == -1 and -1 in wanted[1:]):
        raise reader.refusal(node, f"reshapes to {wanted}; the batch dimension must stay first")
    wanted = _copied(wanted, (1, *reader.chain.shape))
    reader.chain.reshape(_resolve(tuple(wanted[1:]), reader.chain.size))
    reader.advance(node)


def _copied(wanted: list[int], old: Shape) -> list[int]:
    """A zero stands for the size at the same place before."""
    if any(size == 0 and k >= len(old) for k, size in enumerate(wanted)):
        raise InvalidNetwork(f"it copies a dimension that {old} does not have")
    return [old[k] if size == 0 else size for k, size in enumerate(wanted)]


def _resolve(shape: Shape, size: int) -> Shape:
    """Fill in the one dimension that is -1, and check that the sizes agree."""
    known = int(np.prod([dim for dim in shape if dim != -1], dtype=np.int64))
    if shape.count(-1) == 1 and known > 0 and size % known == 0:
        return tuple(size // known if dim == -1 else dim for dim in shape)
    if -1 in shape or known != size:
        raise InvalidNetwork(f"it reshapes {size} values to {shape}, which does not fit")
    return shape


TRANSLATORS: dict[str, Callable[[GraphReader, Node], None]] = {
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

SUPPORTED_OPERATORS = tuple(TRANSLATORS)
