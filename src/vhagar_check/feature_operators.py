"""Reads operators of the domain `ai.onnx.ml` that shift, scale or choose features."""

from __future__ import annotations

import numpy as np

from vhagar_check.graph import Node
from vhagar_check.layers import Indices, Scale
from vhagar_check.reading import Reader, Wire, checked


def scaler(reader: Reader, node: Node) -> Wire:
    """Read Scaler: `(v - offset) * scale`, with one number for each feature or one for all."""
    node.only("offset", "scale")
    wire = reader.wire(node)
    parts = [node.numbers("offset"), node.numbers("scale")]
    size = wire.value.size
    if len(wire.shape) != 2 or any(part.size not in (1, size) for part in parts):
        raise node.refused("does not have an offset and a scale for each feature of a vector")
    if not all(np.isfinite(part).all() for part in parts):
        raise node.refused("has an offset or a scale that is not finite")
    offset, scale = (np.broadcast_to(part, size) for part in parts)
    one = np.ones(size)
    layers = Scale(one, one, -offset), Scale(scale, one, np.zeros(size))
    return Wire(reader.flow.through(wire.value, *layers), wire.shape)


def chosen_features(reader: Reader, node: Node, positions: Indices) -> list[Indices]:
    """Read ArrayFeatureExtractor: entries of a vector by a constant index, in its order."""
    node.only()
    index = reader.given(node, 1)
    if not isinstance(index, np.ndarray) or index.dtype.kind != "i" or not index.size:
        raise node.refused("does not have a constant index")
    if positions.ndim != 2 or not ((index >= 0) & (index < positions.shape[1])).all():
        raise node.refused("takes features that do not exist")
    checked(node, (len(positions), index.size), reader)
    return [positions[:, index.ravel()]]
