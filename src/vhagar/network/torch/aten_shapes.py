"""Converters of operators that move, slice or gather entries.

Shapes are fixed, so squeezing, flattening and the like are all a Reshape.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vhagar.errors import InvalidNetwork
from vhagar.network.onnx_graph import OnnxGraph
from vhagar.network.torch.aten_values import Arguments, AtenValue, Converter, Shape, operand


def reshape(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    return AtenValue(graph.reshape(given["self"].name, shape), shape)


def expand(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    if given["self"].shape != shape:
        raise InvalidNetwork(f"an expand from {given['self'].shape} to {shape} repeats values")
    value: AtenValue = given["self"]
    return value


def permute(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    rank = len(shape)
    order = list(range(rank))
    if "dims" in given:
        order = [dim % rank for dim in given["dims"]]
    else:
        first, second = (dim % rank for dim in (given.get("dim0", 0), given.get("dim1", 1)))
        order[first], order[second] = second, first
    return AtenValue(graph.add("Transpose", given["self"].name, perm=order), shape)


def concat(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    parts = [operand(graph, part) for part in given["tensors"]]
    return AtenValue(graph.add("Concat", *parts, axis=given["dim"] % len(shape)), shape)


def split(graph: OnnxGraph, given: Arguments, shapes: Sequence[Shape]) -> list[AtenValue]:
    source: AtenValue = given["self"]
    axis = given["dim"] % len(source.shape)
    found, start = [], 0
    for shape in shapes:
        end = start + shape[axis]
        found.append(AtenValue(graph.slice(source.name, axis, start, end), shape))
        start = end
    return found


def sliced(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    source: AtenValue = given["self"]
    axis = given["dim"] % len(source.shape)
    start, end, _ = slice(given["start"], given["end"]).indices(source.shape[axis])
    return AtenValue(graph.slice(source.name, axis, start, end, given["step"]), shape)


def select(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    source: AtenValue = given["self"]
    axis = given["dim"] % len(source.shape)
    index = given["index"] % source.shape[axis]
    part = graph.slice(source.name, axis, index, index + 1)
    return AtenValue(graph.reshape(part, shape), shape)


def pad(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
    if given.get("mode", "constant") != "constant":
        raise InvalidNetwork(f"a padding in mode {given['mode']!r}")
    # Torch lists (before, after) from the last axis on; ONNX all befores, then all afters.
    rank = len(shape)
    pairs = list(zip(given["pad"][::2], given["pad"][1::2], strict=True))
    pairs = [(0, 0)] * (rank - len(pairs)) + pairs[::-1]
    pads = np.array([pair[side] for side in (0, 1) for pair in pairs], dtype=np.int64)
    value = graph.constant(float(given["value"] or 0.0))
    return AtenValue(graph.add("Pad", given["self"].name, graph.constant(pads), value), shape)


def reduce(kind: str) -> Converter:
    def convert(graph: OnnxGraph, given: Arguments, shape: Shape) -> AtenValue:
        source: AtenValue = given["self"]
        rank = len(source.shape)
        dims = given.get("dim")
        dims = list(range(rank)) if dims is None else [dims] if isinstance(dims, int) else dims
        axes = sorted(dim % rank for dim in dims) or list(range(rank))
        keep = int(bool(given.get("keepdim")))
        return AtenValue(graph.add(kind, source.name, axes=axes, keepdims=keep), shape)

    return convert
