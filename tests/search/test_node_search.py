"""What comes first: the first attack, and the ceiling only where no input is confident enough."""

from __future__ import annotations

import math

import numpy as np
import pytest

import vhagar
from vhagar import Network, Problem
from vhagar.network import Affine, Relu
from vhagar.runtime.deadline import Deadline
from vhagar.search import node_search
from vhagar.search.branch_and_bound import Bab
from vhagar.search.ceiling import Ceiling
from vhagar.search.node_search import NodeSearch
from vhagar.search.worker import AnyTask, CeilingTask, SearchWorker


@pytest.fixture(scope="module")
def network() -> Network:
    rng = np.random.default_rng(2)
    layers: list[Affine | Relu] = []
    for into, out in ((6, 10), (10, 8), (8, 3)):
        weight, bias = rng.normal(size=(out, into)), 0.5 * rng.normal(size=out)
        layers += [Affine(weight, bias, (into,), (out,)), Relu((out,))]
    return Network(tuple(layers[:-1]), (6,))


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens in a search, in order: attacks and tasks."""
    found: list[str] = []
    work = SearchWorker.work

    def recorded(self: SearchWorker, task: AnyTask, most: int, *rest: object, **more: object):  # type: ignore[no-untyped-def]
        if most > len(task.nodes):  # first bounds are as many as the roots
            found.append("task")
        return work(self, task, most, *rest, **more)  # type: ignore[arg-type]

    def attacked(self: NodeSearch, deadline: Deadline) -> None:
        found.append("attack")

    monkeypatch.setattr(node_search, "_ALONE", 600.0)  # no process is worth its start
    monkeypatch.setattr(SearchWorker, "work", recorded)
    monkeypatch.setattr(NodeSearch, "attack_first", attacked)
    return found


def search(network: Network, workers: int, targets: list[int]) -> vhagar.Result:
    problem = Problem(network, perturbation="linf(0.05)", source=0, targets=targets)
    engine = Bab(attack=False, inputs=False)
    return vhagar.verify(problem, engine=engine, workers=workers, relative_gap=0.3, timeout=60)


@pytest.mark.parametrize("workers", [1, 2])
def test_several_targets_are_attacked_before_the_first_node(
    network: Network, events: list[str], workers: int
) -> None:
    search(network, workers, [1, 2])
    assert events[0] == "attack"
    assert "task" in events
    assert events.count("attack") == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_one_target_of_a_small_problem_is_attacked_once_some_nodes_led_to_no_witness(
    network: Network, events: list[str], workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_search, "_BEFORE_FIRST_ATTACK", 12)
    monkeypatch.setattr(NodeSearch, "_take_witness", lambda *_: None)
    search(network, workers, [1])
    assert events[0] == "task"
    assert events.count("attack") == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_a_small_problem_with_a_witness_is_not_attacked_first(
    network: Network, events: list[str], workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_search, "_BEFORE_FIRST_ATTACK", 12)
    result = search(network, workers, [1])
    assert result.lower > 0
    assert "attack" not in events


@pytest.mark.parametrize(("within_reach", "wanted"), [(0.0, True), (math.inf, False)])
def test_the_ceiling_is_not_bounded_where_an_input_is_more_confident(
    network: Network, within_reach: float, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[AnyTask] = []
    work = SearchWorker.work

    def recorded(self: SearchWorker, task: AnyTask, *rest: object, **more: object):  # type: ignore[no-untyped-def]
        tasks.append(task)
        return work(self, task, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(SearchWorker, "work", recorded)
    monkeypatch.setattr(Ceiling, "probe", lambda self, seed: setattr(self, "lower", within_reach))
    search(network, 1, [1])
    assert any(isinstance(task, CeilingTask) for task in tasks) == wanted
