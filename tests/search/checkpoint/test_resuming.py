"""A search that was ended at any moment goes on, and its interval holds the exact optimum."""

from __future__ import annotations

import errno
import os
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import vhagar
from vhagar import Problem, Result, Status, verify
from vhagar.engine import AbstractEngine
from vhagar.errors import InvalidInput
from vhagar.result import Progress
from vhagar.search.bounders import subtrees
from vhagar.search.branch_and_bound import Bab, FirstOrder
from vhagar.search.checkpoint import file

from ...marks import campaign_from
from ...oracle.cases import Case
from ...oracle.exact import Truth, exact_optimum, overall
from .conftest import Kept

ALONE = {"timeout": 60.0, "workers": 0}
# Cases with some nodes to search.
CASES = [41, 46, 14, 65, 30, 73, 78, 93, 45, 68, 2, 42, 58]


@cache
def truth_of(number: int) -> tuple[Problem, dict[int | None, Truth]]:
    problem = Case(number).problem()
    return problem, exact_optimum(problem)


def require_sound(result: Result, number: int) -> None:
    _, truths = truth_of(number)
    truth = overall(truths)
    assert result.lower <= truth.high
    assert truth.low <= result.upper
    for target, interval in result.targets.items():
        assert interval.lower <= truths[target].high
        assert truths[target].low <= interval.upper


def interval_of(path: Path, problem: Problem, engine: AbstractEngine | None = None) -> Result:
    """What a checkpoint has reached: no time is left for more."""
    copy = path.with_suffix(".copy")
    shutil.copy(path, copy)
    return verify(problem, engine=engine, resume=copy, timeout=0.0, workers=0)


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=campaign_from(4, k)) for k, n in enumerate(CASES)]
)
def test_killed_at_any_moment_a_search_goes_on(number: int, tmp_path: Path, all_kept: Kept) -> None:
    problem, _ = truth_of(number)
    whole = verify(problem, checkpoint=tmp_path / "checkpoint", **ALONE)
    require_sound(whole, number)
    rng = np.random.default_rng(number)
    for path in [all_kept[k] for k in rng.permutation(len(all_kept))[:3]]:
        before = interval_of(path, problem)
        require_sound(before, number)
        result = verify(problem, resume=path, **ALONE)
        require_sound(result, number)
        assert result.status is whole.status
        for target, interval in result.targets.items():
            assert before.targets[target].lower <= interval.lower
            assert interval.upper <= before.targets[target].upper


@pytest.mark.parametrize(
    "engine",
    [
        Bab(slopes=False),
        pytest.param(Bab(gpu=True), marks=pytest.mark.slow),
        pytest.param(FirstOrder(attack=False), marks=pytest.mark.slow),
    ],
)
def test_so_do_other_ways_to_search(engine: AbstractEngine, tmp_path: Path, all_kept: Kept) -> None:
    problem, _ = truth_of(65)
    verify(problem, engine=engine, checkpoint=tmp_path / "checkpoint", **ALONE)
    for path in all_kept[:: max(1, len(all_kept) // 3)]:
        before = interval_of(path, problem, engine)
        result = verify(problem, engine=engine, resume=path, **ALONE)
        require_sound(result, 65)
        assert before.lower <= result.lower
        assert result.upper <= before.upper


def test_subtrees_with_tighter_bounds_are_parts_like_others(
    tmp_path: Path, all_kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("_EVERY", 1), ("_WORK_AT_FIRST", 1e15), ("_WORTH", -1.0)):
        monkeypatch.setattr(subtrees, name, value)
    engine = Bab(attack=False, slopes=False, tightening=True)
    problem, _ = truth_of(46)
    verify(problem, engine=engine, checkpoint=tmp_path / "checkpoint", **ALONE)
    for path in all_kept[:: max(1, len(all_kept) // 4)]:
        result = verify(problem, engine=engine, resume=path, **ALONE)
        require_sound(result, 46)
        assert result.status is Status.CLOSED


def test_a_search_interrupted_again_and_again_ends(tmp_path: Path) -> None:
    """By the caller, who interrupts the search at moments of all kinds."""
    problem, _ = truth_of(41)
    path = tmp_path / "checkpoint"
    lower, upper = 0.0, float("inf")
    for patience in range(1, 40):
        left = [patience]

        def stop(progress: Progress, left: list[int] = left) -> bool:
            left[0] -= 1
            return left[0] > 0

        known = {"resume": path} if path.exists() else {"checkpoint": path}
        result = verify(problem, on_progress=stop, **ALONE, **known)
        require_sound(result, 41)
        if known == {"resume": path}:
            assert lower <= result.lower
            assert result.upper <= upper
        if path.exists():
            lower, upper = result.lower, result.upper
        if result.status is not Status.INTERRUPTED:
            break
    assert result.status in (Status.CLOSED, Status.ROBUST)


@pytest.mark.subprocess
@pytest.mark.parametrize("counts", [(0, 2), pytest.param((2, 0), marks=pytest.mark.slow)])
def test_any_number_of_workers_goes_on(
    counts: tuple[int, int], tmp_path: Path, all_kept: Kept, in_workers: None
) -> None:
    problem, _ = truth_of(46)
    path = tmp_path / "checkpoint"
    verify(problem, checkpoint=path, timeout=60.0, workers=counts[0])
    early = all_kept[len(all_kept) // 2]
    result = verify(problem, resume=early, timeout=60.0, workers=counts[1])
    require_sound(result, 46)
    assert result.status is Status.CLOSED


def test_a_full_disk_leaves_the_checkpoint_and_the_search(
    tmp_path: Path, all_kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, _ = truth_of(41)
    path = tmp_path / "checkpoint"
    sync, calls = os.fsync, [0]

    def full(descriptor: int) -> None:
        calls[0] += 1
        if calls[0] > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    monkeypatch.setattr(file.os, "fsync", full)
    result = verify(problem, checkpoint=path, **ALONE)
    require_sound(result, 41)
    assert calls[0] > 2
    assert any("No space left" in note for note in result.notes)
    assert path.read_bytes() == all_kept[-1].read_bytes()
    assert [each.name for each in tmp_path.glob(".*")] == []
    monkeypatch.setattr(file.os, "fsync", sync)
    assert verify(problem, resume=path, **ALONE).status is result.status


def test_a_checkpoint_is_never_overwritten_unless_it_is_resumed(
    tmp_path: Path, all_kept: Kept
) -> None:
    problem, _ = truth_of(65)
    path = tmp_path / "checkpoint"
    verify(problem, checkpoint=path, **ALONE)
    with pytest.raises(InvalidInput, match="exists already"):
        verify(problem, checkpoint=path, **ALONE)
    other = tmp_path / "other"
    before = all_kept[0].read_bytes()
    verify(problem, resume=all_kept[0], checkpoint=other, **ALONE)
    assert other.exists()
    assert all_kept[0].read_bytes() == before


def test_the_same_command_begins_and_goes_on(tmp_path: Path, all_kept: Kept) -> None:
    problem, _ = truth_of(65)
    path = tmp_path / "checkpoint"
    first = verify(problem, checkpoint=path, resume=path, **ALONE)
    assert not first.notes
    path.write_bytes(all_kept[0].read_bytes())
    again = verify(problem, checkpoint=path, resume=path, **ALONE)
    assert any("resumed after" in note for note in again.notes)
    assert again.status is first.status


def test_engines_without_a_tree_of_nodes_keep_nothing(tmp_path: Path) -> None:
    problem, _ = truth_of(65)
    with pytest.raises(InvalidInput, match="'checkpoint'"):
        verify(problem, engine=vhagar.Mip(), checkpoint=tmp_path / "checkpoint")
