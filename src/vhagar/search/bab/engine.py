"""One frontier over all pieces and targets, one incumbent, and workers that explore it."""

from __future__ import annotations

import heapq
import queue
import time
from dataclasses import dataclass
from typing import Any

from vhagar.options import Options
from vhagar.problem import Problem
from vhagar.result import BoundKind, Tracker
from vhagar.search.bab.explorer import Explored, Explorer, WitnessFound
from vhagar.search.bab.node import Closed, Node, Region, first_number
from vhagar.search.base import AbstractEngine
from vhagar.search.processes import Channel, Finished, Worker

_HEARTBEAT = 0.25
# How much a worker does before it reports: nodes where results must repeat, else seconds.
_QUANTUM_NODES, _QUANTUM_SECONDS = 10, 0.3
_MOST_HANDED_OUT = 8


@dataclass(frozen=True, eq=False)
class Task:
    """Nodes to explore, and the best confidence known."""

    nodes: list[Node]
    lower: float


class BabEngine(AbstractEngine):
    """Branch and bound on the lambda-LP."""

    def run(self, tracker: Tracker, deadline: float) -> bool:
        search = _Search(tracker)
        workers = tracker.options.worker_count
        if workers > 1 and tracker.options.processes:
            return search.run_in_processes(workers, deadline)
        return search.run_here(deadline)


class _Search:
    """The frontier and its bookkeeping; the same with and without processes."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        problem = tracker.problem
        self._frontier = [
            Node(Region(target, root), tracker.goal_upper(target), -k)
            for target in problem.goals
            for k, root in enumerate(range(len(problem.pieces)))
        ]
        heapq.heapify(self._frontier)
        self._closed = Closed()
        self._in_flight: dict[int, list[Node]] = {}

    def run_here(self, deadline: float) -> bool:
        """Everything in this process, always in the same order."""
        tracker = self._tracker
        explorer = Explorer(tracker.problem, tracker.options, self._take_witness)
        while self._frontier and not tracker.closed:
            if time.monotonic() > deadline:
                return True
            explorer.lower = max(explorer.lower, tracker.lower)
            nodes = self._take(_MOST_HANDED_OUT)
            self._in_flight[0] = nodes
            explored = explorer.explore(
                nodes, _QUANTUM_NODES, should_stop=lambda: time.monotonic() > deadline
            )
            self._put_back(0, explored)
            tracker.report()
        self._announce()
        return False

    def run_in_processes(self, count: int, deadline: float) -> bool:
        tracker = self._tracker
        inbox: queue.Queue[tuple[int, Any]] = queue.Queue()
        job = (_explore, (tracker.problem, tracker.options))
        workers: dict[int, Worker] = {}
        try:
            for k in range(count):
                workers[k] = Worker(k, (job[0], (*job[1], k)), inbox)
            idle = set(workers)
            while not tracker.closed:
                if time.monotonic() > deadline:
                    return True
                self._hand_out(workers, idle)
                if not self._in_flight:
                    break  # nothing left to do, or nobody left to do it
                try:
                    left = deadline - time.monotonic()
                    name, message = inbox.get(timeout=max(0.0, min(left, _HEARTBEAT)))
                except queue.Empty:
                    tracker.report()
                    continue
                self._handle(name, message, workers, idle)
            self._announce()
            return False
        finally:
            for worker in workers.values():
                worker.stop()

    def _handle(self, name: int, message: Any, workers: dict[int, Worker], idle: set[int]) -> None:
        if isinstance(message, WitnessFound):
            self._take_witness(message)
        elif isinstance(message, Explored):
            self._put_back(name, message)
            idle.add(name)
        elif isinstance(message, Finished):
            # Its nodes go back to the frontier, unexplored: nothing is lost.
            for node in self._in_flight.pop(name, []):
                heapq.heappush(self._frontier, node)
            idle.discard(name)
            workers.pop(name).stop()
            self._tracker.note(f"a worker ended early: {message.error}")

    def _hand_out(self, workers: dict[int, Worker], idle: set[int]) -> None:
        for name in sorted(idle):
            if not self._frontier:
                return
            # A fair share while there are few nodes, so that nobody starves.
            share = max(1, min(_MOST_HANDED_OUT, len(self._frontier) // len(workers)))
            nodes = self._take(share, name)
            self._in_flight[name] = nodes
            workers[name].tell(Task(nodes, self._tracker.lower))
            idle.discard(name)

    def _take(self, count: int, worker: int | None = None) -> list[Node]:
        """The best nodes; among twice as many, those whose bases the worker has come first."""
        best = [heapq.heappop(self._frontier) for _ in range(min(2 * count, len(self._frontier)))]
        own = [node for node in best[1:] if worker is not None and node.maker == worker]
        others = [node for node in best[1:] if worker is None or node.maker != worker]
        chosen = [best[0], *own, *others][:count]  # the very best is never left behind
        for node in [best[0], *own, *others][count:]:
            heapq.heappush(self._frontier, node)
        return chosen

    def _put_back(self, name: int, explored: Explored) -> None:
        self._in_flight.pop(name, None)
        for node in explored.open:
            heapq.heappush(self._frontier, node)
        self._closed.merge(explored.closed)
        self._tracker.count_nodes(explored.nodes)
        if explored.trouble is not None:
            self._tracker.note(f"a part of the search failed: {explored.trouble}")
        self._announce()

    def _announce(self) -> None:
        """Each target's bound: the largest of its nodes, open, in flight or closed."""
        uppers = dict.fromkeys(self._tracker.problem.goals, 0.0)
        for nodes in (self._frontier, *self._in_flight.values()):
            for node in nodes:
                target = node.region.target
                uppers[target] = max(uppers[target], node.upper)
        for target, upper in self._closed.uppers.items():
            uppers[target] = max(uppers[target], upper)
        for target, upper in uppers.items():
            self._tracker.offer_upper(target, upper, BoundKind.TWIN)

    def _take_witness(self, found: WitnessFound) -> None:
        piece = self._tracker.problem.pieces[found.root]
        self._tracker.offer_witness(found.target, found.x, piece, found.parameters)


def _explore(argument: tuple[Problem, Options, int], channel: Channel) -> None:
    """What runs in a worker: tasks in, reports out, until the parent ends it."""
    problem, options, worker = argument
    explorer = Explorer(problem, options, channel.send, first=first_number(worker))
    while True:
        task: Task = channel.receive()
        explorer.lower = max(explorer.lower, task.lower)
        channel.send(explorer.explore(task.nodes, 10**9, _QUANTUM_SECONDS))
