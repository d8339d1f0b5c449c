"""Fold constants that are computed from constants, as exporters compute shapes.

Whole numbers and selections are exact. Floats are added and multiplied only if the result is exact
in float64, and refused otherwise: a network's weights are exactly what the file says. A runtime
may round such a result to the file's precision, which must not decide anything: a comparison, a
floor or a cast to whole numbers of what may be rounded is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from itertools import pairwise

import numpy as np

from vhagar_check.graph import Constant, Node
from vhagar_check.layers import Floats
from vhagar_check.reading import Product, Reader, Result, Wire, axis_of, checked
from vhagar_check.roundings import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    INTEGER,
    has_known_floor,
    is_rounded,
    jumps,
    note_rounded,
    takes_rounded,
)
from vhagar_check.selections import SELECTIONS, new_shape

_CASTS = {
    FLOAT: np.float32,
    DOUBLE: np.float64,
    INTEGER: np.int64,
    BOOL: np.bool_,
    INT32: np.int32,
}


def fold(reader: Reader, node: Node) -> list[Constant | Product] | None:
    """Evaluate a node that takes only constants; None if it does not, or is unknown."""
    if node.kind == "Constant":
        if node.holds_half():
            reader.halves.update(filter(None, node.outputs))
            reader.rounded.update(filter(None, node.outputs))
        return [node.constant()]
    if node.kind in ("Shape", "Size"):
        return [_shape(reader, node)]
    values = [reader.names.get(name) for name in node.inputs]
    if node.kind == "MatMul" and not any(isinstance(value, Wire) for value in values):
        return [_product(reader, node)]
    given = [] if reader.takes_special(node) else _all_inputs(reader, node)
    if not given or any(isinstance(item, Wire) for item in given):
        return None
    from_rounded = takes_rounded(reader, node)
    if has_known_floor(reader, node):
        return [_floor(reader, node).astype(np.float32)]
    if from_rounded and jumps(node):
        raise node.refused("decides by a constant that runtimes may round")
    found = _folded(reader, node, given)
    if from_rounded or (found is not None and is_rounded(node, given, found)):
        note_rounded(reader, node, from_rounded)
    return found


def _all_inputs(reader: Reader, node: Node) -> list[Result | None]:
    return [reader.given(node, k) for k in range(len(node.inputs))]


def _folded(
    reader: Reader, node: Node, given: list[Result | None]
) -> list[Constant | Product] | None:
    if node.kind in _FOLDS:
        return [_FOLDS[node.kind](reader, node)]
    if node.kind in SELECTIONS and isinstance(given[0], np.ndarray):
        source = given[0]
        positions = np.arange(source.size).reshape(source.shape)
        tables = SELECTIONS[node.kind](reader, node, positions)
        return [np.asarray(source.reshape(-1)[table]) for table in tables]
    return None


def _product(reader: Reader, node: Node) -> Product:
    """Keep a product as its factors, which are exact, for the node that takes it."""
    node.only()
    factors: list[Floats] = []
    for k in (0, 1):
        product = reader.product(node, k)
        factors += [reader.floats(node, k)] if product is None else product.factors
    shapes = [factor.shape for factor in factors]
    if len(node.inputs) != 2 or any(len(shape) != 2 for shape in shapes):
        raise node.refused("multiplies constants that are not two matrices")
    if any(left[1] != right[0] for left, right in pairwise(shapes)):
        raise node.refused("multiplies matrices that do not fit")
    return Product(tuple(factors))


def _shape(reader: Reader, node: Node) -> Constant:
    node.only("start", "end")
    given = reader.all_given(node)
    if len(given) != 1:
        raise node.refused("is about several values")
    item = given[0]
    if node.kind == "Size":
        return np.array(math.prod(item.shape), dtype=np.int64)
    part = slice(node.integer("start", 0), node.integer("end", len(item.shape)))
    return np.array(item.shape[part], dtype=np.int64)


def _constants(reader: Reader, node: Node, count: int | None = None) -> list[Constant]:
    found = [item for item in reader.all_given(node) if isinstance(item, np.ndarray)]
    if count is not None and len(found) != count:
        raise node.refused(f"does not have {count} inputs")
    return found


def _identity(reader: Reader, node: Node) -> Constant:
    node.only()
    return _constants(reader, node)[0]


def _reshape(reader: Reader, node: Node) -> Constant:
    value = _constants(reader, node)[0]
    return value.reshape(new_shape(reader, node, value.shape))


def _concat(reader: Reader, node: Node) -> Constant:
    node.only("axis")
    parts = _constants(reader, node)
    checked(node, (sum(max(part.size, 1) for part in parts),), reader)
    if len({part.dtype for part in parts}) != 1:
        raise node.refused("joins constants of different types")
    return np.concatenate(parts, axis_of(node, node.integer("axis", 0), parts[0].ndim))


def _cast(reader: Reader, node: Node) -> Constant:
    kind, (value,) = node.cast_to(), _constants(reader, node, 1)
    if kind not in _CASTS:
        raise node.refused("is to a type that is not understood")
    to_whole = value.dtype.kind == "f" and kind in (INTEGER, INT32)
    if to_whole and not ((value == np.floor(value)) & (abs(value) < 2**31)).all():
        raise node.refused("cuts off parts of numbers")
    with np.errstate(over="ignore"):
        return value.astype(_CASTS[kind])


def _filled(reader: Reader, node: Node) -> Constant:
    node.only("value")
    shape = reader.integers(node, "shape", 0)
    if shape is None or any(size < 0 for size in shape):
        raise node.refused("has no shape")
    given = node.tensor("value")
    value = np.zeros(1, dtype=np.float32) if given is None else given
    if value.size != 1:
        raise node.refused("is filled with several numbers")
    checked(node, (max(1, math.prod(shape)),), reader)
    return np.full(shape, value.reshape(()), dtype=value.dtype)


def _arithmetic(reader: Reader, node: Node) -> Constant:
    node.only()
    left, right = _constants(reader, node, 2)
    shape = reader.joint_shape(node, [left, right])
    checked(node, (max(1, math.prod(shape)),), reader)
    if left.dtype.kind == right.dtype.kind == "i":
        return _whole(node, left, right)
    if left.dtype.kind != "f" or right.dtype.kind != "f" or node.kind == "Mod":
        raise node.refused("computes a constant of a type that is not understood")
    found = _exact(node, left.astype(np.float64), right.astype(np.float64))
    with np.errstate(over="ignore"):
        short = found.astype(np.float32)
    single = left.dtype == right.dtype == np.float32 and (short == found).all()
    return short if single else found


def _whole(node: Node, left: Constant, right: Constant) -> Constant:
    if left.dtype != right.dtype:
        raise node.refused("computes with whole numbers of different types")
    kind = np.iinfo(left.dtype)
    a, b = left.astype(object), right.astype(object)
    if node.kind == "Div":
        if (right == 0).any() or (left < 0).any() or (right < 0).any():
            raise node.refused("divides whole numbers that are not positive")
        found = a // b
    elif node.kind == "Mod":
        if (right <= 0).any():
            raise node.refused("takes the remainder by a number that is not positive")
        found = a % b
    else:
        found = {"Add": a + b, "Sub": a - b, "Mul": a * b}[node.kind]
    # Beyond its type a runtime's number begins again at the other end.
    if not all(kind.min <= number <= kind.max for number in np.ravel(found).tolist()):
        raise node.refused("computes a whole number that is too large")
    return np.asarray(found, dtype=object).astype(left.dtype)


def _exact(node: Node, a: Constant, b: Constant) -> Constant:
    """The result of an operation, refused unless float64 holds it exactly."""
    with np.errstate(all="ignore"):
        single = all((part.astype(np.float32) == part).all() for part in (a, b))
        if node.kind in ("Add", "Sub"):
            b = b if node.kind == "Add" else -b
            found = a + b
            back = found - a
            right = ((a - (found - back)) + (b - back) == 0).all()
        elif node.kind == "Mul":
            found, right = a * b, single
        else:
            found = a / b
            right = single and (found.astype(np.float32) == found).all() and (found * b == a).all()
    if not right or not np.isfinite(found).all():
        raise node.refused("computes constants that float64 does not hold exactly")
    return np.asarray(found)


def _negative(reader: Reader, node: Node) -> Constant:
    node.only()
    return np.asarray(-_constants(reader, node)[0])


def _floor(reader: Reader, node: Node) -> Constant:
    node.only()
    (value,) = _constants(reader, node, 1)
    return np.asarray(np.floor(value) if node.kind == "Floor" else np.ceil(value))


def _extreme(reader: Reader, node: Node) -> Constant:
    node.only()
    parts = _constants(reader, node)
    reader.flow.budget.spend(math.prod(reader.joint_shape(node, list(parts))))
    if len({part.dtype for part in parts}) != 1:
        raise node.refused("compares constants of different types")
    function = np.minimum if node.kind == "Min" else np.maximum
    return np.asarray(reduce(function, parts))


def _equal(reader: Reader, node: Node) -> Constant:
    node.only()
    left, right = _constants(reader, node, 2)
    reader.flow.budget.spend(math.prod(reader.joint_shape(node, [left, right])))
    return np.asarray(left == right)


def _ordered(reader: Reader, node: Node) -> Constant:
    node.only()
    left, right = _constants(reader, node, 2)
    reader.flow.budget.spend(math.prod(reader.joint_shape(node, [left, right])))
    if left.dtype != right.dtype:
        raise node.refused("compares constants of different types")
    functions = {
        "Greater": np.greater,
        "GreaterOrEqual": np.greater_equal,
        "Less": np.less,
        "LessOrEqual": np.less_equal,
    }
    return np.asarray(functions[node.kind](left, right))


def _not(reader: Reader, node: Node) -> Constant:
    node.only()
    (value,) = _constants(reader, node, 1)
    if value.dtype.kind != "b":
        raise node.refused("negates what is no truth value")
    return np.asarray(~value)


def _where(reader: Reader, node: Node) -> Constant:
    node.only()
    parts = _constants(reader, node, 3)
    reader.flow.budget.spend(math.prod(reader.joint_shape(node, list(parts))))
    if parts[0].dtype.kind != "b" or parts[1].dtype != parts[2].dtype:
        raise node.refused("chooses between constants of different types")
    return np.where(*parts)


# Runtimes find in double precision how many numbers a range has; up to here, differences are exact.
_COUNTED = 2**52


def _range(reader: Reader, node: Node) -> Constant:
    node.only()
    numbers = [reader.integers(node, "bounds", k) for k in range(3)]
    if any(part is None or len(part) != 1 for part in numbers) or numbers[2] == [0]:
        raise node.refused("is not a range of whole numbers")
    types = {part.dtype for part in _constants(reader, node, 3)}
    if len(types) != 1:
        raise node.refused("counts in whole numbers of different types")
    start, limit, step = (part[0] for part in numbers if part is not None)
    if max(abs(start), abs(limit), abs(step)) > _COUNTED:
        raise node.refused("counts with larger numbers than every runtime counts exactly")
    checked(node, (max(1, len(range(start, limit, step))),), reader)
    return np.array(range(start, limit, step), dtype=types.pop())


_FOLDS: dict[str, Callable[[Reader, Node], Constant]] = {
    "Identity": _identity,
    "Reshape": _reshape,
    "Concat": _concat,
    "Cast": _cast,
    "ConstantOfShape": _filled,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Mod"), _arithmetic),
    "Neg": _negative,
    "Floor": _floor,
    "Ceil": _floor,
    "Min": _extreme,
    "Max": _extreme,
    "Equal": _equal,
    **dict.fromkeys(("Greater", "GreaterOrEqual", "Less", "LessOrEqual"), _ordered),
    "Not": _not,
    "Where": _where,
    "Range": _range,
}
