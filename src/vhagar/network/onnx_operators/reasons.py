"""Why operators are not supported, where there is more to say than that they are not."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from vhagar.errors import Refusal
from vhagar.network.onnx_node import label

# ONNX's operators for classical models: trees, encoders and the like.
ML = "ai.onnx.ml"

_ONLY = "only piecewise-linear networks can be verified"
INSTEAD = "train with ReLU, LeakyReLU, Hardtanh or Hardsigmoid instead"
_SMOOTH = f"is smooth, and {_ONLY}"
_ACTIVATION = f"{_SMOOTH}: {INSTEAD}"
_DIVIDES = (
    f"divides by a deviation of the data itself, and {_ONLY}: train with batch normalisation "
    "instead, which is linear in inference"
)
_GROUPS = f"{_DIVIDES} (exporters write GroupNorm as InstanceNormalization, too)"
_JUMPS = f"jumps, and {_ONLY}, which are continuous"
_QUANTISED = (
    f"belongs to a quantised network, which rounds between its layers, and {_ONLY}; "
    "export the model before its quantisation"
)
_ROUNDS = (
    f"belongs to a quantised network: it rounds between the layers, and {_ONLY}; "
    "`vhagar convert FILE -o real.onnx` writes the network without that rounding, or export it "
    "before its quantisation"
)
_UNKNOWN = f"is not supported: {_ONLY}, of the operators that the documentation lists"
_RECURRENT = f"is recurrent: its gates multiply values that depend on the input, and {_ONLY}"
_CONTROL = "chooses which part of the model to run; export the model without control flow"

REASONS: dict[str, str] = {
    **dict.fromkeys(
        ("Acos", "Asin", "Cos", "Cosh", "Log", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare",
         "Sin", "Sinh", "Sqrt", "Tan"), _SMOOTH,
    ),
    **dict.fromkeys(("Celu", "Elu", "Gelu", "Mish", "Selu", "Swish"), _ACTIVATION),
    **dict.fromkeys(
        ("GroupNormalization", "LRN", "LayerNormalization",
         "LpNormalization", "MeanVarianceNormalization", "RMSNormalization",
         "SimplifiedLayerNormalization"), _DIVIDES,
    ),
    **dict.fromkeys(("Ceil", "Floor", "Mod", "Round", "Sign", "Shrink"), _JUMPS),
    **dict.fromkeys(
        ("ConvInteger", "DynamicQuantizeLinear", "MatMulInteger", "QLinearAdd", "QLinearConv",
         "QLinearMatMul"), _QUANTISED,
    ),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), _ROUNDS),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _RECURRENT),
    **dict.fromkeys(("If", "Loop", "Scan"), _CONTROL),
    "ArgMax": "gives a label, not scores; choose the scores with --output NAME",
    "ArgMin": "gives a label, not scores; choose the scores with --output NAME",
    "Attention": f"multiplies values that depend on the input, and {_ONLY}",
    "Einsum": "is not supported; export the model with MatMul",
    "InstanceNormalization": _GROUPS,
    "HardSwish": f"multiplies the data with itself, and {_ONLY}: {INSTEAD}",
    "Pow": f"is a power of the data, and {_ONLY}",
    "ReduceProd": f"multiplies values that depend on the input, and {_ONLY}",
    "Reciprocal": f"divides by the data, and {_ONLY}",
}  # fmt: skip

# Operators that exporters also use to compute shapes: behind a refused node nobody can tell.
ON_SHAPES = frozenset(("Ceil", "Floor", "Mod", "Pow", "Reciprocal", "Round", "Sqrt"))

_ENCODES = (
    "encodes categories, so a small change of its input is no small change of its output; convert "
    "the network without it, and give it the encoded features"
)
_TREES = f"is an ensemble of decision trees, which jumps, and {_ONLY}"
_KERNEL = f"is a support vector machine, whose kernel is smooth, and {_ONLY}"
_LINEAR = "is a linear model without a layer of neurons; write it as one Gemm to verify it"
ML_REASONS: dict[str, str] = {
    **dict.fromkeys(
        ("CategoryMapper", "DictVectorizer", "LabelEncoder", "OneHotEncoder"), _ENCODES
    ),
    **dict.fromkeys(
        ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"), _TREES
    ),
    **dict.fromkeys(("SVMClassifier", "SVMRegressor"), _KERNEL),
    **dict.fromkeys(("LinearClassifier", "LinearRegressor"), _LINEAR),
    "Binarizer": _JUMPS,
    "Imputer": "replaces missing values, which no range of inputs contains; convert the network "
    "without it",
    "Normalizer": f"divides each input by its own norm, and {_ONLY}",
}  # fmt: skip
_MICROSOFT = (
    "is not supported: it is an operator of onnxruntime ('com.microsoft'), which its optimiser "
    "writes; give the model as it was exported, before that"
)


def reason(operator: str, domain: str) -> str:
    """Say why an operator that has no translator is refused."""
    if domain == ML and operator in ML_REASONS:
        return ML_REASONS[operator]
    if domain == "com.microsoft":
        return _MICROSOFT
    if domain not in ("", "ai.onnx"):
        return f"is not supported: it belongs to {domain!r}, not to ONNX's own operators"
    return REASONS.get(operator, _UNKNOWN)


def unsupported(model: Any, translated: Container[str]) -> list[Refusal]:
    """The nodes that are refused whatever the rest of the model is: those with a reason."""
    return [
        Refusal(node.op_type, label(node), reason(node.op_type, node.domain))
        for node in model.graph.node
        if (node.domain == ML and node.op_type in ML_REASONS)
        or (node.domain == "" and node.op_type in REASONS and node.op_type not in translated)
        if not node.op_type.startswith("Arg")
    ]


# ATen operators, PyTorch's, by the ONNX operators that they are.
_KNOWN_AS = {
    "bmm": "Attention", "celu": "Celu", "cos": "Cos", "elu": "Elu", "exp": "Log", "floor": "Floor",
    "gelu": "Gelu", "glu": "Attention", "group_norm": "GroupNormalization", "gru": "GRU",
    "hardshrink": "Shrink", "hardswish": "HardSwish", "instance_norm": "InstanceNormalization",
    "layer_norm": "LayerNormalization", "log": "Log", "log_sigmoid": "Log", "lstm": "LSTM",
    "mish": "Mish", "native_group_norm": "GroupNormalization",
    "native_layer_norm": "LayerNormalization", "pow": "Pow", "reciprocal": "Reciprocal",
    "rms_norm": "RMSNormalization", "round": "Round", "rsqrt": "Sqrt",
    "scaled_dot_product_attention": "Attention", "selu": "Selu", "sign": "Sign", "silu": "Swish",
    "sin": "Sin", "softplus": "Log", "sqrt": "Sqrt",
}  # fmt: skip


def why_not(name: str) -> str:
    """Say why an operator of PyTorch cannot be converted."""
    return REASONS.get(_KNOWN_AS.get(name, ""), "cannot be converted from PyTorch")
