"""The MIP engine: what all targets share first, then one process per target.

Bounds and candidates stream in all the time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from vhagar.dataset import named_dataset
from vhagar.engine import AbstractEngine
from vhagar.errors import InvalidInput, SolverFailure, SolverUnavailable
from vhagar.options import Options
from vhagar.reduction import Reduced
from vhagar.result import BoundKind, Run
from vhagar.runtime.pool import AbstractPool, Channel, Finished
from vhagar.runtime.processes import ProcessPool
from vhagar.search.mip.attack_phase import AttackPhase, attack_first
from vhagar.search.mip.messages import (
    CandidateFound,
    Message,
    NodesSearched,
    SolverMissing,
    UpperFound,
)
from vhagar.search.mip.options import MipOptions
from vhagar.search.mip.preparation import Prepared, prepare
from vhagar.search.mip.target import TargetSearch, stopwatch
from vhagar.search.mip.tasks import BoundsWorker, TasksHere, TasksInPool
from vhagar.solver.backends import backend_named


@dataclass(frozen=True)
class Mip(AbstractEngine):
    """The paper's method: concrete bounds, dependencies, the attack, and the main MIP.

    `solver` is the MIP solver: "highs", "scip" or "gurobi". `formulation` says how a ReLU is
    written: "bigm", as in the paper, or "lambda", both copies of a neuron at once. `without` names
    parts that are left out, for comparison: "dependencies", "attack" (its bound), "hints".
    """

    solver: str = "highs"
    formulation: str = "bigm"
    without: tuple[str, ...] = ()

    name = "mip"
    uses = frozenset({"dataset", "device", "workers"})

    def __post_init__(self) -> None:
        self._options(Options())  # finds what is wrong with them

    def _options(self, options: Options) -> MipOptions:
        own = (self.solver, self.formulation, tuple(self.without))
        return MipOptions(*own, options.relative_gap, options.seed)

    def check(self, options: Options) -> None:
        super().check(options)
        backend_named(self.solver)  # its package may be missing
        if not self._options(options).attacks:
            for name in ("dataset", "device"):
                if getattr(options, name) != getattr(Options, name):
                    raise InvalidInput(f"a {name} is of use to the attack only, which is left out")

    def search(self, run: Run, deadline: float) -> bool:
        # Read at once: a wrong file is an error before the search, not in its midst.
        named_dataset(run.options, run.original.domain)
        options = self._options(run.options)
        if run.options.processes:
            return _run_in_processes(run, options, deadline)
        return _run_here(run, options, deadline)


def _run_here(run: Run, options: MipOptions, deadline: float) -> bool:
    problem = run.problem

    def late() -> bool:
        return time.monotonic() > deadline or run.interval.closed

    with run.phase("prepare"):
        attacked = attack_first(run, options, deadline)
        runner = TasksHere(BoundsWorker(problem, options), late)
        prepared = replace(attacked, pieces=prepare(problem, options, runner, deadline))
    for goal in problem.goals:

        def stop(goal: int | None = goal) -> bool:
            return time.monotonic() > deadline or run.interval.settled(goal)

        def receive(message: Message, goal: int | None = goal) -> None:
            _take(run, goal, message)

        try:
            TargetSearch(run.reduced, goal, options, receive, stop, prepared).run()
        except SolverFailure as failure:
            _note_failure(run, goal, str(failure))
    return time.monotonic() > deadline


def _run_in_processes(run: Run, options: MipOptions, deadline: float) -> bool:
    with ProcessPool() as pool:
        with run.phase("prepare"):
            prepared = _prepare_in_processes(run, options, deadline, pool)
        for goal in run.problem.goals:
            if not run.interval.settled(goal):
                pool.start(goal, (_search, (run.reduced, goal, options, prepared)))
        while len(pool) and not run.interval.closed:
            if time.monotonic() > deadline:
                return True
            received = pool.next_message(deadline)
            if received is None:
                run.report()
                continue
            goal, message = received
            if isinstance(message, Finished):
                if message.error is not None:
                    _note_failure(run, goal, message.error)
                continue
            _take(run, goal, message)
            for goal in pool:
                if run.interval.settled(goal):
                    pool.stop(goal)
        return not run.interval.closed and time.monotonic() > deadline


def _prepare_in_processes(
    run: Run, options: MipOptions, deadline: float, pool: AbstractPool
) -> Prepared:
    """The attack in one process, bounds and relations in the others."""
    problem = run.problem
    attack = AttackPhase(run, options, pool, deadline)

    def on_other(received: tuple[Any, Any] | None) -> None:
        if received is None:
            run.report()
        else:
            attack.handle(*received)

    size = max(run.options.worker_count - attack.running, 1)
    runner = TasksInPool(problem, options, size, pool, on_other, run.note)
    pieces = prepare(problem, options, runner, deadline)
    prepared = replace(attack.ended(), pieces=pieces)
    runner.stop()
    return prepared


def _note_failure(run: Run, goal: int | None, error: str) -> None:
    """What was found so far stays valid; the goal is searched no further."""
    what = "the search" if goal is None else f"the search for target {goal}"
    run.note(f"{what} failed: {error}")


def _take(run: Run, goal: int | None, message: Message) -> None:
    if isinstance(message, UpperFound):
        run.interval.offer_upper(goal, message.value, BoundKind.SOLVER)
    elif isinstance(message, CandidateFound):
        candidate = message.candidate
        run.offer_witness(goal, candidate.x, message.root, candidate.parameters)
    elif isinstance(message, NodesSearched):
        run.count_nodes(message.count)
    elif isinstance(message, SolverMissing):
        raise SolverUnavailable(message.reason)


def _search(argument: tuple[Reduced, int | None, MipOptions, Prepared], channel: Channel) -> None:
    """What runs in a worker. The parent keeps the time and ends the process."""
    reduced, goal, options, prepared = argument
    forever = stopwatch(float("inf"))
    try:
        TargetSearch(reduced, goal, options, channel.send, forever, prepared).run()
    except SolverUnavailable as missing:
        channel.send(SolverMissing(str(missing)))
