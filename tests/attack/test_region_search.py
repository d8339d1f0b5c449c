"""The search among linear regions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Domain, Network, Problem, read_onnx
from vhagar.attack import region_search
from vhagar.attack.incumbents import Incumbents
from vhagar.attack.region_search import RegionSearch
from vhagar.errors import SolverFailure
from vhagar.network import Affine, Relu
from vhagar.reduction import REDUCTIONS, reduce_problem
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.solver.simplex import LpAnswer, Simplex

EXAMPLES = Path(__file__).parents[2] / "examples"


def _regions(problem: Problem) -> tuple[Incumbents, RegionSearch]:
    incumbents = Incumbents(reduce_problem(problem, REDUCTIONS))
    return incumbents, RegionSearch(incumbents, np.random.default_rng(0))


def test_the_polish_solves_the_region(corner: Problem) -> None:
    incumbents, regions = _regions(corner)
    found = regions.polish(1, 0, np.full(16, 0.3), np.zeros(0))
    assert found is incumbents.best[1]
    assert 4.0 - 1e-4 <= found.confidence <= 4.0


@pytest.mark.parametrize("told", [False, True])
def test_a_polish_ends_after_some_work_or_when_told(
    told: bool, corner: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first region a path would lead to better ones."""
    heard: list[tuple[float, bool]] = []

    def noted(*_: Any, most_work: float, should_stop: Callable[[], bool], **more: Any) -> float:
        heard.append((most_work, should_stop()))
        return 0.0

    monkeypatch.setattr(region_search, "polish", noted)
    incumbents = Incumbents(reduce_problem(corner, REDUCTIONS))
    rng = np.random.default_rng(0)
    regions = RegionSearch(incumbents, rng, should_stop=lambda: told)
    regions.polish(1, 0, np.full(16, 0.3), np.zeros(0))
    ((most_work, stops),) = heard
    assert np.isfinite(most_work)
    assert stops == told


def test_the_relaxation_is_a_start_of_its_own(hidden: Network) -> None:
    incumbents, regions = _regions(Problem(hidden, perturbation="linf(0.125)", source=0, targets=1))
    assert regions.dive(1, 0, np.zeros(2)) is not None
    assert 0.25 - 1e-4 <= incumbents.confidence(1) <= 0.25


def test_nothing_is_tried_beyond_what_is_possible(corner: Problem) -> None:
    incumbents, regions = _regions(corner)
    x = np.full(16, 0.3)
    for _ in range(5):
        assert regions.search_around(1, 0, x, np.zeros(0), beyond=7.0) is None
        assert incumbents.best == {}
        assert regions.search_around(1, 0, x, np.zeros(0), beyond=3.0) is not None
        incumbents.best.clear()


def test_a_region_that_is_no_better_is_given_up(
    corner: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The solver of regions hears what their confidence has to exceed, or nearly."""
    heard: list[float] = []
    solve = Simplex.solve

    def noted(simplex: Simplex, *given: Any, enough: float = -np.inf, **more: Any) -> LpAnswer:
        heard.append(enough)
        return solve(simplex, *given, enough=enough, **more)

    monkeypatch.setattr(Simplex, "solve", noted)
    _, regions = _regions(corner)
    x = np.full(16, 0.3)
    regions.polish(1, 0, x, np.zeros(0), beyond=5.0)
    assert any(4.5 < enough < 5.0 for enough in heard)
    heard.clear()
    regions.search_around(1, 0, x, np.zeros(0), beyond=3.5)
    assert 3.5 in heard  # the relaxation
    assert any(3.0 < enough < 3.5 for enough in heard)
    heard.clear()
    regions.search_around(1, 0, x, np.zeros(0))
    assert max(heard) <= 0.0


def test_one_parameter_is_searched_as_well(hidden: Network) -> None:
    """Half the contrast is best; from 0.9 only other values lead there."""
    incumbents, regions = _regions(
        Problem(hidden, perturbation="contrast([0.5,0.9])", source=0, targets=1)
    )
    x = np.array([0.27, 0.0])
    for _ in range(60):
        regions.search_around(1, 0, x, np.array([0.9]))
    assert 0.25 - 1e-3 <= incumbents.confidence(1) <= 0.25


def test_dives_differ_and_end_in_attacks() -> None:
    network = read_onnx(EXAMPLES / "mnist_3x10.onnx")
    incumbents, regions = _regions(
        Problem(network, perturbation="occlusion(14,14,9)", source=2, targets=3)
    )
    found = [regions.dive(3, 0, np.zeros(0)) for _ in range(8)]
    confidences = [one.confidence for one in found if one is not None]
    assert len({round(one, 6) for one in confidences}) > 1
    assert incumbents.confidence(3) == max(confidences)


def test_a_dive_decides_all_that_the_relaxation_leaves_open(random_network: Network) -> None:
    """Level by level, and what is decided stays so."""
    problem = Problem(random_network, perturbation="linf(0.3)", source=0, targets=1)
    _, regions = _regions(problem)
    region_model = regions._region_model(1, 0, problem.pieces[0].parameter_bounds[0])
    cut, bounds = np.zeros(0, dtype=np.int64), []
    for _ in range(20):
        region_model.simplex.switch_off(cut)
        answer = region_model.simplex.solve()
        assert answer.primal is not None
        assert (answer.primal[cut] == 0).all()
        bounds.append(answer.objective)
        more = regions._clearest_cuts(region_model, answer.primal)
        if not len(more):
            break
        assert set(more) - set(cut)
        cut = np.union1d(cut, more)
    assert len(bounds) > 2
    assert not len(more)
    assert all(later <= before + 1e-6 for before, later in itertools.pairwise(bounds))


def test_a_dive_where_nothing_can_be_attacked_finds_nothing(hidden: Network) -> None:
    """Without the first pixel nothing is left of class 0."""
    incumbents, regions = _regions(
        Problem(hidden, perturbation="occlusion(1,1,1)", source=1, targets=0)
    )
    assert regions.dive(0, 0, np.zeros(0)) is None
    assert not incumbents.best


def test_no_relaxation_takes_for_ever(hidden: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[int | None] = []
    solve = Simplex.solve

    def noted(simplex: Simplex, limit: int | None = None, **more: Any) -> LpAnswer:
        limits.append(limit)
        return solve(simplex, limit, **more)

    monkeypatch.setattr(Simplex, "solve", noted)
    _, regions = _regions(Problem(hidden, perturbation="linf(0.125)", source=0, targets=1))
    regions.dive(1, 0, np.zeros(2))
    regions.search_around(1, 0, np.zeros(2), np.zeros(2))
    assert None not in limits


def test_the_work_counts_polishing_that_fails(
    corner: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, regions = _regions(corner)
    regions.polish(1, 0, np.full(16, 0.3), np.zeros(0))
    before, iterations = regions.work, 1000

    def fail(model: RegionModel, *_: Any, **__: Any) -> float:
        model.polish_work += iterations
        raise SolverFailure("no luck")

    monkeypatch.setattr(region_search, "polish", fail)
    assert regions.polish(1, 0, np.full(16, 0.3), np.zeros(0)) is None
    assert regions.work >= before + iterations


def test_the_work_counts_models_for_other_whole_numbers() -> None:
    """Each has bounds and an LP of its own, which take longer than many iterations."""
    first = Affine(np.ones((2, 3)), np.zeros(2), (3,), (2,))
    last = Affine(np.array([[1.0, 1], [0, 0]]), np.zeros(2), (2,), (2,))
    network = Network((first, Relu((2,)), last), (3,))
    domain = Domain((3,), integer=[0, 1])
    _, regions = _regions(Problem(network, perturbation=None, source=0, domain=domain))
    spent = [0.0]
    for x in ([0.0, 0, 0.5], [0, 1, 0.5], [0, 1, 0.25]):
        regions.polish(None, 0, np.array(x), np.zeros(0))
        spent.append(regions.work)
    new, other, known = np.diff(spent)
    assert min(new, other) > 10 * max(known, 1)


def test_an_unfinished_relaxation_is_no_attack(
    hidden: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(region_search, "_WORK_OF_LP", 0.0)
    incumbents, regions = _regions(Problem(hidden, perturbation="linf(0.125)", source=0, targets=1))
    regions.dive(1, 0, np.zeros(2))
    assert incumbents.confidence(1) <= 0.25  # the exact bound
