"""Uses of values in an ONNX graph: its inputs, what the output depends on, ReLUs that may move."""

from __future__ import annotations

from collections import Counter
from typing import Any

from vhagar.network.onnx_types import AttributeType

# Operators that return their operand, at most in another shape.
_SAME_NUMBERS = ("Identity", "Dropout", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Cast")

# Strictly increasing functions of each score, which leave the order of the scores as it is.
_INCREASING = (
    "Atan", "Celu", "Elu", "Erf", "Exp", "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh",
)  # fmt: skip
# Operators that are ignored at the end of a model; Log only of positive numbers.
IGNORED_LAST = ("Softmax", "LogSoftmax", "Log", *_INCREASING)
# Operators that give positive numbers, of which Log is strictly increasing.
_POSITIVE = ("Exp", "Sigmoid", "Softmax", "Softplus")

# Operators whose result has the shape of their operands, if these share one shape.
KEEP_THE_SHAPE = frozenset((
    "Acos", "Asin", "Atan", "BatchNormalization", "Celu", "Cos", "Div", "Elu", "Erf", "Exp",
    "Gelu", "HardSigmoid", "HardSwish", "InstanceNormalization", "LRN", "LayerNormalization",
    "Ceil", "Floor", "GroupNormalization", "Log", "LogSoftmax", "LpNormalization", "Mish", "Mul",
    "Pow", "Reciprocal", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softmax", "Softplus",
    "Softsign", "Sqrt", "Tanh", "ThresholdedRelu",
))  # fmt: skip


def opset_of(model: Any) -> int:
    """The version of ONNX's operators; 1 if the file does not say."""
    own = [one.version for one in model.opset_import if one.domain in ("", "ai.onnx")]
    return max(own, default=1)


def inputs_of(graph: Any) -> list[Any]:
    """The inputs of a graph; old files also list its constants as inputs."""
    constants = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in constants]


def tensors_of(graph: Any) -> list[Any]:
    """All constants: the initialisers, and those in attributes of nodes."""
    attributes = [item for node in graph.node for item in node.attribute]
    in_nodes = [item.t for item in attributes if item.type == AttributeType.TENSOR]
    return [*graph.initializer, *in_nodes]


def sizes_of(value: Any) -> list[int]:
    """The sizes of a value, 0 where they are open."""
    dims = value.type.tensor_type.shape.dim
    return [dim.dim_value if dim.HasField("dim_value") else 0 for dim in dims]


def unused(graph: Any, name: str) -> str:
    """The name, or a longer one, with which no name of the graph begins."""
    used = {value.name for value in (*graph.input, *graph.output, *graph.initializer)}
    for node in graph.node:
        used.update((*node.input, *node.output))
    texts = [one for one in used if isinstance(one, str)]  # what is no UTF-8 comes as bytes
    while any(one.startswith(name) for one in texts):
        name += "_"
    return name


def nodes_on_the_way(graph: Any) -> list[Any]:
    """The nodes the output depends on, in the file's (topological) order."""
    needed = {graph.output[0].name}
    chosen = []
    for node in reversed(graph.node):
        if needed.intersection(filter(None, node.output)):
            chosen.append(node)
            needed.update(filter(None, node.input))  # an omitted input has the empty name
    return chosen[::-1]


def tail_of(nodes: list[Any], output: str) -> frozenset[str]:
    """Return the names of tensors that hold the output's numbers, or others in the same order."""
    names = {output}
    passing = (*_SAME_NUMBERS, *IGNORED_LAST)
    positive = {node.output[0] for node in nodes if node.op_type in _POSITIVE}
    for node in reversed(nodes):
        if node.op_type not in passing or not node.input or node.output[0] not in names:
            continue
        if node.op_type != "Log" or node.input[0] in positive:
            names.add(node.input[0])
    return frozenset(names)


def moved_relus(nodes: list[Any]) -> dict[str, str]:
    """Map the results of ReLUs that only a max pool uses to the results of those pools.

    Maximum and ReLU commute, and after the pool there are fewer units.
    """
    uses = Counter(name for node in nodes for name in node.input)
    # For a name that is used once: the result of the pool that uses it.
    pool_of: dict[str, str] = {}
    moved = {}
    for node in reversed(nodes):
        if not node.input or uses[node.input[0]] != 1:
            continue
        if node.op_type in ("MaxPool", "GlobalMaxPool"):
            pool_of[node.input[0]] = node.output[0]
        elif node.op_type in ("Identity", "Dropout") and node.output[0] in pool_of:
            pool_of[node.input[0]] = pool_of[node.output[0]]
    for node in nodes:
        if node.op_type == "Relu" and node.output[0] in pool_of:
            moved[node.output[0]] = pool_of[node.output[0]]
    return moved
