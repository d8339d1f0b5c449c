"""Processes that ask Marabou. One that does not answer in time is ended; others go on."""

from __future__ import annotations

import itertools
import queue
import time
from dataclasses import dataclass
from typing import Any

from vhagar.baseline.solver import Answer, Task, serve
from vhagar.reduction import Reduced
from vhagar.runtime.pool import Finished
from vhagar.runtime.processes import Worker, next_message

# What a question is about, besides delta: a target, and the place of a piece.
Place = tuple[int, int]


@dataclass(frozen=True, eq=False)
class _Busy:
    worker: Worker
    place: Place
    end: float


class MarabouPool:
    """Workers with a question each, and workers that wait for the next one."""

    def __init__(self, reduced: Reduced) -> None:
        self._reduced = reduced
        self._inbox: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._names = itertools.count()
        self._idle: list[Worker] = []
        self._busy: dict[int, _Busy] = {}

    @property
    def busy(self) -> int:
        """How many questions wait for an answer."""
        return len(self._busy)

    def ask(self, place: Place, delta: float, threads: int, end: float) -> None:
        """Give a question to a worker, which has until `end` (by `time.monotonic()`)."""
        worker = self._idle.pop() if self._idle else self._hired()
        worker.tell(Task(place[1], place[0], delta, threads, end - time.monotonic()))
        self._busy[worker.name] = _Busy(worker, place, end)

    def hear(self) -> tuple[Place, Answer | str] | None:
        """An answer, or what went wrong; None after a moment of silence."""
        try:
            heard = next_message(self._inbox, min(busy.end for busy in self._busy.values()))
            if heard is None or heard[0] not in self._busy:
                return None
            busy = self._busy.pop(heard[0])
            if isinstance(heard[1], Finished):
                busy.worker.stop()
                return busy.place, heard[1].error or "it ended"
            self._idle.append(busy.worker)
            return busy.place, heard[1]
        finally:
            late = [name for name, busy in self._busy.items() if time.monotonic() >= busy.end]
            for name in late:
                self._busy.pop(name).worker.stop()

    def drop_questions(self) -> None:
        """Nobody is interested in the other answers any more."""
        for busy in self._busy.values():
            busy.worker.stop()
        self._busy.clear()

    def end(self) -> None:
        self.drop_questions()
        for worker in self._idle:
            worker.stop()
        self._idle.clear()

    def _hired(self) -> Worker:
        return Worker(next(self._names), (serve, self._reduced), self._inbox)
