"""The attack that supports the main MIP: when it runs, for how long, and what is used of it.

As published, it runs while bounds and dependencies are computed; its bound becomes a row of the
MIP, its hints a partial start. Either can be left out; without both there is no attack.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from vhagar.array_types import Array
from vhagar.attack.concurrent import AttackSchedule, ConcurrentAttack, attack_here
from vhagar.attack.hints import NO_HINT, Hints
from vhagar.attack.options import AttackOptions
from vhagar.dataset import attack_starts
from vhagar.result import Run
from vhagar.runtime.deadline import Deadline
from vhagar.runtime.pool import AbstractPool
from vhagar.search.mip.encoding import Encoding
from vhagar.search.mip.options import MipOptions
from vhagar.search.mip.preparation import UNPREPARED, Prepared

_SCHEDULE = AttackSchedule(share=0.5, most=60.0)
# Least time for the attack after preparation has ended: a share of the remaining time, or seconds.
_LEAST_SHARE, _LEAST_SECONDS = 0.02, 2.0
# How long to wait for its last words.
_GRACE = 3.0


def attack_first(run: Run, options: MipOptions, deadline: Deadline) -> Prepared:
    """A short, reproducible attack in this process, before anything else."""
    if not _wanted(run, options):
        return UNPREPARED
    own = run.options
    short = AttackOptions(
        inputs=32, steps=20, basins=1, patience=4, rounds=1, seed=own.seed, device=own.device
    )
    seconds = _SCHEDULE.seconds(deadline.left)
    dataset = attack_starts(run.options, run.original.domain)
    found = attack_here(run, short, seconds, dataset, _counts(options))
    return _prepared(run, options, found.hints)


class AttackPhase:
    """The attack in a worker of the pool while others prepare the main MIPs."""

    def __init__(
        self, run: Run, options: MipOptions, pool: AbstractPool, deadline: Deadline
    ) -> None:
        self._run, self._options = run, options
        self._attack: ConcurrentAttack | None = None
        now = time.monotonic()
        least = max(min(_LEAST_SHARE * deadline.left, _LEAST_SECONDS), 0.0)
        self._earliest_end = now + least
        if _wanted(run, options):
            own = AttackOptions(seed=run.options.seed, device=run.options.device)
            dataset = attack_starts(run.options, run.original.domain)
            counts = _counts(options)
            self._attack = ConcurrentAttack(run, pool, own, _SCHEDULE, deadline, dataset, counts)
            self._attack.join_when_due()

    @property
    def running(self) -> bool:
        return self._attack is not None and self._attack.running

    def handle(self, name: object, message: object) -> None:
        """Process a message of the pool if it is the attack's."""
        if self._attack is not None and name == self._attack.name:
            self._attack.handle(message)

    def finish(self) -> Prepared:
        """Wait for the attack to end; return what it found."""
        if self._attack is None:
            return _prepared(self._run, self._options, {})
        self._attack.finish(self._earliest_end, _GRACE)
        return _prepared(self._run, self._options, self._attack.hints)


def _wanted(run: Run, options: MipOptions) -> bool:
    return options.attacks and run.problem.perturbation is not None


def _counts(options: MipOptions) -> bool:
    """Whether attacks count as witnesses, or the attack runs only for its hints."""
    return "attack" not in options.without


def _prepared(run: Run, options: MipOptions, hints: Mapping[int | None, Hints]) -> Prepared:
    kept = {} if "hints" in options.without else dict(hints)
    return Prepared(lower=run.interval.lower, hints=kept)


def start_of(encoding: Encoding, hints: Hints) -> Array:
    """A partial start: hints as values of the booleans, NaN for all other columns."""
    start = np.full(len(encoding.arrays.column_lower), np.nan)
    for columns, signs in zip(
        encoding.active, zip(hints.first, hints.second, strict=True), strict=True
    ):
        # If the copies share a boolean, the second copy's hint wins.
        for active, sign in zip(columns, signs, strict=True):
            given = (active >= 0) & (sign != NO_HINT)
            start[active[given]] = sign[given]
    return start
