"""One frontier over all pieces and targets, one incumbent, and workers that explore it.

Beside it there is a small second search: for the largest confidence that any input reaches in the
source class. No attacked input exceeds it, so it is a ceiling for every target and piece, and one
that the LPs of strong perturbations find hard to see. It is searched only while it can still help.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from vhagar.attack.concurrent import AttackSchedule, ConcurrentAttack
from vhagar.attack.options import AttackOptions
from vhagar.dataset import named_dataset
from vhagar.problem import Problem
from vhagar.result import BoundKind, Run
from vhagar.runtime.deadline import Deadline, WorkLimit
from vhagar.runtime.pool import HEARTBEAT, AbstractPool, Finished
from vhagar.runtime.processes import ProcessPool
from vhagar.runtime.threads import in_background
from vhagar.search.bounders.first_rungs import Rung, rung_bounders
from vhagar.search.bounders.gpu.beside import GpuBeside, GpuHere
from vhagar.search.bounders.gpu.tasks import GpuReport
from vhagar.search.bounders.size import is_large
from vhagar.search.checkpoint import Checkpoint, CheckpointKeeper, SearchState
from vhagar.search.confidence_probe import confidence_within_reach
from vhagar.search.frontier import Frontier
from vhagar.search.input_beside import InputsBeside, InputsReport
from vhagar.search.input_search import splits_inputs
from vhagar.search.node import Node, Region, first_number
from vhagar.search.node_solver import Explored, Underway
from vhagar.search.primal_heuristic import WitnessFound
from vhagar.search.proof_tree import ProofTree
from vhagar.search.search_pool import SearchPool
from vhagar.search.slope_search import SlopeSearch
from vhagar.search.tree_state import SearchKind
from vhagar.search.worker import (
    AnyTask,
    CeilingTask,
    Ready,
    SearchWorker,
    Task,
    lp_bounders,
    slope_bounder,
)

# Nodes per report, where results must be reproducible.
_QUANTUM_NODES = 10
# Small problems (hidden neurons, and those times pixels) begin in this process. Workers, each of
# which takes most of a second to start, come after so many seconds of work, or, on a machine that
# is busy with other things, after so many times as long; the attack, which needs a second of a core
# to import torch, after so many seconds. Until all workers are ready, this process listens to them
# every so many seconds.
_FEW, _SMALL, _ALONE, _BUSY, _WITHOUT_ATTACK, _LISTENING = 150, 60_000, 2.0, 4, 5.0, 0.1
# There, signs have a head start of so many seconds over slopes.
_HEAD_START = 0.5
# The number by which this process goes beside workers.
HERE = -1
# Most nodes of a task.
_MOST_HANDED_OUT = 8
# In rounds, others have so many before the ceiling can have all.
_BEFORE_CEILING = 3
# Share of all nodes for the ceiling's search while there is other work.
_CEILING_SHARE = 0.2
# The attack joins after so many seconds, and stays for so many seconds or a share of the remaining
# time, at least and at most.
_ATTACK_AFTER, _ATTACK_SECONDS, _ATTACK_SHARE, _LARGEST_SHARE = 1.5, 20.0, 0.15, 0.6
# It stays at least so many seconds, of which it needs one or two to start.
_ATTACK_LEAST = 5.0
# So many times as long while there is no witness. Measured: cifar10_conv1 `brightness([0,0.1])`,
# 1 to 9, has none after 60 s without patience; alone, the attack finds one after 4 s.
_ATTACK_PATIENCE = 3.0

# Seconds for a rung of the ladder, or a share of the remaining time, where there are many pieces;
# then others take over.
_RUNG_SECONDS, _RUNG_SHARE = 0.5, 0.05
# Seconds to wait for a message of the attack while bounds are computed.
_PATIENCE = 0.05
# Seconds after the deadline for what is being computed here to come to an end.
_GRACE = 0.5


# Makes the frontier of one of the searches from its roots.
FrontierMaker = Callable[[list[Node], SearchKind], Frontier]


def _is_small(problem: Problem) -> bool:
    """Whether much can be done before a process has started."""
    neurons = problem.network.hidden_neurons
    return neurons <= _FEW and neurons * problem.domain.size <= _SMALL


class _Ceiling:
    """How confident any input of the source class can be: an interval of its own."""

    def __init__(self, problem: Problem, upper: float, frontier_of: FrontierMaker) -> None:
        # A search for the largest confidence is its own ceiling.
        wanted = problem.perturbation is not None
        roots = [Node(Region(None, 0), upper, 0)] if wanted else []
        self.frontier = frontier_of(roots, SearchKind.CEILING)
        self.lower = 0.0
        self.upper = min(upper, self.frontier.uppers([None])[None]) if wanted else upper
        self._problem = problem

    def probe(self, seed: int) -> None:
        """Look for a confident input, which may end the search for the ceiling before it begins."""
        if len(self.frontier):
            self.lower = confidence_within_reach(self._problem, seed)

    def is_wanted(self, upper: float) -> bool:
        """Whether it may still come below an upper bound that is known otherwise."""
        return len(self.frontier) > 0 and self.lower < upper

    def update(self) -> None:
        self.upper = min(self.upper, self.frontier.uppers([None])[None])


class Search:
    """The frontiers and their bookkeeping; the same whoever bounds the nodes, and wherever."""

    def __init__(
        self,
        run: Run,
        attack: bool,
        slopes: bool = False,
        inputs: bool = False,
        tightens: bool = False,
    ) -> None:
        self._tightens = tightens
        self._run = run
        self._attacks = attack and run.problem.perturbation is not None
        self._tree = run.proof if isinstance(run.proof, ProofTree) else None
        self._resumed = run.resumed if isinstance(run.resumed, Checkpoint) else None
        problem = run.problem
        roots = [
            Node(Region(target, root), run.interval.computed_upper(target), -k)
            for target in problem.goals
            for k, root in enumerate(range(len(problem.pieces)))
        ]
        self._frontier = self._frontier_of(roots, SearchKind.SIGNS)
        self._roots = len(roots)
        largest = max(map(run.interval.computed_upper, problem.goals))
        self._ceiling = _Ceiling(run.original, largest, self._frontier_of)
        later = _HEAD_START if _is_small(problem) else 0.0
        by_slopes = slopes and not is_large(problem)
        by_inputs = inputs and problem is run.original and splits_inputs(problem)
        self._inputs = InputsBeside(run, self._record_boxes) if by_inputs else None
        known, frontiers = self._known_upper, self._frontier_of
        self._slopes = SlopeSearch(problem, by_slopes, known, later, frontiers)
        self._keeper = CheckpointKeeper(run, self._states)
        # When workers were given their tasks. Where results must repeat, every task counts as one.
        self._begun: dict[int, float] = {}
        self._timed = False
        # Read at once: a wrong file is an error before the search, not in its midst.
        self._dataset = named_dataset(run.options, run.original.domain)
        self._pool: AbstractPool = ProcessPool()
        self._attack: ConcurrentAttack | None = None
        self._gpu: GpuBeside | None = None
        self._stopped = threading.Event()

    def _frontier_of(self, roots: list[Node], kind: SearchKind) -> Frontier:
        """The frontier of a search: as it was kept, or from its roots; without any, empty."""
        keeps = self._run.options.checkpoint is not None
        state = None if self._resumed is None else self._resumed.searches.get(kind)
        if state is None or not roots:
            return Frontier(roots, keeps=keeps)
        return Frontier(state.open, state.closed, keeps)

    def _states(self) -> dict[SearchKind, SearchState]:
        frontiers = {
            SearchKind.SIGNS: self._frontier,
            SearchKind.CEILING: self._ceiling.frontier,
            SearchKind.SLOPES: self._slopes.frontier,
        }
        found = {kind: SearchState(*frontier.kept()) for kind, frontier in frontiers.items()}
        return {kind: state for kind, state in found.items() if state.open or state.closed}

    def kept(self) -> AbstractContextManager[None]:
        """Inside, the search is kept on disk, if that is wanted, also when it ends."""
        return self._keeper.to_the_end()

    def climb(self, rung: Rung, deadline: Deadline) -> None:
        """Bound the roots and the ceiling on a rung of the ladder, and announce what it gives."""
        run, frontier, ceiling = self._run, self._frontier, self._ceiling
        bounders = rung_bounders(rung, run, self._is_late(deadline))
        worker = SearchWorker(run.reduced, run.options, bounders)
        last = deadline.sooner(max(_RUNG_SECONDS, _RUNG_SHARE * deadline.left))
        for root in range(len(run.problem.pieces)):
            if run.interval.closed or (root and last.passed):
                break
            nodes = frontier.take_root(HERE, root)
            self._work(worker, Task(nodes, run.interval.lower, ceiling.upper), deadline)
        self._climb_ceiling(worker, deadline)

    def climb_ceiling(self, rung: Rung, deadline: Deadline) -> None:
        """Bound the ceiling alone, if it is lower than all that is known otherwise."""
        run = self._run
        own = max(self._frontier.uppers(run.problem.goals).values(), default=0.0)
        if self._ceiling.upper < own:
            bounders = rung_bounders(rung, run, self._is_late(deadline))
            self._climb_ceiling(SearchWorker(run.reduced, run.options, bounders), deadline)

    def _climb_ceiling(self, worker: SearchWorker, deadline: Deadline) -> None:
        ceiling = self._ceiling
        if ceiling.is_wanted(self._run.interval.upper) and not deadline.passed:
            task = CeilingTask(ceiling.frontier.take(HERE, 1), ceiling.lower)
            self._work(worker, task, deadline)

    def _work(self, worker: SearchWorker, task: AnyTask, deadline: Deadline) -> None:
        """Work on roots in this process, and listen to the attack meanwhile.

        What does not notice that the time is over is left to itself; nodes keep their bounds then.
        """
        over = Deadline(deadline.at + _GRACE)

        def listen() -> None:
            # By the clock, so not where results must repeat.
            busy = self._timed and self._split_inputs(_PATIENCE)
            self._listen(0.0 if busy else _PATIENCE)
            self._keeper.save_when_due()
            self._run.report()

        done = in_background(
            lambda: worker.work(task, len(task.nodes)), listen, self._stopped, lambda: over.passed
        )
        if done is not None:
            self._put_back(HERE, done)

    def _listen(self, seconds: float = 0.0) -> None:
        """Take what the attack has found so far; without anything, wait for so many seconds."""
        while (received := self._pool.next_message(math.inf, seconds)) is not None:
            seconds = 0.0
            if self._attack is not None:
                self._attack.handle(received[1])

    def _is_late(self, deadline: Deadline) -> Callable[[], bool]:
        return lambda: deadline.passed or self._stopped.is_set()

    def in_this_process(self, deadline: Deadline, batches: bool) -> bool:
        """LPs, and batches if wanted, in this process and always in the same order."""
        run = self._run
        self._ceiling.probe(run.options.seed)
        worker = self._worker_here(deadline)
        gpu = GpuHere(run, self._first_worker + 1) if batches else None
        while len(self._frontier) and not run.interval.closed:
            self._keeper.save_when_due()
            if deadline.passed:
                return True
            task = self._next_task(HERE, 1)
            assert task is not None  # the frontier is not empty
            done = worker.work(task, _QUANTUM_NODES, deadline=deadline, on_bounds=self._tell_here)
            self._put_back(HERE, done)
            if self._inputs is not None:
                self._inputs.step()
                self._announce()
            if gpu is not None and (nodes := gpu.take(self._frontier, _QUANTUM_NODES)):
                done = gpu.explore(nodes, _QUANTUM_NODES, self._ceiling.upper, deadline)
                self._take_report(gpu.name, GpuReport(done, {}))
            run.report()
        self._announce()
        return False

    @property
    def _first_worker(self) -> int:
        """The number of the first worker: none is used again, also not by a search resumed."""
        return 0 if self._resumed is None else self._resumed.last_maker + 2

    @property
    def _first_number(self) -> int:
        """Where the numbers of nodes begin that are made in this process."""
        return first_number(self._first_worker - 1)

    def _worker_here(self, deadline: Deadline) -> SearchWorker:
        run = self._run
        first = self._first_number
        bounders = lp_bounders(
            self._take_witness, first, run.bounds, deadline, tightens=self._tightens
        )
        slopes = slope_bounder(run.problem, first, run.bounds, deadline)
        return SearchWorker(run.reduced, run.options, bounders, slopes)

    def in_cluster(self, deadline: Deadline) -> bool:
        """LPs and the attack in the workers of a Ray cluster, which share this frontier.

        Those that are lost with their machine leave their nodes to the others.
        """
        from vhagar.runtime.ray_pool import RayPool

        options = self._run.options
        self._pool = pool = RayPool(options.address)
        # The attack has a core of its own.
        count = options.workers or max(1, pool.capacity() - self._attacks)
        return self.in_processes(count, deadline, batches=False, required=False)

    def in_processes(self, count: int, deadline: Deadline, batches: bool, required: bool) -> bool:
        """LPs in worker processes, the attack beside them, and batches where they are wanted.

        Small problems begin in this process, and many end there before any other has started.
        Unless they are `required`, batches are given up where there is no GPU after all.
        """
        run = self._run
        self._ceiling.probe(run.options.seed)
        self._timed = True
        with self._pool:
            self._attack = self._concurrent_attack(deadline)
            first = self._first_worker
            workers = SearchPool(run, self._pool, count, deadline, first, self._tightens)
            here = self._worker_here(deadline) if _is_small(run.problem) else None
            alone = WorkLimit(_ALONE if here is not None else 0.0, _BUSY)
            if batches:
                self._gpu = GpuBeside(run, first + count, self._pool, required)
            while not run.interval.closed:
                self._keeper.save_when_due()
                if deadline.passed:
                    self._last_boxes()
                    return True
                if alone.passed:
                    workers.start(count)
                if self._attack is not None:
                    self._attack.join_when_due()
                self._hand_out(workers)
                if self._gpu is not None:
                    self._gpu.hand_out(self._frontier, self._ceiling.upper, len(workers))
                if not self._frontier.in_flight and not len(self._frontier):
                    break  # nothing left to do
                if not len(workers):
                    break  # nobody left to do it
                for lost in workers.replace_silent():
                    self._abandon(lost)
                if workers.are_ready:
                    here = None
                busy = here is not None and self._explore_here(here, count, deadline)
                busy |= self._split_inputs(_LISTENING)
                received = self._pool.next_message(deadline.at, 0.0 if busy else HEARTBEAT)
                if received is None:
                    run.report()
                    continue
                self._handle(*received, workers)
            self._announce()
            return False

    def _explore_here(self, worker: SearchWorker, workers: int, deadline: Deadline) -> bool:
        """Explore a little in this process; whether there was anything to do."""
        task = self._next_task(HERE, workers)
        if task is None:
            return False
        done = worker.work(task, 10**9, _LISTENING, deadline, self._tell_here, _LISTENING)
        self._put_back(HERE, done)
        return True

    def _concurrent_attack(self, deadline: Deadline) -> ConcurrentAttack | None:
        run = self._run
        if not self._attacks:
            return None
        # Beside many workers, one more process takes little from them.
        shares = max(1.0, run.options.worker_count / 2)
        stay = AttackSchedule(
            share=min(_ATTACK_SHARE * shares, _LARGEST_SHARE),
            least=_ATTACK_LEAST,
            most=shares * _ATTACK_SECONDS,
            after=_WITHOUT_ATTACK if _is_small(run.problem) else _ATTACK_AFTER,
            patience=_ATTACK_PATIENCE,
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
        self._record(report.explored, SearchKind.SIGNS)
        self._frontier.report(name, report.explored, report.held)
        self._run.count_nodes(report.explored.nodes)
        self._announce()

    def _tell_here(self, so_far: Explored) -> None:
        """Bounds of nodes that are being worked on in this process."""
        self._put_back(HERE, so_far, keeps=True)
        self._run.report()

    def _abandon(self, name: int) -> None:
        self._frontier.abandon(name)
        self._ceiling.frontier.abandon(name)
        self._slopes.frontier.abandon(name)

    def _handle(self, name: Any, message: Any, workers: SearchPool) -> None:
        if self._attack is not None and name == self._attack.name:
            self._attack.handle(message)
        elif self._gpu is not None and name == self._gpu.name:
            self._handle_gpu(self._gpu, message)
        elif isinstance(message, WitnessFound):
            self._take_witness(message)
        elif isinstance(message, Ready):
            workers.is_ready(name)
        elif isinstance(message, Underway):
            self._put_back(name, message.so_far, keeps=True)
            workers.is_underway(name)
        elif isinstance(message, Explored):
            self._put_back(name, message)
            workers.is_done(name)
        elif isinstance(message, Finished):
            self._abandon(name)
            workers.is_gone(name)
            self._run.note(f"a worker ended early: {message.error}")

    def _hand_out(self, workers: SearchPool) -> None:
        for name in workers.idle:
            task = self._next_task(name, len(workers))
            if task is None:
                return
            workers.give(name, task)

    def _next_task(self, worker: int, workers: int, whole_piece: bool = False) -> AnyTask | None:
        ceiling, frontier = self._ceiling, self._frontier
        idle = not len(frontier)
        self._begun[worker] = time.monotonic()
        slopes = self._slopes.next_task(worker, workers, self._run.interval.lower, idle)
        if slopes is not None:
            return slopes
        # A fair share while there are few nodes, so that nobody starves.
        share = max(1, min(_MOST_HANDED_OUT, len(frontier) // workers))
        # In rounds the ceiling keeps up with the others: a round of it for each of theirs.
        part = self._ceiling_part() if whole_piece else _CEILING_SHARE
        share_left = ceiling.frontier.explored < part * frontier.explored
        if (idle or share_left) and ceiling.is_wanted(self._run.interval.upper):
            return CeilingTask(ceiling.frontier.take(worker, _MOST_HANDED_OUT), ceiling.lower)
        if idle:
            return None
        nodes = (
            frontier.take_piece(worker) if whole_piece else frontier.take(worker, share, workers)
        )
        return Task(nodes, self._run.interval.lower, ceiling.upper)

    def _ceiling_part(self) -> float:
        """The ceiling's rounds for each of the others': all, once it is what bounds the answer."""
        others = self._frontier.explored
        if others >= _BEFORE_CEILING * self._roots and self._ceiling.upper < self._frontier.best():
            return math.inf
        return 1 / self._roots

    def _put_back(self, name: int, explored: Explored, keeps: bool = False) -> None:
        kind = self._search_of(name)
        self._record(explored, kind)
        if kind is SearchKind.CEILING:
            self._ceiling.frontier.put_back(name, explored, keeps)
            self._ceiling.update()
        elif kind is SearchKind.SLOPES:
            self._slopes.put_back(name, explored, keeps)
        else:
            self._frontier.put_back(name, explored, keeps)
        if not keeps and kind is not SearchKind.CEILING:
            begun = self._begun.get(name, math.inf)
            effort = max(time.monotonic() - begun, 0.0) if self._timed else 1.0
            self._slopes.spent(effort, kind is SearchKind.SLOPES)
        self._run.count_nodes(explored.nodes)
        if explored.trouble is not None:
            self._run.note(f"a part of the search failed: {explored.trouble}")
        self._announce(BoundKind.SPECTRAL if explored.spectral else BoundKind.TWIN)

    def _search_of(self, name: int) -> SearchKind:
        """The search whose nodes a worker has."""
        if self._ceiling.frontier.has(name):
            return SearchKind.CEILING
        return SearchKind.SLOPES if self._slopes.frontier.has(name) else SearchKind.SIGNS

    def _record(self, explored: Explored, kind: SearchKind) -> None:
        """Before anything is announced: Ctrl-C in between must not leave a claim without proof."""
        if self._tree is not None:
            self._tree.add(explored.logged, kind)

    def _split_inputs(self, seconds: float) -> bool:
        """Halve boxes of inputs for a while, where that is wanted; whether it is."""
        if self._inputs is None or self._inputs.is_done:
            return False
        self._inputs.work(seconds)
        self._announce()
        return True

    def _last_boxes(self) -> None:
        """Let boxes count whose bounds have not been told yet."""
        if self._inputs is not None:
            self._inputs.report()
            self._announce()

    def _record_boxes(self, report: InputsReport) -> None:
        if self._tree is not None:
            self._tree.add(report.logged, SearchKind.BOXES)

    def _announce(self, kind: BoundKind = BoundKind.TWIN) -> None:
        """Offer what is known by now; `kind` is that of the bounds that have become better."""
        uppers = self._frontier.uppers(self._run.problem.goals)
        restore = self._run.reduced.restore
        for target, upper in uppers.items():
            known = min(restore.upper(upper), self._ceiling.upper)
            self._run.interval.offer_upper(target, known, kind)
        for target, upper in self._slopes.uppers().items():
            self._run.interval.offer_upper(target, restore.upper(upper), BoundKind.QUADRATIC)
        for target, upper in self._by_inputs().items():
            self._run.interval.offer_upper(target, upper, BoundKind.BOXES)

    def _known_upper(self, goal: int | None) -> float:
        """A goal's bound without the search by slopes."""
        found = self._frontier.uppers(self._run.problem.goals)[goal]
        return min(found, self._ceiling.upper, self._by_inputs().get(goal, math.inf))

    def _by_inputs(self) -> dict[int | None, float]:
        """Each goal's bound by boxes of inputs, where there are any."""
        return {} if self._inputs is None else self._inputs.uppers

    def _take_witness(self, found: WitnessFound) -> None:
        if found.target is None and self._run.problem.perturbation is not None:
            # No attack: it only says when the ceiling cannot come lower.
            self._ceiling.lower = max(self._ceiling.lower, found.confidence)
            return
        self._run.interval.offer_witness(found.target, found.x, found.root, found.parameters)
        if self._attack is not None:
            self._attack.suggest(found.target, found.root, found.x, found.parameters)
