"""Operators that reshape or concatenate tensors, and shapes as constants."""

from __future__ import annotations

import math

import numpy as np

from vhagar.errors import InvalidNetwork
from vhagar.network.graph import Tensor, Term
from vhagar.network.layers import Shape
from vhagar.network.maps import selection
from vhagar.network.onnx_node import Constant, Node, Operand, full_shape, require_modest


def identity(node: Node) -> Operand:
    node.attributes()
    return _operand(node)


def dropout(node: Node) -> Tensor:
    # Before version 7, nodes train unless they say otherwise.
    in_training = not node.attributes(ratio=0.5, seed=0, is_test=int(node.opset >= 7))["is_test"]
    if in_training or (node.has(2) and node.constant(2, "training mode").any()):
        raise node.refusal("is in training mode; export the model in evaluation mode")
    return node.tensor()


def flatten(node: Node) -> Operand:
    axis = node.attributes(axis=1)["axis"]
    operand = node.operands[0]
    if not isinstance(operand, Tensor):
        array = node.constant(0, "operand")
        place = axis if axis >= 0 else axis + array.ndim
        return array.reshape(math.prod(array.shape[:place]), -1)
    if axis not in (1, -len(operand.shape)):
        raise node.refusal(f"flattens from axis {axis}; only axis 1 keeps the batch apart")
    return operand.reshaped((operand.size,))


def reshape(node: Node) -> Operand:
    literal = node.attributes(allowzero=0)["allowzero"]
    sizes = node.constant(1, "shape")
    if sizes.dtype.kind not in "iu" or sizes.ndim != 1 or (sizes < -1).any():
        raise InvalidNetwork(f"its shape {sizes.tolist()} is not a list of sizes, 0 or -1")
    wanted = [int(size) for size in sizes]
    if literal and 0 in wanted:
        raise node.refusal("takes zeros as sizes (allowzero), which leaves no values")
    operand = node.operands[0]
    if not isinstance(operand, Tensor):
        array = node.constant(0, "operand")
        return array.reshape(_copied(wanted, array.shape))
    shape = _resolved(_copied(wanted, (1, *operand.shape)), operand.size)
    # The batch size may be written as 1, 0 (unchanged) or -1 (inferred).
    if not shape or shape[0] != 1 or wanted[0] not in (-1, 0, 1):
        raise node.refusal(f"reshapes to {wanted}; the batch dimension must stay first")
    return operand.reshaped(shape[1:])


def _copied(wanted: list[int], old: Shape) -> list[int]:
    """Replace each 0 by the size of the old shape at the same position."""
    if any(size == 0 and k >= len(old) for k, size in enumerate(wanted)):
        raise InvalidNetwork(f"it copies a dimension that {old} does not have")
    return [old[k] if size == 0 else size for k, size in enumerate(wanted)]


def _resolved(shape: list[int], size: int) -> Shape:
    """Fill in the one dimension that is -1, and check that the sizes agree."""
    known = math.prod(dim for dim in shape if dim != -1)
    if shape.count(-1) == 1 and known > 0 and size % known == 0:
        return tuple(size // known if dim == -1 else dim for dim in shape)
    if -1 in shape or known != size:
        raise InvalidNetwork(f"it reshapes {size} values to {tuple(shape)}, which does not fit")
    return tuple(shape)


def squeeze(node: Node) -> Operand:
    operand, axes = _operand_and_axes(node)
    shape = full_shape(operand)
    if not axes and isinstance(operand, Tensor):
        # A batch of one input is dropped as well, which later nodes could tell.
        if node.result not in node.context.tail:
            raise node.refusal(
                "without axes also drops the batch dimension of a single input; export it with "
                "axes, as of squeeze(dim) or flatten(1)"
            )
        axes = [1 + k for k, size in enumerate(operand.shape) if size == 1]
    elif not axes:
        axes = [k for k, size in enumerate(shape) if size == 1]
    places = {node.axis(axis, len(shape)) for axis in axes}
    if any(shape[place] != 1 for place in places):
        raise InvalidNetwork(f"it squeezes axes {axes} of a tensor of shape {shape}")
    kept = [size for place, size in enumerate(shape) if place not in places]
    return _in_shape(node, operand, tuple(kept), 0 not in places)


def unsqueeze(node: Node) -> Operand:
    operand, axes = _operand_and_axes(node)
    old = full_shape(operand)
    rank = len(old) + len(axes)
    places = {node.axis(axis, rank) for axis in axes}
    if len(places) != len(axes):
        raise InvalidNetwork(f"its axes {axes} repeat each other")
    sizes = iter(old)
    shape = tuple(1 if place in places else next(sizes) for place in range(rank))
    return _in_shape(node, operand, shape, 0 not in places)


def _operand_and_axes(node: Node) -> tuple[Tensor | Constant, list[int]]:
    attributes = node.attributes(axes=[])
    axes = node.integers(1, "axes") if node.has(1) else list(attributes["axes"])
    return _operand(node), axes


def _operand(node: Node) -> Tensor | Constant:
    operand = node.operands[0]
    return operand if isinstance(operand, Tensor) else node.constant(0, "operand")


def _in_shape(node: Node, operand: Tensor | Constant, shape: Shape, batch_first: bool) -> Operand:
    if not isinstance(operand, Tensor):
        return operand.reshape(shape)
    if not batch_first:
        raise node.refusal("removes the batch dimension, or inserts another before it")
    return operand.reshaped(shape[1:])


def concat(node: Node) -> Operand:
    axis = node.attributes(axis=1)["axis"]
    operands = [
        operand if isinstance(operand, Tensor) else node.constant(k, "operand")
        for k, operand in enumerate(node.operands)
    ]
    shapes = [full_shape(operand) for operand in operands]
    place = node.axis(axis, len(shapes[0]))
    if not any(isinstance(operand, Tensor) for operand in operands):
        return np.concatenate([node.constant(k, "operand") for k in range(len(operands))], place)
    if place == 0:
        raise node.refusal("joins along the batch dimension, which would mix images")
    ends = np.cumsum([shape[place] for shape in shapes])
    whole = [*shapes[0]]
    whole[place] = int(ends[-1])
    require_modest(whole, sum(math.prod(shape) for shape in shapes))
    terms, offset = [], np.zeros(whole)
    for k, operand in enumerate(operands):
        where = [slice(None)] * len(whole)
        where[place] = slice(int(ends[k]) - shapes[k][place], int(ends[k]))
        if isinstance(operand, Tensor):
            index = np.full(whole, -1)
            index[tuple(where)] = np.arange(operand.size).reshape(shapes[k])
            terms.append(Term(operand.value, selection(operand.shape, index)))
        else:
            offset[tuple(where)] = node.weights(k, "constant")
    return node.graph.linear(terms, tuple(whole[1:]), offset if offset.any() else None)


def shape_of(node: Node) -> Constant:
    attributes = node.attributes(start=0, end=2**62)
    sizes = full_shape(_operand(node))
    return np.array(sizes[attributes["start"] : attributes["end"]], dtype=np.int64)


def size_of(node: Node) -> Constant:
    node.attributes()
    return np.array(math.prod(full_shape(_operand(node))), dtype=np.int64)
