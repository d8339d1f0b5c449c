"""The search that branches on slopes, beside the one that branches on signs.

Its trees bound the difference of the copies (`bounders/quadratic.py`), those of the other search
see the inputs themselves. A target's bound is the smaller one of the two. Time goes to the search
that is likely to lower the bound by more, by how fast both have fallen lately. An ascent tells how
far down slopes alone can lead at all: near that this search has little use, and once the other one
is below it, none.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

from vhagar.problem import Problem, Target
from vhagar.search.frontier import MOST_HANDED_OUT, Frontier
from vhagar.search.node import Node, root_nodes
from vhagar.search.node_solver import Explored
from vhagar.search.proofs.tree_state import SearchKind
from vhagar.search.worker import SlopeTask

# Share of all effort while this search is likely to lower the bound by more, and while it is not.
# The search by signs always keeps a part, because witnesses come from its LPs.
_LEADING_SHARE, _TRAILING_SHARE = 0.5, 0.05
# Share of all effort at first: while this search has the smaller upper bound, and while it has not.
_FIRST_SHARES = (0.6, 0.2)
# Most roots that are all bounded before anything else, where there are several targets.
_MOST_OPENED = 64
# Tasks of each search before their descents are compared.
_FEW_TASKS = 4
# A search with a bound larger by this factor that does not fall faster is given up.
_FAR = 1.3
# Where slopes can close no more than this share of the gap, they get the smaller share.
_LITTLE = 0.02
# A target is given up where slopes can improve the known bound by no more than this share of it.
_USE = 1e-3


class Descent:
    """How a bound has decreased with the effort spent on it, after its first value."""

    def __init__(self) -> None:
        self.total = 0.0
        self.tasks = 0
        self._efforts: list[float] = []
        self._uppers: list[float] = []

    def add(self, effort: float, upper: float) -> None:
        """Record the effort of a task and the bound after it."""
        self.total += effort
        self.tasks += 1
        self._efforts.append(self.total)
        self._uppers.append(upper)

    @property
    def rate(self) -> float:
        """The decrease per unit of effort, over the last half of the effort."""
        if len(self._efforts) < 2:
            return 0.0
        first = min(bisect_left(self._efforts, self.total / 2), len(self._efforts) - 2)
        spent = self.total - self._efforts[first]
        fallen = self._uppers[first] - self._uppers[-1]
        return fallen / spent if spent > 0 and math.isfinite(fallen) else 0.0


class SlopeSearch:
    """The frontier of slope nodes, and whether it is worth more time.

    `known` gives the bound of a target that is known from elsewhere, in terms of this problem.
    Before anything is done here, signs have a head start: many a small problem ends before it does.
    """

    def __init__(
        self,
        problem: Problem,
        wanted: bool,
        known: Callable[[Target], float],
        head_start: float = 0.0,
        frontier_of: Callable[[list[Node], SearchKind], Frontier] = lambda nodes, _: Frontier(
            nodes
        ),
    ) -> None:
        self._known = known
        self._head_start = head_start
        self._targets = problem.targets if wanted else ()
        roots = root_nodes(problem, self._targets, known)
        self.frontier = frontier_of(roots, SearchKind.SLOPES)
        # The number of roots that have not been handed out yet.
        self._roots = sum(not node.decisions for node in self.frontier.kept()[0])
        # Every target counts for the answer, and a root's first bound here takes less than its LP.
        self._opening = len(self._targets) > 1 and len(roots) <= _MOST_OPENED
        self._own, self._signs = Descent(), Descent()
        self._floors: dict[Target, float] = {}

    def uppers(self) -> dict[Target, float]:
        """Each target's bound by slopes."""
        return self.frontier.uppers(self._targets)

    def next_task(
        self,
        worker: int,
        workers: int,
        lower: float,
        idle: bool = False,
        most: int = MOST_HANDED_OUT,
    ) -> SlopeTask | None:
        """Nodes for a worker, if it is this search's turn; `idle` if there is nothing else."""
        self._give_up()
        opens = self._opens()
        if not len(self.frontier) or not (idle or opens or self._is_next(lower)):
            return None
        if self._roots:
            # The worst targets come first, by what is known of them now. And a root need not be
            # bounded if slopes lead no lower than that.
            self.frontier.cap_roots(self._known)
        share = max(1, min(most, len(self.frontier) // workers))
        if opens is not None:
            nodes = self.frontier.take_some(worker, opens, share)
        else:
            nodes = self.frontier.take(worker, share, workers)
        self._roots -= sum(not node.decisions and not node.rounds for node in nodes)
        return SlopeTask(nodes, lower)

    def _opens(self) -> Callable[[Node], bool] | None:
        """Which roots have the largest bound of all, and none of this search yet; None without any.

        They come before other nodes with that bound, which would never end where slopes do not
        help.
        """
        if not self._opening or self._signs.total < self._head_start:
            return None
        uppers = self.uppers()
        known = {target: min(upper, self._known(target)) for target, upper in uppers.items()}
        largest = max(known.values())

        def counts(node: Node) -> bool:
            is_new = not node.decisions and not node.rounds
            return is_new and min(node.upper, known[node.region.target]) >= largest

        self._opening = self.frontier.has_any(counts, at_work=True)
        return counts if self.frontier.has_any(counts) else None

    def _is_next(self, lower: float) -> bool:
        share = self._share(lower)
        signs = self._signs.total
        return signs > self._head_start and self._own.total * (1 - share) < signs * share

    def _share(self, lower: float) -> float:
        """This search's share of all effort, with a lower bound on what is searched for."""
        uppers = self.uppers()
        own = max(uppers.values())
        signs = max(map(self._known, self._targets))
        if 0 < len(self._floors) < len(self._targets):
            # The answer is the worst target's: it says nothing yet about those that had no turn.
            better = sum(uppers[target] < self._known(target) for target in self._floors)
            return _FIRST_SHARES[2 * better < len(self._floors)]
        if min(self._own.tasks, self._signs.tasks) < _FEW_TASKS:
            return _FIRST_SHARES[own >= signs]
        if own > _FAR * signs and self._own.rate <= self._signs.rate:
            return 0.0
        floor = max(self._floors.values(), default=lower)
        if own - floor <= _LITTLE * (own - lower):
            return _TRAILING_SHARE
        ahead = (self._own.total + self._signs.total) / 2
        by_slopes = max(own - self._own.rate * ahead, floor)
        by_signs = max(signs - self._signs.rate * ahead, lower)
        return _LEADING_SHARE if by_slopes < by_signs else _TRAILING_SHARE

    def spent(self, effort: float, by_slopes: bool) -> None:
        """Record the effort that a task of one of the two searches took."""
        if self._targets:
            if by_slopes:
                self._own.add(effort, max(self.uppers().values()))
            else:
                self._signs.add(effort, max(map(self._known, self._targets)))

    def _give_up(self) -> None:
        """Close targets whose known bounds are as good as slopes can ever prove."""
        for target, floor in self._floors.items():
            if floor >= (1 - _USE) * self._known(target):
                self.frontier.close(target)

    def put_back(self, worker: int, explored: Explored, underway: bool) -> None:
        """Take a worker's report on its nodes."""
        self.frontier.put_back(worker, explored, underway)
        for target, floor in explored.floors.items():
            self._floors[target] = max(self._floors.get(target, floor), floor)
