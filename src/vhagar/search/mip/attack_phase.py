"""The attack that comes with the main MIP: when it runs, for how long, and what is kept of it.

As published, it runs while bounds and dependencies are computed. Its bound and its hints can be
left out; without both there is no attack.
"""

from __future__ import annotations

import queue
import time
from typing import TYPE_CHECKING, Any

from vhagar.dataset import named_dataset
from vhagar.result import Run
from vhagar.runtime.pool import Finished
from vhagar.runtime.processes import Worker, next_message
from vhagar.search.mip.preparation import UNPREPARED, Prepared

if TYPE_CHECKING:
    from vhagar.attack.keeper import Attack
    from vhagar.attack.worker import AttackJob

# It goes on for this part of the time that is left, or so many seconds, even if nothing else is to
# be prepared any more; and no longer than the other part, in seconds at most.
_LEAST_SHARE, _LEAST_SECONDS = 0.02, 2.0
_MOST_SHARE, _MOST_SECONDS = 0.5, 60.0
# How long to wait for its last words.
_LAST_WORDS = 3.0
_NAME = "attack"


def attack_first(run: Run, deadline: float) -> Prepared:
    """A short attack in this process, before anything else."""
    if not _wanted(run):
        return UNPREPARED
    from vhagar.search.mip.attack_worker import attack_here

    job = _job(run, max(min(_MOST_SHARE * (deadline - time.monotonic()), _MOST_SECONDS), 0.0))
    found = attack_here(job, lambda one: _offer(run, one), lambda: run.interval.closed)
    return _prepared(run, found.hints)


class AttackBeside:
    """The attack in a process of its own; `hear` takes its messages out of a shared inbox."""

    def __init__(
        self, run: Run, deadline: float, inbox: queue.SimpleQueue[tuple[Any, Any]]
    ) -> None:
        self._run = run
        self._inbox = inbox
        self._hints: dict[int | None, Any] = {}
        self._worker: Worker | None = None
        now = time.monotonic()
        left = deadline - now
        self._earliest_end = now + max(min(_LEAST_SHARE * left, _LEAST_SECONDS), 0.0)
        if _wanted(run):
            from vhagar.search.mip.attack_worker import attack_until_told

            job = _job(run, max(min(_MOST_SHARE * left, _MOST_SECONDS), 0.0))
            self._worker = Worker(_NAME, (attack_until_told, job), inbox)

    @property
    def running(self) -> bool:
        return self._worker is not None

    def hear(self, name: Any, message: Any) -> None:
        """A message from the inbox that nobody else knows; None is a moment of silence."""
        if name is None:
            self._run.report()
        if name != _NAME or self._worker is None:
            return
        from vhagar.search.mip.attack_worker import HintsFound

        if isinstance(message, Finished):
            self.stop()
            if message.error is not None:
                self._run.note(f"the attack ended early: {message.error}")
        elif isinstance(message, HintsFound):
            self._hints = dict(message.hints)
        else:
            _offer(self._run, message)

    def ended(self) -> Prepared:
        """Let it come to an end, and see what it brought."""
        told = False
        end = self._earliest_end
        while self._worker is not None and not self._run.interval.closed:
            if time.monotonic() >= end and told:
                break  # no last words
            if time.monotonic() >= end:
                told, end = True, time.monotonic() + _LAST_WORDS
                self._worker.tell("enough")
            heard = next_message(self._inbox, end)
            self.hear(*(heard or (None, None)))
        self.stop()
        return _prepared(self._run, self._hints)

    def stop(self) -> None:
        if self._worker is not None:
            self._worker.stop()
        self._worker = None


def _wanted(run: Run) -> bool:
    options = run.options
    used = {"attack", "hints"} - set(options.without)
    return options.attack and bool(used) and run.problem.perturbation is not None


def _job(run: Run, seconds: float) -> AttackJob:
    from vhagar.attack.options import AttackOptions
    from vhagar.attack.worker import AttackJob

    options = run.options
    dataset = named_dataset(options, run.problem.domain)
    return AttackJob(run.problem, AttackOptions(seed=options.seed), seconds, dataset)


def _offer(run: Run, found: Attack) -> None:
    """What the attack found counts, unless it runs for its hints alone."""
    if "attack" not in run.options.without:
        piece = run.problem.pieces[found.root]
        run.interval.offer_witness(found.target, found.x, piece, found.parameters)


def _prepared(run: Run, hints: Any) -> Prepared:
    kept = {} if "hints" in run.options.without else dict(hints)
    return Prepared(lower=run.interval.lower, hints=kept)
