"""The attack in its own process: its job and the messages that it receives and sends."""

from __future__ import annotations

import math
import pickle
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from vhagar.array_types import Array
from vhagar.attack.hints import Hints
from vhagar.attack.options import AttackOptions
from vhagar.attack.run import Suggestion, attack
from vhagar.problem import Problem
from vhagar.runtime.pool import Channel


@dataclass(frozen=True, eq=False)
class AttackJob:
    """What to attack, and for how many seconds; without a timeout, until the parent stops it.

    The time counts from the creation of the job, because a process takes a while to start.
    """

    problem: Problem
    options: AttackOptions = field(default_factory=AttackOptions)
    timeout: float | None = None
    dataset: Array | None = None
    created: float = field(default_factory=time.time)

    @property
    def left(self) -> float:
        """The remaining seconds; valid in any process."""
        if self.timeout is None:
            return math.inf
        return max(self.timeout - (time.time() - self.created), 0.0)


@dataclass(frozen=True)
class StopAttack:
    """Tells the attack to stop once it has had `work` seconds of processor time.

    Without any, it stops at once. On a busy machine, one that leaves by the clock has hardly begun.
    The latest message counts: with infinitely much work, it goes on as if it had never been told.
    """

    work: float = 0.0


@dataclass(frozen=True, eq=False)
class HintsFound:
    """For each attacked target, the signs on which most attacks agree: an attack's last message."""

    hints: Mapping[int | None, Hints]
    # As in the attack's result.
    completed: bool = False


def attack_in_worker(job: AttackJob, channel: Channel) -> None:
    """Attack in a worker: send an `AttackFound` for every improvement, and the hints at the end.

    The parent may send suggestions (see `attack`), one per message, or `StopAttack` at any time.
    """
    received: queue.SimpleQueue[Suggestion] = queue.SimpleQueue()
    begun, most_work = time.process_time(), math.inf

    def listen() -> None:
        nonlocal most_work
        try:
            while most_work > 0:
                message = channel.receive()
                if isinstance(message, StopAttack):
                    most_work = message.work
                else:
                    received.put(message)
        except (EOFError, OSError, pickle.UnpicklingError):
            most_work = 0.0  # the parent is gone

    threading.Thread(target=listen, daemon=True).start()
    found = attack(
        job.problem,
        timeout=job.left,
        options=job.options,
        dataset=job.dataset,
        on_attack=channel.send,
        should_stop=lambda: time.process_time() - begun >= most_work,
        suggestions=lambda: _drained(received),
    )
    channel.send(HintsFound(found.hints, found.completed))


def _drained(received: queue.SimpleQueue[Suggestion]) -> Iterator[Suggestion]:
    while not received.empty():
        yield received.get()
