"""Where the nodes of a search are worked on: in this process, or in workers of their own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from vhagar.options import Options
from vhagar.problem import Problem
from vhagar.reduction.base import Reduced, reduce_problem
from vhagar.relaxation.bounds_cache import BoundsCache
from vhagar.runtime.deadline import NEVER, Deadline
from vhagar.runtime.pool import Channel
from vhagar.search.bounders.base import AbstractBounder, CutsFound
from vhagar.search.bounders.lp import LpBounder
from vhagar.search.node import Node, Numbers, first_number
from vhagar.search.node_solver import Explored, NodeSolver, OnBounds, Underway, solver_with
from vhagar.search.primal_heuristic import WitnessFound
from vhagar.search.region_cache import Regions

if TYPE_CHECKING:
    from vhagar.search.bounders.quadratic import QuadraticBounder

# Seconds between two reports of a worker.
_QUANTUM_SECONDS = 0.3
# Seconds before the deadline at which workers send their last reports.
_LAST_WORDS = 0.15


@dataclass(frozen=True, eq=False)
class SignTask:
    """Nodes to explore, the best confidence known and the largest possible."""

    nodes: list[Node]
    lower: float
    ceiling: float


@dataclass(frozen=True, eq=False)
class CeilingTask:
    """Nodes of the search for the maximal confidence."""

    nodes: list[Node]
    lower: float


@dataclass(frozen=True, eq=False)
class SlopeTask:
    """Nodes of the search that branches on slopes."""

    nodes: list[Node]
    lower: float


AnyTask = SignTask | CeilingTask | SlopeTask
# Makes the bounder of a problem.
BounderMaker = Callable[[Reduced], AbstractBounder]


def lp_bounders(
    send: Callable[[WitnessFound | CutsFound], None],
    first: int = 0,
    bounds: BoundsCache | None = None,
    deadline: Deadline = NEVER,
    plain: bool = False,
    tightens: bool = False,
) -> BounderMaker:
    """Bounders by LPs. `send` hears of witnesses and cuts; numbers of new nodes begin after
    `first`."""
    return lambda reduced: LpBounder(
        reduced, send, Numbers(first), bounds, deadline, plain, tightens
    )


def slope_bounder(
    problem: Problem, first: int, bounds: BoundsCache, deadline: Deadline
) -> QuadraticBounder:
    """A bounder for the search by slopes; it shares the LPs' bounds of neurons."""
    from vhagar.search.bounders.quadratic import QuadraticBounder  # many problems end before

    regions = Regions(problem, bounds, deadline)
    return QuadraticBounder(problem, Numbers(first), regions.bounds_for_slopes, deadline)


class SearchWorker:
    """Where tasks are worked on: a node solver for each of the three searches.

    `slopes` makes the bounder of the search by slopes, where there is one.
    """

    def __init__(
        self,
        reduced: Reduced,
        options: Options,
        bounder: BounderMaker,
        slopes: Callable[[], QuadraticBounder] | None = None,
    ) -> None:
        self._problem = reduced.problem
        self._options, self._bounder, self._make_slopes = options, bounder, slopes
        self._node_solver = self._solver(reduced)
        self._ceiling = reduced.ceiling
        # The homogeneous form has no whole numbers.
        self._splits_entries = len(reduced.problem.domain.groups.whole) > 0
        self._confident: NodeSolver | None = None

    @cached_property
    def _slopes(self) -> QuadraticBounder:
        assert self._make_slopes is not None
        return self._make_slopes()

    @cached_property
    def _slope_solver(self) -> NodeSolver:
        return solver_with(self._slopes, self._problem, self._options)

    def _solver(self, reduced: Reduced) -> NodeSolver:
        return solver_with(self._bounder(reduced), reduced.problem, self._options)

    def work(
        self,
        task: AnyTask,
        most_nodes: int,
        seconds: float = math.inf,
        deadline: Deadline = NEVER,
        on_bounds: OnBounds | None = None,
        quiet: float = 0.0,
    ) -> Explored:
        """Work on a task; `on_bounds` hears of bounds that took `quiet` seconds."""
        if isinstance(task, SignTask):
            solver = self._node_solver
            solver.incumbent.update(task.lower, task.ceiling)
        elif isinstance(task, CeilingTask):
            solver = self._ceiling_solver()
            solver.incumbent.update(task.lower)
        else:
            solver = self._slope_solver
            solver.incumbent.update(task.lower)
        explored = solver.explore(
            task.nodes, most_nodes, seconds, lambda: deadline.passed, on_bounds, quiet
        )
        if isinstance(task, SlopeTask):
            explored = replace(explored, floors=dict(self._slopes.floors))
        return explored

    def take_cuts(self, found: CutsFound) -> None:
        """Take over cuts that another worker found; the ceiling's are about no target."""
        about_ceiling = found.region.target is None and self._problem.perturbation is not None
        solver = self._ceiling_solver() if about_ceiling else self._node_solver
        solver.take_cuts(found)

    def _ceiling_solver(self) -> NodeSolver:
        if self._confident is None:
            asked = reduce_problem(self._ceiling, ())
            self._confident = self._solver(replace(asked, splits_entries=self._splits_entries))
        return self._confident


@dataclass(frozen=True, eq=False)
class WorkerJob:
    """What a worker needs to know before its first task; `number` is its own.

    A `plain` one tries no heuristic: it takes over from one that did not return. One that
    `tightens` has tighter hexagons in some subtrees.
    """

    reduced: Reduced
    options: Options
    number: int
    deadline: Deadline = NEVER
    plain: bool = False
    tightens: bool = False


@dataclass(frozen=True)
class Ready:
    """A worker has started: it waits for its first task."""


def serve(job: WorkerJob, channel: Channel) -> None:
    """What runs in a worker: tasks in, reports out, until the parent ends it.

    Its deadline is a little earlier than the parent's, so that the parent still receives the bounds
    of LPs that were stopped.
    """
    deadline, first = job.deadline.before(_LAST_WORDS), first_number(job.number)
    bounds = BoundsCache()
    bounders = lp_bounders(channel.send, first, bounds, deadline, job.plain, job.tightens)
    slopes = partial(slope_bounder, job.reduced.problem, first, bounds, deadline)
    worker = SearchWorker(job.reduced, job.options, bounders, slopes)

    def tell(so_far: Explored) -> None:
        channel.send(Underway(so_far))

    channel.send(Ready())
    np.seterr(over="ignore", invalid="ignore")  # as in the parent's process
    while True:
        task = channel.receive()
        if isinstance(task, CutsFound):
            worker.take_cuts(task)
            continue
        done = worker.work(task, 10**9, _QUANTUM_SECONDS, deadline, tell, _QUANTUM_SECONDS)
        channel.send(done)
