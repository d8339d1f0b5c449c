"""SIGINT (Ctrl-C) and SIGTERM both become KeyboardInterrupt, so that a run ends cleanly."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Seconds within which signals count as one: `timeout` and some job schedulers signal both the
# process and its group.
_REPEAT_WINDOW = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Interrupter:
    def __init__(self) -> None:
        self._last = float("-inf")

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        repeated, self._last = now - self._last < _REPEAT_WINDOW, now
        if not repeated:
            raise KeyboardInterrupt


@contextmanager
def interrupts() -> Iterator[None]:
    """While this lasts, SIGINT and SIGTERM raise KeyboardInterrupt in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    handler = _Interrupter()
    previous = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)
