"""Workers in a Ray cluster, each of which is an actor with its own process.

A worker is stopped by killing its actor; nothing else depends on it. Jobs and messages travel as
bytes: arrays that Ray unpacks itself lie in its shared memory and cannot be written to, and some
libraries refuse those.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import queue
import re
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from vhagar.errors import InvalidInput
from vhagar.runtime.pool import (
    UNEXPECTED_END,
    AbstractPool,
    AbstractWorker,
    Channel,
    Finished,
    Job,
    worker_environment,
)

# Seconds to wait for a cluster's address to answer.
_CONNECT_SECONDS = 10.0
# Seconds to wait for the last message of a worker that was stopped.
_LAST_MESSAGE_SECONDS = 2.0
_NO_RAY = 'Ray is not installed; pip install "vhagar[ray]"'
# The concurrency group in which an actor receives messages, one by one, while its job runs.
_INBOX = "inbox"


class _Actor:
    """The worker's side, which runs in the cluster."""

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def tell(self, message: bytes) -> None:
        # The job's thread unpacks it: two threads that both import what it needs may fail.
        self._inbox.put(message)

    def run(self, job: bytes) -> Iterator[bytes]:
        """Run the job in a thread and yield its messages as they come."""
        outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def work() -> None:
            error = None
            try:
                function, argument = pickle.loads(job)
                function(argument, Channel(outbox.put, lambda: pickle.loads(self._inbox.get())))
            except Exception as problem:
                error = f"{type(problem).__name__}: {problem}"
            outbox.put(Finished(error))

        threading.Thread(target=work, daemon=True).start()
        while not isinstance(message := outbox.get(), Finished):
            yield pickle.dumps(message)
        yield pickle.dumps(message)


class RayPool(AbstractPool):
    """Actors of the Ray cluster at `address`, or of a new local one.

    Each worker takes `cores` cores and `gpus` GPUs of the cluster.
    """

    def __init__(self, address: str | None = None, cores: int = 1, gpus: float = 0.0) -> None:
        super().__init__()
        self._ray = _import_ray()
        self._cores, self._gpus = cores, gpus
        self._listeners: list[threading.Thread] = []
        self._ours = not self._ray.is_initialized()
        if self._ours:
            self._connect(address)
        self._actor = self._ray.remote(
            num_cpus=cores, num_gpus=gpus, max_restarts=0, concurrency_groups={_INBOX: 1}
        )(_Actor)

    def _connect(self, address: str | None) -> None:
        settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address is not None:
            _require_cluster_at(address)
            settings["address"] = address
        else:
            settings["include_dashboard"] = False
            settings["runtime_env"] = {"env_vars": worker_environment(self._cores)}
        try:
            with _quiet():
                self._ray.init(**settings)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InvalidInput(f"cannot reach the Ray cluster at {address}: {error}") from None

    def capacity(self) -> int:
        """How many workers the cluster can run at once; if none, close the pool and raise."""
        found = self._ray.cluster_resources()
        capacity = int(found.get("CPU", 0) // self._cores)
        if self._gpus > 0:
            capacity = min(capacity, int(found.get("GPU", 0) // self._gpus))
        if capacity < 1:
            self.close()
            raise InvalidInput(
                f"no problem fits into the Ray cluster: each needs {self._cores} core(s) and "
                f"{self._gpus:g} GPU(s), and it has {found.get('CPU', 0):g} and "
                f"{found.get('GPU', 0):g}"
            )
        return capacity

    def _launch(self, job: Job, on_message: Callable[[Any], None]) -> AbstractWorker:
        worker = _RayWorker(self._ray, self._actor.remote(), job, on_message)
        self._listeners.append(worker.listener)
        return worker

    def close(self) -> None:
        super().close()
        if self._ours:
            # A listener that asked for a message after the end would have Ray connect once more.
            for listener in self._listeners:
                listener.join(_LAST_MESSAGE_SECONDS)
            self._ray.shutdown()


class _RayWorker(AbstractWorker):
    """An actor with its job; a thread receives its messages."""

    def __init__(self, ray: Any, actor: Any, job: Job, on_message: Callable[[Any], None]) -> None:
        self._ray, self._actor, self._on_message = ray, actor, on_message
        packed = ray.cloudpickle.dumps(job)
        stream = actor.run.options(num_returns="streaming").remote(packed)
        self.listener = threading.Thread(target=self._listen, args=(stream,), daemon=True)
        self.listener.start()

    def _listen(self, stream: Any) -> None:
        """Pass on messages until the worker ends, for whatever reason."""
        last = Finished(UNEXPECTED_END)
        try:
            for reference in stream:
                message = pickle.loads(self._ray.get(reference))
                if isinstance(message, Finished):
                    last = message
                else:
                    self._on_message(message)
        except Exception as error:  # Ray raises many kinds; all mean that the worker is gone
            last = Finished(f"{type(error).__name__}: {str(error).splitlines()[0]}")
        self._on_message(last)

    def tell(self, message: Any) -> None:
        self._actor.tell.options(concurrency_group=_INBOX).remote(pickle.dumps(message))

    def stop(self) -> None:
        with contextlib.suppress(Exception):  # the actor may be gone already
            self._ray.kill(self._actor, no_restart=True)


def _require_cluster_at(address: str) -> None:
    """Raise an error at once if nothing answers at the address; Ray would wait for minutes."""
    found = re.fullmatch(r"(?:ray://)?([^/:]+):(\d+)", address)
    if found is None:
        return  # a keyword of Ray's, such as "auto"
    try:
        socket.create_connection((found[1], int(found[2])), _CONNECT_SECONDS).close()
    except OSError as error:
        raise InvalidInput(
            f"no Ray cluster answers at {address} ({error}); check the address, or leave "
            "it out to start a local cluster"
        ) from None


def _import_ray() -> Any:
    # Otherwise Ray asks at every start whether it may report usage, and its processes write what
    # they note about themselves to the standard error, which may be piped.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        with _quiet():
            import ray
    except ImportError:
        raise InvalidInput(_NO_RAY) from None
    return ray


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without Ray's hints about its own future, its defaults and the machine's memory."""
    logger = logging.getLogger("ray")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(max(before, logging.ERROR))
