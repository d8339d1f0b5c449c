"""Exact arithmetic, the layers in all their arithmetics, and rotations."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from vhagar.network import Convolution
from vhagar.perturbation.interpolation import rotation_matrix
from vhagar_check.exact import Exact
from vhagar_check.layers import Conv, Dense, Linear, Network, Scale, gamma, interval
from vhagar_check.turning import cosine_and_sine, turn_weights


def test_floats_become_exact_fractions() -> None:
    values = np.array([0.1, -3.0, 0.0, 2.0**-1074, 1e300, -1 / 3])
    assert Exact.of(values).fractions() == [Fraction(float(value)) for value in values]


def test_large_floats_become_whole_numbers() -> None:
    assert Exact.of(np.array([2.0**60, -(2.0**70)])).fractions() == [2**60, -(2**70)]


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_has_no_exact_value(value: float) -> None:
    with np.errstate(all="ignore"), pytest.raises(OverflowError):
        Exact.of(np.array([1.0, value]))


def test_sums_and_products_are_exact() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 9)) * 10.0 ** rng.integers(-12, 12, (2, 9))
    left, right = ([Fraction(float(v)) for v in part] for part in (a, b))
    assert (Exact.of(a) + Exact.of(b)).fractions() == [
        x + y for x, y in zip(left, right, strict=True)
    ]
    assert Exact.of(a).dot(Exact.of(b)) == sum(x * y for x, y in zip(left, right, strict=True))
    assert Exact.of(a).positive().fractions() == [max(x, 0) for x in left]


def test_vectors_are_added_at_their_places() -> None:
    third = Exact.of_fractions([Fraction(1, 3), Fraction(2, 3)])
    half = Exact.of_fractions([Fraction(1, 2)])
    found = Exact.summed(4, [(slice(1, 3), third), (slice(2, 3), half), (slice(1, 2), half)])
    assert found.fractions() == [0, Fraction(5, 6), Fraction(7, 6), 0]
    assert Exact.summed(2, []).fractions() == [0, 0]
    assert third.part(slice(1, 2)).fractions() == [Fraction(2, 3)]
    kept = np.array([True, False, False])
    assert Exact.of(np.array([-1.0, -2, 3])).positive(kept).fractions() == [-1, 0, 3]


def _layers(rng: np.random.Generator) -> list[Linear]:
    shape = (4, 6, 5)
    convolutions = [
        Conv(rng.normal(size=(6, 4 // groups, 3, 2)), rng.normal(size=6), shape, *rest, groups)
        for groups in (1, 2)
        for rest in (((1, 1), (0, 0, 0, 0), (1, 1)), ((2, 1), (1, 0, 2, 1), (2, 1)))
    ]
    scale = Scale(rng.normal(size=7), rng.normal(size=7), rng.normal(size=7))
    return [Dense(rng.normal(size=(5, 7)), rng.normal(size=5)), scale, *convolutions]


@pytest.mark.parametrize("number", range(6))
def test_backward_is_the_transpose_of_forward(number: int) -> None:
    rng = np.random.default_rng(number)
    layer = _layers(rng)[number]
    z, p = rng.normal(size=(3, layer.in_size)), rng.normal(size=(3, layer.out_size))
    there = (layer.forward(layer.kernel, z) * p).sum(axis=1)
    back = (layer.backward(layer.kernel, p) * z).sum(axis=1)
    assert there == pytest.approx(back)


@pytest.mark.parametrize("number", range(6))
def test_exact_layers_agree_with_floats_and_lie_in_intervals(number: int) -> None:
    rng = np.random.default_rng(number)
    layer = _layers(rng)[number]
    z = rng.normal(size=layer.in_size)
    exact = layer.exact_forward(Exact.of(z)).fractions()
    low, high = interval(layer, z, z)
    assert all(lo <= value <= hi for lo, value, hi in zip(low, exact, high, strict=True))
    assert (high - low).max() < 1e-12
    (back,) = layer.backward(layer.kernel, rng.normal(size=(1, layer.out_size)))
    assert back.shape == (layer.in_size,)
    p = rng.normal(size=layer.out_size)
    floats = layer.backward(layer.kernel, p[None])[0]
    room = gamma(layer.terms + 8) * layer.backward(layer.size, abs(p)[None])[0]
    errors = [
        abs(Fraction(float(f)) - e)
        for f, e in zip(floats, layer.exact_backward(Exact.of(p)).fractions(), strict=True)
    ]
    assert all(error <= Fraction(float(r)) for error, r in zip(errors, room, strict=True))


@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_is_the_verifiers(groups: int) -> None:
    rng = np.random.default_rng(groups)
    weight, bias = rng.normal(size=(4, 4 // groups, 3, 3)), rng.normal(size=4)
    arguments = ((2, 1), (1, 2, 0, 1), (1, 2), groups)
    ours = Conv(weight, bias, (4, 7, 8), *arguments)
    theirs = Convolution(weight, bias, (4, 7, 8), *arguments)
    z = rng.normal(size=(2, ours.in_size))
    assert ours.out_shape == theirs.out_shape
    assert ours.forward(weight, z) + ours.bias == pytest.approx(theirs.forward(z))


def test_intervals_contain_what_they_bound() -> None:
    rng = np.random.default_rng(4)
    layer = Dense(rng.normal(size=(6, 9)), rng.normal(size=6))
    low = rng.normal(size=9)
    high = low + rng.random(9)
    ends = interval(layer, low, high)
    for _ in range(50):
        z = np.where(rng.random(9) < 0.5, low, high)
        value = layer.exact_forward(Exact.of(z)).fractions()
        assert all(lo <= v <= hi for lo, v, hi in zip(ends[0], value, ends[1], strict=True))


def test_a_network_in_exact_arithmetic() -> None:
    first = Dense(np.array([[1.0, -1.0], [2.0, 1.0]]), np.array([0.0, -1.0]))
    last = Dense(np.array([[1.0, 3.0], [-1.0, 0.5]]), np.array([0.25, 0.0]))
    network = Network(((first,), (last,)), (2,))
    assert network.classes == 2
    # Hidden: relu(0.5 - 0.25) and relu(1 + 0.25 - 1).
    scores = network.exact_scores(Exact.of(np.array([0.5, 0.25]))).fractions()
    assert scores == [Fraction(5, 4), Fraction(-1, 8)]


@pytest.mark.parametrize("angle", [0.0, 10.0, 45.0, 89.9, 90.0, 123.4, -30.0, 270.0, -360.0, 1e-9])
def test_sine_and_cosine(angle: float) -> None:
    cosine, sine = cosine_and_sine(angle)
    assert float(cosine) == pytest.approx(math.cos(math.radians(angle)), abs=1e-14)
    assert float(sine) == pytest.approx(math.sin(math.radians(angle)), abs=1e-14)
    assert abs(cosine**2 + sine**2 - 1) < Fraction(1, 10**30)


@pytest.mark.parametrize("angle", [0.0, 10.0, -33.3, 45.0, 90.0, 180.0, 300.0])
@pytest.mark.parametrize("image", [(1, 5, 5), (2, 4, 6), (1, 1, 3)])
def test_the_weights_of_a_turn_are_the_verifiers(angle: float, image: tuple[int, int, int]) -> None:
    theirs = rotation_matrix(image, angle).toarray()
    assert turn_weights(image, angle) == pytest.approx(theirs, abs=2e-15 + 2.0**-50)
