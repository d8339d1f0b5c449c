"""Bounds of networks that no linear program can hold.

Nothing is branched on. All pieces and targets are bounded at their roots by first-order steps,
first quickly and then with more care, while the attack climbs by gradients alone beside it.
"""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vhagar.dataset import named_dataset
from vhagar.engine import AbstractEngine
from vhagar.perturbation import AbstractPiece
from vhagar.problem import Problem
from vhagar.relaxation.first_order.dual import Steps
from vhagar.relaxation.first_order.refine import cores, first_order_bounds, refine
from vhagar.relaxation.first_order.root import root_bounds
from vhagar.relaxation.layerwise import TwinBounds, quick_bounds
from vhagar.result import BoundKind, Run
from vhagar.runtime.devices import device_words, require_torch, torch_device
from vhagar.runtime.pool import Finished
from vhagar.runtime.processes import Worker, next_message
from vhagar.search.bounders.size import is_large

# How long the attack goes on at least: seconds, and of the time there is.
_ATTACK_SECONDS, _ATTACK_SHARE = 20.0, 0.5
# Bounds of so many pieces stay in memory for the second round.
_MOST_KEPT = 4


@dataclass(frozen=True)
class Plan:
    """How much work a round puts into each piece."""

    inner: Steps | None  # for convolutions and other layers before the last hidden one
    last: Steps | None  # for the last hidden layer
    root: Steps


# First something quickly, then something better.
_CPU_PLANS = (
    Plan(None, None, Steps(40, 0.01, 0.05)),
    Plan(None, Steps(30, 0.02, 0.02), Steps(200, 0.02, 0.01)),
)
_CUDA_PLANS = (
    Plan(None, None, Steps(40, 0.01, 0.05)),
    Plan(Steps(20, 0.02, 0.05), Steps(100, 0.02, 0.01), Steps(600, 0.03, 0.005)),
)


class LargeEngine(AbstractEngine):
    """First-order bounds at the roots, and the attack beside them."""

    def search(self, run: Run, deadline: float) -> bool:
        device = torch_device(run.options.device)
        run.device = device_words(device)
        if is_large(run.problem):
            run.note(
                f"{run.problem.network.hidden_neurons} hidden neurons are too many for linear "
                f"programs: bounds by first-order steps on {run.device}, without branching"
            )
        if device.type == "cpu" and run.options.attack and run.options.processes:
            # The attack needs a core of its own; threads that wait for each other need theirs, too.
            require_torch().set_num_threads(max(1, cores() - 1))
        with _Attack(run, deadline) as attack:
            bounding = _Bounding(run, device, deadline, attack.hear)
            for plan in _CUDA_PLANS if device.type == "cuda" else _CPU_PLANS:
                bounding.round(plan)
            attack.finish()
        return time.monotonic() > deadline and not run.interval.closed


class _Bounding:
    """Upper bounds of all pieces and targets; one bound on the largest confidence for all."""

    def __init__(self, run: Run, device: Any, deadline: float, hear: Callable[[], None]) -> None:
        self._run = run
        self._device = device
        self._deadline = deadline
        self._hear = hear
        goals, roots = run.problem.goals, range(len(run.problem.pieces))
        self._uppers = {(goal, root): math.inf for goal in goals for root in roots}
        self._ceiling = math.inf
        self._kept: dict[int | None, TwinBounds] = {}

    def round(self, plan: Plan) -> None:
        """All pieces, and the ceiling: early where it bounds many pieces at once, else last."""
        problem = self._run.problem
        many = len(problem.pieces) > _MOST_KEPT
        if many:
            self._lower_ceiling(plan)
        for root, piece in enumerate(problem.pieces):
            for goal, upper in self._piece(problem, root, piece, plan).items():
                self._uppers[goal, root] = min(self._uppers[goal, root], upper)
            self._announce()
        if not many:
            self._lower_ceiling(plan)

    def _lower_ceiling(self, plan: Plan) -> None:
        """No attacked input is more confident than any input can be."""
        problem = self._run.problem
        if problem.perturbation is None:
            return  # that is the question itself
        own = problem.without_perturbation()
        (piece,) = own.pieces
        found = self._piece(own, None, piece, plan)
        self._ceiling = min(self._ceiling, found.get(None, math.inf))
        self._announce()

    def _piece(
        self, problem: Problem, root: int | None, piece: AbstractPiece, plan: Plan
    ) -> dict[int | None, float]:
        """Bounds for every goal; none where there is no time left."""
        self._hear()
        if self._run.interval.closed or self._is_late():
            return {}
        bounds = self._bounds(problem, root, piece)
        last = len(bounds.hexagons) - 1
        for layer in range(1, last + 1):
            steps = plan.last if layer == last else plan.inner
            if steps is not None:
                refine(bounds, layer, self._device, steps, self._is_late)
                self._hear()
        return root_bounds(problem, bounds, problem.goals, self._device, plan.root, self._is_late)

    def _is_late(self) -> bool:
        """Asked from several threads, so it asks nothing but the clock."""
        return time.monotonic() > self._deadline

    def _bounds(self, problem: Problem, root: int | None, piece: AbstractPiece) -> TwinBounds:
        if root in self._kept:
            return self._kept[root]
        if self._device.type == "cuda":
            bounds = first_order_bounds(
                problem.network, piece, self._device, should_stop=self._is_late
            )
        else:
            bounds = quick_bounds(problem.network, piece, cores(), self._is_late)
        if len(self._kept) < _MOST_KEPT and not self._is_late():
            self._kept[root] = bounds
        return bounds

    def _announce(self) -> None:
        roots = range(len(self._run.problem.pieces))
        for goal in self._run.problem.goals:
            upper = max(self._uppers[goal, root] for root in roots)
            self._run.interval.offer_upper(goal, min(upper, self._ceiling), BoundKind.TWIN)
        self._run.report()


class _Attack:
    """The attack without linear programs: beside the bounds, or after them without processes."""

    def __init__(self, run: Run, deadline: float) -> None:
        from vhagar.attack.options import AttackOptions
        from vhagar.attack.worker import AttackJob

        self._run = run
        options = run.options
        dataset = named_dataset(options, run.problem.domain)
        left = deadline - time.monotonic()
        seconds = left if math.isfinite(left) else _ATTACK_SECONDS
        seconds = min(max(_ATTACK_SHARE * seconds, _ATTACK_SECONDS), 0.9 * max(seconds, 0.0))
        climbing = AttackOptions(
            polish=False,
            regions=False,
            seed=options.seed,
            device=options.device,
        )
        self._job = AttackJob(run.problem, climbing, seconds, dataset)
        self._inbox: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
        self._worker: Worker | None = None
        self._waiting = options.attack

    def __enter__(self) -> _Attack:
        from vhagar.attack.worker import attack_beside

        if self._waiting and self._run.options.processes:
            self._worker = Worker("attack", (attack_beside, self._job), self._inbox)
        return self

    def __exit__(self, *raised: object) -> None:
        if self._worker is not None:
            self._worker.stop()

    def hear(self) -> None:
        """Take what was found so far."""
        while not self._inbox.empty():
            self._take(self._inbox.get()[1])

    def finish(self) -> None:
        """Wait for the rest, or do it now."""
        if not self._waiting:
            return
        if not self._run.options.processes:
            self._run_here()
            return
        end = time.monotonic() + self._job.left + 1.0
        while self._worker is not None and not self._run.interval.closed and time.monotonic() < end:
            heard = next_message(self._inbox, end)
            if heard is not None:
                self._take(heard[1])
            self._run.report()

    def _run_here(self) -> None:
        from vhagar.attack.run import attack

        attack(
            self._job.problem,
            timeout=self._job.left,
            options=self._job.options,
            dataset=self._job.dataset,
            on_attack=self._take,
            should_stop=lambda: self._run.interval.closed,
        )

    def _take(self, message: Any) -> None:
        if isinstance(message, Finished):
            if self._worker is not None:
                self._worker.stop()
            self._worker = None
            if message.error is not None:
                self._run.note(f"the attack ended early: {message.error}")
            return
        piece = self._run.problem.pieces[message.root]
        self._run.interval.offer_witness(message.target, message.x, piece, message.parameters)
