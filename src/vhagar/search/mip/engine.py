"""The MIP engine: preparation that all targets share, then one process per target.

Bounds and candidates are reported as they are found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from vhagar.attack.concurrent import messages
from vhagar.dataset import attack_starts
from vhagar.engine import AbstractEngine
from vhagar.errors import InvalidInput, SolverFailure, SolverUnavailable
from vhagar.options import Options
from vhagar.reduction import Reduced
from vhagar.result import BoundKind, Run
from vhagar.runtime.deadline import NEVER, Deadline
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
from vhagar.search.mip.preparation_tasks import BoundsWorker, InProcessRunner, PoolRunner
from vhagar.search.mip.target import TargetSearch
from vhagar.solver.backends import backend_named


@dataclass(frozen=True)
class Mip(AbstractEngine):
    """The paper's method: concrete bounds, dependencies, the attack, and the main MIP.

    `solver` is the MIP solver: "highs", "scip" or "gurobi". `formulation` is that of the ReLUs:
    "bigm", as in the paper, or "lambda", for both copies of a neuron at once. `without` names parts
    to leave out, for comparison: "dependencies", "attack" (its bound), "hints".
    """

    solver: str = "highs"
    formulation: str = "bigm"
    without: tuple[str, ...] = ()

    name = "mip"
    uses = frozenset({"dataset", "device", "workers"})

    def __post_init__(self) -> None:
        self._options(Options())  # raises an error if they are invalid

    def _options(self, options: Options) -> MipOptions:
        own = (self.solver, self.formulation, tuple(self.without))
        return MipOptions(*own, options.relative_gap, options.seed)

    def check(self, options: Options) -> None:
        super().check(options)
        backend_named(self.solver)  # its package may be missing
        if not self._options(options).attacks:
            for name in ("dataset", "device"):
                if getattr(options, name) != getattr(Options, name):
                    raise InvalidInput(f"only the attack uses a {name}, and it is left out")

    def search(self, run: Run, deadline: Deadline) -> bool:
        # Read now, so that a wrong file is an error before the search and not during it.
        attack_starts(run.options, run.original.domain)
        options = self._options(run.options)
        if run.options.processes:
            return _run_in_processes(run, options, deadline)
        return _run_here(run, options, deadline)


def _run_here(run: Run, options: MipOptions, deadline: Deadline) -> bool:
    problem = run.problem

    def late() -> bool:
        return deadline.passed or run.interval.closed

    with run.phase("prepare"):
        attacked = attack_first(run, options, deadline)
        runner = InProcessRunner(BoundsWorker(problem, options), late)
        prepared = replace(attacked, pieces=prepare(problem, options, runner, deadline.at))
    for k, target in enumerate(problem.search_targets):
        # Every target has its share: the answer is about all of them.
        share = deadline.sooner(deadline.left / (len(problem.search_targets) - k))

        def stop(target: int | None = target, share: Deadline = share) -> bool:
            return share.passed or run.interval.settled(target)

        def receive(message: Message, target: int | None = target) -> None:
            _take(run, target, message)

        try:
            TargetSearch(run.reduced, target, options, receive, stop, prepared, share).run()
        except SolverFailure as failure:
            _note_failure(run, target, str(failure))
    return deadline.passed


def _run_in_processes(run: Run, options: MipOptions, deadline: Deadline) -> bool:
    with ProcessPool() as pool:
        with run.phase("prepare"):
            prepared = _prepare_in_processes(run, options, deadline, pool)
        for target in run.problem.search_targets:
            if not run.interval.settled(target):
                pool.start(target, (_search, (run.reduced, target, options, prepared)))
        for target, message in messages(run, pool, deadline):
            if isinstance(message, Finished):
                if message.error is not None:
                    _note_failure(run, target, message.error)
                continue
            _take(run, target, message)
            for settled in filter(run.interval.settled, pool):
                pool.stop(settled)
        return not run.interval.closed and deadline.passed


def _prepare_in_processes(
    run: Run, options: MipOptions, deadline: Deadline, pool: AbstractPool
) -> Prepared:
    """Run the attack in one process, and compute bounds and relations in the others."""
    problem = run.problem
    attack = AttackPhase(run, options, pool, deadline)

    def on_other(received: tuple[Any, Any] | None) -> None:
        if received is None:
            run.report()
        else:
            attack.handle(*received)

    size = max(run.options.worker_count - attack.running, 1)
    runner = PoolRunner(problem, options, size, pool, on_other, run.note)
    pieces = prepare(problem, options, runner, deadline.at)
    prepared = replace(attack.finish(), pieces=pieces)
    runner.stop()
    return prepared


def _note_failure(run: Run, target: int | None, error: str) -> None:
    """Note that a target is searched no further; its bounds so far stay valid."""
    what = "the search" if target is None else f"the search for target {target}"
    run.note(f"{what} failed: {error}")


def _take(run: Run, target: int | None, message: Message) -> None:
    if isinstance(message, UpperFound):
        upper = run.reduced.restore.upper(message.value)
        run.interval.offer_upper(target, upper, BoundKind.SOLVER)
    elif isinstance(message, CandidateFound):
        candidate = message.candidate
        run.offer_witness(target, candidate.x, message.piece_index, candidate.parameters)
    elif isinstance(message, NodesSearched):
        run.count_nodes(message.count)
    elif isinstance(message, SolverMissing):
        raise SolverUnavailable(message.reason)


def _search(argument: tuple[Reduced, int | None, MipOptions, Prepared], channel: Channel) -> None:
    """Search one target in a worker. The parent watches the time and ends the process."""
    reduced, target, options, prepared = argument
    try:
        TargetSearch(reduced, target, options, channel.send, NEVER.is_late, prepared).run()
    except SolverUnavailable as missing:
        channel.send(SolverMissing(str(missing)))
