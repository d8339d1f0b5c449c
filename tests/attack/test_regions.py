"""The search among linear regions."""

from __future__ import annotations

import numpy as np

from vhagar import Network, Problem
from vhagar.attack.keeper import Keeper
from vhagar.attack.regions import Regions


def _regions(problem: Problem) -> tuple[Keeper, Regions]:
    keeper = Keeper(problem)
    return keeper, Regions(keeper, np.random.default_rng(0))


def test_the_polish_solves_the_region(corner: Problem) -> None:
    keeper, regions = _regions(corner)
    found = regions.polished(1, 0, np.full(16, 0.3), np.zeros(0))
    assert found is keeper.best[1]
    assert 4.0 - 1e-4 <= found.confidence <= 4.0


def test_the_relaxation_is_a_start_of_its_own(hidden: Network) -> None:
    keeper, regions = _regions(Problem(hidden, "linf(0.125)", 0, 1))
    assert regions.relaxed(1, 0, np.zeros(2)) is not None
    assert 0.25 - 1e-4 <= keeper.confidence(1) <= 0.25


def test_nothing_is_tried_beyond_what_is_possible(corner: Problem) -> None:
    keeper, regions = _regions(corner)
    x = np.full(16, 0.3)
    for _ in range(5):
        assert regions.around(1, 0, x, np.zeros(0), beyond=7.0) is None
        assert keeper.best == {}
        assert regions.around(1, 0, x, np.zeros(0), beyond=3.0) is not None
        keeper.best.clear()


def test_one_parameter_is_searched_as_well(hidden: Network) -> None:
    """Half the contrast is best; from 0.9 only other values lead there."""
    keeper, regions = _regions(Problem(hidden, "contrast([0.5,0.9])", 0, 1))
    x = np.array([0.27, 0.0])
    for _ in range(60):
        regions.around(1, 0, x, np.array([0.9]))
    assert 0.25 - 1e-3 <= keeper.confidence(1) <= 0.25
