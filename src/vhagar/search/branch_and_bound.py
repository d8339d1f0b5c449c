"""One frontier over all pieces and targets, one incumbent, and workers that explore it.

Beside it there is a small second search: for the largest confidence that any input reaches in the
source class. No attacked input exceeds it, so it is a ceiling for every target and piece, and one
that the LPs of strong perturbations find hard to see. It is searched only while it can still help.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from vhagar.attack.concurrent import AttackSchedule, ConcurrentAttack
from vhagar.attack.options import AttackOptions
from vhagar.dataset import named_dataset
from vhagar.engine import AbstractEngine
from vhagar.errors import InvalidInput
from vhagar.options import Options
from vhagar.problem import Problem
from vhagar.reduction import LINEAR_REDUCTIONS, REDUCTIONS, AbstractReduction
from vhagar.result import BoundKind, Run
from vhagar.runtime.devices import cuda_is_likely
from vhagar.runtime.pool import Finished
from vhagar.runtime.processes import ProcessPool
from vhagar.search.bounders.gpu.beside import GpuBeside, GpuHere
from vhagar.search.bounders.gpu.tasks import GpuReport
from vhagar.search.bounders.size import is_large
from vhagar.search.confidence_probe import confidence_within_reach
from vhagar.search.frontier import Frontier
from vhagar.search.node import Node, Region
from vhagar.search.node_solver import Explored
from vhagar.search.primal_heuristic import WitnessFound
from vhagar.search.proof_tree import ProofTree, recording
from vhagar.search.worker import CeilingTask, SearchWorker, Task, explore

# Nodes per report, where results must be reproducible.
_QUANTUM_NODES = 10
# Most nodes of a task.
_MOST_HANDED_OUT = 8
# Share of all nodes for the ceiling's search while there is other work.
_CEILING_SHARE = 0.2
# The attack joins after so many seconds, and stays for so many seconds or a share of the remaining
# time, at least and at most.
_ATTACK_AFTER, _ATTACK_SECONDS, _ATTACK_SHARE, _LARGEST_SHARE = 1.5, 20.0, 0.15, 0.6


@dataclass(frozen=True)
class Bab(AbstractEngine):
    """Branch and bound on the lambda-LP; networks too large for that are bounded at their roots.

    `attack` says whether the attack runs beside the search, where there are workers. `gpu` says
    whether thousands of nodes are also bounded at once by primal-dual steps on the device, beside
    the workers; by default they are where the device is a GPU.
    """

    attack: bool = True
    gpu: bool | None = None

    name = "bab"
    uses = frozenset({"certificate", "dataset", "device", "workers"})

    def check(self, options: Options) -> None:
        super().check(options)
        if options.dataset is not None and not self.attack:
            raise InvalidInput("only the attack uses a dataset, and it is switched off")

    def uses_gpu(self, options: Options) -> bool:
        """Whether nodes are also bounded in batches, on a GPU or, for tests, on a CPU."""
        if self.gpu is not None:
            return self.gpu
        return options.device == "cuda" or (options.device == "auto" and cuda_is_likely())

    def reductions(self, problem: Problem, options: Options) -> tuple[AbstractReduction, ...]:
        """Networks that are not searched take ranges of contrast as they are."""
        return REDUCTIONS if is_large(problem) else LINEAR_REDUCTIONS

    @contextmanager
    def certifying(self, run: Run) -> Iterator[None]:
        if run.options.certificate is not None and is_large(run.problem):
            raise InvalidInput(
                f"a network of {run.problem.network.hidden_neurons} hidden neurons is bounded "
                "without a search, and that is not certified yet; leave out the certificate"
            )
        with recording(run) as run.proof:
            yield

    def search(self, run: Run, deadline: float) -> bool:
        if is_large(run.problem):
            from vhagar.search.bounders.first_order import FirstOrder

            return FirstOrder(self.attack).search(run, deadline)
        search = _Search(run, self)
        workers = run.options.worker_count
        if workers > 1 and run.options.processes:
            return search.run_in_processes(workers, deadline)
        return search.run_here(deadline)


class _Ceiling:
    """How confident any input of the source class can be: an interval of its own."""

    def __init__(self, problem: Problem, upper: float, seed: int) -> None:
        # A search for the largest confidence is its own ceiling.
        wanted = problem.perturbation is not None
        self.frontier = Frontier([Node(Region(None, 0), upper, 0)] if wanted else [])
        self.lower = confidence_within_reach(problem, seed) if wanted else 0.0
        self.upper = upper

    def is_wanted(self, upper: float) -> bool:
        """Whether it may still come below an upper bound that is known otherwise."""
        return len(self.frontier) > 0 and self.lower < upper

    def update(self) -> None:
        self.upper = min(self.upper, self.frontier.uppers([None])[None])


class _Search:
    """The frontiers and their bookkeeping; the same with and without processes."""

    def __init__(self, run: Run, engine: Bab) -> None:
        self._run = run
        self._engine = engine
        self._tree = run.proof if isinstance(run.proof, ProofTree) else None
        problem = run.problem
        self._frontier = Frontier(
            Node(Region(target, root), run.interval.computed_upper(target), -k)
            for target in problem.goals
            for k, root in enumerate(range(len(problem.pieces)))
        )
        largest = max(map(run.interval.computed_upper, problem.goals))
        self._ceiling = _Ceiling(run.original, largest, run.options.seed)
        # Read at once: a wrong file is an error before the search, not in its midst.
        self._dataset = named_dataset(run.options, run.original.domain)
        self._pool = ProcessPool()
        self._attack: ConcurrentAttack | None = None
        self._gpu: GpuBeside | None = None

    def run_here(self, deadline: float) -> bool:
        """Everything in this process, always in the same order."""
        run = self._run
        worker = SearchWorker(run.reduced, run.options, self._take_witness, bounds=run.bounds)
        # In one process results must repeat: no GPU by itself.
        asked = self._engine.gpu is not None or run.options.device == "cuda"
        gpu = GpuHere(run) if asked and self._engine.uses_gpu(run.options) else None
        while len(self._frontier) and not run.interval.closed:
            if time.monotonic() > deadline:
                return True
            task = self._next_task(0, 1)
            assert task is not None  # the frontier is not empty
            done = worker.work(task, _QUANTUM_NODES, stop_at=deadline)
            self._put_back(0, done)
            if gpu is not None and (nodes := gpu.take(self._frontier, _QUANTUM_NODES)):
                done = gpu.explore(nodes, _QUANTUM_NODES, self._ceiling.upper, deadline)
                self._take_report(gpu.name, GpuReport(done, {}))
            run.report()
        self._announce()
        return False

    def run_in_processes(self, count: int, deadline: float) -> bool:
        run = self._run
        with self._pool:
            self._attack = self._concurrent_attack(deadline)
            for k in range(count):
                self._pool.start(k, (explore, (run.reduced, run.options, k)))
            workers = set(range(count))
            idle = set(workers)
            if self._engine.uses_gpu(run.options):
                self._gpu = GpuBeside(run, count, self._pool, self._engine.gpu is not None)
            while not run.interval.closed:
                if time.monotonic() > deadline:
                    return True
                if self._attack is not None:
                    self._attack.join_when_due()
                self._hand_out(workers, idle)
                if self._gpu is not None:
                    self._gpu.hand_out(self._frontier, self._ceiling.upper, len(workers))
                if not self._frontier.in_flight and not len(self._frontier):
                    break  # nothing left to do
                if not workers:
                    break  # nobody left to do it
                received = self._pool.next_message(deadline)
                if received is None:
                    run.report()
                    continue
                self._handle(*received, workers, idle)
            self._announce()
            return False

    def _concurrent_attack(self, deadline: float) -> ConcurrentAttack | None:
        run = self._run
        if not self._engine.attack or run.problem.perturbation is None:
            return None
        # Beside many workers, one more process takes little from them.
        shares = max(1.0, run.options.worker_count / 2)
        stay = AttackSchedule(
            share=min(_ATTACK_SHARE * shares, _LARGEST_SHARE),
            most=shares * _ATTACK_SECONDS,
            after=_ATTACK_AFTER,
        )
        # Networks that linear programs can hold are too small for a GPU to be worth its start.
        device = "cuda" if run.options.device == "cuda" else "cpu"
        options = AttackOptions(seed=run.options.seed, device=device)
        return ConcurrentAttack(run, self._pool, options, stay, deadline, self._dataset)

    def _handle_gpu(self, gpu: GpuBeside, message: Any) -> None:
        if isinstance(message, GpuReport):
            self._take_report(gpu.name, message)
        if isinstance(message, Finished):
            self._frontier.abandon(gpu.name)
            self._gpu = None
        gpu.handle(message)

    def _take_report(self, name: int, report: GpuReport) -> None:
        self._record(report.explored, in_ceiling=False)
        self._frontier.report(name, report.explored, report.held)
        self._run.count_nodes(report.explored.nodes)
        self._announce()

    def _handle(self, name: Any, message: Any, workers: set[int], idle: set[int]) -> None:
        if self._attack is not None and name == self._attack.name:
            self._attack.handle(message)
        elif self._gpu is not None and name == self._gpu.name:
            self._handle_gpu(self._gpu, message)
        elif isinstance(message, WitnessFound):
            self._take_witness(message)
        elif isinstance(message, Explored):
            self._put_back(name, message)
            idle.add(name)
        elif isinstance(message, Finished):
            self._frontier.abandon(name)
            self._ceiling.frontier.abandon(name)
            idle.discard(name)
            workers.discard(name)
            self._run.note(f"a worker ended early: {message.error}")

    def _hand_out(self, workers: set[int], idle: set[int]) -> None:
        for name in sorted(idle):
            task = self._next_task(name, len(workers))
            if task is None:
                return
            self._pool.tell(name, task)
            idle.discard(name)

    def _next_task(self, worker: int, workers: int) -> Task | CeilingTask | None:
        ceiling, frontier = self._ceiling, self._frontier
        # A fair share while there are few nodes, so that nobody starves.
        share = max(1, min(_MOST_HANDED_OUT, len(frontier) // workers))
        idle = not len(frontier)
        share_left = ceiling.frontier.explored < _CEILING_SHARE * frontier.explored
        if (idle or share_left) and ceiling.is_wanted(self._run.interval.upper):
            return CeilingTask(ceiling.frontier.take(worker, _MOST_HANDED_OUT), ceiling.lower)
        if idle:
            return None
        return Task(frontier.take(worker, share, workers), self._run.interval.lower, ceiling.upper)

    def _put_back(self, name: int, explored: Explored) -> None:
        in_ceiling = self._ceiling.frontier.has(name)
        self._record(explored, in_ceiling)
        if in_ceiling:
            self._ceiling.frontier.put_back(name, explored)
            self._ceiling.update()
        else:
            self._frontier.put_back(name, explored)
        self._run.count_nodes(explored.nodes)
        if explored.trouble is not None:
            self._run.note(f"a part of the search failed: {explored.trouble}")
        self._announce()

    def _record(self, explored: Explored, in_ceiling: bool) -> None:
        """Before anything is announced: Ctrl-C in between must not leave a claim without proof."""
        if self._tree is not None:
            self._tree.add(explored.logged, in_ceiling)

    def _announce(self) -> None:
        uppers = self._frontier.uppers(self._run.problem.goals)
        for target, upper in uppers.items():
            self._run.interval.offer_upper(target, min(upper, self._ceiling.upper), BoundKind.TWIN)

    def _take_witness(self, found: WitnessFound) -> None:
        if found.target is None and self._run.problem.perturbation is not None:
            # No attack: it only says when the ceiling cannot come lower.
            self._ceiling.lower = max(self._ceiling.lower, found.confidence)
            return
        self._run.interval.offer_witness(found.target, found.x, found.root, found.parameters)
        if self._attack is not None:
            self._attack.suggest(found.target, found.root, found.x, found.parameters)
