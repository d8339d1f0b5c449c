"""Models with a fixed batch size: read as if for one input, if all inputs are treated alike."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vhagar_check.errors import Rejected
from vhagar_check.model import read_model

from .graphs import Build, runtime_scores
from .test_graph import scores

Case = Callable[[Build], str]
SIZE = 3
HALF = np.full(4, 0.5, dtype=np.float32)
ALIKE: dict[str, Case] = {
    "relu": lambda b: b("Relu", "x"),
    "reshape": lambda b: b("Reshape", "x", b.integers(SIZE, -1)),
    "reshape by 0": lambda b: b("Reshape", "x", b.integers(0, 4)),
    "reshape by the rest": lambda b: b("Reshape", "x", b.integers(-1, 4)),
    "gemm": lambda b: b.dense("x", 2, 4),
    "add": lambda b: b("Add", "x", b.constant(HALF)),
    "add a row": lambda b: b("Add", "x", b.constant(HALF[None])),
    "add first": lambda b: b("Add", b.constant(HALF), "x"),
    "add both": lambda b: b("Add", "x", b("Neg", "x")),
    "maximum": lambda b: b("Max", "x", b.constant(0.5)),
    "matmul": lambda b: b("MatMul", "x", b.drawn(4, 2)),
    "transpose": lambda b: b("Transpose", "x", perm=[0, 1]),
    "transposed weights": lambda b: b("MatMul", "x", b("Transpose", b.drawn(2, 4), perm=[1, 0])),
    "concat alone": lambda b: b("Concat", "x", axis=1),
    "concat": lambda b: b("Concat", "x", "x", axis=1),
}
REFUSED: dict[str, tuple[Case, str]] = {
    "reshape to one": (lambda b: b("Reshape", "x", b.integers(1, 12)), "joins the inputs"),
    "reshape to another": (lambda b: b("Reshape", "x", b.integers(2, 6)), "does not fit"),
    "reshape to fewer": (lambda b: b("Reshape", "x", b.integers(2, 4)), "does not fit"),
    "reshape to nothing": (lambda b: b("Reshape", "x"), "not understood"),
    "reshape, of one": (lambda b: b("Reshape", "x", b.integers(1, 4)), "joins the inputs"),
    "add more axes": (
        lambda b: b("Add", b("Flatten", "x"), b.constant(HALF[None, None])),
        "treat the 3 inputs",
    ),
    "add nothing": (lambda b: b("Add", "x", ""), "lacks an input"),
    "add a thinner value": (
        lambda b: b("Add", "x", b("Reshape", "x", b.integers(3, 1, 4))),
        "treat the 3 inputs",
    ),
    "from the left": (lambda b: b("MatMul", b.drawn(3, 3), "x"), "treat the 3 inputs"),
    "transpose": (lambda b: b("Transpose", "x", perm=[1, 0]), "treat the 3 inputs"),
    "transpose by default": (lambda b: b("Transpose", "x"), "treat the 3 inputs"),
    "concat of inputs": (lambda b: b("Concat", "x", "x", axis=0), "treat the 3 inputs"),
    "concat from the end": (lambda b: b("Concat", "x", "x", axis=-2), "treat the 3 inputs"),
    "concat beyond": (lambda b: b("Concat", "x", "x", axis=2), "treat the 3 inputs"),
    "shape": (lambda b: b("Reshape", "x", b("Shape", "x")), "treat the 3 inputs"),
    "sum over inputs": (lambda b: b("ReduceSum", "x", b.integers(0)), "treat the 3 inputs"),
    "add a product": (
        lambda b: b("Add", "x", b("MatMul", b.drawn(3, 2), b.drawn(2, 4))),
        "treat the 3 inputs",
    ),
    "gather of features": (
        lambda b: b("Gather", "x", b.integers(0, 1), axis=1),
        "treat the 3 inputs",
    ),
    "gather": (lambda b: b("Gather", "x", b.integers(0), axis=0), "treat the 3 inputs"),
}


@pytest.mark.parametrize("name", ALIKE)
def test_inputs_that_are_treated_alike(name: str) -> None:
    b = Build([SIZE, 4])
    out = ALIKE[name](b)
    data = b.model(out, [SIZE, None])
    network = read_model(data)
    inputs = np.random.default_rng(2).random((2, 4)).astype(np.float32)
    for x, expected in zip(inputs, runtime_scores(data, inputs), strict=True):
        assert scores(network, x) == pytest.approx(expected, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", REFUSED)
def test_inputs_that_may_meet(name: str) -> None:
    case, words = REFUSED[name]
    b = Build([SIZE, 4])
    out = case(b)
    with pytest.raises(Rejected, match=words):
        read_model(b.model(out, [SIZE, None]))


@pytest.mark.parametrize("size", ["batch", 1])
def test_one_input_may_do_as_it_likes(size: object) -> None:
    """Nothing can meet then, and other rules apply."""
    b = Build([size, 4])
    assert read_model(b.model(b("Reshape", "x", b("Shape", "x")), [size, None])).classes == 4


def test_two_inputs() -> None:
    for words, case in (
        ("joins the inputs", lambda b: b("Reshape", "x", b.integers(1, 8))),
        ("treat the 2 inputs", lambda b: b("Transpose", "x", perm=[1, 0])),
    ):
        b = Build([2, 4])
        out = case(b)
        with pytest.raises(Rejected, match=words):
            read_model(b.model(out, [2, None]))
