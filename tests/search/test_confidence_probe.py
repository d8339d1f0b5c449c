"""A few steps uphill find an input about as confident as any."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Network, Problem
from vhagar.network import Affine, Relu
from vhagar.perturbation import Domain
from vhagar.perturbation.domain.linear_rows import linear_rows
from vhagar.search.confidence_probe import confidence_within_reach, largest_within_reach

from ..oracle.cases import Case
from ..oracle.exact import exact_optimum, overall
from ..pooled import pooled_problem


@pytest.mark.parametrize("branched", [False, True])
@pytest.mark.parametrize("number", range(6))
def test_it_is_the_confidence_of_some_input(number: int, branched: bool) -> None:
    """So it is at most the largest there is; rounding is not its business."""
    problem = Case(number, branched).problem()
    largest = float(overall(exact_optimum(problem.without_perturbation())).high)
    size = 1e-9 * abs(problem.network.forward(np.ones((1, problem.domain.size)))).max()
    assert confidence_within_reach(problem, seed=0) <= largest + size


def test_it_gets_to_the_top_of_a_linear_network() -> None:
    weight = np.array([[3.0, -2.0], [0.0, 0.0]])
    layers = (Affine(np.eye(2), np.ones(2), (2,), (2,)), Relu((2,)))
    network = Network((*layers, Affine(weight, np.zeros(2), (2,), (2,))), (2,))
    found = confidence_within_reach(
        Problem(network, perturbation="linf(0.1)", source=0, targets=1), seed=3
    )
    assert found == pytest.approx(3 * 2 - 2 * 1)


def test_it_ascends() -> None:
    problem = pooled_problem(0)
    rng = np.random.default_rng(0)
    inputs = rng.uniform(0, 1, (500, problem.domain.size))
    scores = problem.network.forward(inputs)
    confidence = scores[:, 0] - np.delete(scores, 0, axis=1).max(axis=1)
    assert confidence_within_reach(problem, seed=1) > confidence.max()


@pytest.mark.parametrize("branched", [False, True])
@pytest.mark.parametrize("number", range(6))
def test_both_ends_around_the_largest_confidence_are_proven(number: int, branched: bool) -> None:
    problem = Case(number, branched).problem()
    exact = overall(exact_optimum(problem.without_perturbation()))
    found = largest_within_reach(problem, seed=0)
    assert found.lower <= max(exact.high, 0)
    assert exact.low <= found.upper
    assert found.lower <= found.upper


def test_a_class_that_nothing_is_put_into_has_no_confidence() -> None:
    layers = (Affine(np.zeros((2, 2)), np.array([0.0, 1.0]), (2,), (2,)),)
    problem = Problem(Network(layers, (2,)), perturbation="linf(0.1)", source=0)
    found = largest_within_reach(problem, seed=0)
    assert (found.lower, found.upper) == (0.0, 0.0)


def test_dark_inputs_are_among_the_starts() -> None:
    """The score of class 0 has a slope only where the mean of the pixels is from 0.05 to 0.25."""
    means = Affine(np.full((3, 16), 1 / 16), -np.array([0.05, 0.15, 0.25]), (16,), (3,))
    tent = Affine(np.array([[10.0, -20.0, 10.0], [0.0, 0.0, 0.0]]), np.array([0, 0.1]), (3,), (2,))
    network = Network((means, Relu((3,)), tent), (16,))
    problem = Problem(network, perturbation="linf(0.1)", source=0, targets=1)
    assert confidence_within_reach(problem, seed=0) > 0.2


def test_an_input_beside_the_domain_proves_nothing() -> None:
    """The only whole numbers with 3 a + 5 b = 8 are 1 and 1, whose confidence is 1.5."""
    layers = (Affine(np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([0.0, 0.5]), (2,), (2,)),)
    row = linear_rows({0: 3.0, 1: 5.0}, 2, equal=8.0)
    domain = Domain((2,), 0, [10, 10], range=(0, 10), integer=[0, 1], rows=row)
    problem = Problem(Network(layers, (2,)), perturbation=None, source=0, domain=domain)
    for seed in range(5):
        assert largest_within_reach(problem, seed).lower <= 1.5
