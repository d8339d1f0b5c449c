"""The end of an ONNX model: which output holds the scores, and the model that gives just these.

The second opinion on witnesses runs the model that `with_scores` makes: its only output has one
score per class, without the activations at the end that the reader ignores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vhagar.errors import InvalidInput, InvalidNetwork
from vhagar.network.onnx_messages import editable, serialized
from vhagar.network.onnx_tensors import read_tensor
from vhagar.network.onnx_types import TensorType
from vhagar.network.onnx_usage import inputs_of, nodes_on_the_way, unused

# New names begin with this, or with more if the model has such names itself.
_PREFIX = "vhagar_scores"
_FLOATS = (TensorType.FLOAT, TensorType.DOUBLE, TensorType.FLOAT16, TensorType.BFLOAT16)


def choose_output(model: Any, wanted: str | None) -> tuple[Any, str | None]:
    """Return the model with the output that holds its scores, and its name if it was chosen.

    `wanted` is an output or any other value of the model. Without it, labels are ignored.
    """
    outputs = list(model.graph.output)
    if wanted is None and len(outputs) == 1 and _before(model, outputs[0].name) is None:
        return model, None
    if wanted is None:
        names = [value.name for value in outputs if not _holds_labels(value)]
        if not outputs:
            raise InvalidNetwork("a classifier has one output; this model has none")
        if len(names) != 1:
            raise InvalidNetwork(
                f"this model has the outputs {[value.name for value in outputs]}; "
                "choose the one that holds the scores with --output NAME"
            )
        wanted = names[0]
    made = {name for node in model.graph.node for name in node.output if name}
    if wanted not in made:
        raise InvalidInput(
            f"the model has no output {wanted!r}; its outputs are "
            f"{[value.name for value in outputs]}"
        )
    for _ in model.graph.node:  # no longer chain can be a damaged file's, which goes in a circle
        before = _before(model, wanted)
        if before is None:
            break
        wanted = before
    return _with_output(model, wanted), wanted


def _before(model: Any, name: str) -> str | None:
    """The value that decides the class instead of this one; None if this one does."""
    return _zipped(model, name) or _share(model, name)


def _holds_labels(value: Any) -> bool:
    kind = value.type
    return kind.HasField("tensor_type") and kind.tensor_type.elem_type not in _FLOATS


def _zipped(model: Any, name: str) -> str | None:
    """The scores from which scikit-learn's converter makes a dictionary for each input."""
    for node in model.graph.node:
        if node.op_type == "ZipMap" and name in node.output:
            return str(node.input[0])
    return None


def is_share(model: Any, name: str) -> bool:
    """Whether a value was chosen as the p of an output `[1 - p, p]`."""
    results = [
        name for node in model.graph.node for name in node.output if node.op_type == "Concat"
    ]
    return any(_share(model, result) == name for result in results)


def _share(model: Any, name: str) -> str | None:
    """The share p of which a binary classifier of scikit-learn makes its output `[1 - p, p]`.

    It is the result of a Sigmoid, whose one score decides the class; None for any other value.
    """
    makers = {name: node for node in model.graph.node if not node.domain for name in node.output}
    for _ in model.graph.node:
        node = makers.get(name)
        if node is None or node.op_type != "Identity" or not node.input:
            break
        name = node.input[0]
    node = makers.get(name)
    if node is None or node.op_type != "Concat" or len(node.input) != 2:
        return None
    rest, share = (makers.get(name) for name in node.input)
    of_scores = [item.i for item in node.attribute if item.name == "axis"] in ([1], [-1])
    if not of_scores or share is None or share.op_type != "Sigmoid" or rest is None:
        return None
    is_rest = rest.op_type == "Sub" and list(rest.input[1:]) == [share.output[0]]
    return str(share.output[0]) if is_rest and _is_one(model, rest.input[0]) else None


def _is_one(model: Any, name: str) -> bool:
    constants = [tensor for tensor in model.graph.initializer if tensor.name == name]
    for node in model.graph.node:
        if node.op_type == "Constant" and not node.domain and name in node.output:
            constants += [item.t for item in node.attribute if item.name == "value"]
    return any(np.array_equal(read_tensor(one).reshape(-1), [1.0]) for one in constants)


def _with_output(model: Any, name: str) -> Any:
    """A copy of the model with one output, and the nodes that it depends on."""
    from onnx import helper

    changed = editable(model)
    graph = changed.graph
    known = [value for value in graph.output if value.name == name]
    chosen = known[0] if known else helper.make_tensor_value_info(name, _precision(model), None)
    del graph.output[:]
    graph.output.append(chosen)
    nodes = nodes_on_the_way(graph)
    del graph.node[:]
    graph.node.extend(nodes)
    return changed


def _precision(model: Any) -> int:
    inputs = inputs_of(model.graph)
    return int(inputs[0].type.tensor_type.elem_type) if inputs else TensorType.FLOAT


def with_scores(
    model: Any, dropped: frozenset[str], threshold: float | None, argmin: bool = False
) -> bytes:
    """Return a model with the scores that the layers compute.

    `dropped` names the results of ignored activations. With a `threshold`, the one score z becomes
    `[0, z - threshold]`; with `argmin` all are negated.
    """
    if not dropped and threshold is None and not argmin:
        return serialized(model)
    changed = editable(model)
    for node in changed.graph.node:
        if node.output[0] in dropped:
            node.op_type = "Identity"
            node.ClearField("attribute")
    if threshold is not None:
        _append_threshold(changed, threshold)
    if argmin:
        _append_negation(changed)
    return bytes(changed.SerializeToString())


def _append_negation(model: Any) -> None:
    from onnx import helper

    graph = model.graph
    scores = f"{unused(graph, _PREFIX)}_negated"
    source = graph.output[0]
    kind = source.type.tensor_type.elem_type or _precision(model)
    graph.node.append(helper.make_node("Neg", [source.name], [scores]))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info(scores, kind, None))


def _append_threshold(model: Any, threshold: float) -> None:
    from onnx import helper, numpy_helper

    graph = model.graph
    prefix = unused(graph, _PREFIX)
    model.ir_version = max(model.ir_version, 4)  # constants need not be inputs
    source = graph.output[0]
    kind = source.type.tensor_type.elem_type or _precision(model)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    constants = {
        "shape": np.array([-1, 1], dtype=np.int64),
        "weight": np.array([[0.0, 1.0]], dtype=dtype),
        "bias": np.array([0.0, -threshold], dtype=dtype),
    }
    for name, array in constants.items():
        graph.initializer.append(numpy_helper.from_array(array, f"{prefix}_{name}"))
    column, scores = f"{prefix}_column", f"{prefix}_output"
    graph.node.extend([
        helper.make_node("Reshape", [source.name, f"{prefix}_shape"], [column]),
        helper.make_node("Gemm", [column, f"{prefix}_weight", f"{prefix}_bias"], [scores]),
    ])  # fmt: skip
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info(scores, kind, None))
