"""The largest (or smallest) entry of each of many groups: MaxPool, ReduceMax, Max of several.

In every round the entries of a group are paired in order; a pair `(a, b)` becomes
`max(a, b) = b + relu(a - b)` (or `min(a, b) = a - relu(a - b)`), one ReLU unit, and an odd last
entry goes on to the next round. A round is one ReLU layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vhagar.network.graph import Graph, Tensor, Term, times
from vhagar.network.maps import Indices, SparseMap, selection


@dataclass(frozen=True, eq=False)
class EntryGroups:
    """Entry numbers of a flat tensor: `members[g, :counts[g]]` is group g, in order."""

    members: Indices
    counts: Indices


def largest(graph: Graph, operand: Tensor, groups: EntryGroups) -> Tensor:
    """The maximum of each group, in order of the groups."""
    return _reduced(graph, operand, groups, keep_second=True)


def smallest(graph: Graph, operand: Tensor, groups: EntryGroups) -> Tensor:
    """The minimum of each group, in order of the groups."""
    return _reduced(graph, operand, groups, keep_second=False)


def _reduced(graph: Graph, operand: Tensor, groups: EntryGroups, keep_second: bool) -> Tensor:
    if groups.counts.max() == 1:
        firsts = groups.members[:, 0]
        return graph.mapped(operand, selection(operand.shape, firsts), firsts.shape)
    while groups.counts.max() > 1:
        operand, groups = _round(graph, operand, groups, keep_second)
    return operand


def _round(
    graph: Graph, operand: Tensor, groups: EntryGroups, keep_second: bool
) -> tuple[Tensor, EntryGroups]:
    pairs, left = groups.counts // 2, (groups.counts + 1) // 2
    width = int(left.max())
    members = np.pad(groups.members, ((0, 0), (0, 1)))[:, : 2 * width]
    firsts, seconds = members[:, 0::2], members[:, 1::2]
    slots = np.arange(width)
    paired, kept = slots < pairs[:, None], slots < left[:, None]
    # The odd entry of a group is the first of a pair without a second.
    base = np.where(paired & keep_second, seconds, firsts)[kept]
    unchanged = graph.mapped(operand, selection(operand.shape, base), base.shape)
    plus = selection(operand.shape, firsts[paired])
    minus = selection(operand.shape, seconds[paired], -1.0)
    excess = SparseMap(operand.shape, plus.weight + minus.weight)
    units = graph.units(graph.mapped(operand, excess, (int(paired.sum()),)))
    # The unit of each remaining entry; -1 for an odd one, which has none.
    unit_of = np.full(paired.shape, -1)
    unit_of[paired] = np.arange(units.size)
    sign = 1.0 if keep_second else -1.0
    changes = Term(units.value, selection(units.shape, unit_of[kept], sign))
    result = graph.linear([times(unchanged), changes], unchanged.shape)
    numbers = np.zeros(kept.shape, dtype=np.int64)
    numbers[kept] = np.arange(result.size)
    return result, EntryGroups(numbers, left)
