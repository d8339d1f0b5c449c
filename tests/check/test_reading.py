"""What all readers of operators share: how a node's inputs, shapes and entries are understood."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.graph import Graph, Node
from vhagar_check.joined import Pick
from vhagar_check.lowering import Value
from vhagar_check.protobuf import Message
from vhagar_check.reading import (
    Product,
    Reader,
    Result,
    Sides,
    Special,
    Wire,
    axis_of,
    checked,
    refuse_unless,
)

CONSTANTS: dict[str, np.ndarray] = {
    "single": np.array([0.1, -2.0], dtype=np.float32),
    "double": np.array([[0.1], [-2.0]]),
    "whole": np.array([3, -1, 2]),
    "one whole": np.array(4, dtype=np.int32),
    "matrix": np.array([[1, 2]]),
    "truth": np.array([True, False]),
    "infinite": np.array([1.0, np.inf]),
    "nan": np.array([np.nan]),
    "number": np.array([[1.5]], dtype=np.float32),
    "limit": np.array(-np.inf),
    "empty": np.empty(0),
}


def reader(batch: int = 1, shape: tuple[int, ...] = (2, 3), **more: Result | Special) -> Reader:
    found = Reader(Graph([node("x")], CONSTANTS, "x", shape, "y", 13, batch))
    found.names.update(more)
    return found


def node(*inputs: str, kind: str = "Op", **attributes: Any) -> Node:
    made = helper.make_node(kind, list(inputs), ["y"], **attributes)
    return Node.of(Message(made.SerializeToString()))


def wire(r: Reader) -> Wire:
    found = r.names["x"]
    assert isinstance(found, Wire)
    return found


def special(r: Reader) -> dict[str, Special]:
    sides = Sides(wire(r), np.zeros(6), True)
    r.names.update({"sides": sides, "product": Product((np.eye(2), np.eye(2)))})
    return {"sides": sides, "product": r.names["product"]}  # type: ignore[dict-item]


def scores(r: Reader, output: Value, x: np.ndarray) -> list[float]:
    found = r.flow.network(output).exact_scores(Exact.of(x)).fractions()
    return [float(value) for value in found]


@pytest.mark.parametrize(
    ("batch", "shape", "vectors"), [(1, (1, 2, 3), False), (5, (1, 2, 3), False), (0, (2, 3), True)]
)
def test_the_input_has_a_batch_of_one_unless_it_is_a_vector(
    batch: int, shape: tuple[int, ...], vectors: bool
) -> None:
    r = reader(batch)
    assert wire(r).shape == shape
    assert (wire(r).value, r.takes_vectors) == (r.flow.input, vectors)
    assert wire(r).positions.tolist() == np.arange(6).reshape(shape).tolist()
    assert [len(users) for users in r.consumers.values()] == [1]
    assert r.names["whole"] is CONSTANTS["whole"]


def test_inputs_of_a_node_are_found_by_their_position() -> None:
    r = reader()
    taker = node("x", "", "whole", "later")
    assert r.given(taker, 0) is wire(r)
    assert r.given(taker, 1) is None
    assert r.given(taker, 2) is CONSTANTS["whole"]
    assert r.given(taker, 4) is None
    assert r.given(taker, 9) is None
    with pytest.raises(Rejected, match="'later' before anything gives it"):
        r.given(taker, 3)


def test_comparisons_and_products_are_given_to_those_alone_that_ask_for_them() -> None:
    r = reader()
    known = special(r)
    taker = node("sides", "product", "x", "", "unknown")
    for position, name in enumerate(known):
        with pytest.raises(Rejected, match="takes a comparison or a product"):
            r.given(taker, position)
        with pytest.raises(Rejected, match="takes a comparison or a product"):
            r.wire(node(name))
    assert [r.sides(taker, k) is known["sides"] for k in range(7)] == [True] + [False] * 6
    assert [r.product(taker, k) is known["product"] for k in range(7)] == [False, True] + [
        False
    ] * 5
    assert all(r.sides(taker, k) is None for k in range(1, 7))
    assert all(r.product(taker, k) is None for k in (0, *range(2, 7)))
    assert r.takes_special(taker)
    assert r.takes_special(node("x", "", "sides"))
    assert not r.takes_special(node("x", "whole", "", "unknown"))
    assert not r.takes_special(node())


def test_operators_of_many_inputs_need_every_one() -> None:
    r = reader()
    assert r.all_given(node("whole", "x")) == [CONSTANTS["whole"], wire(r)]
    for taker in (node(), node("x", ""), node("", "x")):
        with pytest.raises(Rejected, match="lacks an input"):
            r.all_given(taker)


def test_what_only_ends_a_network_or_only_enters_a_pool_is_given_to_no_other() -> None:
    """A softmax that was left out, or a ReLU that waits behind a pool, would be forgotten."""
    start = reader().names["x"]
    assert isinstance(start, Wire)
    for flag, words in (("normalised", "the last one alone"), ("waits_for_relu", "a pool alone")):
        special_wire = Wire(start.value, start.shape, **{flag: True})
        r = reader(end=special_wire)
        assert r.alias(node("end")) is special_wire
        assert r.given(node("end"), 0) is special_wire
        for asks in (r.all_given, r.wire):
            with pytest.raises(Rejected, match=words):
                asks(node("end"))
            with pytest.raises(Rejected, match=words):
                r.all_given(node("whole", "end"))
    positive = Wire(start.value, start.shape, positive=True)
    assert reader(end=positive).wire(node("end")) is positive


def test_values_that_depend_on_the_input() -> None:
    r = reader()
    assert r.wire(node("x")) is r.alias(node("x")) is wire(r)
    assert r.wire(node("whole", "x"), 1) is wire(r)
    for taker in (node("whole", "x"), node("", "x"), node()):
        with pytest.raises(Rejected, match="depends on the input"):
            r.alias(taker)
        with pytest.raises(Rejected, match="depends on the input there"):
            r.wire(taker)
    with pytest.raises(Rejected, match="depends on the input there"):
        r.wire(node("x", "whole"), 1)


def test_floats_are_what_the_file_says() -> None:
    r = reader()
    found = r.floats(node("x", "single"), 1)
    assert found.dtype == np.float64
    assert found.tolist() == [float(np.float32(0.1)), -2.0]
    assert r.floats(node("double"), 0).tolist() == [[0.1], [-2.0]]
    for name in ("x", "whole", "truth", "infinite", "nan"):
        with pytest.raises(Rejected, match=f"finite float constants, which '{name}' is not"):
            r.floats(node(name), 0)
    for missing in (node("x"), node("x", "")):
        with pytest.raises(Rejected, match="finite float constants, which '' is not"):
            r.floats(missing, 1)


def test_numbers() -> None:
    r = reader()
    assert r.scalar(node("x", "number"), 1) == 1.5
    assert r.scalar(node("x", "limit"), 1) == -np.inf
    assert r.scalar(node("x"), 1) is None
    assert r.scalar(node("x", "", "number"), 1) is None
    for name in ("x", "one whole", "single", "empty"):
        with pytest.raises(Rejected, match="needs a constant number"):
            r.scalar(node("x", name), 1)
    with pytest.raises(Rejected, match="not a number"):
        r.scalar(node("x", "nan"), 1)


def test_whole_numbers_are_an_attribute_or_an_input() -> None:
    r = reader()
    assert r.integers(node("x", axes=[2, -1]), "axes", 1) == [2, -1]
    assert r.integers(node("x", "whole", axes=[2]), "axes", 1) == [2]
    assert r.integers(node("x", "whole"), "axes", 1) == [3, -1, 2]
    assert r.integers(node("x", "one whole"), "axes", 1) == [4]
    assert r.integers(node("x"), "axes", 1) is None
    assert r.integers(node("x", "", "whole"), "axes", 1) is None
    for name in ("x", "single", "truth", "matrix"):
        with pytest.raises(Rejected, match="constant integers for its axes"):
            r.integers(node("x", name), "axes", 1)


@pytest.mark.parametrize(
    ("shape", "with_batch", "with_vectors"),
    [
        ((1, 6), True, True),
        ((1, 2, 3), True, True),
        ((6,), False, True),
        ((2, 3), False, False),
        ((6, 1), False, False),
    ],
)
def test_the_batch_stays_first_and_apart(
    shape: tuple[int, ...], with_batch: bool, with_vectors: bool
) -> None:
    for batch, fine in ((1, with_batch), (0, with_vectors)):
        r = reader(batch)
        start = Wire(r.flow.input, (1, 6), normalised=True, positive=True)
        if not fine:
            with pytest.raises(Rejected, match="mixes the batch"):
                r.shaped(node("x"), r.flow.input, shape)
            continue
        assert r.shaped(node("x"), r.flow.input, shape).shape == shape
        again = r.reshaped(node("x"), start, shape)
        assert (again.value, again.shape) == (r.flow.input, shape)
        assert (again.normalised, again.positive, again.waits_for_relu) == (True, True, False)


def test_a_single_number_has_a_batch_or_is_a_vector() -> None:
    with pytest.raises(Rejected, match="mixes the batch"):
        reader().require_batch(node("x"), ())
    reader().require_batch(node("x"), (1,))
    reader(0).require_batch(node("x"), ())


def test_no_entries_are_lost_or_made_up_by_a_shape() -> None:
    r = reader()
    for shape in ((1, 5), (1, 7), (1, 0), (1,)):
        with pytest.raises(Rejected, match="size that does not fit"):
            r.shaped(node("x"), r.flow.input, shape)


X = np.array([1.0, -2.0, 3.0, 0.5, 7.0, -1.0])


def test_entries_are_picked_in_the_order_of_the_index() -> None:
    r = reader()
    found = r.picked(node("x"), wire(r), np.array([[5, 0, -1, 5]]))
    assert found.shape == (1, 4)
    assert scores(r, found.value, X) == [-1.0, 1.0, 0.0, -1.0]
    assert r.picked(node("x"), wire(r), wire(r).positions).value is not r.flow.input
    with pytest.raises(Rejected, match="empty value"):
        r.picked(node("x"), wire(r), np.empty((1, 0), dtype=np.int64))
    with pytest.raises(Rejected, match="mixes the batch"):
        r.picked(node("x"), wire(r), np.arange(6).reshape(2, 3))


@pytest.mark.parametrize(
    ("index", "plain"),
    [
        (np.arange(6).reshape(1, 2, 3), True),
        (np.arange(5), False),
        (np.array([0, 1, 2, 4, 3, 5]), False),
        (np.array([0, 0, 0, 0, 0, 0]), False),
        (np.array([0, 1, 2, 3, 4, 5, 0]), False),
    ],
)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_all_entries_in_order_are_the_value_itself(
    index: np.ndarray, plain: bool, sign: float
) -> None:
    r = reader()
    operand = r.operand(wire(r), index, sign)
    assert (operand.layer is None) == plain
    assert plain or isinstance(operand.layer, Pick)
    assert scores(r, r.flow.sum(operand), X) == (sign * X[index.reshape(-1)]).tolist()


def test_values_are_broadcast_as_arrays_are() -> None:
    r = reader(shape=(3,))
    before = r.flow.budget.left
    operand = r.spread(node("x"), wire(r), (1, 50, 3), -1.0)
    assert before - r.flow.budget.left == 150
    x = X[:3]
    assert scores(r, r.flow.sum(operand), x) == np.broadcast_to(-x, (50, 3)).reshape(-1).tolist()
    assert scores(r, r.flow.sum(r.spread(node("x"), wire(r), (1, 3))), x) == x.tolist()


def test_shapes_are_joined_as_those_of_arrays() -> None:
    r = reader()
    given: list[Result] = [wire(r), np.zeros((4, 1, 1, 1)), np.zeros(3)]
    assert r.joint_shape(node("x"), given) == (4, 1, 2, 3)
    with pytest.raises(Rejected, match="another shape"):
        r.joint_shape(node("x"), [wire(r), np.zeros(4)])


def test_adding_zeros_is_nothing_and_other_constants_are_added_entry_by_entry() -> None:
    r = reader()
    assert r.added(r.flow.input, np.zeros((2, 3))) is r.flow.input
    some = np.array([[0.0, 2.0, 0.0], [0.0, -1.0, 0.0]])
    assert scores(r, r.added(r.flow.input, some), X) == (X + some.reshape(-1)).tolist()


def test_axes_may_count_from_the_end() -> None:
    assert [axis_of(node("x"), axis, 3) for axis in range(-3, 3)] == [0, 1, 2, 0, 1, 2]
    for axis in (-4, 3):
        with pytest.raises(Rejected, match=f"axis {axis} of 3"):
            axis_of(node("x"), axis, 3)


def test_shapes_are_paid_for_and_not_empty() -> None:
    r = reader()
    before = r.flow.budget.left
    assert checked(node("x"), (1, 2, 100), r) == (1, 2, 100)
    assert before - r.flow.budget.left == 200
    for shape in ((1, 0), (1, -1, 3), (-1, -1)):
        with pytest.raises(Rejected, match="empty value"):
            checked(node("x"), shape, r)
    with pytest.raises(Rejected, match="too large"):
        checked(node("x"), (2**30, 2**30), r)


def test_conditions_of_operators() -> None:
    refuse_unless(True, node("x"), "is fine")
    with pytest.raises(Rejected, match="Op is not"):
        refuse_unless(False, node("x"), "is not")
