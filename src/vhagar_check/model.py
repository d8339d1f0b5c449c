"""Reads the network from the bytes of an ONNX file alone.

The operators are looked up in one table; any other is refused by name. docs/certificate.md says
what each of them becomes, under "The network".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from vhagar_check import arithmetic, units, windows
from vhagar_check.batches import require_alike
from vhagar_check.choices import COMPARISONS, compared
from vhagar_check.errors import Rejected
from vhagar_check.feature_operators import scaler
from vhagar_check.folding import fold
from vhagar_check.graph import Node, read_graph
from vhagar_check.layers import Network, Shape
from vhagar_check.reading import Reader, Result, Sides, Special, Wire, axis_of
from vhagar_check.scores import Stated
from vhagar_check.selections import (
    SELECTIONS,
    flat_shape,
    new_shape,
    squeezed_shape,
    unsqueezed_shape,
)

_FLOATS, _HALVES = (1, 11), (10, 16)
_ALL_SCORES = Stated()


def read_model(data: bytes, stated: Stated = _ALL_SCORES, sizes: Shape = ()) -> Network:
    """Read the network of an ONNX file, with the stated scores and input sizes."""
    reader = Reader(read_graph(data, stated.output, sizes))
    for node in reader.graph.nodes:
        require_alike(reader, node)
        results: Sequence[Result | Special] | None = fold(reader, node)
        if results is None:
            results = _results(reader, node)
        for name, result in zip(node.outputs, results, strict=False):
            if name:
                reader.names[name] = result
    output = reader.names.get(reader.graph.output)
    ranks = (1, 2) if reader.takes_vectors else (2,)
    if not isinstance(output, Wire) or not (len(output.shape) in ranks or output.value.size == 1):
        raise Rejected("the model's output is not a vector of scores that depends on its input")
    return stated.applied(reader.flow.network(output.value))


def _results(reader: Reader, node: Node) -> Sequence[Wire | Sides]:
    if node.kind in COMPARISONS or (reader.takes_special(node) and node.kind != "MatMul"):
        return [compared(reader, node)]
    if node.kind in _ALIASES:
        return [_ALIASES[node.kind](reader, node)]
    if node.kind in SELECTIONS:
        wire = reader.wire(node)
        tables = SELECTIONS[node.kind](reader, node, wire.positions)
        return [reader.picked(node, wire, table) for table in tables]
    if node.kind in _OPERATORS:
        return [_OPERATORS[node.kind](reader, node)]
    raise node.refused("is not understood by this checker")


def _nothing(reader: Reader, node: Node) -> Wire:
    node.only("ratio", "seed")
    training = reader.given(node, 2)
    if training is not None and (isinstance(training, Wire) or training.any()):
        raise node.refused("is in training mode")
    return reader.alias(node)


def _cast(reader: Reader, node: Node) -> Wire:
    if node.cast_to() not in (*_FLOATS, *_HALVES):
        raise node.refused("is to a type that is not understood")
    return reader.alias(node)


def _reshape(reader: Reader, node: Node) -> Wire:
    wire = reader.alias(node)
    return reader.reshaped(node, wire, new_shape(reader, node, wire.shape, reader.graph.batch))


def _flatten(reader: Reader, node: Node) -> Wire:
    wire = reader.alias(node)
    return reader.reshaped(node, wire, flat_shape(node, wire.shape))


def _squeeze(reader: Reader, node: Node) -> Wire:
    wire = reader.alias(node)
    if not reader.integers(node, "axes", 1):
        reader.takes_vectors = True  # the batch, which is 1, is dropped as well
    return reader.reshaped(node, wire, squeezed_shape(reader, node, wire.shape))


def _unsqueeze(reader: Reader, node: Node) -> Wire:
    wire = reader.alias(node)
    return reader.reshaped(node, wire, unsqueezed_shape(reader, node, wire.shape))


def _softmax(reader: Reader, node: Node) -> Wire:
    """Drop a softmax: it keeps the order of the scores, on which the confidence is defined."""
    node.only("axis")
    wire = reader.alias(node)
    given = node.integer("axis", 1 if reader.graph.opset < 13 else -1)
    rank = 1 if len(wire.shape) == 1 else 2
    axis = axis_of(node, given, rank)
    if len(wire.shape) != rank or axis != rank - 1 or wire.value.size < 2:
        raise node.refused("is not over the classes")
    return replace(wire, normalised=True, positive=node.kind == "Softmax")


def _increasing(reader: Reader, node: Node) -> Wire:
    """Drop a strictly increasing function, which is the same for all scores, likewise."""
    node.only()
    positive = node.kind in ("Exp", "Sigmoid", "Softplus")
    return replace(reader.alias(node), normalised=True, positive=positive)


def _exponential_linear(reader: Reader, node: Node) -> Wire:
    """Drop a function that is linear above 0 and exponential below, with positive factors."""
    node.only("alpha", *(["gamma"] if node.kind == "Selu" else []))
    if not all(0 < node.number(name, 1.0) < math.inf for name in ("alpha", "gamma")):
        raise node.refused("has a factor that is not positive")
    return replace(reader.alias(node), normalised=True, positive=False)


def _logarithm(reader: Reader, node: Node) -> Wire:
    """Drop a logarithm of positive numbers, for which it is strictly increasing."""
    node.only()
    wire = reader.alias(node)
    if not wire.positive:
        raise node.refused("is taken of numbers that may not be positive")
    return replace(wire, positive=False)


Operator = Callable[[Reader, Node], Wire]
# Operators whose result is their operand, perhaps with another shape.
_ALIASES: dict[str, Operator] = {
    "Identity": _nothing,
    "Dropout": _nothing,
    "Cast": _cast,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    **dict.fromkeys(("Atan", "Erf", "Exp", "Sigmoid", "Softplus", "Softsign", "Tanh"), _increasing),
    **dict.fromkeys(("Celu", "Elu", "Selu"), _exponential_linear),
    "Log": _logarithm,
}
_OPERATORS: dict[str, Operator] = {
    "Gemm": arithmetic.gemm,
    "MatMul": arithmetic.matmul,
    "Conv": windows.conv,
    "ConvTranspose": windows.conv_transpose,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), arithmetic.elementwise),
    "Sum": arithmetic.sum_of,
    "Mean": arithmetic.mean_of,
    "Neg": arithmetic.negative,
    "BatchNormalization": arithmetic.batch_normalization,
    "ml.Scaler": scaler,
    "Concat": arithmetic.concat,
    "Where": arithmetic.where,
    "Pad": arithmetic.pad,
    "AveragePool": windows.average_pool,
    "GlobalAveragePool": windows.global_average_pool,
    "ReduceMean": windows.reduce_mean,
    "ReduceSum": windows.reduce_sum,
    "Relu": units.relu,
    "LeakyRelu": units.leaky,
    "PRelu": units.leaky,
    "Clip": units.clip,
    "HardSigmoid": units.hard_sigmoid,
    "ThresholdedRelu": units.thresholded,
    "Abs": units.absolute,
    "Max": units.extreme,
    "Min": units.extreme,
    "MaxPool": units.max_pool,
    "GlobalMaxPool": units.global_max_pool,
    "ReduceMax": units.reduce_extreme,
    "ReduceMin": units.reduce_extreme,
}
