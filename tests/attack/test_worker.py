"""The attack in a process of its own."""

from __future__ import annotations

import queue
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vhagar import Problem
from vhagar.attack import Attack, AttackOptions
from vhagar.attack.worker import AttackJob, attack_beside
from vhagar.runtime.pool import Channel, Finished
from vhagar.runtime.processes import Worker

_SMALL = AttackOptions(inputs=16, steps=20, patience=5, rounds=1, device="cpu")


@pytest.mark.subprocess
def test_improvements_come_back_from_the_process(corner: Problem) -> None:
    inbox: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
    worker = Worker("attack", (attack_beside, AttackJob(corner, _SMALL)), inbox)
    messages = []
    try:
        while not messages or not isinstance(messages[-1], Finished):
            messages.append(inbox.get(timeout=60)[1])
    finally:
        worker.stop()
    *attacks, last = messages
    assert last.error is None
    assert all(isinstance(one, Attack) for one in attacks)
    assert 4.0 - 1e-4 <= attacks[-1].confidence <= 4.0


def test_it_ends_with_its_parent(corner: Problem) -> None:
    def gone() -> Any:
        raise EOFError

    attack_beside(AttackJob(corner, replace(_SMALL, rounds=None)), Channel(lambda _: None, gone))


def test_suggestions_are_heard(corner: Problem) -> None:
    best = np.full(16, 0.4999)
    best[0] = 1.0
    messages: list[Any] = [(1, 0, best, np.zeros(0))]
    taken = threading.Event()

    def receive() -> Any:
        if messages:
            return messages.pop()
        assert taken.wait(timeout=60)
        raise EOFError

    def send(attack: Attack) -> None:
        if abs(attack.confidence - 3.9996) < 1e-4:
            taken.set()

    # An attack that finds nothing of the kind by itself.
    alone = replace(_SMALL, rounds=None, step=1e-9, climb=False, polish=False, regions=False)
    attack_beside(AttackJob(corner, alone), Channel(send, receive))
    assert taken.is_set()
