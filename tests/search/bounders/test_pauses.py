"""LPs that pause: the search goes on with them later, and stays sound and certified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vhagar import Problem, Result, Status, verify
from vhagar.network import onnx_bytes
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.search import branch
from vhagar.search.bounders.base import Branched, Outcome
from vhagar.search.branch import Brancher
from vhagar.search.branch_and_bound import Bab
from vhagar.search.node import Node
from vhagar_check import check

from ...marks import mostly_slow
from ...networks import dense_network
from ...oracle.cases import Case
from ...oracle.exact import exact_optimum
from ...oracle.test_engines import require_sound

PERTURBATIONS = [
    ("linf(0.15)", True),
    ("brightness([0,0.3])", True),
    ("rotation(10)", True),
    ("brightness([0,0.3])", False),
    ("contrast([0.5,1.5])", False),
    ("occlusion([1,2],[1,2],2)", True),
]
ENGINE = Bab(attack=False, slopes=False)


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> list[Node]:
    """The nodes that are left until later; LPs pause after nearly every decrease."""
    found: list[Node] = []
    leave = Brancher.paused

    def noted(self: Brancher, node: Node, region_model: RegionModel) -> Branched:
        answer = leave(self, node, region_model)
        assert answer.outcome is Outcome.AGAIN
        found.extend(answer.children)
        return answer

    monkeypatch.setattr(branch, "_PAUSE", 0.99)
    monkeypatch.setattr(branch, "_SMALL_GAP", 0.0)
    monkeypatch.setattr(Brancher, "paused", noted)
    return found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    path.write_bytes(onnx_bytes(dense_network(8, 6, 3, seed=7)))
    return path


def searched(model: Path, text: str, clip: bool, **more: Any) -> Result:
    problem = Problem(model, perturbation=text, source=0, clip=clip)
    return verify(problem, engine=ENGINE, workers=0, timeout=60, relative_gap=0.01, **more)


@pytest.mark.parametrize(("text", "clip"), mostly_slow(PERTURBATIONS, 3))
def test_a_search_whose_lps_pause_closes_with_a_certificate(
    paused: list[Node], model: Path, tmp_path: Path, text: str, clip: bool
) -> None:
    path = tmp_path / "proof.cert"
    result = searched(model, text, clip, certificate=path)
    assert result.status in (Status.CLOSED, Status.ROBUST)
    verdict = check(path, model=model)
    assert verdict.upper >= result.upper
    assert verdict.upper <= result.upper * (1 + 1e-8) + 1e-8
    assert len({node.number for node in paused}) == len(paused)  # none pauses twice
    assert all(node.rounds == 1 and node.decisions for node in paused)


def test_some_nodes_are_left_until_later(paused: list[Node], model: Path) -> None:
    """Otherwise the test above would show nothing."""
    searched(model, "linf(0.15)", True)
    assert paused


def test_the_answer_is_the_same(
    model: Path, paused: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = searched(model, "linf(0.15)", True)
    monkeypatch.setattr(branch, "_PAUSE", 0.0)
    paused.clear()
    without = searched(model, "linf(0.15)", True)
    assert not paused
    assert without.lower <= found.upper
    assert found.lower <= without.upper


@pytest.mark.parametrize("number", mostly_slow(range(24), 4))
@pytest.mark.usefixtures("paused")
def test_the_exact_answer_is_inside(number: int) -> None:
    problem = Case(number).problem()
    result = verify(problem, engine=ENGINE, workers=0, timeout=5)
    require_sound(problem, exact_optimum(problem), result)
