"""The MIP engine: one process per target, bounds and candidates streaming in."""

from __future__ import annotations

import queue
import time
from typing import Any

from vhagar.errors import SolverFailure, SolverUnavailable
from vhagar.options import Options
from vhagar.problem import Problem
from vhagar.result import BoundKind, Tracker
from vhagar.search.base import AbstractEngine
from vhagar.search.mip.target import (
    CandidateFound,
    Message,
    NodesSearched,
    SolverMissing,
    TargetSearch,
    UpperFound,
    stopwatch,
)
from vhagar.search.processes import Channel, Finished, Worker, next_message


class MipEngine(AbstractEngine):
    """The paper's main MIP with interval bounds: the reference for faster engines."""

    def run(self, tracker: Tracker, deadline: float) -> bool:
        if tracker.options.processes:
            return _run_in_processes(tracker, deadline)
        return _run_here(tracker, deadline)


def _run_here(tracker: Tracker, deadline: float) -> bool:
    problem, options = tracker.problem, tracker.options
    for goal in problem.goals:

        def stop(goal: int | None = goal) -> bool:
            return time.monotonic() > deadline or tracker.settled(goal)

        def receive(message: Message, goal: int | None = goal) -> None:
            _take(tracker, goal, message)

        try:
            TargetSearch(problem, goal, options, receive, stop).run()
        except SolverFailure as failure:
            _note_failure(tracker, goal, str(failure))
    return time.monotonic() > deadline


def _run_in_processes(tracker: Tracker, deadline: float) -> bool:
    inbox: queue.SimpleQueue[tuple[int | None, Any]] = queue.SimpleQueue()
    goals = [goal for goal in tracker.problem.goals if not tracker.settled(goal)]
    workers: dict[int | None, Worker] = {}
    try:
        for goal in goals:
            job = (_search, (tracker.problem, goal, tracker.options))
            workers[goal] = Worker(goal, job, inbox)
        while workers and not tracker.closed:
            if time.monotonic() > deadline:
                return True
            heard = next_message(inbox, deadline)
            if heard is None:
                tracker.report()
                continue
            goal, message = heard
            if goal not in workers and isinstance(message, Finished):
                continue  # stopped before, as its goal was settled
            if isinstance(message, Finished):
                workers.pop(goal).stop()
                if message.error is not None:
                    _note_failure(tracker, goal, message.error)
            else:
                _take(tracker, goal, message)
                for settled in [goal for goal in workers if tracker.settled(goal)]:
                    workers.pop(settled).stop()
        return False
    finally:
        for worker in workers.values():
            worker.stop()


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


def _search(argument: tuple[Problem, int | None, Options], channel: Channel) -> None:
    """What runs in a worker. The parent keeps the time and ends the process."""
    problem, goal, options = argument
    try:
        TargetSearch(problem, goal, options, channel.send, stopwatch(float("inf"))).run()
    except SolverUnavailable as missing:
        channel.send(SolverMissing(str(missing)))
