"""ONNX's numbers of types: most files are read without importing `onnx`, which takes a while."""

from __future__ import annotations

from enum import IntEnum
from typing import Any


class AttributeType(IntEnum):
    """The types of attributes."""

    UNDEFINED = 0
    FLOAT = 1
    INT = 2
    STRING = 3
    TENSOR = 4
    GRAPH = 5
    FLOATS = 6
    INTS = 7
    STRINGS = 8
    TENSORS = 9
    GRAPHS = 10
    SPARSE_TENSOR = 11
    SPARSE_TENSORS = 12
    TYPE_PROTO = 13
    TYPE_PROTOS = 14


class TensorType(IntEnum):
    """The types of tensors that the reader tells apart."""

    FLOAT = 1
    INT32 = 6
    INT64 = 7
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    BFLOAT16 = 16


class DataLocation(IntEnum):
    """Where the values of a tensor are: in the model, or in another file."""

    DEFAULT = 0
    EXTERNAL = 1


# The field of an attribute that holds its value.
VALUE_FIELDS = {
    AttributeType.FLOAT: "f",
    AttributeType.INT: "i",
    AttributeType.STRING: "s",
    AttributeType.TENSOR: "t",
    AttributeType.GRAPH: "g",
    AttributeType.FLOATS: "floats",
    AttributeType.INTS: "ints",
    AttributeType.STRINGS: "strings",
    AttributeType.TENSORS: "tensors",
    AttributeType.GRAPHS: "graphs",
}


def attribute_value(item: Any) -> Any:
    """The value of an attribute whose type is one of `VALUE_FIELDS`."""
    if item.ref_attr_name:
        raise ValueError(f"the attribute {item.name!r} refers to one of a function")
    field = VALUE_FIELDS[item.type]
    value = getattr(item, field)
    return list(value) if field.endswith("s") and field != "s" else value
