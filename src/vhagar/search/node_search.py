"""Branch and bound on single nodes: in this process, in worker processes, or in a cluster."""

from __future__ import annotations

from functools import partial
from typing import Any

from vhagar.result import Run
from vhagar.runtime.deadline import Deadline, WorkLimit
from vhagar.runtime.pool import HEARTBEAT, Finished
from vhagar.search.bounders.base import CutsFound
from vhagar.search.bounders.gpu.driver import GpuHere, GpuProcess
from vhagar.search.bounders.gpu.messages import GpuReport
from vhagar.search.bounders.size import is_small
from vhagar.search.node_selection import HERE
from vhagar.search.node_solver import Explored, Underway
from vhagar.search.primal_heuristic import WitnessFound
from vhagar.search.search import Search
from vhagar.search.search_pool import SearchPool
from vhagar.search.worker import Ready, SearchWorker, lp_bounders, slope_bounder

# Nodes per report, where results must be reproducible.
_QUANTUM_NODES = 10
# Nodes of small problems with one target without a witness before the first attack: it takes as
# long as they do, and many problems end before. With several targets, it finds witnesses of all.
_BEFORE_FIRST_ATTACK = 50
# Nodes of small problems before the attack in this process: many are solved before it pays.
_BEFORE_ATTACK = 300
# Workers, each of which takes most of a second to start, are started on small problems only after
# so many seconds of work here, or this many times as long on a machine that is busy otherwise.
_ALONE, _BUSY = 2.0, 4
# Seconds between two looks at the messages of workers while nodes are explored here.
_LISTENING = 0.1


class NodeSearch(Search):
    """Explores the open nodes with the largest bounds, in one process or in many.

    `Search` has the frontiers, the first bounds of the roots and the first attack; this adds the
    loops that hand out nodes to workers and take their reports.

    `tightens` says whether the hexagons of subtrees are tightened.
    """

    def __init__(
        self,
        run: Run,
        attack: bool,
        slopes: bool = False,
        inputs: bool = False,
        tightens: bool = False,
    ) -> None:
        super().__init__(run, attack, slopes, inputs)
        self._tightens = tightens
        self._gpu: GpuProcess | None = None
        self._has_attacked = False

    def probe_ceiling(self) -> None:
        """Look for an input so confident that the ceiling need not be searched for."""
        self._frontiers.ceiling.probe(self._run.options.seed)

    def in_this_process(self, deadline: Deadline, batches: bool) -> bool:
        """LPs, and batches if wanted, in this process and always in the same order."""
        run, frontiers = self._run, self._frontiers
        self._attack_first_when_due(deadline)
        worker = self._worker_here(deadline)
        gpu = GpuHere(run, self._first_worker + 1) if batches else None
        attacks, later = self._attacks, _BEFORE_ATTACK if is_small(run.problem) else 0
        while len(frontiers.signs) and not run.interval.closed:
            self._keeper.save_when_due()
            if deadline.passed:
                return True
            task = frontiers.next_task(HERE, 1)
            assert task is not None  # the frontier is not empty
            done = worker.work(task, _QUANTUM_NODES, deadline=deadline, on_bounds=self._tell_here)
            frontiers.put_back(HERE, done)
            self._attack_first_when_due(deadline)
            due = attacks and frontiers.signs.explored >= later
            if due and self._can_import_torch(deadline):
                self._attack_alone(deadline)
                attacks = False
            frontiers.step_inputs(lambda: deadline.passed)
            if gpu is not None and (nodes := gpu.take(frontiers.signs, _QUANTUM_NODES)):
                done = gpu.explore(nodes, _QUANTUM_NODES, frontiers.ceiling.upper, deadline)
                frontiers.take_batch(gpu.name, GpuReport(done, {}))
            run.report()
        frontiers.announce()
        return False

    def _worker_here(self, deadline: Deadline) -> SearchWorker:
        run = self._run
        first = self._first_number
        bounders = lp_bounders(
            self._take_found, first, run.bounds, deadline, tightens=self._tightens
        )
        slopes = partial(slope_bounder, run.problem, first, run.bounds, deadline)
        return SearchWorker(run.reduced, run.options, bounders, slopes)

    def in_cluster(self, deadline: Deadline) -> bool:
        """LPs and the attack in the workers of a Ray cluster, which share this frontier.

        The nodes of workers that are lost with their machine go to the others.
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
        Larger ones have bounds by slopes here until the workers are there. Unless they are
        `required`, batches are given up where there is no GPU after all.
        """
        run, frontiers = self._run, self._frontiers
        frontiers.timed = True
        self._attack_first_when_due(deadline)
        with self._pool:
            first = self._first_worker
            workers = SearchPool(run, self._pool, count, deadline, first, self._tightens)
            worker = self._worker_here(deadline)
            here = worker if is_small(run.problem) else None
            alone = WorkLimit(_ALONE if here is not None else 0.0, _BUSY)
            if batches:
                self._gpu = GpuProcess(run, first + count, self._pool, required)
            while not run.interval.closed:
                self._keeper.save_when_due()
                if deadline.passed:
                    frontiers.last_boxes()
                    return True
                if alone.passed:
                    workers.start(count)
                    self._attack_beside(deadline)
                self._hand_out(workers)
                if not frontiers.signs.in_flight and not len(frontiers.signs):
                    break  # nothing left to do
                if not len(workers):
                    break  # nobody left to do it
                for lost in workers.replace_silent():
                    frontiers.abandon(lost)
                if workers.are_ready:
                    here = None
                waiting = here is None and not workers.are_ready
                busy = waiting and self._bound_by_slopes(worker, workers, deadline)
                self._explore_and_listen(here, workers, count, deadline, busy)
                self._attack_first_when_due(deadline)
            frontiers.announce()
            return False

    def _attack_first_when_due(self, deadline: Deadline) -> None:
        """The first attack, once: small problems with one target may have a witness before."""
        run = self._run
        waits = is_small(run.problem) and len(run.problem.search_targets) == 1
        explored = self._frontiers.signs.explored
        if self._has_attacked or (waits and explored < _BEFORE_FIRST_ATTACK):
            return
        self._has_attacked = True
        if not (waits and run.interval.lower > 0):
            self.attack_first(deadline)

    def _attack_alone(self, deadline: Deadline) -> None:
        from vhagar.search.attack_beside import attack_alone  # many searches end before

        attack_alone(self._run, deadline, self._dataset)

    def _attack_beside(self, deadline: Deadline) -> None:
        """Have the attack join the workers once it is due."""
        if self._attack is None and self._attacks:
            from vhagar.search.attack_beside import attack_beside  # many searches end before

            self._attack = attack_beside(
                self._run, self._pool, deadline, self._dataset, self._first_lower
            )
        if self._attack is not None:
            self._attack.join_when_due()

    def _explore_and_listen(
        self,
        here: SearchWorker | None,
        workers: SearchPool,
        count: int,
        deadline: Deadline,
        busy: bool,
    ) -> None:
        """Explore a little in this process, where there is a worker here, and take a message.

        If this process is `busy`, too, it waits for none.
        """
        busy |= here is not None and self._explore_here(here, count, deadline)
        busy |= self._frontiers.split_inputs(_LISTENING)
        received = self._pool.next_message(deadline.at, 0.0 if busy else HEARTBEAT)
        if received is None:
            self._run.report()
        else:
            self._handle(*received, workers)

    def _bound_by_slopes(
        self, worker: SearchWorker, workers: SearchPool, deadline: Deadline
    ) -> bool:
        """Bound a node by slopes in this process; return whether there was one.

        On a busy machine, workers take many seconds to start. Those that are there already go on.
        """
        task = self._frontiers.next_slope_task()
        if task is None:
            return False

        def listen() -> bool:
            self._hand_out(workers)
            received = self._pool.next_message(deadline.at, 0.0)
            if received is not None:
                self._handle(*received, workers)
            self._run.report()
            return received is not None

        done = self._beside(
            lambda: worker.work(task, len(task.nodes), deadline=deadline), listen, deadline
        )
        if done is not None:
            self._frontiers.put_back(HERE, done)
        return True

    def _explore_here(self, worker: SearchWorker, workers: int, deadline: Deadline) -> bool:
        """Explore a little in this process; return whether there was anything to do."""
        task = self._frontiers.next_task(HERE, workers)
        if task is None:
            return False
        done = worker.work(task, 10**9, _LISTENING, deadline, self._tell_here, _LISTENING)
        self._frontiers.put_back(HERE, done)
        return True

    def _tell_here(self, so_far: Explored) -> None:
        """Announce bounds of nodes that are still being explored in this process."""
        self._frontiers.put_back(HERE, so_far, underway=True)
        self._run.report()

    def _hand_out(self, workers: SearchPool) -> None:
        """Give all that are idle something to do.

        Boxes of inputs are halved in this process. While they are ahead, they have their own core.
        """
        frontiers = self._frontiers
        most = max(1, len(workers) - frontiers.bounded_by_boxes)
        for name in workers.idle[: max(0, most - workers.busy)]:
            task = frontiers.next_task(name, len(workers))
            if task is None:
                break
            workers.give(name, task)
        if self._gpu is not None:
            self._gpu.hand_out(frontiers.signs, frontiers.ceiling.upper, len(workers))

    def _handle(self, name: Any, message: Any, workers: SearchPool) -> None:
        if self._attack is not None and name == self._attack.name:
            self._attack.handle(message)
        elif self._gpu is not None and name == self._gpu.name:
            self._handle_gpu(self._gpu, message)
        elif isinstance(message, WitnessFound):
            self._take_witness(message)
        elif isinstance(message, CutsFound):
            workers.tell_others(name, message)
            workers.mark_alive(name)
        elif isinstance(message, Ready):
            workers.mark_ready(name)
        elif isinstance(message, Underway):
            self._frontiers.put_back(name, message.so_far, underway=True)
            workers.mark_underway(name)
        elif isinstance(message, Explored):
            self._frontiers.put_back(name, message)
            workers.mark_done(name)
        elif isinstance(message, Finished):
            self._frontiers.abandon(name)
            workers.mark_gone(name)
            self._run.note(f"a worker ended early: {message.error}")

    def _handle_gpu(self, gpu: GpuProcess, message: Any) -> None:
        if isinstance(message, GpuReport):
            self._frontiers.take_batch(gpu.name, message)
        if isinstance(message, Finished):
            self._frontiers.signs.abandon(gpu.name)
            self._gpu = None
        gpu.handle(message)

    def _take_found(self, found: WitnessFound | CutsFound) -> None:
        """Take what was found in this process: its cuts serve nobody else."""
        if isinstance(found, WitnessFound):
            self._take_witness(found)

    def _take_witness(self, found: WitnessFound) -> None:
        """Offer a witness, which is one of the problem as it was given, not of the reduced one."""
        ceiling = self._frontiers.ceiling
        if found.target is None and self._run.problem.perturbation is not None:
            # No attack: it only says when the ceiling cannot come lower.
            ceiling.lower = max(ceiling.lower, found.confidence)
            return
        self._run.interval.offer_witness(found.target, found.x, found.piece_index, found.parameters)
        if self._attack is not None:
            self._attack.suggest(found.target, found.piece_index, found.x, found.parameters)
