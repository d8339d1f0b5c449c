"""An input convention as nodes in front of an ONNX model.

The reader then treats the convention like any other nodes of the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from vhagar.network.conventions import Convention
from vhagar.network.onnx_messages import editable
from vhagar.network.onnx_usage import unused

# New names begin with this, or with more if the model has such names itself.
_PREFIX = "vhagar_convention"


def with_front(
    model: Any, input_name: str, convention: Convention, own_precision: bool = False
) -> Any:
    """A copy of the model that takes inputs of the convention's `input_shape`.

    New constants are float64 numbers, like the user's, for the reader, which ignores types; a
    runtime needs them in the model's `own_precision`.
    """
    changed = editable(model)
    graph = changed.graph
    place = next(k for k, value in enumerate(graph.input) if value.name == input_name)
    kind = graph.input[place].type.tensor_type
    batch = kind.shape.dim[0].dim_value or "batch"
    prefix = unused(graph, _PREFIX)
    outside = f"{prefix}_input"
    dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type) if own_precision else np.float64
    nodes, tensors = _nodes(convention, prefix, outside, np.dtype(dtype))
    skipped = _cancelled(graph, input_name, convention)
    for node in skipped:
        node.op_type = "Identity"
        del node.attribute[:]
    if skipped:  # the model would undo the last step of the front, so both are dropped
        nodes = [node for node in nodes if node.op_type not in ("Transpose", "Reshape")]
    last = nodes[-1].output[0] if nodes else outside
    nodes.append(helper.make_node("Identity", [last], [input_name]))
    graph.input[place].CopyFrom(
        helper.make_tensor_value_info(outside, kind.elem_type, [batch, *convention.input_shape])
    )
    graph.initializer.extend(tensors)
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes, *rest])
    return changed


def _nodes(
    convention: Convention, prefix: str, source: str, dtype: np.dtype[Any]
) -> tuple[list[Any], list[Any]]:
    nodes: list[Any] = []
    tensors: list[Any] = []

    def then(kind: str, constant: Any = None, **attributes: Any) -> None:
        name = f"{prefix}_{len(nodes)}"
        inputs = [nodes[-1].output[0] if nodes else source]
        if constant is not None:
            tensors.append(numpy_helper.from_array(constant, f"{name}_constant"))
            inputs.append(f"{name}_constant")
        nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))

    if convention.mean:
        then("Sub", convention.spread(convention.mean)[None].astype(dtype))
    if convention.std:
        then("Div", convention.spread(convention.std)[None].astype(dtype))
    shape = convention.input_shape
    if convention.layout == "hwc":
        then("Transpose", perm=[0, 2, 3, 1])
        shape = (*shape[1:], shape[0])
    if shape != convention.model_shape:
        then("Reshape", np.array([-1, *convention.model_shape], dtype=np.int64))
    return nodes, tensors


def _cancelled(graph: Any, input_name: str, convention: Convention) -> list[Any]:
    """Return the nodes that put channels first again, if nothing else uses the model's input."""
    users = [node for node in graph.node if input_name in node.input]
    channels_last = (*convention.input_shape[1:], convention.input_shape[0])
    back = [0, 3, 1, 2]
    undone = all(
        node.op_type == "Transpose"
        and any(item.name == "perm" and list(item.ints) == back for item in node.attribute)
        for node in users
    )
    is_cancelled = convention.layout == "hwc" and channels_last == convention.model_shape and undone
    return users if is_cancelled else []
