"""Nodes of a model file: what their attributes say, and the constants that they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, NodeProto, helper, numpy_helper

from vhagar_check.errors import Rejected
from vhagar_check.graph import Node
from vhagar_check.model import read_model
from vhagar_check.protobuf import Message

from .graphs import Build, runtime_scores

EYE = numpy_helper.from_array(np.eye(2, dtype=np.float32))
# An attribute of every type that is read, and the method that reads it.
VALUES: dict[str, Any] = {
    "integer": 5,
    "integers": [3, -1],
    "number": 0.5,
    "numbers": [0.5, -2.0],
    "text": "up",
    "tensor": EYE,
}
DEFAULTS = {"integer": (7,), "integers": ([7],), "number": (7.5,), "text": ("down",)}


def made(node: NodeProto) -> Node:
    return Node.of(Message(node.SerializeToString()))


def cast(**attributes: Any) -> Node:
    return made(helper.make_node("Cast", ["x"], ["y"], **attributes))


def read(node: Node, method: str) -> Any:
    found = getattr(node, method)("a", *DEFAULTS.get(method, ()))
    return found.tolist() if isinstance(found, np.ndarray) else found


@pytest.mark.parametrize("method", VALUES)
def test_attributes_are_read_as_their_own_type_alone(method: str) -> None:
    for name, value in VALUES.items():
        node = made(helper.make_node("Op", ["x"], ["y"], a=value))
        if name == method:
            assert read(node, method) == (np.eye(2).tolist() if value is EYE else value)
        else:
            with pytest.raises(Rejected, match="another type"):
                read(node, method)


def test_an_attribute_that_is_left_out_is_the_operator_s_default() -> None:
    node = made(helper.make_node("Op", ["x"], ["y"], b=1))
    found = {method: read(node, method) for method in VALUES}
    assert found == {
        "integer": 7,
        "integers": [7],
        "number": 7.5,
        "numbers": [],
        "text": "down",
        "tensor": None,
    }


def test_an_attribute_without_its_value_is_the_type_s_default() -> None:
    """Writers of protocol buffers may leave out a value that is 0."""
    empty = {"integer": 0, "integers": [], "number": 0.0, "numbers": [], "text": ""}
    for method, expected in empty.items():
        kind = helper.make_attribute("a", VALUES[method]).type
        node = NodeProto(op_type="Op", attribute=[AttributeProto(name="a", type=kind)])
        assert read(made(node), method) == expected
    tensor = NodeProto(op_type="Op", attribute=[AttributeProto(name="a", type=4)])
    with pytest.raises(Rejected, match="occurs 0 times"):
        read(made(tensor), "tensor")


def test_of_a_value_that_occurs_twice_the_last_one_counts() -> None:
    """As in every reader of protocol buffers, though such files are refused before."""
    for method in ("integer", "number"):
        first, second = (helper.make_attribute("a", VALUES[method] + k) for k in (0, 1))
        both = AttributeProto.FromString(first.SerializeToString() + second.SerializeToString())
        item = Message(first.SerializeToString() + second.SerializeToString())
        value = helper.get_attribute_value(both)
        assert read(Node("Op", ["x"], ["y"], {"a": item}), method) == value == VALUES[method] + 1


def test_two_attributes_of_a_name_are_refused() -> None:
    node = helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.5)
    made(node)
    node.attribute.append(helper.make_attribute("alpha", 0.25))
    with pytest.raises(Rejected, match="two attributes of the same name"):
        made(node)


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("LeakyRelu", {"alpha": 2}),
        ("Flatten", {"axis": 1.0}),
        ("MaxPool", {"kernel_shape": [2, 2], "ceil_mode": 1.0}),
        ("AveragePool", {"kernel_shape": [2, 2], "count_include_pad": 1.0, "pads": [1, 1, 1, 1]}),
    ],
)
def test_models_with_attributes_of_another_type_are_refused(
    kind: str, attributes: dict[str, Any]
) -> None:
    """Runtimes refuse them, too: the value of 2 is no slope, and the slope is not 0."""
    b = Build([1, 1, 3, 3])
    data = b.model(b("Flatten", b(kind, "x", **attributes)))
    with pytest.raises(Rejected, match="another type"):
        read_model(data)
    with pytest.raises(Exception, match="INVALID_GRAPH"):
        runtime_scores(data, np.zeros((1, 1, 3, 3)))


@pytest.mark.parametrize(
    ("name", "value", "kind", "expected"),
    [
        ("value", EYE, np.float32, [[1.0, 0.0], [0.0, 1.0]]),
        ("value_float", 0.1, np.float32, float(np.float32(0.1))),
        ("value_floats", [0.5, 2.0], np.float32, [0.5, 2.0]),
        ("value_floats", [0.5], np.float32, [0.5]),
        ("value_int", -(2**40), np.int64, -(2**40)),
        ("value_ints", [2**40, -1], np.int64, [2**40, -1]),
        ("value_ints", [3], np.int64, [3]),
    ],
)
def test_a_constant_is_what_its_attribute_says(
    name: str, value: Any, kind: Any, expected: Any
) -> None:
    found = made(helper.make_node("Constant", [], ["y"], **{name: value})).constant()
    assert found.dtype == kind
    assert found.tolist() == expected


def test_a_constant_of_zero_may_leave_its_value_out() -> None:
    for name, kind, expected in (("value_float", 1, 0.0), ("value_int", 2, 0)):
        item = AttributeProto(name=name, type=kind)
        found = made(NodeProto(op_type="Constant", output=["y"], attribute=[item])).constant()
        assert found.tolist() == expected
        assert found.shape == ()


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({}, "not one constant"),
        ({"value_int": 1, "value_float": 1.0}, "not one constant"),
        ({"value_string": "1"}, "not understood"),
        ({"value": 1.0}, "another type"),
        ({"value_int": 1.0}, "another type"),
        ({"value_ints": 1}, "another type"),
        ({"value_float": 1}, "another type"),
        ({"value_floats": [1]}, "another type"),
    ],
)
def test_constants_that_are_refused(attributes: dict[str, Any], words: str) -> None:
    with pytest.raises(Rejected, match=words):
        made(helper.make_node("Constant", [], ["y"], **attributes)).constant()


def test_a_cast_has_a_type_and_only_the_usual_options() -> None:
    assert cast(to=11).cast_to() == 11
    assert cast(to=1, saturate=1, round_mode="up").cast_to() == 1
    assert cast().cast_to() == 0, "a type that there is not"
    for options in ({"saturate": 0}, {"saturate": 2}, {"round_mode": "down"}, {"other": 1}):
        with pytest.raises(Rejected, match="not understood"):
            cast(to=1, **options).cast_to()
