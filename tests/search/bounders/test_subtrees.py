"""Subtrees with tighter hexagons: the search stays sound and certified, and uses them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vhagar import Problem, Result, verify
from vhagar.network import onnx_bytes
from vhagar.relaxation.layerwise import Tightening
from vhagar.search.bounders import subtrees
from vhagar.search.branch_and_bound import Bab
from vhagar.search.node import Region
from vhagar_check import check
from vhagar_check.container import scan

from ...marks import mostly_slow
from ...networks import dense_network
from ...oracle.cases import Case
from ...oracle.exact import exact_optimum
from ...oracle.test_engines import require_sound
from ..proven import Proven

PERTURBATIONS = [
    ("rotation(10)", True),
    ("brightness([0,0.3])", False),
    ("brightness([0,0.3])", True),
    ("contrast([0.5,1.5])", False),
    ("occlusion([1,2],[1,2],2)", True),
    ("linf(0.15)", True),
]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node is tightened after each decision, whatever it costs and brings."""
    for name, value in (("_EVERY", 1), ("_WORK_AT_FIRST", 1e15), ("_WORTH", -1.0)):
        monkeypatch.setattr(subtrees, name, value)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    path.write_bytes(onnx_bytes(dense_network(8, 6, 3, seed=7)))
    return path


def searched(model: Path, text: str, clip: bool, **more: Any) -> tuple[Problem, Result]:
    problem = Problem(model, perturbation=text, source=0, clip=clip)
    engine = Bab(attack=False, slopes=False, tightening=True)
    return problem, verify(problem, engine=engine, workers=0, timeout=300, relative_gap=0.1, **more)


@pytest.mark.parametrize(("text", "clip"), mostly_slow(PERTURBATIONS, 3))
@pytest.mark.usefixtures("eager")
def test_what_rests_on_tightened_bounds_is_certified(
    model: Path, tmp_path: Path, text: str, clip: bool
) -> None:
    path = tmp_path / "proof.cert"
    problem, result = searched(model, text, clip, certificate=path)
    assert "TIGH" in [block.tag for block in scan(path)]
    verdict = check(path, model=model)
    assert verdict.upper >= result.upper
    assert verdict.upper <= result.upper * (1 + 1e-8) + 1e-8
    proven = Proven(path, problem)
    for target in problem.search_targets:
        assert proven.upper(target) <= result.targets[target].upper


@pytest.mark.parametrize(("text", "clip"), mostly_slow(PERTURBATIONS, 3))
def test_the_answer_is_the_same(
    model: Path, text: str, clip: bool, eager: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, tightened = searched(model, text, clip)
    monkeypatch.setattr(subtrees.SubtreeTightener, "is_due", lambda *_: False)
    _, plain = searched(model, text, clip)
    assert tightened.lower <= plain.upper
    assert plain.lower <= tightened.upper
    assert tightened.status is plain.status


@pytest.mark.parametrize("number", mostly_slow(range(48), 6))
@pytest.mark.usefixtures("eager")
def test_the_interval_holds_the_exact_optimum(number: int) -> None:
    problem = Case(number).problem()
    result = verify(
        problem, engine=Bab(attack=False, slopes=False, tightening=True), workers=0, timeout=5
    )
    require_sound(problem, exact_optimum(problem), result)


def test_a_region_knows_its_tightening_by_its_digest() -> None:
    first, same, other = (Tightening(name, 1.0, 2, ()) for name in (b"a", b"a", b"b"))
    assert Region(3, 0, (), first) == Region(3, 0, (), same)
    assert hash(Region(3, 0, (), first)) == hash(Region(3, 0, (), same))
    assert Region(3, 0, (), first) != Region(3, 0, (), other)
    assert Region(3, 0, (), first).whole == Region(3, 0)
