"""The absolute value."""

from __future__ import annotations

from vhagar.network.graph import Graph, Tensor, times


def absolute(graph: Graph, operand: Tensor) -> Tensor:
    """`2 * relu(v) - v`."""
    positive = graph.units(operand)
    return graph.linear([times(operand, -1.0), times(positive, 2.0)], operand.shape)
