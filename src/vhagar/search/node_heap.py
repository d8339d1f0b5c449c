"""A heap of very many nodes, the best first; numbers are compared, not nodes."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from vhagar.search.node import Node


class NodeHeap:
    """Open nodes of any targets."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self._entries: list[tuple[float, int, int, Node]] = []
        self._pushed = 0
        self.push(nodes)

    def __len__(self) -> int:
        return len(self._entries)

    def push(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self._pushed += 1
            # Among equals the younger; roots of several targets may share a number.
            heapq.heappush(self._entries, (-node.upper, -node.number, self._pushed, node))

    def pop(self, count: int) -> list[Node]:
        """The best ones."""
        return [heapq.heappop(self._entries)[-1] for _ in range(min(count, len(self)))]

    def nodes(self) -> list[Node]:
        return [entry[-1] for entry in self._entries]

    def uppers(self) -> dict[int | None, float]:
        """The largest bound of each target that has nodes here."""
        found: dict[int | None, float] = {}
        for entry in self._entries:
            target = entry[-1].region.target
            found[target] = max(found.get(target, 0.0), -entry[0])
        return found
