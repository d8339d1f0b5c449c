"""Constants that decide something: runtimes, which round and wrap around, decide alike or nobody.

A table of three rows is entered at an index that the model computes from constants. The network is
another one for every row, so that a number that is a little different makes all the difference.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from vhagar import VhagarError
from vhagar.network import read_onnx
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.model import read_model

TABLE = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], np.float32)
X = np.array([0.5, -1.25, 2.0])
MANY, WHOLE = np.array([2**31 - 1], np.int32), {"to": TensorProto.INT64}
# Its square is rounded in single precision, and its product with 1 is not.
NEAR = np.array([1 + 2.0**-12], np.float32)
SQUARE = np.array([1 + 2.0**-11], np.float32)
HALF = np.array([2048], np.float16)


def one(number: float) -> np.ndarray:
    return np.array([number], np.float32)


# Nodes, each with its inputs; the last result is the index.
ODD: dict[str, list[Any]] = {
    "a sum beyond 32 bits": [
        ("Add", [MANY, np.array([2], np.int32)], {}), ("Cast", [0], WHOLE),
        ("Less", [1, np.array([0])], {}), ("Cast", [2], WHOLE),
    ],
    "a product beyond 32 bits": [
        ("Mul", [np.array([2**16], np.int32), np.array([2**16], np.int32)], {}),
        ("Cast", [0], WHOLE), ("Equal", [1, np.array([0])], {}), ("Cast", [2], WHOLE),
    ],
    "a large whole number divided": [
        ("Div", [np.array([2**53 + 1]), np.array([1])], {}), ("Sub", [0, np.array([2**53])], {}),
    ],
    "a comparison with a rounded product": [
        ("Mul", [NEAR, NEAR], {}), ("Greater", [0, SQUARE], {}), ("Cast", [1], WHOLE),
    ],
    "a comparison of two products": [
        ("Mul", [NEAR, NEAR], {}), ("Mul", [SQUARE, one(1)], {}),
        ("Greater", [0, 1], {}), ("Cast", [2], WHOLE),
    ],
    "an equation with a rounded product": [
        ("Mul", [NEAR, NEAR], {}), ("Equal", [0, SQUARE], {}), ("Cast", [1], WHOLE),
    ],
    "a choice by a rounded product": [
        ("Mul", [NEAR, NEAR], {}), ("Equal", [0, SQUARE], {}),
        ("Where", [1, np.array([1]), np.array([0])], {}),
    ],
    "a rounded sum, rounded up": [
        ("Add", [one(1), one(2.0**-30)], {}), ("Ceil", [0], {}), ("Sub", [1, one(1)], {}),
        ("Cast", [2], WHOLE),
    ],
    "a rounded difference, rounded down": [
        ("Sub", [one(1), one(2.0**-30)], {}), ("Floor", [0], {}), ("Cast", [1], WHOLE),
    ],
    "a rounded sum as a whole number": [
        ("Add", [one(2**24), one(1)], {}), ("Cast", [0], WHOLE),
        ("Sub", [1, np.array([2**24])], {}),
    ],
    "what a rounded sum leaves": [
        ("Add", [one(2**24), one(1)], {}), ("Sub", [0, one(2**24)], {}), ("Cast", [1], WHOLE),
    ],
    "what a rounded sum leaves, rounded down": [
        ("Add", [one(2**24), one(1.5)], {}), ("Sub", [0, one(2**24)], {}), ("Floor", [1], {}),
        ("Cast", [2], WHOLE),
    ],
    "what a rounded sum leaves in single precision, rounded down": [
        ("Add", [one(2**24), one(1.5)], {}), ("Sub", [0, one(2**24)], {}),
        ("Cast", [1], {"to": TensorProto.FLOAT}), ("Floor", [2], {}), ("Cast", [3], WHOLE),
    ],
    "a difference of rounded sums, rounded down": [
        ("Add", [one(2**24), one(1.5)], {}), ("Add", [one(2**24), one(2.0**-10)], {}),
        ("Sub", [0, 1], {}), ("Floor", [2], {}), ("Cast", [3], WHOLE),
    ],
    "a rounded difference beside a clear one": [
        ("Sub", [np.array([1, 1.5], np.float32), one(2.0**-30)], {}), ("Floor", [0], {}),
        ("Cast", [1], WHOLE), ("Gather", [2, np.array([0])], {}),
    ],
    "a large rounded sum, rounded up": [
        ("Add", [one(2**23), one(0.4)], {}), ("Ceil", [0], {}), ("Cast", [1], WHOLE),
        ("Sub", [2, np.array([2**23])], {}),
    ],
    "a rounded sum of single precision, rounded up": [
        ("Add", [one(1), one(2.0**-30)], {}), ("Cast", [0], {"to": TensorProto.FLOAT}),
        ("Mul", [1, one(1)], {}), ("Ceil", [2], {}), ("Sub", [3, one(1)], {}),
        ("Cast", [4], WHOLE),
    ],
    "a sum with a product that is rounded up": [
        ("Mul", [one(3), one(1 / 3 + 0.1)], {}), ("Ceil", [0], {}),
        ("Add", [1, one(2**24 - 1)], {}), ("Cast", [2], WHOLE), ("Sub", [3, np.array([2**24])], {}),
    ],
    "a product that underflows, rounded up": [
        ("Mul", [one(1e-30), one(1e-30)], {}), ("Ceil", [0], {}), ("Cast", [1], WHOLE),
    ],
    "a product that underflows as a truth value": [
        ("Mul", [one(1e-30), one(1e-30)], {}), ("Cast", [0], {"to": TensorProto.BOOL}),
        ("Cast", [1], WHOLE),
    ],
    "a rounded product of double precision": [
        ("Mul", [NEAR, NEAR], {}), ("Cast", [0], {"to": TensorProto.DOUBLE}),
        ("Greater", [1, SQUARE.astype(np.float64)], {}), ("Cast", [2], WHOLE),
    ],
    "a rounded product, moved": [
        ("Mul", [NEAR, NEAR], {}), ("Reshape", [0, np.array([1, 1])], {}),
        ("Squeeze", [1, np.array([0])], {}), ("Greater", [2, SQUARE], {}), ("Cast", [3], WHOLE),
    ],
    "scales of rounded numbers": [
        ("Add", [one(2**24), one(1)], {}), ("Sub", [0, one(2**24 - 1)], {}),
        ("Resize", [one(1), "", 1], {"mode": "nearest"}),
        ("Size", [2], {}), ("Sub", [3, np.array(1)], {}), ("Reshape", [4, np.array([1])], {}),
    ],
    "a range in fractions": [
        ("Range", [np.float32(-(2.0**-30)), np.float32(1), np.float32(1)], {}),
        ("Size", [0], {}), ("Reshape", [1, np.array([1])], {}),
    ],
    "a sum of three": [
        ("Sum", [one(2**24), one(1), one(-(2**24))], {}), ("Cast", [0], WHOLE),
    ],
    "a product of matrices": [
        ("MatMul", [np.array([[2**24, 1, -(2**24)]], np.float32), np.ones((3, 1), np.float32)], {}),
        ("Cast", [0], WHOLE), ("Reshape", [1, np.array([1])], {}),
    ],
    "a range up to a rounded number": [
        ("Add", [np.float32(2**24), np.float32(1)], {}), ("Sub", [0, np.float32(2**24)], {}),
        ("Range", [np.float32(0), 1, np.float32(1)], {}), ("Size", [2], {}),
        ("Reshape", [3, np.array([1])], {}),
    ],
    "a range of large floats": [
        ("Range", [np.float32(2**24), np.float32(2**24 + 4), np.float32(1)], {}),
        ("Sub", [0, one(2**24)], {}), ("Cast", [1], WHOLE), ("Gather", [2, np.array([1])], {}),
    ],
    **{
        f"a range up to {limit} in steps of {step}": [
            ("Range", [np.int64(0), np.int64(limit), np.int64(step)], {}), ("Size", [0], {}),
            ("Sub", [1, np.array(1)], {}), ("Reshape", [2, np.array([1])], {}),
        ]
        for limit, step in ((2**53 + 1, 2**53), (2**60 + 1, 2**60))
    },
    "a range at the end of 32 bits": [
        ("Range", [np.int32(2**31 - 2), np.int32(2**31 - 1), np.int32(1)], {}),
        ("Add", [0, np.array([3], np.int32)], {}), ("Cast", [1], WHOLE),
        ("Less", [2, np.array([0])], {}), ("Cast", [3], WHOLE),
    ],
    "a share of the least number": [
        ("Div", [np.array([5]), np.array([-(2**63)])], {}),
    ],
    "a power beyond 32 bits": [
        ("Pow", [np.array([2**16], np.int32), np.array([2])], {}), ("Cast", [0], WHOLE),
        ("Greater", [1, np.array([0])], {}), ("Cast", [2], WHOLE),
    ],
    "a power beyond double precision": [
        ("Pow", [np.array([3]), np.array([39])], {}), ("Sub", [0, np.array([3**39 - 1])], {}),
        ("Equal", [1, np.array([1])], {}), ("Cast", [2], WHOLE),
    ],
    "a fraction of a whole number": [
        ("Pow", [np.array([2]), one(-1)], {}), ("Cast", [0], {"to": TensorProto.FLOAT}),
        ("Greater", [1, one(0.25)], {}), ("Cast", [2], WHOLE),
    ],
}  # fmt: skip
# Whether a runtime rounds to half precision depends on how it fuses nodes.
SUM_OF_HALVES = [
    ("Add", [HALF, HALF / HALF], {}), ("Cast", [0], {"to": TensorProto.FLOAT}),
    ("Cast", [1], WHOLE), ("Sub", [2, np.array([2048])], {}),
]  # fmt: skip
BRAIN = TensorProto(data_type=TensorProto.BFLOAT16, dims=[1], raw_data=b"\x80\x3f")
ONE_HALF = numpy_helper.from_array(np.array([1.0], np.float16))
IN_HALF_PRECISION: dict[str, list[Any]] = {
    "a sum": SUM_OF_HALVES,
    "a node's value": [("Constant", [], {"value": ONE_HALF}), ("Floor", [0], {}),
        ("Cast", [1], WHOLE)],
    "a node's value of another kind": [
        ("Constant", [], {"value": BRAIN}), ("Floor", [0], {}), ("Cast", [1], WHOLE),
    ],
    "a filled constant": [
        ("ConstantOfShape", [np.array([1])], {"value": ONE_HALF}), ("Floor", [0], {}),
        ("Cast", [1], WHOLE),
    ],
}  # fmt: skip
# What exporters compute: it is read, by both.
USUAL: dict[str, list[Any]] = {
    "a size that is doubled": [
        ("Cast", [np.array([1])], {"to": TensorProto.FLOAT}), ("Mul", [0, one(2)], {}),
        ("Floor", [1], {}), ("Cast", [2], WHOLE),
    ],
    "a number in double precision": [
        ("Cast", [one(1)], {"to": TensorProto.DOUBLE}), ("Floor", [0], {}), ("Cast", [1], WHOLE),
    ],
    "a node's own number": [
        ("Constant", [], {"value": numpy_helper.from_array(one(1))}), ("Floor", [0], {}),
        ("Cast", [1], WHOLE),
    ],
    "a node's own list of numbers": [
        ("Constant", [], {"value_floats": [1.0]}), ("Floor", [0], {}), ("Cast", [1], WHOLE),
    ],
    "a size of rounded numbers": [
        ("Mul", [NEAR, NEAR], {}), ("Shape", [0], {}), ("Equal", [1, np.array([1])], {}),
        ("Cast", [2], WHOLE),
    ],
    "a constant that is enlarged": [
        ("Resize", [one(1), "", one(2)], {"mode": "nearest"}), ("Floor", [0], {}),
        ("Cast", [1], WHOLE), ("Gather", [2, np.array([0])], {}),
    ],
    "a range of 32 bits": [
        ("Range", [np.int32(0), np.int32(1), np.int32(1)], {}),
        ("Add", [0, np.array([1], np.int32)], {}), ("Cast", [1], WHOLE),
    ],
    "a third of a size, rounded down": [
        ("Div", [one(4), one(3)], {}), ("Floor", [0], {}), ("Cast", [1], WHOLE),
    ],
    "a size that is enlarged, rounded up": [
        ("Mul", [one(3), one(1 / 3 + 0.1)], {}), ("Cast", [0], {"to": TensorProto.FLOAT}),
        ("Ceil", [1], {}), ("Cast", [2], WHOLE),
    ],
    "a half that is cast": [
        ("Cast", [HALF / HALF], {"to": TensorProto.FLOAT}), ("Floor", [0], {}),
        ("Cast", [1], WHOLE),
    ],
    "a node's half as a whole number": [
        ("Constant", [], {"value": ONE_HALF}), ("Cast", [0], WHOLE),
    ],
    "scales in half precision": [
        ("Cast", [HALF / HALF], {"to": TensorProto.FLOAT}),
        ("Resize", [one(1), "", 0], {"mode": "nearest"}), ("Size", [1], {}),
        ("Reshape", [2, np.array([1])], {}),
    ],
    "a share of a size": [
        ("Div", [np.array([7], np.int32), np.array([4], np.int32)], {}), ("Cast", [0], WHOLE),
    ],
    "a sum of doubles": [
        ("Add", [np.array([2.0**24]), np.array([1.0])], {}), ("Sub", [0, np.array([2.0**24])], {}),
        ("Floor", [1], {}), ("Cast", [2], WHOLE),
    ],
}  # fmt: skip


def model(steps: list[Any]) -> bytes:
    nodes, constants = [], [numpy_helper.from_array(TABLE, "table")]
    for k, (kind, operands, settings) in enumerate(steps):
        names = []
        for operand in operands:
            if isinstance(operand, np.ndarray | np.generic):
                name = f"c{len(constants)}"
                constants.append(numpy_helper.from_array(np.asarray(operand), name))
            else:
                name = operand if isinstance(operand, str) else f"r{operand}"
            names.append(name)
        nodes.append(helper.make_node(kind, names, [f"r{k}"], **settings))
    nodes.append(helper.make_node("Gather", ["table", f"r{len(steps) - 1}"], ["row"]))
    nodes.append(helper.make_node("Mul", ["x", "row"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        constants,
    )
    opsets = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def scores(data: bytes) -> np.ndarray:
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": X[None].astype(np.float32)})
    return found[0]


def checkers(data: bytes) -> list[float]:
    return [float(score) for score in read_model(data).exact_scores(Exact.of(X)).fractions()]


def test_what_decides_is_what_a_runtime_computes(tmp_path: Path) -> None:
    for name, steps in ODD.items():
        data, path = model(steps), tmp_path / "model.onnx"
        path.write_bytes(data)
        expected = scores(data)
        with suppress(Rejected):
            assert checkers(data) == pytest.approx(expected), name
        with suppress(VhagarError):
            assert read_onnx(path).forward(X[None])[0] == pytest.approx(expected), name


def test_what_exporters_compute_is_read(tmp_path: Path) -> None:
    for name, steps in USUAL.items():
        data, path = model(steps), tmp_path / "model.onnx"
        path.write_bytes(data)
        expected = scores(data)
        if name != "a third of a size, rounded down":  # the checker divides exactly or not at all
            assert checkers(data) == pytest.approx(expected), name
        if name != "a sum of doubles":  # the verifier does not tell them from other floats
            assert read_onnx(path).forward(X[None])[0] == pytest.approx(expected), name


def test_a_result_without_a_name_is_no_constant() -> None:
    """A node without a name for one of its results rounds nothing that leaves an input out."""
    steps = [
        ("Mul", [np.repeat(NEAR, 2), NEAR], {}), ("Split", [0], {}), ("Size", [1], {}),
        ("Resize", [one(1), "", one(2)], {"mode": "nearest"}), ("Floor", [3], {}),
        ("Cast", [4], WHOLE), ("Gather", [5, np.array([0])], {}), ("Mul", [6, 2], {}),
    ]  # fmt: skip
    found = onnx.load_from_string(model(steps))
    found.graph.node[1].output.append("")
    assert checkers(found.SerializeToString()) == (X * TABLE[1]).tolist()


def test_nothing_is_decided_in_half_precision(tmp_path: Path) -> None:
    for name, steps in IN_HALF_PRECISION.items():
        data, path = model(steps), tmp_path / f"{name}.onnx"
        path.write_bytes(data)
        with pytest.raises(Rejected, match="may round"):
            read_model(data)
        with pytest.raises(VhagarError, match="may round"):
            read_onnx(path)


def test_what_is_rounded_may_be_a_weight(tmp_path: Path) -> None:
    steps = [
        ("Mul", [NEAR, NEAR], {}), ("Cast", [0], {"to": TensorProto.FLOAT}),
        ("Concat", [1], {"axis": 0}), ("Cast", [one(0)], WHOLE),
    ]  # fmt: skip
    nodes, square = onnx.load_from_string(model(steps)), float(SQUARE[0])
    for weight, value in (("r0", float(NEAR[0]) ** 2), ("r1", square), ("r2", square)):
        nodes.graph.node[-1].input[1] = weight
        data, path = nodes.SerializeToString(), tmp_path / "model.onnx"
        path.write_bytes(data)
        assert checkers(data) == (X * value).tolist()
        assert read_onnx(path).forward(X[None])[0].tolist() == (X * value).tolist()
        assert scores(data) == pytest.approx(X * value)


def test_ranges_are_counted_up_to_where_differences_are_exact(tmp_path: Path) -> None:
    def counted(limit: int) -> bytes:
        return model([
            ("Range", [np.int64(0), np.int64(limit), np.int64(2**52)], {}), ("Size", [0], {}),
            ("Sub", [1, np.array(1)], {}), ("Reshape", [2, np.array([1])], {}),
        ])  # fmt: skip

    path = tmp_path / "model.onnx"
    path.write_bytes(counted(2**52))
    assert checkers(counted(2**52)) == pytest.approx(scores(counted(2**52)))
    assert read_onnx(path).forward(X[None])[0] == pytest.approx(scores(counted(2**52)))
    path.write_bytes(counted(2**52 + 1))
    with pytest.raises(Rejected, match="larger numbers"):
        checkers(counted(2**52 + 1))
    with pytest.raises(VhagarError, match="larger numbers"):
        read_onnx(path)
