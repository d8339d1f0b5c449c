"""Workers that run jobs and exchange messages with the process that started them.

The interface is the same wherever the workers run: `processes.ProcessPool` starts them on this
machine, `ray_pool.RayPool` in a Ray cluster.
"""

from __future__ import annotations

import os
import queue
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from vhagar.runtime.cores import LIMIT


@dataclass(frozen=True, eq=False)
class Channel:
    """A worker's connection to the process that started it."""

    send: Callable[[Any], None]
    receive: Callable[[], Any]  # waits for the next message; EOFError if the parent is gone


# A module-level function and its first argument; the second is a `Channel`.
Job = tuple[Callable[[Any, Channel], None], Any]


@dataclass(frozen=True, eq=False)
class Finished:
    """A worker's last message; `error` describes what went wrong, if anything did."""

    error: str | None


# The error of a worker that was killed, or that exited in the middle of its job.
UNEXPECTED_END = "the worker ended unexpectedly"
# Seconds to wait for a message before the caller checks other things.
HEARTBEAT = 0.25


def worker_environment(cores: int | None = None) -> dict[str, str]:
    """The environment variables that a worker needs in addition to its parent's.

    `cores` limits what the worker and all that it starts may use.
    """
    # The package may be a checkout that is only on the parent's sys.path.
    source = str(Path(__file__).resolve().parents[2])
    paths = [source, os.environ.get("PYTHONPATH", "")]
    # One core each: linear algebra must not start threads.
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        **({} if cores is None else {LIMIT: str(cores)}),
    }


class AbstractWorker(ABC):
    """A running job."""

    @abstractmethod
    def tell(self, message: Any) -> None:
        """Send the worker a message, without ever blocking."""

    @abstractmethod
    def stop(self) -> None:
        """End the worker at once, whatever it is doing."""


@dataclass(frozen=True, eq=False)
class _Running:
    worker: AbstractWorker
    turn: int  # distinguishes successive workers of the same name


class AbstractPool(ABC):
    """Named workers, each of which runs one job. As a context manager, it stops them all at exit.

    Every worker's last message is one `Finished`, even if it was killed; the worker then leaves the
    pool. A worker that was stopped sends nothing more. In both cases its name may be used again.
    """

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[tuple[Any, int, Any]] = queue.SimpleQueue()
        self._running: dict[Any, _Running] = {}
        self._turns = 0

    @abstractmethod
    def _launch(self, job: Job, on_message: Callable[[Any], None]) -> AbstractWorker:
        """Start a worker. Any thread may call `on_message` with its messages, `Finished` last."""

    def start(self, name: Any, job: Job) -> None:
        """Start a worker under a name that no running worker has."""
        if name in self._running:
            raise ValueError(f"there is a worker {name!r} already")
        self._turns += 1
        turn = self._turns
        worker = self._launch(job, lambda message: self._inbox.put((name, turn, message)))
        self._running[name] = _Running(worker, turn)

    def __contains__(self, name: Any) -> bool:
        return name in self._running

    def __iter__(self) -> Iterator[Any]:
        """The names of the workers, which may be stopped during the iteration."""
        return iter(list(self._running))

    def __len__(self) -> int:
        return len(self._running)

    def tell(self, name: Any, message: Any) -> None:
        """Send a worker a message, without ever blocking."""
        self._running[name].worker.tell(message)

    def next_message(self, deadline: float, patience: float = HEARTBEAT) -> tuple[Any, Any] | None:
        """The next message with its worker's name; None at the deadline or after `patience`.

        The deadline is a time of `time.monotonic()`, `patience` a number of seconds.
        """
        until = min(deadline, time.monotonic() + patience)
        while True:
            try:
                name, turn, message = self._inbox.get(timeout=max(until - time.monotonic(), 0.0))
            except queue.Empty:
                return None
            if name not in self._running or self._running[name].turn != turn:
                continue  # sent before the worker was stopped
            if isinstance(message, Finished):
                self.stop(name)
            return name, message

    def stop(self, name: Any) -> None:
        """End a worker at once, if it is still there, and drop its messages."""
        running = self._running.pop(name, None)
        if running is not None:
            running.worker.stop()

    def close(self) -> None:
        """End all workers."""
        for name in self:
            self.stop(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
