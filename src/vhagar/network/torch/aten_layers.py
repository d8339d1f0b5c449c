"""Converters of linear layers, normalisation and pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from vhagar.errors import InvalidNetwork
from vhagar.network.onnx_graph import OnnxGraph
from vhagar.network.torch.aten_values import (
    Arguments,
    AtenValue,
    Converter,
    Shape,
    constant,
    numbers,
    operand,
)


def linear(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    weight = constant(given["weight"], "linear")
    return _product(graph, given["input"], weight.T, given["bias"], shape)


def addmm(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    if (given["beta"], given["alpha"]) != (1, 1):
        raise InvalidNetwork("an addmm with alpha or beta other than 1")
    return _product(graph, given["mat1"], constant(given["mat2"], "addmm"), given["self"], shape)


def matmul(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    second = given["mat2"] if "mat2" in given else given["other"]
    return _product(graph, given["self"], constant(second, "matmul"), None, shape)


def _product(graph: OnnxGraph, x: AtenValue, weight: Any, bias: Any, shape: Shape) -> AtenValue:
    if not isinstance(x, AtenValue) or isinstance(bias, AtenValue):
        raise InvalidNetwork("a matrix product whose right operand depends on the input")
    if len(x.shape) == 2 and bias is not None:
        names = [x.name, operand(graph, weight), operand(graph, bias)]
        return AtenValue(graph.add("Gemm", *names), shape)
    product = graph.add("MatMul", x.name, operand(graph, weight))
    if bias is not None:
        product = graph.add("Add", product, operand(graph, bias))
    return AtenValue(product, shape)


def convolution(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    if given.get("transposed"):
        raise InvalidNetwork("a transposed convolution")
    weight = constant(given["weight"], "convolution")
    axes = weight.ndim - 2
    if axes not in (1, 2):
        raise InvalidNetwork("a convolution that is neither one- nor two-dimensional")
    padding, dilation = given["padding"], _sizes(given["dilation"], axes)
    # "same" and "valid" are words; unequal padding goes below and to the right, as in torch.
    if isinstance(padding, str):
        spans = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
        before = [span // 2 if padding == "same" else 0 for span in spans]
        after = [span - span // 2 if padding == "same" else 0 for span in spans]
    else:
        before = after = _sizes(padding, axes)
    inputs = [given["input"].name, operand(graph, weight)]
    if given["bias"] is not None:
        inputs.append(operand(graph, given["bias"]))
    name = graph.add(
        "Conv",
        *inputs,
        kernel_shape=list(weight.shape[2:]),
        strides=_sizes(given["stride"], axes),
        pads=[*before, *after],
        dilations=dilation,
        group=given["groups"],
    )
    return AtenValue(name, shape)


def _sizes(given: Any, axes: int) -> list[int]:
    """One size for each axis; a single one counts for all of them."""
    sizes = [given] if isinstance(given, int) else list(given)
    return sizes * axes if len(sizes) == 1 else sizes


def batch_norm(graph: OnnxGraph, given: Arguments, shape: Any) -> Any:
    if given.get("training"):
        raise InvalidNetwork("a batch normalisation is in training mode even after eval()")
    mean, variance = given["running_mean"], given["running_var"]
    if mean is None or variance is None:
        raise InvalidNetwork("a batch normalisation without running statistics depends on a batch")
    several = not shape or not isinstance(shape[0], int)
    size = len(mean)
    scale = np.ones(size) if given["weight"] is None else numbers(given["weight"])
    bias = np.zeros(size) if given["bias"] is None else numbers(given["bias"])
    parts = (graph.constant(part) for part in (scale, bias, numbers(mean), numbers(variance)))
    name = graph.add("BatchNormalization", given["input"].name, *parts, epsilon=float(given["eps"]))
    value = AtenValue(name, shape[0] if several else shape)
    return [value, None, None] if several else value


def _pool(graph: OnnxGraph, kind: str, given: Arguments, **more: Any) -> str:
    axes = len(given["self"].shape) - 2
    kernel = _sizes(given["kernel_size"], axes)
    return graph.add(
        kind,
        given["self"].name,
        kernel_shape=kernel,
        strides=_sizes(given["stride"], axes) if given["stride"] else kernel,
        pads=_sizes(given["padding"], axes) * 2,
        ceil_mode=int(given["ceil_mode"]),
        **more,
    )


def max_pool(graph: OnnxGraph, given: Arguments, shape: Any) -> Any:
    several = not isinstance(shape[0], int)
    dilations = _sizes(given["dilation"], len(given["self"].shape) - 2)
    value = AtenValue(
        _pool(graph, "MaxPool", given, dilations=dilations), shape[0] if several else shape
    )
    return [value, None] if several else value


def average_pool(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    if given.get("divisor_override") is not None:
        raise InvalidNetwork("an average pool with divisor_override")
    count_padding = int(given["count_include_pad"])
    return AtenValue(_pool(graph, "AveragePool", given, count_include_pad=count_padding), shape)


def adaptive_pool(kind: str) -> Converter:
    def convert(graph: OnnxGraph, given: Arguments, shape: Any) -> Any:
        several = not isinstance(shape[0], int)
        result = shape[0] if several else shape
        source, wanted = given["self"], result[2:]
        if set(wanted) == {1}:
            name = graph.add(f"Global{kind}", source.name)
        elif any(size % new for size, new in zip(source.shape[2:], wanted, strict=True)):
            name = _uneven_pool(graph, kind, source, wanted)
        else:
            kernel = [size // new for size, new in zip(source.shape[2:], wanted, strict=True)]
            name = graph.add(kind, source.name, kernel_shape=kernel, strides=kernel)
        return [AtenValue(name, result), None] if several else AtenValue(name, result)

    return convert


def _uneven_pool(graph: OnnxGraph, kind: str, source: AtenValue, wanted: Shape) -> str:
    """Pool to sizes that do not divide the image, axis by axis: windows are rectangles.

    Window k of n begins at floor(k size / n) and ends before ceil((k + 1) size / n).
    """
    name, reduce = source.name, {"AveragePool": "ReduceMean", "MaxPool": "ReduceMax"}[kind]
    for axis, (size, new) in enumerate(zip(source.shape[2:], wanted, strict=True), start=2):
        ends = [(k * size // new, -((k + 1) * size // -new)) for k in range(new)]
        parts = [
            graph.add(reduce, graph.slice(name, axis, start, end), axes=[axis], keepdims=1)
            for start, end in ends
        ]
        name = graph.add("Concat", *parts, axis=axis)
    return name
