"""Pooling and reductions: averages and sums are linear, maxima and minima become units."""

from __future__ import annotations

from typing import Any

import numpy as np

from vhagar.errors import InvalidNetwork
from vhagar.network.graph import Tensor
from vhagar.network.layers import Shape
from vhagar.network.maps import groups_of
from vhagar.network.onnx_node import Node
from vhagar.network.onnx_operators.windows import windows
from vhagar.network.units import EntryGroups, largest, smallest


def max_pool(node: Node) -> Tensor:
    attributes = _attributes(node, storage_order=0)
    if any(node.proto.output[1:]):
        raise node.refusal("also returns the indices of the maxima, which is not supported")
    data = node.tensor()
    found = windows(data.shape, attributes)
    counts = (found.members >= 0).sum(axis=1)
    if counts.min() == 0:
        raise InvalidNetwork("one of its windows lies outside of the image")
    order = np.argsort(found.members < 0, axis=1, kind="stable")  # entries inside the image first
    groups = EntryGroups(np.take_along_axis(found.members, order, axis=1), counts)
    return _with_moved_relu(node, largest(node.graph, data, groups).reshaped(found.out_shape))


def average_pool(node: Node) -> Tensor:
    attributes = _attributes(node, count_include_pad=0)
    data = node.tensor()
    found = windows(data.shape, attributes)
    counts = (found.members >= 0).sum(axis=1)
    divisors = found.padded if attributes["count_include_pad"] else counts
    if divisors.min() == 0:
        raise InvalidNetwork("one of its windows lies outside of the image")
    means = groups_of(data.shape, found.members.reshape(-1), counts, 1.0 / divisors)
    return node.graph.mapped(data, means, found.out_shape)


def _attributes(node: Node, **more: Any) -> dict[str, Any]:
    if not node.given("kernel_shape"):
        raise InvalidNetwork("it has no kernel_shape")
    found = node.attributes(
        kernel_shape=[], strides=[], dilations=[], pads=[], auto_pad=b"NOTSET", ceil_mode=0, **more
    )
    # By ONNX's text ceil_mode changes nothing there, but onnxruntime rounds up.
    if found["ceil_mode"] and found["auto_pad"] == b"VALID":
        raise node.refusal("has ceil_mode beside auto_pad VALID; export explicit pads")
    # onnxruntime pads as if the window had no gaps.
    if found["auto_pad"].startswith(b"SAME") and max(found["dilations"], default=1) > 1:
        raise node.refusal("has dilations beside auto_pad; export explicit pads")
    return found


def _with_moved_relu(node: Node, pooled: Tensor) -> Tensor:
    return node.graph.units(pooled) if node.result in node.context.relu_moved_to else pooled


def global_max_pool(node: Node) -> Tensor:
    node.attributes()
    data = node.tensor()
    axes = _image_axes(data)
    pooled = largest(node.graph, data, _groups(data.shape, axes))
    return _with_moved_relu(node, pooled.reshaped(_reduced_shape(data.shape, axes, True)))


def global_average_pool(node: Node) -> Tensor:
    node.attributes()
    data = node.tensor()
    return _summed(node, data, _image_axes(data), True, mean=True)


def _image_axes(data: Tensor) -> list[int]:
    if len(data.shape) < 2:
        raise InvalidNetwork(f"it pools data of shape {data.shape}, which is not an image")
    return list(range(1, len(data.shape)))


def reduction(node: Node) -> Tensor:
    """ReduceMean, ReduceSum, ReduceMax and ReduceMin."""
    data = node.tensor()
    attributes = node.attributes(axes=[], keepdims=1, noop_with_empty_axes=0)
    given = node.integers(1, "axes") if node.has(1) else list(attributes["axes"])
    if not given and attributes["noop_with_empty_axes"]:
        return data
    axes = node.image_axes(given or list(range(len(data.shape) + 1)), data.shape)
    keep = bool(attributes["keepdims"])
    if node.kind in ("ReduceMean", "ReduceSum"):
        return _summed(node, data, axes, keep, mean=node.kind == "ReduceMean")
    pick = largest if node.kind == "ReduceMax" else smallest
    found = pick(node.graph, data, _groups(data.shape, axes))
    return found.reshaped(_reduced_shape(data.shape, axes, keep))


def _summed(node: Node, data: Tensor, axes: list[int], keep: bool, mean: bool) -> Tensor:
    groups = _groups(data.shape, axes)
    factor = 1.0 / groups.counts[0] if mean else 1.0
    sums = groups_of(data.shape, groups.members.reshape(-1), groups.counts, factor)
    return node.graph.mapped(data, sums, _reduced_shape(data.shape, axes, keep))


def _groups(shape: Shape, axes: list[int]) -> EntryGroups:
    """Group the entries along some axes, for every position along the others."""
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    each = int(np.prod([shape[axis] for axis in axes], dtype=int))
    index = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    members = index.transpose(kept + axes).reshape(-1, each)
    return EntryGroups(members, np.full(len(members), each))


def _reduced_shape(shape: Shape, axes: list[int], keep: bool) -> Shape:
    if keep:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)
