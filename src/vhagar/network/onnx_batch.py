"""The batch dimension of an ONNX model, and sizes that the file leaves open.

The reader expects a batch of 1 or of any size, and fixed sizes after it. Models that take one
vector without a batch, or a fixed number of inputs at a time, are rewritten accordingly, if every
input is treated alike; the layers are made from the rewritten model, and witnesses are run on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vhagar.errors import InvalidInput, InvalidNetwork, Refusal, UnsupportedOperator
from vhagar.network.onnx_messages import editable
from vhagar.network.onnx_node import label
from vhagar.network.onnx_tensors import read_tensor
from vhagar.network.onnx_types import AttributeType, TensorType
from vhagar.network.onnx_usage import inputs_of, nodes_on_the_way, sizes_of, unused

_PREFIX = "vhagar_batch"
# Operators that treat every entry alike, so that a dimension in front changes nothing.
_ENTRYWISE = frozenset((
    "Abs", "Add", "Atan", "Cast", "Celu", "Clip", "Div", "Dropout", "Elu", "Erf", "Exp",
    "HardSigmoid", "Identity", "LeakyRelu", "Log", "Max", "Min", "Mul", "Neg", "PRelu", "Relu",
    "Selu", "Sigmoid", "Softplus", "Softsign", "Sub", "Sum", "Tanh", "ThresholdedRelu",
))  # fmt: skip
# Operators that tell the batch size to the rest of the model.
_TELL_SIZES = ("Shape", "Size")


def with_batch(model: Any, image_shape: Sequence[int] | None, layout: str) -> Any:
    """Return a model whose input has a batch dimension of 1 or any size, and fixed sizes."""
    inputs = inputs_of(model.graph)
    if len(inputs) != 1:
        return model  # the reader says what is wrong
    sizes = sizes_of(inputs[0])
    if image_shape is not None and len(sizes) > 1 and not all(sizes[1:]):
        model, sizes = _with_sizes(model, inputs[0].name, sizes, image_shape, layout)
    try:
        if len(sizes) == 1 and sizes[0] > 0:
            return _Unbatched(model, inputs[0].name, sizes[0]).model()
        if len(sizes) > 1 and sizes[0] > 1 and sizes_of(model.graph.output[0])[:1] == sizes[:1]:
            return _with_any_batch(model, inputs[0].name, sizes)
    except (LookupError, ValueError) as error:  # nodes without operands or results
        raise InvalidNetwork(f"a node is malformed ({error}); export the model again") from error
    return model


def _copied(model: Any) -> Any:
    changed = editable(model)
    del changed.graph.value_info[:]  # inferred from the old sizes
    changed.ir_version = max(changed.ir_version, 4)  # constants need not be inputs
    return changed


def _set_sizes(model: Any, name: str, sizes: Sequence[int | str]) -> None:
    from onnx import helper

    for value in (*model.graph.input, *model.graph.output):
        if value.name == name:
            kind = value.type.tensor_type.elem_type
            value.CopyFrom(helper.make_tensor_value_info(name, kind, list(sizes)))


def _with_sizes(
    model: Any, name: str, sizes: list[int], image_shape: Sequence[int], layout: str
) -> tuple[Any, list[int]]:
    """Fill open sizes in from the image's shape."""
    channels, rows, columns = (1, *image_shape)[-3:]
    taken = [rows, columns, channels] if layout == "hwc" else [channels, rows, columns]
    shapes = {1: [math.prod(taken)], 2: [rows, columns], 3: taken}
    given = shapes.get(len(sizes) - 1)
    if given is None:
        return model, sizes
    if any(old not in (0, new) for old, new in zip(sizes[1:], given, strict=True)):
        shape = " x ".join(str(size) if size else "?" for size in sizes[1:])
        raise InvalidInput(
            f"the model takes an input of shape {shape} (? stands for open), which an image of "
            f"{channels} x {rows} x {columns} (channels, rows, columns) does not fit; check "
            "--image-shape and --layout"
        )
    changed = _copied(model)
    _set_sizes(changed, name, [sizes[0] or "batch", *given])
    return changed, [sizes[0], *given]


def _with_any_batch(model: Any, name: str, sizes: list[int]) -> Any:
    """A model for batches of one size, as one for batches of any size."""
    changed, batch = _copied(model), sizes[0]
    graph = changed.graph
    for node in nodes_on_the_way(graph):
        if node.op_type in _TELL_SIZES:
            raise _refusal(node, f"tells the model its batch size, which is fixed at {batch}")
    constants, data = _constants(graph), {name}
    for node in graph.node:
        if not data.intersection(node.input):
            continue
        data.update(node.output)
        if node.op_type == "Resize" and any(node.input[3:]):
            raise _refusal(node, f"may resize the {batch} inputs of a batch; export scales instead")
        if node.op_type == "Reshape" and len(node.input) > 1:
            if node.input[1] not in constants:
                why = f"has a computed shape, which may join the {batch} inputs of a batch"
                raise _refusal(node, why)
            shape = constants[node.input[1]]
            if shape.ndim == 1 and shape.size and shape[0] in (1, batch):
                if shape[0] == 1:
                    raise _refusal(node, f"joins the {batch} inputs of a batch")
                # 0 keeps the size, whatever it is.
                _replace_operand(graph, node, np.array([0, *shape[1:]], dtype=np.int64))
    _set_sizes(changed, name, ["batch", *sizes[1:]])
    output = graph.output[0]
    _set_sizes(changed, output.name, ["batch", *sizes_of(output)[1:]])
    return changed


def _constants(graph: Any) -> dict[str, Any]:
    found = {tensor.name: read_tensor(tensor) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and [item.name for item in node.attribute] == ["value"]:
            found[node.output[0]] = read_tensor(node.attribute[0].t)
        if node.op_type == "Constant" and [item.name for item in node.attribute] == ["value_ints"]:
            found[node.output[0]] = np.array(node.attribute[0].ints, dtype=np.int64)
        if node.op_type in _ON_SIZES and not node.domain:
            values = [found.get(name) for name in node.input]
            if values and all(_are_sizes(value) for value in values):
                folded = _ON_SIZES[node.op_type](node, values)
                found.update({} if folded is None else {node.output[0]: folded})
    return found


def _are_sizes(value: Any) -> bool:
    return value is not None and value.dtype.kind == "i" and value.ndim < 2


def _cast(node: Any, values: list[Any]) -> Any:
    kinds = {TensorType.INT64: np.int64, TensorType.INT32: np.int32}
    given = {item.name: item.i for item in node.attribute}
    return values[0].astype(kinds[given["to"]]) if given.get("to") in kinds else None


def _unsqueezed(node: Any, values: list[Any]) -> Any:
    """One number as a list."""
    axes = [*(len(item.ints) for item in node.attribute), *(value.size for value in values[1:])]
    return values[0].reshape(1) if values[0].ndim == 0 and axes == [1] else None


# How exporters put a shape together from whole numbers.
_ON_SIZES: dict[str, Callable[[Any, list[Any]], Any]] = {
    "Identity": lambda node, values: values[0],
    "Concat": lambda node, values: np.concatenate(values),
    "Cast": _cast,
    "Unsqueeze": _unsqueezed,
}


def _replace_operand(graph: Any, node: Any, values: Any) -> None:
    """Replace the second input of a node by a constant."""
    from onnx import numpy_helper

    name = unused(graph, f"{_PREFIX}_{len(graph.initializer)}")
    graph.initializer.append(numpy_helper.from_array(values, name))
    node.input[1] = name


def _refusal(node: Any, reason: str) -> UnsupportedOperator:
    return UnsupportedOperator([Refusal(node.op_type, label(node), reason)])


class _Unbatched:
    """Rewrites a model of one vector `[n]` as one of `[1, n]`.

    Values without a batch (`self._vectors`) get one, until the model adds it itself.
    """

    def __init__(self, model: Any, name: str, size: int) -> None:
        self._changed = _copied(model)
        self._graph = self._changed.graph
        self._constants = _constants(self._graph)
        self._vectors = {name}
        _set_sizes(self._changed, name, [1, size])

    def model(self) -> Any:
        for node in nodes_on_the_way(self._graph):
            if self._vectors.intersection(node.input):
                self._rewrite(node)
        output = self._graph.output[0]
        if output.name in self._vectors:
            sizes = sizes_of(output)
            _set_sizes(self._changed, output.name, [1, *sizes] if sizes else [])
        return self._changed

    def _rewrite(self, node: Any) -> None:
        entrywise = node.op_type in _ENTRYWISE and self._keeps_vectors(node)
        if entrywise or (node.op_type == "MatMul" and self._times_matrix(node)):
            self._vectors.update(node.output)
        elif node.op_type == "Reshape" and node.input[1] in self._constants:
            shape = self._constants[node.input[1]]
            if shape.shape == (1,):
                _replace_operand(self._graph, node, np.array([1, shape[0]], dtype=np.int64))
                self._vectors.update(node.output)
        elif node.op_type in ("Softmax", "LogSoftmax"):
            # The only axis of a vector is the last one with a batch, too.
            del node.attribute[:]
            node.attribute.add(name="axis", type=AttributeType.INT, i=-1)
            self._vectors.update(node.output)
        elif node.op_type == "Unsqueeze" and self._axes(node) == [0]:
            node.op_type = "Identity"
            del node.attribute[:]
            del node.input[1:]
        else:
            why = "takes a value without a batch dimension; export the model with one"
            raise _refusal(node, f"{why}, such as [1, n] instead of [n]")

    def _keeps_vectors(self, node: Any) -> bool:
        """Whether the other operands are vectors, too, or constants of at most one dimension."""
        return all(
            not name or name in self._vectors or self._rank(name) <= 1 for name in node.input
        )

    def _times_matrix(self, node: Any) -> bool:
        """A vector times a matrix; a matrix times a vector becomes one."""
        first, second = node.input
        if first in self._vectors:
            return self._rank(second) == 2
        if self._rank(first) != 2:
            return False
        weight = self._constants[first]
        node.input[0] = second
        _replace_operand(self._graph, node, np.ascontiguousarray(weight.T))
        return True

    def _rank(self, name: str) -> int:
        return int(self._constants[name].ndim) if name in self._constants else 99

    def _axes(self, node: Any) -> list[int]:
        attributes = [list(item.ints) for item in node.attribute if item.name == "axes"]
        if attributes:
            return attributes[0]
        known = len(node.input) > 1 and node.input[1] in self._constants
        return [int(axis) for axis in self._constants[node.input[1]].reshape(-1)] if known else []
