"""The search for witnesses beside the nodes: what it keeps."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Problem
from vhagar.reduction.base import reduce_problem
from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.result.witness import RestoredCheck
from vhagar.search import primal_heuristic
from vhagar.search.node import Region
from vhagar.search.primal_heuristic import PrimalHeuristic

from ..relaxation.samples import network_of


def test_the_most_recently_used_convex_models_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(primal_heuristic, "_MOST_CONVEX", 2)
    network = network_of("plain", np.random.default_rng(0))
    problem = Problem(network, perturbation="contrast([0.5,0.9])", source=0, targets=1)
    reduced = reduce_problem(problem, ())
    heuristic = PrimalHeuristic(problem, RestoredCheck(reduced), lambda found: None)
    (piece,) = problem.pieces
    assert not piece.convex
    given = RegionModel(problem, quick_bounds(network, piece), 1)
    x = np.zeros(problem.domain.size)

    def model_at(factor: float) -> RegionModel:
        region = Region(1, 0)
        return heuristic._convex_model(given, region, x, np.array([factor]), exactly=True)

    first = model_at(0.6)
    second = model_at(0.7)
    assert model_at(0.6) is first
    model_at(0.8)
    assert model_at(0.6) is first
    assert model_at(0.7) is not second
