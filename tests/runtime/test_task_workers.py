"""Tasks for workers: one each at a time, kept for the next, replaced when they are lost."""

from __future__ import annotations

import math
from typing import Any

import pytest

from vhagar.runtime.pool import Channel, Finished
from vhagar.runtime.task_workers import TaskWorkers

from ..scripted_pool import ScriptedPool


def serve(argument: Any, channel: Channel) -> None:
    raise AssertionError("a scripted pool runs nothing")


def served(script: Any, **more: Any) -> tuple[ScriptedPool, TaskWorkers[str]]:
    pool = ScriptedPool(lambda job, task: script(task))
    return pool, TaskWorkers(pool, (serve, None), **more)


def hear(pool: ScriptedPool, workers: TaskWorkers[str]) -> tuple[str | None, Any]:
    """Which task the next message is about, and the message."""
    heard = pool.next_message(math.inf, 0.0)
    assert heard is not None
    return workers.handle(*heard), heard[1]


def test_a_worker_is_kept_for_the_next_task() -> None:
    pool, workers = served(lambda task: task * 2)
    assert len(pool) == 0  # nobody is started before there is something to do
    for key in ("one", "two"):
        workers.submit(key, key)
        assert hear(pool, workers) == (key, key * 2)
    assert len(pool) == 1
    workers.submit("three", "three")
    workers.submit("four", "four")
    assert len(pool) == 2
    assert workers.busy == ["three", "four"]


def test_only_the_last_message_ends_a_task() -> None:
    messages = iter(["so far", "at last"])
    pool, workers = served(lambda task: next(messages), is_last=lambda said: said == "at last")
    workers.submit("key", "task")
    assert hear(pool, workers) == ("key", "so far")
    assert workers.busy == ["key"]
    (name,) = pool
    pool.tell(name, "go on")
    assert hear(pool, workers) == ("key", "at last")
    assert not workers.busy


def test_a_lost_worker_is_replaced() -> None:
    pool, workers = served(lambda task: Finished("killed") if task == "bad" else "done")
    workers.submit("key", "bad")
    key, last = hear(pool, workers)
    assert (key, last.error) == ("key", "killed")
    assert len(pool) == 0
    workers.submit("other", "good")
    assert hear(pool, workers) == ("other", "done")


def test_a_worker_that_is_lost_between_tasks_is_not_given_another() -> None:
    pool, workers = served(lambda task: task)
    workers.submit("one", "done")
    hear(pool, workers)
    (name,) = pool
    pool.tell(name, Finished("killed while it was idle"))
    assert hear(pool, workers)[0] is None
    assert name not in workers
    workers.submit("two", "done")
    assert hear(pool, workers) == ("two", "done")


def test_a_cancelled_task_is_stopped_and_the_others_go_on() -> None:
    pool, workers = served(lambda task: "done" if task == "quick" else None)
    workers.submit("slow", "slow")
    workers.submit("quick", "quick")
    workers.cancel("slow")
    workers.cancel("unknown")
    assert len(pool.stopped) == 1
    assert hear(pool, workers) == ("quick", "done")
    workers.stop()
    assert len(pool) == 0


def test_other_workers_of_the_pool_are_none_of_theirs() -> None:
    pool, workers = served(lambda task: task)
    pool.start("somebody else", (serve, None))
    assert "somebody else" not in workers
    workers.submit("key", "done")
    workers.stop()
    assert list(pool) == ["somebody else"]
    with pytest.raises(ValueError, match="already"):
        pool.start("somebody else", (serve, None))
