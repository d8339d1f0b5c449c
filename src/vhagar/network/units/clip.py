"""A model's own clips, HardTanh and ReLU6 included: `min(max(v, low), high)` by ReLUs."""

from __future__ import annotations

import numpy as np

from vhagar.errors import InvalidNetwork
from vhagar.network.graph import Graph, Tensor, times

# Exporters write the largest float32 number for "no limit".
NO_LIMIT = float(np.finfo(np.float32).max)


def clip(graph: Graph, operand: Tensor, low: float, high: float) -> Tensor:
    """`low + relu(v - low) - relu(v - high)`; with one limit one block of units is enough."""
    if not low <= high:
        raise InvalidNetwork(f"its limits {low} and {high} leave no value between them")
    has_low, has_high = low > -NO_LIMIT, high < NO_LIMIT
    if not has_low and not has_high:
        return operand
    if not has_low:
        return _combined(graph, [(_positive_part(graph, operand, -1.0, high), -1.0)], high)
    above_low = _positive_part(graph, operand, 1.0, -low)
    if not has_high:
        return _combined(graph, [(above_low, 1.0)], low)
    above_high = _positive_part(graph, operand, 1.0, -high)
    return _combined(graph, [(above_low, 1.0), (above_high, -1.0)], low)


def _positive_part(graph: Graph, operand: Tensor, sign: float, shift: float) -> Tensor:
    """`relu(sign * v + shift)`."""
    return graph.units(graph.scaled(operand, sign, shift))


def _combined(graph: Graph, parts: list[tuple[Tensor, float]], constant: float) -> Tensor:
    shape = parts[0][0].shape
    terms = [times(part, factor) for part, factor in parts]
    return graph.linear(terms, shape, np.full(shape, constant))
