"""SIGINT (Ctrl-C) and SIGTERM both become KeyboardInterrupt, so that a run ends cleanly.

Not in the middle of an import, however: modules in C have been seen to crash then.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Seconds within which signals count as one: `timeout` and some job schedulers signal both the
# process and its group.
_REPEAT_WINDOW = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Seconds until the next attempt, if an import was in progress.
_POSTPONED = 0.02
_IMPORTING = "<frozen importlib._bootstrap>"


class _Interrupter:
    def __init__(self) -> None:
        self._last = float("-inf")

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        repeated, self._last = now - self._last < _REPEAT_WINDOW, now
        if not repeated:
            self.interrupt(number, frame)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        if sys.platform != "win32" and _is_importing(frame):
            signal.setitimer(signal.ITIMER_REAL, _POSTPONED)
            return
        raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            return True
        frame = frame.f_back
    return False


@contextmanager
def interrupts() -> Iterator[None]:
    """While this lasts, SIGINT and SIGTERM raise KeyboardInterrupt in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    handler = _Interrupter()
    previous = {number: signal.signal(number, handler) for number in _SIGNALS}
    if sys.platform != "win32":
        previous[signal.SIGALRM] = signal.signal(signal.SIGALRM, handler.interrupt)
    try:
        yield
    finally:
        if sys.platform != "win32":
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, old in previous.items():
            signal.signal(number, old)
