"""Tasks for workers that serve one at a time, and wait for the next one in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from vhagar.runtime.pool import AbstractPool, Finished, Job

Key = TypeVar("Key")


class TaskWorkers(Generic[Key]):
    """Workers of a pool that are given tasks; started when they are needed, kept for the next task.

    `job` receives tasks and sends messages about each, the last of which `is_last` recognises; most
    jobs answer with one. The pool may have other workers: whoever reads its messages passes those
    of these workers (`name in workers`) to `hear`.
    """

    def __init__(
        self, pool: AbstractPool, job: Job, is_last: Callable[[Any], bool] = lambda message: True
    ) -> None:
        self._pool, self._job, self._is_last = pool, job, is_last
        self._started = 0
        self._idle: list[Any] = []
        self._busy: dict[Any, Key] = {}

    @property
    def busy(self) -> list[Key]:
        """The tasks that are being worked on."""
        return list(self._busy.values())

    def __contains__(self, name: Any) -> bool:
        return name in self._busy or name in self._idle

    def submit(self, key: Key, task: Any) -> None:
        """Give a task to a worker that has none; it is known by its key from then on."""
        if not self._idle:
            self._started += 1
            self._idle.append(("tasks", self._started))
            self._pool.start(self._idle[-1], self._job)
        name = self._idle.pop()
        self._pool.tell(name, task)
        self._busy[name] = key

    def hear(self, name: Any, message: Any) -> Key | None:
        """The task that a message of a worker is about; None if the worker had none.

        After the last message of a task its worker is free for the next; after `Finished` the
        worker is gone.
        """
        if isinstance(message, Finished):
            self._idle = [idle for idle in self._idle if idle != name]
            return self._busy.pop(name, None)
        if not self._is_last(message):
            return self._busy[name]
        self._idle.append(name)
        return self._busy.pop(name)

    def cancel(self, key: Key) -> None:
        """Stop a task by ending its worker; nothing is heard of it any more."""
        for name in [name for name, its_own in self._busy.items() if its_own == key]:
            del self._busy[name]
            self._pool.stop(name)

    def cancel_all(self) -> None:
        """Stop all tasks; idle workers stay."""
        for key in self.busy:
            self.cancel(key)

    def stop(self) -> None:
        """End all of these workers."""
        self.cancel_all()
        for name in self._idle:
            self._pool.stop(name)
        self._idle = []
