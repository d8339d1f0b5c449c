"""The verifier's own exact arithmetic against plain fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar import Network
from vhagar.network import Affine, Relu
from vhagar.result.exact import exact_confidence_sign, exact_scores

from ..oracle.cases import Case
from ..oracle.exact import rational_forward, rationals


@pytest.mark.parametrize("number", range(0, 192, 7))
def test_scores_are_exact(number: int) -> None:
    network = Case(number).problem().network
    rng = np.random.default_rng(number)
    x = rng.uniform(-1, 1, network.input_size)
    assert exact_scores(network, x) == rational_forward(network, rationals(x)).tolist()


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-8, 1e8, 1e300])
def test_no_number_is_too_small_or_too_large(scale: float) -> None:
    rng = np.random.default_rng(3)
    first = Affine(scale * rng.normal(size=(4, 3)), scale * rng.normal(size=4), (3,), (4,))
    last = Affine(scale * rng.normal(size=(2, 4)), np.array([0.0, scale]), (4,), (2,))
    network = Network((first, Relu((4,)), last), (3,))
    x = np.array([1.0, 0.0, 5e-324])
    assert exact_scores(network, x) == rational_forward(network, rationals(x)).tolist()


def test_signs_by_hand() -> None:
    # 1 + 2**-60 against 1: the same for float64.
    network = Network((Affine(np.eye(2), np.array([2.0**-60, 0.0]), (2,), (2,)),), (2,))
    ones = np.ones(2)
    assert network.forward(ones[None])[0].tolist() == [1.0, 1.0]
    assert exact_confidence_sign(network, ones, 0) == 1
    assert exact_confidence_sign(network, ones, 1) == -1
    assert exact_confidence_sign(network, np.array([0.0, 2.0**-60]), 0) == 0


def test_a_network_too_large_for_rationals_stays_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vhagar.result.exact._MOST_PRODUCTS", 1)
    network = Network((Affine(np.ones((2, 2)), np.zeros(2), (2,), (2,)),), (2,))
    assert exact_scores(network, np.ones(2)) is None
    assert exact_confidence_sign(network, np.ones(2), 0) is None


def test_an_empty_matrix_leaves_the_bias() -> None:
    network = Network((Affine(np.zeros((2, 2)), np.array([0.1, -3.0]), (2,), (2,)),), (2,))
    assert exact_scores(network, np.ones(2)) == [Fraction(0.1), Fraction(-3)]
