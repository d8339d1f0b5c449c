"""Choices by a comparison: read as a runtime reads them, or refused if the sides may not meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vhagar_check.errors import Rejected
from vhagar_check.model import read_model

from .graphs import Build, runtime_scores
from .test_graph import scores

Case = Callable[[Build], str]
COMPARISONS = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")
LIMITS, SLOPES = [0.0, 0.5, 0.0, 0.25, -0.75, 0.0], [0.0, 0.25, -2.0, 1.0, 0.5, 3.0]
FLOAT, WHOLE, BOOL, HALF, DOUBLE = 1, 7, 9, 10, 11


def above(b: Build, limit: Any = 0.0, kind: str = "Greater", x: str = "x") -> str:
    return str(b(kind, x, b.constant(limit)))


def chosen(first: Any, second: Any, limit: Any = 0.0, kind: str = "Greater") -> Case:
    """One side where the value is above the limit, and the other elsewhere."""
    return lambda b: b("Where", above(b, limit, kind), _side(b, first), _side(b, second))


def _side(b: Build, side: Any) -> str:
    """A value, made by a function or given by name, or constants."""
    if callable(side):
        return str(side(b))
    return side if isinstance(side, str) else b.constant(side)


def scaled(slopes: Any) -> Case:
    return lambda b: b("Mul", b.constant(slopes), "x")


def masked(*, into: int = FLOAT, side: Any = "x", limit: Any = 0.0) -> Case:
    """A side times whether the value is above the limit."""
    return lambda b: b("Mul", _side(b, side), b("Cast", above(b, limit), to=into))


def negative(b: Build) -> str:
    return str(b("Neg", "x"))


def smooth(kind: str) -> Case:
    return lambda b: b(kind, "x")


def product(b: Build) -> str:
    """Of constant matrices, which is kept as its factors."""
    return str(b("MatMul", b.drawn(1, 2), b.drawn(2, 6)))


def denied(times: int) -> Case:
    def build(b: Build) -> str:
        sides = above(b)
        for _ in range(times):
            sides = b("Not", sides)
        return str(b("Mul", b("Cast", sides, to=FLOAT), scaled(SLOPES)(b)))

    return build


READ: dict[str, Case] = {
    **{f"{kind}, value first": chosen("x", scaled(0.25), 0.0, kind) for kind in COMPARISONS},
    **{f"{kind}, value last": chosen(scaled(SLOPES), "x", 0.0, kind) for kind in COMPARISONS},
    **{f"{kind}, limit last": chosen("x", LIMITS, LIMITS, kind) for kind in COMPARISONS},
    **{f"{kind}, limit first": chosen(LIMITS, "x", LIMITS, kind) for kind in COMPARISONS},
    **{
        f"{kind} turned round": lambda b, kind=kind: b(
            "Where", b(kind, b.constant(LIMITS), "x"), "x", b.constant(LIMITS)
        )
        for kind in COMPARISONS
    },
    "a negative": chosen("x", negative),
    "two multiples": chosen(scaled(-0.5), scaled(SLOPES)),
    "a quotient": chosen(lambda b: b("Div", "x", b.constant(8.0)), "x"),
    "zero above": chosen(0.0, "x"),
    "zeros below": chosen("x", [0.0] * 6),
    "zero for zeros": chosen("x", 0.0, [0.0] * 6),
    "one limit for all": chosen("x", [0.5] * 6, 0.5),
    "a product": masked(),
    "a product with multiples": masked(side=scaled(SLOPES)),
    "not": denied(1),
    "not not": denied(2),
    "a choice of booleans": lambda b: b("Where", b("Cast", above(b), to=BOOL), "x", negative(b)),
}


def model(case: Case, shape: list[Any], opset: int) -> bytes:
    b = Build(shape, opset=opset)
    return b.model(case(b))


@pytest.mark.parametrize("name", READ)
def test_choices_are_the_runtimes(name: str) -> None:
    """On both sides of every limit and at it."""
    data = model(READ[name], ["batch", 6], 16)
    inputs = np.repeat(np.arange(-4, 5)[:, None] / 4, 6, axis=1)
    for x, expected in zip(inputs, runtime_scores(data, inputs), strict=True):
        assert scores(read_model(data), x).tolist() == expected.tolist()


def test_a_value_and_its_other_shape_are_one() -> None:
    """A vector beside the same one with a batch dimension: the entries have the same order."""

    def case(b: Build) -> str:
        row = b("Unsqueeze", "x", b.integers(0))
        return str(b("Where", above(b, 0.5, x=row), "x", b.constant([[0.5, 0.5]])))

    network = read_model(model(case, [2], 16))
    assert scores(network, np.array([-1.0, 0.75])).tolist() == [0.5, 0.75]


@pytest.mark.parametrize(
    ("case", "units"),
    [
        (masked(), [(6, 0)]),
        (chosen(scaled(SLOPES), 0.0), [(6, 0)]),
        (chosen(0.0, "x"), [(6, 6)]),
        (chosen("x", scaled(0.25)), [(6, 6)]),
        (chosen("x", 0.5, 0.5), [(6, 0)]),
    ],
)
def test_units_of_choices(case: Case, units: list[tuple[int, int]]) -> None:
    """The value goes past the ReLU only if the side below takes it."""
    network = read_model(model(case, ["batch", 6], 16))
    linear = [network.linear_units(k) for k in range(len(network.relu_sizes_and_classes) - 1)]
    found = [0 if each is None else int(each.sum()) for each in linear]
    sizes = network.relu_sizes_and_classes
    assert [(size - n, n) for size, n in zip(sizes, found, strict=False)] == units


JUMPS, OTHER_USE = "meet at the limit", "Where and Mul alone"
REFUSED: dict[str, tuple[str, Case]] = {
    # Sides that do not meet.
    "a constant at 0": (JUMPS, chosen(1.0, "x")),
    "a jump beside the limit": (JUMPS, masked(limit=0.5)),
    "zero, some limits not": (JUMPS, chosen("x", 0.0, LIMITS)),
    "limits, of which some differ": (JUMPS, chosen("x", [*LIMITS[:5], 0.5], LIMITS)),
    "smaller limits that differ": (JUMPS, chosen([*LIMITS[:5], 0.5], "x", LIMITS)),
    "multiples at a limit": (JUMPS, chosen("x", scaled(0.5), 0.5)),
    "constants, of which some are 0": (JUMPS, chosen("x", [0.0, 1.0] * 3)),
    "constants above": (JUMPS, chosen([0.0, 1.0] * 3, "x")),
    "a limit for each": (JUMPS, masked(side=LIMITS, limit=0.5)),
    "two limits": (JUMPS, chosen(0.5, 0.5, 0.5)),
    "another value above a limit": (JUMPS, chosen(negative, 0.5, 0.5)),
    "another value below a limit": (JUMPS, chosen(0.5, negative, 0.5)),
    "a unit above": (JUMPS, chosen(smooth("Relu"), "x")),
    "a unit below": (JUMPS, chosen("x", smooth("Relu"))),
    "a sum": (JUMPS, chosen("x", lambda b: b("Add", "x", b.constant([0.0, 1.0] * 3)))),
    "a sum of two": (JUMPS, chosen("x", lambda b: b("Add", "x", "x"))),
    "a multiple of another": (JUMPS, chosen("x", lambda b: b("Mul", negative(b), b.constant(2.0)))),
    "entries in another order": (
        JUMPS, chosen("x", lambda b: b("Gather", "x", b.integers(5, 4, 3, 2, 1, 0), axis=1))
    ),
    "a combination": (JUMPS, chosen("x", lambda b: b("MatMul", "x", b.drawn(6, 6)))),
    # What only stands for its input as the last node.
    **{
        f"{kind} {where}": ("as the last one alone", case)
        for kind in ("Sigmoid", "Tanh", "Elu", "Softmax")
        for where, case in (
            ("above", chosen(smooth(kind), "x")),
            ("below", chosen("x", smooth(kind))),
            ("above a limit", chosen(smooth(kind), 0.5, 0.5)),
            ("below a limit", chosen(0.5, smooth(kind), 0.5)),
            ("masked", masked(side=smooth(kind))),
        )
    },
    # Comparisons and choices that are none.
    "three compared": ("with constants", lambda b: b("Less", "x", *[b.constant(0.0)] * 2)),
    "two values": ("with constants", lambda b: b("Less", "x", b("Relu", "x"))),
    "one compared": ("with constants", lambda b: b("Less", "x")),
    "thresholds of more": ("limits of another shape", chosen("x", 0.0, np.zeros((2, 6)))),
    "thresholds of more axes": ("limits of another", chosen("x", 0.0, np.zeros((1, 1, 6)))),
    "sides of more": ("sides of another shape", chosen("x", np.zeros((2, 6)))),
    "sides of more axes": ("sides of another shape", chosen(np.zeros((1, 1, 6)), "x")),
    "a side of whole numbers": (JUMPS, chosen("x", lambda b: b.integers(0))),
    "a limit of whole numbers": (
        JUMPS, lambda b: b("Where", above(b, 2.0), "x", b.integers(2))
    ),
    "whole numbers": ("type that is not", masked(into=WHOLE)),
    "half precision": ("type that is not", masked(into=HALF)),
    "no second side": ("lacks an input", lambda b: b("Where", above(b), "x")),
    "no first side": ("lacks an input", lambda b: b("Where", above(b), "", "x")),
    "added": (OTHER_USE, lambda b: b("Add", "x", b("Cast", above(b), to=FLOAT))),
    "a product added": (OTHER_USE, lambda b: b("Add", "x", product(b))),
    "three factors": (OTHER_USE, lambda b: b("Mul", b("Cast", above(b), to=FLOAT), "x", "x")),
    "by a product": ("choice by one", lambda b: b("Where", product(b), "x", "x")),
    "times a product": ("choice by one", lambda b: b("Mul", "x", product(b))),
    "a product cast": (
        "attributes that are not", lambda b: b("Mul", "x", b("Cast", product(b), to=FLOAT))
    ),
    "not a value": (OTHER_USE, lambda b: b("Where", b("Not", "x"), "x", b.constant(0.0))),
    **{
        f"{name}: another": ("attributes that are not understood", case)
        for name, case in {
            "compared": lambda b: b("Greater", "x", b.constant(0.0), axis=1),
            "not": lambda b: b("Not", above(b), axis=1),
            "where": lambda b: b("Where", above(b), "x", b.constant(0.0), axis=1),
            "product": lambda b: b("Mul", b("Cast", above(b), to=FLOAT), "x", axis=1),
        }.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_no_other_choice_is_read(name: str) -> None:
    words, case = REFUSED[name]
    with pytest.raises(Rejected, match=words):
        read_model(model(case, ["batch", 6], 16))


def test_a_choice_in_double_precision() -> None:
    data = model(masked(into=DOUBLE), ["batch", 6], 16)
    assert scores(read_model(data), np.array([-1.0, 0.0, 0.5] * 2)).tolist() == [0, 0, 0.5] * 2
