"""Operators that multiply with weights: Gemm, MatMul, convolutions, BatchNormalization."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from vhagar.array_types import Array
from vhagar.errors import InvalidNetwork
from vhagar.network.convolution import Convolution
from vhagar.network.graph import Tensor
from vhagar.network.layers import Shape
from vhagar.network.maps import ConvolutionMap, DenseMap, SparseMap
from vhagar.network.onnx_node import Node
from vhagar.network.onnx_operators.windows import automatic_padding


def gemm(node: Node) -> Tensor:
    attributes = node.attributes(alpha=1.0, beta=1.0, transA=0, transB=0, broadcast=0)
    data = node.tensor()
    if attributes["transA"]:
        raise node.refusal("transposes its data, which would mix the images of a batch")
    weight = node.weights(1, "weight")
    if weight.ndim != 2:
        raise InvalidNetwork(f"its weight has rank {weight.ndim}, not 2")
    # Gemm multiplies from the right: y = x B, so W is B transposed.
    weight = weight if attributes["transB"] else weight.T
    bias = np.zeros(len(weight))
    if node.has(2):
        given = node.weights(2, "bias")
        if given.shape not in ((), (1,), (1, 1), (len(weight),), (1, len(weight))):
            raise InvalidNetwork(f"its bias has shape {given.shape}, not ({len(weight)},)")
        bias = bias + given.reshape(-1) * attributes["beta"]
    return _fully_connected(node, data, weight * attributes["alpha"], bias)


def _fully_connected(node: Node, data: Tensor, weight: Array, bias: Array) -> Tensor:
    if data.shape != (weight.shape[1],):
        raise InvalidNetwork(
            f"its weight takes {weight.shape[1]} values, but it receives {data.shape}. "
            "Is a Flatten missing before it?"
        )
    return node.graph.mapped(data, DenseMap(weight, bias), (len(weight),))


def matmul(node: Node) -> Tensor:
    node.attributes()
    if len(node.operands) != 2 or all(isinstance(one, Tensor) for one in node.operands):
        raise node.refusal("multiplies two tensors that both depend on the input: not linear")
    if isinstance(node.operands[1], Tensor):
        return _from_the_left(node, node.tensor(1), node.weights(0, "weight"))
    data, weight = node.tensor(), node.weights(1, "weight")
    if weight.ndim == 1 and len(data.shape) > 1:
        return _rows_times(node, data, weight[:, None], data.shape[:-1])
    if weight.ndim != 2:
        raise InvalidNetwork(f"its weight has rank {weight.ndim}, not 2")
    if len(data.shape) == 1:
        return _fully_connected(node, data, weight.T, np.zeros(weight.shape[1]))
    return _rows_times(node, data, weight, (*data.shape[:-1], weight.shape[1]))


def _rows_times(node: Node, data: Tensor, weight: Array, shape: Shape) -> Tensor:
    """Every row (last axis) of a tensor of several axes times the weight."""
    if data.shape[-1] != len(weight):
        raise InvalidNetwork(
            f"its weight takes {len(weight)} values, but it receives {data.shape}. "
            "Is a Flatten missing before it?"
        )
    rows = data.size // len(weight)
    matrix = sparse.csr_array(sparse.kron(sparse.eye_array(rows), weight.T, format="csr"))
    return node.graph.mapped(data, SparseMap(data.shape, matrix), shape)


def _from_the_left(node: Node, data: Tensor, weight: Array) -> Tensor:
    if len(data.shape) < 2:
        raise node.refusal("multiplies from the left, which would mix the images of a batch")
    if weight.ndim != 2 or data.shape[-2] != weight.shape[1]:
        raise InvalidNetwork(
            f"its weight of shape {weight.shape} does not fit data of shape {data.shape}"
        )
    *before, _, columns = data.shape
    one = sparse.kron(weight, sparse.eye_array(columns), format="csr")
    matrix = sparse.csr_array(
        sparse.kron(sparse.eye_array(int(np.prod(before, dtype=int))), one, format="csr")
    )
    shape = (*before, len(weight), columns)
    return node.graph.mapped(data, SparseMap(data.shape, matrix), shape)


def convolution(node: Node) -> Tensor:
    """Conv in two dimensions, or in one, as images of height one."""
    data, weight = node.tensor(), node.weights(1, "weight")
    if weight.ndim not in (3, 4):
        raise node.refusal(f"has a weight of rank {weight.ndim}; only 1-D and 2-D convolutions")
    bias = node.weights(2, "bias") if node.has(2) else np.zeros(len(weight))
    axes = weight.ndim - 2
    attributes = node.attributes(
        kernel_shape=list(weight.shape[2:]),
        strides=[1] * axes,
        dilations=[1] * axes,
        pads=[0] * 2 * axes,
        auto_pad=b"NOTSET",
        group=1,
    )
    kernel, stride, dilation, padding = (
        tuple(attributes[key]) for key in ("kernel_shape", "strides", "dilations", "pads")
    )
    _check_shapes(data.shape, weight.shape, kernel, bias.shape)
    if not len(stride) == len(dilation) == axes or len(padding) != 2 * axes or min(stride) < 1:
        raise InvalidNetwork(
            f"its strides, dilations or pads are not those of a {axes}-D convolution"
        )
    mode = attributes["auto_pad"]
    if mode in (b"SAME_UPPER", b"SAME_LOWER") and max(dilation) > 1:
        # onnxruntime, which confirms every witness, does not support this
        raise node.refusal("has dilations beside auto_pad; export explicit pads")
    padding = automatic_padding(mode, data.shape[1:], kernel, stride, padding)
    if axes == 1:
        data = data.reshaped((data.shape[0], 1, data.shape[1]))
        weight, stride, dilation = weight[:, :, None], (1, *stride), (1, *dilation)
        padding = (0, padding[0], 0, padding[1])
    top, left, bottom, right = padding
    pads = (top, left, bottom, right)
    layer = Convolution(weight, bias, data.shape, stride, pads, dilation, attributes["group"])
    shape = layer.out_shape if axes == 2 else (layer.out_shape[0], layer.out_shape[2])
    return node.graph.mapped(data, ConvolutionMap(layer), shape)


def _check_shapes(data: Shape, weight: Shape, kernel: Shape, bias: Shape) -> None:
    """Refuse shapes of a convolution's operands that do not fit together."""
    if kernel != weight[2:] or bias != weight[:1]:
        raise InvalidNetwork(
            f"its kernel_shape {kernel} or its bias of shape {bias} disagrees with its "
            f"weight {weight}"
        )
    if len(data) != len(weight) - 1:
        raise InvalidNetwork(
            f"its weight of shape {weight} is that of a {'one' if len(weight) == 3 else 'two'}-"
            f"dimensional convolution, but it receives {data}"
        )


def transposed_convolution(node: Node) -> Tensor:
    """ConvTranspose: the transpose of the convolution from its result to its data."""
    data, weight = node.tensor(), node.weights(1, "weight")
    if weight.ndim != 4 or len(data.shape) != 3:
        raise node.refusal(f"has a weight of rank {weight.ndim}; only images are supported")
    attributes = node.attributes(
        kernel_shape=list(weight.shape[2:]),
        strides=[1, 1],
        dilations=[1, 1],
        pads=[0, 0, 0, 0],
        output_padding=[0, 0],
        output_shape=[],
        auto_pad=b"NOTSET",
        group=1,
    )
    if attributes["auto_pad"] != b"NOTSET" or attributes["output_shape"]:
        raise node.refusal("has auto_pad or output_shape; export explicit pads")
    stride, dilation, padding, extra = (
        tuple(attributes[key]) for key in ("strides", "dilations", "pads", "output_padding")
    )
    groups = attributes["group"]
    extents = [
        stride[k] * (data.shape[1 + k] - 1)
        + extra[k]
        + (weight.shape[2 + k] - 1) * dilation[k]
        + 1
        - padding[k]
        - padding[2 + k]
        for k in (0, 1)
    ]
    shape = (weight.shape[1] * groups, *extents)
    if tuple(attributes["kernel_shape"]) != weight.shape[2:] or min(extents) < 1:
        raise InvalidNetwork(f"its kernel, strides or pads do not fit data of shape {data.shape}")
    forth = Convolution(weight, np.zeros(len(weight)), shape, stride, padding, dilation, groups)
    if forth.out_shape != data.shape:
        raise InvalidNetwork(f"its weight, strides or pads do not fit data of shape {data.shape}")
    bias = node.weights(2, "bias") if node.has(2) else np.zeros(shape[0])
    if bias.shape != shape[:1]:
        raise InvalidNetwork(f"its bias has shape {bias.shape}, not {shape[:1]}")
    shift = np.repeat(bias, extents[0] * extents[1])
    back = SparseMap(data.shape, sparse.csr_array(forth.matrix.T), shift)
    return node.graph.mapped(data, back, shape)


def batch_normalization(node: Node) -> Tensor:
    """BatchNormalization in inference: a scaling of every channel, computed in float64."""
    attributes = node.attributes(
        epsilon=1e-5,
        momentum=0.9,
        spatial=1,
        training_mode=0,
        is_test=int(node.opset >= 7),  # before, nodes train unless they say otherwise
        consumed_inputs=[],
    )
    data = node.tensor()
    in_training = node.opset < 14 and any(name for name in node.proto.output[1:])
    if attributes["training_mode"] or not attributes["is_test"] or in_training:
        raise node.refusal("is in training mode; export the model in evaluation mode")
    if not attributes["spatial"]:
        raise node.refusal("normalises each pixel separately (spatial = 0)")
    scale, shift, mean, variance = (
        node.weights(k + 1, what) for k, what in enumerate(("scale", "bias", "mean", "variance"))
    )
    if any(part.shape != (data.shape[0],) for part in (scale, shift, mean, variance)):
        raise InvalidNetwork(
            f"its parameters of shape {scale.shape} do not fit data of shape {data.shape}"
        )
    if not (variance + attributes["epsilon"] > 0).all():
        raise InvalidNetwork("its variance is negative")
    factor = scale / np.sqrt(variance + attributes["epsilon"])
    by_channel = (-1, *(1 for _ in data.shape[1:]))
    return node.graph.scaled(
        data, factor.reshape(by_channel), (shift - mean * factor).reshape(by_channel)
    )
