"""The MIP engine: what all targets share first, then one process per target.

Bounds and candidates stream in all the time.
"""

from __future__ import annotations

import queue
import time
from dataclasses import replace
from typing import Any

from vhagar.dataset import named_dataset
from vhagar.engine import AbstractEngine
from vhagar.errors import SolverFailure, SolverUnavailable
from vhagar.options import Options
from vhagar.problem import Problem
from vhagar.result import BoundKind, Tracker
from vhagar.runtime.processes import Channel, Finished, Worker, next_message
from vhagar.search.mip.attack_phase import AttackBeside, attack_first
from vhagar.search.mip.messages import (
    CandidateFound,
    Message,
    NodesSearched,
    SolverMissing,
    UpperFound,
)
from vhagar.search.mip.pool import BoundsWorker, ProcessPool, SerialPool
from vhagar.search.mip.preparation import Prepared, prepare
from vhagar.search.mip.target import TargetSearch, stopwatch

Inbox = queue.SimpleQueue[tuple[Any, Any]]


class MipEngine(AbstractEngine):
    """The paper's method: concrete bounds, dependencies, the attack, and the main MIP."""

    def run(self, tracker: Tracker, deadline: float) -> bool:
        # Read at once: a wrong file is an error before the search, not in its midst.
        named_dataset(tracker.options, tracker.problem.domain)
        if tracker.options.processes:
            return _run_in_processes(tracker, deadline)
        return _run_here(tracker, deadline)


def _run_here(tracker: Tracker, deadline: float) -> bool:
    problem, options = tracker.problem, tracker.options

    def late() -> bool:
        return time.monotonic() > deadline or tracker.closed

    with tracker.phase("prepare"):
        attacked = attack_first(tracker, deadline)
        pool = SerialPool(BoundsWorker(problem, options), late)
        prepared = replace(attacked, pieces=prepare(problem, options, pool, deadline))
    for goal in problem.goals:

        def stop(goal: int | None = goal) -> bool:
            return time.monotonic() > deadline or tracker.settled(goal)

        def receive(message: Message, goal: int | None = goal) -> None:
            _take(tracker, goal, message)

        try:
            TargetSearch(problem, goal, options, receive, stop, prepared).run()
        except SolverFailure as failure:
            _note_failure(tracker, goal, str(failure))
    return time.monotonic() > deadline


def _run_in_processes(tracker: Tracker, deadline: float) -> bool:
    inbox: Inbox = queue.SimpleQueue()
    with tracker.phase("prepare"):
        prepared = _prepare_in_processes(tracker, deadline, inbox)
    goals = [goal for goal in tracker.problem.goals if not tracker.settled(goal)]
    workers: dict[Any, Worker] = {}
    try:
        for goal in goals:
            job = (_search, (tracker.problem, goal, tracker.options, prepared))
            workers[goal] = Worker(goal, job, inbox)
        while workers and not tracker.closed:
            if time.monotonic() > deadline:
                return True
            heard = next_message(inbox, deadline)
            if heard is None:
                tracker.report()
                continue
            goal, message = heard
            if goal not in workers:
                continue  # stopped before: its goal was settled, or it helped to prepare
            if isinstance(message, Finished):
                workers.pop(goal).stop()
                if message.error is not None:
                    _note_failure(tracker, goal, message.error)
            else:
                _take(tracker, goal, message)
                for settled in [goal for goal in workers if tracker.settled(goal)]:
                    workers.pop(settled).stop()
        return not tracker.closed and time.monotonic() > deadline
    finally:
        for worker in workers.values():
            worker.stop()


def _prepare_in_processes(tracker: Tracker, deadline: float, inbox: Inbox) -> Prepared:
    """The attack in one process, bounds and relations in the others."""
    problem, options = tracker.problem, tracker.options
    attack = AttackBeside(tracker, deadline, inbox)
    size = max(options.worker_count - attack.running, 1)
    pool = None
    try:
        pool = ProcessPool(problem, options, size, inbox, attack.hear, tracker.note)
        pieces = prepare(problem, options, pool, deadline)
        return replace(attack.ended(), pieces=pieces)
    finally:
        attack.stop()
        if pool is not None:
            pool.stop()


def _note_failure(tracker: Tracker, goal: int | None, error: str) -> None:
    """What was found so far stays valid; the goal is searched no further."""
    what = "the search" if goal is None else f"the search for target {goal}"
    tracker.note(f"{what} failed: {error}")


def _take(tracker: Tracker, goal: int | None, message: Message) -> None:
    if isinstance(message, UpperFound):
        tracker.offer_upper(goal, message.value, BoundKind.SOLVER)
    elif isinstance(message, CandidateFound):
        piece = None if message.root is None else tracker.problem.pieces[message.root]
        candidate = message.candidate
        tracker.offer_witness(goal, candidate.x, piece, candidate.parameters)
    elif isinstance(message, NodesSearched):
        tracker.count_nodes(message.count)
    elif isinstance(message, SolverMissing):
        raise SolverUnavailable(message.reason)


def _search(argument: tuple[Problem, int | None, Options, Prepared], channel: Channel) -> None:
    """What runs in a worker. The parent keeps the time and ends the process."""
    problem, goal, options, prepared = argument
    forever = stopwatch(float("inf"))
    try:
        TargetSearch(problem, goal, options, channel.send, forever, prepared).run()
    except SolverUnavailable as missing:
        channel.send(SolverMissing(str(missing)))
