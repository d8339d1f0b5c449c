"""Model files byte by byte: numbers of every length, fields, types of constants, graphs."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from vhagar_check.errors import Rejected
from vhagar_check.graph import read_graph
from vhagar_check.protobuf import Message, fields, signed, tensor
from vhagar_check.schema import MESSAGES, _int32, _some, check_fields

from .test_fields import field, varint


@pytest.mark.parametrize(
    "value", [0, 1, 127, 128, 300, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1]
)
def test_whole_numbers_of_every_length(value: int) -> None:
    assert list(fields(varint(3 << 3) + varint(value))) == [(3, 0, value)]
    expected = value - 2**64 if value >= 2**63 else value
    assert list(signed(value)) == [expected]
    assert list(signed(varint(value) + varint(5))) == [expected, 5]
    assert Message(field(3, value)).integer(3) == expected


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x80", "a number is cut off"),
        (b"\x18\x80", "a number is cut off"),
        (b"\x18" + b"\xff" * 9 + b"\x02", "a number is cut off"),
        (b"\x18" + b"\x80" * 10 + b"\x01", "a number is cut off"),
        (b"\x18" + b"\x80" * 10 + b"\x00", "a number is cut off"),
        (b"\x18" + b"\x80" * 9 + b"\x02", "a number is cut off"),
        (b"\x1b", "unknown wire type"),
        (b"\x1c", "unknown wire type"),
        (b"\x1e", "unknown wire type"),
        (b"\x1f", "unknown wire type"),
        (b"\x1a\x02\x00", "a field is cut off"),
        (b"\x1d\x00\x00\x00", "a field is cut off"),
        (b"\x19" + b"\x00" * 7, "a field is cut off"),
    ],
)
def test_files_that_are_cut_off(data: bytes, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        list(fields(data))


def test_fields_of_every_wire_type() -> None:
    data = b"\x08\x05" + b"\x1a\x02ab" + b"\x25" + b"\x01\x02\x03\x04" + b"\x29" + bytes(8)
    assert list(fields(data)) == [(1, 0, 5), (3, 2, b"ab"), (4, 5, b"\1\2\3\4"), (5, 1, bytes(8))]
    assert list(fields(b"\x1a\x00")) == [(3, 2, b"")]
    # Ten bytes hold 64 bits; the last may be padded with nothing but zeros.
    assert list(fields(b"\x18" + b"\xff" * 9 + b"\x01")) == [(3, 0, 2**64 - 1)]
    assert list(fields(b"\x18" + b"\x80" * 9 + b"\x00")) == [(3, 0, 0)]


def test_messages() -> None:
    inner = field(1, 7)
    message = Message(field(2, inner) + field(2, field(1, 8)) + field(3, b"name") + field(4, inner))
    assert [part.integer(1) for part in message.messages(2)] == [7, 8]
    assert message.message(4).integer(1) == 7
    assert (message.text(3), message.text(9)) == ("name", "")
    assert (message.integer(9), message.integer(9, 4)) == (0, 4)
    for number in (2, 9):
        with pytest.raises(Rejected, match="occurs"):
            message.message(number)
    with pytest.raises(Rejected, match="a message should be"):
        Message(5)
    with pytest.raises(Rejected, match="UTF-8"):
        Message(field(3, b"\xff")).text(3)
    with pytest.raises(Rejected, match="cut off"):
        Message(field(3, b"abc")).numbers(3, "<f4")
    assert Message(field(3, struct.pack("<2f", 1, 2)) + b"\x1d" + struct.pack("<f", 3)).numbers(
        3, "<f4"
    ).tolist() == [1, 2, 3]


def stored(kind: int, shape: Iterable[int] = (2,), **given: Any) -> Message:
    numbers = {"floats": 4, "int32": 5, "int64": 7, "raw": 9, "doubles": 10}
    data = b"".join(field(1, size) for size in shape) + field(2, kind)
    for name, content in given.items():
        data += field(numbers[name], content)
    return Message(data)


@pytest.mark.parametrize(
    ("message", "kind", "expected"),
    [
        (stored(1, raw=struct.pack("<2f", 1.5, -2)), np.float32, [1.5, -2.0]),
        (stored(1, floats=struct.pack("<2f", 1.5, -2)), np.float32, [1.5, -2.0]),
        (stored(11, raw=struct.pack("<2d", 0.1, -2)), np.float64, [0.1, -2.0]),
        (stored(11, doubles=struct.pack("<2d", 0.1, -2)), np.float64, [0.1, -2.0]),
        (stored(6, raw=struct.pack("<2i", 5, -6)), np.int32, [5, -6]),
        (stored(6, int32=varint(5) + varint(2**64 - 6)), np.int32, [5, -6]),
        (stored(7, raw=struct.pack("<2q", 2**40, -6)), np.int64, [2**40, -6]),
        (stored(7, int64=varint(2**40) + varint(2**64 - 6)), np.int64, [2**40, -6]),
        (stored(9, raw=b"\1\0"), np.bool_, [True, False]),
        (stored(9, int32=b"\1\0"), np.bool_, [True, False]),
        (stored(10, raw=struct.pack("<2e", 1.5, -2)), np.float32, [1.5, -2.0]),
        (stored(10, int32=varint(0x3E00) + varint(0xC000)), np.float32, [1.5, -2.0]),
        (stored(10, int32=varint(0) + varint(0x3E00)), np.float32, [0.0, 1.5]),
        (stored(16, raw=struct.pack("<2H", 0x3FC0, 0xC000)), np.float32, [1.5, -2.0]),
        (stored(16, int32=varint(0x3FC0) + varint(0xC000)), np.float32, [1.5, -2.0]),
        (stored(1, (1, 2, 1), raw=struct.pack("<2f", 1, 2)), np.float32, [[[1.0], [2.0]]]),
        (stored(1, (), raw=struct.pack("<f", 1)), np.float32, 1.0),
        (stored(1, (0,)), np.float32, []),
    ],
)
def test_constants_of_every_type(message: Message, kind: Any, expected: Any) -> None:
    found = tensor(message)
    assert found.dtype == kind
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (stored(1, (3,), raw=bytes(8)), "the size it states"),
        (stored(1, (2**64 - 1, 2**64 - 2), raw=bytes(8)), "the size it states"),
        (stored(1, raw=bytes(7)), "cut off"),
        (stored(2, raw=bytes(2)), "not read here"),
        (stored(8, raw=bytes(2)), "not read here"),
        (stored(9, raw=b"\2\0"), "truth value"),
        (stored(9, int32=varint(256) + b"\0"), "truth value"),
        (stored(9, int32=varint(2**64 - 1) + b"\0"), "truth value"),
        (stored(10, int32=varint(2**16) + b"\0"), "16 bits"),
        (stored(16, int32=varint(2**64 - 1) + b"\0"), "16 bits"),
        (Message(field(1, 2) + field(2, 1) + field(14, 1)), "another file"),
        (Message(field(1, 2) + field(2, 1) + field(13, b"")), "another file"),
    ],
)
def test_constants_that_are_refused(message: Message, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        tensor(message)


def sample(holds: int | str) -> bytes:
    """The shortest content of a field of a kind, with its wire type."""
    if holds == 0:
        return b"\x00"
    if holds == 1:
        return bytes(8)
    if holds == 5:
        return bytes(4)
    kind = field(20, 2) if holds == "attribute" else b""  # of an attribute it must be stated
    return varint(len(kind)) + kind


@pytest.mark.parametrize("message", [name for name in MESSAGES if name != "attribute"])
def test_every_field_of_every_message(message: str) -> None:
    """Once, twice, and with another wire type; those that are not in the table never."""
    for number, known in MESSAGES[message].items():
        wire = 2 if isinstance(known.holds, str) else known.holds
        one = varint(number << 3 | wire) + sample(known.holds)
        check_fields(one, message)
        if known.repeated:
            check_fields(one + one, message)
        else:
            with pytest.raises(Rejected, match="two fields"):
                check_fields(one + one, message)
        for other in {0, 1, 2, 5} - {wire}:
            packed = known.repeated and other == 2 and known.holds not in (2,)
            content = varint(number << 3 | other) + {0: b"\0", 1: bytes(8), 5: bytes(4)}.get(
                other, b"\0"
            )
            if packed and not isinstance(known.holds, str):
                check_fields(content, message)
            else:
                with pytest.raises(Rejected):
                    check_fields(content, message)
    for number in {*range(40)} - MESSAGES[message].keys():
        with pytest.raises(Rejected, match="not read here"):
            check_fields(varint(number << 3) + b"\0", message)
    with pytest.raises(Rejected, match="a number where"):
        check_fields(5, message)


@pytest.mark.parametrize(("name", "number"), [("attribute", 20), ("tensor", 2)])
def test_narrow_numbers(name: str, number: int) -> None:
    start = field(3, 0) if name == "attribute" else b""
    for value, fine in ((2, True), (2**31, False), (2**64 - 2**31 - 1, False)):
        data = start + field(number, value)
        if fine:
            check_fields(data, name)
        else:
            with pytest.raises(Rejected, match=r"too large|not read here"):
                check_fields(data, name)
    check_fields(field(5, 2**64 - 2**31) + field(5, 2**31 - 1), "tensor")
    with pytest.raises(Rejected, match="too large"):
        check_fields(field(5, varint(1) + varint(2**31)), "tensor")


VALUES = {1: (2, 5), 2: (3, 0), 3: (4, 2), 4: (5, 2), 6: (7, 5), 7: (8, 0), 8: (9, 2)}


@pytest.mark.parametrize("kind", range(16))
def test_attributes_have_their_own_value_alone(kind: int) -> None:
    stated = field(20, kind)
    if kind not in VALUES:
        with pytest.raises(Rejected, match="not read here"):
            check_fields(stated, "attribute")
        return
    check_fields(stated, "attribute")
    for other, (number, wire) in VALUES.items():
        content = varint(number << 3 | wire) + (bytes(4) if wire == 5 else b"\0")
        if other == kind:
            check_fields(stated + content, "attribute")
        else:
            with pytest.raises(Rejected, match="another type"):
                check_fields(stated + content, "attribute")
    both = field(3, 0) + field(4, b"")
    with pytest.raises(Rejected, match="several values"):
        check_fields(both + stated, "attribute")
    with pytest.raises(Rejected, match="not read here"):
        check_fields(b"", "attribute")


@pytest.mark.parametrize(
    ("message", "first", "second"),
    [
        ("tensor", field(4, bytes(4)), field(9, bytes(4))),
        ("tensor", field(5, 1), field(7, 1)),
        ("tensor", field(6, b""), field(10, bytes(8))),
        ("dimension", field(1, 1), field(2, b"n")),
        ("type", field(1, b""), field(4, b"")),
    ],
)
def test_two_answers_to_one_question(message: str, first: bytes, second: bytes) -> None:
    for one in (first, second):
        check_fields(one, message)
    with pytest.raises(Rejected, match="several values"):
        check_fields(first + second, message)


def value(name: bytes, dims: Iterable[int], kind: int = 1) -> bytes:
    shape = b"".join(field(1, field(1, size) if size else b"") for size in dims)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))


def file(
    *more: bytes, opset: bytes = field(2, 13), graph: bytes | None = None, **given: Any
) -> bytes:
    nodes = given.get("nodes", [node(b"Relu", [b"x"], [b"y"])])
    parts = [field(1, each) for each in nodes]
    parts += [field(11, each) for each in given.get("inputs", [value(b"x", (0, 3))])]
    parts += [field(12, each) for each in given.get("outputs", [value(b"y", (0, 3))])]
    parts += [field(5, each) for each in given.get("constants", [])]
    body = b"".join(parts) if graph is None else graph
    return field(7, body) + field(8, opset) + b"".join(more)


def node(kind: bytes, inputs: list[bytes], outputs: list[bytes], domain: bytes = b"") -> bytes:
    data = b"".join(field(1, name) for name in inputs) + b"".join(field(2, n) for n in outputs)
    return data + field(4, kind) + (field(7, domain) if domain else b"")


def constant(name: bytes, kind: int = 1) -> bytes:
    return (
        field(1, 1) + field(2, kind) + field(8, name) + (field(9, bytes(4)) if kind == 1 else b"")
    )


def test_a_graph_is_read() -> None:
    graph = read_graph(file())
    assert (graph.input, graph.output, graph.input_shape) == ("x", "y", (3,))
    assert (graph.opset, graph.batch) == (13, 1)
    assert [read_graph(file(opset=field(2, k))).opset for k in (7, 26)] == [7, 26]
    assert [each.kind for each in graph.nodes] == ["Relu"]
    assert read_graph(file(inputs=[value(b"x", (1, 3))])).batch == 1
    for size in (1, 3):
        vector = read_graph(file(inputs=[value(b"x", (size,))]))
        assert (vector.input_shape, vector.batch) == ((size,), 0)
    both = {"inputs": [value(b"x", (4, 3))], "outputs": [value(b"y", (4, 3))]}
    assert read_graph(file(**both)).batch == 4
    assert read_graph(file(inputs=[value(b"x", (0, 0))]), sizes=(5,)).input_shape == (5,)
    assert read_graph(file(inputs=[value(b"x", (0, 3))]), sizes=(5,)).input_shape == (3,)
    for kind in (1, 10, 11, 16):
        assert read_graph(file(inputs=[value(b"x", (0, 3), kind)])).input == "x"


def test_only_what_the_output_depends_on_is_read() -> None:
    nodes = [
        node(b"Neg", [b"x"], [b"a"]),
        node(b"Gelu", [b"a"], [b"b"]),
        node(b"Relu", [b"a", b""], [b"y"]),
        node(b"Gelu", [b"y"], [b"c"]),
    ]
    graph = read_graph(file(nodes=nodes))
    assert [each.kind for each in graph.nodes] == ["Neg", "Relu"]
    assert {name: len(users) for name, users in graph.consumers().items()} == {
        "x": 1,
        "a": 1,
        "": 1,
    }
    assert [each.kind for each in read_graph(file(nodes=nodes), "b").nodes] == ["Neg", "Gelu"]
    several = file(nodes=nodes, outputs=[value(b"b", (0, 3)), value(b"y", (0, 3))])
    assert read_graph(several, "y").output == "y"


def test_functions_of_other_domains_are_left_alone() -> None:
    """No operator that is read is of such a domain, so that none can call them."""
    graph = read_graph(file(field(25, field(1, b"Relu") + field(10, b"own"))))
    assert [each.kind for each in graph.nodes] == ["Relu"]


def test_the_output_of_a_batch_must_be_stated() -> None:
    """Of a value inside the graph nobody says how large its batch is."""
    nodes = [node(b"Neg", [b"x"], [b"a"]), node(b"Relu", [b"a"], [b"y"])]
    batch = {"inputs": [value(b"x", (4, 3))], "outputs": [value(b"y", (4, 3))]}
    assert read_graph(file(nodes=nodes, **batch), "y").batch == 4
    with pytest.raises(Rejected, match="batch dimension that its output"):
        read_graph(file(nodes=nodes, **batch), "a")


@pytest.mark.parametrize(
    ("domain", "kind"),
    [(b"", "Relu"), (b"ai.onnx", "Relu"), (b"own", "?Relu"), (b"ai.onnx.ml", "ml.Relu")],
)
def test_operators_are_those_of_their_domain(domain: bytes, kind: str) -> None:
    graph = read_graph(file(nodes=[node(b"Relu", [b"x"], [b"y"], domain)]))
    assert graph.nodes[0].kind == kind
    odd = read_graph(file(nodes=[node(b"ml.Scaler", [b"x"], [b"y"], domain)]))
    assert odd.nodes[0].kind == "?ml.Scaler"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (file(opset=field(2, 6)), "version"),
        (file(opset=field(2, 27)), "version"),
        (file(opset=field(1, b"own") + field(2, 13)), "version"),
        (file(field(8, field(1, b"ai.onnx") + field(2, 14))), "version"),
        (file(field(25, field(10, b""))), "redefines"),
        (file(field(25, field(10, b"ai.onnx"))), "redefines"),
        (file(field(25, field(10, b"ai.onnx.ml"))), "redefines"),
        (file(inputs=[]), "exactly one input"),
        (file(inputs=[value(b"x", (0, 3)), value(b"z", (0, 3))]), "exactly one input"),
        (file(outputs=[]), "one output"),
        (file(outputs=[value(b"y", (0, 3)), value(b"z", (0, 3))]), "one output"),
        (file(inputs=[value(b"x", (0, 3))] * 2), "same name"),
        (file(constants=[constant(b"w")] * 2), "same name"),
        (file(constants=[constant(b"y")]), "same name"),
        (file(nodes=[node(b"Relu", [b"x"], [b"x"])]), "same name"),
        (file(nodes=[node(b"Relu", [b"x"], [b"y"])] * 2), "same name"),
        (file(inputs=[value(b"x", (0, 3), 7)]), "no tensor of floats"),
        (file(inputs=[value(b"x", (0,))]), "fixed shape"),
        (file(inputs=[value(b"x", (0, 0))]), "fixed shape"),
        (file(inputs=[value(b"x", (2**64 - 1, 3))]), "fixed shape"),
        (file(inputs=[value(b"x", (0, 2**64 - 3))]), "fixed shape"),
        (file(inputs=[value(b"x", (0, 3, 0))]), "fixed shape"),
        (file(field(77, b"?")), "not read here"),
        (file(inputs=[value(b"x", (2, 3))]), "batch dimension that its output"),
        (file(inputs=[value(b"x", (4, 3))]), "batch dimension that its output"),
        (file(inputs=[value(b"x", (4, 3))], outputs=[field(1, b"y")]), "batch dimension that its"),
    ],
)
def test_graphs_that_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        read_graph(data)


def test_texts_among_the_constants_are_left_alone() -> None:
    text = field(2, 8) + field(8, b"names") + field(6, b"cat")
    graph = read_graph(file(constants=[text, constant(b"w")]))
    assert list(graph.constants) == ["w"]
    known = read_graph(
        file(inputs=[value(b"x", (0, 3)), value(b"w", (1,))], constants=[constant(b"w")])
    )
    assert known.input == "x"


def test_numbers_that_are_no_messages_are_refused_though_they_read_like_one() -> None:
    """Four bytes of a number that would be a graph's name, and eight that would be two."""
    for wire, content in ((5, field(2, b"ab")), (1, field(2, b"a") + field(10, b"ab")[:5])):
        with pytest.raises(Rejected, match="is no message"):
            check_fields(varint(7 << 3 | wire) + content.ljust(8 if wire == 1 else 4, b"\0"))


def test_the_table_s_own_words() -> None:
    narrow = _int32("number")
    assert (narrow.least, narrow.most, narrow.repeated) == (-(2**31), 2**31 - 1, False)
    assert _some("nodes", "node").repeated
    assert _int32("numbers", repeated=True).repeated
