"""Searches in processes of their own.

A worker is a fresh interpreter that reads one pickled job from its standard input and writes
pickled messages to its standard output. Unlike multiprocessing this never imports the caller's main
module, so scripts need no guard, and a worker can be ended at once whatever a solver is doing.
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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import vhagar

# A job: a module-level function and its first argument. It is called with a `send` besides.
Job = tuple[Callable[[Any, Callable[[Any], None]], None], Any]


@dataclass(frozen=True, eq=False)
class Finished:
    """A worker's last message. `error` says what went wrong, if anything did."""

    error: str | None


class Worker:
    """A running job. Its messages, tagged with its name, go to a shared queue."""

    def __init__(self, name: Any, job: Job, inbox: queue.Queue[tuple[Any, Any]]) -> None:
        self.name = name
        self._inbox = inbox
        # The package may be a checkout on sys.path: the worker finds it all the same.
        root = str(Path(vhagar.__file__).resolve().parent.parent)
        paths = [root, os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        # One core each: linear algebra must not start threads of its own.
        environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from vhagar.search.processes import work; work()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._reader = threading.Thread(target=self._serve, args=(job,), daemon=True)
        self._reader.start()

    def _serve(self, job: Job) -> None:
        """Hand over the job, then pass on messages until the worker ends."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        last: Any = Finished("the worker ended without a word")
        try:
            with self._process.stdin as pipe:
                pickle.dump(job, pipe)
            while True:
                message = pickle.load(self._process.stdout)
                if isinstance(message, Finished):
                    last = message
                    break
                self._inbox.put((self.name, message))
        except (EOFError, OSError, pickle.UnpicklingError):
            pass  # ended or killed: `last` says so
        self._inbox.put((self.name, last))

    def stop(self) -> None:
        """End the worker now."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()


def work() -> None:
    """The worker's side: one job in, messages out."""
    # Ctrl-C reaches the whole process group; the parent alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Solvers print; messages must not be mixed with that.
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(message: Any) -> None:
        pickle.dump(message, channel)
        channel.flush()

    error = None
    try:
        function, argument = pickle.load(sys.stdin.buffer)
        function(argument, send)
    except BrokenPipeError:
        os._exit(1)  # the parent is gone
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}"
    with contextlib.suppress(BrokenPipeError):
        send(Finished(error))
