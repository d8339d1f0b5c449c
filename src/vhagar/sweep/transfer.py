"""Transfer results between problems: witnesses to larger perturbations, upper bounds to smaller.

A witness is a pair of inputs. It counts for another problem if that problem's own check accepts it,
so it is tried wherever network, source and target agree, contained or not. An upper bound is
transferred only if one perturbation is known to contain the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache

from vhagar.network import Network
from vhagar.perturbation import Domain
from vhagar.result import BoundKind, Interval, Suggestion, WarmStart, Witness
from vhagar.result.warm_start import checked
from vhagar.sweep.question import Question
from vhagar.sweep.relations import contains
from vhagar.sweep.rows import suggestion_of_row, target_of
from vhagar.sweep.snapshot import Snapshot
from vhagar.sweep.store import Store


class Transfer:
    """Transfers results between related problems of a store."""

    def __init__(self, store: Store, networks: Mapping[str, Network]) -> None:
        self._store = store
        self._networks = networks
        self._questions = dict(store.problems())
        # Only problems about the same network and source can be related.
        self._families: dict[tuple[str, int], list[int]] = defaultdict(list)
        for number, question in self._questions.items():
            self._families[question.network, question.source].append(number)
        self._contains = cache(self._is_contained)

    def known(self, number: int) -> WarmStart:
        """What a search can start from: the problem's own results, and those of related ones."""
        question = self._questions[number]
        suggestions: list[Suggestion] = []
        uppers: dict[int | None, tuple[float, BoundKind]] = {}
        for other in [number, *self._related(number)]:
            if self._questions[other].perturbation is not None or other == number:
                suggestions += self._suggestions(other, question)
            if other == number or self._contains(other, number):
                for target, bounds in self._uppers(other, question).items():
                    if bounds.upper < uppers.get(target, (float("inf"),))[0]:
                        uppers[target] = (bounds.upper, bounds.kind)
        return WarmStart(tuple(suggestions), uppers)

    def spread(self, number: int) -> list[int]:
        """Transfer a finished problem's results, and return the numbers of improved problems."""
        gained = []
        for other in self._related(number):
            question = self._questions[other]
            known = self._uppers(number, question) if self._contains(number, other) else {}
            witnesses = self._witnesses(number, other)
            rows = self._store.rows("events", other)
            spent = max((row["seconds"] for row in rows), default=0.0)
            snapshot = Snapshot(spent, known, witnesses)
            if self._store.improve(other, snapshot, "transferred", origin=number):
                gained.append(other)
        return gained

    def _related(self, number: int) -> Sequence[int]:
        question = self._questions[number]
        family = self._families[question.network, question.source]
        return [other for other in family if other != number]

    def _is_contained(self, larger: int, smaller: int) -> bool:
        question = self._questions[smaller]
        network = self._networks[question.network]
        domain = Domain(network.input_shape, *question.input_range)
        return contains(self._questions[larger], question, domain)

    def _uppers(self, origin: int, question: Question) -> dict[int | None, Interval]:
        """The origin's upper bounds for each target of the question."""
        found: dict[int | None, Interval] = {}
        rows = {target_of(row["target"]): row for row in self._store.rows("goals", origin)}
        for target in question.search_targets:
            # Without a bound for the target, the maximal confidence bounds every attackable input.
            row = rows.get(target, rows.get(None))
            if row is not None and row["upper"] is not None:
                found[target] = Interval(0.0, row["upper"], BoundKind[row["kind"].upper()])
        return found

    def _suggestions(self, origin: int, question: Question) -> list[Suggestion]:
        if self._questions[origin].input_range != question.input_range:
            return []
        found = map(suggestion_of_row, self._store.rows("witnesses", origin))
        return [suggestion for suggestion in found if suggestion.target in question.search_targets]

    def _witnesses(self, origin: int, other: int) -> dict[int | None, Witness]:
        """The origin's witnesses that the other problem accepts and that beat its own witnesses."""
        question = self._questions[other]
        origins, lowers = (
            {target_of(row["target"]): row["lower"] for row in self._store.rows("goals", number)}
            for number in (origin, other)
        )
        found: dict[int | None, Witness] = {}
        for suggestion in self._suggestions(origin, question):
            target = suggestion.target
            if origins[target] <= lowers[target]:
                continue
            problem = question.problem(self._networks[question.network])
            witness = checked(problem, suggestion)
            if witness is not None and witness.confidence > lowers[target]:
                found[target] = witness
        return found
