"""The search in rounds of first-order steps, for networks that no linear program can hold."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import Any

from vhagar.attack.concurrent import AttackSchedule, ConcurrentAttack, attack_here
from vhagar.attack.options import AttackOptions
from vhagar.reduction.base import Reduced
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.quadratic import are_manageable
from vhagar.result import Run
from vhagar.runtime.deadline import Deadline, OutOfTime
from vhagar.runtime.devices import device_words, limit_threads, require_torch, torch_device
from vhagar.runtime.threads import blas_threads
from vhagar.search.bounders.first_bounds import BoundMethod, first_neuron_bounds, root_bounders
from vhagar.search.bounders.first_order import FirstOrderBounder
from vhagar.search.bounders.quadratic import QuadraticBounder
from vhagar.search.bounders.size import is_large
from vhagar.search.node import Numbers, Region
from vhagar.search.node_selection import HERE
from vhagar.search.search import CEILING_SHARE, Search
from vhagar.search.worker import SearchWorker

# When the attack runs beside first-order steps, by how much longer while it gains, and for how many
# seconds its last messages are waited for.
_ATTACK, _LAST_WORDS = AttackSchedule(share=0.5, least=20.0, patience=2.0), 1.0
# Seconds of halving boxes of inputs between two looks at the messages.
_BETWEEN_LOOKS = 0.1
# Share of the time for bounds where the attack has no process of its own.
_BOUNDS_SHARE = 0.7
# Shares of the remaining time: for the bounds by slopes of further roots, each in two rounds, to
# begin, and for the bounds of neurons that they start from. Neurons without such bounds have those
# of intervals, which decide nearly as many pairs.
_SLOPES_SHARE, _ROUNDS, _NEURONS_SHARE = 0.25, 2, 0.1
# Share of the remaining time for the bounds of neurons where the maximal confidence is asked for.
_QUICK_SHARE = 0.3
# The same where the time is too short for first-order steps.
_NUMPY_SHARE = 0.5
# The same for a ceiling that bounds the answer: what is not finished has to be begun anew.
_BINDING_SHARE = 0.5
# The most that quick bounds are expected to gain on interval arithmetic, as a factor.
# Measured: 1.3 to 2.4 on mnistfc_256x2, mnistfc_256x4, oval21_base and mnist_convsmall_point.
_QUICK_GAIN = 4.0
# Seconds before the deadline at which bounds by slopes are to be proved as they are.
_PROOF_SECONDS = 0.5
# Seconds after the deadline until which the attack's last messages are waited for.
_LATEST_WORDS = 0.3


class SearchInRounds(Search):
    """Bounds all nodes of a piece together, first quickly and then with more care.

    `Search` has the frontiers, the first bounds of the roots and the first attack; this adds the
    rounds, which need no worker processes.
    """

    def __init__(self, run: Run, attack: bool, slopes: bool = False, inputs: bool = False) -> None:
        super().__init__(run, attack, slopes, inputs)
        # Without linear programs nobody else finds confident inputs, either.
        self._attacks = attack
        # Whether something was left out because there was no time to import torch.
        self._lacks_torch = False

    def run(self, deadline: Deadline) -> bool:
        """First-order steps in this process, piece by piece, while the attack runs beside it.

        Without processes the attack comes last.
        """
        self._frontiers.timed = True
        with self.kept():
            return self._run_until(deadline)

    def _run_until(self, deadline: Deadline) -> bool:
        run, options = self._run, self._run.options
        if self._resumed is None:
            self.bound_roots(BoundMethod.DIFFERENCES, deadline)
        attack_options = AttackOptions(
            polish=False, regions=False, seed=options.seed, device=options.device
        )
        with self._pool:
            self._attack = ConcurrentAttack(
                run, self._pool, attack_options, _ATTACK, deadline, self._dataset
            )
            ends = time.monotonic() + _ATTACK.seconds(deadline.left)
            beside = self._attacks and options.processes
            if beside:
                self._attack.join_when_due()  # before torch is imported here, too
            # The attack needs a core of its own.
            with blas_threads(max(1, options.worker_count - beside)):
                self.attack_first(deadline)
                self._bound(deadline)
            if self._attacks and not beside and not run.interval.closed:
                self._attack_last(attack_options, deadline)
            self._go_on_with_inputs(deadline)
            grace = min(_LAST_WORDS, deadline.left + _LATEST_WORDS)
            self._attack.finish(ends, grace, patiently=True)
        return (deadline.passed or self._lacks_torch) and not run.interval.closed

    def _attack_last(self, options: AttackOptions, deadline: Deadline) -> None:
        """Attack in this process; without time for torch, by further first attacks."""
        run = self._run
        self._lacks_torch |= not self._can_import_torch(deadline)
        if not (self._lacks_torch or deadline.passed):
            attack_here(run, options, _ATTACK.seconds(deadline.left), self._dataset)
        again = self._lacks_torch and self._resumed is None
        for turn in itertools.count(1):
            if not again or deadline.passed or run.interval.closed:
                break
            self.attack_first(deadline, turn)
            run.report()

    def _bound(self, deadline: Deadline) -> None:
        """Bounds of all kinds, those that are quick to compute first."""
        options = self._run.options
        slopes = self._slope_bounder(deadline)
        # Slopes may take all of the time. Where they have a better start, they come first.
        first = self._frontiers.bounded_by_ceiling
        if first:
            self._bound_largest(deadline)
        self._bound_by_slopes(slopes, deadline)
        within_reach = self._frontiers.ceiling.upper <= _QUICK_GAIN * self._run.interval.upper
        if not first and within_reach and not deadline.passed:
            self._bound_largest(deadline)
        if deadline.passed or self._run.interval.closed:
            return
        alone = self._attacks and not options.processes
        share = _BOUNDS_SHARE if alone and deadline.left < math.inf else math.inf
        last = deadline.sooner(share * deadline.left)
        self._bound_in_rounds(slopes, last)
        if self._lacks_torch:
            self._bound_without_torch(deadline)
            self._search_by_slopes(slopes, deadline, lambda _: not last.passed)

    def _bound_largest(self, deadline: Deadline) -> None:
        """Quick bounds of the maximal confidence, whether it is a ceiling or the question itself.

        The answer is then at most what a search for the maximal confidence has at first.
        """
        if self._run.problem.perturbation is None:
            self.bound_roots(
                BoundMethod.QUICK, deadline, deadline.sooner(_QUICK_SHARE * deadline.left)
            )
        else:
            # On a busy machine a longer share, up to that of the question itself, is as much work.
            binds = self._frontiers.bounded_by_ceiling and not is_large(self._run.problem)
            share = min(CEILING_SHARE / self._core_share(), _QUICK_SHARE)
            self.bound_ceiling(BoundMethod.QUICK, deadline, _BINDING_SHARE if binds else share)

    def _bound_without_torch(self, deadline: Deadline) -> None:
        """Bound what numpy can: first the ceiling, which has one root where others may have
        many."""
        if self._frontiers.bounded_by_ceiling:
            self.bound_ceiling(BoundMethod.QUICK, deadline, _NUMPY_SHARE)
        # Work that outlasts the deadline is left behind with its nodes: nothing may follow it.
        if not deadline.passed:
            self.bound_roots(BoundMethod.QUICK, deadline, deadline.before(_PROOF_SECONDS))

    def _go_on_with_inputs(self, deadline: Deadline) -> None:
        """Halve boxes of inputs once all rounds are over."""
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

    def _device_in_time(self, deadline: Deadline) -> Any:
        """The device of first-order steps; `OutOfTime` if torch cannot be imported in time."""
        self._lacks_torch = not self._can_import_torch(deadline)
        if self._lacks_torch:
            raise OutOfTime
        return self._device()

    def _device(self) -> Any:
        """The device of first-order steps, as reported; importing torch may take long."""
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
        share = _NEURONS_SHARE / len(run.problem.pieces)

        def bounds_of(region: Region) -> TwinBounds:
            limit = deadline.sooner(share * deadline.left)
            problem, piece_index = run.problem, region.piece_index
            return first_neuron_bounds(
                problem, piece_index, BoundMethod.QUICK, run.bounds, threads, late, limit
            )

        numbers, last = Numbers(self._first_number), deadline.before(_PROOF_SECONDS)
        return QuadraticBounder(run.problem, numbers, bounds_of, last)

    def _bound_by_slopes(self, slopes: QuadraticBounder, deadline: Deadline) -> None:
        """Bound roots by slopes: the best bounds for long, on networks of a few dense layers.

        This comes before first-order steps, because importing torch takes as long as a root.
        """
        run = self._run
        if is_large(run.problem):
            return
        known = first_neuron_bounds(run.problem, 0, BoundMethod.DIFFERENCES, run.bounds)
        if not are_manageable(known):
            return  # unless later bounds decide more pairs
        last = deadline.sooner(_SLOPES_SHARE * deadline.left)
        most = _ROUNDS * len(run.problem.targets) * len(run.problem.pieces)
        self._search_by_slopes(slopes, deadline, lambda count: count < most and not last.passed)

    def _search_by_slopes(
        self,
        slopes: QuadraticBounder,
        deadline: Deadline,
        goes_on: Callable[[int], bool] = lambda _: True,
    ) -> None:
        """Bound nodes by slopes while `goes_on(count)` holds of the number bounded so far."""
        run = self._run
        bounders = root_bounders(BoundMethod.DIFFERENCES, run, self._is_late(deadline))
        worker = SearchWorker(run.reduced, run.options, bounders, lambda: slopes)
        for count in itertools.count():
            if deadline.passed or run.interval.closed or (count >= _ROUNDS and not goes_on(count)):
                break
            task = self._frontiers.next_slope_task()
            if task is None:
                break
            self._work(worker, task, deadline)

    def _bound_in_rounds(self, slopes: QuadraticBounder, deadline: Deadline) -> None:
        """Bound round by round, until a round needs torch that cannot be imported in time."""
        run = self._run
        record = run.options.certificate is not None

        def bounder(reduced: Reduced) -> FirstOrderBounder:
            threads = run.options.worker_count
            return FirstOrderBounder(
                reduced.problem,
                lambda: self._device_in_time(deadline),
                self._is_late(deadline),
                deadline,
                record,
                threads,
                run.bounds,
            )

        worker = SearchWorker(run.reduced, run.options, bounder, lambda: slopes)
        while not (run.interval.closed or deadline.passed or self._lacks_torch):
            task = self._frontiers.next_task(HERE, 1, whole_piece=True)
            if task is None:
                break
            self._work(worker, task, deadline)
            run.report()
        self._listen()
