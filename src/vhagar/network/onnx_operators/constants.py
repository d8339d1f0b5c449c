"""Constants, and operators on constants, with which exporters compute shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vhagar.errors import InvalidNetwork
from vhagar.network.graph import Tensor
from vhagar.network.onnx_node import Comparison, Constant, Node, Operand, require_modest
from vhagar.network.onnx_tensors import read_tensor
from vhagar.network.onnx_types import AttributeType, TensorType, attribute_value

# The attributes that may hold a numeric constant.
_CONSTANT_TYPES = {
    "value": AttributeType.TENSOR,
    "value_float": AttributeType.FLOAT,
    "value_floats": AttributeType.FLOATS,
    "value_int": AttributeType.INT,
    "value_ints": AttributeType.INTS,
}


def constant(node: Node) -> Constant:
    items = [item for item in node.proto.attribute if _CONSTANT_TYPES.get(item.name) == item.type]
    if len(items) != 1 or len(node.proto.attribute) != 1:
        raise node.refusal("holds something other than a dense tensor of numbers")
    value = attribute_value(items[0])
    return read_tensor(value) if items[0].name == "value" else np.asarray(value)


def constant_of_shape(node: Node) -> Constant:
    value = node.attributes(value=np.zeros(1, dtype=np.float32))["value"]
    shape = node.integers(0, "shape")
    require_modest(shape)
    if value.size != 1:
        raise InvalidNetwork("its value is not one number")
    return np.full(shape, value.reshape(()))


# Below these, single precision (of floats) and double precision (of whole numbers) find how many
# numbers a range has as real numbers do.
_COUNTED, _COUNTED_WHOLE = 2**20, 2**52


def value_range(node: Node) -> Constant:
    node.attributes()
    _require_unrounded(node)
    limits = [node.constant(k, "limits").reshape(()) for k in range(3)]
    start, limit, step = (one.item() for one in limits)
    if step == 0:
        raise InvalidNetwork("its step is 0")
    kinds = {np.dtype(np.float64) if one.dtype.kind == "f" else one.dtype for one in limits}
    if len(kinds) > 1:
        raise InvalidNetwork("its limits are numbers of different types")
    if kinds == {np.dtype(np.float64)}:
        if any(number != math.floor(number) for number in (start, limit, step)):
            raise node.refusal("counts in fractions; their rounding decides how many there are")
        if max(abs(start), abs(limit), abs(step)) >= _COUNTED:
            raise node.refusal("counts floats that are too large to be counted exactly")
    elif max(abs(start), abs(limit), abs(step)) > _COUNTED_WHOLE:
        raise node.refusal("counts with larger numbers than every runtime counts exactly")
    counted = range(int(start), int(limit), int(step))
    require_modest([len(counted)])
    return np.array(counted, dtype=kinds.pop())


_TYPES = {
    TensorType.FLOAT: np.float64,  # rounded, then read in float64 like everything else
    TensorType.DOUBLE: np.float64,
    TensorType.INT64: np.int64,
    TensorType.INT32: np.int32,
    TensorType.BOOL: np.bool_,
}


def cast(node: Node) -> Operand:
    options = node.attributes(to=0, saturate=1)
    if options["saturate"] != 1:  # runtimes do odd things then
        raise node.refusal(f"has the option saturate={options['saturate']}")
    kind = options["to"]
    operand = node.operands[0]
    if isinstance(operand, Comparison):
        if kind not in (TensorType.FLOAT, TensorType.DOUBLE, TensorType.BOOL):
            raise node.refusal("turns a comparison into another type than float, double or bool")
        return operand
    if isinstance(operand, Tensor):
        if kind not in (TensorType.FLOAT, TensorType.DOUBLE):
            raise node.refusal("turns data into another type than float or double")
        return operand
    if kind not in _TYPES:
        raise node.refusal(f"turns a constant into the type {kind}")
    value = node.constant(0, "operand")
    if value.dtype.kind == "f" and kind not in (TensorType.FLOAT, TensorType.DOUBLE):
        _require_unrounded(node)
        most = 2.0 ** (8 * np.dtype(_TYPES[kind]).itemsize - 1)
        if kind != TensorType.BOOL and not (abs(value) < most).all():
            raise InvalidNetwork("it turns a number into a type that does not hold it")
    if kind == TensorType.FLOAT:
        with np.errstate(over="ignore"):
            value = value.astype(np.float32)
    return value.astype(_TYPES[kind])


def _arrays(node: Node) -> list[Any]:
    """All operands, floats in float64."""
    node.attributes()
    arrays = [node.constant(k, f"operand {k + 1}") for k in range(len(node.operands))]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    require_modest(shape, max(array.size for array in arrays))
    return [array.astype(np.float64) if array.dtype.kind == "f" else array for array in arrays]


def _divided(first: Any, second: Any) -> Constant:
    if not np.all(second):
        raise InvalidNetwork("it divides by zero")
    if first.dtype.kind in "iu":  # ONNX rounds towards zero
        if any((part < -np.iinfo(part.dtype).max).any() for part in (first, second)):
            raise InvalidNetwork("it divides with a number whose opposite its type does not hold")
        whole = abs(first) // abs(second)
        return np.asarray(whole * np.sign(first) * np.sign(second), dtype=first.dtype)
    return np.asarray(first / second)


def _remainder(first: Any, second: Any) -> Constant:
    """The remainder of whole numbers, which has the divisor's sign."""
    if {first.dtype.kind, second.dtype.kind} - {"i", "u"}:
        raise InvalidNetwork("it takes the remainder of numbers that are not whole")
    if not np.all(second):
        raise InvalidNetwork("it divides by zero")
    return np.asarray(np.mod(first, second))


def _power(first: Any, second: Any) -> Constant:
    if first.dtype.kind == "f":
        return np.asarray(np.power(first, second))
    if {first.dtype.kind, second.dtype.kind} - {"i"} or (second < 0).any():
        raise InvalidNetwork("it raises a whole number to a power that may not be whole")
    # Runtimes compute powers in double precision, and results wrap around in the base's type.
    most = min(np.iinfo(first.dtype).max, 2**53)
    if not (np.power(abs(first.astype(np.float64)), second.astype(np.float64)) < most).all():
        raise InvalidNetwork("it gives a power that is too large for its type")
    return np.asarray(np.power(first, second), dtype=first.dtype)


def _total(*arrays: Any) -> Constant:
    return np.asarray(sum(arrays[1:], start=arrays[0]))


FOLDED: dict[str, Callable[..., Any]] = {
    "Abs": np.abs,
    "Add": np.add,
    "And": np.logical_and,
    "Ceil": np.ceil,
    "Div": _divided,
    "Equal": np.equal,
    "Exp": np.exp,
    "Floor": np.floor,
    "GreaterOrEqual": np.greater_equal,
    "Greater": np.greater,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Max": lambda *arrays: np.max(np.broadcast_arrays(*arrays), axis=0),
    "Min": lambda *arrays: np.min(np.broadcast_arrays(*arrays), axis=0),
    "Mod": _remainder,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Pow": _power,
    "Reciprocal": lambda array: _divided(np.ones_like(array), array),
    "Relu": lambda array: np.maximum(array, 0),
    "Sqrt": np.sqrt,
    "Sub": np.subtract,
    "Sum": _total,
    "Where": np.where,
}


def _product(node: Node) -> Constant:
    node.attributes()
    first, second = node.weights(0, "first operand"), node.weights(1, "second operand")
    if not first.ndim or not second.ndim:
        raise InvalidNetwork("it multiplies numbers, not matrices")
    rows, columns = first.shape[:-1], second.shape[:-2] + second.shape[-1:] * (second.ndim > 1)
    require_modest([*rows, *columns])
    return np.asarray(first @ second)


def folds(node: Node) -> bool:
    """Whether the node computes a constant from constants, by an operation of the table."""
    fixed = not any(isinstance(one, Tensor | Comparison) for one in node.operands)
    return fixed and (node.kind in FOLDED or node.kind == "MatMul")


def folded(node: Node) -> Constant:
    """The constant that such a node gives."""
    if node.kind == "MatMul":
        return _product(node)
    if node.kind in _JUMPS and not _is_clear(node):
        _require_unrounded(node)
    return np.asarray(FOLDED[node.kind](*_arrays(node)))


# Operators that jump, so that rounding can change their results by any amount.
_JUMPS = ("Ceil", "Equal", "Floor", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
# Operators whose results are among the numbers that they take, or their negatives.
_CHOOSE = ("Abs", "Max", "Min", "Neg", "Relu", "Where")
# How far single precision, which errs by 2**-24, never moves a number of size 1.
_FAR = 2.0**-20
# Operators that round on the way, or are approximated, so that even a short result may be off.
_ROUND_INSIDE = ("Exp", "MatMul", "Pow")


def _rounded_inputs(node: Node) -> set[str]:
    """The constants it takes that a runtime may round; a cast takes stored halves as they are."""
    found = node.context.rounded.intersection(node.proto.input)
    return found - node.context.halves if node.kind == "Cast" else found


def _require_unrounded(node: Node) -> None:
    """Refuse to decide by a number that a runtime, with fewer digits than ours, may round."""
    if _rounded_inputs(node):
        raise node.refusal("decides by a constant that a runtime may round")


def note_rounding(node: Node, results: Sequence[Operand]) -> None:
    """Remember constants that a runtime may round: it has only the digits of the file's type."""
    context, taken = node.context, _rounded_inputs(node)
    if node.kind in ("Shape", "Size") or (folds(node) and node.kind in _JUMPS):
        return
    if not taken and not _rounds(node, results):
        return
    own = {*filter(None, node.proto.output)}
    context.rounded.update(own)
    kept = node.kind in ("Cast", "Identity") and taken <= context.rounded_once
    if kept if taken else node.kind in ("Add", "Div", "Mul", "Sub"):
        context.rounded_once.update(own)


def _rounds(node: Node, results: Sequence[Operand]) -> bool:
    """Whether a runtime may round what the node computes from exact constants."""
    if not folds(node) or node.kind in _CHOOSE:
        return False
    inside = node.kind in _ROUND_INSIDE or (node.kind == "Sum" and len(node.operands) > 2)
    return inside or any(_is_rounded(found) for found in results)


def _is_clear(node: Node) -> bool:
    """Whether numbers that are rounded once are so far from whole that their floors are known."""
    if node.kind not in ("Ceil", "Floor"):
        return False
    value = node.constant(0, "operand").astype(np.float64)
    away = abs(value - np.rint(value)) > _FAR * np.maximum(abs(value), 1)
    return bool(node.proto.input[0] in node.context.rounded_once and away.all())


def _is_rounded(found: Operand) -> bool:
    if not isinstance(found, np.ndarray) or found.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        return not (found.astype(np.float32) == found).all()
