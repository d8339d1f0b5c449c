"""What all searches of a frontier have in common: first bounds, the attack, checkpoints.

`NodeSearch` explores the nodes one by one, `SearchInRounds` bounds all of a piece together.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

from vhagar.array_types import Array
from vhagar.dataset import attack_starts
from vhagar.problem import Target
from vhagar.reduction import REDUCTIONS, reduce_problem
from vhagar.result import Run
from vhagar.runtime.deadline import NEVER, CoreShare, Deadline
from vhagar.runtime.devices import torch_comes_in_time
from vhagar.runtime.pool import AbstractPool
from vhagar.runtime.processes import ProcessPool
from vhagar.runtime.threads import in_background
from vhagar.search.bounders.first_bounds import BoundMethod, root_bounders
from vhagar.search.checkpoint import Checkpoint, CheckpointKeeper
from vhagar.search.node import first_number
from vhagar.search.node_selection import HERE, Frontiers
from vhagar.search.worker import AnyTask, SearchWorker, SignTask

if TYPE_CHECKING:
    from vhagar.attack.concurrent import ConcurrentAttack

Found = TypeVar("Found")
# Time for bounding the roots of many pieces by one method: the larger of these seconds and this
# share of the remaining time; for slow methods, at most these seconds.
_ROOT_SECONDS, _ROOT_SHARE, _MOST_ROOT_SECONDS = 0.5, 0.05, 3.0
# The same without a clock, where results must be reproducible: hidden neurons of all pieces.
_ROOT_NEURONS = 200_000
# Share of the remaining time for the neurons' bounds when only the ceiling is bounded.
CEILING_SHARE = 0.1
# Share of the remaining time for the first attack.
_FIRST_ATTACK_SHARE = 0.2
# Seconds of halving boxes of inputs, while bounds are computed, before messages are taken again.
_PATIENCE = 0.05
# Seconds after the deadline for what is being computed here to come to an end.
_GRACE = 0.5


class Search:
    """The frontiers of a run, the first bounds of their roots, and the attack beside them."""

    def __init__(self, run: Run, attack: bool, slopes: bool = False, inputs: bool = False) -> None:
        self._run = run
        self._attacks = attack and run.problem.perturbation is not None
        self._resumed = run.resumed if isinstance(run.resumed, Checkpoint) else None
        self._frontiers = Frontiers(run, slopes, inputs)
        self._keeper = CheckpointKeeper(run, self._frontiers.states)
        # Read at once: a wrong file is an error before the search, not in its midst.
        self._dataset = attack_starts(run.options, run.original.domain)
        self._pool: AbstractPool = ProcessPool()
        self._attack: ConcurrentAttack | None = None
        # The confidence that the first attack reached.
        self._first_lower = 0.0
        self._stopped = threading.Event()
        self._core_share = CoreShare()

    def kept(self) -> AbstractContextManager[None]:
        """Inside, the search is kept on disk, if that is wanted, also when it ends."""
        return self._keeper.to_the_end()

    def attack_first(self, deadline: Deadline, turn: int = 0) -> None:
        """Look for a first witness in this process, before the attack's library is imported.

        Every `turn` has other starts. Without processes it takes as many steps every time, so that
        results repeat. Like every attack, it keeps to reductions that leave inputs as they are: so
        do those of a data set.
        """
        run = self._run
        if not self._attacks or self._resumed is not None or run.interval.closed:
            return
        from vhagar.attack.first_attack import first_attack  # small problems may end before

        share = _FIRST_ATTACK_SHARE if run.options.processes else 1.0
        last = deadline.sooner(share * deadline.left)
        reduced = reduce_problem(run.original, REDUCTIONS)

        def offer(target: Target, x: Array, piece_index: int, parameters: Array) -> None:
            found = reduced.restore.witness(piece_index, x, parameters)
            run.interval.offer_witness(target, found[1], found[0], found[2])
            if self._attack is not None:
                self._attack.suggest(target, *found)

        first_attack(
            reduced.problem,
            offer,
            run.options.seed + turn,
            self._dataset,
            lambda: last.passed or run.interval.closed,
        )
        self._first_lower = run.interval.lower

    def bound_roots(
        self, method: BoundMethod, deadline: Deadline, neurons: Deadline = NEVER
    ) -> None:
        """Bound the root nodes and the ceiling by one method, and announce what it gives.

        The answer is the largest bound of all pieces: where a method takes long, and there is no
        time for all of them, the others are left to the search. Bounds of neurons end at `neurons`.
        """
        run, frontiers = self._run, self._frontiers
        worker = self._root_worker(method, deadline, neurons)
        goes_on = self._by_clock(method, deadline) if run.options.processes else self._by_work()
        for piece_index in range(len(run.problem.pieces)):
            over = piece_index > 0 and (deadline.passed or not goes_on(piece_index))
            if run.interval.closed or over:
                break
            nodes = frontiers.signs.take_piece(HERE, piece_index)
            task = SignTask(nodes, run.interval.lower, frontiers.ceiling.upper)
            self._work(worker, task, deadline)
            if piece_index == 0:  # later there may be no time
                self._work_on_ceiling(worker, deadline)

    def _by_clock(self, method: BoundMethod, deadline: Deadline) -> Callable[[int], bool]:
        """Whether there is time for the next piece; slow methods need time for all of them."""
        quick, begun = method is BoundMethod.DIFFERENCES, time.monotonic()
        seconds = max(_ROOT_SECONDS, _ROOT_SHARE * deadline.left)
        last = deadline.sooner(seconds if quick else min(seconds, _MOST_ROOT_SECONDS))

        def goes_on(piece_index: int) -> bool:
            each = (time.monotonic() - begun) / piece_index
            left = len(self._run.problem.pieces) - piece_index
            return not last.passed and last.left >= (0.0 if quick else each * left)

        return goes_on

    def _by_work(self) -> Callable[[int], bool]:
        """Whether a piece is among the first; their number is fixed, for reproducibility."""
        neurons = max(self._run.problem.network.hidden_neurons, 1)
        return lambda piece_index: piece_index * neurons < _ROOT_NEURONS

    def bound_ceiling(
        self, method: BoundMethod, deadline: Deadline, share: float = CEILING_SHARE
    ) -> None:
        """Bound the ceiling alone.

        It takes no more than its share of the time, so that the differences have their turn.
        """
        last = deadline.sooner(share * deadline.left)
        self._work_on_ceiling(self._root_worker(method, deadline, last), deadline)

    def _root_worker(
        self, method: BoundMethod, deadline: Deadline, last: Deadline = NEVER
    ) -> SearchWorker:
        """Make a worker that bounds roots; `last` is when the bounds of neurons end."""
        run = self._run
        bounders = root_bounders(method, run, self._is_late(deadline), last)
        return SearchWorker(run.reduced, run.options, bounders)

    def _work_on_ceiling(self, worker: SearchWorker, deadline: Deadline) -> None:
        wanted = self._frontiers.ceiling.is_wanted(self._run.interval.upper)
        if wanted and not deadline.passed:
            self._work(worker, self._frontiers.ceiling_task(HERE, 1), deadline)

    def _work(self, worker: SearchWorker, task: AnyTask, deadline: Deadline) -> None:
        """Work on a task in this process, and listen to the attack meanwhile.

        Work that does not notice the deadline is left behind; its nodes keep their bounds then.
        """
        done = self._meanwhile(lambda: worker.work(task, len(task.nodes)), deadline)
        if done is not None:
            self._frontiers.put_back(HERE, done)

    def _meanwhile(self, work: Callable[[], Found], deadline: Deadline) -> Found | None:
        """What `work` returns, None if time runs out; the attack's messages are taken meanwhile."""

        def listen() -> bool:
            # Halving depends on the clock, so it is left out where results must be reproducible.
            busy = self._frontiers.timed and self._frontiers.split_inputs(_PATIENCE)
            self._listen()
            self._keeper.save_when_due()
            self._run.report()
            return busy

        return self._beside(work, listen, deadline)

    def _beside(
        self, work: Callable[[], Found], listen: Callable[[], bool], deadline: Deadline
    ) -> Found | None:
        """Run `work` in a thread and return its result; None if time runs out."""
        over = Deadline(deadline.at + _GRACE)
        return in_background(work, listen, self._stopped, lambda: over.passed)

    def _listen(self) -> None:
        """Take all messages of the attack."""
        while (received := self._pool.next_message(math.inf, 0.0)) is not None:
            if self._attack is not None:
                self._attack.handle(received[1])

    def _is_late(self, deadline: Deadline) -> Callable[[], bool]:
        return lambda: deadline.passed or self._stopped.is_set()

    def _can_import_torch(self, deadline: Deadline) -> bool:
        """Whether torch is there or can be imported in time, on a machine as busy as so far."""
        return torch_comes_in_time(deadline, self._core_share())

    @property
    def _first_worker(self) -> int:
        """The number of the first worker; a resumed search uses none of the earlier ones again."""
        return 0 if self._resumed is None else self._resumed.last_maker + 2

    @property
    def _first_number(self) -> int:
        """The first number of nodes that are made in this process."""
        return first_number(self._first_worker - 1)
