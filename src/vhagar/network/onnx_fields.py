"""Refuses model files that two readers could read in two ways.

Protocol buffers are lenient: a field that should occur once may occur twice, and is then merged or
overwritten; one of another number or wire type is skipped. What this program reads must be what
every runtime reads, so each message of the file is compared with ONNX's own description of it.
"""

from __future__ import annotations

from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor

from vhagar.network.wire_format import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    ambiguous,
    fields,
    packed_integers,
)

_WIRE = {
    FieldDescriptor.CPPTYPE_INT32: VARINT,
    FieldDescriptor.CPPTYPE_INT64: VARINT,
    FieldDescriptor.CPPTYPE_UINT64: VARINT,
    FieldDescriptor.CPPTYPE_ENUM: VARINT,
    FieldDescriptor.CPPTYPE_FLOAT: FIXED32,
    FieldDescriptor.CPPTYPE_DOUBLE: FIXED64,
    FieldDescriptor.CPPTYPE_STRING: BYTES,
    FieldDescriptor.CPPTYPE_MESSAGE: BYTES,
}
# Numbers of 32 bits: what does not fit is cut off by some readers.
_NARROW = (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_ENUM)


def check_fields(data: bytes) -> None:
    """Refuse a file with fields that occur twice, are unknown, or have another type."""
    _check_message(memoryview(data), onnx.ModelProto.DESCRIPTOR)


def _check_message(data: memoryview, message: Any) -> None:
    seen: set[str] = set()
    for number, wire, value in fields(data):
        field = message.fields_by_number.get(number)
        if field is None:
            raise ambiguous(f"{message.name} has an unknown field {number}")
        one_of = field.containing_oneof
        name = field.name if one_of is None else one_of.name
        repeated = _is_repeated(field)
        if name in seen and not repeated:
            raise ambiguous(f"{message.name} has the field {name!r} twice")
        seen.add(name)
        expected = _WIRE[field.cpp_type]
        if wire != expected and not (repeated and wire == BYTES):
            raise ambiguous(f"{message.name} has a field {name!r} of the wrong type")
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
    numbers = [value] if isinstance(value, int) else packed_integers(value)
    if any(2**31 <= number < 2**64 - 2**31 for number in numbers):
        raise ambiguous(f"{message} has a field {name!r} that does not fit 32 bits")
