"""The first attack finds witnesses in numpy, the same ones every time, and stops when asked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Network, Problem, verify
from vhagar.attack import incumbents
from vhagar.attack import run as running
from vhagar.attack.concurrent import ConcurrentAttack
from vhagar.attack.first_attack import first_attack
from vhagar.attack.options import AttackOptions
from vhagar.attack.piece_gradients import PieceGradients
from vhagar.attack.run import _Rounds, attack
from vhagar.attack.score_gradients import joint_gradients, leads, scores_and_pull
from vhagar.network import Affine, Relu
from vhagar.options import Options
from vhagar.reduction import LINEAR_REDUCTIONS, Reduced, reduce_problem
from vhagar.result import Rejection, Run, Witness
from vhagar.result.witness import RestoredCheck
from vhagar.runtime.deadline import Deadline
from vhagar.search.node_search import NodeSearch
from vhagar.search.rounds import SearchInRounds

EXAMPLES = Path(__file__).parents[2] / "examples"


def found_by(problem: Problem, seed: int = 0, **more: object) -> tuple[Run, list[np.ndarray]]:
    """The run to which everything was offered, and the inputs that were."""
    run, offered = Run(problem, Options(workers=0)), []

    def offer(target: int | None, x: np.ndarray, piece_index: int, own: np.ndarray) -> None:
        offered.append(x)
        assert isinstance(run.offer_witness(target, x, piece_index, own), Witness)

    first_attack(run.problem, offer, seed, **more)
    return run, offered


@pytest.mark.parametrize(
    "text", ["linf(0.02)", "occlusion(14,14,5)", "brightness([0,0.1])", "contrast([1,1.5])"]
)
def test_a_trained_network_has_a_witness_without_torch(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # an import of it fails
    path = EXAMPLES / "mnist_conv1.onnx"
    run, offered = found_by(Problem(path, perturbation=text, source=2, targets=3))
    assert run.interval.lower > 0
    assert offered


def test_what_can_be_reached_is_nearly_reached(corner: Problem) -> None:
    run, _ = found_by(corner)
    assert 3.5 < run.interval.lower <= 4


def test_many_pieces_and_targets_share_the_rows() -> None:
    path = EXAMPLES / "mnist_3x10.onnx"
    problem = Problem(path, perturbation="occlusion([1,20],[1,20],5)", source=2)
    run, _ = found_by(problem)
    assert run.interval.lower > 0


def test_the_largest_confidence_needs_no_target() -> None:
    problem = Problem(EXAMPLES / "mnist_conv1.onnx", perturbation=None, source=2)
    run, _ = found_by(problem)
    assert run.interval.lower > 20


def test_the_same_seed_finds_the_same() -> None:
    problem = Problem(EXAMPLES / "mnist_3x10.onnx", perturbation="linf(0.02)", source=2, targets=3)
    (_, first), (_, second), (_, other) = (found_by(problem, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first[-1], other[-1])


def test_it_stops_when_it_is_asked_to() -> None:
    problem = Problem(EXAMPLES / "mnist_3x10.onnx", perturbation="linf(0.02)", source=2, targets=3)
    assert found_by(problem, should_stop=lambda: True)[1] == []


def test_it_starts_from_given_inputs() -> None:
    """Class 1 wins in a slab so thin that only inputs that lie in it lead there."""
    at = 0.3
    weight = np.array([[1e4, 0.0], [-1e4, 0.0]])
    network = Network(
        (
            Affine(weight, np.array([-1e4 * at, 1e4 * at]), (2,), (2,)),
            Relu((2,)),
            Affine(-np.ones((1, 2)) * [[1.0], [0.0]], np.array([1.0, 0.0]), (2,), (2,)),
        ),
        (2,),
    )
    problem = Problem(network, perturbation="linf(0.05)", source=0, targets=1)
    run, _ = found_by(problem, dataset=np.array([[0.9, 0.9], [at, 0.4]]))
    assert run.interval.lower > 0.5


@pytest.mark.parametrize("dataset", [None, EXAMPLES / "mnist_images.npz"])
def test_a_search_for_another_form_of_the_problem_attacks_the_inputs_themselves(
    dataset: Path | None,
) -> None:
    """Contrast without clipping is searched with one more entry, which no data set has."""
    path = EXAMPLES / "mnist_3x50_pgd.onnx"
    problem = Problem(path, perturbation="contrast([0.5,1.5])", source=2, targets=3, clip=False)
    reduced = reduce_problem(problem, LINEAR_REDUCTIONS)
    run = Run(problem, Options(workers=0, dataset=dataset), reduced=reduced)
    assert run.problem.domain.size == problem.domain.size + 1
    NodeSearch(run, attack=True).attack_first(Deadline())
    assert run.interval.lower > 0


def test_numbers_beyond_float64_lead_nowhere() -> None:
    large = Affine(np.full((2, 3), 1e200), np.zeros(2), (3,), (2,))
    network = Network(
        (large, Relu((2,)), Affine(np.diag([1e200, -1e200]), np.zeros(2), (2,), (2,))), (3,)
    )
    problem = Problem(network, perturbation="linf(0.1)", source=0, targets=1)
    first_attack(problem, lambda *_: None, 0)


def test_gradients_of_leads_and_scores_are_true(random_network: Network) -> None:
    rng = np.random.default_rng(5)
    x, labels = rng.uniform(size=(4, random_network.input_size)), np.array([0, 1, 2, 0])
    direction, step = rng.normal(size=x.shape), 1e-7
    for leak in (0.0, 0.1):

        def value(at: np.ndarray, leak: float = leak) -> np.ndarray:
            return leads(scores_and_pull(random_network, at, leak)[0], labels)[0]

        scores, pull = scores_and_pull(random_network, x, leak)
        gradient = (pull(leads(scores, labels)[1]) * direction).sum(axis=1)
        by_steps = (value(x + step * direction) - value(x - step * direction)) / (2 * step)
        np.testing.assert_allclose(gradient, by_steps, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(scores_and_pull(random_network, x)[0], random_network.forward(x))


def test_the_lesser_of_two_classes_ascends() -> None:
    scores = np.array([[3.0, 1.0, 2.0], [1.0, 3.0, 2.0], [1.0, 3.0, 2.0]])
    gradients = joint_gradients(scores, np.array([0, 0, 0]), np.array([1, 1, 0]))
    np.testing.assert_array_equal(gradients, [[0, 1, -1], [1, 0, -1], [1, -1, 0]])
    two = joint_gradients(np.array([[1.0, 2.0]]), np.array([0]), np.array([1]))
    np.testing.assert_array_equal(two, [[1, -1]])


@pytest.mark.parametrize(
    "text",
    [
        "linf(0.1)",
        "patch([0,0.5],2,2,[1,3])",
        "brightness([-0.2,0.3])",
        "contrast([0.5,1.5])",
        "occlusion(1,2,2)+linf(0.1)",
        "translation(1,-1)+brightness([-0.2,0.3])",
        "rotation(10)",
    ],
)
def test_gradients_through_pieces_are_true(text: str) -> None:
    rng = np.random.default_rng(2)
    layers = (Affine(rng.normal(size=(2, 25)), np.zeros(2), (1, 5, 5), (2,)),)
    problem = Problem(Network(layers, (1, 5, 5)), perturbation=text, source=0, targets=1)
    gradients = PieceGradients(problem, 0)
    x = rng.uniform(0.3, 0.7, (3, 25))
    own = gradients.start(x, rng)
    at_images, step = rng.normal(size=x.shape), 1e-6
    by_x, by_own = gradients.pull(x, own, at_images)
    at = gradients.apply(x, own)
    smooth = (at > 1e-3) & (at < 1 - 1e-3)  # a step across the end of a pixel's range has a kink
    for values, gradient, images in (
        (x, by_x, lambda moved: gradients.apply(moved, own)),
        (own, by_own, lambda moved: gradients.apply(x, moved)),
    ):
        direction = rng.normal(size=values.shape)
        free = problem.pieces[0].free_pixels if values is own else slice(None)
        if free is not None:  # each value moves one pixel
            direction = np.where(smooth[:, free], direction, 0.0)
        ends = [images(values + sign * step * direction) for sign in (1, -1)]
        by_steps = ((ends[0] - ends[1]) / (2 * step) * at_images).sum(axis=1)
        np.testing.assert_allclose((gradient * direction).sum(axis=1), by_steps, atol=1e-6)


def test_parameters_stay_where_gradients_are_felt() -> None:
    layers = (Affine(np.eye(2), np.zeros(2), (2,), (2,)),)
    problem = Problem(Network(layers, (2,)), perturbation="linf(0.5)", source=0, targets=1)
    gradients = PieceGradients(problem, 0)
    moved = gradients.moved(np.array([[0.9, 0.5]]), np.zeros((1, 2)), np.full((1, 2), 3.0))
    np.testing.assert_allclose(moved, [[0.1, 0.5]])


def test_the_attack_begins_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever attacks without a number of rounds has a witness before torch is needed."""
    monkeypatch.setattr(_Rounds, "_ascend_within_memory", _not_reached)
    problem = Problem(EXAMPLES / "mnist_3x10.onnx", perturbation="linf(0.02)", source=2, targets=3)
    found: list[float] = []
    with pytest.raises(AssertionError, match="too late"):
        attack(
            problem,
            timeout=60,
            options=AttackOptions(polish=False, regions=False),
            on_attack=lambda attack: found.append(attack.confidence),
        )
    assert found


def test_what_it_finds_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[bytes] = []
    checks: list[object] = []

    class Counted(RestoredCheck):
        def __init__(self, reduced: Reduced) -> None:
            checks.append(self)
            super().__init__(reduced)

        def __call__(self, target: int | None, x: np.ndarray, *more: Any) -> Witness | Rejection:
            checked.append(x.tobytes())
            return super().__call__(target, x, *more)

    monkeypatch.setattr(incumbents, "RestoredCheck", Counted)
    monkeypatch.setattr(_Rounds, "_ascend_within_memory", _not_reached)
    problem = Problem(EXAMPLES / "mnist_3x10.onnx", perturbation="linf(0.02)", source=2, targets=3)
    with pytest.raises(AssertionError, match="too late"):
        attack(problem, timeout=60, options=AttackOptions(polish=False, regions=False))
    assert len(set(checked)) == len(checked) > 0
    assert len(checks) == 1


def test_no_other_begins_once_it_is_told_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def noted(problem: Problem, offer: Any, seed: int, *_: Any) -> None:
        begun.append(seed)

    monkeypatch.setattr(running, "first_attack", noted)
    problem = Problem(EXAMPLES / "mnist_3x10.onnx", perturbation="linf(0.02)", source=2, targets=3)
    attack(problem, timeout=60, should_stop=lambda: len(begun) >= 2)
    assert len(begun) == 2


def _not_reached(*_: object) -> None:
    raise AssertionError("too late")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("fits", [True, False])
def test_a_search_has_a_witness_before_the_attack_joins(
    workers: int, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With linear programs and without, in one process and in several."""
    monkeypatch.setattr("vhagar.search.branch_and_bound.programs_fit", lambda *_: fits)
    monkeypatch.setattr(ConcurrentAttack, "join_when_due", lambda _: None)
    monkeypatch.setattr(ConcurrentAttack, "finish", lambda *_: None)
    for place in ("attack_beside.attack_here", "rounds.attack_here"):
        monkeypatch.setattr(f"vhagar.search.{place}", lambda *_: None)
    monkeypatch.setattr(SearchInRounds, "_bound", lambda *_: None)
    problem = Problem(EXAMPLES / "mnist_conv1.onnx", perturbation="linf(0.05)", source=2, targets=3)
    stopped = verify(
        problem, workers=workers, timeout=60, on_progress=lambda now: not now.lower > 0
    )
    assert stopped.lower > 0
    assert stopped.nodes <= 4  # the root and the ceiling, by two methods


def test_no_library_is_imported_that_cannot_be_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its native code cannot be interrupted: on a busy machine, runs ended seconds late."""
    problem = Problem(EXAMPLES / "mnist_3x10.onnx", perturbation="linf(0.02)", source=2, targets=3)
    search = SearchInRounds(Run(problem, Options(workers=0)), attack=False)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    can = search._can_import_torch
    assert not can(Deadline.after(1.0))
    assert can(Deadline.after(60.0))
    assert can(Deadline())
    monkeypatch.setitem(sys.modules, "torch", object())
    assert can(Deadline.after(1.0))
