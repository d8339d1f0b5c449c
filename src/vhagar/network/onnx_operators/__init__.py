"""Translators of ONNX operators, one for each, in the table `TRANSLATORS`.

A translator takes a node, adds the operator's computation to the node's graph, and returns the
result: tensors that depend on the input, or constants. It refuses what it does not support.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vhagar.network.onnx_node import Node, Operand
from vhagar.network.onnx_operators import (
    activations,
    comparisons,
    constants,
    elementwise,
    linear,
    pooling,
    rearranging,
    resizing,
    shaping,
)
from vhagar.network.onnx_operators.reasons import ML, reason

Translator = Callable[[Node], Operand | Sequence[Operand]]

TRANSLATORS: dict[str, Translator] = {
    "Abs": activations.absolute_value,
    "Add": elementwise.addition,
    "Atan": activations.increasing,
    "AveragePool": pooling.average_pool,
    "BatchNormalization": linear.batch_normalization,
    "Cast": constants.cast,
    "Celu": activations.exponential_linear,
    "Clip": activations.clipped,
    "Concat": shaping.concat,
    "Constant": constants.constant,
    "ConstantOfShape": constants.constant_of_shape,
    "Conv": linear.convolution,
    "ConvTranspose": linear.transposed_convolution,
    "DepthToSpace": rearranging.rearranged(rearranging.depth_to_space),
    "Div": elementwise.multiplication,
    "Dropout": shaping.dropout,
    "Elu": activations.exponential_linear,
    "Erf": activations.increasing,
    "Exp": activations.increasing,
    "Expand": rearranging.rearranged(rearranging.expand),
    "Flatten": shaping.flatten,
    "Gather": rearranging.rearranged(rearranging.gather),
    "Gemm": linear.gemm,
    "GlobalAveragePool": pooling.global_average_pool,
    "GlobalMaxPool": pooling.global_max_pool,
    "Greater": comparisons.compare,
    "GreaterOrEqual": comparisons.compare,
    "HardSigmoid": activations.hard_sigmoid,
    "Identity": shaping.identity,
    "LeakyRelu": activations.leaky,
    "Less": comparisons.compare,
    "LessOrEqual": comparisons.compare,
    "Log": activations.logarithm,
    "LogSoftmax": activations.softmax,
    "MatMul": linear.matmul,
    "Max": activations.extremum,
    "MaxPool": pooling.max_pool,
    "Mean": elementwise.addition,
    "Min": activations.extremum,
    "Mul": elementwise.multiplication,
    "Neg": elementwise.negation,
    "Not": comparisons.negated,
    "PRelu": activations.parametric,
    "Pad": rearranging.pad,
    "Range": constants.value_range,
    "ReduceMax": pooling.reduction,
    "ReduceMean": pooling.reduction,
    "ReduceMin": pooling.reduction,
    "ReduceSum": pooling.reduction,
    "Relu": activations.relu,
    "Reshape": shaping.reshape,
    "Resize": rearranging.rearranged(resizing.resize),
    "Selu": activations.exponential_linear,
    "Shape": shaping.shape_of,
    "Sigmoid": activations.increasing,
    "Size": shaping.size_of,
    "Slice": rearranging.rearranged(rearranging.slice_of),
    "Softmax": activations.softmax,
    "Softplus": activations.increasing,
    "Softsign": activations.increasing,
    "SpaceToDepth": rearranging.rearranged(rearranging.space_to_depth),
    "Split": rearranging.rearranged(rearranging.split),
    "Squeeze": shaping.squeeze,
    "Sub": elementwise.addition,
    "Sum": elementwise.addition,
    "Tanh": activations.increasing,
    "ThresholdedRelu": activations.thresholded,
    "Tile": rearranging.rearranged(rearranging.tile),
    "Transpose": rearranging.rearranged(rearranging.transpose),
    "Unsqueeze": shaping.unsqueeze,
    "Upsample": rearranging.rearranged(resizing.upsample),
    "Where": elementwise.where,
}

# ONNX's operators for classical models, of which scikit-learn's converter uses some.
_ML_TRANSLATORS: dict[str, Translator] = {
    "ArrayFeatureExtractor": rearranging.rearranged(rearranging.features),
    "Scaler": elementwise.scaler,
}
_BY_DOMAIN = {"": TRANSLATORS, "ai.onnx": TRANSLATORS, ML: _ML_TRANSLATORS}

SUPPORTED_OPERATORS = (*TRANSLATORS, *_ML_TRANSLATORS)


def translator_of(proto: Any) -> Translator | None:
    """The translator of a node; None if its operator is not supported."""
    return _BY_DOMAIN.get(proto.domain, {}).get(proto.op_type)


def translate(node: Node) -> Sequence[Operand]:
    """Return the node's outputs, in order."""
    translator = translator_of(node.proto)
    if node.proto.domain in ("", "ai.onnx") and node.operands and constants.folds(node):
        translator = constants.folded
    if translator is None:
        raise node.refusal(reason(node.kind, node.proto.domain))
    found = translator(node)
    results = found if isinstance(found, list) else [found]
    constants.note_rounding(node, results)  # type: ignore[arg-type]
    return results  # type: ignore[return-value]
