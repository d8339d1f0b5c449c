"""Signals become KeyboardInterrupt, once per wish."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from vhagar.cli import interrupts as module
from vhagar.cli.interrupts import interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_raise(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interrupts():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


def test_an_echo_is_ignored_and_a_second_wish_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    with interrupts():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        now[0] = 0.1
        os.kill(os.getpid(), signal.SIGINT)  # raises nothing
        now[0] = 5.0
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_other_threads_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def elsewhere() -> None:
        with interrupts():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [before]
