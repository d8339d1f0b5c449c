"""The executor of a sweep: runs several problems at a time, on this machine or in a cluster."""

from __future__ import annotations

import math
from collections.abc import Callable

from vhagar.errors import InvalidInput
from vhagar.runtime.pool import UNEXPECTED_END, AbstractPool, Finished
from vhagar.runtime.processes import ProcessPool
from vhagar.runtime.task_workers import TaskWorkers
from vhagar.sweep.messages import Improved, Lost, Message, ProblemTask
from vhagar.sweep.problem_worker import serve
from vhagar.sweep.settings import Settings


class Executor:
    """Runs tasks in the workers of a pool, `slots` at a time; workers stay alive between tasks.

    Every submitted task ends with exactly one `Completed`, `Failed` or `Lost`, unless it is
    cancelled: then no more messages about it arrive.
    """

    def __init__(self, pool: AbstractPool, slots: int) -> None:
        self.slots = slots
        self._pool = pool
        self._workers: TaskWorkers[int] = TaskWorkers(
            pool, (serve, None), lambda message: not isinstance(message, Improved)
        )

    def submit(self, task: ProblemTask) -> None:
        """Start a task. There must be a free slot."""
        assert len(self._workers.busy) < self.slots
        self._workers.submit(task.number, task)

    def next_message(self, seconds: float) -> Message | None:
        """The next message about a task; None if there is none within `seconds`."""
        while (received := self._pool.next_message(math.inf, seconds)) is not None:
            message, number = received[1], self._workers.handle(*received)
            if not isinstance(message, Finished):
                found: Message = message
                return found
            if number is not None:  # else an idle worker was lost
                return Lost(number, message.error or UNEXPECTED_END)
        return None

    def cancel(self, number: int) -> None:
        """Stop a task at once, whatever its worker is doing."""
        self._workers.cancel(number)

    def close(self) -> None:
        """Stop everything and leave no process behind."""
        self._pool.close()


def _ray(settings: Settings) -> Executor:
    from vhagar.runtime.ray_pool import RayPool

    pool = RayPool(settings.address, settings.workers, settings.gpus)
    return Executor(pool, settings.jobs or pool.capacity())


# A new executor takes one more line here.
EXECUTORS: dict[str, Callable[[Settings], Executor]] = {
    "local": lambda settings: Executor(ProcessPool(settings.workers), settings.job_count),
    "ray": _ray,
}


def executor_for(settings: Settings) -> Executor:
    """The executor that the settings name."""
    if settings.executor not in EXECUTORS:
        known = ", ".join(EXECUTORS)
        raise InvalidInput(f"unknown executor {settings.executor!r}; choose one of: {known}")
    return EXECUTORS[settings.executor](settings)
