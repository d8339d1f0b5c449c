"""The open nodes of a search: a heap for each target, and what memory cannot hold on disk."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain

from vhagar.problem import Target
from vhagar.search.node import Node
from vhagar.search.spill import Spill

# Open nodes of a target in memory, at most; each takes one to three kilobytes.
MOST_IN_MEMORY = 50_000


class OpenHeaps:
    """Open nodes, of which those with the smallest bounds are on disk where there are too many."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        # A heap for each target: its bound is its best node's, however many there are.
        self._heaps: dict[Target, list[Node]] = {}
        self._spilled: dict[Target, Spill] = {}
        self._count = 0
        for node in nodes:
            self.push(node)

    def __len__(self) -> int:
        return self._count

    def in_memory(self) -> Iterator[Node]:
        return chain(*self._heaps.values())

    @property
    def on_disk(self) -> tuple[Spill, ...]:
        return tuple(self._spilled.values())

    @property
    def target_count(self) -> int:
        """How many targets have had nodes here, and were not taken away."""
        return len(self._heaps)

    def push(self, node: Node) -> None:
        target = node.region.target
        heap = self._heaps.setdefault(target, [])
        heapq.heappush(heap, node)
        self._count += 1
        if len(heap) > MOST_IN_MEMORY:
            self._spill(target, heap)

    def _spill(self, target: Target, heap: list[Node]) -> None:
        """Put the worse half of a target's nodes on disk."""
        heap.sort()
        half = len(heap) // 2
        if self._spilled.setdefault(target, Spill()).store(heap[half:]):
            del heap[half:]

    def refill(self, everything: bool = False) -> None:
        """Read nodes from disk that are better than all in memory, or all there are."""
        for target, spill in self._spilled.items():
            heap = self._heaps.setdefault(target, [])
            while len(spill) and (everything or not heap or spill.upper > heap[0].upper):
                for node in spill.take_best():
                    heapq.heappush(heap, node)

    def pop(self, known: Mapping[Target, float], roots_as_they_are: bool) -> Node:
        """The best node of the target with the largest bound; among equals that of the younger.

        A target's bound is at most what is `known` of it, except for `roots_as_they_are`.
        """
        self.refill()
        self._count -= 1
        heaps = {target: heap for target, heap in reversed(self._heaps.items()) if heap}

        def first(target: Target) -> tuple[float, Node]:
            best = heaps[target][0]
            alone = roots_as_they_are and not best.decisions
            return -min(best.upper, math.inf if alone else known.get(target, math.inf)), best

        return heapq.heappop(heaps[min(heaps, key=first)])

    def take_all(self, wanted: Callable[[Node], bool]) -> list[Node]:
        """Take all wanted nodes that are in memory."""
        taken: list[Node] = []
        for heap in self._heaps.values():
            taken += filter(wanted, heap)
            heap[:] = [node for node in heap if not wanted(node)]
            heapq.heapify(heap)
        self._count -= len(taken)
        return taken

    def take_target(self, target: Target) -> Iterator[Node]:
        """Take all nodes of a target, wherever they are."""
        nodes, spill = self._heaps.pop(target, []), self._spilled.pop(target, Spill())
        self._count -= len(nodes) + len(spill)
        return chain(nodes, spill)

    def cap_roots(self, upper_of: Callable[[Target], float]) -> None:
        """Lower the bounds of roots to what is known of their targets from elsewhere."""
        for target, heap in self._heaps.items():
            upper = upper_of(target)
            heap[:] = [
                node if node.decisions else replace(node, upper=min(node.upper, upper))
                for node in heap
            ]
            heapq.heapify(heap)

    def uppers(self) -> dict[Target, float]:
        """The largest bound of each target's nodes; none where it has no nodes."""
        uppers = {target: heap[0].upper for target, heap in self._heaps.items() if heap}
        for target, spill in self._spilled.items():
            uppers[target] = max(uppers.get(target, 0.0), spill.upper)
        return uppers
