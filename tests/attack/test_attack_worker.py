"""The attack in a process of its own."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vhagar import Problem
from vhagar.attack.attack_worker import AttackJob, HintsFound, StopAttack, attack_in_worker
from vhagar.attack.incumbents import AttackFound
from vhagar.attack.options import AttackOptions
from vhagar.runtime.pool import Channel
from vhagar.runtime.processes import ProcessPool

_SMALL = AttackOptions(inputs=16, steps=20, patience=5, rounds=1, device="cpu")


@pytest.mark.subprocess
def test_improvements_come_back_from_the_process(corner: Problem) -> None:
    messages: list[Any] = []
    with ProcessPool() as pool:
        pool.start("attack", (attack_in_worker, AttackJob(corner, _SMALL)))
        while len(pool):
            heard = pool.next_message(math.inf, 60)
            assert heard is not None
            messages.append(heard[1])
    *attacks, hints, last = messages
    assert last.error is None
    assert isinstance(hints, HintsFound)
    assert all(isinstance(one, AttackFound) for one in attacks)
    assert 4.0 - 1e-4 <= attacks[-1].confidence <= 4.0


def test_it_ends_when_it_is_told(corner: Problem) -> None:
    sent: list[Any] = []
    attack_in_worker(
        AttackJob(corner, replace(_SMALL, rounds=None)), Channel(sent.append, StopAttack)
    )
    assert isinstance(sent[-1], HintsFound)


def test_it_ends_once_it_has_had_its_share_of_a_processor(corner: Problem) -> None:
    """However long that takes by the clock."""
    messages: list[Any] = [StopAttack(0.5)]
    over = threading.Event()

    def receive() -> Any:
        if messages:
            return messages.pop()
        over.wait()
        raise EOFError

    begun = time.process_time()
    attack_in_worker(
        AttackJob(corner, replace(_SMALL, rounds=None)), Channel(lambda message: None, receive)
    )
    assert 0.5 <= time.process_time() - begun < 20.0
    over.set()


def test_it_ends_with_its_parent(corner: Problem) -> None:
    def gone() -> Any:
        raise EOFError

    sent: list[Any] = []
    attack_in_worker(AttackJob(corner, replace(_SMALL, rounds=None)), Channel(sent.append, gone))
    # It would go on for ever; its last words are those of an attack that was stopped.
    assert isinstance(sent[-1], HintsFound)
    assert sum(isinstance(message, HintsFound) for message in sent) == 1


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

    def send(attack: Any) -> None:
        if isinstance(attack, AttackFound) and abs(attack.confidence - 3.9996) < 1e-4:
            taken.set()

    # An attack that finds nothing of the kind by itself.
    alone = replace(_SMALL, rounds=None, step=1e-9, starts=False, polish=False, regions=False)
    attack_in_worker(AttackJob(corner, alone), Channel(send, receive))
    assert taken.is_set()
