"""The search that branches on slopes, beside the one that branches on signs.

Its trees bound the difference of the copies (`bounders/quadratic.py`), those of the other search
see the inputs themselves. A target's bound is the smaller one of the two. An ascent tells how far
down slopes alone can lead at all: once the other search is below that, this one has no use.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from vhagar.problem import Problem
from vhagar.search.frontier import Frontier, Goal
from vhagar.search.node import Node, Region
from vhagar.search.node_solver import Explored
from vhagar.search.worker import SlopeTask

# Most nodes of a task.
_MOST_HANDED_OUT = 8
# Of all tasks: while this search has the better bound, and while it has not.
_LEADING_SHARE, _TRAILING_SHARE = 0.8, 0.25
# Tasks after which it is given half of that share if it still has the worse bound.
_PATIENCE = 12
# There is no use in bounds that can come below the known one by less than this part.
_USE = 1e-3


class SlopeSearch:
    """The frontier of slope nodes, and whether it is worth more time.

    `known` gives the bound of a goal that is known from elsewhere, in terms of this problem.
    """

    def __init__(self, problem: Problem, wanted: bool, known: Callable[[Goal], float]) -> None:
        self._known = known
        self._goals = problem.targets if wanted else ()
        self.frontier = Frontier(
            Node(Region(target, root), known(target), -k)
            for target in self._goals
            for k, root in enumerate(range(len(problem.pieces)))
        )
        self._tasks = 0
        self._floors: dict[Goal, float] = {}

    def uppers(self) -> dict[Goal, float]:
        """Each goal's bound by slopes."""
        return self.frontier.uppers(self._goals)

    def next_task(self, worker: int, workers: int, others: float, lower: float) -> SlopeTask | None:
        """Nodes for a worker, if it is this search's turn after so many tasks of the other."""
        self._give_up()
        if not len(self.frontier) or self._tasks * (1 - self._share) >= others * self._share:
            return None
        self._tasks += 1
        share = max(1, min(_MOST_HANDED_OUT, len(self.frontier) // workers))
        return SlopeTask(self.frontier.take(worker, share, workers), lower)

    @property
    def _share(self) -> float:
        own = max(self.uppers().values(), default=math.inf)
        other = max(map(self._known, self._goals), default=math.inf)
        if own < other:
            return _LEADING_SHARE
        return _TRAILING_SHARE if self._tasks < _PATIENCE else _TRAILING_SHARE / 2

    def _give_up(self) -> None:
        """Close goals that others have bounded as well as slopes ever can."""
        for goal, floor in self._floors.items():
            if floor >= (1 - _USE) * self._known(goal):
                self.frontier.close(goal)

    def put_back(self, worker: int, explored: Explored, keeps: bool) -> None:
        """What a worker made of its nodes."""
        self.frontier.put_back(worker, explored, keeps)
        for goal, floor in explored.floors.items():
            self._floors[goal] = max(self._floors.get(goal, floor), floor)
