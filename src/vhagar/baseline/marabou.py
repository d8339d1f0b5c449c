"""Marabou as a baseline: a binary search for the delta of delta-global robustness.

The interval is valid as far as Marabou can be trusted: `lower` rises only by inputs that pass the
witness check, but `upper` relies on Marabou's "unsat" alone, and the bound is labelled accordingly.
"""

from __future__ import annotations

import math
import time

from vhagar.baseline.bisection import Bisection
from vhagar.baseline.pool import MarabouPool, QueryKey
from vhagar.baseline.query import check_linear
from vhagar.baseline.solver import QueryAnswer, QueryStatus, require_marabou
from vhagar.engine import AbstractEngine
from vhagar.errors import InvalidInput
from vhagar.result import BoundKind, Rejection, Run
from vhagar.runtime.deadline import Deadline

# Time for one query at first: a share of the timeout, and at least so many seconds. The paper does
# not say.
_SHARE_OF_QUESTION, _LEAST_SECONDS = 1 / 6, 2.0
# Seconds for one query at first, if there is no timeout.
_QUESTION_SECONDS = 60.0


class MarabouEngine(AbstractEngine):
    """Binary search over delta; one query may take `query_timeout` seconds at first."""

    name = "marabou"
    uses = frozenset({"workers"})

    def __init__(self, query_timeout: float | None = None) -> None:
        if query_timeout is not None and not query_timeout > 0:
            raise InvalidInput(f"the query timeout must be above 0, not {query_timeout}")
        require_marabou()
        self._query_timeout = query_timeout

    def search(self, run: Run, deadline: Deadline) -> bool:
        if not run.problem.targets:
            raise InvalidInput("the baseline marabou needs a problem with a perturbation")
        for piece in run.problem.pieces:
            check_linear(piece)
        limit = self._query_timeout or _first_limit(deadline.left)
        search, bisection = _Search(run, deadline), Bisection()
        try:
            return _bisect(run, search, bisection, limit, deadline)
        finally:
            search.end()


def _bisect(
    run: Run, search: _Search, bisection: Bisection, limit: float, deadline: Deadline
) -> bool:
    while not run.interval.closed and not deadline.passed:
        delta = bisection.next(run.interval.lower, run.interval.upper)
        if not run.interval.lower < delta < run.interval.upper:
            return False  # there is no number in between
        before = run.interval.lower, run.interval.upper
        if not search.ask(delta, limit * bisection.patience):
            bisection.unanswered(delta)
        elif (run.interval.lower, run.interval.upper) == before:
            return False  # a witness has refuted an answer, so no other is trusted
    return not run.interval.closed


def _first_limit(left: float) -> float:
    return _QUESTION_SECONDS if left == math.inf else max(left * _SHARE_OF_QUESTION, _LEAST_SECONDS)


class _Search:
    """Asks about one delta after the other, for every target and piece that is still open.

    A piece that is proven robust at some delta is robust at every larger one.
    """

    def __init__(self, run: Run, deadline: Deadline) -> None:
        self._run = run
        self._deadline = deadline
        self._pool = MarabouPool(run.reduced)
        pieces = range(len(run.problem.pieces))
        self._bounds: dict[QueryKey, float] = {
            (target, piece_index): math.inf
            for target in run.problem.targets
            for piece_index in pieces
        }

    def ask(self, delta: float, limit: float) -> bool:
        """Ask about a delta; true if an input was found, or if every query was refuted."""
        waiting = [place for place, bound in self._bounds.items() if bound > delta]
        at_once = min(len(waiting), self._run.options.worker_count)
        threads = self._run.options.worker_count // max(at_once, 1)
        pool = self._pool
        while (waiting or pool.busy) and self._run.interval.lower < delta:
            while waiting and pool.busy < at_once:
                # The time of a query starts when it is asked.
                end = min(time.monotonic() + limit, self._deadline.at)
                pool.ask(waiting.pop(0), delta, threads, end)
            received = pool.next_answer()
            if received is None:
                self._run.report()
            else:
                self._take(*received, delta)
            if self._deadline.passed:
                break
        pool.drop_questions()
        return self._run.interval.lower >= delta or all(b <= delta for b in self._bounds.values())

    def end(self) -> None:
        self._pool.end()

    def _take(self, place: QueryKey, answer: QueryAnswer | str, delta: float) -> None:
        if isinstance(answer, str):
            self._run.note(f"Marabou failed: {answer}")
        elif answer.status is QueryStatus.NO_INPUT:
            self._bounds[place] = delta
            self._lower_upper(place[0])
        elif answer.status is QueryStatus.INPUT_FOUND:
            self._offer(place, answer)
        else:
            self._run.note(f"Marabou ended without an answer ({answer.word})")

    def _lower_upper(self, target: int) -> None:
        bound = max(bound for (its_own, _), bound in self._bounds.items() if its_own == target)
        if math.isfinite(bound):
            self._run.interval.offer_upper(target, bound, BoundKind.MARABOU)

    def _offer(self, place: QueryKey, found: QueryAnswer) -> None:
        target, piece_index = place
        for candidate in found.candidates:
            checked = self._run.offer_witness(
                target, candidate.x, piece_index, candidate.parameters
            )
            if not isinstance(checked, Rejection):
                return
        self._run.note("an input that Marabou found is not a witness, and was ignored")
