"""The open nodes of a search, those that workers have, and the bounds of those that are done."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from vhagar.search.bab.explorer import Explored
from vhagar.search.bab.node import Closed, Node

Goal = int | None


class Frontier:
    """No node is ever lost: it is open, in a worker's hands, or closed with its bound."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._open = list(nodes)
        heapq.heapify(self._open)
        self._in_flight: dict[int, list[Node]] = {}
        self._closed = Closed()
        self.explored = 0

    def __len__(self) -> int:
        """How many nodes are open and in nobody's hands."""
        return len(self._open)

    @property
    def in_flight(self) -> bool:
        return bool(self._in_flight)

    def has(self, worker: int) -> bool:
        """Whether a worker has nodes of this frontier."""
        return worker in self._in_flight

    def take(self, worker: int, count: int, workers: int = 1) -> list[Node]:
        """The best nodes; among as many as all workers take, or twice as many, those first whose
        bases the worker has."""
        among = count * max(2, workers)
        best = [heapq.heappop(self._open) for _ in range(min(among, len(self._open)))]
        own = [node for node in best[1:] if node.maker == worker]
        others = [node for node in best[1:] if node.maker != worker]
        ordered = [best[0], *own, *others]  # the very best is never left behind
        for node in ordered[count:]:
            heapq.heappush(self._open, node)
        self._in_flight[worker] = ordered[:count]
        return ordered[:count]

    def put_back(self, worker: int, explored: Explored) -> None:
        """What a worker made of its nodes."""
        self._in_flight.pop(worker, None)
        for node in explored.open:
            heapq.heappush(self._open, node)
        self._closed.merge(explored.closed)
        self.explored += explored.nodes

    def abandon(self, worker: int) -> None:
        """A worker is gone: its nodes are open again, unexplored."""
        for node in self._in_flight.pop(worker, []):
            heapq.heappush(self._open, node)

    def uppers(self, goals: Iterable[Goal]) -> dict[Goal, float]:
        """Each goal's bound: the largest of its nodes, open, in flight or closed."""
        uppers = {goal: self._closed.uppers.get(goal, 0.0) for goal in goals}
        for nodes in (self._open, *self._in_flight.values()):
            for node in nodes:
                goal = node.region.target
                uppers[goal] = max(uppers[goal], node.upper)
        return uppers
