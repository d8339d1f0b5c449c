"""The maximal confidence as a ceiling: no answer is above what a search for it alone proves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vhagar import Bab, Problem, verify
from vhagar.runtime.deadline import OutOfTime
from vhagar.search.branch_and_bound import FirstOrder
from vhagar.search.ceiling import Ceiling, CeilingTime
from vhagar.search.frontier import Frontier
from vhagar.search.node_search import NodeSearch
from vhagar.search.node_selection import Frontiers
from vhagar.search.node_solver import Explored
from vhagar.search.rounds import SearchInRounds
from vhagar.search.worker import AnyTask, CeilingTask, SearchWorker, SignTask

from ..relaxation.samples import network_of
from .test_rounds import dense_network

HERE: dict[str, Any] = {"workers": 0, "device": "cpu"}
# From "the difference says more" to "the ceiling says more"; the last one has nine pieces.
TEXTS = ("linf(0.02)", "linf(0.2)", "linf(1)", "translation([-1,1],[-1,1])")
# Tasks of small problems before the ceiling has any.
HEAD_START = 6


@pytest.mark.parametrize("build", ["plain", "convolution", "larger of pairs", "residual"])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("fits", [True, False], ids=["by programs", "in rounds"])
def test_first_bounds_are_never_above_those_of_the_confidence(
    build: str, text: str, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes before any search: interval arithmetic, quick slopes, slopes of pairs."""
    monkeypatch.setattr("vhagar.search.branch_and_bound.programs_fit", lambda *_: fits)
    monkeypatch.setattr(NodeSearch, "in_this_process", lambda *_: True)
    monkeypatch.setattr(SearchInRounds, "_bound_in_rounds", lambda *_: None)
    engine = Bab(attack=False, inputs=False)
    for seed in range(4):
        network = network_of(build, np.random.default_rng([seed, len(build)]))
        problem = Problem(network, perturbation=text, source=0)
        alone = verify(problem.without_perturbation(), engine=engine, **HERE)
        assert verify(problem, engine=engine, **HERE).upper <= alone.upper


class Stopped:
    """Searches in this process that stop after a number of tasks, and the tasks of the last one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tasks: list[AnyTask | None] = []
        self._most = 0
        plain = Frontiers.next_task

        def next_task(frontiers: Frontiers, *given: Any) -> AnyTask | None:
            if len(self.tasks) >= self._most:
                raise OutOfTime
            self.tasks.append(plain(frontiers, *given))
            return self.tasks[-1]

        monkeypatch.setattr(Frontiers, "next_task", next_task)

    def after(self, tasks: int, problem: Problem) -> float:
        """The upper bound after so many tasks."""
        self.tasks, self._most = [], tasks
        return verify(problem, engine=Bab(attack=False, inputs=False), **HERE).upper


def test_with_twice_the_work_the_bound_is_not_above_that_of_the_confidence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A strong perturbation, of which only the ceiling says something: it has half of the tasks."""
    stopped = Stopped(monkeypatch)
    problem = Problem(dense_network(16, 20, 3), perturbation="linf(1)", source=0, targets=[1])
    first = stopped.after(0, problem)
    for tasks in (2, 4, 8):
        alone = stopped.after(tasks, problem.without_perturbation())
        assert stopped.after(2 * tasks + HEAD_START, problem) <= alone < first


def test_a_ceiling_that_says_nothing_has_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = Stopped(monkeypatch)
    problem = Problem(dense_network(16, 20, 3), perturbation="linf(0.05)", source=0, targets=[1])
    stopped.after(40, problem)
    assert len(stopped.tasks) == 40
    assert sum(isinstance(task, CeilingTask) for task in stopped.tasks) <= 0.3 * 40


def test_a_ceiling_that_can_hardly_fall_has_no_time_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It bounds the answer, and a known input is nearly as confident: more work gains nothing."""
    stopped = Stopped(monkeypatch)
    problem = Problem(dense_network(16, 20, 3), perturbation="linf(1)", source=0, targets=[1])
    counts = []
    for share in (0.0, 1.0):  # the second: whatever is known counts as nearly as confident
        monkeypatch.setattr("vhagar.search.ceiling._LITTLE", share)
        stopped.after(30, problem)
        counts.append(sum(isinstance(task, CeilingTask) for task in stopped.tasks))
    assert counts[1] < counts[0] / 2


def test_a_ceiling_has_half_of_the_time_while_it_bounds_the_answer() -> None:
    """It begins, and then comes next when it has had less than all others, or less than its share
    where something better is known."""
    problem = Problem(dense_network(16, 20, 3), perturbation="linf(1)", source=0, targets=[1])
    ceiling, time = Ceiling(problem, 2.0, lambda nodes, _: Frontier(nodes)), CeilingTime()

    def is_next(
        answer: float = 2.0, binds: bool = True, under_way: float = 0.0, lower: float = 0.0
    ) -> bool:
        return time.is_next(ceiling, answer, lower, binds, under_way, in_rounds=False)

    assert is_next()
    assert not is_next(binds=False)
    time.spent = 1.0
    assert not is_next()
    assert is_next(under_way=1.5)
    time.on_others = 1.5
    assert is_next()
    assert not is_next(answer=1.9, binds=False)  # a quarter of what the others have had
    time.on_others = 5.0
    assert is_next(answer=1.9, binds=False)
    assert not is_next(answer=1.0, binds=False)  # a twentieth
    ceiling.lower = 1.999  # hardly anything is left to gain
    assert not is_next()
    assert is_next(lower=1.99)  # the others cannot gain more
    time.spent = 15.0
    assert is_next(lower=1.99)  # so it has four times as much
    assert not is_next(answer=1.9, binds=False, lower=1.99)
    time.spent = 20.0
    assert not is_next(lower=1.99)


def test_the_search_for_the_ceiling_knows_the_attacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attack is a confident input: below it, there is nothing to search for."""
    problem = Problem(dense_network(16, 20, 3), perturbation="linf(1)", source=0, targets=[1])
    stopped = Stopped(monkeypatch)
    stopped.after(20, problem)
    best = [task.lower for task in stopped.tasks if isinstance(task, SignTask)]
    asked = [task.lower for task in stopped.tasks if isinstance(task, CeilingTask)]
    assert best[-1] > 0
    assert max(asked) >= best[-1]


def test_the_first_bounds_of_the_ceiling_know_the_attacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the search for the ceiling does: nothing below an attack is worth a bound."""
    monkeypatch.setattr(SearchInRounds, "_bound_in_rounds", lambda *_: None)
    monkeypatch.setattr(SearchInRounds, "_attack_last", lambda *_: None)
    asked: list[float] = []
    plain = SearchWorker.work

    def work(worker: SearchWorker, task: AnyTask, *given: Any, **named: Any) -> Explored:
        if isinstance(task, CeilingTask):
            asked.append(task.lower)
        return plain(worker, task, *given, **named)

    monkeypatch.setattr(SearchWorker, "work", work)
    problem = Problem(dense_network(16, 20, 3), perturbation="linf(1)", source=0, targets=[1])
    result = verify(problem, engine=FirstOrder(), **HERE)
    assert result.lower > 0
    assert asked[-1] == result.lower


def test_work_is_estimated_in_the_same_way_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """LPs for the ceiling are the smaller ones: they count for what they take, not by the task."""
    found: list[tuple[type[AnyTask], float]] = []
    plain = SearchWorker.work

    def work(worker: SearchWorker, task: AnyTask, *given: Any, **named: Any) -> Explored:
        explored = plain(worker, task, *given, **named)
        found.append((type(task), explored.work))
        return explored

    monkeypatch.setattr(SearchWorker, "work", work)
    stopped = Stopped(monkeypatch)
    problem = Problem(dense_network(16, 20, 3), perturbation="linf(1)", source=0, targets=[1])
    stopped.after(20, problem)
    first, found = found, []
    stopped.after(20, problem)
    assert found == first
    each = {
        kind: [work for of, work in first if of is kind and work]
        for kind in (SignTask, CeilingTask)
    }
    assert np.mean(each[CeilingTask]) < np.mean(each[SignTask])
