"""Works on the problems of a study: claims them, hands them to workers and stores the results."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from vhagar.coverage import SEARCH_SHARE
from vhagar.sweep.executor import Executor, executor_for
from vhagar.sweep.messages import Completed, Failed, Improved, Lost, ProblemTask
from vhagar.sweep.settings import Settings
from vhagar.sweep.snapshot import Snapshot
from vhagar.sweep.store import Claimed, Store
from vhagar.sweep.study import Model, Study
from vhagar.sweep.transfer import Transfer
from vhagar.sweep.watch import AbstractSweepWatch, SweepState

# Seconds between two writes to the store.
_FLUSH_EVERY = 0.25
# Seconds between two renewals of the claims.
_RENEW_EVERY = 3.0
# Seconds between two checks whether another process still works on the last problems.
_LOOK_EVERY = 0.5
# A worker ends by itself when its time is up. It counts as stuck once it has exceeded its timeout
# by this share of it plus these seconds.
_PATIENCE_SECONDS, _PATIENCE_SHARE = 30.0, 0.5


@dataclass
class _Running:
    """A problem that a worker of this process is running."""

    claimed: Claimed
    begun: float
    timeout: float | None
    fresh: Snapshot | None = None


class Scheduler:
    """One process's part of a study."""

    def __init__(
        self,
        store: Store,
        study: Study,
        models: Sequence[Model],
        settings: Settings,
        watch: AbstractSweepWatch,
    ) -> None:
        self._store, self._study, self._settings, self._watch = store, study, settings, watch
        self._networks = {model.fingerprint: model.network for model in models}
        self._names = {model.fingerprint: model.network.name for model in models}
        self._carrier = Transfer(store, self._networks)
        self._running: dict[int, _Running] = {}
        self._deadline = math.inf
        self._flushed = self._renewed = self._looked = -math.inf

    def run(self) -> None:
        study, store = self._study, self._store
        if versions := store.other_versions():
            self._watch.note(
                f"parts of this study were computed by vhagar {', '.join(versions)}; their results "
                "are kept, and each says which version it came from"
            )
        reopened = store.reopen(study.timeout)
        if reopened:
            self._watch.note(f"{reopened} problems have more time now and are reopened")
        settings = self._settings
        store.begin_run({"executor": settings.executor, "jobs": settings.job_count})
        if study.total is not None:
            share = 1.0 if study.dataset is None else SEARCH_SHARE
            self._deadline = time.monotonic() + share * study.total
        executor = executor_for(settings)
        try:
            self._watch.begin(self._state(), study.timeout)
            self._loop(executor)
        finally:
            # First stop the workers, then store their last messages, and only then show them.
            self._hear_last_words(executor)
            executor.close()
            for number, running in self._running.items():
                if running.fresh is not None:
                    store.improve(number, running.fresh)
                store.release(number)
            self._running.clear()
            store.end_run()
            self._watch.end(self._state())

    def _hear_last_words(self, executor: Executor) -> None:
        """Receive the remaining messages about problems that will not be finished now."""
        while (message := executor.next_message(0.0)) is not None:
            running = self._running.get(message.number)
            if running is not None and isinstance(message, Improved | Completed):
                running.fresh = _merged(running.fresh, self._timed(running, message.snapshot))

    def _loop(self, executor: Executor) -> None:
        done = False
        while not done or self._running:
            if time.monotonic() >= self._deadline:
                self._watch.note("the total time has run out")
                return
            done = self._hand_out(executor)
            self._take(executor)
            self._stop_stuck(executor)
            now = time.monotonic()
            if now - self._flushed >= _FLUSH_EVERY:
                self._flush()
            if now - self._renewed >= _RENEW_EVERY:
                self._renewed = now
                self._store.renew_claims()

    def _hand_out(self, executor: Executor) -> bool:
        """Fill the free slots; return whether no problem is open except those running here."""
        while len(self._running) < executor.slots:
            claimed = self._claim()
            if claimed is None:
                return self._store.counts().get("open", 0) <= len(self._running)
            question, timeout = claimed.question, self._budget(executor.slots)
            self._running[claimed.number] = _Running(claimed, time.monotonic(), timeout)
            executor.submit(
                ProblemTask(
                    claimed.number,
                    question,
                    self._networks[question.network],
                    self._settings.engine,
                    self._settings.options_for(claimed.number),
                    timeout,
                    self._carrier.known(claimed.number),
                )
            )
            self._watch.update(self._state())
        return False

    def _claim(self) -> Claimed | None:
        """Claim a problem; after a vain attempt, wait before the next one."""
        if time.monotonic() - self._looked < _LOOK_EVERY:
            return None
        claimed = self._store.claim()
        if claimed is None:
            self._looked = time.monotonic()
        return claimed

    def _budget(self, slots: int) -> float | None:
        """Seconds for the next problem: its timeout, or a fair share of the total that is left."""
        if math.isinf(self._deadline):
            return self._study.timeout
        left = max(self._deadline - time.monotonic(), 0.0)
        rounds = max(math.ceil(self._store.counts().get("open", 1) / slots), 1)
        share = left if self._study.timeout is not None else left / rounds
        return share if self._study.timeout is None else min(share, self._study.timeout)

    def _take(self, executor: Executor) -> None:
        """Process messages of the workers until none is waiting or a problem has ended."""
        patience = _FLUSH_EVERY
        while (message := executor.next_message(patience)) is not None:
            patience = 0.0
            running = self._running.get(message.number)
            if running is None:
                continue
            if isinstance(message, Improved):
                running.fresh = _merged(running.fresh, self._timed(running, message.snapshot))
                if time.monotonic() - self._flushed >= _FLUSH_EVERY:
                    return  # a stream of improvements must not delay writing to the store
                continue
            del self._running[message.number]
            self._conclude(running, message)
            return  # a slot is free

    def _timed(self, running: _Running, snapshot: Snapshot) -> Snapshot:
        """Add the seconds of earlier runs of the same problem to a snapshot."""
        return replace(snapshot, seconds=running.claimed.seconds + snapshot.seconds)

    def _conclude(self, running: _Running, message: Completed | Failed | Lost) -> None:
        number, store = message.number, self._store
        if running.fresh is not None:
            store.improve(number, running.fresh)
        if isinstance(message, Completed):
            snapshot = self._timed(running, message.snapshot)
            store.finish(number, snapshot, message.ending, running.timeout)
            self._watch.update(self._state())
            question, ends = running.claimed.question, store.interval(number)
            self._watch.finished(number, question, *ends, message.ending.status.value)
            self._carrier.spread(number)
        elif isinstance(message, Failed):
            store.fail(number, message.reason)
            self._watch.note(f"problem {number} failed: {message.reason}")
        else:
            spent = running.claimed.seconds + time.monotonic() - running.begun
            store.lose(number, message.reason, spent)
            self._looked = -math.inf
            self._watch.note(f"problem {number} lost its worker ({message.reason})")

    def _stop_stuck(self, executor: Executor) -> None:
        for number, running in list(self._running.items()):
            if running.timeout is None:
                continue
            patience = running.timeout * (1 + _PATIENCE_SHARE) + _PATIENCE_SECONDS
            if time.monotonic() - running.begun > patience:
                executor.cancel(number)
                del self._running[number]
                why = f"no end after {patience:.0f} s, its time was {running.timeout:.0f} s"
                self._conclude(running, Lost(number, why))

    def _flush(self) -> None:
        """Store what is new, then show it: only what is on disk is ever shown."""
        self._flushed = time.monotonic()
        for number, running in self._running.items():
            fresh, running.fresh = running.fresh, None
            if fresh is not None and self._store.improve(number, fresh):
                ends = self._store.interval(number)
                self._watch.improved(number, running.claimed.question, *ends)
        self._watch.update(self._state())

    def _state(self) -> SweepState:
        now = time.monotonic()
        running = {
            number: (own.claimed.question, *self._store.interval(number), now - own.begun)
            for number, own in self._running.items()
        }
        left = None if math.isinf(self._deadline) else max(self._deadline - now, 0.0)
        return SweepState(self._store.counts(), running, self._names, left)


def _merged(before: Snapshot | None, now: Snapshot) -> Snapshot:
    """The newer snapshot with the witnesses of both: a message contains only new witnesses."""
    if before is None:
        return now
    return replace(now, witnesses={**before.witnesses, **now.witnesses})
