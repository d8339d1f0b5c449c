"""Linear operators: read as a runtime computes them, or refused if one thing is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar_check.joined import Pick
from vhagar_check.layers import Dense
from vhagar_check.model import read_model

from .forms import IMAGE, ROWS, Form, doubles, f32, no, node, yes
from .graphs import Build


def _in_doubles(b: Build) -> str:
    return str(b("Gemm", b("Cast", "x", to=11), b.constant(doubles(6, 3), np.float64)))


FORMS: dict[str, Form] = {
    "gemm: three dimensions": no("vector by a matrix", node("Gemm", f32(1, 6, 3))),
    "gemm: turned input": no("vector by a matrix", node("Gemm", f32(6, 3), transA=1)),
    "gemm: rows": no("vector by a matrix", node("Gemm", f32(5, 3)), shape=ROWS),
    "gemm: a short bias": no("bias of another size", node("Gemm", f32(6, 3), f32(2))),
    "gemm: a tall bias": no("bias of another size", node("Gemm", f32(6, 3), f32(3, 1))),
    "gemm: a wide bias": no("bias of another size", node("Gemm", f32(6, 1), f32(3))),
    "gemm: alpha": no("double precision", node("Gemm", doubles(6, 3), alpha=2.0)),
    "gemm: beta": no("double precision", node("Gemm", f32(6, 3), doubles(3), beta=2.0)),
    "gemm: inf": no("double precision", node("Gemm", f32(6, 3), alpha=float("inf"))),
    "gemm: another": no("not understood", node("Gemm", f32(6, 3), gamma=1.0)),
    "gemm: nothing": no("empty matrix", node("Gemm", f32(6, 0))),
    "gemm: misfit": no("does not fit", node("Gemm", f32(5, 3))),
    "matmul: three dimensions": no("vector by a matrix", node("MatMul", f32(1, 6, 3))),
    "matmul: another": no("not understood", node("MatMul", f32(6, 3), alpha=1.0)),
    "matmul: misfit": no("does not fit", node("MatMul", f32(5, 3))),
    "matmul: nothing": no("vector by a matrix", node("MatMul", f32(6, 0))),
    "matmul: rows misfit": no("does not fit", node("MatMul", f32(2, 3)), shape=ROWS),
    "matmul: left of a vector": no("vector by", node("MatMul", f32(3, 6), first=True)),
    "matmul: left misfit": no("does not fit", node("MatMul", f32(3, 5), first=True), shape=ROWS),
    "matmul: left stack": no("vector by", node("MatMul", f32(1, 3, 2), first=True), shape=ROWS),
    "matmul: left nothing": no("vector by", node("MatMul", f32(0, 2), first=True), shape=ROWS),
    "matmul: vectors": no("vector by a matrix", node("MatMul", f32(6)), shape=[6]),
    "matmul: left vectors": no("vector by a matrix", node("MatMul", f32(6), first=True), shape=[6]),
    "matmul: itself": no("float constants", lambda b: b("MatMul", "x", "x")),
    "add: three": no("two inputs", node("Add", f32(6), f32(6))),
    "add: one": no("two inputs", node("Add")),
    "add: none": no("lacks an input", lambda b: b("Add", "x", "")),
    "add: more inputs": no("batch dimension", node("Add", f32(3, 6))),
    "add: more axes": no("batch dimension", node("Add", f32(2, 1, 6))),
    "add: misfit": no("another shape", node("Add", f32(5))),
    "add: whole numbers": no("finite float constants", node("Add", [1])),
    "add: infinity": no("finite float constants", node("Add", [float("inf")])),
    "add: nothing": no("makes an empty value", node("Add", f32(0, 6))),
    "add: another": no("not understood", node("Add", f32(6), axis=1)),
    "mul: itself": no("not linear", lambda b: b("Mul", "x", b("Neg", "x"))),
    "div: itself": no("not linear", lambda b: b("Div", "x", b("Neg", "x"))),
    "div: reversed": no("by its input or by zero", node("Div", f32(6), first=True)),
    "div: by 0": no("by its input or by zero", node("Div", [1.0, 1, 1, 0, 1, 1])),
    "sum: misfit": no("another shape", node("Sum", f32(6), f32(5))),
    "sum: more inputs": no("batch dimension", node("Sum", f32(2, 6))),
    "sum: another": no("not understood", node("Sum", f32(6), axis=1)),
    "sum: whole numbers": no("finite float constants", node("Sum", [1])),
    "neg: another": no("not understood", node("Neg", axis=1)),
    "normalisation: training": no(
        "training mode",
        node("BatchNormalization", *[[1.0, 1.0]] * 4, training_mode=1),
        shape=IMAGE,
        opset=14,
    ),
    "normalisation: each pixel": no(
        "not per channel",
        node("BatchNormalization", *[[1.0, 1.0]] * 4, spatial=0),
        shape=IMAGE,
        opset=8,
    ),
    "normalisation: three channels": no(
        "four numbers", node("BatchNormalization", *[[1.0, 1.0]] * 3, [1.0] * 3), shape=IMAGE
    ),
    "normalisation: one number": no(
        "four numbers", node("BatchNormalization", [1.0], *[[1.0, 1.0]] * 3), shape=IMAGE
    ),
    "normalisation: no variance": no(
        "variance",
        node("BatchNormalization", *[[1.0, 1.0]] * 3, [0.0, 1.0], epsilon=0.0),
        shape=IMAGE,
    ),
    "normalisation: another": no(
        "not understood", node("BatchNormalization", *[[1.0, 1.0]] * 4, axis=1), shape=IMAGE
    ),
    "concat: the batch": no("do not fit", node("Concat", f32(1, 6), axis=0)),
    "concat: the batch from the end": no("do not", node("Concat", f32(1, 6), axis=-2)),
    "concat: misfit": no("do not fit", node("Concat", f32(1, 3, 4), axis=1), shape=ROWS),
    "concat: another rank": no("do not fit", node("Concat", f32(1, 5), axis=1), shape=ROWS),
    "concat: beyond": no("is about axis 2 of 2", node("Concat", f32(1, 6), axis=2)),
    "concat: before": no("is about axis -3 of 2", node("Concat", f32(1, 6), axis=-3)),
    "concat: whole numbers": no("float constants as its", node("Concat", [[1]], axis=1)),
    "concat: infinity": no("constants as its input 2", node("Concat", [[np.inf]], axis=1)),
    "concat: another": no("not understood", node("Concat", f32(1, 6), axis=1, mode=1)),
    "concat: nothing": no("lacks an input", lambda b: b("Concat", "x", "", axis=1)),
    "where: whole numbers": no(
        "constant condition",
        lambda b: b("Where", b.integers(1, 0, 1, 1, 1, 1), "x", b.constant(0.0)),
    ),
    "where: a value": no("constant condition", lambda b: b("Where", "x", "x", b.constant(0.0))),
    "where: two": no("constant condition", lambda b: b("Where", b.constant([True], np.bool_), "x")),
    "where: more inputs": no(
        "batch dimension",
        lambda b: b("Where", b.constant(np.ones((2, 6)), np.bool_), "x", b.constant(0.0)),
    ),
    "where: another": no(
        "not understood",
        lambda b: b("Where", b.constant([True], np.bool_), "x", b.constant(0.0), axis=1),
    ),
    "pad: the batch": no("batch dimension", node("Pad", [1, 0, 0, 0])),
    "pad: too few": no("pads that do not fit", node("Pad", [0, 1])),
    "pad: too many": no("pads that do not fit", node("Pad", [0, 1, 0, 1, 0])),
    "pad: none": no("pads that do not fit", node("Pad")),
    "pad: an axis twice": no(
        "pads that do not fit", node("Pad", [1, 1, 1, 1], "", [1, -1]), opset=18
    ),
    "pad: an axis beyond": no("is about axis 2 of 2", node("Pad", [1, 1], "", [2]), opset=18),
    "pad: with infinity": no("not finite", node("Pad", [0, 1, 0, 1], np.inf)),
    "pad: with NaN": no("not a number", node("Pad", [0, 1, 0, 1], np.nan)),
    "pad: with NaN as attribute": no("finite", node("Pad", pads=[0, 1] * 2, value=np.nan), opset=8),
    "pad: with two numbers": no("constant number", node("Pad", [0, 1] * 2, [1.0, 2.0])),
    "pad: with a whole number": no("constant number", node("Pad", [0, 1] * 2, [1])),
    "pad: all cut off": no("empty value", node("Pad", [0, -3, 0, -3])),
    "pad: more cut off": no("empty value", node("Pad", [0, -8, 0, 1])),
    "pad: reflected": no("there is inside", node("Pad", [0, 6, 0, 0], mode="reflect")),
    "pad: reflected behind": no("is inside", node("Pad", [0, 0, 0, 6], mode="reflect")),
    "pad: edge cut off": no("is inside", node("Pad", [0, -1, 0, 0], mode="edge")),
    "pad: floats": no("constant integers", node("Pad", [0.0, 1.0, 0.0, 1.0])),
    "pad: a table": no("constant integers", node("Pad", [[0, 1], [0, 1]])),
    "pad: another": no("not understood", node("Pad", [0, 1, 0, 1], axis=1)),
    "gemm: one bias for all": yes(node("Gemm", f32(6, 3), f32(1))),
    "gemm: a number as bias": yes(node("Gemm", f32(6, 3), 0.25)),
    "gemm: a flat bias": yes(node("Gemm", f32(6, 3), f32(1, 3))),
    "gemm: no bias": yes(node("Gemm", f32(6, 3), "")),
    "gemm: both factors": yes(node("Gemm", f32(6, 3), f32(3), alpha=0.3, beta=-1.7)),
    "gemm: turned": yes(node("Gemm", f32(3, 6), f32(3), transB=1, beta=0.3)),
    "matmul: a vector": yes(node("MatMul", f32(5)), shape=ROWS),
    "matmul: a vector of one row": yes(
        lambda b: b(
            "Concat",
            "x",
            b("Unsqueeze", b("MatMul", "x", b.constant(f32(6))), b.integers(1)),
            axis=1,
        )
    ),
    "matmul: rows": yes(node("MatMul", f32(5, 3)), shape=ROWS),
    "matmul: left of rows": yes(node("MatMul", f32(3, 2), first=True), shape=ROWS),
    "matmul: a vector left of rows": yes(node("MatMul", f32(2), first=True), shape=ROWS),
    "matmul: left of an image": yes(node("MatMul", f32(3, 4), first=True), shape=IMAGE),
    "matmul: without a batch": yes(node("MatMul", f32(6, 3)), shape=[6]),
    "matmul: left without a batch": yes(node("MatMul", f32(3, 6), first=True), shape=[6]),
    "matmul: factors": yes(lambda b: b("MatMul", "x", b("MatMul", b.drawn(6, 2), b.drawn(2, 3)))),
    "add: a vector": yes(node("Add", f32(6)), shape=[6]),
    "sub: reversed": yes(node("Sub", f32(6), first=True)),
    "sub: rows": yes(lambda b: b("Sub", "x", b("ReduceMean", "x", axes=[2])), shape=ROWS),
    "mul: wider": yes(lambda b: b("Mul", b("ReduceMean", "x", axes=[2]), b.drawn(5)), shape=ROWS),
    "sum: constants first": yes(lambda b: b("Sum", b.drawn(6), "x", b.drawn(1, 6), "x")),
    "mean": yes(lambda b: b("Mean", b.drawn(6), "x", "x")),
    "where: both": yes(
        lambda b: b("Where", b.constant([1, 0, 1, 0, 0, 1], np.bool_), "x", b("Neg", "x"))
    ),
    "where: a constant": yes(
        lambda b: b("Where", b.constant([1, 0, 1, 0, 0, 1], np.bool_), b.drawn(6), "x")
    ),
    "concat: from the end": yes(node("Concat", f32(1, 2, 3), axis=-1), shape=ROWS),
    "pad: in front": yes(node("Pad", [0, 1, 2, 0, 0, 1], 0.75), shape=ROWS),
    "pad: cut off": yes(node("Pad", [0, -1, 1, 0, 0, -2]), shape=ROWS),
    "pad: reflected within": yes(node("Pad", [0, 0, 4, 0, 1, 4], mode="reflect"), shape=ROWS),
    "pad: wrapped": yes(node("Pad", [0, 1, 2, 0, 0, 1], mode="wrap"), shape=ROWS, opset=19),
    "pad: the edge": yes(node("Pad", [0, 1, 2, 0, 1, 3], mode="edge"), shape=ROWS),
    "normalisation: its own epsilon": yes(
        node("BatchNormalization", f32(2), f32(2), f32(2), [1e-05, 0.5]), shape=IMAGE
    ),
    "gemm: one float of two": no(
        "double precision", node("Gemm", np.array([[0.5, 0.1]] * 6), alpha=2.0)
    ),
    "gemm: doubles": yes(lambda b: b("Gemm", "x", b("Cast", b.drawn(6, 3), to=1))),
    "gemm: one weight": yes(lambda b: b("Add", "x", b("Gemm", "x", b.drawn(6, 1)))),
    "gemm: a bias and a number": yes(node("Gemm", f32(6, 3), 0.25, beta=0.5)),
    "matmul: one by one": yes(
        lambda b: b("MatMul", b("Unsqueeze", "x", b.integers(2)), b.drawn(1, 3))
    ),
    "matmul: one row": yes(node("MatMul", f32(5, 3)), shape=["batch", 1, 5]),
    "matmul: without a batch, three dimensions": no(
        "vector by", node("MatMul", f32(1, 3, 6), first=True), shape=[6]
    ),
    "matmul: on rows without a batch": no(
        "does not fit", node("MatMul", f32(3, 5), first=True), [6]
    ),
    "matmul: many rows": no(
        "too large", lambda b: b("MatMul", "x", b.constant(np.zeros((1, 64)))), ["batch", 2**17, 1]
    ),
    "matmul: many weights": no(
        "too large",
        lambda b: b("MatMul", b.constant(np.zeros((64, 64))), "x"),
        ["batch", 2**11, 64, 1],
    ),
    "gemm: in doubles": yes(lambda b: b("Cast", _in_doubles(b), to=1)),
    "gemm: one number": yes(
        lambda b: b("Concat", "x", b("Gemm", "x", b.drawn(1, 1)), axis=1), ["batch", 1]
    ),
    "matmul: alone": no("float constants", node("MatMul")),
    "matmul: left of one row without a batch": no(
        "vector by", lambda b: b("MatMul", b.drawn(3, 6), b("Unsqueeze", "x", b.integers(0))), [6]
    ),
    "matmul: left without a batch, and more": yes(
        lambda b: b("Add", b("MatMul", b.drawn(3, 6), "x"), b.drawn(3)), [6]
    ),
    "concat: alone": yes(node("Concat", axis=1)),
    "div": yes(node("Div", [3.0, 7, -9, 11, 13, 0.5])),
    "mul": yes(node("Mul", f32(6))),
    "sub": yes(node("Sub", f32(6))),
    "add: both": yes(lambda b: b("Add", b("Neg", "x"), b("Gemm", "x", b.drawn(6, 6)))),
    "sub: both": yes(lambda b: b("Sub", b("Neg", "x"), b("Gemm", "x", b.drawn(6, 6)))),
    "normalisation: of vectors": yes(
        node("BatchNormalization", *[f32(6)] * 3, np.full(6, 0.5, np.float32))
    ),
    "normalisation: of one number": no(
        "four numbers", node("BatchNormalization", *[[1.0]] * 4), [6]
    ),
    "normalisation: per channel": yes(
        node("BatchNormalization", f32(2), f32(2), f32(2), [0.5, 0.25], spatial=1), IMAGE, 8
    ),
    "concat: three": yes(
        lambda b: b("Concat", b.drawn(1, 2, 1), "x", b("Neg", "x"), axis=2), shape=ROWS
    ),
    "concat: channels": yes(
        lambda b: b("Concat", "x", b.drawn(1, 1, 4, 4), "x", axis=1), shape=IMAGE
    ),
    "concat: one infinity": no("constants", node("Concat", [[np.inf, 0.0]], axis=1)),
    "concat: far too large": no(
        "too large", lambda b: b("Concat", "x", "x", "x", axis=1), ["batch", 2**21]
    ),
    "where: both are constants": no(
        "constant condition", lambda b: b("Where", "x", b.drawn(6), b.drawn(6))
    ),
    "where: smaller": yes(
        lambda b: b("Where", b.constant([[1], [0]], np.bool_), "x", b("ReduceMean", "x", axes=[1])),
        ROWS,
    ),
    "where: of rows": yes(
        lambda b: b("Where", b.constant([[1], [0]], np.bool_), b("ReduceMean", "x", axes=[2]), "x"),
        ROWS,
    ),
    "pad: anyhow": no("anyhow", node("Pad", [0, 1, 0, 1], mode="anyhow")),
    "pad: channels": yes(node("Pad", [0, 1, 0, 2, 0, 0, 1, 0], 0.5), IMAGE),
    "pad: by an empty number": yes(node("Pad", [0, 1, 0, 2], "")),
    "pad: far too large": no("too large", node("Pad", [0, 2**22, 0, 0])),
    "pad: large and cut off": no("too large", node("Pad", [0, 2**23, 0, -(2**23)])),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    FORMS[name].judge()


@pytest.mark.parametrize(("rows", "layer"), [(1, Dense), (2, Pick)])
def test_one_row_is_a_vector(rows: int, layer: type) -> None:
    b = Build(["batch", rows, 5])
    network = read_model(b.model(b("Flatten", b("MatMul", "x", b.drawn(5, 3)))))
    assert isinstance(network.stages[0][0], layer)
