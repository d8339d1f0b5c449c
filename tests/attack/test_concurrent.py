"""The attack alongside a search: it starts, is told of incumbents, and its attacks are checked."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vhagar import Problem
from vhagar.attack.attack_worker import AttackJob, HintsFound, StopAttack
from vhagar.attack.concurrent import AttackSchedule, ConcurrentAttack, attack_here
from vhagar.attack.hints import Hints
from vhagar.attack.incumbents import AttackFound
from vhagar.attack.options import AttackOptions
from vhagar.options import Options
from vhagar.result import BoundKind, Run, Witness, WitnessCheck
from vhagar.runtime.deadline import NEVER
from vhagar.runtime.pool import Finished

from ..scripted_pool import ScriptedPool

OPTIONS = AttackOptions(device="cpu")


@pytest.mark.parametrize(
    ("schedule", "left", "seconds"),
    [
        (AttackSchedule(share=0.5), 10.0, 5.0),
        (AttackSchedule(share=0.5, most=3.0), 10.0, 3.0),
        (AttackSchedule(share=0.1, least=4.0), 10.0, 4.0),
        (AttackSchedule(share=0.1, least=40.0), 10.0, 9.0),  # never nearly all of the time
        (AttackSchedule(share=0.5, most=60.0), math.inf, 60.0),
        (AttackSchedule(share=0.5, least=20.0), math.inf, 20.0),
        (AttackSchedule(share=0.5, least=20.0), -1.0, 0.0),
    ],
)
def test_how_long_it_stays(schedule: AttackSchedule, left: float, seconds: float) -> None:
    assert schedule.seconds(left) == pytest.approx(seconds)


def test_without_a_witness_it_stays_longer() -> None:
    schedule = AttackSchedule(share=0.2, patience=3.0)
    assert schedule.longest(10.0) == pytest.approx(6.0)
    assert AttackSchedule(share=0.5, patience=3.0).longest(10.0) == pytest.approx(9.0)
    assert AttackSchedule(share=0.5).longest(10.0) == pytest.approx(5.0)


def test_it_ends_in_time_once_there_is_a_witness(
    corner: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Any] = []
    pool = ScriptedPool(lambda job, message: heard.append(message))
    schedule = AttackSchedule(share=0.5, most=10.0, patience=3.0)
    run = Run(corner, Options())
    attack = ConcurrentAttack(run, pool, OPTIONS, schedule, NEVER)
    attack.join_when_due()
    later = time.monotonic() + 11.0
    monkeypatch.setattr(time, "monotonic", lambda: later)
    attack.join_when_due()
    assert heard == []
    attack.handle(found(corner, 1.0))
    attack.join_when_due()
    assert heard == []  # it has half of its time to make something of it
    monkeypatch.setattr(time, "monotonic", lambda: later + 5.1)
    for _ in range(3):
        attack.join_when_due()
    assert heard == [StopAttack(10.0)]
    attack.stop()
    ((_, job),) = pool.stopped
    assert job.timeout == 30.0


def test_it_stays_on_while_its_attacks_become_better(
    corner: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Any] = []
    pool = ScriptedPool(lambda job, message: heard.append(message))
    run = Run(corner, Options())
    schedule = AttackSchedule(share=0.5, most=10.0, patience=3.0)
    attack = ConcurrentAttack(run, pool, OPTIONS, schedule, NEVER)
    run.interval.offer_upper(1, 6.0, BoundKind.TWIN)
    begun = time.monotonic()
    attack.join_when_due()

    def after(seconds: float, *messages: AttackFound) -> list[Any]:
        monkeypatch.setattr(time, "monotonic", lambda: begun + seconds)
        for message in messages:
            attack.handle(message)
        attack.join_when_due()
        return heard

    assert after(9.0, found(corner, 0.9)) == []
    assert after(13.0, found(corner, 0.9001)) == []  # too little to stay for
    assert after(14.0) == [StopAttack(10.0)]
    # It has work left, and finds more.
    assert after(15.0, found(corner, 0.9002)) == [StopAttack(10.0)]
    assert after(16.0, found(corner, 1.0)) == [StopAttack(10.0), StopAttack(math.inf)]
    assert after(23.0) == [StopAttack(10.0), StopAttack(math.inf)]
    assert after(25.0) == [StopAttack(10.0), StopAttack(math.inf), StopAttack(10.0)]
    attack.stop()


def test_who_was_told_to_end_for_good_is_not_called_back(corner: Problem) -> None:
    heard: list[Any] = []

    def reply(job: Any, message: Any) -> Any:
        heard.append(message)
        return found(corner, 1.0)

    run, attack = concurrent_attack(corner, ScriptedPool(reply))
    run.interval.offer_upper(1, 6.0, BoundKind.TWIN)
    attack.join_when_due()
    attack.handle(found(corner, 0.9))
    attack._ends = time.monotonic()
    attack.join_when_due()
    attack.finish(until=time.monotonic(), grace=0.1)
    assert heard == [StopAttack(10.0), StopAttack()]


def test_it_stays_no_longer_than_its_time_for_a_witness_of_the_search(
    corner: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Any] = []
    pool = ScriptedPool(lambda job, message: heard.append(message))
    run = Run(corner, Options())
    schedule = AttackSchedule(share=0.5, most=10.0, patience=3.0)
    attack = ConcurrentAttack(run, pool, OPTIONS, schedule, NEVER)
    begun = time.monotonic()
    attack.join_when_due()
    given = found(corner, 0.9)
    run.interval.offer_witness(given.target, given.x, given.piece_index, given.parameters)
    monkeypatch.setattr(time, "monotonic", lambda: begun + 10.5)
    attack.join_when_due()
    assert heard == [StopAttack(10.0)]
    attack.stop()


def found(problem: Problem, pixel: float) -> AttackFound:
    """An attack by the words of its finder: of less confidence than it claims."""
    x = np.full(16, 0.4)
    x[0] = pixel
    witness = WitnessCheck(problem)(1, x, 0, np.zeros(0))
    assert isinstance(witness, Witness)
    return AttackFound(1, 0, x, np.zeros(0), replace(witness, confidence=99.0))


def concurrent_attack(
    problem: Problem, pool: ScriptedPool, **more: Any
) -> tuple[Run, ConcurrentAttack]:
    run = Run(problem, Options())
    schedule = AttackSchedule(share=0.5, most=10.0, after=more.pop("after", 0.0))
    return run, ConcurrentAttack(run, pool, OPTIONS, schedule, NEVER, **more)


def test_it_joins_once_and_when_it_is_due(corner: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ScriptedPool()
    _, attack = concurrent_attack(corner, pool, after=5.0)
    attack.suggest(1, 0, np.zeros(16), np.zeros(0))  # nobody is there to hear it
    attack.join_when_due()
    assert not attack.running
    later = time.monotonic() + 6.0
    monkeypatch.setattr(time, "monotonic", lambda: later)
    attack.join_when_due()
    assert attack.running
    attack.stop()
    attack.join_when_due()
    assert not attack.running
    ((_, job),) = pool.stopped
    assert isinstance(job, AttackJob)
    assert (job.problem, job.timeout) == (corner, 10.0)


def test_what_it_finds_is_checked_again(corner: Problem) -> None:
    run, attack = concurrent_attack(corner, ScriptedPool())
    attack.handle(found(corner, 1.0))
    assert 0 < run.interval.lower < 4.0
    before = run.interval.lower
    attack.handle(replace(found(corner, 1.0), parameters=np.ones(3)))
    attack.handle(replace(found(corner, 1.0), x=np.full(16, np.nan)))
    assert run.interval.lower == before


def test_it_may_run_for_its_hints_alone(corner: Problem) -> None:
    run, attack = concurrent_attack(corner, ScriptedPool(), offers=False)
    attack.handle(found(corner, 1.0))
    attack.handle(HintsFound({1: Hints((), ())}))
    assert run.interval.lower == 0.0
    assert attack.hints.keys() == {1}


def test_it_hears_of_incumbents(corner: Problem) -> None:
    heard: list[Any] = []
    _, attack = concurrent_attack(corner, ScriptedPool(lambda job, message: heard.append(message)))
    attack.join_when_due()
    x = np.zeros(16)
    attack.suggest(1, 0, x, np.zeros(0))
    ((target, piece_index, suggested, _),) = heard
    assert (target, piece_index) == (1, 0)
    assert suggested is x


def test_its_last_words_are_heard(corner: Problem) -> None:
    """It is told to end, and what it found until then counts."""
    pool = ScriptedPool(lambda job, message: message == StopAttack() and found(corner, 1.0))
    run, attack = concurrent_attack(corner, pool)
    attack.join_when_due()
    begun = time.monotonic()
    attack.finish(until=begun, grace=0.3)
    assert run.interval.lower > 0
    assert not attack.running
    assert time.monotonic() - begun < 30  # a sanity limit, far beyond what any machine needs


def test_who_has_nothing_else_to_do_waits_while_it_gains(corner: Problem) -> None:
    told: list[float] = []

    def reply(job: Any, message: Any) -> Any:
        told.append(time.monotonic())
        return found(corner, 1.0)

    for patiently in (False, True):
        _, attack = concurrent_attack(corner, ScriptedPool(reply))
        attack.join_when_due()
        begun = time.monotonic()
        attack._ends = begun + 0.5  # what it found lately has let it stay so long
        attack.finish(until=begun, grace=0.1, patiently=patiently)
        assert (told[-1] >= begun + 0.5) or not patiently
        assert not attack.running
    assert len(told) == 2


def test_an_early_end_is_noted_and_a_proper_one_is_not(corner: Problem) -> None:
    run, attack = concurrent_attack(corner, ScriptedPool())
    attack.handle(Finished(None))
    assert not run.result().notes
    attack.handle(Finished("MemoryError"))
    assert run.result().notes == ("the attack ended early: MemoryError",)


def test_it_also_runs_here(corner: Problem) -> None:
    small = AttackOptions(inputs=16, steps=20, patience=5, rounds=1, device="cpu")
    run = Run(corner, Options())
    result = attack_here(run, small, None)
    assert 0 < run.interval.lower == result.lower <= 4.0
    silent = Run(corner, Options())
    attack_here(silent, small, None, offers=False)
    assert silent.interval.lower == 0.0
