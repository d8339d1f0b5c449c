"""Threads for numpy code, whose loops release the interpreter lock."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, TypeVar

import numpy as np

Result = TypeVar("Result")
# Threads of abandoned work.
_abandoned: list[Thread] = []
# Seconds between two calls of `meanwhile`.
_BETWEEN = 0.05


def in_threads(work: Callable[[int], None], count: int, threads: int) -> None:
    """Call `work(k)` for every k below `count`; raise the first error."""
    if min(threads, count) <= 1:
        for k in range(count):
            work(k)
        return
    with ThreadPoolExecutor(min(threads, count)) as pool:
        try:
            for _ in pool.map(work, range(count)):
                pass
        except BaseException:  # including Ctrl-C: start no more calls
            pool.shutdown(cancel_futures=True)
            raise


def one_blas_thread() -> AbstractContextManager[None]:
    """Inside, matrix products and factorisations are computed by one thread."""
    return blas_threads(1)


@contextmanager
def blas_threads(most: int) -> Iterator[None]:
    """Have matrix products and factorisations computed by at most so many threads.

    As far as the libraries of numpy and scipy can be told. Threads that share small products mostly
    wait for each other; where other processes are busy, they wait for those.
    """
    libraries = _openblas()
    before = [get() for get, _ in libraries]
    for (_, put), count in zip(libraries, before, strict=True):
        put(min(most, count))
    try:
        yield
    finally:
        for (_, put), count in zip(libraries, before, strict=True):
            put(count)


def _openblas() -> list[tuple[Any, Any]]:
    """Functions that get and set the number of threads of each OpenBLAS.

    The packages of numpy and scipy bring one each, with names of its own.
    """
    found, packages = [], Path(np.__file__).parent.parent
    for folder, ending in (("numpy.libs", "64_"), ("scipy.libs", "")):
        for file in sorted((packages / folder).glob("libscipy_openblas*")):
            try:
                library = ctypes.CDLL(str(file))
                names = (f"scipy_openblas_{verb}_num_threads{ending}" for verb in ("get", "set"))
                get, put = (getattr(library, name) for name in names)
            except (OSError, AttributeError):
                continue  # another build of it: it keeps its threads
            found.append((get, put))
    return found


def in_background(
    work: Callable[[], Result],
    meanwhile: Callable[[], bool | None],
    stopped: Event,
    is_over: Callable[[], bool] = lambda: False,
) -> Result | None:
    """Run `work` in a thread and return its result; call `meanwhile` in this thread now and then.

    `meanwhile` is called again at once if it returns True, because there is more to do. If it
    raises an error, Ctrl-C included, or if `is_over()`, `stopped` is set so that the work soon
    ends, and the work is abandoned: there is no result.
    """
    outcome: SimpleQueue[Result | BaseException] = SimpleQueue()
    ended = Event()

    def run() -> None:
        try:
            outcome.put(work())
        except BaseException as error:  # whatever it is: the other thread waits for it
            outcome.put(error)
        ended.set()

    thread = Thread(target=run, daemon=True)
    thread.start()
    busy = False
    try:
        while not ended.wait(0.0 if busy else _BETWEEN) and not is_over():
            busy = meanwhile() is True
    except BaseException:
        stopped.set()
        _abandoned.append(thread)
        raise
    if outcome.empty():
        stopped.set()
        _abandoned.append(thread)
        return None
    found = outcome.get()
    if isinstance(found, BaseException):
        raise found
    return found


def import_beside(*names: str) -> None:
    """Import modules in a thread of their own, for code that will need them later.

    Code that imports them meanwhile waits; an import that fails here fails there again.
    """

    def run() -> None:
        with suppress(Exception):
            for name in names:
                importlib.import_module(name)

    thread = Thread(target=run, daemon=True)
    _abandoned.append(thread)
    thread.start()


def has_abandoned_work() -> bool:
    """Whether abandoned work is still running.

    An interpreter that ends meanwhile may crash: native code of such a thread is cut off in the
    middle.
    """
    return any(thread.is_alive() for thread in _abandoned)
