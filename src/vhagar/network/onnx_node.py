"""One node of an ONNX graph, as its translator sees it: operands, attributes, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vhagar.array_types import Array
from vhagar.errors import InvalidNetwork, Refusal, UnsupportedOperator
from vhagar.network.graph import Graph, Tensor
from vhagar.network.layers import LARGEST_TENSOR, Shape
from vhagar.network.onnx_tensors import read_tensor
from vhagar.network.onnx_types import AttributeType, attribute_value

# Tensors of up to this many entries are accepted, whatever they are computed from.
_SMALL_TENSOR = 2**22

Constant = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Where a tensor is above (or else below) a limit of its shape, entry by entry.

    It stands for truth values, or for the numbers 1 and 0; only a choice can take it.
    """

    tensor: Tensor
    limit: Array
    above: bool

    @property
    def shape(self) -> Shape:
        """The shape with the batch, as that of a constant."""
        return (1, *self.tensor.shape)


Operand = Tensor | Constant | Comparison

_ATTRIBUTE_TYPES = {
    tuple: AttributeType.FLOATS,
    int: AttributeType.INT,
    float: AttributeType.FLOAT,
    bytes: AttributeType.STRING,
    list: AttributeType.INTS,
    np.ndarray: AttributeType.TENSOR,
}


@dataclass(frozen=True, eq=False)
class Context:
    """The model around a node.

    `tail` names the tensors that hold the model's output, or numbers in the same order.
    `relu_moved_from` names the results of ReLUs that are applied after a pool, `relu_moved_to`
    those of the pools. `drop` records an activation at the end that is ignored. `halves` names the
    constants that are stored in half precision. `rounded` names those that may not decide anything,
    because a runtime may round them, or what it computes from them, and `rounded_once` those of
    them that are the result of one operation on exact numbers; translators add to both.
    """

    graph: Graph
    opset: int
    tail: frozenset[str] = frozenset()
    relu_moved_from: frozenset[str] = frozenset()
    relu_moved_to: frozenset[str] = frozenset()
    drop: Callable[[Any], None] = lambda proto: None
    halves: frozenset[str] = frozenset()
    rounded: set[str] = field(default_factory=set)
    rounded_once: set[str] = field(default_factory=set)


class Node:
    """A node with its operands; omitted operands are None."""

    def __init__(self, proto: Any, operands: list[Operand | None], context: Context) -> None:
        self.proto = proto
        self.kind: str = proto.op_type
        self.operands = operands
        self.context = context
        self.graph = context.graph
        self.opset = context.opset

    @property
    def result(self) -> str:
        """The name of the first output."""
        return str(self.proto.output[0])

    def refusal(self, reason: str) -> UnsupportedOperator:
        return UnsupportedOperator([Refusal(self.kind, label(self.proto), reason)])

    def has(self, position: int) -> bool:
        """Whether an optional operand is given."""
        return position < len(self.operands) and self.operands[position] is not None

    def tensor(self, position: int = 0) -> Tensor:
        """An operand that depends on the input."""
        operand = self.operands[position] if position < len(self.operands) else None
        if isinstance(operand, Tensor):
            return operand
        if isinstance(operand, Comparison):
            raise self.refusal("takes a comparison, which jumps; only Where and Mul can take it")
        raise self.refusal(
            f"needs data that depends on the model's input as operand {position + 1}"
        )

    def constant(self, position: int, what: str) -> Constant:
        """Return a constant operand; it is an error if it is missing."""
        operand = self.operands[position] if position < len(self.operands) else None
        if isinstance(operand, Tensor | Comparison):
            raise self.refusal(f"has a {what} that depends on the model's input")
        if operand is None:
            raise InvalidNetwork(
                f"its {what} is missing (is an initialiser missing from the file?)"
            )
        return operand

    def integers(self, position: int, what: str) -> list[int]:
        """A constant operand that is a list of whole numbers."""
        values = self.constant(position, what)
        if values.dtype.kind not in "iu" or values.ndim > 1:
            raise InvalidNetwork(f"its {what} is not a list of whole numbers")
        return [int(value) for value in values.reshape(-1)]

    def weights(self, position: int, what: str) -> Array:
        """A constant operand in float64, checked to be finite."""
        values = self.constant(position, what)
        name = self.proto.input[position]
        if values.dtype.kind != "f":
            raise InvalidNetwork(f"its {what} has type {values.dtype}, not a float type")
        array = np.asarray(values, dtype=np.float64)
        if not np.isfinite(array).all():
            raise InvalidNetwork(
                f"its {what} {name!r} holds NaN or infinity; "
                "the model was probably damaged in training or export"
            )
        if not array.size:
            raise InvalidNetwork(f"its {what} {name!r} is empty")
        return array

    def attributes(self, **defaults: Any) -> dict[str, Any]:
        """Return the node's attributes, with defaults whose types they must have."""
        # A default is a float32 like any attribute: 0.01 stands for the float32 next to it.
        found = {
            name: float(np.float32(value)) if isinstance(value, float) else value
            for name, value in defaults.items()
        }
        for item in self.proto.attribute:
            if item.name not in defaults:
                raise self.refusal(f"has the unknown attribute {item.name!r}")
            if item.type != _ATTRIBUTE_TYPES[type(defaults[item.name])] or item.ref_attr_name:
                raise InvalidNetwork(f"its attribute {item.name!r} has the wrong type")
            value = attribute_value(item)
            found[item.name] = read_tensor(value) if item.type == AttributeType.TENSOR else value
        return found

    def given(self, name: str) -> bool:
        """Whether the node has an attribute of that name."""
        return any(item.name == name for item in self.proto.attribute)

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the front, of a tensor with `rank` axes, the batch included."""
        if not -rank <= axis < rank:
            raise InvalidNetwork(
                f"its axis {axis} is out of range for a tensor with {rank} dimensions"
            )
        return axis % rank

    def image_axes(self, axes: list[int], shape: Shape) -> list[int]:
        """Convert axes that count the batch into axes of `shape`; the batch itself is refused."""
        found = sorted({self.axis(axis, len(shape) + 1) for axis in axes})
        if 0 in found:
            raise self.refusal("works along the batch dimension, which would mix images")
        return [axis - 1 for axis in found]


def full_shape(operand: Operand) -> Shape:
    """Return the shape including the batch dimension, which is 1."""
    return (1, *operand.shape) if isinstance(operand, Tensor) else operand.shape


def require_modest(shape: Any, source: int = 0) -> None:
    """Refuse sizes that only a damaged file asks for, given an operand of `source` entries."""
    sizes = [int(size) for size in shape]
    if any(size < 0 for size in sizes):
        raise InvalidNetwork(f"it gives a tensor of shape {sizes}")
    total = 1
    for size in sizes:
        total *= size
    # Operators that move entries hold several index arrays of this size, and a few of them in a
    # row, such as a tensor concatenated with itself, multiply it by anything.
    if total > min(LARGEST_TENSOR // 16, max(_SMALL_TENSOR, 16 * source)):
        raise InvalidNetwork(f"it gives a tensor of shape {sizes}, which is too large")


def label(proto: Any) -> str:
    """Return the name of a node for messages."""
    return str(proto.name or (proto.output[0] if proto.output else "unnamed"))
