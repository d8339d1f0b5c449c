"""The attack as an engine, and beside the search."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Problem, Progress, Result, Status, read_onnx, verify
from vhagar.attack import concurrent
from vhagar.attack import engine as attack_engine
from vhagar.attack.attack_worker import AttackJob
from vhagar.attack.concurrent import AttackSchedule, ConcurrentAttack
from vhagar.attack.engine import Attack, job_of_worker
from vhagar.attack.options import AttackOptions
from vhagar.attack.run import AttackResult, _Rounds
from vhagar.errors import InvalidInput
from vhagar.options import ATTACK_PARTS
from vhagar.runtime.deadline import OutOfTime
from vhagar.search import attack_beside, engine_named
from vhagar.search.branch_and_bound import Bab

EXAMPLES = Path(__file__).parents[2] / "examples"


def until(confidence: float, problem: Problem, options: dict[str, Any]) -> Result:
    """Attack until something so confident is found; machines differ in how long that takes."""

    def interrupt(progress: Progress) -> None:
        if progress.lower > confidence:
            raise KeyboardInterrupt

    return verify(problem, timeout=60, **options, on_progress=interrupt)


@pytest.mark.subprocess
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["attack", "paper-attack"])
def test_it_raises_the_lower_bound_only(
    name: str, workers: int, corner: Problem, children_of: Callable[[int], set[int]]
) -> None:
    before = children_of(os.getpid())
    result = until(3.6, corner, {"engine": engine_named(name), "workers": workers})
    assert 3.6 < result.lower <= 4.0
    assert result.upper >= 4.0
    assert result.witness is not None
    assert result.kind.name == "INTERVAL"
    assert children_of(os.getpid()) == before


def test_the_attack_needs_an_end(corner: Problem) -> None:
    with pytest.raises(InvalidInput, match="give a timeout"):
        verify(corner, engine=Attack())


def test_a_dataset_is_started_from(corner: Problem, tmp_path: Path) -> None:
    best = np.full((1, 16), 0.49)
    best[0, 0] = 1.0
    np.savez(tmp_path / "data.npz", best)
    options = {"engine": Attack(paper=True), "workers": 1, "dataset": tmp_path / "data.npz"}
    assert until(3.9, corner, options).lower > 3.9


@pytest.mark.parametrize("name", ["attack", "bab"])
def test_a_wrong_dataset_is_an_error_before_anything_else(name: str, corner: Problem) -> None:
    options = {"engine": engine_named(name), "dataset": Path("missing.npz")}
    with pytest.raises(InvalidInput, match=r"missing\.npz"):
        verify(corner, timeout=3, **options)


@pytest.mark.parametrize("paper", [False, True])
def test_rounds_that_there_was_no_time_for_are_a_timeout(
    paper: bool, corner: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Rounds, "_ascend_within_memory", _too_late)
    assert (
        verify(corner, engine=Attack(paper=paper), workers=1, timeout=60).status is Status.TIMEOUT
    )


def _too_late(*_: object) -> None:
    raise OutOfTime


@pytest.mark.subprocess
@pytest.mark.parametrize("seconds", [0.0, pytest.param(60.0, marks=pytest.mark.slow)])
def test_workers_say_whether_they_were_cut_short(
    seconds: float, corner: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They end before the deadline either way."""
    monkeypatch.setattr(
        attack_engine, "job_of_worker", lambda job, _: replace(job, timeout=seconds)
    )
    result = verify(corner, engine=Attack(paper=True), workers=2, timeout=120)
    assert result.status is (Status.EXHAUSTED if seconds else Status.TIMEOUT)


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.parametrize("wanted", [True, False])
def test_it_joins_the_search_and_leaves_with_it(
    wanted: bool, children_of: Callable[[int], set[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attack_beside, "_AFTER", 0.0)
    hard = Problem(
        read_onnx(EXAMPLES / "mnist_conv1.onnx"), perturbation="linf(0.1)", source=2, targets=3
    )
    before, most = children_of(os.getpid()), 0

    def count(_: Progress) -> None:
        nonlocal most
        most = max(most, len(children_of(os.getpid()) - before))

    options = {"engine": Bab(attack=wanted), "workers": 2}
    result = verify(hard, timeout=4, **options, on_progress=count)
    assert most == (3 if wanted else 2)
    assert children_of(os.getpid()) == before
    assert result.status is Status.TIMEOUT
    assert not result.notes


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_failing_attack_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search goes on, and says so."""
    monkeypatch.setattr(attack_beside, "_AFTER", 0.0)
    monkeypatch.setattr(AttackSchedule, "seconds", lambda schedule, left: math.nan)
    failed = threading.Event()
    handle = ConcurrentAttack.handle

    def watched(attack: ConcurrentAttack, message: object) -> None:
        handle(attack, message)
        failed.set()

    monkeypatch.setattr(ConcurrentAttack, "handle", watched)

    def interrupt(progress: Progress) -> None:
        if progress.lower > 0 and failed.is_set():
            raise KeyboardInterrupt

    hard = Problem(
        read_onnx(EXAMPLES / "mnist_conv1.onnx"), perturbation="linf(0.1)", source=2, targets=3
    )
    result = verify(hard, timeout=120, workers=2, on_progress=interrupt)
    assert any("the attack ended early" in note for note in result.notes)
    assert 0 < result.lower < result.upper
    assert result.status is Status.INTERRUPTED


@pytest.mark.parametrize("regions", [True, False])
def test_workers_share_the_work(regions: bool, corner: Problem) -> None:
    """Every other one begins with relaxations, and only the first may use a GPU."""
    options = AttackOptions(seed=3, device="auto", regions=regions)
    jobs = [job_of_worker(AttackJob(corner, options, 10.0), worker) for worker in range(3)]
    assert [job.options.seed for job in jobs] == [3, 4, 5]
    assert [job.options.device for job in jobs] == ["auto", "cpu", "cpu"]
    assert [job.options.relax_first for job in jobs] == [False, regions, False]
    assert all(9 < (job.timeout or 0) < 10 for job in jobs)


def test_parts_are_left_out_as_asked(corner: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[AttackOptions] = []

    def attack(problem: Problem, *, options: AttackOptions, **_: object) -> AttackResult:
        heard.append(options)
        return AttackResult({}, {}, 0, completed=False)

    monkeypatch.setattr(concurrent, "attack", attack)
    for without in ((), ("aim", "starts"), ("polish",)):
        options = {"engine": Attack(without=without), "workers": 1, "device": "cpu"}
        verify(corner, timeout=60, **options)
    parts = [[part for part in ATTACK_PARTS if not getattr(one, part)] for one in heard]
    assert parts == [[], ["starts", "aim"], ["regions", "polish"]]
    assert all(one.device == "cpu" for one in heard)


def test_a_missing_gpu_is_an_error_before_anything_else(
    corner: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(InvalidInput, match="no CUDA GPU"):
        verify(corner, timeout=3, engine=Attack(), device="cuda")
