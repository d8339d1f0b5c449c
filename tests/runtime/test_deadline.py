"""A deadline means the same in every phase and in every process."""

from __future__ import annotations

import math
import pickle
import time

import pytest

from vhagar.runtime.deadline import NEVER, CoreShare, Deadline, OutOfTime, WorkLimit


def test_without_a_limit_there_is_always_time() -> None:
    for never in (NEVER, Deadline.after(None), Deadline.after(math.inf)):
        assert never == NEVER
        assert not never.passed
        assert never.left == math.inf
        assert not never.check()
        assert never.before(1.0) == NEVER


def test_it_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    deadline, now = Deadline.after(5.0), time.monotonic()
    assert not deadline.passed
    assert not deadline.check()
    monkeypatch.setattr(time, "monotonic", lambda: now + 4.0)
    assert 0.0 < deadline.left <= 1.1
    monkeypatch.setattr(time, "monotonic", lambda: now + 6.0)
    assert deadline.passed
    assert deadline.left == 0.0
    with pytest.raises(OutOfTime):
        deadline.check()


def test_a_part_of_the_time_ends_with_the_whole() -> None:
    deadline = Deadline.after(100.0)
    assert deadline.sooner(1000.0) == deadline
    assert deadline.sooner(10.0).at < deadline.at
    assert deadline.before(1.0).at == deadline.at - 1.0
    assert NEVER.sooner(10.0).left <= 10.0


def test_it_travels_by_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine's monotonic clock starts elsewhere."""
    sent = pickle.dumps([Deadline.after(100.0), NEVER])
    elsewhere = time.monotonic() + 12345.0
    monkeypatch.setattr(time, "monotonic", lambda: elsewhere)
    deadline, never = pickle.loads(sent)
    assert deadline.left == pytest.approx(100.0, abs=5.0)
    assert never == NEVER


def test_a_limit_of_work_waits_for_work_but_not_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    work, now = time.process_time(), time.monotonic()
    monkeypatch.setattr(time, "process_time", lambda: work)
    limit = WorkLimit(2.0, 4.0)
    monkeypatch.setattr(time, "monotonic", lambda: now + 7.0)
    assert not limit.passed  # the machine does other things
    monkeypatch.setattr(time, "monotonic", lambda: now + 9.0)
    assert limit.passed
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "process_time", lambda: work + 2.1)
    assert limit.passed


def test_the_share_of_a_core_that_others_use(monkeypatch: pytest.MonkeyPatch) -> None:
    work, now = time.process_time(), time.monotonic()
    monkeypatch.setattr(time, "process_time", lambda: work)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    share = CoreShare()
    assert share() == 1.0  # nothing is known yet
    monkeypatch.setattr(time, "monotonic", lambda: now + 6.0)
    assert share() == 0.1  # the least to reckon with
    for worked, expected in ((2.0, 1 / 3), (6.0, 1.0), (9.0, 1.0)):  # more with several threads
        monkeypatch.setattr(time, "process_time", lambda worked=worked: work + worked)
        assert share() == pytest.approx(expected)
