"""The nodes of a search: open ones, those that workers explore, and the bounds of closed ones."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from vhagar.problem import Target
from vhagar.relaxation.lp.decisions import Decision
from vhagar.search.cover import Cover
from vhagar.search.node import Closed, Node, Region
from vhagar.search.node_solver import Explored
from vhagar.search.open_heaps import OpenHeaps
from vhagar.search.spill import Spill

# Most nodes of a task.
MOST_HANDED_OUT = 8


@dataclass(eq=False)
class _Lent:
    """What a worker was lent.

    `nodes` are all of them, in case the worker is lost; `unreported` are those that it has not
    reported on yet; `held` bounds the descendants of the others that it still has.
    """

    nodes: list[Node] = field(default_factory=list)
    unreported: list[Node] = field(default_factory=list)
    held: dict[Target, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class OpenNodes:
    """All open nodes of a frontier, also those on disk, which pass through memory one by one."""

    in_memory: list[Node]
    on_disk: tuple[Spill, ...] = ()

    def __iter__(self) -> Iterator[Node]:
        return chain(self.in_memory, *self.on_disk)

    def __bool__(self) -> bool:
        return bool(self.in_memory) or any(map(len, self.on_disk))


class Frontier:
    """No node is ever lost: it is open, in a worker's hands, or closed with its bound.

    For a checkpoint it `keeps_closed` ones, too; a search that is resumed begins with some.
    """

    def __init__(
        self, nodes: Iterable[Node], closed: Iterable[Node] = (), keeps_closed: bool = False
    ) -> None:
        self._open = OpenHeaps(nodes)
        self._in_flight: dict[int, list[Node]] = {}
        self._lent: dict[int, _Lent] = {}
        self._closed = Closed()
        self._cover = Cover() if keeps_closed else None
        for node in closed:
            self._close(node)
        self.explored = 0
        # Bounds on targets from other searches. Targets are taken in order of the smaller of both
        # bounds, largest first: the answer is no better than that. With `roots_as_they_are`, roots
        # are taken in the order of their own bounds.
        self.known_elsewhere: Callable[[], Mapping[Target, float]] = dict
        self.roots_as_they_are = False

    def __len__(self) -> int:
        """The number of open nodes that no worker has."""
        return len(self._open)

    def _pop_all(self, count: int) -> list[Node]:
        """Remove and return so many of the best nodes, or all there are."""
        known = self.known_elsewhere() if self._open.target_count > 1 else {}
        return [self._open.pop(known, self.roots_as_they_are) for _ in range(min(count, len(self)))]

    def has_any(self, kind: Callable[[Node], bool], at_work: bool = False) -> bool:
        """Whether nodes of a kind are open or, with `at_work`, in the hands of a worker."""
        taken = self._in_flight.values() if at_work else ()
        return any(map(kind, chain(self._open.in_memory(), *taken)))

    @property
    def in_flight(self) -> bool:
        return bool(self._in_flight or self._lent)

    def has(self, worker: int) -> bool:
        """Whether a worker has nodes of this frontier."""
        return worker in self._in_flight

    def take(self, worker: int, count: int, workers: int = 1) -> list[Node]:
        """Take the best nodes.

        Among as many nodes as all workers take, or twice as many, those come first whose bases the
        worker has.
        """
        among = count * max(2, workers)
        best = self._pop_all(among)
        own = [node for node in best[1:] if node.maker == worker]
        others = [node for node in best[1:] if node.maker != worker]
        ordered = [best[0], *own, *others]  # the very best is never left behind
        for node in ordered[count:]:
            self._open.push(node)
        self._in_flight[worker] = ordered[:count]
        return ordered[:count]

    def cap_roots(self, upper_of: Callable[[Target], float]) -> None:
        """Lower the bounds of open roots to what is known of their targets from elsewhere."""
        self._open.cap_roots(upper_of)

    def take_share(self, worker: int, workers: int) -> list[Node]:
        """The best nodes, and a fair share only while there are few, so that nobody starves."""
        return self.take(worker, max(1, min(MOST_HANDED_OUT, len(self) // workers)), workers)

    def take_alike(self, worker: int) -> list[Node]:
        """Take the best node, and all others of its piece that were bounded in as many rounds."""
        self._open.refill(everything=True)
        (best,) = self._pop_all(1)

        def alike(node: Node) -> bool:
            return (node.region.piece_index, node.rounds) == (best.region.piece_index, best.rounds)

        taken = self._in_flight[worker] = [best, *self._open.take_all(alike)]
        return taken

    def take_piece(self, worker: int, piece_index: int) -> list[Node]:
        """All open nodes of a piece."""
        self._open.refill(everything=True)
        taken = self._open.take_all(lambda node: node.region.piece_index == piece_index)
        if taken:
            self._in_flight[worker] = taken
        return taken

    def take_some(self, worker: int, wanted: Callable[[Node], bool], count: int) -> list[Node]:
        """Take so many of the best wanted nodes that are in memory, whatever else is better."""
        best = set(heapq.nsmallest(count, filter(wanted, self._open.in_memory())))
        taken = self._in_flight[worker] = self._open.take_all(best.__contains__)
        return taken

    def best_of(self, worker: int) -> tuple[float, float]:
        """The largest bounds of nodes that a worker has made, and of those that others have.

        Nodes on disk have smaller ones, and those that were lent do not count.
        """
        made = others = 0.0
        for node in chain(self._open.in_memory(), *self._in_flight.values()):
            if node.maker == worker:
                made = max(made, node.upper)
            else:
                others = max(others, node.upper)
        return made, others

    def best(self) -> float:
        """The largest bound of an open node that no worker has."""
        return max(self._open.uppers().values(), default=0.0)

    def lend(
        self, worker: int, count: int, reserve: int, above: float, suitable: Container[Region]
    ) -> list[Node]:
        """Lend nodes to a worker, which keeps them and their children until it reports.

        The `reserve` best nodes stay for others. Of the next `count`, those of suitable regions
        with a bound larger than `above` are lent.
        """
        best = self._pop_all(count + reserve)
        taken: list[Node] = []
        left = best[:reserve]
        for node in best[reserve:]:
            wanted = node.upper > above and node.region.whole in suitable
            (taken if wanted else left).append(node)
        for node in left:
            self._open.push(node)
        if taken:
            lent = self._lent.setdefault(worker, _Lent())
            lent.nodes += taken
            lent.unreported += taken
        return taken

    def report(self, worker: int, explored: Explored, held: dict[Target, float]) -> None:
        """Take a worker's report on all nodes that it was lent.

        Nodes that come back are open again; `held` bounds those that stay with the worker.
        """
        lent = self._lent.setdefault(worker, _Lent())
        lent.held, lent.unreported = held, []
        if not held:
            del self._lent[worker]
        self.put_back(worker, explored)

    def put_back(self, worker: int, explored: Explored, underway: bool = False) -> None:
        """Take a worker's report on its nodes; open ones stay with it while it is `underway`."""
        self._in_flight.pop(worker, None)
        if underway:
            self._in_flight[worker] = explored.open
        else:
            for node in explored.open:
                self._open.push(node)
        self._closed.merge(explored.closed)
        if self._cover is not None:
            self._cover.add(explored.closed.nodes)
        self.explored += explored.nodes

    def close(self, target: Target) -> None:
        """Close all open nodes of a target with the bounds they have."""
        for node in self._open.take_target(target):
            self._close(node)

    def _close(self, node: Node) -> None:
        self._closed.add(node.region.target, node.upper)
        if self._cover is not None:
            self._cover.add([node])

    def kept(self) -> tuple[OpenNodes, list[Node]]:
        """Return all nodes that are not closed, wherever they are, and the closed parts.

        Nodes that a worker was lent count as they were when it got them.
        """
        taken = self._in_flight.values()
        lent = (held.nodes for held in self._lent.values())
        found = [*chain(self._open.in_memory(), *taken, *lent)]
        opened = OpenNodes(found, self._open.on_disk)
        return opened, [] if self._cover is None else list(self._cover.nodes())

    def abandon(self, worker: int) -> None:
        """Open the nodes of a lost worker again, unexplored.

        Parts of nodes that it was lent have come back from it: the whole nodes replace those.
        """
        lent = self._lent.pop(worker, _Lent())
        whole = {(node.region.whole, node.decisions) for node in lent.nodes}
        if whole:
            self._open.take_all(lambda node: _is_within(node, whole))
        for node in self._in_flight.pop(worker, []) + lent.nodes:
            if not _is_within(node, whole):
                self._open.push(node)

    def uppers(self, targets: Iterable[Target]) -> dict[Target, float]:
        """Each target's bound: the largest of its nodes, open, in flight or closed."""
        uppers = {target: self._closed.uppers.get(target, 0.0) for target in targets}
        for target, upper in self._open.uppers().items():
            uppers[target] = max(uppers[target], upper)
        for lent in self._lent.values():
            for target, upper in lent.held.items():
                uppers[target] = max(uppers[target], upper)
        unreported = (lent.unreported for lent in self._lent.values())
        for nodes in (*self._in_flight.values(), *unreported):
            for node in nodes:
                target = node.region.target
                uppers[target] = max(uppers[target], node.upper)
        return uppers


def _is_within(node: Node, parts: Container[tuple[Region, tuple[Decision, ...]]]) -> bool:
    """Whether one of the parts holds all of a node and more."""
    region, decisions = node.region.whole, node.decisions
    return any((region, decisions[:count]) in parts for count in range(len(decisions)))
