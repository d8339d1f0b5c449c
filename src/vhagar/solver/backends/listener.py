"""What a solver says while it works, on its way to whoever asked."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

OnBound = Callable[[float], None]
OnSolution = Callable[[Array], None]
# Receives how many nodes of the tree were looked at so far.
OnNodes = Callable[[int], None]
ShouldStop = Callable[[], bool]

# Seconds between two reports of the number of nodes.
_COUNT_EVERY = 0.5
# Seconds between two reports of the bound.
_BOUND_EVERY = 0.05


class Listener:
    """Makes a solver's numbers safe and passes them on, not too often.

    `safe` turns the solver's bound into one of ours, `unscaled` its point (None if it is none).
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
        """The solver's dual bound by now."""
        bound, now = self._safe(solvers_bound), time.monotonic()
        if self._on_bound is None or not bound < self._best:
            return
        if now - self._last_bound > _BOUND_EVERY:
            self._best, self._last_bound = bound, now
            self._on_bound(bound)

    def nodes(self, count: int, last: bool = False) -> None:
        """So many nodes by now; the last count is passed on whenever it comes."""
        now = time.monotonic()
        if self._on_nodes is not None and (last or now - self._last_count > _COUNT_EVERY):
            self._last_count = now
            self._on_nodes(max(int(count), 0))  # some say -1 where there is no tree

    def solution(self, point: Any) -> None:
        """A new best solution."""
        found = None if self._on_solution is None else self._unscaled(point)
        if self._on_solution is not None and found is not None:
            self._on_solution(found)

    def stop(self) -> bool:
        """Whether the caller wants the solver to stop."""
        return self._should_stop is not None and self._should_stop()

    def guarded(self, hear: Callable[[], None]) -> bool:
        """Hear the solver out; whether it is to stop.

        Solvers that swallow errors of their callbacks use this. An error, Ctrl-C included, stops
        the solver and waits for `raise_error`.
        """
        try:
            if self._error is None:
                hear()
                return self.stop()
        except BaseException as error:
            self._error = error
        return True

    def raise_error(self) -> None:
        """Raise what went wrong while the solver worked, if anything did."""
        if self._error is not None:
            raise self._error
