"""No float64 forward pass is further from exact arithmetic than the bound for the whole box."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from vhagar.network import Affine, Network, Relu
from vhagar.relaxation import Bounds
from vhagar.relaxation.rounding import forward_error
from vhagar.result.exact import exact_scores


def _network(rng: np.random.Generator, exponents: int) -> Network:
    sizes = [6, 8, 7, 3]
    layers: list[Affine | Relu] = []
    for before, after in itertools.pairwise(sizes):
        scale = 2.0 ** rng.integers(-exponents, exponents + 1, size=(after, before))
        weight = rng.normal(size=(after, before)) * scale
        layers += [Affine(weight, rng.normal(size=after), (before,), (after,)), Relu((after,))]
    return Network(tuple(layers[:-1]), (6,))


@pytest.mark.parametrize("exponents", [0, 3, 30, 200])
def test_every_forward_pass_is_within_the_error(exponents: int) -> None:
    rng = np.random.default_rng(exponents)
    for _ in range(20):
        network = _network(rng, exponents)
        error = forward_error(network, Bounds(np.full(6, -1.0), np.ones(6)))
        for x in rng.uniform(-1, 1, size=(10, 6)):
            exact = exact_scores(network, x)
            assert exact is not None
            for plain, true, most in zip(network.forward(x)[0], exact, error, strict=True):
                assert abs(Fraction(plain) - true) <= Fraction(most)


def test_the_error_is_small_beside_the_scores() -> None:
    network = _network(np.random.default_rng(5), 0)
    error = forward_error(network, Bounds(np.full(6, -1.0), np.ones(6)))
    scores = abs(network.forward(np.random.default_rng(1).uniform(-1, 1, (100, 6)))).max(axis=0)
    assert (error < 1e-11 * scores).all()


def test_a_cancelling_sum_is_as_inexact_as_stated() -> None:
    """1e16 + 1 - 1e16 is 0 or 2 in float64: the bound admits it."""
    weight = np.array([[1e16, 1.0, -1e16], [0.0, 0.0, 0.0]])
    network = Network((Affine(weight, np.zeros(2), (3,), (2,)),), (3,))
    error = forward_error(network, Bounds(np.zeros(3), np.ones(3)))
    assert error[0] >= abs(network.forward(np.ones(3))[0, 0] - 1)
    assert error[0] >= 1


def test_scores_beyond_float64_have_no_error_bound() -> None:
    layers = [Affine(np.full((2, 2), 1e300), np.zeros(2), (2,), (2,)) for _ in range(2)]
    network = Network(tuple(layers), (2,))
    assert (forward_error(network, Bounds(np.zeros(2), np.ones(2))) == np.inf).all()
