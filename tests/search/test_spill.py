"""Beyond a limit nodes are on disk, and nobody notices."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Status, verify
from vhagar.search import open_heaps
from vhagar.search.frontier import Frontier
from vhagar.search.node import Closed, Node, Region
from vhagar.search.node_solver import Explored

from ..oracle.cases import Case
from ..oracle.exact import exact_optimum, overall
from .test_frontier import (
    test_bounds_never_forget_a_node,
    test_what_is_lent_counts_until_it_is_back,
)

LIMITS = (0, 1, 7)


@pytest.fixture(params=LIMITS)
def little_memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_heaps, "MOST_IN_MEMORY", request.param)


def test_the_best_node_comes_first_wherever_it_is(little_memory: None) -> None:
    rng = np.random.default_rng(0)
    nodes = [Node(Region(int(k % 2), 0), float(rng.random()), k) for k in range(200)]
    frontier = Frontier(nodes)
    waiting = sorted(node.upper for node in nodes)
    while waiting:
        assert len(frontier) == len(waiting)
        assert frontier.best() == waiting[-1] == max(frontier.uppers((0, 1)).values())
        assert len(list(frontier.kept()[0])) == len(waiting)
        (taken,) = frontier.take(0, 1)
        assert taken.upper == waiting.pop()
        children = [
            Node(taken.region, taken.upper * float(rng.random()), number)
            for number in (1000, 2000)[: 2 * int(rng.random() < 0.3)]
        ]
        frontier.put_back(0, Explored(children, Closed(), 1))
        waiting = sorted(waiting + [child.upper for child in children])
    assert not len(frontier)


def test_no_bound_is_forgotten(little_memory: None) -> None:
    test_bounds_never_forget_a_node()
    test_what_is_lent_counts_until_it_is_back()


def test_a_target_that_is_closed_takes_its_nodes_from_the_disk(little_memory: None) -> None:
    frontier = Frontier(Node(Region(k % 2, 0), float(k), k) for k in range(40))
    frontier.close(1)
    assert len(frontier) == 20
    assert frontier.uppers((0, 1)) == {0: 38.0, 1: 39.0}
    assert len(frontier.take_piece(0, 0)) == 20
    assert frontier.uppers((0, 1)) == {0: 38.0, 1: 39.0}


def test_on_a_full_disk_nodes_stay_in_memory(
    little_memory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    frontier = Frontier(Node(Region(1, 0), float(k), k) for k in range(40))
    assert [node.upper for node in frontier.take(0, 40)] == [float(k) for k in range(39, -1, -1)]


@pytest.mark.parametrize("number", [41, 46])
def test_a_search_with_little_memory_closes_and_goes_on(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_heaps, "MOST_IN_MEMORY", 1)
    problem = Case(number).problem()
    truth = overall(exact_optimum(problem))
    path = tmp_path / "checkpoint"
    for known in ({"checkpoint": path, "timeout": 0.5}, {"resume": path, "timeout": 60.0}):
        result = verify(problem, workers=0, **known)  # type: ignore[arg-type]
        assert result.lower <= truth.high
        assert truth.low <= result.upper
    assert result.status is Status.CLOSED
