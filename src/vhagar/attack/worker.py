"""The attack in a process of its own, beside a search that goes on meanwhile."""

from __future__ import annotations

import math
import pickle
import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

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


def attack_beside(job: AttackJob, channel: Channel) -> None:
    """What runs in the worker: an `Attack` goes out with every improvement.

    The parent may send suggestions (see `attack`) at any time, one by one.
    """
    heard: queue.SimpleQueue[Suggestion] = queue.SimpleQueue()
    gone = threading.Event()

    def listen() -> None:
        try:
            while True:
                heard.put(channel.receive())
        except (EOFError, OSError, pickle.UnpicklingError):
            gone.set()  # nobody is left to tell

    threading.Thread(target=listen, daemon=True).start()
    attack(
        job.problem,
        timeout=job.left,
        options=job.options,
        dataset=job.dataset,
        on_attack=channel.send,
        should_stop=gone.is_set,
        suggestions=lambda: _waiting(heard),
    )


def _waiting(heard: queue.SimpleQueue[Suggestion]) -> Iterator[Suggestion]:
    while not heard.empty():
        yield heard.get()
