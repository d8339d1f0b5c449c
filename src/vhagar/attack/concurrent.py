"""The attack alongside a search: when it starts, how long it runs, and what it contributes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vhagar.array_types import Array
from vhagar.attack.attack_worker import AttackJob, HintsFound, StopAttack, attack_in_worker
from vhagar.attack.hints import Hints
from vhagar.attack.incumbents import AttackFound
from vhagar.attack.options import AttackOptions
from vhagar.attack.run import AttackResult, attack
from vhagar.result import Run
from vhagar.runtime.deadline import Deadline
from vhagar.runtime.pool import AbstractPool, Finished

# Largest share of the remaining time for the attack: its last finding must still arrive.
_LARGEST_SHARE = 0.9
# Whenever its findings have closed this share of the gap, the attack stays longer: by this share of
# the time that it has had.
_WORTH, _STAYS_ON = 0.01, 0.5
_NAME = "attack"


@dataclass(frozen=True)
class AttackSchedule:
    """When the attack starts and how long it runs, in seconds except for `share`."""

    share: float  # of the time that remains when the attack starts
    least: float = 0.0
    most: float = math.inf
    after: float = 0.0  # how long the search runs before the attack starts
    # The factor by which it runs longer at most, while there is no witness or one is improved.
    patience: float = 1.0

    def seconds(self, left: float) -> float:
        """How long the attack runs if `left` seconds (perhaps infinitely many) remain."""
        if left == math.inf:
            return self.most if self.most < math.inf else self.least
        wanted = min(max(self.share * left, self.least), self.most)
        return max(min(wanted, _LARGEST_SHARE * left), 0.0)

    def longest(self, left: float) -> float:
        """How long it runs at most."""
        return min(self.patience * self.seconds(left), max(_LARGEST_SHARE * left, 0.0))


class ConcurrentAttack:
    """The attack in a worker of a search's pool.

    The search passes the worker's messages to `handle` and may suggest its own incumbents. Attacks
    are offered to the run's interval unless `offers` is false. A lower bound of no more than
    `first`, the first attack's, is no reason to end early.
    """

    name = _NAME

    def __init__(
        self,
        run: Run,
        pool: AbstractPool,
        options: AttackOptions,
        schedule: AttackSchedule,
        deadline: Deadline,
        dataset: Array | None = None,
        offers: bool = True,
        first: float = 0.0,
    ) -> None:
        self._first = first
        self._run, self._pool = run, pool
        self._options, self._schedule, self._deadline = options, schedule, deadline
        self._dataset, self._offers = dataset, offers
        self._joins: float | None = time.monotonic() + schedule.after
        # How long it runs, when it has had its time, and whether it was told so. From the first
        # better witness on it has at least half of its time.
        self._seconds, self._ends, self._told = 0.0, math.inf, False
        # When it began, and by how much it has raised the lower bound since it last stayed longer.
        self._begun, self._gained = math.inf, 0.0
        self.hints: dict[int | None, Hints] = {}

    @property
    def running(self) -> bool:
        return self.name in self._pool

    def join_when_due(self) -> None:
        """Start the attack once its time has come, so that short searches do without it.

        Call it again and again: it also ends an attack that has had its time and found something,
        unless what it found has become better lately, or it had less of a processor than that.
        """
        now = time.monotonic()
        if not self._run.interval.lower > self._first:
            self._ends = max(self._ends, now + self._seconds / 2)
        elif now >= self._ends:
            self._ends = math.inf
            if self.running:
                self._told = True
                self._pool.tell(self.name, StopAttack(self._seconds))
        if self._joins is None or now < self._joins:
            return
        self._joins = None
        left = self._deadline.left
        seconds, longest = self._schedule.seconds(left), self._schedule.longest(left)
        self._begun, self._seconds, self._ends = now, seconds, now + seconds
        job = AttackJob(self._run.original, self._options, longest, self._dataset)
        self._pool.start(self.name, (attack_in_worker, job))

    def suggest(self, target: int | None, piece_index: int, x: Array, parameters: Array) -> None:
        """Give the attack a witness that the search found, to start from."""
        if self.running:
            self._pool.tell(self.name, (target, piece_index, x, parameters))

    def handle(self, message: Any) -> None:
        """Process a message from the attack."""
        if isinstance(message, AttackFound) and self._offers:
            before = self._run.interval.lower
            offer(self._run, message)
            self._stay_on(self._run.interval.lower - before)
        elif isinstance(message, HintsFound):
            self.hints = dict(message.hints)
        elif isinstance(message, Finished) and message.error is not None:
            self._run.note(f"the attack ended early: {message.error}")

    def _stay_on(self, gain: float) -> None:
        """Have the attack stay longer once its findings have closed enough of the gap."""
        self._gained += gain
        interval, now = self._run.interval, time.monotonic()
        if self._gained >= _WORTH * (interval.upper - interval.lower + self._gained):
            self._gained, stays = 0.0, now + _STAYS_ON * (now - self._begun)
            if self._told and self.running:
                # It shares the cores, so that it still has work left when it has had its time.
                self._told, self._ends = False, stays
                self._pool.tell(self.name, StopAttack(math.inf))
            self._ends = max(self._ends, stays)

    def finish(self, until: float, grace: float, patiently: bool = False) -> None:
        """Wait for the attack; at the time `until`, ask it to end.

        It is stopped if it has not ended `grace` seconds after that, and unsent attacks are lost.
        Who waits `patiently` has nothing else to do: an attack whose findings close the gap stays
        on, as it would beside a search, before the deadline.
        """
        told = False
        while self.running and not self._run.interval.closed:
            if patiently and not told:
                until = max(until, min(self._ends, self._deadline.at - grace))
            if time.monotonic() >= until and told:
                break
            if time.monotonic() >= until:
                told, until = True, time.monotonic() + grace
                self._told = False  # this time for good
                self._pool.tell(self.name, StopAttack())
            received = self._pool.next_message(until)
            if received is None:
                self._run.report()
            elif received[0] == self.name:
                self.handle(received[1])
        self.stop()

    def stop(self) -> None:
        self._pool.stop(self.name)


def messages(run: Run, pool: AbstractPool, deadline: Deadline) -> Iterator[tuple[Any, Any]]:
    """The messages of all workers, until none is left, the interval is closed or time is up."""
    while len(pool) and not run.interval.closed and not deadline.passed:
        received = pool.next_message(deadline.at)
        if received is None:
            run.report()
        else:
            yield received


def attack_here(
    run: Run,
    options: AttackOptions,
    seconds: float | None,
    dataset: Array | None = None,
    offers: bool = True,
) -> AttackResult:
    """Run the attack in this process and wait for it."""
    return attack(
        run.original,
        timeout=seconds,
        options=options,
        dataset=dataset,
        on_attack=(lambda found: offer(run, found)) if offers else None,
        should_stop=lambda: run.interval.closed,
    )


def offer(run: Run, found: AttackFound) -> None:
    """Offer an attack to the run's interval, which checks it again."""
    run.interval.offer_witness(found.target, found.x, found.piece_index, found.parameters)
