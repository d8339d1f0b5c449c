"""The workers of a search: which are idle, which are silent for too long, which replace them."""

from __future__ import annotations

import time
from typing import Any

from vhagar.result import Run
from vhagar.runtime.deadline import Deadline
from vhagar.runtime.pool import AbstractPool
from vhagar.search.worker import WorkerJob, serve

# How long a worker may be silent while others wait, in seconds: after it has reported the bounds of
# its nodes, when only heuristics and branching are left; before the first report of any worker; and
# before a later one, as a multiple of the longest silence that ended in a report.
_PATIENCE, _PATIENCE_AT_FIRST, _TIMES_THE_LONGEST = 10.0, 60.0, 10.0
# Workers that are replaced at most: what never returns in one will not return in the next either.
_MOST_REPLACED = 8


class SearchPool:
    """Worker processes by their numbers. Every number is used once, because nodes carry it."""

    def __init__(
        self,
        run: Run,
        pool: AbstractPool,
        count: int,
        deadline: Deadline,
        first: int = 0,
        tightens: bool = False,
    ) -> None:
        self._run, self._pool, self._deadline = run, pool, deadline
        self._first, self._tightens = first, tightens
        self._names: set[int] = set(range(first, first + count))
        self._starting: set[int] = set(self._names)
        self._started = 0
        self._idle: set[int] = set()
        # When each busy worker was last heard of, and whether it has told bounds since its task.
        self._heard: dict[int, tuple[float, bool]] = {}
        self._longest: float | None = None  # silence that ended in a report
        # The bounding in batches goes by the number after the first workers'.
        self._next, self._replaced = first + count + 1, 0

    def start(self, count: int) -> None:
        """Start the first `count` workers that are not started yet."""
        for name in range(self._started, count):
            self._start(self._first + name, plain=False)
        self._started = max(self._started, count)

    @property
    def are_ready(self) -> bool:
        """Whether all workers are there; until then there may be others to do their work."""
        return not self._starting

    def mark_ready(self, name: int) -> None:
        """A worker has started: it is idle."""
        self._starting.discard(name)
        self._idle.add(name)

    def _start(self, name: int, plain: bool) -> None:
        run = self._run
        job = WorkerJob(run.reduced, run.options, name, self._deadline, plain, self._tightens)
        self._pool.start(name, (serve, job))
        self._names.add(name)
        self._starting.add(name)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def idle(self) -> list[int]:
        return sorted(self._idle)

    @property
    def busy(self) -> int:
        """How many workers have a task."""
        return len(self._heard)

    def give(self, name: int, task: Any) -> None:
        """Give an idle worker something to do."""
        self._pool.tell(name, task)
        self._idle.discard(name)
        self._heard[name] = time.monotonic(), False

    def tell_others(self, name: int, message: Any) -> None:
        """Pass on what a worker has found to all others that have started."""
        for other in self._names - self._starting - {name}:
            self._pool.tell(other, message)

    def mark_alive(self, name: int) -> None:
        """A busy worker was heard of before it has bounds to report."""
        self._ends_silence(name)
        self._heard[name] = time.monotonic(), self._heard[name][1]

    def mark_underway(self, name: int) -> None:
        """A worker has reported bounds, and is still busy."""
        self._ends_silence(name)
        self._heard[name] = time.monotonic(), True

    def mark_done(self, name: int) -> None:
        """A worker has reported on its task: it is idle."""
        self._ends_silence(name)
        del self._heard[name]
        self._idle.add(name)

    def _ends_silence(self, name: int) -> None:
        self._longest = max(self._longest or 0.0, time.monotonic() - self._heard[name][0])

    def _patience(self, told: bool) -> float:
        if told:
            return _PATIENCE
        if self._longest is None:
            return _PATIENCE_AT_FIRST
        return max(_PATIENCE, _TIMES_THE_LONGEST * self._longest)

    def mark_gone(self, name: int) -> None:
        """A worker has ended."""
        self._heard.pop(name, None)
        self._starting.discard(name)
        self._idle.discard(name)
        self._names.discard(name)

    def replace_silent(self) -> list[int]:
        """Replace workers that do not return while others wait, or all if none returns.

        Returns their numbers: their nodes come back.
        """
        now = time.monotonic()
        silent = [
            name
            for name, (heard, told) in self._heard.items()
            if now - heard > self._patience(told)
        ]
        if not self._idle and len(silent) < len(self._heard):
            return []
        silent = silent[: _MOST_REPLACED - self._replaced]
        for name in silent:
            self._pool.stop(name)
            self.mark_gone(name)
            self._start(self._next, plain=True)
            self._next, self._replaced = self._next + 1, self._replaced + 1
            self._run.note("a worker did not return and was replaced by one without heuristics")
        return silent
