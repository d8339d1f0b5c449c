"""Scalers and choices of features: read by their definition, or refused if one thing is wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper

from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.model import read_model

from .graphs import Build


def _scaled(
    change: Callable[[onnx.NodeProto], None] | None = None,
    domain: str = "ai.onnx.ml",
    shape: tuple[int, ...] = (1, 4),
) -> bytes:
    """A Scaler of four features, of which one thing is changed."""
    node = helper.make_node(
        "Scaler", ["x"], ["y"], domain=domain, offset=[1.0] * 4, scale=[0.5, 1.0, 2.0, -3.0]
    )
    if change is not None:
        change(node)
    kinds = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in "xy"]
    names = helper.make_tensor("classes", onnx.TensorProto.STRING, [2], [b"no", b"yes"])
    graph = helper.make_graph([node], "graph", kinds[:1], kinds[1:], [names])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=opsets).SerializeToString()


def test_a_scaler_beside_names_of_classes_is_read() -> None:
    scores = read_model(_scaled()).exact_scores(Exact.of(np.array([1.0, 2.0, 0.25, 5.0])))
    assert [float(score) for score in scores.fractions()] == [0.0, 1.0, -1.5, -12.0]


def test_one_offset_for_all() -> None:
    scores = read_model(_scaled(_attribute(0, [2.0]))).exact_scores(Exact.of(np.arange(4.0)))
    assert [float(score) for score in scores.fractions()] == [-1.0, -1.0, 0.0, -3.0]


def _attribute(position: int, values: list[float]) -> Callable[[onnx.NodeProto], None]:
    def change(node: onnx.NodeProto) -> None:
        node.attribute[position].floats[:] = values

    return change


def _another(node: onnx.NodeProto) -> None:
    node.attribute.append(helper.make_attribute("axis", 1))


@pytest.mark.parametrize(
    ("change", "domain", "words"),
    [
        (None, "", "not understood by this checker"),
        (None, "ai.onnx", "not understood by this checker"),
        (None, "com.microsoft", "not understood by this checker"),
        (lambda node: setattr(node, "op_type", "ml.Scaler"), "", "not understood by this checker"),
        (lambda node: setattr(node, "op_type", "Gemm"), "ai.onnx.ml", "not understood"),
        (_attribute(0, [1.0] * 3), "ai.onnx.ml", "offset and a scale"),
        (_attribute(1, []), "ai.onnx.ml", "offset and a scale"),
        (_attribute(1, [float("nan")]), "ai.onnx.ml", "not finite"),
        (_attribute(0, [0.0, float("inf"), 0.0, 0.0]), "ai.onnx.ml", "not finite"),
        (_another, "ai.onnx.ml", "attributes that are not understood"),
        (lambda node: node.attribute.pop(), "ai.onnx.ml", "offset and a scale"),
        (lambda node: node.input.__setitem__(0, "classes"), "ai.onnx.ml", "before anything"),
    ],
)
def test_no_other_scaler_is_read(
    change: Callable[[onnx.NodeProto], None] | None, domain: str, words: str
) -> None:
    with pytest.raises(Rejected, match=words):
        read_model(_scaled(change, domain))


def test_only_a_vector_is_scaled() -> None:
    with pytest.raises(Rejected, match="each feature of a vector"):
        read_model(_scaled(shape=(1, 2, 2)))


def _chosen(
    index: np.ndarray,
    shape: tuple[int, ...] = (1, 4),
    change: Callable[[onnx.NodeProto], None] = lambda node: None,
) -> bytes:
    """Some features, of four unless the shape says otherwise."""
    node = helper.make_node("ArrayFeatureExtractor", ["x", "index"], ["y"], domain="ai.onnx.ml")
    change(node)
    kinds = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)]
    kinds.append(helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None))
    index = onnx.numpy_helper.from_array(index, "index")
    graph = helper.make_graph([node], "graph", kinds[:1], kinds[1:], [index])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=opsets).SerializeToString()


def test_features_are_chosen_in_the_order_of_the_index() -> None:
    network = read_model(_chosen(np.array([[3, 0, 3]])))
    scores = network.exact_scores(Exact.of(np.array([1.0, 2.0, 3.0, 4.0])))
    assert [float(score) for score in scores.fractions()] == [4.0, 1.0, 4.0]


@pytest.mark.parametrize(
    ("index", "shape", "words"),
    [
        (np.array([0, 4]), (1, 4), "features that do not exist"),
        (np.array([-1, 0]), (1, 4), "features that do not exist"),
        (np.array([0, 1]), (1, 2, 2), "features that do not exist"),
        (np.array([0.0, 1.0]), (1, 4), "constant index"),
        (np.zeros(0, dtype=np.int64), (1, 4), "constant index"),
    ],
)
def test_no_other_features_are_chosen(
    index: np.ndarray, shape: tuple[int, ...], words: str
) -> None:
    with pytest.raises(Rejected, match=words):
        read_model(_chosen(index, shape))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_another, "attributes that are not understood"),
        (lambda node: node.input.__setitem__(1, "x"), "constant index"),
        (lambda node: node.input.pop(), "constant index"),
    ],
)
def test_no_other_extractor_is_read(change: Callable[[onnx.NodeProto], None], words: str) -> None:
    with pytest.raises(Rejected, match=words):
        read_model(_chosen(np.arange(4), change=change))


def test_no_more_features_are_chosen_than_a_value_may_have() -> None:
    """Of constants, which are repeated before all but two of them are cut off again."""
    b = Build([1, 2])
    wide = b(
        "ArrayFeatureExtractor",
        b.constant(np.zeros((2**11, 1))),
        b.constant(np.zeros(2**11 + 1), np.int64),
        domain="ai.onnx.ml",
    )
    few = b("Slice", wide, b.integers(0, 0), b.integers(1, 2))
    with pytest.raises(Rejected, match="too large"):
        read_model(b.model(b("Add", "x", few)))
