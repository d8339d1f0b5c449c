"""The search in rounds of first-order steps, for networks that no linear program can hold."""

from __future__ import annotations

import math
import time
from typing import Any

from vhagar.attack.concurrent import AttackSchedule, ConcurrentAttack, attack_here
from vhagar.attack.options import AttackOptions
from vhagar.reduction.base import Reduced
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.runtime.deadline import Deadline
from vhagar.runtime.devices import device_words, limit_threads, require_torch, torch_device
from vhagar.search.bounders.first_order import FirstOrderBounder
from vhagar.search.bounders.first_rungs import Rung, rung_bounds
from vhagar.search.bounders.quadratic import QuadraticBounder
from vhagar.search.bounders.size import is_large
from vhagar.search.node import Numbers, Region
from vhagar.search.search import HERE, Search
from vhagar.search.worker import SearchWorker

# When the attack runs beside first-order steps, and for how many seconds its last messages are
# waited for.
_CLIMB, _LAST_WORDS = AttackSchedule(share=0.5, least=20.0), 1.0
# Seconds of halving boxes of inputs between two looks at the messages.
_BETWEEN_LOOKS = 0.1
# Share of the time for bounds where the attack has no process of its own.
_BOUNDS_SHARE = 0.7


class SearchInRounds(Search):
    """All nodes of a piece together, first quickly and then with more care."""

    def run(self, deadline: Deadline) -> bool:
        """First-order steps in this process, piece by piece, while the attack climbs beside it.

        Without processes the attack comes last.
        """
        self._frontiers.timed = True
        with self.kept():
            return self._run_until(deadline)

    def _run_until(self, deadline: Deadline) -> bool:
        run, options = self._run, self._run.options
        if self._resumed is None:
            self.climb(Rung.DIFFERENCES, deadline)
        climbing = AttackOptions(
            polish=False, regions=False, seed=options.seed, device=options.device
        )
        with self._pool:
            self._attack = ConcurrentAttack(
                run, self._pool, climbing, _CLIMB, deadline, self._dataset
            )
            ends = time.monotonic() + _CLIMB.seconds(deadline.left)
            if self._attacks and options.processes:
                self._attack.join_when_due()  # before torch is imported here, too
            self.climb_ceiling(Rung.QUICK, deadline)
            alone = self._attacks and not options.processes
            share = _BOUNDS_SHARE if alone and deadline.left < math.inf else math.inf
            self._bound_in_rounds(self._device(), deadline.sooner(share * deadline.left))
            if alone and not deadline.passed:
                attack_here(run, climbing, _CLIMB.seconds(deadline.left), self._dataset)
            self._go_on_with_inputs(deadline)
            self._attack.finish(ends, _LAST_WORDS)
        return deadline.passed and not run.interval.closed

    def _go_on_with_inputs(self, deadline: Deadline) -> None:
        """Once all rounds are over, boxes of inputs go on being halved."""
        run = self._run
        while (
            not run.interval.closed
            and not deadline.passed
            and self._frontiers.split_inputs(_BETWEEN_LOOKS)
        ):
            self._listen()
            self._keeper.save_when_due()
            run.report()
        self._frontiers.last_boxes()

    def _device(self) -> Any:
        """Where first-order steps run; says so."""
        run, options = self._run, self._run.options
        device = torch_device(options.device)
        run.device = device_words(device)
        if is_large(run.problem):
            run.note(
                f"{run.problem.network.hidden_neurons} hidden neurons are too many for linear "
                f"programs: bounds by first-order steps on {run.device}, without branching"
            )
        # The attack needs a core of its own; threads that wait for each other need theirs, too.
        beside = device.type == "cpu" and self._attacks and options.processes
        limit_threads(require_torch(), max(1, options.worker_count - beside))
        return device

    def _slope_bounder(self, deadline: Deadline) -> QuadraticBounder:
        """Bounds nodes of the search by slopes from the same bounds of neurons."""
        run, threads, late = self._run, self._run.options.worker_count, self._is_late(deadline)

        def bounds_of(region: Region) -> TwinBounds:
            return rung_bounds(run.problem, region.root, Rung.QUICK, run.bounds, threads, late)

        return QuadraticBounder(run.problem, Numbers(self._first_number), bounds_of, deadline)

    def _bound_in_rounds(self, device: Any, deadline: Deadline) -> None:
        run = self._run
        record = run.options.certificate is not None

        def bounder(reduced: Reduced) -> FirstOrderBounder:
            threads = run.options.worker_count
            return FirstOrderBounder(
                reduced.problem,
                device,
                self._is_late(deadline),
                deadline,
                record,
                threads,
                run.bounds,
            )

        worker = SearchWorker(run.reduced, run.options, bounder, self._slope_bounder(deadline))
        while not run.interval.closed and not deadline.passed:
            task = self._frontiers.next_task(HERE, 1, whole_piece=True)
            if task is None:
                break
            self._work(worker, task, deadline)
            run.report()
        self._listen()
