"""Ray: each slot is an actor, a process in the cluster that stays alive from task to task.

An actor is killed to stop what it is doing. One that dies takes nothing with it: its problem is run
again, on a new one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vhagar.errors import InvalidInput
from vhagar.sweep.executor import AbstractExecutor, Improved, Lost, Message, Task
from vhagar.sweep.worker import TaskWorker

_CONNECT_SECONDS = 10.0
_NO_RAY = 'Ray is not installed; pip install "vhagar[ray]"'


class _Actor:
    """What runs in the cluster."""

    def __init__(self) -> None:
        self._bench = TaskWorker()

    def work(self, task: Task) -> Iterator[Message]:
        """Messages as they come: the search runs in a thread of its own beside this generator."""
        outbox: queue.SimpleQueue[Message | BaseException | None] = queue.SimpleQueue()

        def search() -> None:
            try:
                self._bench.work(task, outbox.put)
                outbox.put(None)
            except BaseException as error:
                outbox.put(error)

        threading.Thread(target=search, daemon=True).start()
        while (message := outbox.get()) is not None:
            if isinstance(message, BaseException):
                raise message
            yield message


class RayExecutor(AbstractExecutor):
    """Actors of a Ray cluster: the one at `address`, or a local one that is started for this."""

    def __init__(
        self, slots: int | None, address: str | None = None, cores: int = 1, gpus: float = 0.0
    ) -> None:
        self._ray = _import_ray()
        self._inbox: queue.SimpleQueue[tuple[int, Message]] = queue.SimpleQueue()
        self._idle: list[Any] = []
        self._busy: dict[int, tuple[int, Any]] = {}  # by problem: the turn, and the actor
        self._turn = 0
        self._ours = not self._ray.is_initialized()
        if self._ours:
            self._connect(address, gpus)
        self._slots = slots or self._room(cores, gpus)
        self._actor = self._ray.remote(_Actor).options(
            num_cpus=cores, num_gpus=gpus, max_restarts=0
        )

    def _connect(self, address: str | None, gpus: float) -> None:
        settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address is not None:
            _require_somebody_at(address)
            settings["address"] = address
        else:
            # The package may be a checkout on sys.path: local workers find it all the same.
            root = str(Path(__file__).resolve().parents[2])
            paths = [root, os.environ.get("PYTHONPATH", "")]
            variables = {
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
            }
            settings |= {"include_dashboard": False, "runtime_env": {"env_vars": variables}}
        try:
            self._ray.init(**settings)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InvalidInput(f"cannot reach the Ray cluster at {address}: {error}") from None

    def _room(self, cores: int, gpus: float) -> int:
        """How many tasks the cluster holds at a time."""
        found = self._ray.cluster_resources()
        room = int(found.get("CPU", 0) // cores)
        if gpus > 0:
            room = min(room, int(found.get("GPU", 0) // gpus))
        if room < 1:
            self.close()
            raise InvalidInput(
                f"no problem fits into the Ray cluster: each needs {cores} core(s) and {gpus:g} "
                f"GPU(s), and it has {found.get('CPU', 0):g} and {found.get('GPU', 0):g}"
            )
        return room

    @property
    def slots(self) -> int:
        return self._slots

    def submit(self, task: Task) -> None:
        assert len(self._busy) < self._slots
        actor = self._idle.pop() if self._idle else self._actor.remote()
        self._turn += 1
        self._busy[task.number] = (self._turn, actor)
        stream = actor.work.options(num_returns="streaming").remote(task)
        listener = threading.Thread(
            target=self._listen, args=(task.number, self._turn, stream), daemon=True
        )
        listener.start()

    def _listen(self, number: int, turn: int, stream: Any) -> None:
        """Pass on messages until the task ends, one way or another."""
        last: Message = Lost(number, "the worker ended without a word")
        try:
            for reference in stream:
                message: Message = self._ray.get(reference)
                if isinstance(message, Improved):
                    self._inbox.put((turn, message))
                else:
                    last = message
        except Exception as error:  # Ray has many, and each means that the worker is gone
            last = Lost(number, f"{type(error).__name__}: {str(error).splitlines()[0]}")
        self._inbox.put((turn, last))

    def next_message(self, seconds: float) -> Message | None:
        try:
            turn, message = self._inbox.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            return None
        known_turn, actor = self._busy.get(message.number, (None, None))
        if turn != known_turn:
            return None  # last words of a task that was cancelled
        if isinstance(message, Improved):
            return message
        del self._busy[message.number]
        if isinstance(message, Lost):
            self._kill(actor)
        else:
            self._idle.append(actor)
        return message

    def cancel(self, number: int) -> None:
        _, actor = self._busy.pop(number, (0, None))
        if actor is not None:
            self._kill(actor)

    def _kill(self, actor: Any) -> None:
        with contextlib.suppress(Exception):  # it may be gone already
            self._ray.kill(actor, no_restart=True)

    def close(self) -> None:
        for actor in [*self._idle, *(actor for _, actor in self._busy.values())]:
            self._kill(actor)
        self._idle, self._busy = [], {}
        if self._ours:
            self._ray.shutdown()


def _require_somebody_at(address: str) -> None:
    """Ray waits for minutes where nobody answers."""
    found = re.fullmatch(r"(?:ray://)?([^/:]+):(\d+)", address)
    if found is None:
        return  # a word such as "auto", which Ray knows
    try:
        socket.create_connection((found[1], int(found[2])), _CONNECT_SECONDS).close()
    except OSError as error:
        raise InvalidInput(
            f"no Ray cluster answers at {address} ({error}); check the address, or leave "
            "it out to start a local cluster"
        ) from None


def _import_ray() -> Any:
    # It asks to report usage to its makers, at every start: no.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise InvalidInput(_NO_RAY) from None
    return ray
