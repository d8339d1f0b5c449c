"""Worker processes on this machine.

A worker is a fresh interpreter that reads one pickled job from its standard input and writes
pickled messages to its standard output. Unlike multiprocessing, this never imports the caller's
main module, so scripts need no guard; and a worker can be killed at once, even inside a solver.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from vhagar.runtime.lean_imports import import_sparse
from vhagar.runtime.pool import (
    UNEXPECTED_END,
    AbstractPool,
    AbstractWorker,
    Channel,
    Finished,
    Job,
    worker_environment,
)


class ProcessPool(AbstractPool):
    """Workers that are processes on this machine, none of which outlives this one.

    `cores` limits what each of them may use, with the processes and threads that it starts.
    """

    def __init__(self, cores: int | None = None) -> None:
        super().__init__()
        self._cores = cores

    def _launch(self, job: Job, on_message: Callable[[Any], None]) -> AbstractWorker:
        return _Process(job, on_message, worker_environment(self._cores))


class _Process(AbstractWorker):
    """A worker process; two threads keep its pipes moving."""

    def __init__(
        self, job: Job, on_message: Callable[[Any], None], environment: dict[str, str]
    ) -> None:
        self._on_message = on_message
        with _sigint_blocked():
            self._process = subprocess.Popen(
                [sys.executable, "-c", "from vhagar.runtime.processes import work; work()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **environment},
            )
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.tell(job)
        self._threads = [
            threading.Thread(target=target, daemon=True) for target in (self._write, self._read)
        ]
        for thread in self._threads:
            thread.start()

    def tell(self, message: Any) -> None:
        # Pickled at once, because the message may change later, if only by a cached property.
        self._outbox.put(pickle.dumps(message))

    def _write(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError), self._process.stdin as pipe:
            while (message := self._outbox.get()) is not None:
                pipe.write(message)
                pipe.flush()

    def _read(self) -> None:
        """Pass on messages until the worker ends."""
        assert self._process.stdout is not None
        last = Finished(UNEXPECTED_END)
        try:
            while True:
                message = pickle.load(self._process.stdout)
                if isinstance(message, Finished):
                    last = message
                    break
                self._on_message(message)
        except (EOFError, OSError, pickle.UnpicklingError):
            pass  # the worker exited or was killed, which `last` reports
        except Exception as problem:  # no more messages can be read from this worker
            last = Finished(f"unreadable message: {type(problem).__name__}: {problem}")
        self._on_message(last)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._outbox.put(None)  # ends the writing thread
        for thread in self._threads:
            thread.join()
        if self._process.stdout is not None:
            self._process.stdout.close()


@contextlib.contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block SIGINT; a worker started inside inherits it, so that Ctrl-C cannot end its imports."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with(parent: int) -> None:
    """Exit when the parent is gone: a killed parent cannot stop its workers."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def work() -> None:
    """Run one job; the entry point of a worker process."""
    # Ctrl-C reaches the whole process group, but only the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    # Keep messages apart from what solvers print.
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(message: Any) -> None:
        pickle.dump(message, channel)
        channel.flush()

    error = None
    try:
        import_sparse()
        function, argument = pickle.load(sys.stdin.buffer)
        function(argument, Channel(send, lambda: pickle.load(sys.stdin.buffer)))
    except (BrokenPipeError, EOFError):
        os._exit(1)  # the parent is gone
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}"
    with contextlib.suppress(BrokenPipeError):
        send(Finished(error))
    # At once: a thread that waits for messages would be in the interpreter's way.
    sys.stderr.flush()
    os._exit(0)
