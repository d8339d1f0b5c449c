"""Threads for numpy code, whose loops release the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


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
