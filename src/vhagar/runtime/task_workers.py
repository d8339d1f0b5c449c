"""Workers that process a sequence of tasks, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from vhagar.runtime.pool import AbstractPool, Finished, Job

Key = TypeVar("Key")


class TaskWorkers(Generic[Key]):
    """Workers of a pool that process tasks; started on demand and reused.

    `job` receives tasks and answers each with messages, often just one; `is_last` recognises the
    last of them. The pool may have other workers: its reader passes the messages of these workers
    (`name in workers`) to `handle`.
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
        """The keys of the tasks in progress."""
        return list(self._busy.values())

    def __contains__(self, name: Any) -> bool:
        return name in self._busy or name in self._idle

    def submit(self, key: Key, task: Any) -> None:
        """Give a task to an idle worker, or to a new one; `key` identifies the task."""
        if not self._idle:
            self._started += 1
            self._idle.append(("tasks", self._started))
            self._pool.start(self._idle[-1], self._job)
        name = self._idle.pop()
        self._pool.tell(name, task)
        self._busy[name] = key

    def handle(self, name: Any, message: Any) -> Key | None:
        """Process a worker's message; return the key of its task, None if the worker had none.

        After the last message of its task, a worker is idle; after `Finished`, it is gone.
        """
        if isinstance(message, Finished):
            self._idle = [idle for idle in self._idle if idle != name]
            return self._busy.pop(name, None)
        if not self._is_last(message):
            return self._busy[name]
        self._idle.append(name)
        return self._busy.pop(name)

    def cancel(self, key: Key) -> None:
        """Stop a task by ending its worker, and drop its messages."""
        for name in [name for name, own in self._busy.items() if own == key]:
            del self._busy[name]
            self._pool.stop(name)

    def cancel_all(self) -> None:
        """Stop all tasks; keep idle workers."""
        for key in self.busy:
            self.cancel(key)

    def stop(self) -> None:
        """End all of these workers."""
        self.cancel_all()
        for name in self._idle:
            self._pool.stop(name)
        self._idle = []
