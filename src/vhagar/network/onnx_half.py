"""Models in half precision (float16, bfloat16), as models in single precision.

Every half-precision number is a single-precision number, so weights keep their values. The network
is verified in real numbers either way; the second opinion on witnesses then rounds less.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vhagar.network.onnx_messages import editable
from vhagar.network.onnx_tensors import read_tensor
from vhagar.network.onnx_types import AttributeType, TensorType
from vhagar.network.onnx_usage import inputs_of, tensors_of

_HALF = (TensorType.FLOAT16, TensorType.BFLOAT16)
NOTE = (
    "half-precision weights are taken exactly: what is verified is the network in real numbers, "
    "from which a runtime in half precision differs by its rounding"
)


def halves_of(model: Any) -> frozenset[str]:
    """The names of constants in half precision; runtimes round what is computed from them."""
    stored = {tensor.name for tensor in model.graph.initializer if tensor.data_type in _HALF}
    for node in model.graph.node:
        held = [item.t for item in node.attribute if item.type == AttributeType.TENSOR]
        if any(tensor.data_type in _HALF for tensor in held):
            stored.update(node.output)
    return frozenset(stored)


def in_single_precision(model: Any) -> Any:
    """Return the model itself, or a copy in single precision if it has half-precision numbers."""
    values = [*model.graph.input, *model.graph.output]
    halves = [value for value in values if value.type.tensor_type.elem_type in _HALF]
    if not halves and not any(tensor.data_type in _HALF for tensor in tensors_of(model.graph)):
        return model
    from onnx import numpy_helper

    changed = editable(model)
    graph = changed.graph
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type in _HALF:
            value.type.tensor_type.elem_type = TensorType.FLOAT
    for tensor in tensors_of(graph):
        if tensor.data_type in _HALF:
            single = read_tensor(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(single, tensor.name))
    _recast(graph)
    return changed


def _recast(graph: Any) -> None:
    """Let casts of data to half precision be casts to single; those of constants round."""
    data = {value.name for value in inputs_of(graph)}
    for node in graph.node:
        if not data.intersection(node.input):
            continue
        data.update(node.output)
        for item in node.attribute:
            if node.op_type == "Cast" and item.name == "to" and item.i in _HALF:
                item.i = TensorType.FLOAT
