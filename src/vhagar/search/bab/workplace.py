"""Where the nodes of a search are worked on: in this process, or in workers of their own."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from vhagar.options import Options
from vhagar.problem import Problem
from vhagar.relaxation.memory import BoundsMemory
from vhagar.search.bab.explorer import Explored, Explorer
from vhagar.search.bab.node import Node, first_number
from vhagar.search.homogeneous import linear_form
from vhagar.search.processes import Channel

_QUANTUM_SECONDS = 0.3


@dataclass(frozen=True, eq=False)
class Task:
    """Nodes to explore, the best confidence known and the largest possible."""

    nodes: list[Node]
    lower: float
    ceiling: float


@dataclass(frozen=True, eq=False)
class CeilingTask:
    """Nodes of the search for the largest confidence."""

    nodes: list[Node]
    lower: float


class Workplace:
    """Where tasks are worked on: an explorer for each of the two searches."""

    def __init__(
        self,
        problem: Problem,
        options: Options,
        send: Any,
        first: int = 0,
        bounds: BoundsMemory | None = None,
    ) -> None:
        if options.certificate is None:
            problem = linear_form(problem)
        self._arguments = (options, send, first, bounds)
        self._explorer = Explorer(problem, *self._arguments)
        self._problem = problem
        self._confident: Explorer | None = None

    def work(
        self,
        task: Task | CeilingTask,
        most_nodes: int,
        seconds: float = math.inf,
        stop_at: float = math.inf,
    ) -> Explored:
        if isinstance(task, Task):
            explorer = self._explorer
            explorer.ceiling = min(explorer.ceiling, task.ceiling)
        else:
            explorer = self._ceiling_explorer()
        explorer.lower = max(explorer.lower, task.lower)
        return explorer.explore(
            task.nodes, most_nodes, seconds, should_stop=lambda: time.monotonic() > stop_at
        )

    def _ceiling_explorer(self) -> Explorer:
        if self._confident is None:
            self._confident = Explorer(self._problem.without_perturbation(), *self._arguments)
        return self._confident


def explore(argument: tuple[Problem, Options, int], channel: Channel) -> None:
    """What runs in a worker: tasks in, reports out, until the parent ends it."""
    problem, options, worker = argument
    workplace = Workplace(problem, options, channel.send, first_number(worker))
    while True:
        channel.send(workplace.work(channel.receive(), 10**9, _QUANTUM_SECONDS))
