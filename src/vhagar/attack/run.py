"""The hyper-adversarial attack: rounds of gradient ascent, polish and region search."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from vhagar.array_types import Array
from vhagar.attack.ascent import Solutions, ascend
from vhagar.attack.batch import Batch, batch_for
from vhagar.attack.first_attack import first_attack, multiplications
from vhagar.attack.hints import GatheredHints, Hints
from vhagar.attack.incumbents import AttackFound, Incumbents, OnAttack
from vhagar.attack.multi_start import (
    Attempts,
    from_attacks,
    from_relaxations,
    from_start_points,
    multi_start,
    random_pieces,
)
from vhagar.attack.options import AttackOptions
from vhagar.attack.region_search import RegionSearch
from vhagar.attack.start_points import Shortlist, StartPoint, start_points
from vhagar.attack.starts import checked_dataset, dimmed, hyper_input, more_starts
from vhagar.errors import InvalidInput, VhagarError
from vhagar.problem import Problem
from vhagar.reduction import REDUCTIONS, Reduced, reduce_problem
from vhagar.runtime.deadline import CoreShare, Deadline, OutOfTime
from vhagar.runtime.devices import memory_errors, require_torch, torch_comes_in_time

# Regions of networks with more multiplications take too long before there has been an ascent.
# Measured: the paper's have up to 42,000; mnistfc_256x2 has 270,000, where the first region takes
# 0.3 s and a relaxation of its neighbours 0.5 s (PERFORMANCE.md).
_QUICK = 100_000
# Solutions to offer, best first, until the witness check accepts one.
_MOST_OFFERED = 8

# An attack from elsewhere: target, index of the piece, input, parameters.
Suggestion = tuple[int | None, int, Array, Array]
# An attack on each of some targets.
Found = dict[int | None, AttackFound]


@dataclass(frozen=True, eq=False)
class AttackResult:
    """The best attack on each target, where one was found, and hints for a solver's booleans."""

    attacks: Found
    hints: dict[int | None, Hints]
    rounds: int
    # Whether it ended because it had made the options' number of rounds.
    completed: bool

    @property
    def lower(self) -> float:
        """The largest confidence of an attack; 0 without one."""
        return max((attack.confidence for attack in self.attacks.values()), default=0.0)


def attack(
    problem: Problem,
    *,
    timeout: float | None = None,
    options: AttackOptions | None = None,
    dataset: ArrayLike | None = None,
    on_attack: OnAttack | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    suggestions: Callable[[], Iterable[Suggestion]] = tuple,
) -> AttackResult:
    """Look for the most confident input that the perturbation pushes into each target.

    The attack ends after `timeout` seconds, when `should_stop()` is true, or after the options'
    number of rounds; if only the latter ends it, the result is reproducible on a CPU. `dataset` is
    an array of inputs. `on_attack` is called with every improvement; `suggestions` is called
    regularly for attacks found elsewhere, to continue from.
    """
    options = options or AttackOptions()
    if timeout is None and options.rounds is None:
        raise InvalidInput("the attack would never end: give a timeout or a number of rounds")
    deadline = Deadline.after(timeout)
    # These reductions keep inputs and parameters, so attacks on the reduced problem are attacks on
    # the original one.
    reduced = reduce_problem(problem, REDUCTIONS)
    inputs = checked_dataset(dataset, problem.domain)

    def is_over() -> bool:
        return should_stop() or deadline.passed

    return _Rounds(reduced, options, inputs, on_attack, deadline, is_over).run(suggestions)


class _Rounds:
    """The rounds of an attack: each is an ascent, then a region search around its solutions."""

    def __init__(
        self,
        reduced: Reduced,
        options: AttackOptions,
        dataset: Array,
        on_attack: OnAttack | None,
        deadline: Deadline,
        should_stop: Callable[[], bool],
    ) -> None:
        self._problem = reduced.problem
        self._deadline, self._should_stop = deadline, should_stop
        self._options = options
        self._core_share = CoreShare()
        self._dataset = dataset
        self._rng = np.random.default_rng(options.seed)
        self._incumbents = Incumbents(reduced, on_attack)
        self._regions = RegionSearch(self._incumbents, self._rng, deadline, should_stop)
        self._hints = GatheredHints(self._problem, options.majority)
        # Whether regions are searched before an ascent.
        self._quick = options.regions and multiplications(self._problem.network) <= _QUICK
        self._shortlist = Shortlist(options.basins, len(self._problem.pieces), self._rng)

    @cached_property
    def _batch(self) -> Batch:
        """The batch, created on first use because torch takes a second to import."""
        return batch_for(self._problem, self._options, self._check)

    def run(self, suggestions: Callable[[], Iterable[Suggestion]]) -> AttackResult:
        rounds = 0
        options, problem = self._options, self._problem
        pairs = len(problem.search_targets) * len(problem.pieces)
        first_attacks = options.starts and options.rounds is None
        if options.relax_first:
            self._dive(suggestions)
        ended = options.relax_first and self._should_stop()
        lacks_torch = False
        while not ended:
            rounds += 1
            # The first ascent looks at all pairs of a target and a piece, regions only at those
            # that first attacks have hit, in turn: with several pairs it would come much later.
            early = self._quick and (rounds > 1 or pairs == 1)
            early |= lacks_torch and options.regions
            if first_attacks and (early or lacks_torch or rounds == 1):
                self._attack_without_torch(early, suggestions)
                if self._should_stop():
                    break
            self._take(suggestions)
            # Nothing ends an import in the middle. Without it, first attacks follow one another.
            lacks_torch = not torch_comes_in_time(self._deadline, self._core_share())
            if lacks_torch and first_attacks:
                continue
            if lacks_torch:
                break
            try:
                self._ascend_and_polish(suggestions)
            except OutOfTime:
                break
            ended = self._should_stop() or rounds == options.rounds
        best, completed = dict(self._incumbents.best), ended and not self._should_stop()
        return AttackResult(best, self._hints.with_attacks(best), rounds, completed)

    def _dive(self, suggestions: Callable[[], Iterable[Suggestion]]) -> None:
        """Begin at relaxations of random pieces."""
        problem, most = self._problem, 2 * self._options.basins
        dives = {
            target: from_relaxations(target, random_pieces(problem, most, self._rng), self._regions)
            for target in problem.search_targets
        }
        self._search(dives, suggestions)

    def _attack_without_torch(
        self, early: bool, suggestions: Callable[[], Iterable[Suggestion]]
    ) -> None:
        """First attacks; `early`, several of them, and regions around what they find."""
        found = self._first_attacks(self._options.basins if early else 1)
        if early:
            tries = {k: from_attacks(k, own, self._regions) for k, own in found.items()}
            self._search(tries, suggestions)

    def _ascend_and_polish(self, suggestions: Callable[[], Iterable[Suggestion]]) -> None:
        solutions, options = self._ascend_within_memory(), self._options
        points = {
            target: start_points(self._batch, target, solutions)
            for target in self._problem.search_targets
        }
        for target, own in points.items():
            self._offer(own)
            self._hints.update(target, own)
        if options.polish:
            attempts = {
                target: from_start_points(target, self._shortlist.of(own), self._regions, options)
                for target, own in points.items()
            }
            self._search(attempts, suggestions)

    def _ascend_within_memory(self) -> Solutions:
        """Ascend; out of memory, halve the batch, for later rounds as well."""
        while True:
            try:
                return self._ascend()
            except memory_errors() as error:
                if self._batch.rows_per_group == 1:
                    raise VhagarError(
                        f"not even one input for each target and piece fits into the memory of "
                        f"{self._batch.model.device}; use --device cpu, or fewer targets"
                    ) from error
            # Outside of the handler, because the error references the memory.
            self._batch = self._batch.halved()
            if self._batch.model.device.type == "cuda":
                require_torch().cuda.empty_cache()

    def _offer_all_of(self, batch: Batch) -> Callable[[Solutions], None]:
        """What offers the best attacks that a batch has found so far."""

        def offer(solutions: Solutions) -> None:
            for target in self._problem.search_targets:
                if self._should_stop():  # they are offered in the end
                    return
                self._offer(start_points(batch, target, solutions))

        return offer

    def _check(self) -> None:
        if self._should_stop():
            raise OutOfTime

    def _ascend(self) -> Solutions:
        """One ascent for all targets and pieces, from new starts."""
        batch, rng, inputs = self._batch, self._rng, self._dataset
        starts = hyper_input(self._problem, batch.model, inputs, len(batch), rng, self._check)
        if self._options.starts:
            starts = more_starts(self._problem, batch.model, starts, inputs, rng, self._check)
        if self._options.starts and not self._incumbents.best:
            starts = dimmed(starts, self._problem.domain, rng)
        # Deal the sorted starts so that every group gets all levels of confidence.
        dealt = starts.reshape(batch.rows_per_group, len(batch.groups), -1).swapaxes(0, 1)
        state = batch.start(dealt.reshape(starts.shape), rng)
        if self._options.aim:
            state = batch.restarted_near(state, self._incumbents.best, rng)
        offer = self._offer_all_of(batch)
        return ascend(batch, state, self._options, rng, self._should_stop, offer)

    def _first_attacks(self, count: int) -> dict[int | None, list[AttackFound]]:
        """Short attacks, which need no torch: the best that each of them finds on each target."""
        found: dict[int | None, list[AttackFound]] = {}
        for _ in range(count):
            if self._should_stop():
                break
            own: Found = {}

            def offer(target: int | None, x: Array, index: int, e: Array, own: Found = own) -> None:
                attack = self._incumbents.offer(target, index, x, e)
                if attack is not None:  # better than the one before
                    own[target] = attack

            seed = int(self._rng.integers(2**31))
            first_attack(self._problem, offer, seed, self._dataset, self._should_stop)
            for target, attack in own.items():
                found.setdefault(target, []).append(attack)
        return found

    def _offer(self, points: list[StartPoint]) -> None:
        for point in points[:_MOST_OFFERED]:
            if point.confidence <= self._incumbents.confidence(point.target):
                break
            if self._incumbents.offer(point.target, point.piece_index, point.x, point.parameters):
                break

    def _take(self, suggestions: Callable[[], Iterable[Suggestion]]) -> None:
        for suggestion in suggestions():
            self._incumbents.offer(*suggestion)

    def _search(
        self,
        attempts: dict[int | None, Attempts],
        suggestions: Callable[[], Iterable[Suggestion]],
    ) -> None:
        """Search for attacks on all targets in turn, until each search has ended."""
        searches = [
            multi_start(target, own, self._incumbents, self._regions, self._options)
            for target, own in attempts.items()
        ]
        while searches:
            for search in list(searches):
                if self._should_stop():
                    return
                self._take(suggestions)
                try:
                    over = next(search, "over") == "over"
                except OutOfTime:
                    return
                if over:
                    searches.remove(search)
