"""On which side of a neuron that is nearly 0 witnesses are looked for."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar.attack.polish import _neighbourhood
from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.lp.decisions import Decision
from vhagar.relaxation.lp.region_model import RegionModel

from ..pooled import pooled_problem


def test_decisions_settle_what_is_nearly_zero() -> None:
    problem = pooled_problem(0)
    bounds = quick_bounds(problem.network, problem.pieces[0])
    region_model = RegionModel(problem, bounds, 1)
    x = np.full((1, problem.domain.size), 0.5)
    first, _ = problem.network.preactivations(x)
    second = [layer.copy() for layer in first]
    pair = int(np.flatnonzero(~bounds.hexagons[1].equal)[0])
    equal = int(np.flatnonzero(bounds.hexagons[1].equal)[0])
    offset = len(bounds.hexagons[0])
    for neuron in (pair, equal):
        first[1][0, neuron] = second[1][0, neuron] = 0.0
    plain = next(_neighbourhood(region_model, first, second, False, ()))
    assert not any(state[offset + k] for state in plain for k in (pair, equal))
    decisions = (Decision(1, pair, 1, positive=True), Decision(1, equal, 0, positive=True))
    s, t = next(_neighbourhood(region_model, first, second, False, decisions))
    assert not s[offset + pair]
    assert t[offset + pair]
    assert s[offset + equal]
    assert t[offset + equal]
    # What has a sign of its own keeps it.
    own = int(np.argmax(abs(first[0][0])))
    against = (Decision(0, own, 0, positive=not first[0][0, own] > 0),)
    s, _ = next(_neighbourhood(region_model, first, second, False, against))
    assert s[own] == (first[0][0, own] > 0)


def test_large_models_are_spared_single_flips(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = pooled_problem(0)
    region_model = RegionModel(problem, quick_bounds(problem.network, problem.pieces[0]), 1)
    first, _ = problem.network.preactivations(np.zeros((1, problem.domain.size)))
    first[0][0, :3] = 0.0
    few = len(list(_neighbourhood(region_model, first, first, True, ())))
    monkeypatch.setattr("vhagar.relaxation.lp.region_model._MANY_ROWS", 0)
    assert len(list(_neighbourhood(region_model, first, first, True, ()))) == 3 < few
