"""The graph of an ONNX file: its nodes, constants, input and output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar_check.errors import Rejected
from vhagar_check.layers import Shape
from vhagar_check.protobuf import Message, tensor
from vhagar_check.schema import ATTRIBUTE_FIELDS, check_fields

Constant = NDArray[Any]

# Versions of ONNX's operator set in which the operators have the meaning that is read here.
_OPSETS = range(7, 27)
# ONNX's numbers for the types of inputs: float32, float64, float16 and bfloat16.
_FLOATS = (1, 11, 10, 16)
# Those of 16 bits.
_HALVES = (10, 16)
# ONNX's number for the type of texts, such as the names of classes, which no score depends on.
_TEXTS = 8
# What the names of operators begin with here, by the domain; "?" in domains that are not read.
_PREFIXES = {"": "", "ai.onnx": "", "ai.onnx.ml": "ml."}


@dataclass(frozen=True, eq=False)
class Node:
    """An operator, the names of its inputs and outputs, and its attributes."""

    kind: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Message]

    @classmethod
    def of(cls, message: Message) -> Node:
        attributes = {item.text(1): item for item in message.messages(5)}
        if len(attributes) != len(message.all(5)):
            raise Rejected(f"the model's {message.text(4)} has two attributes of the same name")
        name, prefix = message.text(4), _PREFIXES.get(message.text(7), "?")
        kind = (prefix if name.isidentifier() else "?") + name
        return cls(kind, message.texts(1), message.texts(2), attributes)

    def refused(self, why: str) -> Rejected:
        return Rejected(f"the model's {self.kind} {why}")

    def only(self, *known: str) -> None:
        """Refuse all attributes but these: an unknown one could mean anything."""
        unknown = set(self.attributes) - set(known)
        if unknown:
            raise self.refused(f"has attributes that are not understood: {sorted(unknown)}")

    def cast_to(self) -> int:
        """The type that a Cast is to; runtimes do odd things with other options than the usual."""
        self.only("to", "saturate", "round_mode")
        if self.integer("saturate", 1) != 1 or self.text("round_mode", "up") != "up":
            raise self.refused("has options that are not understood")
        return self.integer("to", 0)

    def integer(self, name: str, default: int) -> int:
        item = self._attribute(name, 3)
        return default if item is None else item.integer(3)

    def integers(self, name: str, default: list[int]) -> list[int]:
        item = self._attribute(name, 8)
        return default if item is None else item.integers(8)

    def number(self, name: str, default: float) -> float:
        item = self._attribute(name, 2)
        if item is None:
            return default
        values = item.numbers(2, "<f4")
        return float(values[-1]) if len(values) else 0.0

    def numbers(self, name: str) -> NDArray[np.float64]:
        """The floats of an attribute; empty if there is none."""
        item = self._attribute(name, 7)
        return np.empty(0) if item is None else item.numbers(7, "<f4").astype(np.float64)

    def text(self, name: str, default: str) -> str:
        item = self._attribute(name, 4)
        return default if item is None else item.text(4)

    def tensor(self, name: str) -> Constant | None:
        item = self._attribute(name, 5)
        return None if item is None else tensor(item.message(5))

    def holds_half(self) -> bool:
        """Whether the node's value is a constant of 16-bit floats."""
        item = self.attributes.get("value")
        return item is not None and any(_is_half(one) for one in item.messages(5))

    def _attribute(self, name: str, place: int) -> Message | None:
        """An attribute, whose type must be that of the field that is read; None if it is left out.

        The value of any other type would be in another field, and this one's default be read.
        """
        item = self.attributes.get(name)
        if item is not None and ATTRIBUTE_FIELDS.get(item.integer(20)) != place:
            raise self.refused(f"has an attribute {name!r} of another type than it should have")
        return item

    def constant(self) -> Constant:
        """The value of a Constant node."""
        self.only("value", "value_float", "value_floats", "value_int", "value_ints")
        if len(self.attributes) != 1:
            raise self.refused("is not one constant")
        if "value_int" in self.attributes:
            return np.array(self.integer("value_int", 0), dtype=np.int64)
        if "value_ints" in self.attributes:
            return np.array(self.integers("value_ints", []), dtype=np.int64)
        if "value_float" in self.attributes:
            return np.array(self.number("value_float", 0.0), dtype=np.float32)
        found = self.tensor("value")
        return self.numbers("value_floats").astype(np.float32) if found is None else found


@dataclass(frozen=True, eq=False)
class Graph:
    """The nodes on which the output depends, in the file's order, which is topological.

    `batch` is the size of the input's batch dimension: 1 if it is open, and 0 if the input is one
    vector without a batch dimension. `halves` names the constants that are stored in 16 bits.
    """

    nodes: list[Node]
    constants: dict[str, Constant]
    input: str
    input_shape: Shape
    output: str
    opset: int
    batch: int = 1
    halves: frozenset[str] = frozenset()

    def consumers(self) -> dict[str, list[Node]]:
        """The nodes that take each name, a node once for each time that it does."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in node.inputs:
                found.setdefault(name, []).append(node)
        return found


def read_graph(data: bytes, output: str | None = None, sizes: Shape = ()) -> Graph:
    """Read the graph up to its output, which must be named if the model has several.

    `sizes` are the sizes of the input, for a file that leaves them open.
    """
    check_fields(data)
    model = Message(data)
    graph = model.message(7)
    if any(item.text(10) in _PREFIXES for item in model.messages(25)):
        raise Rejected("the model redefines operators by functions of its own")
    stored = {item.text(8): item for item in graph.messages(5)}
    given = [item.text(1) for item in graph.messages(11)]
    if len(stored) != len(graph.all(5)) or len(set(given)) != len(given):
        raise Rejected("the model gives two things the same name")
    constants = {name: tensor(item) for name, item in stored.items() if item.integer(2) != _TEXTS}
    inputs = [item for item in graph.messages(11) if item.text(1) not in stored]
    outputs = [item.text(1) for item in graph.messages(12)]
    if len(inputs) != 1 or (output is None and len(outputs) != 1):
        raise Rejected("the model does not have exactly one input and one output")
    nodes = [Node.of(item) for item in graph.messages(1)]
    _check_names(nodes, [*stored, inputs[0].text(1)])
    output = outputs[0] if output is None else output
    stated = [item for item in graph.messages(12) if item.text(1) == output]
    shape, batch = _input_shape(inputs[0], stated[0] if stated else None, sizes)
    return Graph(
        _on_the_way(nodes, output),
        constants,
        inputs[0].text(1),
        shape,
        output,
        _opset(model),
        batch,
        frozenset(name for name, item in stored.items() if _is_half(item)),
    )


def _is_half(constant: Message) -> bool:
    return constant.integer(2) in _HALVES


def _opset(model: Message) -> int:
    known = [item for item in model.messages(8) if item.text(1) in ("", "ai.onnx")]
    versions = sorted({item.integer(2) for item in known})
    if len(versions) != 1 or versions[0] not in _OPSETS:
        raise Rejected(
            f"the model uses version {versions} of ONNX's operators; those understood are "
            f"{_OPSETS[0]} to {_OPSETS[-1]}"
        )
    return versions[0]


def _check_names(nodes: list[Node], given: list[str]) -> None:
    names = given + [name for node in nodes for name in node.outputs if name]
    if len(set(names)) != len(names):
        raise Rejected("the model gives two things the same name")


def _input_shape(value: Message, output: Message | None, sizes: Shape) -> tuple[Shape, int]:
    """The shape of one input, and the batch size."""
    form = value.message(2).message(1)
    if form.integer(1) not in _FLOATS:
        raise Rejected("the model's input is no tensor of floats")
    dims = _sizes(form.message(2))
    if len(dims) == 1 and dims[0] > 0:
        return tuple(dims), 0
    batch, shape = dims[:1], dims[1:]
    if len(shape) == len(sizes):
        shape = [given if size == 0 else size for size, given in zip(shape, sizes, strict=True)]
    if not shape or min(shape) < 1 or batch[0] < 0:
        raise Rejected("the model's input has no fixed shape after a batch dimension")
    if batch[0] > 1 and (output is None or _sizes_of(output)[:1] != batch):
        raise Rejected("the model's input has a batch dimension that its output does not have")
    return tuple(shape), max(batch[0], 1)


def _sizes(shape: Message) -> list[int]:
    """The sizes of a shape, with 0 for a size that is left open."""
    return [dim.integer(1) for dim in shape.messages(1)]


def _sizes_of(value: Message) -> list[int]:
    """The sizes of an output; empty if the file does not state them."""
    for kind in value.messages(2):
        for form in kind.messages(1):
            for shape in form.messages(2):
                return _sizes(shape)
    return []


def _on_the_way(nodes: list[Node], output: str) -> list[Node]:
    needed, chosen = {output}, []
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            chosen.append(node)
            needed.update(name for name in node.inputs if name)
    return chosen[::-1]
