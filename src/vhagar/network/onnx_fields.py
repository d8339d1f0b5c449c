"""Refuses model files that two readers could read in two ways.

Protocol buffers are lenient: a field that should occur once may occur twice, and is then merged or
overwritten; one of another number or wire type is skipped. What this program reads must be what
every runtime reads, so each message of the file is compared with ONNX's own description of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor

from vhagar.errors import InvalidNetwork

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIRE = {
    FieldDescriptor.CPPTYPE_INT32: _VARINT,
    FieldDescriptor.CPPTYPE_INT64: _VARINT,
    FieldDescriptor.CPPTYPE_UINT64: _VARINT,
    FieldDescriptor.CPPTYPE_ENUM: _VARINT,
    FieldDescriptor.CPPTYPE_FLOAT: _FIXED32,
    FieldDescriptor.CPPTYPE_DOUBLE: _FIXED64,
    FieldDescriptor.CPPTYPE_STRING: _BYTES,
    FieldDescriptor.CPPTYPE_MESSAGE: _BYTES,
}
# Numbers of 32 bits: what does not fit is cut off by some readers.
_NARROW = (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_ENUM)
# Where an attribute of each type has its value, and where a tensor may have its values.
_VALUES = ("f", "i", "s", "t", "g", "floats", "ints", "strings", "tensors", "graphs")
_DATA = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")


def check_fields(data: bytes) -> None:
    """Refuse a file with fields that occur twice, are unknown, or have another type."""
    _check_message(memoryview(data), onnx.ModelProto.DESCRIPTOR)


def _check_message(data: memoryview, message: Any) -> None:
    seen: set[str] = set()
    for number, wire, value in _fields(data):
        field = message.fields_by_number.get(number)
        if field is None:
            raise _ambiguous(f"{message.name} has an unknown field {number}")
        one_of = field.containing_oneof
        name = field.name if one_of is None else one_of.name
        repeated = _is_repeated(field)
        if name in seen and not repeated:
            raise _ambiguous(f"{message.name} has the field {name!r} twice")
        seen.add(name)
        expected = _WIRE[field.cpp_type]
        if wire != expected and not (repeated and wire == _BYTES):
            raise _ambiguous(f"{message.name} has a field {name!r} of the wrong type")
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            _check_message(value, field.message_type)
        elif field.cpp_type in _NARROW:
            _require_narrow(value, message.name, name)


def _is_repeated(field: Any) -> bool:
    try:
        return bool(field.is_repeated)
    except AttributeError:  # before version 6.31 of protobuf, which warns of what follows
        return bool(field.label == FieldDescriptor.LABEL_REPEATED)


def _require_narrow(value: Any, message: str, name: str) -> None:
    numbers = [value] if isinstance(value, int) else _packed(value)
    if any(2**31 <= number < 2**64 - 2**31 for number in numbers):
        raise _ambiguous(f"{message} has a field {name!r} that does not fit 32 bits")


def _packed(data: memoryview) -> Iterator[int]:
    place = 0
    while place < len(data):
        number, place = _varint(data, place)
        yield number


def _fields(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, place = _varint(data, place)
            yield number, wire, value
            continue
        if wire == _BYTES:
            length, place = _varint(data, place)
        elif wire in (_FIXED32, _FIXED64):
            length = 4 if wire == _FIXED32 else 8
        else:
            raise _ambiguous(f"a field has the wire type {wire}")
        if length > len(data) - place:
            raise _ambiguous("a field is cut off")
        yield number, wire, data[place : place + length]
        place += length


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(data) and shift < 70:
        byte = data[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128 and value < 2**64:
            return value, place
    raise _ambiguous("a number is cut off or too large")


def check_model(model: Any) -> None:
    """Refuse what has two values or two meanings although every field occurs once."""
    graph = model.graph
    own = {one.version for one in model.opset_import if one.domain in ("", "ai.onnx")}
    if len(own) > 1:
        raise _ambiguous("two versions of ONNX's operators are imported")
    if any(one.domain in ("", "ai.onnx", "ai.onnx.ml") for one in model.functions):
        raise _ambiguous("it redefines ONNX's operators by functions of its own")
    _require_different("initialisers", (tensor.name for tensor in graph.initializer))
    _require_different("inputs", (value.name for value in graph.input))
    constants = {tensor.name for tensor in graph.initializer}
    made = [name for node in graph.node for name in node.output if name]
    given = [value.name for value in graph.input if value.name not in constants]
    _require_different("values", [*made, *constants, *given])
    for node in graph.node:
        what = f"attributes of {node.op_type} {node.name!r}"
        _require_different(what, (item.name for item in node.attribute))
        for item in node.attribute:
            _check_attribute(item)
            if item.type == onnx.AttributeProto.TENSOR:
                _check_tensor(item.t)
    for tensor in graph.initializer:
        _check_tensor(tensor)


def _check_attribute(item: Any) -> None:
    filled = [field.name for field, _ in item.ListFields() if field.name in _VALUES]
    kind = onnx.AttributeProto.AttributeType.Name(item.type)
    expected = {"FLOAT": "f", "INT": "i", "STRING": "s", "TENSOR": "t", "GRAPH": "g"}
    if any(name != expected.get(kind, kind.lower()) for name in filled):
        raise _ambiguous(f"the attribute {item.name!r} has a value of another type than {kind}")


def _check_tensor(tensor: Any) -> None:
    filled = [name for name in _DATA if len(getattr(tensor, name))]
    if len(filled) + tensor.HasField("raw_data") > 1:
        raise _ambiguous(f"the constant {tensor.name!r} has its values twice")


def _require_different(what: str, names: Iterable[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise _ambiguous(f"two {what} have the name {twice[0]!r}")


def _ambiguous(why: str) -> InvalidNetwork:
    return InvalidNetwork(f"the model file can be read in two ways ({why}); export the model again")
