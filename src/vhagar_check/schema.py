"""Check the messages of an ONNX file field by field, so that none can be read in two ways.

Protocol buffers are lenient: a field that should occur once may occur twice, and is then merged or
overwritten; a field of another number or wire type is skipped. What one reader skips another may
use. So every message of the file is compared with this table first. It refuses unknown fields,
wrong wire types, second occurrences of fields that occur once, and fields that could matter but are
never read by this checker.
"""

from __future__ import annotations

from dataclasses import dataclass

from vhagar_check.errors import Rejected
from vhagar_check.protobuf import Value, fields, signed

# Wire types.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class Field:
    """A field's content, a wire type or a message of the table, and whether it may be repeated."""

    name: str
    holds: int | str
    repeated: bool = False
    least: int = -(2**63)
    most: int = 2**63 - 1


def _int32(name: str, repeated: bool = False) -> Field:
    return Field(name, _VARINT, repeated, -(2**31), 2**31 - 1)


def _int64(name: str, repeated: bool = False) -> Field:
    return Field(name, _VARINT, repeated)


def _bytes(name: str, repeated: bool = False) -> Field:
    return Field(name, _BYTES, repeated)


def _some(name: str, message: str) -> Field:
    return Field(name, message, repeated=True)


_METADATA = _some("metadata_props", "entry")
# Fields that are not in the table are refused: among them sparse constants, training steps,
# sub-graphs, references to attributes of functions, and parts of tensors.
MESSAGES: dict[str, dict[int, Field]] = {
    "model": {
        1: _int64("ir_version"),
        2: _bytes("producer_name"),
        3: _bytes("producer_version"),
        4: _bytes("domain"),
        5: _int64("model_version"),
        6: _bytes("doc_string"),
        7: Field("graph", "graph"),
        8: _some("opset_import", "opset"),
        14: _METADATA,
        25: _some("functions", "function"),
    },
    "opset": {1: _bytes("domain"), 2: _int64("version")},
    "entry": {1: _bytes("key"), 2: _bytes("value")},
    # Only the domain is read: no node may call a function.
    "function": {
        1: _bytes("name"),
        4: _bytes("input", repeated=True),
        5: _bytes("output", repeated=True),
        6: _bytes("attribute", repeated=True),
        7: _bytes("node", repeated=True),
        8: _bytes("doc_string"),
        9: _bytes("opset_import", repeated=True),
        10: _bytes("domain"),
        11: _bytes("attribute_proto", repeated=True),
        12: _bytes("value_info", repeated=True),
        13: _bytes("overload"),
        14: _METADATA,
    },
    "graph": {
        1: _some("node", "node"),
        2: _bytes("name"),
        5: _some("initializer", "tensor"),
        10: _bytes("doc_string"),
        11: _some("input", "value"),
        12: _some("output", "value"),
        13: _some("value_info", "value"),
        14: _bytes("quantization_annotation", repeated=True),
        16: _METADATA,
    },
    "node": {
        1: _bytes("input", repeated=True),
        2: _bytes("output", repeated=True),
        3: _bytes("name"),
        4: _bytes("op_type"),
        5: _some("attribute", "attribute"),
        6: _bytes("doc_string"),
        7: _bytes("domain"),
        9: _METADATA,
    },
    "attribute": {
        1: _bytes("name"),
        2: Field("f", _FIXED32),
        3: _int64("i"),
        4: _bytes("s"),
        5: Field("t", "tensor"),
        7: Field("floats", _FIXED32, repeated=True),
        8: _int64("ints", repeated=True),
        9: _bytes("strings", repeated=True),
        13: _bytes("doc_string"),
        20: _int32("type"),
    },
    "tensor": {
        1: _int64("dims", repeated=True),
        2: _int32("data_type"),
        4: Field("float_data", _FIXED32, repeated=True),
        5: _int32("int32_data", repeated=True),
        6: _bytes("string_data", repeated=True),
        7: _int64("int64_data", repeated=True),
        8: _bytes("name"),
        9: _bytes("raw_data"),
        10: Field("double_data", _FIXED64, repeated=True),
        12: _bytes("doc_string"),
        13: _some("external_data", "entry"),
        14: _int32("data_location"),
        16: _METADATA,
    },
    "value": {
        1: _bytes("name"),
        2: Field("type", "type"),
        3: _bytes("doc_string"),
        4: _METADATA,
    },
    # Outputs of other types than tensors are never read.
    "type": {
        1: Field("tensor_type", "tensor type"),
        4: _bytes("sequence_type"),
        6: _bytes("denotation"),
    },
    "tensor type": {1: _int32("elem_type"), 2: Field("shape", "shape")},
    "shape": {1: _some("dim", "dimension")},
    "dimension": {1: _int64("dim_value"), 2: _bytes("dim_param"), 3: _bytes("denotation")},
}
# Groups of fields of which a message has at most one: two would be two answers to one question.
_ALTERNATIVES = {
    "attribute": ({2, 3, 4, 5, 7, 8, 9},),
    "tensor": ({4, 5, 6, 7, 9, 10},),
    "dimension": ({1, 2},),
    "type": ({1, 4},),
}
# The field that holds an attribute's value, by the attribute's type.
ATTRIBUTE_FIELDS = {1: 2, 2: 3, 3: 4, 4: 5, 6: 7, 7: 8, 8: 9}


def check_fields(data: Value, message: str = "model") -> None:
    """Refuse a message that readers could read in different ways."""
    if isinstance(data, int):
        raise Rejected(f"the model file is damaged (a number where a {message} should be)")
    known, seen = MESSAGES[message], dict[int, Value]()
    for number, wire, value in fields(data):
        field = known.get(number)
        if field is None:
            raise Rejected(f"a {message} of the model has field {number}, which is not read here")
        if number in seen and not field.repeated:
            raise Rejected(f"a {message} of the model has two fields {field.name!r}")
        seen[number] = value
        if isinstance(field.holds, str):
            if wire != _BYTES:
                raise Rejected(f"a {message}'s field {field.name!r} is no message")
            check_fields(value, field.holds)
        else:
            _check_value(message, field, wire, value)
    for group in _ALTERNATIVES.get(message, ()):
        if len(group & seen.keys()) > 1:
            names = sorted(known[number].name for number in group & seen.keys())
            raise Rejected(f"a {message} of the model has several values: {', '.join(names)}")
    if message == "attribute":
        _check_attribute(seen)


def _check_value(message: str, field: Field, wire: int, value: Value) -> None:
    packed = field.repeated and wire == _BYTES and field.holds != _BYTES
    if wire != field.holds and not packed:
        raise Rejected(f"a {message}'s field {field.name!r} has the wrong type")
    if field.holds == _VARINT and not all(
        field.least <= number <= field.most for number in signed(value)
    ):
        raise Rejected(f"a {message}'s field {field.name!r} has a number that is too large")


def _check_attribute(seen: dict[int, Value]) -> None:
    """Check that the value is in its type's field; a missing value is the type's default."""
    kind = seen.get(20, 0)
    place = ATTRIBUTE_FIELDS.get(kind) if isinstance(kind, int) else None
    if place is None:
        raise Rejected(f"an attribute of the model has a type that is not read here ({kind!r})")
    if any(number in seen and number != place for number in ATTRIBUTE_FIELDS.values()):
        raise Rejected("an attribute of the model has a value of another type than it states")
