"""Contrast without clipping, asked about the network whose biases are scaled by one more input."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar import Network, Problem, Status, verify
from vhagar.network import Affine, Convolution, Relu
from vhagar.reduction.contrast import BiasPiece, Homogeneous
from vhagar.search.branch_and_bound import Bab
from vhagar.solver.linear_model import LinearModel

from ..marks import mostly_slow
from ..oracle.cases import between, change_in
from ..oracle.exact import exact_confidence_of, exact_optimum, overall, rational_forward, rationals
from ..oracle.networks import FLAVOURS, Wish, residual

SHAPE = (1, 2, 2)


def linear_form(problem: Problem) -> Problem:
    reduced = Homogeneous().apply(problem)
    assert reduced is not None
    assert reduced.original is problem
    return reduced.problem


def wish(seed: int) -> Wish:
    return Wish(np.random.default_rng([17, seed]), SHAPE, 3, 1.0, 0, [1, 2])


def networks() -> list[Network]:
    chains = [FLAVOURS[name](wish(k)) for k, name in enumerate(("plain", "convolutional"))]
    return [*chains, residual(wish(5))]


@pytest.mark.parametrize("network", networks(), ids=["plain", "convolutional", "residual"])
@pytest.mark.parametrize("factor", [Fraction(1, 3), Fraction(1), Fraction(7, 4)])
def test_the_image_scores_alike_up_to_the_factor(network: Network, factor: Fraction) -> None:
    """In rational numbers: no tolerance."""
    problem = Problem(network, perturbation="contrast([0.25,4])", source=0, targets=1, clip=False)
    scaled = linear_form(problem)
    x = rationals(np.random.default_rng(3).uniform(size=network.input_size))
    image = rational_forward(network, factor * x)
    inputs = np.append(x, 1 / factor)
    assert (factor * rational_forward(scaled.network, inputs) == image).all()
    first = rational_forward(scaled.network, np.append(x, Fraction(1)))
    assert (first == rational_forward(network, x)).all()


@pytest.mark.parametrize("seed", mostly_slow(range(12), 4))
@pytest.mark.parametrize("span", ["[1,2.5]", "[0.5,0.75]", "[0.5,1.5]"])
def test_the_interval_holds_the_optimum_and_closes(seed: int, span: str) -> None:
    """Where a range of factors was split before, and did not close."""
    rng = np.random.default_rng([23, seed])
    network = residual(wish(seed)) if seed % 3 == 0 else FLAVOURS["plain"](wish(seed))
    problem = Problem(network, perturbation=f"contrast({span})", source=0, targets=None, clip=False)
    change = change_in(problem, rng)
    problem = problem if change is None else between(problem, *change)
    assert Homogeneous().apply(problem) is not None
    result = verify(problem, timeout=60, engine=Bab(attack=False), workers=0)
    truth = overall(exact_optimum(problem))
    assert Fraction(result.lower) <= truth.high
    assert truth.low <= Fraction(result.upper)
    assert result.status in (Status.CLOSED, Status.ROBUST, Status.EXHAUSTED)
    if result.witness is not None:
        assert Fraction(result.witness.confidence) <= exact_confidence_of(problem, result.witness)


def test_the_factors_are_rounded_outward() -> None:
    problem = Problem(
        networks()[0], perturbation="contrast([0.7,1.3])", source=0, targets=1, clip=False
    )
    below, above = linear_form(problem).pieces
    assert isinstance(below, BiasPiece)
    assert isinstance(above, BiasPiece)
    assert below.h_range[0] == 1.0
    assert above.h_range[1] == 1.0
    assert Fraction(below.h_range[1]) >= 1 / Fraction(0.7)
    assert Fraction(above.h_range[0]) <= 1 / Fraction(1.3)


def test_the_support_is_attained_and_nothing_exceeds_it() -> None:
    (piece,) = linear_form(
        Problem(networks()[0], perturbation="contrast([1,3])", source=0, targets=1, clip=False)
    ).pieces
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(2, 8, piece.domain.size))
    found = piece.support(a, b)
    images = piece.apply(found.x, found.parameters)
    np.testing.assert_allclose((a * found.x + b * images).sum(axis=1), found.value, rtol=1e-9)
    assert (found.x[:, -1] == 1).all()
    for _ in range(50):
        x = rng.uniform(size=found.x.shape)
        x[:, -1] = 1.0
        h = rng.uniform(*piece.parameter_bounds, (8, 1))
        other = piece.apply(x, h)
        assert piece.contains(x, other, h).all()
        assert ((a * x + b * other).sum(axis=1) <= found.value).all()
    x[:, -1] = 0.5
    assert not piece.contains(x, other, h).any()


def test_the_rows_of_a_model_say_the_same() -> None:
    (piece,) = linear_form(
        Problem(networks()[0], perturbation="contrast([1,3])", source=0, targets=1, clip=False)
    ).pieces
    model = LinearModel()
    x = model.add_columns(np.zeros(piece.domain.size), np.ones(piece.domain.size))
    x_p = piece.add_rows(model, x).x_p
    arrays = model.arrays()
    assert (x_p[:-1] == x[:-1]).all()
    assert (arrays.column_lower[x_p[-1]], arrays.column_upper[x_p[-1]]) == piece.h_range
    assert arrays.row_lower.tolist() == arrays.row_upper.tolist() == [1.0]


def relu_last() -> Network:
    weight, bias = np.ones((3, 4)), np.zeros(3)
    return Network((Affine(weight, bias, SHAPE, (3,)), Relu((3,))), SHAPE)


@pytest.mark.parametrize(
    ("network", "text", "clip", "span"),
    [
        (networks()[0], "contrast([1,2])", True, (0.0, 1.0)),  # clips
        (networks()[0], "contrast([1,2])", False, (-1.0, 1.0)),  # black is not 0
        (networks()[0], "contrast([1,2])", False, (0.0, 0.5)),  # h = 1 is no input
        (networks()[0], "brightness([0,0.5])", False, (0.0, 1.0)),
        (relu_last(), "contrast([1,2])", False, (0.0, 1.0)),
    ],
)
def test_all_else_stays_as_it_is(
    network: Network, text: str, clip: bool, span: tuple[float, float]
) -> None:
    problem = Problem(network, perturbation=text, source=0, targets=1, clip=clip, input_range=span)
    assert Homogeneous().apply(problem) is None


def test_large_convolutions_stay_convolutions() -> None:
    layer = Convolution(np.ones((64, 1, 9, 9)), np.zeros(64), (1, 40, 40))
    last = Affine(np.zeros((2, layer.out_size)), np.zeros(2), layer.out_shape, (2,))
    network = Network((layer, Relu(layer.out_shape), last), (1, 40, 40))
    problem = Problem(network, perturbation="contrast([1,2])", source=0, targets=1, clip=False)
    assert Homogeneous().apply(problem) is None
