"""Reads the network from an ONNX file, with nothing but the file's bytes.

ONNX files are protocol buffers: fields with a number, a wire type and a value. Only what a chain of
linear layers and ReLUs needs is understood; anything else is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar_check.errors import Rejected
from vhagar_check.layers import Conv, Dense, Linear, Network, Scale, Shape

Floats = NDArray[np.float64]
Value = int | bytes

_TYPES = {1: "<f4", 7: "<i8", 10: "<f2", 11: "<f8"}


def fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """The fields of a message; numbers of 32 and 64 bits are given as their bytes."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(data, place)
            yield key >> 3, value
            continue
        if kind == 2:
            length, place = _varint(data, place)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise Rejected("the model file is damaged (unknown wire type)")
        if length > len(data) - place:
            raise Rejected("the model file is damaged (a field is cut off)")
        yield key >> 3, data[place : place + length]
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(data) and shift < 70:
        byte = data[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
    raise Rejected("the model file is damaged (a number is cut off)")


class Message:
    """The fields of a message by number, each a list."""

    def __init__(self, data: Value) -> None:
        if isinstance(data, int):
            raise Rejected("the model file is damaged (a number where a message should be)")
        self._fields: dict[int, list[Value]] = {}
        for number, value in fields(data):
            self._fields.setdefault(number, []).append(value)

    def all(self, number: int) -> list[Value]:
        return self._fields.get(number, [])

    def messages(self, number: int) -> list[Message]:
        return [Message(value) for value in self.all(number)]

    def texts(self, number: int) -> list[str]:
        found = self.all(number)
        return [value.decode("utf-8", "replace") for value in found if isinstance(value, bytes)]

    def text(self, number: int) -> str:
        return next(iter(self.texts(number)[-1:]), "")

    def integer(self, number: int, default: int = 0) -> int:
        values = self.integers(number)
        return values[-1] if values else default

    def integers(self, number: int) -> list[int]:
        """Single or packed, as signed 64-bit numbers."""
        found: list[int] = []
        for value in self.all(number):
            if isinstance(value, int):
                found.append(value)
                continue
            place = 0
            while place < len(value):
                single, place = _varint(value, place)
                found.append(single)
        return [value - 2**64 if value >= 2**63 else value for value in found]

    def numbers(self, number: int, form: str) -> NDArray[Any]:
        """Floats, single or packed."""
        return np.frombuffer(b"".join(v for v in self.all(number) if isinstance(v, bytes)), form)


def _tensor(message: Message) -> NDArray[Any]:
    kind, shape = message.integer(2), message.integers(1)
    if message.all(13) or message.integer(14):
        raise Rejected("the model keeps its weights in another file; save it as one file")
    if kind not in _TYPES:
        raise Rejected(f"the model has a constant of a type that is not read here ({kind})")
    if message.all(9):
        values = message.numbers(9, _TYPES[kind])
    elif kind == 7:
        values = np.array(message.integers(7), dtype=np.int64)
    elif kind in (1, 11):
        values = message.numbers(4 if kind == 1 else 10, _TYPES[kind])
    else:
        raise Rejected("the model has a constant that is not stored plainly")
    if any(size < 0 for size in shape) or math.prod(shape) != len(values):
        raise Rejected("a constant of the model does not have the size it states")
    return values.reshape(shape)


@dataclass(eq=False)
class _Reader:
    """Follows the one path from the input to the output."""

    shape: Shape
    data: str
    constants: dict[str, NDArray[Any]]
    stages: list[list[Linear]] = field(default_factory=lambda: [[]])

    def floats(self, node: _Node, position: int) -> Floats:
        name = node.inputs[position] if position < len(node.inputs) else ""
        values = self.constants.get(name)
        if values is None or values.dtype.kind != "f" or not np.isfinite(values).all():
            raise node.refused(f"needs finite float constants, which {name!r} is not")
        return values.astype(np.float64)

    def append(self, layer: Linear, shape: Shape) -> None:
        if layer.in_size != math.prod(self.shape) or layer.out_size != math.prod(shape):
            raise Rejected("a layer of the model does not fit what it receives")
        self.stages[-1].append(layer)
        self.shape = shape


@dataclass(frozen=True, eq=False)
class _Node:
    kind: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Message]

    @classmethod
    def of(cls, message: Message) -> _Node:
        attributes = {item.text(1): item for item in message.messages(5)}
        kind = message.text(4) if message.text(7) in ("", "ai.onnx") else "?" + message.text(4)
        return cls(kind, message.texts(1), message.texts(2), attributes)

    def refused(self, why: str) -> Rejected:
        return Rejected(f"the model's {self.kind} {why}")

    def only(self, *known: str) -> None:
        """An attribute that is not understood could mean anything."""
        unknown = set(self.attributes) - set(known)
        if unknown:
            raise self.refused(f"has attributes that are not understood: {sorted(unknown)}")

    def integer(self, name: str, default: int) -> int:
        return self.attributes[name].integer(3) if name in self.attributes else default

    def integers(self, name: str, default: list[int]) -> list[int]:
        return self.attributes[name].integers(8) if name in self.attributes else default

    def number(self, name: str, default: float) -> float:
        if name not in self.attributes:
            return default
        values = self.attributes[name].numbers(2, "<f4")
        return float(values[-1]) if len(values) else 0.0


def read_model(data: bytes) -> Network:
    """The network of an ONNX file."""
    graph = Message(b"".join(Message(data).all(7)[-1:]))  # type: ignore[arg-type]
    constants = {item.text(8): _tensor(item) for item in graph.messages(5)}
    inputs = [item for item in graph.messages(11) if item.text(1) not in constants]
    outputs = [item.text(1) for item in graph.messages(12)]
    if len(inputs) != 1 or len(outputs) != 1:
        raise Rejected("the model does not have exactly one input and one output")
    reader = _Reader(_input_shape(inputs[0]), inputs[0].text(1), constants)
    first_shape = reader.shape
    for node in _on_the_way([_Node.of(item) for item in graph.messages(1)], outputs[0]):
        _step(reader, node)
    if reader.data != outputs[0] or len(reader.shape) != 1 or reader.shape[0] < 2:
        raise Rejected("the model's output is not a vector of scores that depends on its input")
    return Network(tuple(tuple(stage) for stage in reader.stages), first_shape)


def _input_shape(value: Message) -> Shape:
    tensor = value.messages(2)[0].messages(1)[0]
    dims = [dim.integer(1) for dim in tensor.messages(2)[0].messages(1)]
    if len(dims) < 2 or dims[0] > 1 or min(dims[1:]) < 1:
        raise Rejected("the model's input has no fixed shape after a batch dimension")
    return tuple(dims[1:])


def _on_the_way(nodes: list[_Node], output: str) -> list[_Node]:
    needed, chosen = {output}, []
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            chosen.append(node)
            needed.update(name for name in node.inputs if name)
    return chosen[::-1]


def _step(reader: _Reader, node: _Node) -> None:
    if node.kind == "Constant":
        reader.constants[node.outputs[0]] = _constant(node)
        return
    if node.kind in ("Identity", "Reshape") and node.inputs[0] in reader.constants:
        value = reader.constants[node.inputs[0]]
        if node.kind == "Reshape":
            value = value.reshape(_new_shape(reader, node, value.shape))
        reader.constants[node.outputs[0]] = value
        return
    actions = {
        "Relu": _relu,
        "Gemm": _gemm,
        "MatMul": _matmul,
        "Conv": _conv,
        "Flatten": _flatten,
        "Reshape": _reshape,
        "Identity": _nothing,
        "Dropout": _nothing,
        **dict.fromkeys(("Add", "Sub", "Mul", "Div"), _elementwise),
    }
    if node.kind not in actions:
        raise node.refused("is not understood by this checker")
    if node.inputs.count(reader.data) != 1 or (
        node.kind not in ("Add", "Sub", "Mul", "Div") and node.inputs[0] != reader.data
    ):
        raise node.refused("does not take the previous node's output alone")
    actions[node.kind](reader, node)
    reader.data = node.outputs[0]


def _constant(node: _Node) -> NDArray[Any]:
    node.only("value", "value_float", "value_floats", "value_int", "value_ints")
    if len(node.attributes) != 1:
        raise node.refused("is not one constant")
    ((name, item),) = node.attributes.items()
    if name == "value":
        return _tensor(item.messages(5)[0])
    if name.startswith("value_int"):
        values = np.array(item.integers(3 if name == "value_int" else 8), dtype=np.int64)
    else:
        values = item.numbers(2 if name == "value_float" else 7, "<f4")
    return values.reshape(()) if name in ("value_int", "value_float") else values


def _nothing(reader: _Reader, node: _Node) -> None:
    node.only("ratio", "seed")
    if len(node.inputs) > 2 and reader.constants.get(node.inputs[2], np.ones(1)).any():
        raise node.refused("is in training mode")


def _relu(reader: _Reader, node: _Node) -> None:
    node.only()
    reader.stages.append([])


def _flatten(reader: _Reader, node: _Node) -> None:
    node.only("axis")
    if node.integer("axis", 1) not in (1, -len(reader.shape)):
        raise node.refused("flattens from an axis other than 1")
    reader.shape = (math.prod(reader.shape),)


def _reshape(reader: _Reader, node: _Node) -> None:
    shape = _new_shape(reader, node, (1, *reader.shape))
    if not shape or shape[0] != 1:
        raise node.refused("mixes the batch dimension with others")
    reader.shape = shape[1:]


def _new_shape(reader: _Reader, node: _Node, old: Shape) -> Shape:
    node.only("allowzero")
    wanted = reader.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
    if (
        wanted is None
        or wanted.dtype.kind != "i"
        or wanted.ndim != 1
        or node.integer("allowzero", 0)
    ):
        raise node.refused("has a shape that is not understood")
    sizes = [old[k] if size == 0 else size for k, size in enumerate(wanted.tolist())]
    rest = math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and rest > 0 and math.prod(old) % rest == 0:
        sizes[sizes.index(-1)] = math.prod(old) // rest
    if any(size < 1 for size in sizes) or math.prod(sizes) != math.prod(old):
        raise node.refused("reshapes to a size that does not fit")
    return tuple(sizes)


def _gemm(reader: _Reader, node: _Node) -> None:
    node.only("alpha", "beta", "transA", "transB")
    weight = reader.floats(node, 1)
    if weight.ndim != 2 or node.integer("transA", 0):
        raise node.refused("does not multiply a vector by a matrix")
    weight = weight if node.integer("transB", 0) else weight.T
    bias = np.zeros(len(weight))
    if len(node.inputs) > 2 and node.inputs[2]:
        given = reader.floats(node, 2).reshape(-1)
        if given.size not in (1, bias.size):
            raise node.refused("has a bias of another size")
        bias = bias + _times(node, given, node.number("beta", 1.0))
    weight = _times(node, weight, node.number("alpha", 1.0))
    reader.append(Dense(np.ascontiguousarray(weight), bias), (len(weight),))


def _times(node: _Node, values: Floats, factor: float) -> Floats:
    """Exact for float32 constants, whose products fit into float64; refused otherwise."""
    single = values.astype(np.float32).astype(np.float64)
    if factor != 1.0 and not (single == values).all():
        raise node.refused("scales constants of double precision")
    return values * factor


def _matmul(reader: _Reader, node: _Node) -> None:
    node.only()
    weight = reader.floats(node, 1)
    if weight.ndim != 2 or len(reader.shape) != 1:
        raise node.refused("does not multiply a vector by a matrix")
    reader.append(
        Dense(np.ascontiguousarray(weight.T), np.zeros(weight.shape[1])), (weight.shape[1],)
    )


def _conv(reader: _Reader, node: _Node) -> None:
    node.only("kernel_shape", "strides", "dilations", "pads", "auto_pad", "group")
    weight = reader.floats(node, 1)
    if weight.ndim != 4 or len(reader.shape) != 3:
        raise node.refused("is not a two-dimensional convolution")
    filters, channels, *kernel = weight.shape
    has_bias = len(node.inputs) > 2 and node.inputs[2]
    bias = reader.floats(node, 2) if has_bias else np.zeros(filters)
    strides, dilations = node.integers("strides", [1, 1]), node.integers("dilations", [1, 1])
    pads, groups = node.integers("pads", [0] * 4), node.integer("group", 1)
    mode = node.attributes["auto_pad"].text(4) if "auto_pad" in node.attributes else "NOTSET"
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        pads = _same_pads(reader.shape, kernel, strides, mode == "SAME_UPPER")
    elif mode not in ("NOTSET", "VALID"):
        raise node.refused(f"has an unknown auto_pad {mode!r}")
    sizes_fit = len(strides) == len(dilations) == 2 and len(pads) == 4 and min(pads) >= 0
    if not sizes_fit or min(*strides, *dilations, groups) < 1 or bias.shape != (filters,):
        raise node.refused("has strides, dilations, pads or a bias that do not fit")
    pads = [0] * 4 if mode == "VALID" else pads
    if node.integers("kernel_shape", kernel) != kernel or channels * groups != reader.shape[0]:
        raise node.refused("has a kernel that does not fit its input")
    layer = Conv(weight, bias, reader.shape, tuple(strides), tuple(pads), tuple(dilations), groups)
    if filters % groups or min(layer.out_shape) < 1:
        raise node.refused("has a kernel that does not fit its input")
    reader.append(layer, layer.out_shape)


def _same_pads(shape: Shape, kernel: list[int], strides: list[int], upper: bool) -> list[int]:
    before, after = [], []
    for size, width, step in zip(shape[1:], kernel, strides, strict=True):
        total = max((-(-size // step) - 1) * step + width - size, 0)
        first = total // 2 if upper else total - total // 2
        before.append(first)
        after.append(total - first)
    return before + after


def _elementwise(reader: _Reader, node: _Node) -> None:
    node.only()
    position = node.inputs.index(reader.data)
    if len(node.inputs) != 2:
        raise node.refused("does not have two inputs")
    value = reader.floats(node, 1 - position)
    if value.ndim == len(reader.shape) + 1 and value.shape[0] == 1:
        value = value[0]
    try:
        value = np.broadcast_to(value, reader.shape).reshape(-1)
    except ValueError as error:
        raise node.refused("has a constant of another shape") from error
    one, zero = np.ones_like(value), np.zeros_like(value)
    reverse = position == 1
    if node.kind == "Div" and (reverse or not value.all()):
        raise node.refused("divides by its input or by zero")
    parts = {
        "Add": (one, one, value),
        "Sub": (-one, one, value) if reverse else (one, one, -value),
        "Mul": (value, one, zero),
        "Div": (one, value, zero),
    }
    reader.append(Scale(*parts[node.kind]), reader.shape)
