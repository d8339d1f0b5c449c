"""Both ascents report what is true, and find what there is."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Network, Problem
from vhagar.attack.ascent import ascend
from vhagar.attack.batch import Batch, Group, State
from vhagar.attack.incumbents import AttackFound
from vhagar.attack.model import TorchNetwork
from vhagar.attack.options import AttackOptions
from vhagar.network import Affine, Relu, confidence
from vhagar.result import Witness
from vhagar.runtime.devices import torch_device

_BOTH = pytest.mark.parametrize("lagrangian", [True, False])


def _batch(problem: Problem, rows: int) -> Batch:
    model = TorchNetwork(problem.network, torch_device("cpu"), double=True)
    groups = tuple(
        Group(target, piece_index)
        for target in problem.search_targets
        for piece_index in range(len(problem.pieces))
    )
    return Batch(problem, model, groups, rows)


@_BOTH
@pytest.mark.parametrize(
    "perturbation", ["linf(0.2)", "brightness([-0.3,0.3])", "rotation([0,30])", "occlusion(2,2,3)"]
)
def test_solutions_are_what_they_say(
    random_network: Network, perturbation: str, lagrangian: bool
) -> None:
    problem = Problem(random_network, perturbation=perturbation, source=1)
    batch, rng = _batch(problem, 8), np.random.default_rng(0)
    state = batch.start(rng.uniform(size=(len(batch), 40)), rng)
    options = AttackOptions(steps=40, lagrangian=lagrangian)
    found = ascend(batch, state, options, rng)
    assert (found.x >= 0).all()
    assert (found.x <= 1).all()
    assert np.isfinite(found.confidence).any()
    for k, group in enumerate(batch.groups):
        rows, piece = batch.rows(k), problem.pieces[group.piece_index]
        low, high = piece.parameter_bounds
        assert ((found.parameters[k] >= low) & (found.parameters[k] <= high)).all()
        solved = np.isfinite(found.confidence[rows])
        x_p = piece.apply(found.x[rows], found.parameters[k])
        assert group.target is not None
        margins = confidence(random_network.forward(x_p), group.target)
        assert (margins[solved] > -1e-9).all()
        sure = confidence(random_network.forward(found.x[rows]), 1)
        np.testing.assert_allclose(found.confidence[rows][solved], sure[solved], atol=1e-9)


@_BOTH
def test_confidence_rises_to_the_optimum(hidden: Network, lagrangian: bool) -> None:
    """From anywhere: the optimum of `linf(0.125)` is 1/4."""
    problem = Problem(hidden, perturbation="linf(0.125)", source=0, targets=1)
    batch, rng = _batch(problem, 24), np.random.default_rng(1)
    state = batch.start(rng.uniform(size=(24, 2)), rng)
    options = AttackOptions(steps=150, step=0.05, lagrangian=lagrangian, tau=1e-3)
    best = ascend(batch, state, options, rng).confidence.max()
    assert 0.2 <= best <= 0.25


def test_it_stops_when_told(hidden: Network) -> None:
    problem = Problem(hidden, perturbation="linf(0.125)", source=0, targets=1)
    batch, rng = _batch(problem, 4), np.random.default_rng(1)
    state = batch.start(np.full((4, 2), 0.5), rng)
    found = ascend(batch, state, AttackOptions(), rng, should_stop=lambda: True)
    assert (found.x == 0.5).all()


def test_rows_with_rounded_relus_are_judged_when_told_to_stop(hidden: Network) -> None:
    """All rows start at an attack, which rounded ReLUs would hide."""
    problem = Problem(hidden, perturbation="linf(0.125)", source=0, targets=1)
    batch, rng = _batch(problem, 16), np.random.default_rng(1)
    state = batch.start(np.tile([0.7, 0.3], (16, 1)), rng)
    (change,) = state.parameters
    state = State(state.x, (change * 0 + batch.model.tensor(np.array([-0.125, 0.125])),))
    found = ascend(batch, state, AttackOptions(), rng, should_stop=lambda: True)
    np.testing.assert_allclose(found.confidence, 0.15)


@pytest.mark.parametrize("perturbation", ["linf(0.2)", "brightness([-0.3,0.3])"])
def test_aimed_starts_are_possible_ones(random_network: Network, perturbation: str) -> None:
    """Half of the rows of the target that has an attack move there, and nothing else moves."""
    problem = Problem(random_network, perturbation=perturbation, source=1)
    batch, rng = _batch(problem, 8), np.random.default_rng(0)
    state = batch.start(rng.uniform(size=(len(batch), 40)), rng)
    x, low = np.full(40, 0.5), problem.pieces[0].parameter_bounds[0]
    witness = Witness(x, np.zeros(3), 1.0)
    restarted = batch.restarted_near(state, {2: AttackFound(2, 0, x, low, witness)}, rng)
    assert ((restarted.x >= 0) & (restarted.x <= 1)).all()
    moved = (restarted.x != state.x).any(dim=1)
    for k, group in enumerate(batch.groups):
        lower, upper = problem.pieces[group.piece_index].parameter_bounds
        parameters = restarted.parameters[k].numpy()
        assert ((parameters >= lower) & (parameters <= upper)).all()
        near = group.target == 2
        assert moved[batch.rows(k)].tolist() == [near] * 4 + [False] * 4
        if near and group.piece_index == 0:
            assert abs(parameters[:4] - low).mean() < 0.3 * (upper - lower).max()
        elif not near:
            assert (restarted.parameters[k] == state.parameters[k]).all()


@_BOTH
def test_attacks_are_reported_on_the_way(hidden: Network, lagrangian: bool) -> None:
    problem = Problem(hidden, perturbation="linf(0.125)", source=0, targets=1)
    batch, rng = _batch(problem, 24), np.random.default_rng(1)
    state = batch.start(rng.uniform(size=(len(batch), 2)), rng)
    heard: list[float] = []
    options = AttackOptions(steps=60, lagrangian=lagrangian)
    ascend(
        batch,
        state,
        options,
        rng,
        on_solutions=lambda found: heard.append(float(found.confidence.max())),
    )
    assert heard
    assert heard == sorted(set(heard))
    assert np.isfinite(heard).all()


def test_rounded_relus_lead_out_of_a_plateau() -> None:
    """Where the start is, the only neuron is off: the network itself has no gradient there."""
    hidden = Affine(np.array([[10.0]]), np.array([-7.0]), (1,), (1,))
    scores = Affine(np.array([[1.0], [0.0]]), np.array([0.0, 1.5]), (1,), (2,))
    network = Network((hidden, Relu((1,)), scores), (1,))
    problem = Problem(network, perturbation="linf(0.2)", source=0, targets=1)
    batch = _batch(problem, 32)

    def best(smooth: bool) -> float:
        rng = np.random.default_rng(0)
        state = batch.start(rng.uniform(0.3, 0.65, size=(32, 1)), rng)
        found = ascend(batch, state, AttackOptions(smooth=smooth), rng)
        return float(found.confidence.max())

    assert best(smooth=False) == -np.inf
    assert 0 < best(smooth=True) <= 1.5
