"""The hyper-adversarial attack: rounds of gradient ascent, polish and search among regions."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vhagar.attack.ascent import Solutions, ascend
from vhagar.attack.batch import Batch, Group
from vhagar.attack.hints import Hints, hints_of
from vhagar.attack.keeper import AttackFound, Keeper, OnAttack
from vhagar.attack.model import TorchNetwork
from vhagar.attack.options import AttackOptions
from vhagar.attack.regions import Regions
from vhagar.attack.starts import checked_dataset, hyper_input, more_starts
from vhagar.attack.tournament import (
    Attempts,
    Candidate,
    from_candidates,
    from_relaxations,
    tournament,
)
from vhagar.errors import InvalidInput, VhagarError
from vhagar.problem import Problem
from vhagar.reduction import REDUCTIONS, Reduced, reduce_problem
from vhagar.runtime.devices import require_torch, torch_device

Array = NDArray[np.float64]

# Solutions that the witness check refuses are followed by so many others at most.
_MOST_REFUSED = 8

# Attacks that others found: goal, place of the piece, input, parameters.
Suggestion = tuple[int | None, int, Array, Array]


@dataclass(frozen=True, eq=False)
class AttackResult:
    """The best attack on each goal that was attacked, and hints for a solver's booleans."""

    attacks: dict[int | None, AttackFound]
    hints: dict[int | None, Hints]
    rounds: int
    seconds: float

    @property
    def lower(self) -> float:
        """The largest confidence that was attacked; 0 where nothing was."""
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

    It ends after `timeout` seconds, when `should_stop` says so, or after the options' rounds;
    without the first two and with a seed the result is the same every time (on a CPU). `dataset` is
    an array of inputs. `on_attack` is called with every improvement, and `suggestions` is asked now
    and then for attacks that others found, to go on from.
    """
    options = options or AttackOptions()
    if timeout is not None and not timeout >= 0:
        raise InvalidInput(f"the timeout must be a number of seconds, not {timeout}")
    if timeout is None and options.rounds is None:
        raise InvalidInput("the attack would never end: give a timeout or a number of rounds")
    deadline = time.monotonic() + (math.inf if timeout is None else timeout)
    # These reductions keep inputs and parameters: attacks on what they make are attacks on the
    # problem itself.
    reduced = reduce_problem(problem, REDUCTIONS)
    run = _Run(reduced, options, checked_dataset(dataset, problem.domain), on_attack)
    return run.result(lambda: should_stop() or time.monotonic() >= deadline, suggestions)


class _Run:
    def __init__(
        self,
        reduced: Reduced,
        options: AttackOptions,
        dataset: Array,
        on_attack: OnAttack | None,
    ) -> None:
        self._begun = time.monotonic()
        self._problem = reduced.problem
        self._options = options
        self._dataset = dataset
        self._rng = np.random.default_rng(options.seed)
        self._keeper = Keeper(reduced, on_attack)
        self._regions = Regions(self._keeper, self._rng)
        self._hints: dict[int | None, Hints] = {}
        self._visits: Counter[tuple[int | None, int]] = Counter()

    @cached_property
    def _batch(self) -> Batch:
        """Made when it is first needed: torch takes a second to import."""
        problem, options = self._problem, self._options
        goals, roots = problem.goals, range(len(problem.pieces))
        groups = tuple(Group(goal, root) for goal in goals for root in roots)
        device = torch_device(options.device)
        model = TorchNetwork(problem.network, device, options.double)
        inputs = options.gpu_inputs if device.type == "cuda" else options.inputs
        return Batch(problem, model, groups, max(inputs // len(groups), 1))

    def result(
        self, should_stop: Callable[[], bool], suggestions: Callable[[], Iterable[Suggestion]]
    ) -> AttackResult:
        rounds = 0
        options, regions, goals = self._options, self._regions, self._problem.goals
        if options.relax_first:
            relaxations = {goal: from_relaxations(goal, self._places(), regions) for goal in goals}
            self._search(relaxations, should_stop, suggestions)
        ended = options.relax_first and should_stop()
        while not ended:
            rounds += 1
            self._hear(suggestions)
            solutions = self._ascend_as_memory_allows(should_stop)
            candidates = {goal: self._candidates(goal, solutions) for goal in goals}
            for goal, its_own in candidates.items():
                self._offer(its_own)
                self._hint(goal, its_own)
            if options.polish:
                polished = {
                    goal: from_candidates(goal, self._shortlist(its_own), regions, options)
                    for goal, its_own in candidates.items()
                }
                self._search(polished, should_stop, suggestions)
            ended = should_stop() or rounds == options.rounds
        seconds = time.monotonic() - self._begun
        return AttackResult(dict(self._keeper.best), dict(self._hints), rounds, seconds)

    def _ascend_as_memory_allows(self, should_stop: Callable[[], bool]) -> Solutions:
        """An ascent; where it does not fit into memory, with half the rows from then on."""
        while True:
            try:
                return self._ascend(should_stop)
            except (MemoryError, require_torch().OutOfMemoryError) as error:
                if self._batch.rows_each == 1:
                    raise VhagarError(
                        f"not even one input for each target and piece fits into the memory of "
                        f"{self._batch.model.device}; use --device cpu, or fewer targets"
                    ) from error
            # Outside of the handler: the error holds on to what did not fit.
            self._batch = self._batch.halved()
            if self._batch.model.device.type == "cuda":
                require_torch().cuda.empty_cache()

    def _ascend(self, should_stop: Callable[[], bool]) -> Solutions:
        """One ascent of all goals and pieces, from starts of its own."""
        batch, rng = self._batch, self._rng
        starts = hyper_input(self._problem, batch.model, self._dataset, len(batch), rng)
        if self._options.climb:
            starts = more_starts(self._problem, batch.model, starts, self._dataset, rng)
        # Every group gets starts of all confidences.
        dealt = starts.reshape(batch.rows_each, len(batch.groups), -1).swapaxes(0, 1)
        state = batch.start(dealt.reshape(starts.shape), rng)
        if self._options.aim:
            state = batch.aimed(state, self._keeper.best, rng)
        return ascend(batch, state, self._options, rng, should_stop)

    def _candidates(self, goal: int | None, solutions: Solutions) -> list[Candidate]:
        """The rows of a goal, the most confident attacks first."""
        found = [
            Candidate(
                goal,
                group.root,
                solutions.x[self._batch.rows(k)][row],
                solutions.parameters[k][row],
                float(solutions.confidence[self._batch.rows(k)][row]),
            )
            for k, group in enumerate(self._batch.groups)
            if group.goal == goal
            for row in range(self._batch.rows_each)
        ]
        return sorted(found, key=lambda candidate: -candidate.confidence)

    def _shortlist(self, candidates: list[Candidate]) -> list[Candidate]:
        """Where to search: the best, then pieces that had the fewest chances, then anywhere."""
        count = self._options.basins
        best, rest = candidates[:count], candidates[count:]
        seen = {one.root for one in best}
        new: dict[int, Candidate] = {}
        for one in rest:
            if one.root not in seen:
                new.setdefault(one.root, one)  # the best of its piece
        # Pieces with as many chances are in no order of their own.
        turns = self._rng.permutation(len(self._problem.pieces))
        fresh = sorted(
            new.values(), key=lambda one: (self._visits[one.goal, one.root], turns[one.root])
        )
        shuffled = [rest[k] for k in self._rng.permutation(len(rest))]
        anywhere = [one for one in shuffled if new.get(one.root) is not one]
        chosen = [*best, *fresh, *anywhere][: 2 * count]
        self._visits.update({(one.goal, one.root) for one in chosen})
        return chosen

    def _offer(self, candidates: list[Candidate]) -> None:
        for candidate in candidates[:_MOST_REFUSED]:
            if candidate.confidence <= self._keeper.confidence(candidate.goal):
                break
            x, parameters = candidate.x, candidate.parameters
            if self._keeper.judge(candidate.goal, candidate.root, x, parameters) is not None:
                break

    def _hint(self, goal: int | None, candidates: list[Candidate]) -> None:
        """Hints from this round's solutions; those of earlier rounds stay where it has none."""
        solved = [candidate for candidate in candidates if candidate.confidence > 0]
        if goal in self._hints and not solved:
            return
        empty = np.zeros((0, self._problem.domain.size))
        images = [
            self._problem.pieces[one.root].apply(one.x[None], one.parameters[None])
            for one in solved
        ]
        x = np.concatenate([empty, *(one.x[None] for one in solved)])
        x_p = np.concatenate([empty, *images])
        self._hints[goal] = hints_of(self._problem.network, x, x_p, self._options.majority)

    def _hear(self, suggestions: Callable[[], Iterable[Suggestion]]) -> None:
        for suggestion in suggestions():
            self._keeper.judge(*suggestion)

    def _places(self) -> list[tuple[int, Array]]:
        """Pieces in no order of their own, with parameters from all over their boxes.

        Where there are few, each has several turns: no two dives are the same.
        """
        roots = self._rng.permutation(len(self._problem.pieces)).tolist()
        places = []
        for root in itertools.islice(itertools.cycle(roots), 2 * self._options.basins):
            low, high = self._problem.pieces[root].parameter_bounds
            places.append((root, low + (high - low) * self._rng.uniform(size=len(low))))
        return places

    def _search(
        self,
        beginnings: dict[int | None, Attempts],
        should_stop: Callable[[], bool],
        suggestions: Callable[[], Iterable[Suggestion]],
    ) -> None:
        """All goals in turn, until each has had enough."""
        waiting = [
            tournament(goal, its_own, self._keeper, self._regions, self._options)
            for goal, its_own in beginnings.items()
        ]
        while waiting:
            for search in list(waiting):
                if should_stop():
                    return
                self._hear(suggestions)
                if next(search, "over") == "over":
                    waiting.remove(search)
