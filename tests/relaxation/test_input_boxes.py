"""Linear functions over boxes of inputs lie above the leads, in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from vhagar import Network
from vhagar.network import Affine, Relu
from vhagar.relaxation.input_boxes import Boxes, ForwardBounds, largest_over_pairs, ranges

from ..marks import mostly_slow
from ..oracle.cases import Case
from ..oracle.exact import rational_forward


def boxes_in(rng: np.random.Generator, low: float, high: float, size: int, count: int) -> Boxes:
    """Boxes of all sizes, down to single points."""
    ends = np.sort(rng.uniform(low, high, (count, size, 2)), axis=2)
    width = (ends[..., 1] - ends[..., 0]) * 10.0 ** -rng.integers(0, 12, (count, 1))
    lower = ends[..., 0]
    upper = np.minimum(lower + width, high)
    upper[0] = lower[0]
    return Boxes(lower, upper)


def value_at(function: np.ndarray, u: list[Fraction]) -> Fraction:
    terms = (Fraction(float(c)) * v for c, v in zip(function[:-1], u, strict=True))
    return sum(terms, Fraction(float(function[-1])))


@pytest.mark.parametrize("branched", [False, True])
@pytest.mark.parametrize("number", mostly_slow(range(0, 96, 5), 8))
def test_functions_are_above_the_leads(number: int, branched: bool) -> None:
    """At points of each box, exactly, whatever the weights' sizes: also at its corners."""
    problem = Case(number, branched=branched).problem()
    network, domain = problem.network, problem.domain
    rng = np.random.default_rng(number)
    boxes = boxes_in(rng, domain.lower, domain.upper, domain.size, 6)
    leads = np.array([np.eye(network.classes)[0] - np.eye(network.classes)[1]])
    above = ForwardBounds(network).upper(boxes, leads)
    least, most = ranges(above)
    for k in range(len(boxes)):
        for place in (0.0, 1.0, *rng.uniform(size=3)):
            x = boxes.lower[k] + place * (boxes.upper[k] - boxes.lower[k])
            x = np.clip(x, boxes.lower[k], boxes.upper[k])
            exact = rational_forward(network, x)
            lead = exact[0] - exact[1]
            centre, radius = boxes.centre[k], boxes.radius[k]
            u = [
                (Fraction(float(a)) - Fraction(float(c))) / Fraction(float(r))
                for a, c, r in zip(x, centre, radius, strict=True)
            ]
            assert all(abs(one) <= 1 for one in u)
            assert lead <= value_at(above[0, :, k], u) <= Fraction(float(most[0, k]))
            assert value_at(above[0, :, k], u) >= Fraction(float(least[0, k]))


@pytest.mark.parametrize("seed", range(8))
def test_pairs_are_never_above(seed: int) -> None:
    """Of all pairs near each other, at corners of both ranges above all."""
    rng = np.random.default_rng(seed)
    size, limit = 3, rng.uniform(0, 0.4, 3)
    boxes = boxes_in(rng, 0.0, 1.0, size, 5)
    images = Boxes(
        np.maximum(boxes.lower - limit - 1e-15, 0.0), np.minimum(boxes.upper + limit + 1e-15, 1.0)
    )
    first, second = rng.normal(size=(2, size + 1, 5))
    found = largest_over_pairs(first, second, boxes, images, limit)
    best = np.full(5, -np.inf)
    for k, picks in product(range(5), product(range(5), repeat=2 * size)):
        if seed and sum(picks) % 7:
            continue
        x = boxes.lower[k] + np.array(picks[:size]) / 4 * (boxes.upper[k] - boxes.lower[k])
        low, high = np.maximum(x - limit, 0.0), np.minimum(x + limit, 1.0)
        x_p = low + np.array(picks[size:]) / 4 * (high - low)
        u, w = (x - boxes.centre[k]) / boxes.radius[k], (x_p - images.centre[k]) / images.radius[k]
        value = first[:-1, k] @ u + first[-1, k] + second[:-1, k] @ w + second[-1, k]
        best[k] = max(best[k], value)
    assert (best <= found + 1e-9 * (1 + abs(found))).all()
    if not seed:  # the tight side, where a whole grid was tried; the first box is a point
        assert (found <= best + 0.01)[1:].all()


def test_small_boxes_are_bounded_closely() -> None:
    """The tight side: where no sign changes in a box, its functions are exact."""
    rng = np.random.default_rng(3)
    layers = (
        Affine(rng.normal(size=(8, 2)), rng.normal(size=8), (2,), (8,)),
        Relu((8,)),
        Affine(rng.normal(size=(3, 8)), rng.normal(size=3), (8,), (3,)),
    )
    network = Network(layers, (2,))
    x = rng.uniform(size=(20, 2))
    leads = np.array([[1.0, -1.0, 0.0]])
    above = ForwardBounds(network).upper(Boxes(x - 1e-7, x + 1e-7), leads)
    exact = (network.forward(x) @ leads.T)[:, 0]
    assert (abs(ranges(above)[1][0] - exact) < 1e-5).all()


def test_numbers_beyond_float64_bound_nothing() -> None:
    layers = (
        Affine(np.full((2, 2), 1e200), np.zeros(2), (2,), (2,)),
        Relu((2,)),
        Affine(np.full((2, 2), 1e200), np.zeros(2), (2,), (2,)),
    )
    boxes = Boxes(np.zeros((1, 2)), np.ones((1, 2)))
    above = ForwardBounds(Network(layers, (2,))).upper(boxes, np.array([[1.0, -1.0]]))
    assert not ranges(above)[1][0, 0] < 0
