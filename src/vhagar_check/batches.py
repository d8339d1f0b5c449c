"""Models with a fixed batch size, which must treat all inputs of a batch alike and separately.

Such a model is read as if it took one input. That is the same function of every input only if no
node combines inputs or depends on their number; a node that may do so is refused.
"""

from __future__ import annotations

import numpy as np

from vhagar_check.graph import Node
from vhagar_check.reading import Reader, Wire

# Operators that treat each input of a batch separately, whatever their attributes.
_APART = frozenset({
    "Gemm", "Conv", "ConvTranspose", "BatchNormalization", "AveragePool", "GlobalAveragePool",
    "MaxPool", "GlobalMaxPool", "Relu", "LeakyRelu", "PRelu", "Clip", "Abs", "Neg", "HardSigmoid",
    "ThresholdedRelu", "Identity", "Dropout", "Cast", "Flatten", "Reshape", "Softmax",
    "LogSoftmax", "Atan", "Celu", "Elu", "Erf", "Exp", "Log", "Selu", "Sigmoid", "Softplus",
    "Softsign", "Tanh",
})  # fmt: skip
# Operators that broadcast: the batch dimensions must be at the same position.
_JOINING = frozenset({"Add", "Sub", "Mul", "Div", "Sum", "Mean", "Max", "Min"})


def require_alike(reader: Reader, node: Node) -> None:
    """Refuse a node that may not treat the inputs of a batch alike and separately."""
    if reader.graph.batch <= 1:
        return
    given = [reader.names.get(name) for name in node.inputs if name]
    wires = [item for item in given if isinstance(item, Wire)]
    shapes = [item.shape for item in given if isinstance(item, Wire | np.ndarray)]
    if not wires or node.kind in _APART:
        return
    if node.kind in _JOINING:
        most = max(len(shape) for shape in shapes)
        if len(shapes) == len(given) and all(len(wire.shape) == most for wire in wires):
            return
    if node.kind == "MatMul" and isinstance(given[0], Wire):
        return
    if node.kind == "Transpose" and node.integers("perm", [])[:1] == [0]:
        return
    if node.kind == "Concat" and 0 < node.integer("axis", 0) < len(wires[0].shape):
        return
    raise node.refused(
        f"is not seen to treat the {reader.graph.batch} inputs of the model's batch alike"
    )
