"""Constants that a model computes from constants: their values to the bit, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vhagar_check.errors import Rejected
from vhagar_check.folding import fold
from vhagar_check.graph import read_graph
from vhagar_check.reading import Product, Reader

from .graphs import Build

Case = Callable[[Build], str]
F32, F64, I32, I64, BOOL = np.float32, np.float64, np.int32, np.int64, np.bool_


def folded(case: Case, opset: int = 18) -> Any:
    """The value of a name, all of whose nodes take only constants or shapes."""
    b = Build(["batch", 2, 3], opset=opset)
    name = case(b)
    reader = Reader(read_graph(b.model(b("Where", name, "x", "x"))))
    for node in reader.graph.nodes[:-1]:
        results = fold(reader, node)
        assert results is not None
        reader.names.update(zip(node.outputs, results, strict=True))
    return reader.names[name]


def of(kind: str, *given: Any, **attributes: Any) -> Case:
    """One node on constants, each with its type: arrays, and lists of whole numbers or floats."""

    def build(b: Build) -> str:
        names = [each if isinstance(each, str) else b.constant(each, _type(each)) for each in given]
        return str(b(kind, *names, **attributes))

    return build


def _type(values: Any) -> Any:
    array = np.asarray(values)
    if isinstance(values, np.ndarray):
        return array.dtype
    return {"i": I64, "b": BOOL}.get(array.dtype.kind, F32)


def third(b: Build) -> str:
    return str(b("Split", b.constant(range(5), I64), axis=0, num_outputs=3, outputs=3)[2])


HALF, TENTH = np.array([0.5, -1.5]), np.array([0.1])
VALUES: dict[str, tuple[Case, Any, Any]] = {
    "shape": (of("Shape", "x"), [1, 2, 3], I64),
    "shape from": (of("Shape", "x", start=1), [2, 3], I64),
    "shape to": (of("Shape", "x", end=-1), [1, 2], I64),
    "size": (of("Size", "x"), 6, I64),
    "size of a constant": (of("Size", [[1, 2]]), 2, I64),
    "identity": (of("Identity", [1, 2]), [1, 2], I64),
    "reshape": (of("Reshape", [1, 2, 3, 4], [2, -1]), [[1, 2], [3, 4]], I64),
    "concat": (of("Concat", [1, 2], [3], axis=0), [1, 2, 3], I64),
    "concat by default": (of("Concat", [[1, 2]], [[3, 4]], axis=0), [[1, 2], [3, 4]], I64),
    "concat beside": (of("Concat", [[1, 2]], [[3]], axis=-1), [[1, 2, 3]], I64),
    "cast to floats": (of("Cast", [1, 2], to=1), [1.0, 2.0], F32),
    "cast to doubles": (of("Cast", [0.5], to=11), [0.5], F64),
    "cast to whole numbers": (of("Cast", [2.0, -3.0], to=7), [2, -3], I64),
    "cast to small whole numbers": (of("Cast", [2.0], to=6), [2], I32),
    "cast of the largest": (of("Cast", [2.0**31 - 128], to=7), [2**31 - 128], I64),
    "cast to truth values": (of("Cast", [0.0, 0.5], to=9), [False, True], BOOL),
    "cast of large whole numbers": (of("Cast", [2**40], to=7), [2**40], I64),
    "cast of large doubles": (of("Cast", np.array([1e300]), to=1), [np.inf], F32),
    "filled": (of("ConstantOfShape", [2, 1]), [[0.0], [0.0]], F32),
    "filled with nothing": (of("ConstantOfShape", [0]), [], F32),
    "sum": (of("Add", [1, 2], [[10], [20]]), [[11, 12], [21, 22]], I64),
    "sum of floats": (of("Add", [0.5], [0.25]), [0.75], F32),
    "sum of doubles": (of("Add", HALF, HALF), [1.0, -3.0], F64),
    "difference": (of("Sub", [1, 2], [10]), [-9, -8], I64),
    "difference of floats": (of("Sub", [0.5, 3.0], [0.25]), [0.25, 2.75], F32),
    "product": (of("Mul", [3, -2], [4]), [12, -8], I64),
    "product of floats": (of("Mul", [0.1], [0.3]), [float(F32(0.1)) * float(F32(0.3))], F64),
    "products, one of them exact": (
        of("Mul", [0.1, 0.5], [0.3, 0.5]),
        [float(F32(0.1)) * float(F32(0.3)), 0.25],
        F64,
    ),
    "quotient": (of("Div", [7, 8, 0], [2]), [3, 4, 0], I64),
    "remainder": (of("Mod", [7, -7, 0], [3]), [1, 2, 0], I64),
    "remainder by 1": (of("Mod", [5], [1]), [0], I64),
    "quotient of floats": (of("Div", [3.0], [4.0]), [0.75], F32),
    "sum of 32 bits": (of("Add", np.array([2**31 - 2], I32), np.array([1], I32)), [2**31 - 1], I32),
    "smallest": (of("Sub", [-(2**62)], [2**62]), [-(2**63)], I64),
    "largest": (of("Add", [2**62], [2**62 - 1]), [2**63 - 1], I64),
    "negative": (of("Neg", [1, -2]), [-1, 2], I64),
    "floor": (of("Floor", [1.5, -1.5]), [1.0, -2.0], F32),
    "ceiling": (of("Ceil", [1.5, -1.5]), [2.0, -1.0], F32),
    "least": (of("Min", [1, 5], [4], [3]), [1, 3], I64),
    "most": (of("Max", [1, 5], [4], [3]), [4, 5], I64),
    "equal": (of("Equal", [1, 2], [2]), [False, True], BOOL),
    "greater": (of("Greater", [1, 2, 3], [2]), [False, False, True], BOOL),
    "greater or equal": (of("GreaterOrEqual", [1, 2, 3], [2]), [False, True, True], BOOL),
    "less": (of("Less", [1, 2, 3], [2]), [True, False, False], BOOL),
    "less or equal": (of("LessOrEqual", [1, 2, 3], [2]), [True, True, False], BOOL),
    "not": (of("Not", [True, False]), [False, True], BOOL),
    "where": (of("Where", [True, False], [1, 2], [3, 4]), [1, 4], I64),
    "range": (of("Range", 1, 7, 2), [1, 3, 5], I64),
    "short range": (of("Range", *map(np.array, I32([1, 7, 2]))), [1, 3, 5], I32),
    "range down": (of("Range", 3, 0, -1), [3, 2, 1], I64),
    "no range": (of("Range", 3, 0, 1), [], I64),
    "gather": (of("Gather", [5, 6, 7], [2, -3]), [7, 5], I64),
    "slice": (of("Slice", [5, 6, 7, 8], [3], [-5], [0], [-2]), [8, 6], I64),
    "third part": (third, [4], I64),
    "unsqueeze": (of("Unsqueeze", [5, 6], [0]), [[5, 6]], I64),
    "squeeze": (of("Squeeze", [[5, 6]]), [5, 6], I64),
    "transpose": (of("Transpose", [[5, 6], [7, 8]]), [[5, 7], [6, 8]], I64),
    "expand": (of("Expand", [5], [2]), [5, 5], I64),
    "tile": (of("Tile", [5, 6], [2]), [5, 6, 5, 6], I64),
}


@pytest.mark.parametrize("name", VALUES)
def test_what_is_computed(name: str) -> None:
    case, expected, kind = VALUES[name]
    found = folded(case)
    assert found.dtype == kind
    assert found.shape == np.shape(expected)
    assert found.tolist() == expected


def test_a_product_of_matrices_is_its_factors() -> None:
    left, middle, right = np.ones((2, 3), F32), np.full((3, 1), 0.1, F32), np.ones((1, 2))
    product = folded(lambda b: b("MatMul", of("MatMul", left, middle)(b), b.constant(right, F64)))
    assert isinstance(product, Product)
    assert [factor.tolist() for factor in product.factors] == [
        part.tolist() for part in (left, middle.astype(F64), right)
    ]


def test_filled_with_a_number() -> None:
    from onnx import numpy_helper

    def filled(values: list[int]) -> Any:
        value = numpy_helper.from_array(np.array(values, I64))
        return folded(lambda b: b("ConstantOfShape", b.integers(2), value=value))

    assert (filled([7]).tolist(), filled([7]).dtype) == ([7, 7], I64)
    with pytest.raises(Rejected, match="several numbers"):
        filled([7, 8])


WRONG: dict[str, tuple[Case, str]] = {
    "shape of two": (of("Shape", [1], [2]), "several values"),
    "shape: another": (of("Shape", [1], mode=1), "not understood"),
    "identity: another": (of("Identity", [1], mode=1), "not understood"),
    "concat of types": (of("Concat", [1], [1.0], axis=0), "different types"),
    "concat beyond": (of("Concat", [1], [2], axis=1), "is about axis 1 of 1"),
    "concat: another": (of("Concat", [1], [2], axis=0, mode=1), "not understood"),
    "cast to texts": (of("Cast", [1], to=8), "not understood"),
    "cast of two": (of("Cast", [1], [2], to=1), "does not have 1 inputs"),
    "cast of a part": (of("Cast", [1.5], to=7), "cuts off"),
    "cast of too much": (of("Cast", [2.0**31], to=7), "cuts off"),
    "cast of too little": (of("Cast", [-(2.0**31)], to=6), "cuts off"),
    "filled: a negative size": (of("ConstantOfShape", [-1]), "has no shape"),
    "filled: a shape of floats": (of("ConstantOfShape", [1.0]), "constant integers"),
    "filled: another": (of("ConstantOfShape", [1], mode=1), "not understood"),
    "filled: too much": (of("ConstantOfShape", [2**12, 2**12]), "too large"),
    "sum of three": (of("Add", [1], [2], [3]), "does not have 2 inputs"),
    "sum of types": (of("Add", [1], [2.0]), "type that is not understood"),
    "sum of the other types": (of("Add", [1.0], [2]), "type that is not understood"),
    "sum of truth values": (of("Add", [True], [True]), "type that is not understood"),
    "sum that does not fit": (of("Add", [1, 2], [1, 2, 3]), "another shape"),
    "sum: another": (of("Add", [1], [2], mode=1), "not understood"),
    "sum that is rounded": (of("Add", [1e30], [1.0]), "exactly"),
    "sum that is rounded, turned": (of("Add", [1.0], [1e30]), "exactly"),
    "difference that is rounded": (of("Sub", [1e30], [1.0]), "exactly"),
    "sum that overflows": (of("Add", np.array([1.7e308]), np.array([1e308])), "exactly"),
    "sum of infinities": (of("Add", [np.inf], [1.0]), "exactly"),
    "product of doubles": (of("Mul", TENTH, [0.5]), "exactly"),
    "product with doubles": (of("Mul", [0.5], TENTH), "exactly"),
    "product of infinities": (of("Mul", [np.inf], [2.0]), "exactly"),
    "quotient that is rounded": (of("Div", [1.0], [3.0]), "exactly"),
    "quotient of doubles": (of("Div", TENTH, [2.0]), "exactly"),
    "quotient that single precision lacks": (of("Div", [1.0 + 2.0**-23], [2.0**127]), "exactly"),
    "quotient by 0": (of("Div", [1.0], [0.0]), "exactly"),
    "remainder by 0": (of("Mod", [1], [0]), "not positive"),
    "remainder by a negative": (of("Mod", [1], [-2]), "not positive"),
    "one remainder by 0": (of("Mod", [1], [2, 0]), "not positive"),
    "remainder of floats": (of("Mod", [3.0], [2.0]), "type that is not understood"),
    "whole quotient by 0": (of("Div", [1], [0]), "not positive"),
    "whole quotient of a negative": (of("Div", [-1], [2]), "not positive"),
    "whole quotient by a negative": (of("Div", [1], [-2]), "not positive"),
    "sum too large": (of("Add", [2**62], [2**62]), "too large"),
    "sum of 32 bits too large": (
        of("Add", np.array([2**31 - 1], I32), np.array([1], I32)),
        "too large",
    ),
    "difference of 32 bits too small": (
        of("Sub", np.array([-(2**31)], I32), np.array([1], I32)),
        "too large",
    ),
    "sum of whole numbers of two types": (
        of("Add", np.array([1], I32), [1]),
        "whole numbers of different types",
    ),
    "difference too small": (of("Sub", [-(2**63)], [1]), "too large"),
    "negative: another": (of("Neg", [1], mode=1), "not understood"),
    "floor of two": (of("Floor", [1.0], [2.0]), "does not have 1 inputs"),
    "floor: another": (of("Floor", [1.0], mode=1), "not understood"),
    "least of types": (of("Min", [1], [1.0]), "different types"),
    "least that does not fit": (of("Min", [1, 2], [1, 2, 3]), "another shape"),
    "least: another": (of("Min", [1], [2], mode=1), "not understood"),
    "equal of three": (of("Equal", [1], [2], [3]), "does not have 2 inputs"),
    "equal that does not fit": (of("Equal", [1, 2], [1, 2, 3]), "another shape"),
    "equal: another": (of("Equal", [1], [2], mode=1), "not understood"),
    "greater of types": (of("Greater", [1], [1.0]), "different types"),
    "greater of three": (of("Greater", [1], [1], [1]), "does not have 2 inputs"),
    "greater that does not fit": (of("Greater", [1, 2], [1, 2, 3]), "another shape"),
    "greater: another": (of("Greater", [1], [2], mode=1), "not understood"),
    "not of two": (of("Not", [True], [True]), "does not have 1 inputs"),
    "not of a number": (of("Not", [1]), "no truth value"),
    "not: another": (of("Not", [True], mode=1), "not understood"),
    "where of two": (of("Where", [True], [1]), "does not have 3 inputs"),
    "where of numbers": (of("Where", [1], [1], [1]), "different types"),
    "where of types": (of("Where", [True], [1], [1.0]), "different types"),
    "where that does not fit": (of("Where", [True], [1, 2], [1, 2, 3]), "another shape"),
    "where: another": (of("Where", [True], [1], [2], mode=1), "not understood"),
    "range of floats": (of("Range", 1.0, 2.0, 1.0), "constant integers"),
    "range of two types": (of("Range", np.array(1, I32), 2, 1), "of different types"),
    "range of two": (of("Range", 1, 2), "range of whole numbers"),
    "range of many": (of("Range", [1, 2], 2, 1), "range of whole numbers"),
    "range without a step": (of("Range", 1, 2, 0), "range of whole numbers"),
    "range too long": (of("Range", 0, 2**40, 1), "too large"),
    "range: another": (of("Range", 1, 2, 1, mode=1), "not understood"),
    "product of a vector": (of("MatMul", [[1.0, 2.0]], [1.0, 2.0]), "two matrices"),
    "product of three": (of("MatMul", [[1.0]], [[1.0]], [[1.0]]), "two matrices"),
    "product that does not fit": (of("MatMul", [[1.0, 2.0]], [[1.0, 2.0]]), "do not fit"),
    "product of whole numbers": (of("MatMul", [[1]], [[1]]), "float constants"),
    "product: another": (of("MatMul", [[1.0]], [[1.0]], mode=1), "not understood"),
    "quotient of a product": (
        of("Div", np.array([float(F32(0.1)) * float(F32(0.3))]), [0.3]),
        "exactly",
    ),
    "one sum that is rounded": (of("Add", [1e30, 1.0], [1.0, 1.0]), "exactly"),
    "one product of doubles": (of("Mul", np.array([0.5, 0.1]), [0.5]), "exactly"),
    "one product that is infinite": (of("Mul", [np.inf, 1.0], [2.0]), "exactly"),
    "one quotient that is rounded": (of("Div", [3.0, 1.0], [4.0, 3.0]), "exactly"),
    "one whole quotient by 0": (of("Div", [1, 2], [1, 0]), "not positive"),
    "one whole quotient of a negative": (of("Div", [1, -1], [2]), "not positive"),
    "one whole quotient by a negative": (of("Div", [1], [2, -2]), "not positive"),
    "one sum too large": (of("Add", [2**62, 1], [2**62, 1]), "too large"),
    "cast of one part": (of("Cast", [1.0, 1.5], to=7), "cuts off"),
    "filled: one negative size": (of("ConstantOfShape", [2, -1]), "has no shape"),
    "a table too large": (
        of("Add", np.zeros((2**11, 1), I64), np.zeros((1, 2**12), I64)),
        "too large",
    ),
    "parts too large": (
        lambda b: b("Concat", *[b("ConstantOfShape", b.integers(2**21))] * 3, axis=0),
        "too large",
    ),
    "product of three that does not fit": (
        lambda b: b("MatMul", of("MatMul", [[1.0, 2.0]], [[1.0], [1.0]])(b), b.drawn(2, 1)),
        "do not fit",
    ),
    "gather beyond": (of("Gather", [5, 6], [2]), "that there are not"),
    "reshape to more": (of("Reshape", [5, 6], [3]), "does not fit"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name: str) -> None:
    case, words = WRONG[name]
    with pytest.raises(Rejected, match=words):
        folded(case)


def test_what_is_not_folded() -> None:
    """A value, or an operator that is not known here, is left to others."""
    for case in (
        of("Neg", "x"),
        of("Sqrt", [4.0]),
        of("Add", "x", [1.0]),
        of("MatMul", "x", [[1.0], [2.0], [3.0]]),
        of("MatMul", [[1.0, 2.0]], "x"),
        of("Gather", "", [1]),
    ):
        b = Build(["batch", 2, 3])
        (node,) = (reader := Reader(read_graph(b.model(case(b))))).graph.nodes
        assert fold(reader, node) is None
