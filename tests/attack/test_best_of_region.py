"""From the best input of a linear region to better regions."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Network, Problem
from vhagar.attack import polish as polishing
from vhagar.attack.linear_regions import better_signs, outside_region, proposed, signs_at
from vhagar.attack.polish import polish
from vhagar.network import Affine, Relu
from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.result import Witness, WitnessCheck
from vhagar.solver.lp_answer import LpAnswer, LpStatus

from ..pooled import pooled_problem


def _one_kink(side: float, share: float) -> Problem:
    """The lead of class 0 is `u - 0.2 + share * relu(side * (u - 0.5))`, with u the pixel (1,1).

    Without the pixel class 1 wins.
    """
    first = np.zeros((2, 4))
    first[0, 0], first[1, 0] = 1.0, side
    dark = 0.5 if side < 0 else 0.0
    layers = (
        Affine(first, np.array([0.0, -0.5 * side]), (1, 2, 2), (2,)),
        Relu((2,)),
        Affine(np.array([[1.0, share], [0.0, 0.0]]), np.array([0.0, 0.2]), (2,), (2,)),
    )
    assert -0.2 + share * dark < 0
    network = Network(layers, (1, 2, 2))
    return Problem(network, perturbation="occlusion(1,1,1)", source=0, targets=1)


@pytest.mark.parametrize(
    ("side", "share", "optimum"), [(1.0, 2.0, 1.8), (-1.0, -1.0, 0.8), (1.0, -3.0, 0.3)]
)
def test_a_region_leads_to_the_better_one_beside_it(
    side: float, share: float, optimum: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From below 0.5, the neuron is switched on or off where that gains, and not where it costs."""
    monkeypatch.setattr(polishing, "_MOST_ROUNDS", 1)
    problem = _one_kink(side, share)
    check = WitnessCheck(problem)

    def judge(x: np.ndarray, parameters: np.ndarray) -> float | None:
        found = check(1, x, 0, parameters)
        return found.confidence if isinstance(found, Witness) else None

    region_model = RegionModel(problem, quick_bounds(problem.network, problem.pieces[0]), 1)
    found = polish(region_model, np.full(4, 0.3), np.zeros(0), judge)
    assert optimum - 1e-4 <= found <= optimum
    for limits in ({"most_work": 0}, {"should_stop": lambda: True}):
        alone = polish(region_model, np.full(4, 0.3), np.zeros(0), judge, **limits)
        assert alone == pytest.approx(0.3, abs=1e-4)


def _solved(region_model: RegionModel, signs: tuple[np.ndarray, np.ndarray]) -> LpAnswer:
    region_model.polisher.switch_off(outside_region(region_model, signs))
    return region_model.polisher.solve()


def test_regions_of_a_path_are_ever_better_and_none_beside_its_end_is() -> None:
    """Each of these problems has an input that leads in the first region."""
    assert sum(map(_neurons_turned_at_the_end, (1, 2))) > 0


def _neurons_turned_at_the_end(seed: int) -> int:
    """Follow a path to its end, and turn each neuron that is at its kink there; 0 after a tie."""
    problem = pooled_problem(seed)
    region_model = RegionModel(problem, quick_bounds(problem.network, problem.pieces[0]), 1)
    piece = region_model.piece
    signs = signs_at(region_model, np.full(piece.domain.size, 0.5), piece.parameter_bounds[0])
    answer = _solved(region_model, signs)
    assert answer.status is LpStatus.OPTIMAL
    for _ in range(50):
        better = better_signs(region_model, signs, answer)
        if better is None:
            break
        after = _solved(region_model, better)
        assert after.objective >= answer.objective - 1e-6
        if after.objective <= answer.objective + 1e-6:
            return 0
        signs, answer = better, after
    assert better is None
    assert answer.primal is not None
    x, parameters = proposed(region_model, answer.primal, of_region=True)
    pair = x[None], piece.apply(x[None], parameters[None])
    turned = 0
    for copy, image in enumerate(pair):
        values = np.concatenate([layer[0] for layer in problem.network.preactivations(image)[0]])
        for k in np.flatnonzero(abs(values) < 1e-9):
            other = signs[0].copy(), signs[1].copy()
            other[copy][k] = ~other[copy][k]
            beside = _solved(region_model, other)
            turned += 1
            assert beside.objective <= answer.objective + 1e-6
    return turned
