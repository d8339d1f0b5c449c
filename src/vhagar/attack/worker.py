"""The attack in a process of its own: what it is given, what it hears and what it sends."""

from __future__ import annotations

import math
import pickle
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vhagar.attack.hints import Hints
from vhagar.attack.options import AttackOptions
from vhagar.attack.run import Suggestion, attack
from vhagar.problem import Problem
from vhagar.runtime.pool import Channel


@dataclass(frozen=True, eq=False)
class AttackJob:
    """What to attack, and for how many seconds; without a limit, until the parent ends it.

    The seconds count from the making of the job: a process takes a while to start.
    """

    problem: Problem
    options: AttackOptions = field(default_factory=AttackOptions)
    timeout: float | None = None
    dataset: NDArray[np.float64] | None = None
    made: float = field(default_factory=time.time)

    @property
    def left(self) -> float:
        """How many seconds are left, in whichever process."""
        if self.timeout is None:
            return math.inf
        return max(self.timeout - (time.time() - self.made), 0.0)


@dataclass(frozen=True)
class Enough:
    """Tells the attack to end at once."""


@dataclass(frozen=True, eq=False)
class HintsFound:
    """For each goal that was attacked, what most of the attacks agree on."""

    hints: Mapping[int | None, Hints]


def attack_beside(job: AttackJob, channel: Channel) -> None:
    """Run in a worker: send an `AttackFound` with every improvement, and the hints at the end.

    The parent may send suggestions (see `attack`) at any time, one by one, or `Enough`.
    """
    heard: queue.SimpleQueue[Suggestion] = queue.SimpleQueue()
    over = threading.Event()

    def listen() -> None:
        try:
            while not isinstance(message := channel.receive(), Enough):
                heard.put(message)
        except (EOFError, OSError, pickle.UnpicklingError):
            pass  # nobody is left to tell
        over.set()

    threading.Thread(target=listen, daemon=True).start()
    found = attack(
        job.problem,
        timeout=job.left,
        options=job.options,
        dataset=job.dataset,
        on_attack=channel.send,
        should_stop=over.is_set,
        suggestions=lambda: _waiting(heard),
    )
    channel.send(HintsFound(found.hints))


def _waiting(heard: queue.SimpleQueue[Suggestion]) -> Iterator[Suggestion]:
    while not heard.empty():
        yield heard.get()
