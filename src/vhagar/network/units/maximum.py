"""Max and Min of several tensors and constants, element by element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vhagar.array_types import Array
from vhagar.network.graph import Graph, Tensor, Term, spread, times
from vhagar.network.layers import Shape
from vhagar.network.maps import selection
from vhagar.network.units.max_pool import EntryGroups, largest, smallest


def maximum(
    graph: Graph, operands: Sequence[Tensor], constant: Array | None, shape: Shape
) -> Tensor:
    """`b + relu(a - b)` of two operands; of more, in rounds of pairs (`max_pool.py`)."""
    return _extremum(graph, operands, constant, shape, 1.0)


def minimum(
    graph: Graph, operands: Sequence[Tensor], constant: Array | None, shape: Shape
) -> Tensor:
    """`a - relu(a - b)` of two operands; of more, in rounds of pairs."""
    return _extremum(graph, operands, constant, shape, -1.0)


def _extremum(
    graph: Graph, operands: Sequence[Tensor], constant: Array | None, shape: Shape, sign: float
) -> Tensor:
    if len(operands) == 1:
        return _with_constant(graph, operands[0], constant, shape, sign)
    if len(operands) == 2 and constant is None:
        first, second = operands
        excess = graph.linear([spread(first, shape), spread(second, shape, -1.0)], shape)
        base = second if sign > 0 else first
        return graph.linear([spread(base, shape), times(graph.units(excess), sign)], shape)
    stacked, groups = _stacked(graph, operands, constant, shape)
    pick = largest if sign > 0 else smallest
    return pick(graph, stacked, groups).reshaped(shape)


def _with_constant(
    graph: Graph, operand: Tensor, constant: Array | None, shape: Shape, sign: float
) -> Tensor:
    """`c + relu(v - c)` for the sign 1, `c - relu(c - v)` for the sign -1."""
    if constant is None:
        return graph.linear([spread(operand, shape)], shape)
    full = np.broadcast_to(constant, shape)
    excess = graph.linear([spread(operand, shape, sign)], shape, -sign * full)
    return graph.linear([times(graph.units(excess), sign)], shape, full)


def _stacked(
    graph: Graph, operands: Sequence[Tensor], constant: Array | None, shape: Shape
) -> tuple[Tensor, EntryGroups]:
    """Concatenate all operands, and group the entries that belong together."""
    size = int(np.prod(shape))
    count = len(operands) + (constant is not None)
    terms, offset = [], np.zeros((count, size))
    for position, operand in enumerate(operands):
        index = np.full((count, size), -1)
        index[position] = np.broadcast_to(
            np.arange(operand.size).reshape(operand.shape), shape
        ).reshape(-1)
        terms.append(Term(operand.value, selection(operand.shape, index)))
    if constant is not None:
        offset[-1] = np.broadcast_to(constant, shape).reshape(-1)
    stacked = graph.linear(terms, (count * size,), offset)
    members = np.arange(count * size).reshape(count, size).T
    return stacked, EntryGroups(members, np.full(size, count))
