"""Reads the Scaler of ONNX's operators for classical models, which shifts and scales features."""

from __future__ import annotations

import numpy as np

from vhagar_check.graph import Node
from vhagar_check.layers import Scale
from vhagar_check.reading import Reader, Wire


def scaler(reader: Reader, node: Node) -> Wire:
    """`(v - offset) * scale`, with one number for each feature or one for all."""
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
