"""Asking for a certificate changes nothing about the search, whatever bounds the nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vhagar import Problem, Result, verify
from vhagar.network import onnx_bytes, read_onnx
from vhagar.search.bounders.gpu import driver
from vhagar.search.branch_and_bound import Bab, FirstOrder
from vhagar.search.node_solver import Explored, NodeSolver
from vhagar_check import check

from ..marks import mostly_slow
from ..networks import dense_network

PATIENCE = 60.0
# How much of a search is looked at.
QUANTA = 12


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    path.write_bytes(onnx_bytes(dense_network(14, 10, 3, seed=53)))
    return path


Settings = dict[str, Any]
LP: Settings = {"engine": Bab(attack=False), "workers": 0, "relative_gap": 0.02}
GPU: Settings = {**LP, "engine": Bab(attack=False, gpu=True), "device": "cpu"}
FIRST_ORDER: Settings = {**GPU, "engine": FirstOrder(attack=False)}
CASES: dict[str, tuple[str, bool, Settings]] = {
    "lp": ("linf(0.15)", True, {**LP, "engine": Bab(attack=False, slopes=False)}),
    "lp and slopes": ("linf(0.15)", True, LP),
    "lp, several pieces": ("occlusion([1,2],[1,2],2)", True, LP),
    "lp, clipped pixels and splits": ("contrast([0.8,1.5])", True, LP),
    "contrast as a linear question": ("contrast([0.5,1.5])", False, LP),
    "lp and gpu": ("linf(0.15)", True, GPU),
    "first order": ("linf(0.15)", True, FIRST_ORDER),
    "first order, several pieces": ("occlusion([1,2],[1,2],2)", True, FIRST_ORDER),
    "contrast, lp and gpu": ("contrast([0.5,1.5])", False, GPU),
}


def searched(
    model: Path, text: str, clip: bool, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> tuple[Result, list[Any]]:
    """The result, and which nodes were explored, batch by batch, with what bounds."""
    visits: list[Any] = []
    explore_heap = NodeSolver.explore_heap

    def watched(self: NodeSolver, heap: Any, *arguments: Any, **named: Any) -> Explored:
        if len(visits) == QUANTA:
            raise KeyboardInterrupt  # as if somebody had pressed Ctrl-C: always at the same moment
        given = [(node.region, node.decisions, node.upper) for node in heap.nodes()]
        explored = explore_heap(self, heap, *arguments, **named)
        left = [(node.region, node.decisions, node.upper) for node in heap.nodes()]
        visits.append((given, left, explored.nodes, explored.closed.uppers))
        return explored

    monkeypatch.setattr(NodeSolver, "explore_heap", watched)
    problem = Problem(read_onnx(model), perturbation=text, source=0, clip=clip)
    result = verify(problem, **settings)
    monkeypatch.undo()
    return result, visits


@pytest.mark.parametrize("name", mostly_slow(list(CASES), 3))
def test_the_same_nodes_and_the_same_interval(
    name: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, clip, settings = CASES[name]
    path = tmp_path / "proof.cert"
    without, plain = searched(model, text, clip, settings, monkeypatch)
    certified = {**settings, "certificate": path}
    result, visits = searched(model, text, clip, certified, monkeypatch)
    assert result.nodes == without.nodes > 1
    assert visits == plain
    assert result.lower == without.lower
    # The statement of an upper bound leaves room for the rounding of whoever checks it.
    assert without.upper <= result.upper <= without.upper + 3e-9 * without.history[0].upper
    verdict = check(path, model=model)
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)


@pytest.mark.subprocess
@pytest.mark.parametrize("lags", mostly_slow([False, True], 2))
def test_what_is_bounded_in_batches_beside_the_search_is_proved(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lags: bool
) -> None:
    """Also where a process loses its nodes to others, which branch them a second time."""
    monkeypatch.setattr(driver, "_RESERVED", 0)
    monkeypatch.setattr(driver, "_WORTHWHILE", 1)
    if lags:
        monkeypatch.setattr(driver.GpuProcess, "_lags", lambda self, own, others: bool(self._held))
    path = tmp_path / "proof.cert"
    problem = Problem(read_onnx(model), perturbation="linf(0.2)", source=0)
    settings = {**GPU, "workers": 2, "relative_gap": 0.01, "certificate": path}
    result = verify(problem, timeout=PATIENCE, **settings)
    assert not result.notes
    assert check(path, model=model).upper == result.upper
