"""What all readers of operators share: names, shapes, constants and values.

Shapes include the batch dimension here, which is always the first and always 1. Only if the model
takes one vector without a batch, values are vectors until the model adds that dimension.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from vhagar_check.graph import Constant, Graph, Node
from vhagar_check.joined import Pick
from vhagar_check.layers import Floats, Indices, Scale, Shape
from vhagar_check.lowering import Flow, Operand, Value


@dataclass(frozen=True, eq=False)
class Wire:
    """A value that depends on the input, with its shape under one of its names."""

    value: Value
    shape: Shape
    waits_for_relu: bool = False  # a ReLU that is applied after the pool that follows
    normalised: bool = False  # by a softmax or a sigmoid, which was dropped
    positive: bool = False  # after it

    @property
    def positions(self) -> Indices:
        """The index of every entry, in the value's shape."""
        return np.arange(self.value.size).reshape(self.shape)


@dataclass(frozen=True, eq=False)
class Sides:
    """A comparison: whether a value is above its limit, or below it, entry by entry."""

    wire: Wire
    limit: Floats
    above: bool


@dataclass(frozen=True, eq=False)
class Product:
    """A product of constant matrices, kept as its factors: it need not be exact in floats."""

    factors: tuple[Floats, ...]


Result = Wire | Constant
# Results that only some nodes can take.
Special = Sides | Product


@dataclass(eq=False)
class Reader:
    """Follows the nodes of a graph."""

    graph: Graph
    names: dict[str, Result | Special] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.flow = Flow(self.graph.input_shape)
        self.names.update(self.graph.constants)
        # Constants that are stored in 16 bits: their values are exact, and sums of them are not.
        self.halves = set(self.graph.halves)
        # Constants that may not decide anything: a runtime computes with fewer digits.
        self.rounded = set(self.halves)
        # Those of them that are the result of one operation on exact constants.
        self.rounded_once: set[str] = set()
        whole = (1, *self.graph.input_shape) if self.graph.batch else self.graph.input_shape
        self.names[self.graph.input] = Wire(self.flow.input, whole)
        self.consumers = self.graph.consumers()
        # Whether values may be vectors without a batch: the input is one, or a node drops it.
        self.takes_vectors = not self.graph.batch

    def given(self, node: Node, position: int) -> Result | None:
        """An input of a node; None if it has none at that position."""
        name = node.inputs[position] if position < len(node.inputs) else ""
        if not name:
            return None
        if name not in self.names:
            raise node.refused(f"takes {name!r} before anything gives it")
        found = self.names[name]
        if isinstance(found, Special):
            raise node.refused("takes a comparison or a product of constants, which it cannot")
        return found

    def sides(self, node: Node, position: int) -> Sides | None:
        """An input that is a comparison; None for any other."""
        found = self._special(node, position)
        return found if isinstance(found, Sides) else None

    def product(self, node: Node, position: int) -> Product | None:
        """An input that is a product of constants; None for any other."""
        found = self._special(node, position)
        return found if isinstance(found, Product) else None

    def takes_special(self, node: Node) -> bool:
        return any(self._special(node, k) is not None for k in range(len(node.inputs)))

    def _special(self, node: Node, position: int) -> Special | None:
        name = node.inputs[position] if position < len(node.inputs) else ""
        found = self.names.get(name)
        return found if isinstance(found, Special) else None

    def taken(self, node: Node, position: int) -> Result:
        """An input that a node computes with."""
        found = self.given(node, position)
        if found is None:
            raise node.refused("lacks an input")
        return self._plain(node, found)

    def all_given(self, node: Node) -> list[Result]:
        """All inputs of a node that computes with at least one."""
        return [self.taken(node, k) for k in range(max(1, len(node.inputs)))]

    def alias(self, node: Node) -> Wire:
        """The value that a node passes on unchanged."""
        found = self.given(node, 0)
        if not isinstance(found, Wire):
            raise node.refused("does not take a value that depends on the input")
        return found

    def wire(self, node: Node, position: int = 0) -> Wire:
        """An input of a node that depends on the network's input."""
        found = self.given(node, position)
        if not isinstance(found, Wire):
            raise node.refused("does not take a value that depends on the input there")
        self._plain(node, found)
        return found

    def _plain(self, node: Node, found: Result) -> Result:
        if isinstance(found, Wire) and found.normalised:
            raise node.refused("follows a node that is understood as the last one alone")
        if isinstance(found, Wire) and found.waits_for_relu:
            raise node.refused("takes what a pool alone should take")
        return found

    def floats(self, node: Node, position: int) -> Floats:
        values = self.given(node, position)
        if (
            not isinstance(values, np.ndarray)
            or values.dtype.kind != "f"
            or not np.isfinite(values).all()
        ):
            name = node.inputs[position] if position < len(node.inputs) else ""
            raise node.refused(f"needs finite float constants, which {name!r} is not")
        return values.astype(np.float64)

    def scalar(self, node: Node, position: int) -> float | None:
        """A constant number, which must not be NaN; None if the node has none."""
        values = self.given(node, position)
        if values is None:
            return None
        if isinstance(values, Wire) or values.dtype.kind != "f" or values.size != 1:
            raise node.refused("needs a constant number")
        number = float(values.item())
        if math.isnan(number):
            raise node.refused("has a limit that is not a number")
        return number

    def integers(self, node: Node, name: str, position: int) -> list[int] | None:
        """Whole numbers that are an attribute in some versions and an input in others."""
        if name in node.attributes:
            return node.integers(name, [])
        values = self.given(node, position)
        if values is None:
            return None
        if isinstance(values, Wire) or values.dtype.kind != "i" or values.ndim > 1:
            raise node.refused(f"needs constant integers for its {name}")
        return [int(value) for value in values.ravel()]

    def shaped(self, node: Node, value: Value, shape: Shape) -> Wire:
        """Give a value a shape, which must keep the batch dimension."""
        if math.prod(shape) != value.size:
            raise node.refused("reshapes to a size that does not fit")
        self.require_batch(node, shape)
        return Wire(value, shape)

    def require_batch(self, node: Node, shape: Shape) -> None:
        """Refuse a shape without a batch dimension of 1, unless the model has vectors."""
        vector = len(shape) <= 1 and self.takes_vectors
        if not vector and (not shape or shape[0] != 1):
            raise node.refused("mixes the batch dimension with others")

    def reshaped(self, node: Node, wire: Wire, shape: Shape) -> Wire:
        found = self.shaped(node, wire.value, shape)
        return replace(wire, shape=found.shape)

    def picked(self, node: Node, wire: Wire, index: Indices) -> Wire:
        """Build a value from entries of another; the index has the new shape."""
        if not index.size:
            raise node.refused("makes an empty value")
        value = self.flow.sum(self.operand(wire, index))
        return self.shaped(node, value, index.shape)

    def operand(self, wire: Wire, index: Indices, sign: float = 1.0) -> Operand:
        """Entries of a value, by their indices (-1 for 0), as an operand of a sum."""
        flat = index.ravel()
        if len(flat) == wire.value.size and (flat == np.arange(len(flat))).all():
            return Operand(wire.value, factor=sign)
        return Operand(wire.value, Pick.of(flat, wire.value.size, sign))

    def spread(self, node: Node, wire: Wire, shape: Shape, sign: float = 1.0) -> Operand:
        """A value broadcast to a shape, as an operand of a sum."""
        self.flow.budget.spend(math.prod(shape))
        return self.operand(wire, np.broadcast_to(wire.positions, shape), sign)

    def joint_shape(self, node: Node, given: list[Result]) -> Shape:
        try:
            return np.broadcast_shapes(*(item.shape for item in given))
        except ValueError as error:
            raise node.refused("has a constant of another shape") from error

    def added(self, value: Value, constant: Floats) -> Value:
        """Add constants to a value; the value itself if they are all 0."""
        flat = constant.ravel()
        if not flat.any():
            return value
        one = np.ones(value.size)
        return self.flow.through(value, Scale(one, one, flat))


def axis_of(node: Node, axis: int, rank: int) -> int:
    """An axis, which may count from the end."""
    if not -rank <= axis < rank:
        raise node.refused(f"is about axis {axis} of {rank}")
    return axis % rank


def checked(node: Node, shape: Shape, reader: Reader) -> Shape:
    """Check a shape: not empty, and within the budget."""
    if any(size < 1 for size in shape):
        raise node.refused("makes an empty value")
    reader.flow.budget.spend(math.prod(shape))
    return shape


def refuse_unless(condition: bool, node: Node, why: str) -> None:
    if not condition:
        raise node.refused(why)
