"""No float64 forward pass is further from exact arithmetic than the bound for the whole box."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from vhagar.network import Affine, Network, Relu, onnx_bytes
from vhagar.relaxation import Bounds
from vhagar.relaxation.rounding import FLOAT32, forward_error
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


@pytest.mark.parametrize("exponents", [0, 3, 12])
def test_float32_by_onnxruntime_is_within_the_error(exponents: int) -> None:
    """The runtime rounds weights, inputs of layers and sums, in whatever order it adds."""
    from onnxruntime import InferenceSession

    rng = np.random.default_rng(exponents)
    for _ in range(10):
        network = _network(rng, exponents)
        error = forward_error(network, Bounds(np.full(6, -1.0), np.ones(6)), FLOAT32)
        session = InferenceSession(onnx_bytes(network), providers=["CPUExecutionProvider"])
        batch = rng.uniform(-1, 1, size=(10, 6)).astype(np.float32)
        for x, found in zip(batch, session.run(None, {"image": batch})[0], strict=True):
            exact = exact_scores(network, x.astype(np.float64))
            assert exact is not None
            for plain, true, most in zip(found, exact, error, strict=True):
                assert abs(Fraction(float(plain)) - true) <= Fraction(most)


def test_each_layer_in_the_worst_float32_order_is_within_the_error() -> None:
    """Products and sums rounded one by one, the largest first: what no runtime does worse."""
    rng = np.random.default_rng(11)
    worst = 0.0
    for _ in range(50):
        weight = rng.normal(size=(2, 400)) * 2.0 ** rng.integers(-6, 7, size=400)
        network = Network((Affine(weight, rng.normal(size=2), (400,), (2,)),), (400,))
        error = forward_error(network, Bounds(np.zeros(400), np.ones(400)), FLOAT32)
        x = rng.random(400).astype(np.float32)
        exact = exact_scores(network, x.astype(np.float64))
        assert exact is not None
        for row in range(2):
            products = weight[row].astype(np.float32) * x
            total = np.float32(weight.dtype.type(0))
            for product in products[np.argsort(-abs(products))]:
                total = np.float32(total + product)
            total = np.float32(total + np.float32(network.layers[0].flat_bias[row]))
            off = abs(Fraction(float(total)) - exact[row])
            assert off <= Fraction(error[row])
            worst = max(worst, float(off / Fraction(error[row])))
    assert worst > 1e-4  # the bound is no fantasy


def test_numbers_beyond_float32_have_no_error_bound() -> None:
    for weight in (np.full((2, 2), 1e38), np.array([[1e39, 0.0], [0.0, 1.0]])):
        network = Network((Affine(weight, np.zeros(2), (2,), (2,)),), (2,))
        box = Bounds(np.zeros(2), np.array([0.0, 2.0]))
        assert np.isinf(forward_error(network, box, FLOAT32)[0])
        assert np.isfinite(forward_error(network, box)).all()


def test_so_many_roundings_are_not_bounded() -> None:
    network = Network((Affine(np.ones((2, 200_000)), np.zeros(2), (200_000,), (2,)),), (200_000,))
    box = Bounds(np.zeros(200_000), np.ones(200_000))
    assert np.isinf(forward_error(network, box, FLOAT32)).all()
    assert np.isfinite(forward_error(network, box)).all()


def test_a_float32_number_may_be_taken_for_zero() -> None:
    """Processors that flush small numbers lose no more than this."""
    tiny = 2.0**-127
    network = Network((Affine(np.eye(2), np.zeros(2), (2,), (2,)),), (2,))
    error = forward_error(network, Bounds(np.full(2, tiny), np.full(2, tiny)), FLOAT32)
    assert (error >= tiny).all()
