"""Workers that run jobs and exchange messages with the process that started them.

There is one interface, wherever the workers run: `processes.ProcessPool` starts them on this
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


@dataclass(frozen=True, eq=False)
class Channel:
    """A worker's connection to the process that started it."""

    send: Callable[[Any], None]
    receive: Callable[[], Any]  # waits for the next message; EOFError when nobody is left


# A module-level function and its first argument. It is called with a `Channel` besides.
Job = tuple[Callable[[Any, Channel], None], Any]


@dataclass(frozen=True, eq=False)
class Finished:
    """A worker's last message. `error` says what went wrong, if anything did."""

    error: str | None


# What is said of a worker that was killed, or ended by itself in the middle of its job.
WITHOUT_A_WORD = "the worker ended without a word"
# How long to wait for a message before looking around, in seconds.
HEARTBEAT = 0.25


def worker_environment() -> dict[str, str]:
    """The environment variables that a worker needs besides its parent's."""
    # The package may be a checkout on sys.path: the worker finds it all the same.
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, os.environ.get("PYTHONPATH", "")]
    # One core each: linear algebra must not start threads of its own.
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


class AbstractWorker(ABC):
    """A running job."""

    @abstractmethod
    def tell(self, message: Any) -> None:
        """Send the worker a message. Never blocks, however busy the worker is."""

    @abstractmethod
    def stop(self) -> None:
        """End the worker now, whatever it is doing."""


@dataclass(frozen=True, eq=False)
class _Running:
    worker: AbstractWorker
    turn: int  # tells workers of the same name apart


class AbstractPool(ABC):
    """Named workers, each of which runs one job. As a context manager it leaves none behind.

    The last message of every worker is one `Finished`, also if the worker was killed; the worker
    is then no longer in the pool. Nothing is heard of a worker that was stopped. In both cases its
    name may be used again.
    """

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[tuple[Any, int, Any]] = queue.SimpleQueue()
        self._running: dict[Any, _Running] = {}
        self._turns = 0

    @abstractmethod
    def _launch(self, job: Job, hear: Callable[[Any], None]) -> AbstractWorker:
        """Start a worker; `hear` is called with its messages, `Finished` last, from any thread."""

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
        """The names of the workers, which may be stopped meanwhile."""
        return iter(list(self._running))

    def __len__(self) -> int:
        return len(self._running)

    def tell(self, name: Any, message: Any) -> None:
        """Send a worker a message. Never blocks, however busy the worker is."""
        self._running[name].worker.tell(message)

    def next_message(self, deadline: float, patience: float = HEARTBEAT) -> tuple[Any, Any] | None:
        """A worker's name and its message; None at the deadline or when patience has run out.

        The deadline is a moment of `time.monotonic()`, patience is in seconds.
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
        """End a worker now, if it is still there; nothing is heard of it any more."""
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
