"""Reads plain ONNX files without `onnx`, whose import takes longer than many a small problem.

A file is plain if every field of its messages is in the table below, occurs no more often than it
may, and has the right type: there is one way to read it, and `Message` has the same fields with the
same values as `onnx` would give them. Any other file is left to `onnx`, and so is its refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from vhagar.errors import InvalidNetwork
from vhagar.network.onnx_types import AttributeType
from vhagar.network.wire_format import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    ambiguous,
    fields,
    packed_integers,
)


class _Field(NamedTuple):
    """A field's name and what it holds: a scalar of `_SCALARS`, or a message of `_MESSAGES`."""

    name: str
    holds: str
    repeated: bool = False


def _many(name: str, holds: str) -> _Field:
    return _Field(name, holds, repeated=True)


_MESSAGES: dict[str, dict[int, _Field]] = {
    "ModelProto": {
        1: _Field("ir_version", "int64"),
        2: _Field("producer_name", "text"),
        3: _Field("producer_version", "text"),
        4: _Field("domain", "text"),
        5: _Field("model_version", "int64"),
        6: _Field("doc_string", "text"),
        7: _Field("graph", "GraphProto"),
        8: _many("opset_import", "OperatorSetIdProto"),
        14: _many("metadata_props", "StringStringEntryProto"),
    },
    "OperatorSetIdProto": {1: _Field("domain", "text"), 2: _Field("version", "int64")},
    "StringStringEntryProto": {1: _Field("key", "text"), 2: _Field("value", "text")},
    "GraphProto": {
        1: _many("node", "NodeProto"),
        2: _Field("name", "text"),
        5: _many("initializer", "TensorProto"),
        10: _Field("doc_string", "text"),
        11: _many("input", "ValueInfoProto"),
        12: _many("output", "ValueInfoProto"),
        13: _many("value_info", "ValueInfoProto"),
        16: _many("metadata_props", "StringStringEntryProto"),
    },
    "NodeProto": {
        1: _many("input", "text"),
        2: _many("output", "text"),
        3: _Field("name", "text"),
        4: _Field("op_type", "text"),
        5: _many("attribute", "AttributeProto"),
        6: _Field("doc_string", "text"),
        7: _Field("domain", "text"),
        9: _many("metadata_props", "StringStringEntryProto"),
    },
    "AttributeProto": {
        1: _Field("name", "text"),
        2: _Field("f", "float"),
        3: _Field("i", "int64"),
        4: _Field("s", "bytes"),
        5: _Field("t", "TensorProto"),
        7: _many("floats", "float"),
        8: _many("ints", "int64"),
        9: _many("strings", "bytes"),
        13: _Field("doc_string", "text"),
        20: _Field("type", "attribute type"),
    },
    "TensorProto": {
        1: _many("dims", "int64"),
        2: _Field("data_type", "int32"),
        4: _many("float_data", "float"),
        5: _many("int32_data", "int32"),
        7: _many("int64_data", "int64"),
        8: _Field("name", "text"),
        9: _Field("raw_data", "bytes"),
        10: _many("double_data", "double"),
        12: _Field("doc_string", "text"),
        16: _many("metadata_props", "StringStringEntryProto"),
    },
    "ValueInfoProto": {
        1: _Field("name", "text"),
        2: _Field("type", "TypeProto"),
        3: _Field("doc_string", "text"),
        4: _many("metadata_props", "StringStringEntryProto"),
    },
    "TypeProto": {1: _Field("tensor_type", "TypeProto.Tensor"), 6: _Field("denotation", "text")},
    "TypeProto.Tensor": {1: _Field("elem_type", "int32"), 2: _Field("shape", "TensorShapeProto")},
    "TensorShapeProto": {1: _many("dim", "TensorShapeProto.Dimension")},
    "TensorShapeProto.Dimension": {
        1: _Field("dim_value", "int64"),
        2: _Field("dim_param", "text"),
        3: _Field("denotation", "text"),
    },
}
# Fields that no plain file has, and that the reader asks for.
_ABSENT: dict[str, dict[str, Any]] = {
    "ModelProto": {"functions": ()},
    "GraphProto": {"sparse_initializer": ()},
    "AttributeProto": {"ref_attr_name": ""},
    "TensorProto": {"string_data": (), "uint64_data": (), "data_location": 0, "external_data": ()},
}
# Groups of fields of which a message has one at most.
_ONE_OF = {"TensorShapeProto.Dimension": {"dim_value", "dim_param"}}


class Message:
    """A message of a plain file. Fields that are not there have their defaults, as in `onnx`."""

    def __init__(self, kind: str, content: memoryview, values: dict[str, Any]) -> None:
        self.kind = kind
        self.content = content
        self.filled = frozenset(values)
        self.__dict__.update(_ABSENT.get(kind, {}))
        for name, holds, repeated in _MESSAGES[kind].values():
            if name in values:
                self.__dict__[name] = values[name]
            else:
                self.__dict__[name] = [] if repeated else _default(holds)

    def HasField(self, name: str) -> bool:  # noqa: N802 # the name that `onnx` has for it
        return name in self.filled


def plain_model(content: bytes) -> Message | None:
    """The model of a plain file; None if `onnx` must read it."""
    try:
        return _read(memoryview(content), "ModelProto")
    except InvalidNetwork:
        return None


def filled_fields(message: Any) -> frozenset[str]:
    """The names of the fields that a message has values of."""
    if isinstance(message, Message):
        return message.filled
    return frozenset(field.name for field, _ in message.ListFields())


def serialized(model: Any) -> bytes:
    """A model as the bytes of a file."""
    if isinstance(model, Message):
        return bytes(model.content)
    return bytes(model.SerializeToString())


def editable(message: Any) -> Any:
    """A copy that may be changed, a message of `onnx`."""
    import onnx

    if isinstance(message, Message):
        return getattr(onnx, message.kind).FromString(bytes(message.content))
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _read(data: memoryview, kind: str) -> Message:
    known, values = _MESSAGES[kind], dict[str, Any]()
    for number, wire, value in fields(data):
        if number not in known:
            raise ambiguous(f"{kind} has a field {number}")
        name, holds, repeated = known[number]
        found = _values(holds, wire, value, repeated)
        if repeated:
            if found:  # a packed field may be there and empty
                values.setdefault(name, []).extend(found)
        elif name in values:
            raise ambiguous(f"{kind} has the field {name!r} twice")
        else:
            (values[name],) = found
    if len(_ONE_OF.get(kind, set()).intersection(values)) > 1:
        raise ambiguous(f"{kind} has several values")
    return Message(kind, data, values)


def _values(holds: str, wire: int, value: Any, repeated: bool) -> list[Any]:
    """What one occurrence of a field holds: one value, or many of a repeated field."""
    if holds in _MESSAGES:
        if wire != BYTES:
            raise ambiguous(f"a {holds} has the wire type {wire}")
        return [_read(value, holds)]
    expected, decode, decode_packed, _ = _SCALARS[holds]
    if wire == expected:
        return [decode(value)]
    if repeated and wire == BYTES and decode_packed is not None:
        return list(decode_packed(value))
    raise ambiguous(f"a field has the wire type {wire}")


def _text(value: memoryview) -> str | bytes:
    """A text; like `onnx`, bytes where it is none."""
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        return bytes(value)


def _integer(least: int, most: int) -> Callable[[int], int]:
    def decode(value: int) -> int:
        value -= 2**64 if value >= 2**63 else 0
        if not least <= value <= most:
            raise ambiguous("a number is too large")
        return value

    return decode


def _integers(least: int, most: int) -> tuple[Any, ...]:
    decode = _integer(least, most)
    return VARINT, decode, lambda value: [decode(one) for one in packed_integers(value)], 0


def _floats(wire: int, dtype: str) -> tuple[Any, ...]:
    size = np.dtype(dtype).itemsize

    def decode_packed(value: memoryview) -> list[float]:
        if len(value) % size:
            raise ambiguous("a number is cut off")
        return list(np.frombuffer(value, dtype=dtype).tolist())

    return wire, lambda value: decode_packed(value)[0], decode_packed, 0.0


# For each scalar: its wire type, how one and how packed ones are decoded, and its default.
_SCALARS: dict[str, tuple[Any, ...]] = {
    "int64": _integers(-(2**63), 2**63 - 1),
    "int32": _integers(-(2**31), 2**31 - 1),
    "attribute type": _integers(0, max(AttributeType)),
    "float": _floats(FIXED32, "<f4"),
    "double": _floats(FIXED64, "<f8"),
    "text": (BYTES, _text, None, ""),
    "bytes": (BYTES, bytes, None, b""),
}


def _default(holds: str) -> Any:
    if holds in _SCALARS:
        return _SCALARS[holds][3]
    if holds not in _EMPTY:
        _EMPTY[holds] = Message(holds, memoryview(b""), {})
    return _EMPTY[holds]


_EMPTY: dict[str, Message] = {}
