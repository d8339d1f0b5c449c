"""The worker's side of a sweep: run tasks and report on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vhagar.errors import VhagarError
from vhagar.network import Network
from vhagar.relaxation.bounds_cache import BoundsCache
from vhagar.result import Interval, Progress, ProgressError, Result
from vhagar.runtime.pool import Channel
from vhagar.sweep.messages import Completed, Failed, Improved, Message, ProblemTask
from vhagar.sweep.snapshot import Ending, Snapshot
from vhagar.verify import run_engine

Send = Callable[[Message], None]


class ProblemWorker:
    """Runs tasks one after the other, and keeps what later tasks can use.

    That is the networks and the bounds of their neurons, which all problems under one perturbation
    share.
    """

    def __init__(self) -> None:
        self._networks: dict[str, Network] = {}
        self._bounds = BoundsCache()

    def work(self, task: ProblemTask, send: Send) -> None:
        """Run a task and send messages about its progress and its end."""
        listener = _Listener(task.number, send)
        try:
            # One network object for all tasks, so that what is cached for it is found again.
            network = self._networks.setdefault(task.question.network, task.network)
            result = run_engine(
                task.question.problem(network),
                task.engine,
                task.options,
                timeout=task.timeout,
                on_progress=listener,
                warm_start=task.warm_start,
                bounds=self._bounds,
            )
        except ProgressError as error:
            raise error.cause from None  # the sweep is gone; this is not the problem's fault
        except VhagarError as error:
            send(Failed(task.number, str(error)))
            return
        name = None if result.certificate is None else str(result.certificate.absolute())
        ending = Ending(result.status, result.nodes, result.engine, result.notes, name)
        send(Completed(task.number, listener.last(result), ending))


class _Listener:
    """Sends each improvement of the interval, with the new witnesses."""

    def __init__(self, number: int, send: Send) -> None:
        self._number = number
        self._send = send
        self._seen: Snapshot | None = None

    def __call__(self, progress: Progress) -> None:
        now, seen = Snapshot.of(progress), self._seen
        self._seen = now
        if seen is not None and seen.targets == now.targets:
            return
        before = {} if seen is None else seen.targets
        fresh = {
            target: witness
            for target, witness in now.witnesses.items()
            if target not in before or before[target].lower < witness.confidence
        }
        self._send(Improved(self._number, replace(now, witnesses=fresh)))

    def last(self, result: Result) -> Snapshot:
        """Everything that is known at the end of the run."""
        witnesses = {} if self._seen is None else dict(self._seen.witnesses)
        best = result.witness
        if best is not None:
            witnesses[best.target] = best
        targets: dict[int | None, Interval] = dict(result.targets.items())
        return Snapshot(result.seconds, targets or {None: result.interval}, witnesses)


def serve(_: None, channel: Channel) -> None:
    """Run in a worker: take tasks and send messages until the parent ends the worker."""
    worker = ProblemWorker()
    while True:
        worker.work(channel.receive(), channel.send)
