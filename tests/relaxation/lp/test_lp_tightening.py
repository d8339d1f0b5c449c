"""Hexagons tightened by LP hold every input of the perturbation, exactly."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import vhagar
from vhagar import verify
from vhagar.relaxation.layerwise import TwinBounds, quick_bounds
from vhagar.relaxation.lp import lp_tightening as tighten
from vhagar.relaxation.lp.lp_tightening import is_local, tighten_pairs
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.search.branch_and_bound import Bab
from vhagar.solver.lp_answer import LpAnswer, LpStatus
from vhagar.solver.simplex import Simplex

from ...oracle.cases import KINDS
from ...pooled import pooled_problem
from ...search.nodes import every_kind, everything
from ..test_layerwise import require_inside


def tightened(bounds: TwinBounds) -> TwinBounds:
    """Layer after layer, each on top of the tightened ones before."""
    found = quick_bounds(bounds.network, bounds.piece)
    for layer in range(len(found.hexagons)):
        tighten_pairs(found, layer)
    return found


@every_kind
def test_inputs_stay_inside(kind: str) -> None:
    for found in everything(kind):
        bounds, attacked = tightened(found.region_model.bounds), found.attacked
        for layer, hexagons in enumerate(bounds.hexagons):
            first, second = attacked.first.entering[layer], attacked.second.entering[layer]
            require_inside(hexagons, first, second)


@pytest.mark.parametrize("seed", range(3))
def test_they_are_tighter(seed: int) -> None:
    """Behind the first layer, whose bounds are exact, a good part of the gaps goes."""
    problem = pooled_problem(seed)
    known = quick_bounds(problem.network, problem.pieces[0])
    before, after = 0.0, 0.0
    for old, new in zip(known.hexagons[1:], tightened(known).hexagons[1:], strict=True):
        for name in ("lower", "lower_p", "gap_lower"):
            assert (getattr(new, name) >= getattr(old, name)).all()
        for name in ("upper", "upper_p", "gap_upper"):
            assert (getattr(new, name) <= getattr(old, name)).all()
        before += float((old.gap_upper - old.gap_lower).sum())
        after += float((new.gap_upper - new.gap_lower).sum())
    assert after < 0.95 * before


@pytest.mark.parametrize("seed", range(3))
def test_an_occlusion_is_local_and_its_bound_gets_better(seed: int) -> None:
    problem = pooled_problem(seed)
    bounds = quick_bounds(problem.network, problem.pieces[0])
    assert is_local(bounds)
    quick = RegionModel(problem, bounds, 1).evaluate((), math.inf).upper
    better = RegionModel(problem, tightened(bounds), 1).evaluate((), math.inf).upper
    assert better < quick
    everywhere = pooled_problem(seed, "linf(0.1)")
    assert not is_local(quick_bounds(everywhere.network, everywhere.pieces[0]))


def test_without_work_no_lp_is_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tighten, "_WORK", 0)
    monkeypatch.setattr(Simplex, "solve", None)
    problem = pooled_problem(1)
    bounds = quick_bounds(problem.network, problem.pieces[0])
    for old, new in zip(bounds.hexagons, tightened(bounds).hexagons, strict=True):
        assert (new.upper <= old.upper).all()


def test_lies_lose_no_input(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(19)

    def lie(simplex: Simplex, *_: object, **__: object) -> LpAnswer:
        rows = len(simplex._scaled.row_lower)
        duals = 10.0 ** rng.integers(-3, 4, rows) * rng.normal(size=rows)
        return LpAnswer(LpStatus.OPTIMAL, duals, None, 0.0, 1)

    monkeypatch.setattr(Simplex, "solve", lie)
    for kind in KINDS:
        for found in everything(kind):
            bounds, attacked = tightened(found.region_model.bounds), found.attacked
            for layer, hexagons in enumerate(bounds.hexagons):
                first, second = attacked.first.entering[layer], attacked.second.entering[layer]
                require_inside(hexagons, first, second)


def test_a_certificate_of_tightened_layers_is_accepted(tmp_path: Path) -> None:
    from vhagar_check import check

    problem = pooled_problem(0)
    model, path = tmp_path / "model.onnx", tmp_path / "proof.cert"
    vhagar.save_model(problem.network, model)
    asked = vhagar.Problem(
        vhagar.read_onnx(model), perturbation="occlusion(1,1,2)", source=0, targets=1
    )
    assert is_local(quick_bounds(asked.network, asked.pieces[0]))
    options = {"engine": Bab(attack=False), "certificate": path, "workers": 0}
    result = verify(asked, timeout=20, **options)
    verdict = check(path, model=model)
    assert verdict.upper <= result.upper * (1 + 1e-6)
