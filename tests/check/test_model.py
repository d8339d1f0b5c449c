"""The checker's own reader of ONNX files against onnxruntime and the verifier's reader."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vhagar.network import read_onnx
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.model import read_model

from ..marks import slow_if_large

EXAMPLES = Path(__file__).parents[2] / "examples"


def model(nodes: list, constants: dict[str, np.ndarray], shape: list, typed: bool = False) -> bytes:
    """A model with one input `x` and one output `y`."""
    kind = TensorProto.FLOAT
    tensors = []
    for name, values in constants.items():
        if typed and values.dtype == np.float32:
            tensor = helper.make_tensor(name, kind, values.shape, values.reshape(-1).tolist())
        else:
            tensor = numpy_helper.from_array(values, name)
        tensors.append(tensor)
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        tensors,
    )
    opsets = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def agrees(data: bytes, tmp_path: Path) -> None:
    """The exact scores are what the verifier's reader computes, up to its rounding."""
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    theirs, ours = read_onnx(path), read_model(data)
    rng = np.random.default_rng(3)
    for x in rng.random((3, theirs.input_size)):
        scores = ours.exact_scores(Exact.of(x)).fractions()
        assert [float(v) for v in scores] == pytest.approx(theirs.forward(x[None])[0], rel=1e-12)
    assert ours.input_shape == theirs.input_shape
    assert ours.classes == theirs.classes


@pytest.mark.parametrize(
    "path", slow_if_large(sorted(EXAMPLES.glob("*.onnx"))), ids=lambda path: path.stem
)
def test_bundled_networks(path: Path, tmp_path: Path) -> None:
    agrees(path.read_bytes(), tmp_path)


def float32(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("typed", [True, False])
def test_every_operator(tmp_path: Path, typed: bool) -> None:
    rng = np.random.default_rng(5)
    constants = {
        "mean": float32(rng, 2, 1, 1),
        "deviation": abs(float32(rng, 1, 2, 1, 1)) + 1,
        "k": float32(rng, 4, 1, 3, 3),
        "kb": float32(rng, 4),
        "flat": np.array([0, -1], dtype=np.int64),
        "w": float32(rng, 64, 6),
        "b": float32(rng, 6),
        "g": float32(rng, 3, 6),
        "gb": float32(rng, 3),
        "two": np.array(2.0, dtype=np.float32),
    }
    nodes = [
        helper.make_node("Sub", ["x", "mean"], ["a"]),
        helper.make_node("Div", ["a", "deviation"], ["b0"]),
        helper.make_node(
            "Conv", ["b0", "k", "kb"], ["c"], group=2, strides=[2, 2], pads=[1, 1, 0, 0]
        ),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Dropout", ["d"], ["e"]),
        helper.make_node("Reshape", ["e", "flat"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["h"]),
        helper.make_node("Add", ["b", "h"], ["i"]),
        helper.make_node("Relu", ["i"], ["j"]),
        helper.make_node("Gemm", ["j", "g", "gb"], ["l"], transB=1, alpha=0.5, beta=3.0),
        helper.make_node("Mul", ["l", "two"], ["m"]),
        helper.make_node("Sub", ["two", "m"], ["n"]),
        helper.make_node("Identity", ["n"], ["y"]),
    ]
    agrees(model(nodes, constants, ["batch", 2, 8, 8], typed), tmp_path)


def test_division_is_exact() -> None:
    nodes = [
        helper.make_node("Div", ["x", "three"], ["a"]),
        helper.make_node("MatMul", ["a", "w"], ["y"]),
    ]
    constants = {"three": np.array([3.0], np.float32), "w": np.eye(2, dtype=np.float32)}
    network = read_model(model(nodes, constants, [1, 2]))
    scores = network.exact_scores(Exact.of(np.array([1.0, 0.5]))).fractions()
    assert scores == [Fraction(1, 3), Fraction(1, 6)]


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_automatic_padding(tmp_path: Path, mode: str) -> None:
    rng = np.random.default_rng(6)
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], auto_pad=mode, strides=[2, 1]),
        helper.make_node("Flatten", ["c"], ["y"]),
    ]
    agrees(model(nodes, {"k": float32(rng, 2, 1, 4, 2)}, [1, 1, 7, 6]), tmp_path)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (helper.make_node("Gelu", ["x"], ["y"]), "Gelu"),
        (helper.make_node("Softmax", ["x"], ["y"], axis=0), "classes"),
        (helper.make_node("Mul", ["x", "x"], ["y"]), "not linear"),
        (helper.make_node("Div", ["one", "x"], ["y"]), "divides"),
        (helper.make_node("Div", ["x", "zero"], ["y"]), "divides"),
        (helper.make_node("Mul", ["x", "nan"], ["y"]), "finite"),
        (helper.make_node("Relu", ["x"], ["y"], slope=2), "not understood"),
        (helper.make_node("Relu", ["x"], ["y"], domain="other"), "not understood"),
        (helper.make_node("Gemm", ["x", "w"], ["y"], transA=1), "vector"),
    ],
)
def test_what_is_not_understood_is_refused(node: onnx.NodeProto, words: str) -> None:
    constants = {
        "w": np.ones((2, 2), np.float32),
        "one": np.ones(2, np.float32),
        "zero": np.zeros(2, np.float32),
        "nan": np.array([np.nan], np.float32),
    }
    with pytest.raises(Rejected, match=words):
        read_model(model([node], constants, [1, 2]))


def test_damaged_files_are_refused_or_still_a_network() -> None:
    data = (EXAMPLES / "mnist_3x10.onnx").read_bytes()
    rng = np.random.default_rng(7)
    for _ in range(300):
        damaged = bytearray(data)
        for place in rng.integers(0, min(len(data), 600), 3):
            damaged[place] = rng.integers(256)
        try:
            network = read_model(bytes(damaged[: rng.integers(1, len(data))]))
        except (Rejected, ArithmeticError, LookupError, TypeError, ValueError, MemoryError):
            continue
        assert network.classes >= 2
