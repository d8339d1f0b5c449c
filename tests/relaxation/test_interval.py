"""Interval bounds hold in exact arithmetic, with no tolerance, at every scale."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar import Network
from vhagar.network import AbstractLinear, Affine, Convolution, Relu
from vhagar.relaxation import (
    Bounds,
    confidence_bounds,
    largest_confidence,
    linear_bounds,
    network_bounds,
)

from ..oracle.cases import Case
from ..oracle.exact import exact_optimum, rational_confidence, rational_forward, rationals

SCALES = (1e-300, 1e-40, 1e-8, 1.0, 1e8, 1e40)


def random_network(rng: np.random.Generator, scale: float, relu_last: bool = False) -> Network:
    draw = lambda *size: scale * rng.normal(size=size)  # noqa: E731
    shape = (2, 3, 3)
    first = Convolution(draw(3, 2, 2, 2), draw(3), shape, padding=(1, 0, 0, 1))
    layers = [
        first,
        Relu(first.out_shape),
        Affine(draw(7, first.out_size), draw(7), first.out_shape, (7,)),
        Relu((7,)),
        Affine(draw(3, 7), draw(3), (7,), (3,)),
    ]
    return Network((*layers, Relu((3,))) if relu_last else tuple(layers), shape)


def random_box(rng: np.random.Generator, size: int, width: float) -> Bounds:
    low = rng.uniform(-1, 1, size)
    return Bounds(low, low + width * rng.uniform(0, 1, size))


def points(rng: np.random.Generator, box: Bounds, count: int) -> list[np.ndarray]:
    """Corners, where the bounds are attained, and points between."""
    found = [box.lower, box.upper]
    for _ in range(count):
        mixed = np.where(rng.random(len(box.lower)) < 0.5, box.lower, box.upper)
        inside = np.clip(rng.uniform(box.lower, box.upper), box.lower, box.upper)
        found += [mixed, inside]
    return found


def holds(bounds: Bounds, exact: np.ndarray) -> bool:
    return bool(
        (rationals(bounds.lower) <= exact).all() and (exact <= rationals(bounds.upper)).all()
    )


@pytest.mark.parametrize("width", [0.0, 1e-15, 0.3])
@pytest.mark.parametrize("scale", SCALES)
def test_layer_by_layer_the_exact_values_are_inside(scale: float, width: float) -> None:
    rng = np.random.default_rng(1)
    for relu_last in (False, True):
        network = random_network(rng, scale, relu_last)
        box = random_box(rng, network.input_size, width)
        bounds = network_bounds(network, box)
        for x in points(rng, box, 2):
            for depth, leaving in enumerate(bounds, start=1):
                part = Network(network.layers[:depth], network.input_shape)
                assert holds(leaving, rational_forward(part, rationals(x)))


@pytest.mark.parametrize("scale", SCALES)
def test_the_worst_corner_of_a_linear_layer_is_inside(scale: float) -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        weight, bias = scale * rng.normal(size=(4, 9)), scale * rng.normal(size=4)
        box = random_box(rng, 9, 2.0)
        found = linear_bounds(Affine(weight, bias, (9,), (4,)), box)
        for row in range(4):
            corner = np.where(weight[row] > 0, box.upper, box.lower)
            value = rationals(weight[row]) @ rationals(corner) + Fraction(bias[row])
            assert value <= Fraction(found.upper[row])
            assert found.upper[row] == pytest.approx(float(value), rel=1e-12, abs=1e-300)
            corner = np.where(weight[row] > 0, box.lower, box.upper)
            value = rationals(weight[row]) @ rationals(corner) + Fraction(bias[row])
            assert value >= Fraction(found.lower[row])


@pytest.mark.parametrize("width", [0.0, 1e-15, 0.3])
@pytest.mark.parametrize("scale", [1e-40, 1e-8, 1.0, 1e8, 1e40])
def test_confidences_are_inside(scale: float, width: float) -> None:
    rng = np.random.default_rng(3)
    for relu_last in (False, True):
        network = random_network(rng, scale, relu_last)
        box = random_box(rng, network.input_size, width)
        hidden = network_bounds(network, box)[-2]
        for label in range(network.classes):
            low, high = (rationals(side) for side in confidence_bounds(network, hidden, label))
            largest = Fraction(largest_confidence(network, box, label))
            for x in points(rng, box, 2):
                scores = rational_forward(network, rationals(x))
                gaps = scores[label] - np.delete(scores, label)
                assert (low <= gaps).all()
                assert (gaps <= high).all()
                assert rational_confidence(network, rationals(x), label) <= largest


def test_numbers_that_nearly_cancel() -> None:
    # The scores agree in all but their last bits; only their difference is left.
    weight = np.array([[1e16, 1.0, -1e16], [1e16, 0.0, -1e16]])
    network = Network((Affine(weight, np.array([0.1, 0.1]), (3,), (2,)),), (3,))
    box = Bounds(np.array([0.3, 0.0, 0.3]), np.array([0.3, 1e-9, 0.3]))
    low, high = confidence_bounds(network, box, 0)
    assert Fraction(low[0]) <= 0
    assert Fraction(1e-9) <= Fraction(high[0])
    assert high[0] < 2e-9


def test_equal_rows_differ_by_exactly_nothing() -> None:
    weight = np.random.default_rng(4).normal(size=(3, 5))
    weight[2] = weight[0]
    network = Network((Affine(weight, np.array([0.3, 0.1, 0.3]), (5,), (3,)),), (5,))
    box = Bounds(np.zeros(5), np.ones(5))
    low, high = confidence_bounds(network, box, 0)
    assert low[1] == high[1] == 0.0
    assert low[0] < high[0]
    assert largest_confidence(network, box, 0) == 0.0


def test_scores_that_are_always_zero_tie_exactly() -> None:
    layer = Affine(-np.ones((2, 2)), np.zeros(2), (2,), (2,))
    network = Network((layer, Relu((2,))), (2,))
    hidden = network_bounds(network, Bounds(np.full(2, 0.5), np.ones(2)))[-2]
    low, high = confidence_bounds(network, hidden, 0)
    assert low[0] == high[0] == 0.0


def test_weights_on_inputs_that_are_zero_give_exactly_nothing() -> None:
    """A layer whose neurons are all off: the scores behind it tie, and nothing is rounded."""
    layer = Affine(np.array([[1.5, -2.0, 0.0], [0.1, 0.2, 0.3]]), np.zeros(2), (3,), (2,))
    dead = Bounds(np.zeros(3), np.array([0.0, 0.0, 1.0]))
    found = linear_bounds(layer, dead)
    assert found.lower[0] == found.upper[0] == 0
    assert found.lower[1] < 0 < found.upper[1]
    low, high = confidence_bounds(Network((layer,), (3,)), Bounds(np.zeros(3), np.zeros(3)), 0)
    assert low[0] == high[0] == 0
    biased = Affine(layer.pull(np.eye(2)), np.array([0.1, 0.0]), (3,), (2,))
    found = linear_bounds(biased, dead)
    assert found.lower[0] < 0.1 < found.upper[0]


def test_overflow_is_no_bound() -> None:
    layers: list[AbstractLinear | Relu] = []
    for _ in range(3):
        layers += [Affine(np.full((2, 2), 1e200), np.full(2, -1e200), (2,), (2,)), Relu((2,))]
    network = Network(tuple(layers), (2,))
    for bounds in network_bounds(network, Bounds(np.zeros(2), np.ones(2))):
        assert not np.isnan(bounds.lower).any()
        assert not np.isnan(bounds.upper).any()
    assert (bounds.upper == np.inf).all()
    assert largest_confidence(network, Bounds(np.zeros(2), np.ones(2)), 0) == np.inf


def test_magnitudes() -> None:
    bounds = Bounds(np.array([-3.0, 1.0]), np.array([2.0, 4.0]))
    assert bounds.magnitude.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("number", range(0, 192, 13))
def test_no_optimum_exceeds_the_largest_confidence(number: int) -> None:
    problem = Case(number).problem()
    size, domain = problem.domain.size, problem.domain
    box = Bounds(np.full(size, domain.lower), np.full(size, domain.upper))
    largest = max(largest_confidence(problem.network, box, problem.source), 0.0)
    assert all(truth.low <= Fraction(largest) for truth in exact_optimum(problem).values())
