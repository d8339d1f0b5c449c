"""The search by slopes gives every target a turn before it is compared with the search by signs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import vhagar
from vhagar.network import Affine, Network, Relu
from vhagar.search import attack_beside, node_search
from vhagar.search.node import Closed, Node, Numbers
from vhagar.search.node_selection import Frontiers
from vhagar.search.node_solver import Explored
from vhagar.search.slope_search import SlopeSearch
from vhagar.search.worker import AnyTask, SignTask, SlopeTask


def question() -> vhagar.Problem:
    """An untargeted question with three targets."""
    rng = np.random.default_rng(0)
    layers: list[Affine | Relu] = []
    for into, out in ((6, 10), (10, 8), (8, 4)):
        weight, bias = rng.normal(size=(out, into)), rng.normal(size=out)
        layers += [Affine(weight, bias, (into,), (out,)), Relu((out,))]
    return vhagar.Problem(Network(tuple(layers[:-1]), (6,)), perturbation="linf(0.05)", source=0)


def bounded(node: Node, upper: float) -> Explored:
    """The report on a root whose bound has become `upper`, and nothing is left to do."""
    closed, target = Closed(), node.region.target
    closed.add(target, upper)
    return Explored([], closed, 1, floors={target: upper / 2})


def test_the_worst_target_comes_first_by_what_is_known_now() -> None:
    known = {1: 9.0, 2: 9.0, 3: 9.0}
    search = SlopeSearch(question(), True, known.__getitem__)
    known.update({1: 3.0, 2: 8.0, 3: 5.0})
    order = []
    for _ in known:
        task = search.next_task(0, 1, 0.0, idle=True, most=1)
        assert task is not None
        (node,) = task.nodes
        assert node.upper == known[node.region.target]
        order.append(node.region.target)
        search.put_back(0, bounded(node, 1.0), underway=False)
    assert order == [2, 3, 1]


@pytest.mark.parametrize(("upper", "turns"), [(1.0, 3), (9.0, 2)])
def test_targets_without_a_turn_get_one_while_slopes_help_the_others(
    upper: float, turns: int
) -> None:
    """The worst target's bound stays as it is until its turn, which says nothing about slopes."""
    known = {1: 9.0, 2: 8.0, 3: 7.0}
    search = SlopeSearch(question(), True, known.__getitem__)
    found = 0
    for _ in range(6):  # both searches take as long for every task
        search.spent(1.0, by_slopes=False)
        task = search.next_task(0, 1, 0.0, most=1)
        if task is not None:
            found += 1
            (node,) = task.nodes
            search.put_back(0, bounded(node, min(upper, node.upper)), underway=False)
            search.spent(1.0, by_slopes=True)
    assert found == turns


@pytest.mark.parametrize("text", ["linf(0.05)", "brightness([-0.1,0.1])"])
def test_roots_that_slopes_do_not_help_leave_time_for_the_others(text: str) -> None:
    """Every root is bounded once; then the search by signs has its turn."""
    given = question()
    problem = vhagar.Problem(given.network, perturbation=text, source=0)
    search, numbers = SlopeSearch(problem, True, lambda _: 9.0), Numbers()
    order = []
    while (task := search.next_task(0, 1, 0.0, most=1)) is not None:
        (node,) = task.nodes
        assert not node.decisions
        assert not node.rounds
        order.append((node.region.target, node.region.piece_index))
        assert len(order) <= len(problem.targets) * len(problem.pieces)
        parts = [replace(node, number=numbers(), rounds=1) for _ in range(2)]
        explored = Explored(parts, Closed(), 1, floors={node.region.target: 3.0})
        search.put_back(0, explored, underway=False)
        search.spent(1.0, by_slopes=True)
    assert len(set(order)) == len(problem.targets) * len(problem.pieces)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("targets", "first"), [([1], SignTask), ([1, 2], SlopeTask)])
def test_a_small_problem_with_one_target_begins_with_signs(
    workers: int, targets: list[int], first: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First bounds use up none of the head start; with several targets, slopes bound them all."""
    tasks = []
    next_task = Frontiers.next_task

    def recorded(self: Frontiers, worker: int, count: int) -> AnyTask | None:
        tasks.append(next_task(self, worker, count))
        return tasks[-1]

    monkeypatch.setattr(Frontiers, "next_task", recorded)
    network = question().network
    problem = vhagar.Problem(network, perturbation="linf(0.05)", source=0, targets=targets)
    vhagar.verify(problem, engine=vhagar.Bab(attack=False), workers=workers, timeout=60)
    assert type(tasks[0]) is first


def test_one_process_attacks_and_results_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    attacks = []
    monkeypatch.setattr(node_search, "_BEFORE_ATTACK", 0)
    attack_alone = attack_beside.attack_alone
    monkeypatch.setattr(
        attack_beside, "attack_alone", lambda *given: (attacks.append(1), attack_alone(*given))
    )
    problem = question()
    first, second = (vhagar.verify(problem, timeout=60, workers=1) for _ in range(2))
    assert len(attacks) == 2
    assert (first.lower, first.upper, first.nodes) == (second.lower, second.upper, second.nodes)


def test_no_attack_begins_that_could_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_search, "_BEFORE_ATTACK", 0)
    monkeypatch.setattr(node_search.NodeSearch, "_can_import_torch", lambda *_: False)
    there_is_none = lambda *given: pytest.fail("there is no time")  # noqa: E731
    monkeypatch.setattr(attack_beside, "attack_alone", there_is_none)
    assert vhagar.verify(question(), timeout=60, workers=1).nodes > 0
