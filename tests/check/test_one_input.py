"""Graphs that runtimes read in an odd way if they get one input: the same way, or not at all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from vhagar import VhagarError
from vhagar.network import read_onnx
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.model import read_model

THIRDS = np.array([[1.0, 2.0, 3.0]], np.float32)
ONE = np.array([1])
LARGER_ZERO = np.zeros((1, 1, 3), np.float32)
OVER_FLOAT = np.array(3.5e38)

# Nodes, each with its inputs; a node's result has the name that follows it.
CASES: dict[str, tuple[list[Any], int, list[Any]]] = {
    "a choice with a zero of more dimensions": ([
        ("Greater", ["x", np.float32(0)], {}), "above",
        ("Where", ["above", "x", LARGER_ZERO], {}), "choice",
        ("ReduceSum", ["choice", ONE], {}), "total",
        ("Mul", ["total", THIRDS], {}), "scaled",
        ("Reshape", ["scaled", np.array([1, 3])], {}), "y",
    ], 13, [1, 3]),
    "a product with a zero of more dimensions": ([
        ("Greater", ["x", np.float32(0)], {}), "above",
        ("Cast", ["above"], {"to": TensorProto.FLOAT}), "one",
        ("Mul", ["one", LARGER_ZERO], {}), "zero",
        ("Add", ["zero", THIRDS[0]], {}), "more",
        ("ReduceSum", ["more", ONE], {}), "total",
        ("Mul", ["total", THIRDS], {}), "scaled",
        ("Reshape", ["scaled", np.array([1, 3])], {}), "y",
    ], 13, [1, 3]),
    "a batch squeezed away": ([
        ("Squeeze", ["x"], {}), "vector",
        ("ReduceSum", ["vector", np.array([0])], {}), "total",
        ("Mul", ["total", THIRDS], {}), "y",
    ], 13, ["batch", 3, 1]),
    "a batch squeezed by an empty list of axes": ([
        ("Squeeze", ["x", np.zeros(0, np.int64)], {}), "vector",
        ("ReduceSum", ["vector", np.array([0])], {}), "total",
        ("Mul", ["total", THIRDS[:, :, None]], {}), "scaled",
        ("Reshape", ["scaled", np.array([1, 3])], {}), "y",
    ], 13, [1, 3, 1]),
    "a vector that becomes a matrix": ([
        ("Squeeze", ["x"], {}), "vector",
        ("Unsqueeze", ["vector", ONE], {}), "column",
        ("Add", ["column", THIRDS], {}), "matrix",
        ("ReduceSum", ["matrix", ONE], {"keepdims": 0}), "rows",
        ("Add", ["rows", THIRDS], {}), "sum",
        ("Reshape", ["sum", np.array([1, 3])], {}), "y",
    ], 13, [1, 3, 1]),
    "a normalisation in training, by its results": ([
        ("BatchNormalization", ["x", *[np.ones(3, np.float32)] * 4], {}), "y a b c d",
    ], 9, [1, 3]),
    "an input expanded to two": ([
        ("Expand", ["x", np.array([2, 3])], {}), "two",
        ("Reshape", ["two", np.array([1, -1])], {}), "row",
        ("ReduceSum", ["row", ONE], {}), "total",
        ("Mul", ["total", THIRDS], {}), "y",
    ], 13, [1, 3]),
    "an input taken twice": ([
        ("Gather", ["x", np.array([0, -1])], {}), "two",
        ("Reshape", ["two", np.array([1, -1])], {}), "row",
        ("ReduceSum", ["row", ONE], {}), "total",
        ("Mul", ["total", THIRDS], {}), "y",
    ], 13, [1, 3]),
    "a limit beyond float32": ([
        ("Mul", ["x", np.array([[1e39, 2e39, 3e39]])], {}), "large",
        ("Clip", ["large", "", OVER_FLOAT], {}), "clipped",
        ("Mul", ["clipped", np.array(1e-38)], {}), "y",
    ], 13, [1, 3]),
}  # fmt: skip


def model(name: str) -> bytes:
    steps, opset, shape = CASES[name]
    nodes, constants = [], []
    for (kind, operands, settings), results in zip(steps[::2], steps[1::2], strict=True):
        names = []
        for operand in operands:
            if not isinstance(operand, str):
                constants.append(numpy_helper.from_array(np.asarray(operand), f"c{len(constants)}"))
            names.append(operand if isinstance(operand, str) else constants[-1].name)
        nodes.append(helper.make_node(kind, names, results.split(), **settings))
    double = any(constant.data_type == TensorProto.DOUBLE for constant in constants)
    kind = TensorProto.DOUBLE if double else TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        constants,
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


@pytest.mark.parametrize("name", CASES)
def test_one_input_has_the_scores_of_the_runtime_or_none(name: str, tmp_path: Path) -> None:
    data, path = model(name), tmp_path / "model.onnx"
    path.write_bytes(data)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    x = np.array([0.5, -1.25, 2.0])
    kind = np.float64 if given.type == "tensor(double)" else np.float32
    shape = [size if isinstance(size, int) else 1 for size in given.shape]
    expected = session.run(None, {"x": x.reshape(shape).astype(kind)})[0].reshape(-1)
    with suppress(Rejected):
        scores = read_model(data).exact_scores(Exact.of(x)).fractions()
        assert [float(score) for score in scores] == pytest.approx(expected, rel=1e-6)
    with suppress(VhagarError):
        assert read_onnx(path).forward(x[None])[0] == pytest.approx(expected, rel=1e-6)
