"""The attack beside a search: when it joins, how long it stays, and what it contributes."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.attack.hints import Hints
from vhagar.attack.keeper import AttackFound
from vhagar.attack.options import AttackOptions
from vhagar.attack.run import AttackResult, attack
from vhagar.attack.worker import AttackJob, Enough, HintsFound, attack_beside
from vhagar.result import Run
from vhagar.runtime.pool import AbstractPool, Finished

Array = NDArray[np.float64]

# The attack never takes more of the time that is left: what it finds last must still arrive.
_LARGEST_SHARE = 0.9
_NAME = "attack"


@dataclass(frozen=True)
class Stay:
    """When the attack joins a search and how long it stays: seconds, except for `share`."""

    share: float  # of the time that is left when it joins
    least: float = 0.0
    most: float = math.inf
    after: float = 0.0  # it joins when the search has taken so long

    def seconds(self, left: float) -> float:
        """How long it stays when so many seconds are left, which may be infinitely many."""
        if left == math.inf:
            return self.most if self.most < math.inf else self.least
        wanted = min(max(self.share * left, self.least), self.most)
        return max(min(wanted, _LARGEST_SHARE * left), 0.0)


class AttackBeside:
    """The attack in a worker of a search's pool.

    The search passes on the worker's messages (`hear`) and may suggest incumbents of its own.
    Unless `offers` is false, what the attack finds is offered to the run's interval.
    """

    name = _NAME

    def __init__(
        self,
        run: Run,
        pool: AbstractPool,
        options: AttackOptions,
        stay: Stay,
        deadline: float,
        dataset: Array | None = None,
        offers: bool = True,
    ) -> None:
        self._run, self._pool = run, pool
        self._options, self._stay, self._deadline = options, stay, deadline
        self._dataset, self._offers = dataset, offers
        self._joins: float | None = time.monotonic() + stay.after
        self.hints: dict[int | None, Hints] = {}

    @property
    def running(self) -> bool:
        return self.name in self._pool

    def join_when_due(self) -> None:
        """Start the attack, once: problems that end before it could help are spared."""
        now = time.monotonic()
        if self._joins is None or now < self._joins:
            return
        self._joins = None
        seconds = self._stay.seconds(self._deadline - now)
        job = AttackJob(self._run.original, self._options, seconds, self._dataset)
        self._pool.start(self.name, (attack_beside, job))

    def suggest(self, target: int | None, root: int, x: Array, parameters: Array) -> None:
        """Tell the attack of a witness that the search found, to go on from."""
        if self.running:
            self._pool.tell(self.name, (target, root, x, parameters))

    def hear(self, message: Any) -> None:
        """Take a message of the attack."""
        if isinstance(message, AttackFound) and self._offers:
            offer(self._run, message)
        elif isinstance(message, HintsFound):
            self.hints = dict(message.hints)
        elif isinstance(message, Finished) and message.error is not None:
            self._run.note(f"the attack ended early: {message.error}")

    def finish(self, until: float, last_words: float) -> None:
        """Wait for the attack to end, which is told to do so at a moment.

        So many seconds later it is stopped, and what it was about to say is lost.
        """
        told = False
        while self.running and not self._run.interval.closed:
            if time.monotonic() >= until and told:
                break
            if time.monotonic() >= until:
                told, until = True, time.monotonic() + last_words
                self._pool.tell(self.name, Enough())
            heard = self._pool.next_message(until)
            if heard is None:
                self._run.report()
            elif heard[0] == self.name:
                self.hear(heard[1])
        self.stop()

    def stop(self) -> None:
        self._pool.stop(self.name)


def attack_here(
    run: Run,
    options: AttackOptions,
    seconds: float | None,
    dataset: Array | None = None,
    offers: bool = True,
) -> AttackResult:
    """The attack in this process, while nothing else is done."""
    return attack(
        run.original,
        timeout=seconds,
        options=options,
        dataset=dataset,
        on_attack=(lambda found: offer(run, found)) if offers else None,
        should_stop=lambda: run.interval.closed,
    )


def offer(run: Run, found: AttackFound) -> None:
    """Offer what an attack has found to the run's interval, which checks it again."""
    run.interval.offer_witness(found.target, found.x, found.root, found.parameters)
