"""Model files that readers could read in two ways: both readers refuse them, or all agree.

Protocol buffers merge, overwrite or skip what is odd. A certificate is about the network that
runtimes run, so the checker's reader, the verifier's and onnxruntime are compared on files whose
fields were repeated, reordered, merged, split, retyped, renumbered, taken from elsewhere or left
out, at every depth.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vhagar.errors import InvalidNetwork, UnsupportedOperator, VhagarError
from vhagar.network import read_onnx
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.model import read_model
from vhagar_check.schema import MESSAGES

from ..marks import mostly_slow
from .graphs import FUZZED_GRAPHS, SMALL_GRAPHS, runtime_scores

# Descriptors by the checker's names of messages.
DESCRIPTORS = {
    "model": onnx.ModelProto,
    "opset": onnx.OperatorSetIdProto,
    "entry": onnx.StringStringEntryProto,
    "function": onnx.FunctionProto,
    "graph": onnx.GraphProto,
    "node": onnx.NodeProto,
    "attribute": onnx.AttributeProto,
    "tensor": onnx.TensorProto,
    "value": onnx.ValueInfoProto,
    "type": onnx.TypeProto,
    "tensor type": onnx.TypeProto.Tensor,
    "shape": onnx.TensorShapeProto,
    "dimension": onnx.TensorShapeProto.Dimension,
}


@pytest.mark.parametrize("message", MESSAGES)
def test_the_table_is_onnx_s_own(message: str) -> None:
    known = DESCRIPTORS[message].DESCRIPTOR.fields_by_number
    for number, field in MESSAGES[message].items():
        assert known[number].name == field.name
        assert known[number].is_repeated == field.repeated


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(number: int, content: bytes | int) -> bytes:
    """A field of bytes, or of a number."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def plain_model(weight: np.ndarray, as_node: bool = False) -> onnx.ModelProto:
    """Two scores of two inputs: `x @ weight`."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    tensors = [numpy_helper.from_array(weight.astype(np.float32), "w")]
    if as_node:
        nodes.insert(0, helper.make_node("Constant", [], ["w"], value=tensors.pop()))
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def constant_with_two_tensors() -> bytes:
    model = plain_model(np.eye(2), as_node=True)
    other = numpy_helper.from_array(-np.eye(2, dtype=np.float32), "w").SerializeToString()
    node = model.graph.node[0]
    twice = node.attribute[0].SerializeToString() + field(5, other)
    body = b"".join(field(2, name.encode()) for name in node.output) + field(4, b"Constant")
    changed = body + field(5, twice)
    rest = [field(1, changed), field(1, model.graph.node[1].SerializeToString())]
    del model.graph.node[:]
    return _with_graph(model, b"".join(rest) + model.graph.SerializeToString())


def _with_graph(model: onnx.ModelProto, graph: bytes) -> bytes:
    head = onnx.ModelProto()
    head.CopyFrom(model)
    head.ClearField("graph")
    return head.SerializeToString() + field(7, graph)


def sparse_constant() -> bytes:
    model = plain_model(np.eye(2))
    values = numpy_helper.from_array(np.array([5.0], dtype=np.float32), "w")
    index = numpy_helper.from_array(np.array([1], dtype=np.int64), "")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, index, [2, 2]))
    return model.SerializeToString()


def two_graphs() -> bytes:
    first, second = plain_model(np.eye(2)), plain_model(-np.eye(2))
    second.graph.ClearField("node")
    second.graph.ClearField("input")
    second.graph.ClearField("output")
    return first.SerializeToString() + field(7, second.graph.SerializeToString())


def two_constants_of_a_name() -> bytes:
    model = plain_model(np.eye(2))
    model.graph.initializer.append(model.graph.initializer[0])
    return model.SerializeToString()


def values_twice() -> bytes:
    model = plain_model(np.eye(2))
    model.graph.initializer[0].float_data.extend([1, 2, 3, 4])
    return model.SerializeToString()


def attribute_of_another_type() -> bytes:
    model = plain_model(np.eye(2))
    node = helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)
    node.attribute[0].f = 1.0
    model.graph.node[0].CopyFrom(node)
    return model.SerializeToString()


def two_versions() -> bytes:
    model = plain_model(np.eye(2))
    model.opset_import.append(helper.make_opsetid("ai.onnx", 8))
    return model.SerializeToString()


def unknown_field() -> bytes:
    return plain_model(np.eye(2)).SerializeToString() + field(77, b"?")


def type_of_33_bits() -> bytes:
    model = plain_model(np.eye(2))
    tensor = model.graph.initializer[0]
    tensor.ClearField("data_type")
    odd = tensor.SerializeToString() + field(2, 2**32 + 1)
    del model.graph.initializer[:]
    return _with_graph(model, model.graph.SerializeToString() + field(5, odd))


def _choosing(condition: TensorProto) -> bytes:
    """Scores that are chosen by a constant."""
    model = plain_model(np.eye(2))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Where", ["c", "h", "k"], ["y"]),
    ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    other = numpy_helper.from_array(np.array([[7.0, 8.0]], dtype=np.float32), "k")
    model.graph.initializer.extend([condition, other])
    return model.SerializeToString()


def truth_value_of_256() -> bytes:
    return _choosing(TensorProto(name="c", data_type=9, dims=[1, 2], int32_data=[256, 0]))


def truth_value_of_2() -> bytes:
    return _choosing(TensorProto(name="c", data_type=9, dims=[1, 2], raw_data=bytes([2, 0])))


def _cast(constant: bool, **options: Any) -> bytes:
    """A Cast of the weights, or of the scores, with odd options."""
    model = plain_model(np.eye(2))
    model.opset_import[0].version = 22
    names = (("w", "v"), ("x", "v")) if constant else (("x", "h"), ("h", "w"))
    cast = helper.make_node("Cast", [names[0][0]], [names[0][1]], to=1, **options)
    product = helper.make_node("MatMul", list(names[1]), ["y"])
    del model.graph.node[:]
    model.graph.node.extend([cast, product])
    return model.SerializeToString()


def saturated_cast() -> bytes:
    return _cast(False, saturate=-3)


def unsaturated_cast() -> bytes:
    return _cast(True, saturate=0)


def cast_rounded_down() -> bytes:
    return _cast(True, round_mode="down")


def saturated_comparison() -> bytes:
    """onnxruntime computes something else with the number that is no truth value."""
    model = plain_model(np.eye(2))
    model.opset_import[0].version = 22
    nodes = [
        helper.make_node("Greater", ["x", "k"], ["g"]),
        helper.make_node("Cast", ["g"], ["c"], to=1, saturate=-3),
        helper.make_node("Mul", ["x", "c"], ["h"]),
        helper.make_node("MatMul", ["h", "w"], ["y"]),
    ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(2, dtype=np.float32), "k"))
    return model.SerializeToString()


def half_of_17_bits() -> bytes:
    model = plain_model(np.eye(2))
    model.graph.initializer[0].CopyFrom(
        TensorProto(name="w", data_type=10, dims=[2, 2], int32_data=[15360, 0, 0, 2**16 + 15360])
    )
    return model.SerializeToString()


FORGED: list[Callable[[], bytes]] = [
    constant_with_two_tensors,
    sparse_constant,
    two_graphs,
    two_constants_of_a_name,
    values_twice,
    attribute_of_another_type,
    two_versions,
    unknown_field,
    type_of_33_bits,
    truth_value_of_256,
    truth_value_of_2,
    saturated_cast,
    unsaturated_cast,
    cast_rounded_down,
    saturated_comparison,
    half_of_17_bits,
]


@pytest.mark.parametrize("forge", FORGED)
def test_both_readers_refuse_what_can_be_read_in_two_ways(
    forge: Callable[[], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(forge())
    with pytest.raises(Rejected):
        read_model(path.read_bytes())
    with pytest.raises((InvalidNetwork, UnsupportedOperator)):
        read_onnx(path)


@dataclass
class Part:
    """A field of a message, or a message of fields."""

    number: int
    wire: int
    content: bytes | int | list[Part]

    def encoded(self) -> bytes:
        head = varint(self.number << 3 | self.wire)
        if isinstance(self.content, int):
            return head + varint(self.content)
        content = joined(self.content) if isinstance(self.content, list) else self.content
        return head + (varint(len(content)) if self.wire == 2 else b"") + content


def joined(parts: list[Part]) -> bytes:
    return b"".join(part.encoded() for part in parts)


def taken_apart(data: bytes, message: object) -> list[Part]:
    """All fields of a well-formed file, messages taken apart as ONNX describes them."""
    parts, place = list[Part](), 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            value |= (byte & 127) << shift
            place, shift = place + 1, shift + 7
            if byte < 128:
                return value

    while place < len(data):
        key = number()
        wire, known = key & 7, message.fields_by_number[key >> 3]  # type: ignore[attr-defined]
        if wire == 0:
            parts.append(Part(key >> 3, wire, number()))
            continue
        length = number() if wire == 2 else {1: 8, 5: 4}[wire]
        content: bytes | list[Part] = data[place : place + length]
        if known.message_type is not None:
            content = taken_apart(data[place : place + length], known.message_type)
        parts.append(Part(key >> 3, wire, content))
        place += length
    return parts


def lists_of(parts: list[Part]) -> list[list[Part]]:
    inner = [part.content for part in parts if isinstance(part.content, list)]
    return [parts, *(one for content in inner for one in lists_of(content))]


def change(parts: list[Part], rng: np.random.Generator) -> None:
    """One change somewhere in a file."""
    every = [chosen for chosen in lists_of(parts) if chosen]
    place = every[rng.integers(len(every))]
    k = int(rng.integers(len(place)))
    part, other = place[k], every[rng.integers(len(every))]
    kind = rng.integers(9)
    if kind == 0:  # repeat
        place.insert(int(rng.integers(len(place) + 1)), deepcopy(part))
    elif kind == 1:  # reorder
        place[:] = [place[n] for n in rng.permutation(len(place))]
    elif kind == 2:  # from elsewhere
        place.insert(k, deepcopy(other[rng.integers(len(other))]))
    elif kind == 3:  # renumber
        place[k] = Part(int(rng.integers(1, 27)), part.wire, part.content)
    elif kind == 4:  # leave out
        del place[k]
    elif kind == 5 and isinstance(part.content, list) and part.content:  # split
        cut = int(rng.integers(len(part.content) + 1))
        halves = part.content[:cut], part.content[cut:]
        place[k : k + 1] = [Part(part.number, part.wire, list(half)) for half in halves]
    elif kind == 6 and isinstance(part.content, int):  # retype
        place[k] = Part(part.number, 2, varint(part.content))
    elif kind == 6 and isinstance(part.content, bytes) and part.wire == 5:
        place[k] = Part(part.number, 2, part.content)
    elif kind == 7 and isinstance(part.content, int):
        place[k] = Part(part.number, 0, int(rng.choice([0, 1, 2, 7, 2**32 + part.content])))
    elif kind == 8 and isinstance(part.content, bytes) and part.content:  # another value
        content = bytearray(part.content)
        content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        place[k] = Part(part.number, part.wire, bytes(content))


def scores_of_the_checker(data: bytes, x: np.ndarray) -> np.ndarray | None:
    try:
        network = read_model(data)
    except Rejected:
        return None
    if network.input_shape != x.shape:
        return None
    exact = network.exact_scores(Exact.of(x.reshape(-1))).fractions()
    return np.array([float(score) for score in exact])


def scores_of_the_verifier(data: bytes, x: np.ndarray, path: Path) -> np.ndarray | None:
    path.write_bytes(data)
    try:
        network = read_onnx(path)
    except VhagarError:
        return None
    return network.forward(x[None])[0] if network.input_shape == x.shape else None


def scores_of_the_runtime(data: bytes, x: np.ndarray) -> np.ndarray | None:
    try:
        return runtime_scores(data, x[None])[0]
    except Exception:  # onnxruntime has exceptions of its own
        return None


def starts() -> list[bytes]:
    rng = np.random.default_rng(5)
    models = [plain_model(rng.normal(size=(2, 2)), as_node=as_node) for as_node in (False, True)]
    return [
        *(model.SerializeToString() for model in models),
        *(g(0) for g in (*SMALL_GRAPHS.values(), *FUZZED_GRAPHS)),
    ]


@pytest.mark.parametrize("chunk", mostly_slow(range(4), 4))
def test_readers_and_runtime_agree_or_refuse(
    chunk: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    rng, files = np.random.default_rng(chunk), starts()
    seen = {"checker": 0, "verifier": 0, "runtime": 0, "compared": 0}
    for number in range(round(250 * request.config.getoption("--soundness-share"))):
        data = files[number % len(files)]
        shape = read_model(data).input_shape
        parts = taken_apart(data, onnx.ModelProto.DESCRIPTOR)
        for _ in range(int(rng.integers(1, 3))):
            change(parts, rng)
        changed, x = joined(parts), rng.random(shape)
        checker = scores_of_the_checker(changed, x)
        verifier = scores_of_the_verifier(changed, x, tmp_path / "model.onnx")
        runtime = scores_of_the_runtime(changed, x)
        for name, scores in (("checker", checker), ("verifier", verifier), ("runtime", runtime)):
            seen[name] += scores is not None
        if checker is not None and verifier is not None:
            assert checker == pytest.approx(verifier, rel=1e-9, abs=1e-9)
        ours = checker if checker is not None else verifier
        # A softmax that was left out keeps the order of the scores and changes their values.
        if ours is not None and runtime is not None and number % len(files) != 4:
            seen["compared"] += 1
            assert runtime.reshape(-1) == pytest.approx(ours, rel=1e-4, abs=1e-4)
    # Many changes are harmless: the readers do not simply refuse everything.
    assert seen["compared"] > 10, seen
