"""Cuts that one worker finds serve the others, too."""

from __future__ import annotations

import itertools
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from vhagar import Problem
from vhagar.options import Options
from vhagar.reduction.base import reduce_problem
from vhagar.relaxation.cone_cuts import ConeCut
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.result import Run
from vhagar.runtime.deadline import NEVER, OutOfTime
from vhagar.search import search_pool
from vhagar.search.bounders.base import CutsFound
from vhagar.search.bounders.lp import LpBounder
from vhagar.search.incumbent import Incumbent
from vhagar.search.node import Node, Region
from vhagar.search.node_search import NodeSearch
from vhagar.search.search_pool import SearchPool
from vhagar.search.worker import SearchWorker, lp_bounders

from ..oracle.exact import exact_optimum
from ..scripted_pool import ScriptedPool
from .test_cone_cutting import cut_everywhere, halves

ROOT = Node(Region(1, 0), 1e9, 0)


def bounder_of(problem: Problem, found: list[Any]) -> LpBounder:
    numbers = itertools.count(1)
    return LpBounder(reduce_problem(problem, ()), found.append, lambda: next(numbers))


def upper_of(bounder: LpBounder, problem: Problem) -> float:
    return bounder.bound([ROOT], Incumbent(problem, Options()))[0].upper


def cuts_in(found: list[Any]) -> list[CutsFound]:
    return [message for message in found if isinstance(message, CutsFound)]


def test_a_bounder_takes_over_the_cuts_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = 0
    for seed in (18, 23, 27, 41, 53):
        problem = Problem(halves(seed), perturbation="linf(0.4)", source=0, targets=1)
        truth = exact_optimum(problem)[1]
        found: list[Any] = []
        with monkeypatch.context() as patch:
            cut_everywhere(patch)
            with_cuts = upper_of(bounder_of(problem, found), problem)
        without = upper_of(bounder_of(problem, []), problem)
        second = bounder_of(problem, own := [])
        for message in cuts_in(found):
            second.take_cuts(message)
        upper = upper_of(second, problem)
        # It finds none of its own here, and its bound is as good as with those of the other.
        assert not cuts_in(own)
        assert truth.low <= max(Fraction(upper), Fraction(0))  # 0 where nothing is attackable
        assert upper <= with_cuts + 1e-3
        shared += bool(cuts_in(found)) and upper < without - 1e-3
    assert shared


def test_a_bound_stays_where_the_time_ends_in_a_round_of_cuts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = Problem(halves(18), perturbation="linf(0.4)", source=0, targets=1)
    without = upper_of(bounder_of(problem, []), problem)
    cut_everywhere(monkeypatch)
    separate = RegionModel.separate
    uppers = []
    for most in (0, 1):
        rounds: list[int] = []

        def until_out_of_time(
            *given: Any, rounds: list[int] = rounds, most: int = most
        ) -> list[ConeCut]:
            if len(rounds) == most:
                raise OutOfTime
            rounds.append(1)
            return separate(*given)

        monkeypatch.setattr(RegionModel, "separate", until_out_of_time)
        uppers.append(upper_of(bounder_of(problem, []), problem))
        assert len(rounds) == most
    assert uppers[0] == without
    assert uppers[1] < without


def test_cuts_about_no_target_are_the_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(halves(18), perturbation="linf(0.4)", source=0, targets=1)
    taken: list[tuple[Problem, Region]] = []

    def taking(bounder: LpBounder, found: CutsFound) -> None:
        taken.append((bounder._problem, found.region))

    monkeypatch.setattr(LpBounder, "take_cuts", taking)
    worker = SearchWorker(reduce_problem(problem, ()), Options(), lp_bounders(lambda found: None))
    for target in (1, None):
        worker.take_cuts(CutsFound(Region(target, 0), []))
    (signs, first), (ceiling, second) = taken
    assert (first.target, second.target) == (1, None)
    assert signs.perturbation is not None
    assert ceiling.perturbation is None


def test_all_others_that_have_started_hear_of_cuts() -> None:
    heard: list[tuple[int, Any]] = []

    def script(job: Any, message: Any) -> None:
        heard.append((job[1].number, message))

    problem = Problem(halves(18), perturbation="linf(0.4)", source=0, targets=1)
    with ScriptedPool(script) as pool:
        workers = SearchPool(Run(problem, Options()), pool, 4, NEVER)
        workers.start(4)
        for name in (0, 1, 2):  # the last one has not started yet
            workers.mark_ready(name)
        heard.clear()
        message = CutsFound(Region(1, 0), [])
        workers.tell_others(1, message)
    assert sorted(name for name, _ in heard) == [0, 2]
    assert all(told is message for _, told in heard)


def test_a_worker_that_finds_cuts_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node may have many rounds of cuts before its bound is reported."""
    now = [0.0]
    monkeypatch.setattr(search_pool, "time", SimpleNamespace(monotonic=lambda: now[0]))
    problem = Problem(halves(18), perturbation="linf(0.4)", source=0, targets=1)
    search: Any = SimpleNamespace(_attack=None, _gpu=None)
    with ScriptedPool(lambda job, message: None) as pool:
        workers = SearchPool(Run(problem, Options()), pool, 2, NEVER)
        workers.start(2)
        for name in (0, 1):
            workers.mark_ready(name)
        workers.give(0, None)
        now[0] += 59.0
        NodeSearch._handle(search, 0, CutsFound(Region(1, 0), []), workers)
        now[0] += 59.0
        assert not workers.replace_silent()
        now[0] += 10 * 59.0
        assert workers.replace_silent() == [0]
