"""Bounds of networks that no linear program can hold.

Nothing is branched on. All pieces and targets are bounded at their roots by first-order steps,
first quickly and then with more care, while the attack climbs by gradients alone beside it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vhagar.attack.concurrent import AttackSchedule, ConcurrentAttack, attack_here
from vhagar.attack.options import AttackOptions
from vhagar.dataset import named_dataset
from vhagar.engine import AbstractEngine
from vhagar.errors import InvalidInput
from vhagar.options import Options
from vhagar.perturbation import AbstractPiece
from vhagar.problem import Problem
from vhagar.relaxation.first_order.dual import Steps
from vhagar.relaxation.first_order.refine import first_order_bounds, refine
from vhagar.relaxation.first_order.root import root_bounds
from vhagar.relaxation.layerwise import TwinBounds, quick_bounds
from vhagar.result import BoundKind, Run
from vhagar.runtime.cores import available_cores
from vhagar.runtime.devices import device_words, require_torch, torch_device
from vhagar.runtime.processes import ProcessPool
from vhagar.search.bounders.size import is_large

# How long the attack goes on, and for how many seconds its last messages are waited for.
_SCHEDULE, _GRACE = AttackSchedule(share=0.5, least=20.0), 1.0
# Pieces whose bounds stay in memory for the second round.
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


@dataclass(frozen=True)
class FirstOrder(AbstractEngine):
    """First-order bounds at the roots, and the attack beside them, unless `attack` is false."""

    attack: bool = True

    name = "first-order"
    uses = frozenset({"dataset", "device"})

    def check(self, options: Options) -> None:
        super().check(options)
        if options.dataset is not None and not self.attack:
            raise InvalidInput("only the attack uses a dataset, and it is switched off")

    def search(self, run: Run, deadline: float) -> bool:
        device = torch_device(run.options.device)
        run.device = device_words(device)
        if is_large(run.problem):
            run.note(
                f"{run.problem.network.hidden_neurons} hidden neurons are too many for linear "
                f"programs: bounds by first-order steps on {run.device}, without branching"
            )
        if device.type == "cpu" and self.attack and run.options.processes:
            # The attack needs a core of its own; threads that wait for each other need theirs, too.
            require_torch().set_num_threads(max(1, available_cores() - 1))
        with ProcessPool() as pool:
            attack = _Attack(run, pool, deadline, self.attack)
            bounding = _Bounding(run, device, deadline, attack.poll)
            for plan in _CUDA_PLANS if device.type == "cuda" else _CPU_PLANS:
                bounding.round(plan)
            attack.finish()
        return time.monotonic() > deadline and not run.interval.closed


class _Bounding:
    """Upper bounds of all pieces and targets; one bound on the largest confidence for all."""

    def __init__(self, run: Run, device: Any, deadline: float, poll: Callable[[], None]) -> None:
        self._run = run
        self._device = device
        self._deadline = deadline
        self._poll = poll
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
        self._poll()
        if self._run.interval.closed or self._is_late():
            return {}
        bounds = self._bounds(problem, root, piece)
        last = len(bounds.hexagons) - 1
        for layer in range(1, last + 1):
            steps = plan.last if layer == last else plan.inner
            if steps is not None:
                refine(bounds, layer, self._device, steps, self._is_late)
                self._poll()
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
            bounds = quick_bounds(problem.network, piece, available_cores(), self._is_late)
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

    def __init__(self, run: Run, pool: ProcessPool, deadline: float, wanted: bool) -> None:
        options = run.options
        self._wanted = wanted
        self._run, self._pool = run, pool
        now = time.monotonic()
        self._ends = now + _SCHEDULE.seconds(deadline - now)
        # Read at once: a wrong file is an error before the search, not in its midst.
        self._dataset = named_dataset(options, run.original.domain)
        self._climbing = AttackOptions(
            polish=False, regions=False, seed=options.seed, device=options.device
        )
        self._attack = ConcurrentAttack(
            run, pool, self._climbing, _SCHEDULE, deadline, self._dataset
        )
        if wanted and options.processes:
            self._attack.join_when_due()

    def poll(self) -> None:
        """Take what was found so far."""
        while (received := self._pool.next_message(0.0)) is not None:
            self._attack.handle(received[1])

    def finish(self) -> None:
        """Wait for the rest, or do it now."""
        if self._wanted and not self._run.options.processes:
            left = max(self._ends - time.monotonic(), 0.0)
            attack_here(self._run, self._climbing, left, self._dataset)
        self._attack.finish(self._ends, _GRACE)
