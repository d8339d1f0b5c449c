"""Converters of ATen operators to ONNX, one for each, in the table `CONVERTERS`.

A converter gets the graph, the operator's arguments (by the names of its schema, defaults filled
in, data as `AtenValue`, constants as tensors) and the shape of its result, and returns its result.
In-place operators (`relu_`) use the converter of the plain one.
"""

from __future__ import annotations

from typing import Any

from onnx import helper

from vhagar.errors import InvalidNetwork
from vhagar.network.onnx_graph import OnnxGraph
from vhagar.network.torch import aten_layers as layers
from vhagar.network.torch import aten_shapes as shapes
from vhagar.network.torch.aten_values import (
    Arguments,
    AtenValue,
    Converter,
    Shape,
    constant,
    numbers,
    operand,
)


def _same(kind: str, **attributes: Any) -> Converter:
    """An operator on one tensor that ONNX has under another name."""

    def convert(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
        return AtenValue(graph.add(kind, given["self"].name, **attributes), shape)

    return convert


def _identity(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    value: AtenValue = given["input"] if "input" in given else given["self"]
    return value


def _to(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    kind = given.get("dtype")
    if kind is not None and not kind.is_floating_point:
        raise InvalidNetwork(f"a value is turned into {kind}, which is not a float type")
    return _identity(graph, given, shape)


def _nothing(graph: OnnxGraph, given: Arguments, shape: Shape) -> None:
    """An operator without a result, which only checks what it is given."""


def _dropout(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    if given["train"]:
        raise InvalidNetwork("a dropout is in training mode even after eval()")
    return _identity(graph, given, shape)


def _clip(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    low = given.get("min", given.get("min_val"))
    high = given.get("max", given.get("max_val"))
    if isinstance(low, AtenValue) or isinstance(high, AtenValue):
        raise InvalidNetwork("a clamp whose limits depend on the input")
    names = ["" if end is None else graph.constant(float(end)) for end in (low, high)]
    return AtenValue(graph.add("Clip", given["self"].name, *names), shape)


def _relu6(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    return _clip(graph, {**given, "min": 0.0, "max": 6.0}, shape)


def _leaky_relu(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    slope = float(given["negative_slope"])
    return AtenValue(graph.add("LeakyRelu", given["self"].name, alpha=slope), shape)


def _rrelu(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    """A LeakyReLU in inference: the slope is the middle of the range it is drawn from."""
    if given["training"]:
        raise InvalidNetwork("an rrelu is in training mode even after eval()")
    middle = (float(given["lower"]) + float(given["upper"])) / 2
    return _leaky_relu(graph, {**given, "negative_slope": middle}, shape)


def _softshrink(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    """x minus x clipped to [-lambd, lambd]."""
    limit = float(given["lambd"])
    middle = _clip(graph, {**given, "min": -limit, "max": limit}, shape)
    return AtenValue(graph.add("Sub", given["self"].name, middle.name), shape)


def _pixel_shuffle(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    name, factor = given["self"].name, int(given["upscale_factor"])
    return AtenValue(graph.add("DepthToSpace", name, blocksize=factor, mode="CRD"), shape)


def _prelu(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    weight = numbers(constant(given["weight"], "prelu"))
    if weight.ndim == 1:  # one for each channel
        weight = weight.reshape(-1, *(1,) * (len(shape) - 2))
    return AtenValue(graph.add("PRelu", given["self"].name, graph.constant(weight)), shape)


def _binary(kind: str) -> Converter:
    def convert(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
        if given.get("rounding_mode") is not None:
            raise InvalidNetwork("a division that rounds")
        second = operand(graph, given["other"])
        if given.get("alpha", 1) != 1:
            second = graph.add("Mul", second, graph.constant(float(given["alpha"])))
        return AtenValue(graph.add(kind, operand(graph, given["self"]), second), shape)

    return convert


def _reversed_sub(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    swapped = {**given, "self": given["other"], "other": given["self"]}
    return _binary("Sub")(graph, swapped, shape)  # type: ignore[no-any-return]


def _compare(kind: str) -> Converter:
    def convert(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
        return AtenValue(graph.add(kind, given["self"].name, operand(graph, given["other"])), shape)

    return convert


def _where(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    branches = (operand(graph, given[name]) for name in ("self", "other"))
    return AtenValue(graph.add("Where", given["condition"].name, *branches), shape)


def _threshold(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    data = given["self"].name
    limit, value = (graph.constant(float(given[name])) for name in ("threshold", "value"))
    return AtenValue(graph.add("Where", graph.add("Greater", data, limit), data, value), shape)


def _product(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    """Mul; a comparison among the operands stands for 1 and 0."""
    names = [operand(graph, given[name]) for name in ("self", "other")]
    kinds = {node.output[0]: node.op_type for node in graph.nodes}
    comparisons = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")
    cast = [
        graph.add("Cast", name, to=helper.np_dtype_to_tensor_dtype(graph.dtype))
        if kinds.get(name) in comparisons
        else name
        for name in names
    ]
    return AtenValue(graph.add("Mul", *cast), shape)


def _upsampled(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    data = _identity(graph, given, shape)
    ratios = [float(new) / old for new, old in zip(shape, data.shape, strict=True)]
    factors = graph.constant(ratios)
    settings = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return AtenValue(graph.add("Resize", data.name, "", factors, mode="nearest", **settings), shape)


CONVERTERS: dict[str, Converter] = {
    "_adaptive_avg_pool2d": layers.adaptive_pool("AveragePool"),
    "_assert_tensor_metadata": _nothing,
    "_log_softmax": _identity,  # as the last operator only; see module.py
    "_native_batch_norm_legit_no_training": layers.batch_norm,
    "_prelu_kernel": _prelu,
    "_softmax": _identity,
    "_to_copy": _identity,
    "_unsafe_view": shapes.reshape,
    "abs": _same("Abs"),
    "adaptive_avg_pool1d": layers.adaptive_pool("AveragePool"),
    "adaptive_avg_pool2d": layers.adaptive_pool("AveragePool"),
    "adaptive_max_pool1d": layers.adaptive_pool("MaxPool"),
    "adaptive_max_pool2d": layers.adaptive_pool("MaxPool"),
    "add": _binary("Add"),
    "addmm": layers.addmm,
    "alias": _identity,
    "amax": shapes.reduce("ReduceMax"),
    "avg_pool1d": layers.average_pool,
    "avg_pool2d": layers.average_pool,
    "batch_norm": layers.batch_norm,
    "cat": shapes.concat,
    "chunk": shapes.split,
    "clamp": _clip,
    "clamp_max": _clip,
    "clamp_min": _clip,
    "clip": _clip,
    "clone": _identity,
    "constant_pad_nd": shapes.pad,
    "contiguous": _identity,
    "conv1d": layers.convolution,
    "conv2d": layers.convolution,
    "convolution": layers.convolution,
    "detach": _identity,
    "div": _binary("Div"),
    "dropout": _dropout,
    "expand": shapes.expand,
    "feature_dropout": _dropout,
    "flatten": shapes.reshape,
    "ge": _compare("GreaterOrEqual"),
    "gt": _compare("Greater"),
    "hardsigmoid": _same("HardSigmoid", alpha=1.0 / 6.0, beta=0.5),
    "hardtanh": _clip,
    "le": _compare("LessOrEqual"),
    "leaky_relu": _leaky_relu,
    "linear": layers.linear,
    "log_softmax": _identity,
    "matmul": layers.matmul,
    "max_pool1d": layers.max_pool,
    "max_pool1d_with_indices": layers.max_pool,
    "max_pool2d": layers.max_pool,
    "max_pool2d_with_indices": layers.max_pool,
    "maximum": _binary("Max"),
    "mean": shapes.reduce("ReduceMean"),
    "minimum": _binary("Min"),
    "lt": _compare("Less"),
    "mm": layers.matmul,
    "mul": _product,
    "neg": _same("Neg"),
    "numpy_T": shapes.permute,
    "pad": shapes.pad,
    "permute": shapes.permute,
    "pixel_shuffle": _pixel_shuffle,
    "prelu": _prelu,
    "relu": _same("Relu"),
    "relu6": _relu6,
    "reshape": shapes.reshape,
    "rrelu": _rrelu,
    "rsub": _reversed_sub,
    "select": shapes.select,
    "sigmoid": _same("Sigmoid"),
    "slice": shapes.sliced,
    "softmax": _identity,
    "softshrink": _softshrink,
    "split": shapes.split,
    "split_with_sizes": shapes.split,
    "squeeze": shapes.reshape,
    "sub": _binary("Sub"),
    "t": shapes.permute,
    "tanh": _same("Tanh"),
    "threshold": _threshold,
    "to": _to,
    "transpose": shapes.permute,
    "unflatten": shapes.reshape,
    "unsqueeze": shapes.reshape,
    "upsample_nearest2d": _upsampled,
    "view": shapes.reshape,
    "where": _where,
}

# Ignored at the end, because they keep the order of the scores.
TAILS = ("_softmax", "softmax", "_log_softmax", "log_softmax")
INCREASING = ("sigmoid", "tanh")
