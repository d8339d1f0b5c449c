"""A pool without processes: what its workers say is written by the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vhagar.runtime.pool import AbstractPool, AbstractWorker, Job

# What a worker with a job says when it is told something, if anything.
Script = Callable[[Job, Any], Any]


class ScriptedPool(AbstractPool):
    """Workers that answer at once by a script; None is silence."""

    def __init__(self, script: Script = lambda job, message: None) -> None:
        super().__init__()
        self.stopped: list[Job] = []
        self._script = script

    def _launch(self, job: Job, on_message: Callable[[Any], None]) -> AbstractWorker:
        return _Scripted(job, on_message, self)

    def answer(self, job: Job, message: Any) -> Any:
        return self._script(job, message)


class _Scripted(AbstractWorker):
    def __init__(self, job: Job, on_message: Callable[[Any], None], pool: ScriptedPool) -> None:
        self._job, self._on_message, self._pool = job, on_message, pool

    def tell(self, message: Any) -> None:
        said = self._pool.answer(self._job, message)
        if said is not None:
            self._on_message(said)

    def stop(self) -> None:
        self._pool.stopped.append(self._job)
