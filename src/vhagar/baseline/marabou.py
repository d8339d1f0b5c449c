"""Marabou as a baseline: is the network delta-globally robust? And a binary search for delta.

The interval is valid as far as Marabou can be trusted: `lower` rises only by inputs that pass our
witness check, but for `upper` its word "unsat" is all there is, and the bound is labelled so.
"""

from __future__ import annotations

import math
import queue
import time
from typing import Any

from vhagar.baseline.bisection import Bisection
from vhagar.baseline.query import check_linear
from vhagar.baseline.solver import Answer, Task, Verdict, require_marabou, work_on
from vhagar.errors import InvalidInput
from vhagar.result import BoundKind, Rejection, Tracker
from vhagar.search.base import AbstractEngine
from vhagar.search.processes import Finished, Worker, next_message

# Of the whole time: what one question may take at first, and at least. The paper does not say.
_SHARE_OF_QUESTION, _LEAST_SECONDS = 1 / 6, 2.0
# Without a limit on the whole.
_QUESTION_SECONDS = 60.0

# What a question is about, besides delta: a target, and the place of a piece.
_Place = tuple[int, int]


class MarabouEngine(AbstractEngine):
    """Binary search over delta. `query_timeout` is what one question may take at first."""

    def __init__(self, query_timeout: float | None = None) -> None:
        if query_timeout is not None and not query_timeout > 0:
            raise InvalidInput(f"a query needs more than {query_timeout} seconds")
        require_marabou()
        self._query_timeout = query_timeout

    def run(self, tracker: Tracker, deadline: float) -> bool:
        if not tracker.problem.targets:
            raise InvalidInput("the baseline marabou answers questions about a perturbation only")
        for piece in tracker.problem.pieces:
            check_linear(piece)
        limit = self._query_timeout or _first_limit(deadline - time.monotonic())
        search, bisection = _Search(tracker, deadline), Bisection()
        while not tracker.closed and time.monotonic() < deadline:
            delta = bisection.next(tracker.lower, tracker.upper)
            if not tracker.lower < delta < tracker.upper:
                return False  # nothing lies between neighbouring numbers
            before = tracker.lower, tracker.upper
            if not search.ask(delta, limit * bisection.patience):
                bisection.unanswered(delta)
            elif (tracker.lower, tracker.upper) == before:
                return False  # a witness has refuted an answer: no other is believed
        return not tracker.closed


def _first_limit(left: float) -> float:
    return _QUESTION_SECONDS if left == math.inf else max(left * _SHARE_OF_QUESTION, _LEAST_SECONDS)


class _Search:
    """Asks about one delta after the other, for every target and piece that is still in question.

    A piece proven robust above some delta is so above every larger one.
    """

    def __init__(self, tracker: Tracker, deadline: float) -> None:
        self._tracker = tracker
        self._deadline = deadline
        pieces = range(len(tracker.problem.pieces))
        self._bounds: dict[_Place, float] = {
            (target, root): math.inf for target in tracker.problem.targets for root in pieces
        }

    def ask(self, delta: float, limit: float) -> bool:
        """Whether the question was answered: an input was found, or there is none anywhere."""
        waiting = [place for place, bound in self._bounds.items() if bound > delta]
        inbox: queue.SimpleQueue[tuple[_Place, Any]] = queue.SimpleQueue()
        # Each question has its own time, from when it is asked.
        running: dict[_Place, tuple[Worker, float]] = {}
        at_once = min(len(waiting), self._tracker.options.worker_count)
        threads = self._tracker.options.worker_count // max(at_once, 1)
        try:
            while (waiting or running) and self._tracker.lower < delta:
                while waiting and len(running) < at_once:
                    target, root = place = waiting.pop(0)
                    task = Task(self._tracker.problem, root, target, delta, threads)
                    end = min(time.monotonic() + limit, self._deadline)
                    running[place] = Worker(place, (work_on, task), inbox), end
                heard = next_message(inbox, min(end for _, end in running.values()))
                if heard is None:
                    self._tracker.report()
                elif heard[0] in running:
                    self._hear(*heard, delta, running)
                for place in [p for p, (_, end) in running.items() if time.monotonic() >= end]:
                    running.pop(place)[0].stop()
                if time.monotonic() >= self._deadline:
                    return False
        finally:
            for worker, _ in running.values():
                worker.stop()
        return self._tracker.lower >= delta or all(b <= delta for b in self._bounds.values())

    def _hear(
        self, place: _Place, message: Any, delta: float, running: dict[_Place, tuple[Worker, float]]
    ) -> None:
        if isinstance(message, Finished):
            running.pop(place)[0].stop()
            if message.error is not None:
                self._tracker.note(f"Marabou failed: {message.error}")
            return
        assert isinstance(message, Answer)
        if message.verdict is Verdict.NO_INPUT:
            self._bounds[place] = delta
            self._lower_upper(place[0])
        elif message.verdict is Verdict.INPUT_FOUND:
            self._offer(place, message)
        else:
            self._tracker.note(f"Marabou ended without an answer ({message.word})")

    def _lower_upper(self, target: int) -> None:
        bound = max(bound for (its_own, _), bound in self._bounds.items() if its_own == target)
        if math.isfinite(bound):
            self._tracker.offer_upper(target, bound, BoundKind.MARABOU)

    def _offer(self, place: _Place, found: Answer) -> None:
        target, root = place
        piece = self._tracker.problem.pieces[root]
        for candidate in found.candidates:
            verdict = self._tracker.offer_witness(target, candidate.x, piece, candidate.parameters)
            if not isinstance(verdict, Rejection):
                return
        self._tracker.note("an input that Marabou found was no witness, and was left out")
