"""LeakyRelu and PRelu: `v` where it is positive, `slope * v` elsewhere."""

from __future__ import annotations

from vhagar.array_types import Array
from vhagar.network.graph import Graph, Tensor, times


def leaky_relu(graph: Graph, operand: Tensor, slope: float | Array) -> Tensor:
    """`slope * v + (1 - slope) * relu(v)`, for any slope; slopes broadcast to the operand."""
    positive = graph.units(operand)
    return graph.linear([times(operand, slope), times(positive, 1.0 - slope)], operand.shape)
