"""Passes on what a solver reports while it runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from vhagar.array_types import Array

OnBound = Callable[[float], None]
OnSolution = Callable[[Array], None]
# Receives the number of nodes processed so far.
OnNodes = Callable[[int], None]
ShouldStop = Callable[[], bool]

# Seconds between two reports of the number of nodes.
_COUNT_EVERY = 0.5
# Seconds between two reports of the bound.
_BOUND_EVERY = 0.05


class Listener:
    """Converts a solver's numbers to safe ones and passes them on, at limited rates.

    `safe` converts a bound, `unscaled` a point (None if it is invalid).
    """

    def __init__(
        self,
        safe: Callable[[float], float],
        unscaled: Callable[[Any], Array | None],
        on_bound: OnBound | None,
        on_solution: OnSolution | None,
        on_nodes: OnNodes | None,
        should_stop: ShouldStop | None,
    ) -> None:
        self._safe = safe
        self._unscaled = unscaled
        self._on_bound = on_bound
        self._on_solution = on_solution
        self._on_nodes = on_nodes
        self._should_stop = should_stop
        self._best = math.inf
        self._last_bound = 0.0
        self._last_count = time.monotonic()
        self._error: BaseException | None = None

    def bound(self, solvers_bound: float) -> None:
        """Take in the solver's current dual bound."""
        bound, now = self._safe(solvers_bound), time.monotonic()
        if self._on_bound is None or not bound < self._best:
            return
        if now - self._last_bound > _BOUND_EVERY:
            self._best, self._last_bound = bound, now
            self._on_bound(bound)

    def nodes(self, count: int, last: bool = False) -> None:
        """Take in the number of nodes; the last count is always passed on."""
        now = time.monotonic()
        if self._on_nodes is not None and (last or now - self._last_count > _COUNT_EVERY):
            self._last_count = now
            self._on_nodes(max(int(count), 0))  # some solvers report -1 without a tree

    def solution(self, point: Any) -> None:
        """Take in a new best solution."""
        found = None if self._on_solution is None else self._unscaled(point)
        if self._on_solution is not None and found is not None:
            self._on_solution(found)

    def stop(self) -> bool:
        """Whether the caller wants the solver to stop."""
        return self._should_stop is not None and self._should_stop()

    def guarded(self, report: Callable[[], None]) -> bool:
        """Run a callback, and return whether the solver should stop.

        This is for solvers that swallow exceptions of their callbacks. An exception, including
        Ctrl-C, stops the solver and is kept for `raise_error`.
        """
        try:
            if self._error is None:
                report()
                return self.stop()
        except BaseException as error:
            self._error = error
        return True

    def raise_error(self) -> None:
        """Raise the exception of a callback, if there was one."""
        if self._error is not None:
            raise self._error
