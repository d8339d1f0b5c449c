"""What each ATen operator is in ONNX: one converter for each, in the table `CONVERTERS`.

A converter gets the graph, the operator's arguments (by the names of its schema, defaults filled
in, data as `Value` and constants as tensors) and the shape of its result, and returns its result.
Shapes are fixed, so squeezing, flattening and the like are all a Reshape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vhagar.errors import InvalidNetwork
from vhagar.interchange.onnx_graph import OnnxGraph

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Value:
    """A tensor that depends on the input."""

    name: str
    shape: Shape


Arguments = dict[str, Any]
Converter = Callable[[OnnxGraph, Arguments, Any], Any]


def operand(graph: OnnxGraph, given: Any) -> str:
    """A value by its name; a tensor or a number as a constant."""
    if isinstance(given, Value):
        return given.name
    array = given.detach().cpu().numpy() if hasattr(given, "detach") else np.asarray(given)
    return graph.constant(array.astype(graph.dtype))


def _numbers(given: Any) -> Any:
    return given.detach().cpu().numpy().astype(np.float64)


def _same(kind: str, **attributes: Any) -> Converter:
    """An operator on one tensor that ONNX has under another name."""

    def convert(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
        return Value(graph.add(kind, given["self"].name, **attributes), shape)

    return convert


def _identity(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
    value: Value = given["input"] if "input" in given else given["self"]
    return value


def _dropout(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
    if given["train"]:
        raise InvalidNetwork("a dropout is in training mode even after eval()")
    return _identity(graph, given, shape)


def _reshape(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
    return Value(graph.reshape(given["self"].name, shape), shape)


def _expand(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
    if given["self"].shape != shape:
        raise InvalidNetwork(f"an expand from {given['self'].shape} to {shape} repeats values")
    value: Value = given["self"]
    return value


def _permute(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
    rank = len(shape)
    order = list(range(rank))
    if "dims" in given:
        order = [dim % rank for dim in given["dims"]]
    else:
        first, second = (dim % rank for dim in (given.get("dim0", 0), given.get("dim1", 1)))
        order[first], order[second] = second, first
    return Value(graph.add("Transpose", given["self"].name, perm=order), shape)


def _linear(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
    weight = _constant(given["weight"], "linear")
    return _product(graph, given["input"], weight.T, given["bias"], shape)


def _addmm(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
    if (given["beta"], given["alpha"]) != (1, 1):
        raise InvalidNetwork("an addmm with alpha or beta other than 1")
    return _product(graph, given["mat1"], _constant(given["mat2"], "addmm"), given["self"], shape)


def _matmul(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
    second = given["mat2"] if "mat2" in given else given["other"]
    return _product(graph, given["self"], _constant(second, "matmul"), None, shape)


def _product(graph: OnnxGraph, x: Value, weight: Any, bias: Any, shape: Shape) -> Value:
    if not isinstance(x, Value) or isinstance(bias, Value):
        raise InvalidNetwork("a matrix product whose data is not on its left alone")
    if len(x.shape) == 2 and bias is not None:
        names = [x.name, operand(graph, weight), operand(graph, bias)]
        return Value(graph.add("Gemm", *names), shape)
    product = graph.add("MatMul", x.name, operand(graph, weight))
    if bias is not None:
        product = graph.add("Add", product, operand(graph, bias))
    return Value(product, shape)


def _constant(given: Any, what: str) -> Any:
    if isinstance(given, Value):
        raise InvalidNetwork(f"a {what} multiplies two tensors that both depend on the input")
    return given


def _convolution(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
    if given.get("transposed"):
        raise InvalidNetwork("a transposed convolution")
    weight = _constant(given["weight"], "convolution")
    if weight.ndim != 4:
        raise InvalidNetwork("a convolution that is not two-dimensional")
    padding = given["padding"]
    # "same" and "valid" are words; unequal padding goes below and to the right, as in torch.
    if isinstance(padding, str):
        spans = [
            d * (k - 1) for d, k in zip(_pair(given["dilation"]), weight.shape[2:], strict=True)
        ]
        before = [span // 2 if padding == "same" else 0 for span in spans]
        after = [span - span // 2 if padding == "same" else 0 for span in spans]
    else:
        before = after = _pair(padding)
    inputs = [given["input"].name, operand(graph, weight)]
    if given["bias"] is not None:
        inputs.append(operand(graph, given["bias"]))
    name = graph.add(
        "Conv",
        *inputs,
        kernel_shape=list(weight.shape[2:]),
        strides=_pair(given["stride"]),
        pads=[*before, *after],
        dilations=_pair(given["dilation"]),
        group=given["groups"],
    )
    return Value(name, shape)


def _pair(given: Any) -> list[int]:
    sizes = [given] if isinstance(given, int) else list(given)
    return sizes * 2 if len(sizes) == 1 else sizes


def _batch_norm(graph: OnnxGraph, given: Arguments, shape: Any) -> Any:
    if given.get("training"):
        raise InvalidNetwork("a batch normalisation is in training mode even after eval()")
    mean, variance = given["running_mean"], given["running_var"]
    if mean is None or variance is None:
        raise InvalidNetwork("a batch normalisation without running statistics depends on a batch")
    several = not shape or not isinstance(shape[0], int)
    size = len(mean)
    scale = np.ones(size) if given["weight"] is None else _numbers(given["weight"])
    bias = np.zeros(size) if given["bias"] is None else _numbers(given["bias"])
    parts = (graph.constant(part) for part in (scale, bias, _numbers(mean), _numbers(variance)))
    name = graph.add("BatchNormalization", given["input"].name, *parts, epsilon=float(given["eps"]))
    value = Value(name, shape[0] if several else shape)
    return [value, None, None] if several else value


def _max_pool(graph: OnnxGraph, given: Arguments, shape: Any) -> Any:
    several = not isinstance(shape[0], int)
    kernel = _pair(given["kernel_size"])
    name = graph.add(
        "MaxPool",
        given["self"].name,
        kernel_shape=kernel,
        strides=_pair(given["stride"]) if given["stride"] else kernel,
        pads=_pair(given["padding"]) * 2,
        dilations=_pair(given["dilation"]),
        ceil_mode=int(given["ceil_mode"]),
    )
    value = Value(name, shape[0] if several else shape)
    return [value, None] if several else value


def _average_pool(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
    if given["divisor_override"] is not None:
        raise InvalidNetwork("an average pool with a divisor of its own")
    kernel = _pair(given["kernel_size"])
    name = graph.add(
        "AveragePool",
        given["self"].name,
        kernel_shape=kernel,
        strides=_pair(given["stride"]) if given["stride"] else kernel,
        pads=_pair(given["padding"]) * 2,
        ceil_mode=int(given["ceil_mode"]),
        count_include_pad=int(given["count_include_pad"]),
    )
    return Value(name, shape)


def _adaptive_pool(kind: str) -> Converter:
    def convert(graph: OnnxGraph, given: Arguments, shape: Any) -> Any:
        several = not isinstance(shape[0], int)
        result = shape[0] if several else shape
        sizes = given["self"].shape[-2:]
        if any(size % wanted for size, wanted in zip(sizes, result[-2:], strict=True)):
            raise InvalidNetwork(
                f"an adaptive pool from {sizes} to {result[-2:]}, which does not divide it"
            )
        if result[-2:] == (1, 1):
            name = graph.add(f"Global{kind}", given["self"].name)
        else:
            kernel = [size // wanted for size, wanted in zip(sizes, result[-2:], strict=True)]
            name = graph.add(kind, given["self"].name, kernel_shape=kernel, strides=kernel)
        return [Value(name, result), None] if several else Value(name, result)

    return convert


def _clip(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
    low = given.get("min", given.get("min_val"))
    high = given.get("max", given.get("max_val"))
    if isinstance(low, Value) or isinstance(high, Value):
        raise InvalidNetwork("a clamp whose ends depend on the input")
    names = ["" if end is None else graph.constant(float(end)) for end in (low, high)]
    return Value(graph.add("Clip", given["self"].name, *names), shape)


def _relu6(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
    return _clip(graph, {**given, "min": 0.0, "max": 6.0}, shape)


def _leaky_relu(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
    slope = float(given["negative_slope"])
    return Value(graph.add("LeakyRelu", given["self"].name, alpha=slope), shape)


def _prelu(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
    weight = _numbers(_constant(given["weight"], "prelu"))
    if weight.ndim == 1:  # one for each channel
        weight = weight.reshape(-1, *(1,) * (len(shape) - 2))
    return Value(graph.add("PRelu", given["self"].name, graph.constant(weight)), shape)


def _binary(kind: str) -> Converter:
    def convert(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
        if given.get("rounding_mode") is not None:
            raise InvalidNetwork("a division that rounds")
        second = operand(graph, given["other"])
        if given.get("alpha", 1) != 1:
            second = graph.add("Mul", second, graph.constant(float(given["alpha"])))
        return Value(graph.add(kind, operand(graph, given["self"]), second), shape)

    return convert


def _reversed_sub(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
    swapped = {**given, "self": given["other"], "other": given["self"]}
    return _binary("Sub")(graph, swapped, shape)  # type: ignore[no-any-return]


def _concat(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
    parts = [operand(graph, part) for part in given["tensors"]]
    return Value(graph.add("Concat", *parts, axis=given["dim"] % len(shape)), shape)


def _split(graph: OnnxGraph, given: Arguments, shapes: Sequence[Shape]) -> list[Value]:
    source: Value = given["self"]
    axis = given["dim"] % len(source.shape)
    found, start = [], 0
    for shape in shapes:
        end = start + shape[axis]
        found.append(Value(graph.slice(source.name, axis, start, end), shape))
        start = end
    return found


def _slice(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
    source: Value = given["self"]
    axis = given["dim"] % len(source.shape)
    start, end, _ = slice(given["start"], given["end"]).indices(source.shape[axis])
    return Value(graph.slice(source.name, axis, start, end, given["step"]), shape)


def _select(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
    source: Value = given["self"]
    axis = given["dim"] % len(source.shape)
    index = given["index"] % source.shape[axis]
    part = graph.slice(source.name, axis, index, index + 1)
    return Value(graph.reshape(part, shape), shape)


def _pad(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
    if given.get("mode", "constant") != "constant":
        raise InvalidNetwork(f"a padding in mode {given['mode']!r}")
    # Torch lists (before, after) from the last axis on; ONNX all befores, then all afters.
    rank = len(shape)
    pairs = list(zip(given["pad"][::2], given["pad"][1::2], strict=True))
    pairs = [(0, 0)] * (rank - len(pairs)) + pairs[::-1]
    pads = np.array([pair[side] for side in (0, 1) for pair in pairs], dtype=np.int64)
    value = graph.constant(float(given["value"] or 0.0))
    return Value(graph.add("Pad", given["self"].name, graph.constant(pads), value), shape)


def _reduce(kind: str) -> Converter:
    def convert(graph: OnnxGraph, given: Arguments, shape: Shape) -> Value:
        source: Value = given["self"]
        rank = len(source.shape)
        dims = given.get("dim")
        dims = list(range(rank)) if dims is None else [dims] if isinstance(dims, int) else dims
        axes = sorted(dim % rank for dim in dims) or list(range(rank))
        keep = int(bool(given.get("keepdim")))
        return Value(graph.add(kind, source.name, axes=axes, keepdims=keep), shape)

    return convert


CONVERTERS: dict[str, Converter] = {
    "_adaptive_avg_pool2d": _adaptive_pool("AveragePool"),
    "_log_softmax": _identity,  # as the last operator only; see torch_module
    "_native_batch_norm_legit_no_training": _batch_norm,
    "_prelu_kernel": _prelu,
    "_softmax": _identity,
    "_to_copy": _identity,
    "_unsafe_view": _reshape,
    "abs": _same("Abs"),
    "adaptive_avg_pool2d": _adaptive_pool("AveragePool"),
    "adaptive_max_pool2d": _adaptive_pool("MaxPool"),
    "add": _binary("Add"),
    "add_": _binary("Add"),
    "addmm": _addmm,
    "alias": _identity,
    "amax": _reduce("ReduceMax"),
    "avg_pool2d": _average_pool,
    "batch_norm": _batch_norm,
    "cat": _concat,
    "chunk": _split,
    "clamp": _clip,
    "clamp_max": _clip,
    "clamp_min": _clip,
    "clip": _clip,
    "clone": _identity,
    "constant_pad_nd": _pad,
    "contiguous": _identity,
    "conv2d": _convolution,
    "convolution": _convolution,
    "detach": _identity,
    "detach_": _identity,
    "div": _binary("Div"),
    "dropout": _dropout,
    "expand": _expand,
    "feature_dropout": _dropout,
    "flatten": _reshape,
    "hardtanh": _clip,
    "hardtanh_": _clip,
    "leaky_relu": _leaky_relu,
    "leaky_relu_": _leaky_relu,
    "linear": _linear,
    "log_softmax": _identity,
    "matmul": _matmul,
    "max_pool2d": _max_pool,
    "max_pool2d_with_indices": _max_pool,
    "maximum": _binary("Max"),
    "mean": _reduce("ReduceMean"),
    "minimum": _binary("Min"),
    "mm": _matmul,
    "mul": _binary("Mul"),
    "neg": _same("Neg"),
    "numpy_T": _permute,
    "pad": _pad,
    "permute": _permute,
    "prelu": _prelu,
    "relu": _same("Relu"),
    "relu6": _relu6,
    "relu6_": _relu6,
    "relu_": _same("Relu"),
    "reshape": _reshape,
    "rsub": _reversed_sub,
    "select": _select,
    "slice": _slice,
    "softmax": _identity,
    "split": _split,
    "split_with_sizes": _split,
    "squeeze": _reshape,
    "sub": _binary("Sub"),
    "t": _permute,
    "transpose": _permute,
    "unflatten": _reshape,
    "unsqueeze": _reshape,
    "view": _reshape,
}

# They keep the order of the scores, so the network goes without them.
TAILS = ("_softmax", "softmax", "_log_softmax", "log_softmax")
