"""Drives the bounding in batches from the search: in a process beside its workers, or here.

Nothing of torch is imported before there is something to bound.
"""

from __future__ import annotations

import time
from typing import Any

from vhagar.result import Run
from vhagar.runtime.deadline import Deadline
from vhagar.runtime.pool import AbstractPool, Finished
from vhagar.search.bounders.gpu.messages import GpuReady, GpuReport, GpuTask, Suitable
from vhagar.search.frontier import Frontier
from vhagar.search.node import Node, Numbers, first_number
from vhagar.search.node_solver import Explored, solver_with

# Most nodes of a task.
_NODES = 512
# Per worker: nodes that stay with the linear programs, and nodes that are returned to them.
_RESERVED, _RETURNED = 8, 4
# Least nodes for the first batch.
_WORTHWHILE = 64
# After so many tasks in a row that left no node open, there are no more.
_MOST_FRUITLESS = 3
# All nodes return to the LPs if the bounds of nodes that were made here exceed those of all others
# by this share of the gap for so many seconds. Measured: three dense instances, 0.71 instead of
# 3.45 percentage points (PERFORMANCE.md, H200).
_LAG, _PATIENCE = 0.15, 8.0


class GpuProcess:
    """A process that takes nodes by the thousand. It is given none before it is ready.

    Where it is `required`, it works without a GPU, too.
    """

    def __init__(self, run: Run, name: int, pool: AbstractPool, required: bool) -> None:
        from vhagar.search.bounders.gpu.gpu_worker import explore_on_gpu

        self.name = name
        self._run = run
        self._suitable = Suitable(run.problem)
        self._idle = False
        self._held: dict[int | None, float] = {}
        self._fruitless = 0
        self._in_time = time.monotonic()
        job = (run.problem, run.options, name, required)
        self._pool = pool
        pool.start(name, (explore_on_gpu, job))

    def hand_out(self, frontier: Frontier, ceiling: float, workers: int) -> None:
        """Lend the process nodes, and ask for some back if it holds the best ones."""
        if not self._idle:
            return
        reserve, nodes = _RESERVED * workers, list[Node]()
        best = max(self._held.values(), default=0.0)
        made, others = frontier.best_of(self.name)
        if self._lags(max(best, made), others):
            # Linear programs do better on this problem, and best from the nodes as they were lent:
            # their descendants here are more than LPs would have to solve.
            frontier.abandon(self.name)
            self._held, self._idle = {}, False
            return
        if len(frontier) >= reserve + (0 if self._held else _WORTHWHILE):
            nodes = frontier.lend(self.name, _NODES, reserve, best, self._suitable)
        if nodes or self._held:
            wanted = _RETURNED * workers if best > frontier.best() else 0
            self._pool.tell(self.name, GpuTask(nodes, self._run.interval.lower, ceiling, wanted))
            self._idle = False

    def _lags(self, own: float, others: float) -> bool:
        """Whether the process's nodes have held up the search for a while."""
        if own - others <= _LAG * (own - self._run.interval.lower):
            self._in_time = time.monotonic()
        return time.monotonic() - self._in_time > _PATIENCE

    def handle(self, message: Any) -> None:
        """Take a message: the process is ready, has done its task, or is gone."""
        if isinstance(message, Finished):
            self._run.note(f"the bounding in batches ended early: {message.error}")
            return
        if isinstance(message, GpuReady):
            self._run.device = message.device
            self._in_time = time.monotonic()
        if isinstance(message, GpuReport):
            self._held = message.held
            self._fruitless = 0 if message.held else self._fruitless + 1
        self._idle = self._fruitless < _MOST_FRUITLESS


class GpuHere:
    """The same in this process, a few nodes at a time, always in the same order."""

    def __init__(self, run: Run, name: int) -> None:
        from vhagar.runtime.devices import device_words, torch_device
        from vhagar.search.bounders.gpu.bounder import GpuBounder

        self.name = name
        self._run = run
        self._suitable = Suitable(run.problem)
        device = torch_device(run.options.device)
        run.device = device_words(device)
        numbers = Numbers(first_number(name))
        bounder = GpuBounder(run.problem, device, numbers, run.bounds)
        self._node_solver = solver_with(bounder, run.problem, run.options)

    def take(self, frontier: Frontier, count: int) -> list[Node]:
        """The best nodes but one."""
        return frontier.lend(self.name, count, 1, 0.0, self._suitable)

    def explore(
        self, nodes: list[Node], most_nodes: int, ceiling: float, deadline: Deadline
    ) -> Explored:
        self._node_solver.incumbent.update(self._run.interval.lower, ceiling)
        return self._node_solver.explore(nodes, most_nodes, should_stop=deadline.is_late)
