"""Plain files are read as `onnx` reads them, without importing it; other files are left to it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from vhagar.errors import InvalidNetwork
from vhagar.network import onnx_messages, read_onnx
from vhagar.network.onnx_fields import check_fields
from vhagar.network.onnx_messages import Message, editable, plain_model, serialized
from vhagar.network.onnx_tensors import read_tensor
from vhagar.network.onnx_types import (
    VALUE_FIELDS,
    AttributeType,
    DataLocation,
    TensorType,
    attribute_value,
)

from .corpus import MODELS
from .test_damage import branching, convolutional, damaged, fully_connected, padded, pooled

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def assert_same(message: Any, expected: Any) -> None:
    """Whether both have the same fields with the same values, at any depth."""
    if not isinstance(message, Message):
        assert message == expected or (message != message and expected != expected)  # noqa: PLR0124
        return
    known = onnx_messages._MESSAGES[message.kind].values()
    assert {field.name for field, _ in expected.ListFields()} == message.filled
    for name, holds, repeated in known:
        mine, theirs = getattr(message, name), getattr(expected, name)
        if repeated:
            assert len(mine) == len(theirs)
            for one, other in zip(mine, theirs, strict=True):
                assert_same(one, other)
            continue
        if holds in onnx_messages._MESSAGES:
            assert message.HasField(name) == expected.HasField(name)
        assert_same(mine, theirs)


def descriptor(kind: str) -> Any:
    found = onnx
    for part in kind.split("."):
        found = getattr(found, part)
    return found.DESCRIPTOR


@pytest.mark.parametrize("kind", onnx_messages._MESSAGES)
def test_the_table_is_onnx_s_own(kind: str) -> None:
    types = {2: "float", 1: "double", 3: "int64", 5: "int32", 9: "text", 12: "bytes"}
    fields = descriptor(kind).fields_by_number
    for number, (name, holds, repeated) in onnx_messages._MESSAGES[kind].items():
        if name == "metadata_props" and number not in fields:
            continue  # older versions have fewer of these
        field = fields[number]
        assert (field.name, bool(field.is_repeated)) == (name, repeated)
        if holds == "attribute type":
            assert field.enum_type is AttributeProto.AttributeType.DESCRIPTOR
        elif field.message_type is not None:
            assert field.message_type is descriptor(holds)
        else:
            assert types[field.type] == holds
        one_of = field.containing_oneof
        listed = name in onnx_messages._ONE_OF.get(kind, ())
        others = one_of and [
            other.number for other in one_of.fields if other.number in onnx_messages._MESSAGES[kind]
        ]
        assert listed == (len(others or []) > 1)
    absent = onnx_messages._ABSENT.get(kind, {})
    assert set(absent) <= set(descriptor(kind).fields_by_name)
    assert not set(absent) & {name for name, *_ in onnx_messages._MESSAGES[kind].values()}


def test_numbers_of_types_are_onnx_s_own() -> None:
    assert {each.name: each.value for each in AttributeType} == dict(
        AttributeProto.AttributeType.items()
    )
    for each in TensorType:
        assert TensorProto.DataType.Value(each.name) == each
    for each in DataLocation:
        assert TensorProto.DataLocation.Value(each.name) == each
    for kind, field in VALUE_FIELDS.items():
        assert field in AttributeProto.DESCRIPTOR.fields_by_name, kind


@pytest.mark.parametrize("name", MODELS)
def test_models_of_the_corpus_have_the_same_fields(build: type, name: str) -> None:
    for opset in MODELS[name].opsets:
        model = MODELS[name].built(build, opset).model()
        model.graph.node[0].doc_string = "é"
        content = model.SerializeToString()
        message = plain_model(content)
        assert message is not None, "a model like many was left to onnx"
        assert_same(message, model)
        assert serialized(message) == content
        assert editable(message) == model
        for mine, theirs in zip(message.graph.initializer, model.graph.initializer, strict=True):
            found, expected = read_tensor(mine), numpy_helper.to_array(theirs)
            assert found.dtype == expected.dtype
            assert np.array_equal(found, expected, equal_nan=found.dtype.kind == "f")
        for node, other in zip(message.graph.node, model.graph.node, strict=True):
            for mine, theirs in zip(node.attribute, other.attribute, strict=True):
                if mine.type != AttributeType.TENSOR:
                    assert attribute_value(mine) == helper.get_attribute_value(theirs)


@pytest.mark.parametrize("make", [convolutional, fully_connected, padded, branching, pooled])
def test_damaged_files_have_the_same_fields_or_are_left_to_onnx(
    build: type, make: Callable[[type, np.random.Generator], bytes]
) -> None:
    rng = np.random.default_rng(11)
    whole, plain = make(build, rng), 0
    for _ in range(400):
        content = damaged(whole, rng)
        message = plain_model(content)
        if message is None:
            continue
        plain += 1
        check_fields(content)
        assert_same(message, onnx.load_model_from_string(content))
    assert plain > 20


def changed(build: type, change: Callable[[Any], object]) -> bytes:
    model = build((4,)).add("Gemm", np.ones((4, 2)), np.ones(2)).model()
    change(model)
    return bytes(model.SerializeToString())


# What the table leaves out, and what is written twice or in another type.
NOT_PLAIN: dict[str, Callable[[Any], object]] = {
    "a function": lambda model: model.functions.add(name="f"),
    "training": lambda model: model.training_info.add(),
    "sparse constants": lambda model: model.graph.sparse_initializer.add(),
    "a graph in an attribute": lambda model: model.graph.node[0].attribute.append(
        helper.make_attribute("body", model.graph)
    ),
    "a reference": lambda model: model.graph.node[0].attribute.add(
        name="alpha", type=AttributeProto.FLOAT, ref_attr_name="other"
    ),
    "external data": lambda model: setattr(
        model.graph.initializer[0], "data_location", TensorProto.EXTERNAL
    ),
    "a segment": lambda model: setattr(model.graph.initializer[0].segment, "begin", 1),
    "a sequence": lambda model: model.graph.output[0].type.sequence_type.SetInParent(),
    "texts": lambda model: model.graph.initializer[0].string_data.append(b"a"),
}


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_other_fields_are_left_to_onnx(build: type, name: str) -> None:
    assert plain_model(changed(build, lambda model: None)) is not None
    assert plain_model(changed(build, NOT_PLAIN[name])) is None


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (b"\x08\x07", "'ir_version' twice"),  # what comes last would count
        (b"\x0d\x00\x00\x00\x00", "the field 'ir_version' twice|wrong type"),
        (b"\xf8\x3f\x00", "unknown field 1023"),
        (b"\x0b", "cannot be parsed"),  # a group that does not end
    ],
)
def test_refusals_stay_what_they_were(build: type, save: Callable, more: bytes, why: str) -> None:
    content = changed(build, lambda model: None) + more
    assert plain_model(content) is None
    with pytest.raises(InvalidNetwork, match=why):
        read_onnx(save(content))


def test_texts_that_are_none_stay_bytes(build: type) -> None:
    content = changed(build, lambda model: setattr(model, "producer_name", "zzé"))
    content = content.replace("zzé".encode(), b"zz\xff\xfe")
    message = plain_model(content)
    assert message is not None
    assert message.producer_name == onnx.load_model_from_string(content).producer_name  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "tensor",
    [
        TensorProto(name="w", dims=[2], data_type=TensorProto.FLOAT, raw_data=bytes(7)),
        TensorProto(name="w", dims=[3], data_type=TensorProto.FLOAT, raw_data=bytes(8)),
        TensorProto(name="w", dims=[2**40], data_type=TensorProto.DOUBLE, double_data=[1.0]),
        TensorProto(name="w", dims=[-1, -1], data_type=TensorProto.INT64, int64_data=[1, 2]),
        TensorProto(name="w", dims=[1], raw_data=bytes(4)),
    ],
)
def test_damaged_constants_are_named(build: type, tensor: TensorProto) -> None:
    message = plain_model(changed(build, lambda model: model.graph.initializer[0].CopyFrom(tensor)))
    assert message is not None
    with pytest.raises(InvalidNetwork, match="'w' cannot be decoded"):
        read_tensor(message.graph.initializer[0])  # type: ignore[attr-defined]


@pytest.mark.subprocess
def test_plain_files_are_read_without_onnx() -> None:
    script = (
        "import sys; from vhagar.network import read_onnx; read_onnx(sys.argv[1]); "
        "assert not {'onnx', 'google.protobuf', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script, str(EXAMPLES / "mnist_3x10.onnx")], check=True)
