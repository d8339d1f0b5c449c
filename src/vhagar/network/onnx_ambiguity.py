"""Refuses models that have two values or two meanings although every field occurs once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from vhagar.network.onnx_messages import filled_fields
from vhagar.network.onnx_types import VALUE_FIELDS, AttributeType, TensorType
from vhagar.network.onnx_usage import inputs_of, tensors_of
from vhagar.network.wire_format import ambiguous

# Where a tensor may have its values.
_DATA = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
# What may be said of external data; runtimes read further entries as they like.
_NUMBERS = {"offset", "length"}
_EXTERNAL = {"location", "checksum", *_NUMBERS}


def check_model(model: Any) -> None:
    """Refuse a model in which names, attributes, constants or operators are ambiguous."""
    graph = model.graph
    own = {one.version for one in model.opset_import if one.domain in ("", "ai.onnx")}
    if len(own) > 1:
        raise ambiguous("two versions of ONNX's operators are imported")
    if any(one.domain in ("", "ai.onnx", "ai.onnx.ml") for one in model.functions):
        raise ambiguous("it redefines ONNX's operators by functions of its own")
    _require_different("initialisers", (tensor.name for tensor in graph.initializer))
    _require_different("inputs", (value.name for value in graph.input))
    constants = {tensor.name for tensor in graph.initializer}
    made = [name for node in graph.node for name in node.output if name]
    given = [value.name for value in inputs_of(graph)]
    _require_different("values", [*made, *constants, *given])
    for node in graph.node:
        what = f"attributes of {node.op_type} {node.name!r}"
        _require_different(what, (item.name for item in node.attribute))
        for item in node.attribute:
            _check_attribute(item)
    for tensor in tensors_of(graph):
        _check_tensor(tensor)


def _check_attribute(item: Any) -> None:
    own, filled = VALUE_FIELDS.get(item.type), filled_fields(item)
    if any(name in filled for name in VALUE_FIELDS.values() if name != own):
        kind = next((each.name for each in AttributeType if each == item.type), item.type)
        raise ambiguous(f"the attribute {item.name!r} has a value of another type than {kind}")


def _check_tensor(tensor: Any) -> None:
    filled = [name for name in _DATA if len(getattr(tensor, name))]
    if len(filled) + tensor.HasField("raw_data") > 1:
        raise ambiguous(f"the constant {tensor.name!r} has its values twice")
    halves = (TensorType.FLOAT16, TensorType.BFLOAT16)
    if tensor.data_type in halves and any(not 0 <= n < 2**16 for n in tensor.int32_data):
        raise ambiguous(f"the constant {tensor.name!r} has numbers that do not fit 16 bits")
    _check_external(tensor)


def _check_external(tensor: Any) -> None:
    places = [entry.key for entry in tensor.external_data]
    _require_different(f"entries of the external data of {tensor.name!r}", places)
    if not set(places) <= _EXTERNAL:
        raise ambiguous(f"the external data of {tensor.name!r} has an entry of another kind")
    numbers = [item.value for item in tensor.external_data if item.key in _NUMBERS]
    if not all(number.isascii() and number.isdigit() for number in numbers):
        raise ambiguous(f"the external data of {tensor.name!r} begins or ends at no whole number")


def _require_different(what: str, names: Iterable[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ambiguous(f"two {what} have the name {twice[0]!r}")
