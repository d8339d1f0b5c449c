"""Local processes: each slot is a process of its own that stays alive from task to task."""

from __future__ import annotations

import queue
from typing import Any

from vhagar.runtime.pool import Finished
from vhagar.runtime.processes import Worker
from vhagar.sweep.executor import AbstractExecutor, Improved, Lost, Message, Task
from vhagar.sweep.worker import serve


class LocalExecutor(AbstractExecutor):
    """Processes on this machine."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._inbox: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
        self._idle: list[Worker] = []
        self._busy: dict[int, Worker] = {}
        self._started = 0

    @property
    def slots(self) -> int:
        return self._slots

    def submit(self, task: Task) -> None:
        assert len(self._busy) < self._slots
        worker = self._idle.pop() if self._idle else self._new_worker()
        self._busy[task.number] = worker
        worker.tell(task)

    def _new_worker(self) -> Worker:
        self._started += 1
        return Worker(self._started, (serve, None), self._inbox)

    def next_message(self, seconds: float) -> Message | None:
        try:
            name, message = self._inbox.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            return None
        number = self._task_of(name)
        if isinstance(message, Finished):
            self._idle = [worker for worker in self._idle if worker.name != name]
            if number is None:
                return None  # it had nothing to do, or was cancelled
            self._busy.pop(number).stop()
            return Lost(number, message.error or "the worker ended without a word")
        if number is None or message.number != number:
            return None  # last words of a task that was cancelled
        found: Message = message
        if not isinstance(found, Improved):
            self._idle.append(self._busy.pop(number))
        return found

    def _task_of(self, name: int) -> int | None:
        return next((k for k, worker in self._busy.items() if worker.name == name), None)

    def cancel(self, number: int) -> None:
        worker = self._busy.pop(number, None)
        if worker is not None:
            worker.stop()

    def close(self) -> None:
        for worker in [*self._busy.values(), *self._idle]:
            worker.stop()
        self._busy, self._idle = {}, []
