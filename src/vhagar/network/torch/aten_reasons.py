"""Why ATen operators are not converted: for the same reasons as ONNX's."""

from __future__ import annotations

from vhagar.network.onnx_operators.reasons import REASONS

# ATen operators by the ONNX operators that they are.
_KNOWN_AS = {
    "bmm": "Attention",
    "celu": "Celu",
    "cos": "Cos",
    "elu": "Elu",
    "exp": "Log",
    "floor": "Floor",
    "gelu": "Gelu",
    "glu": "Attention",
    "group_norm": "GroupNormalization",
    "gru": "GRU",
    "hardshrink": "Shrink",
    "hardswish": "HardSwish",
    "instance_norm": "InstanceNormalization",
    "layer_norm": "LayerNormalization",
    "log": "Log",
    "log_sigmoid": "Log",
    "lstm": "LSTM",
    "mish": "Mish",
    "native_group_norm": "GroupNormalization",
    "native_layer_norm": "LayerNormalization",
    "pow": "Pow",
    "reciprocal": "Reciprocal",
    "rms_norm": "RMSNormalization",
    "round": "Round",
    "rsqrt": "Sqrt",
    "scaled_dot_product_attention": "Attention",
    "selu": "Selu",
    "sign": "Sign",
    "silu": "Swish",
    "sin": "Sin",
    "softplus": "Log",
    "sqrt": "Sqrt",
}


def why_not(name: str) -> str:
    """Say why an operator cannot be converted."""
    return REASONS.get(_KNOWN_AS.get(name, ""), "cannot be converted from PyTorch")
