"""The closed parts of a search space, from which it can be checked that no part was lost.

A part is named like a node: by its region and its decisions. Two parts that differ in the last
decision, or in the last split, are replaced by the part that they cover together. So at any time
few parts are kept, and a search space that is covered altogether is one part: its root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from vhagar.relaxation.lp.decisions import Decision
from vhagar.search.node import Node, Region

_Part = tuple[Region, tuple[Decision, ...]]


class Cover:
    """Parts of the search space, each with a bound."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self._parts: dict[_Part, float] = {}
        self.add(nodes)

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, nodes: Iterable[Node]) -> None:
        """Add closed nodes with the bounds they have."""
        for node in nodes:
            self._add(_part(node), max(node.upper, 0.0))

    def _add(self, part: _Part, upper: float) -> None:
        while True:
            # Where a part is covered twice, both bounds hold; the larger one is never too good.
            upper = max(upper, self._parts.pop(part, upper))
            merged = next((m for m in _merged(part) if m[0] in self._parts), None)
            if merged is None:
                self._parts[part] = upper
                return
            sibling, part = merged
            upper = max(upper, self._parts.pop(sibling))

    def nodes(self) -> Iterator[Node]:
        """The parts as nodes, whose numbers only tell roots from others."""
        for (region, decisions), upper in self._parts.items():
            yield Node(region, upper, int(bool(decisions or region.path)), decisions)

    def holds(self, region: Region) -> bool:
        """Whether a whole region is one part."""
        return (region, ()) in self._parts


def covers(roots: Iterable[Region], nodes: Iterable[Node]) -> bool:
    """Whether the nodes together cover all roots."""
    found = Cover(nodes)
    return all(found.holds(root) for root in roots)


def _part(node: Node) -> _Part:
    return node.region.whole, node.decisions


def _merged(part: _Part) -> Iterator[tuple[_Part, _Part]]:
    """The siblings that a part may have, each with what the two cover together."""
    region, decisions = part
    if decisions:
        *before, last = decisions
        other = replace(last, positive=not last.positive)
        yield (region, (*before, other)), (region, tuple(before))
    if region.path:
        *path, half = region.path  # siblings differ in the last bit
        sibling = replace(region, path=(*path, half ^ 1))
        yield (sibling, decisions), (replace(region, path=tuple(path)), decisions)
