"""Work on all cores from one process: numpy's loops let other threads run."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def in_threads(work: Callable[[int], None], count: int, threads: int) -> None:
    """`work(k)` for every k below `count`; the first error comes out."""
    if min(threads, count) <= 1:
        for k in range(count):
            work(k)
        return
    with ThreadPoolExecutor(min(threads, count)) as pool:
        try:
            for _ in pool.map(work, range(count)):
                pass
        except BaseException:  # also Ctrl-C: what has not begun must not begin any more
            pool.shutdown(cancel_futures=True)
            raise
