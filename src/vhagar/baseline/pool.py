"""Worker processes that run Marabou; one that does not answer in time is ended."""

from __future__ import annotations

import time

from vhagar.baseline.solver import QueryAnswer, QueryTask, serve
from vhagar.reduction import Reduced
from vhagar.runtime.pool import Finished
from vhagar.runtime.processes import ProcessPool
from vhagar.runtime.task_workers import TaskWorkers

# A target, and the index of a piece.
QueryKey = tuple[int, int]


class MarabouPool:
    """Workers that run one query each, or wait for the next."""

    def __init__(self, reduced: Reduced) -> None:
        self._pool = ProcessPool()
        self._workers: TaskWorkers[QueryKey] = TaskWorkers(self._pool, (serve, reduced))
        self._ends: dict[QueryKey, float] = {}

    @property
    def busy(self) -> int:
        """The number of queries without an answer."""
        return len(self._ends)

    def ask(self, place: QueryKey, delta: float, threads: int, end: float) -> None:
        """Give a query to a worker, which has until `end` (by `time.monotonic()`)."""
        task = QueryTask(place[1], place[0], delta, threads, end - time.monotonic())
        self._workers.submit(place, task)
        self._ends[place] = end

    def next_answer(self) -> tuple[QueryKey, QueryAnswer | str] | None:
        """An answer, or what went wrong; None after a moment of silence."""
        received = self._pool.next_message(min(self._ends.values()))
        place = None if received is None else self._workers.handle(*received)
        if place is not None:
            del self._ends[place]
        for late in [late for late, end in self._ends.items() if time.monotonic() >= end]:
            self._workers.cancel(late)
            del self._ends[late]
        if received is None or place is None:
            return None
        message = received[1]
        return place, (message.error or "it ended") if isinstance(message, Finished) else message

    def drop_questions(self) -> None:
        """Cancel all queries that are still running."""
        self._workers.cancel_all()
        self._ends.clear()

    def end(self) -> None:
        self._pool.close()
