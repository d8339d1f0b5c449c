"""Nodes that pass a value on, and functions at the end that keep the order of the scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.model import read_model
from vhagar_check.scores import Stated

from .graphs import Build, runtime_scores

IMAGE = ["batch", 1, 2, 3]
TABLE = ["batch", 4]
VECTOR = [4]
X = np.array([0.25, -1.0, 2.0, 0.5])
Case = Callable[[Build], str]


def scores(data: bytes, x: np.ndarray, stated: Stated | None = None) -> list[float]:
    network = read_model(data) if stated is None else read_model(data, stated)
    return [float(score) for score in network.exact_scores(Exact.of(x)).fractions()]


def after(shape: list[Any], case: Case, opset: int = 13) -> bytes:
    b = Build(shape, opset=opset)
    return b.model(case(b))


def refused(shape: list[Any], case: Case, words: str, opset: int = 13) -> None:
    with pytest.raises(Rejected, match=words):
        read_model(after(shape, case, opset))


def ends(kind: str, **attributes: Any) -> Case:
    return lambda b: b(kind, "x", **attributes)


def then(*kinds: str) -> Case:
    def build(b: Build) -> str:
        name = "x"
        for kind in kinds:
            name = b(kind, name)
        return name

    return build


INCREASING = ("Atan", "Erf", "Exp", "Sigmoid", "Softplus", "Softsign", "Tanh", "Celu", "Elu")


@pytest.mark.parametrize("kind", [*INCREASING, "Selu", "Softmax", "LogSoftmax"])
def test_functions_at_the_end_keep_the_order_and_are_left_out(kind: str) -> None:
    data = after(TABLE, ends(kind))
    assert scores(data, X) == X.tolist()
    theirs = runtime_scores(data, X[None])[0]
    assert np.argsort(theirs).tolist() == np.argsort(X).tolist()
    refused(TABLE, lambda b: b("Neg", b(kind, "x")), "the last one alone")
    refused(TABLE, ends(kind, other=1), "not understood")


POSITIVE = ("Exp", "Sigmoid", "Softmax", "Softplus")


@pytest.mark.parametrize("kind", [*INCREASING, "Selu", "Softmax", "LogSoftmax"])
def test_logarithms_are_taken_of_positive_numbers_alone(kind: str) -> None:
    """Of others they are no numbers, and the runtime's scores would not be these."""
    if kind not in POSITIVE:
        refused(TABLE, then(kind, "Log"), "may not be positive")
        refused(TABLE, then("Softmax", kind, "Log"), "may not be positive")
        return
    data = after(TABLE, then(kind, "Log"))
    assert scores(data, X) == X.tolist()
    theirs = runtime_scores(data, X[None])[0]
    assert np.argsort(theirs).tolist() == np.argsort(X).tolist()
    refused(TABLE, then(kind, "Log", "Log"), "may not be positive")
    refused(TABLE, then(kind, "Log", "Neg"), "the last one alone")
    refused(TABLE, lambda b: b("Log", b(kind, "x"), base=2.0), "not understood")


@pytest.mark.parametrize(
    ("kind", "attributes", "words"),
    [
        ("Elu", {"alpha": 0.0}, "not positive"),
        ("Celu", {"alpha": -0.5}, "not positive"),
        ("Elu", {"alpha": float("inf")}, "not positive"),
        ("Elu", {"alpha": float("nan")}, "not positive"),
        ("Selu", {"gamma": 0.0}, "not positive"),
        ("Selu", {"alpha": -1.0, "gamma": 2.0}, "not positive"),
        ("Selu", {"alpha": 2.0, "gamma": -1.0}, "not positive"),
        ("Elu", {"gamma": 2.0}, "not understood"),
        ("Celu", {"gamma": 2.0}, "not understood"),
        ("Selu", {"other": 2.0}, "not understood"),
    ],
)
def test_exponential_units_have_positive_factors(
    kind: str, attributes: dict[str, float], words: str
) -> None:
    refused(TABLE, ends(kind, **attributes), words)


def test_factors_may_be_small() -> None:
    for kind, attributes in (("Elu", {"alpha": 0.25}), ("Selu", {"alpha": 0.5, "gamma": 0.25})):
        data = after(TABLE, ends(kind, **attributes))
        assert scores(data, X) == X.tolist()
        theirs = runtime_scores(data, X[None])[0]
        assert np.argsort(theirs).tolist() == np.argsort(X).tolist()


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
def test_a_softmax_is_over_the_classes(kind: str) -> None:
    for opset in (12, 13):
        for attributes in ({}, {"axis": 1}, {"axis": -1}):
            assert scores(after(TABLE, ends(kind, **attributes), opset), X) == X.tolist()
        for axis in (0, -2):
            refused(TABLE, ends(kind, axis=axis), "not over the classes", opset)
        for axis in (2, -3):
            refused(TABLE, ends(kind, axis=axis), "axis", opset)
        refused(IMAGE, ends(kind), "not over the classes", opset)
    refused(TABLE, lambda b: b(kind, b.dense("x", 1, 4)), "not over the classes")
    two = after(["batch", 2], ends(kind))
    assert scores(two, X[:2]) == X[:2].tolist()


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
def test_a_softmax_of_a_vector_is_over_its_only_axis(kind: str) -> None:
    for attributes in ({}, {"axis": 0}, {"axis": -1}):
        assert scores(after(VECTOR, ends(kind, **attributes)), X) == X.tolist()
    refused(VECTOR, ends(kind, axis=1), "axis 1 of 1")
    # Before version 13 the default was axis 1, which a vector does not have.
    refused(VECTOR, ends(kind), "axis 1 of 1", 12)

    def lifted(b: Build, **attributes: int) -> str:
        return b(kind, b("Unsqueeze", "x", b.integers(0)), **attributes)

    assert scores(after(VECTOR, lifted), X) == X.tolist()
    assert scores(after(VECTOR, lambda b: lifted(b, axis=1)), X) == X.tolist()
    refused(VECTOR, lambda b: lifted(b, axis=0), "not over the classes")
    refused(VECTOR, lambda b: b(kind, b("Reshape", "x", b.integers(1, 2, 2))), "over the classes")


def test_outputs_are_vectors_of_scores() -> None:
    flat: dict[int, Case] = {
        rank: lambda b, rank=rank: b("Reshape", "x", b.integers(*[1] * (rank - 1), 4))
        for rank in (1, 2, 3)
    }
    for rank, case in flat.items():
        if rank == 3:
            refused(VECTOR, case, "not a vector of scores")
        else:
            assert scores(after(VECTOR, case), X) == X.tolist()
    assert scores(after(TABLE, flat[2]), X) == X.tolist()
    refused(TABLE, flat[3], "not a vector of scores")
    refused(IMAGE, ends("Neg"), "not a vector of scores")


def test_one_score_may_have_any_shape() -> None:
    data = after(IMAGE, lambda b: b("ReduceSum", "x", b.integers(1, 2, 3)))
    assert scores(data, np.ones(6), Stated(threshold=2.0)) == [0.0, 4.0]


@pytest.mark.parametrize(
    "case",
    [
        lambda b: b("Identity", b.drawn(1, 4)),
        lambda b: b("Greater", "x", b.constant(0.0)),
        lambda b: b("MatMul", b.drawn(2, 2), b.drawn(2, 2)),
        lambda b: "nowhere",
    ],
)
def test_outputs_depend_on_the_input(case: Case) -> None:
    refused(TABLE, case, "not a vector of scores that depends on its input")


def test_another_output_is_read_when_it_is_named() -> None:
    b = Build(TABLE)
    first = b("Neg", "x")
    data = b.model(b("Relu", first))
    assert scores(data, X) == np.maximum(-X, 0).tolist()
    assert scores(data, X, Stated(first)) == (-X).tolist()


def test_results_that_nobody_takes_are_no_matter() -> None:
    """A Dropout has a mask beside its value."""
    data = after(TABLE, lambda b: b("Dropout", "x", outputs=2)[0])
    assert scores(data, X) == X.tolist()
    split = after(TABLE, lambda b: b("Split", "x", b.integers(1, 3), outputs=2, axis=1)[1])
    assert scores(split, X) == X[1:].tolist()


def test_an_input_of_a_batch_is_not_told_how_many_there_are() -> None:
    """The size of the whole batch would be another number than that of one input."""

    def times_size(b: Build) -> str:
        return b("Mul", "x", b("Cast", b("Size", "x"), to=1))

    b = Build([3, 4])
    data = b.model(times_size(b), [3, 4])
    assert runtime_scores(data, X[None])[0].tolist() == (12 * X).tolist()
    with pytest.raises(Rejected, match="3 inputs of the model's batch alike"):
        read_model(data)
    assert scores(after([1, 4], times_size), X) == (4 * X).tolist()


def test_dropout_is_nothing_unless_it_is_trained() -> None:
    def dropout(value: bool) -> Case:
        return lambda b: b("Dropout", "x", b.constant(0.5), b.constant(value, np.bool_))

    assert scores(after(TABLE, dropout(False)), X) == X.tolist()
    assert scores(after(TABLE, lambda b: b("Dropout", "x", b.constant(0.5))), X) == X.tolist()
    assert scores(after(TABLE, ends("Dropout", seed=3)), X) == X.tolist()
    assert scores(after(TABLE, ends("Dropout", ratio=0.3), 9), X) == X.tolist()
    refused(TABLE, dropout(True), "training mode")
    refused(TABLE, lambda b: b("Dropout", "x", "", "x"), "training mode")
    several = np.array([True, False])
    refused(TABLE, lambda b: b("Dropout", "x", "", b.constant(several, np.bool_)), "training mode")
    refused(TABLE, ends("Dropout", training_mode=1), "not understood")


@pytest.mark.parametrize("kind", [1, 10, 11, 16])
def test_a_cast_between_floats_is_nothing(kind: int) -> None:
    assert scores(after(TABLE, ends("Cast", to=kind)), X) == X.tolist()


@pytest.mark.parametrize("attributes", [{}, *({"to": kind} for kind in (0, 2, 6, 7, 9, 12, 17))])
def test_no_other_cast_is_nothing(attributes: dict[str, int]) -> None:
    refused(TABLE, ends("Cast", **attributes), "type that is not understood")


def test_shapes_are_changed_and_values_are_not() -> None:
    x = np.arange(6.0)
    cases: list[Case] = [
        ends("Flatten"),
        lambda b: b("Reshape", "x", b.integers(0, -1)),
        lambda b: b("Flatten", b("Squeeze", "x", b.integers(1))),
        lambda b: b("Flatten", b("Unsqueeze", "x", b.integers(2))),
    ]
    for case in cases:
        assert scores(after(IMAGE, case), x) == x.tolist()
    assert scores(after(["batch", 2, 2], lambda b: b("Reshape", "x", b.integers(1, 4))), X) == (
        X.tolist()
    )
    b = Build([3, 2, 2])
    batch = b.model(b("Reshape", "x", b.integers(3, 4)), [3, 4])
    assert scores(batch, X) == X.tolist()


def test_only_a_squeeze_without_axes_drops_the_batch() -> None:
    assert scores(after(TABLE, ends("Squeeze")), X) == X.tolist()
    refused(TABLE, lambda b: b("Squeeze", "x", b.integers(0)), "mixes the batch")
    refused(TABLE, ends("Squeeze", axes=[0]), "mixes the batch", 11)
    refused(IMAGE, ends("Squeeze"), "mixes the batch")

    def without_channel(b: Build) -> str:
        return b("Squeeze", "x", b.integers(1))

    assert scores(after(["batch", 1, 4], without_channel), X) == X.tolist()
    assert scores(after(["batch", 1, 4], ends("Squeeze", axes=[1]), 11), X) == X.tolist()

    def flattened(b: Build) -> str:
        return b("Reshape", without_channel(b), b.integers(4))

    refused(["batch", 1, 4], flattened, "mixes the batch")


def test_comparisons_and_products_reach_the_nodes_that_take_them() -> None:
    def bent(b: Build) -> str:
        return b("Where", b("Greater", "x", b.constant(0.0)), "x", b("Mul", "x", b.constant(0.5)))

    assert scores(after(TABLE, bent), X) == np.where(X > 0, X, X / 2).tolist()
    left, right = np.arange(8.0).reshape(4, 2), np.array([[1.0, -1.0, 2.0], [0.0, 1.0, 0.5]])

    def product(b: Build) -> str:
        return b("MatMul", "x", b("MatMul", b.constant(left), b.constant(right)))

    assert scores(after(TABLE, product), X) == (X @ left @ right).tolist()


def test_an_operator_that_is_not_in_the_tables_is_refused_by_its_name() -> None:
    refused(TABLE, ends("HardSwish"), "HardSwish is not understood by this checker", 14)
