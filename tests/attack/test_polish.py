"""In which linear regions witnesses are looked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vhagar import Domain, Problem, Zonotope
from vhagar.attack import best_of_region
from vhagar.attack import polish as polishing
from vhagar.attack.polish import Signs, _neighbourhood, believed_signs, polish
from vhagar.network import Affine, Network, Relu
from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.lp.decisions import Decision
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.result import Witness, WitnessCheck

from ..pooled import pooled_problem

EXAMPLES = Path(__file__).parents[2] / "examples"


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


def test_how_a_region_is_solved_is_another_question_than_how_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = pooled_problem(0)
    bounds = quick_bounds(problem.network, problem.pieces[0])
    place = "vhagar.relaxation.lp.region_model"
    monkeypatch.setattr(f"{place}._MANY_ROWS", 0)
    seldom = RegionModel(problem, bounds, 1)
    assert seldom.is_large
    assert not seldom.polisher.by_interior_point
    monkeypatch.undo()
    monkeypatch.setattr(f"{place}._ROWS_FOR_INTERIOR_POINTS", 0)
    inside = RegionModel(problem, bounds, 1)
    assert not inside.is_large
    assert inside.polisher.by_interior_point


def _polished(region_model: RegionModel) -> float:
    """The best confidence near one and the same input, whatever is a witness or not."""
    piece, network = region_model.piece, region_model.problem.network
    found: list[float] = []

    def judge(x: np.ndarray, parameters: np.ndarray) -> float:
        scores = network.forward(x[None])[0]
        found.append(float(scores[0] - np.delete(scores, 0).max()))
        return found[-1]

    x = np.full(piece.domain.size, 0.5)
    polish(region_model, x, piece.parameter_bounds[0], judge)
    return max(found)


def test_a_region_without_any_witness_is_left_at_once() -> None:
    """No margin is worth a try where the source class never leads."""
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=(4, 3)), np.zeros(4)
    scores, lead = rng.normal(size=(2, 4)), np.array([-50.0, 0.0])
    layers = (
        Affine(weight, bias, (3,), (4,)),
        Relu((4,)),
        Affine(scores, lead, (4,), (2,)),
    )
    problem = Problem(Network(layers, (3,)), perturbation="linf(0.1)", source=0, targets=[1])
    bounds = quick_bounds(problem.network, problem.pieces[0])
    region_model = RegionModel(problem, bounds, 1)
    judged = []

    def judge(x: np.ndarray, parameters: np.ndarray) -> None:
        judged.append(x)

    x = np.full(3, 0.5)
    assert polish(region_model, x, region_model.piece.parameter_bounds[0], judge) == 0.0
    assert len(judged) == 1  # the input itself
    assert region_model.solved_regions > 0


@pytest.mark.parametrize("small", [False, True])
def test_the_best_input_of_a_region_lies_in_the_zonotope(
    small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nearest input of the zonotope would be a worse one, or no witness at all."""
    monkeypatch.setattr(Zonotope, "small", small)  # then the LPs of nodes have its rows, too
    rng = np.random.default_rng(3)
    first, last = np.eye(6) + 0.1, rng.normal(size=(2, 6))
    layers = (
        Affine(first, np.full(6, 5.0), (6,), (6,)),
        Relu((6,)),  # all are active: there is one region
        Affine(last, -last @ (first @ np.full(6, 0.5) + 5.0), (6,), (2,)),
    )
    own = Zonotope(np.full(6, 0.5), rng.normal(size=(2, 6)) / 3, 0.4, 0.05)
    network, domain = Network(layers, (6,)), Domain((6,), zonotope=own)
    problem = Problem(network, perturbation="linf(0.2)", source=0, targets=[1], domain=domain)
    bounds = quick_bounds(problem.network, problem.pieces[0])
    region_model, check = RegionModel(problem, bounds, 1), WitnessCheck(problem)

    def judge(x: np.ndarray, parameters: np.ndarray) -> float | None:
        found = check(1, x, 0, parameters)
        return found.confidence if isinstance(found, Witness) else None

    start = region_model.piece.parameter_bounds[0]
    best = polish(region_model, np.full(6, 0.5), start, judge)
    upper = region_model.evaluate((), np.inf).upper
    assert (region_model.outer_polisher is None) == small
    assert 0 < best <= upper
    # The LP of the region is exact, and so is its bound with all rows.
    answer = region_model.polisher.solve()
    assert best == pytest.approx(answer.objective, rel=1e-4)


def test_one_hard_region_leaves_the_others_to_the_simplex_method(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(polishing, "_MOST_ROUNDS", 1)  # which region is next depends on the method
    monkeypatch.setattr(best_of_region, "_MOST_STEPS", 0)
    problem = pooled_problem(2)  # the source class leads in parts of the first region
    bounds = quick_bounds(problem.network, problem.pieces[0])
    easily = _polished(RegionModel(problem, bounds, 1))
    region_model = RegionModel(problem, bounds, 1)
    with monkeypatch.context() as hard:
        hard.setattr(best_of_region, "_LEAST_ITERATIONS", 0)
        hard.setattr(best_of_region, "_ITERATIONS_PER_ROW", 0)
        _polished(region_model)
    assert region_model.hard_regions == 1
    assert region_model.interior.by_interior_point
    assert not region_model.polisher.by_interior_point
    assert _polished(region_model) == pytest.approx(easily, rel=1e-5)
    assert region_model.hard_regions == 1
    assert region_model.solved_regions > 0


def test_where_all_regions_are_hard_there_are_interior_points_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(polishing, "_MOST_ROUNDS", 1)  # which region is next depends on the method
    monkeypatch.setattr(best_of_region, "_MOST_STEPS", 0)
    problem = pooled_problem(2)  # the source class leads in parts of the first region
    bounds = quick_bounds(problem.network, problem.pieces[0])
    easily, region_model = (
        _polished(RegionModel(problem, bounds, 1)),
        RegionModel(problem, bounds, 1),
    )
    monkeypatch.setattr(best_of_region, "_LEAST_ITERATIONS", 0)
    monkeypatch.setattr(best_of_region, "_ITERATIONS_PER_ROW", 0)
    for _ in range(3):
        assert _polished(region_model) == pytest.approx(easily, rel=1e-4)
    assert region_model.polisher.by_interior_point
    assert region_model.hard_regions == 3
    assert region_model.solved_regions == 0


def test_the_signs_of_a_solution_lead_where_an_input_does_not() -> None:
    problem = Problem(
        EXAMPLES / "mnist_3x10.onnx", perturbation="occlusion(14,14,5)", source=2, targets=3
    )
    region_model = RegionModel(problem, quick_bounds(problem.network, problem.pieces[0]), 3)
    check, witnesses, none = WitnessCheck(problem), [], np.zeros(0)

    def judge(x: np.ndarray, parameters: np.ndarray) -> float | None:
        found = check(3, x, 0, parameters)
        if not isinstance(found, Witness):
            return None
        witnesses.append(found)
        return found.confidence

    best = polish(region_model, np.full(784, 0.5), none, judge)
    # All signs are decided as they are at the best witness: the solution has them, too.
    pair = witnesses[-1]
    decisions = []
    for copy, image in enumerate((pair.x, pair.x_p)):
        entering, _ = problem.network.preactivations(image.reshape(1, -1))
        for layer, values in enumerate(entering):
            positive = enumerate((values[0] > 0).tolist())
            decisions += [Decision(layer, k, copy, sign) for k, sign in positive]
    answer = region_model.evaluate(tuple(decisions), np.inf).answer
    assert answer.primal is not None
    signs = believed_signs(region_model, answer.primal)

    def polished(signs: Signs | None) -> float:
        return polish(region_model, np.zeros(784), none, judge, signs=signs)

    assert polished(None) < 0.1 * best
    assert polished(signs) == pytest.approx(best, rel=1e-4)
