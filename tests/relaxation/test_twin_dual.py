"""The twin dual bound holds for every choice of multipliers, in exact arithmetic."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from vhagar.network import Affine
from vhagar.relaxation.layerwise import TwinBounds, quick_bounds
from vhagar.relaxation.stages import Stage
from vhagar.relaxation.twin_dual import (
    Allowed,
    Backward,
    Choice,
    _lost_to_underflow,
    at_input,
    paying,
    through_relu,
    through_stage,
    twin_bound,
    unit,
)

from ..marks import mostly_slow
from ..oracle.exact import rationals
from .samples import (
    BUILDS,
    PERTURBATIONS,
    ExactNetwork,
    Pair,
    Rng,
    Values,
    domain_of,
    network_of,
    overshoot,
    pair_at,
    pairs,
    pieces_of,
)

SCALES = (1e-6, 1.0, 1e6)
STARTS = 4
POINTS = 5

every_build = pytest.mark.parametrize("build", BUILDS)
every_perturbation = pytest.mark.parametrize(("text", "clip"), mostly_slow(PERTURBATIONS, 2))


def any_numbers(rng: Rng) -> Choice:
    """Multipliers out of nowhere, some far too large, some exactly the layer's own."""

    def choose(layer: int, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        size = 10.0 ** rng.integers(-4, 5, a.shape)
        wild = size * rng.normal(size=(2, *a.shape))
        own = rng.random((2, *a.shape)) < 0.5
        slopes = rng.uniform(-0.2, 1.2, (2, *a.shape))
        return np.where(own[0], slopes[0] * a, wild[0]), np.where(own[1], slopes[1] * b, wild[1])

    return choose


def bound(
    bounds: TwinBounds,
    start: tuple[np.ndarray, np.ndarray],
    choose: Choice,
    allowed: Allowed | None = None,
) -> list[Fraction]:
    found = twin_bound(
        bounds.stages,
        bounds.piece,
        start,
        paying(bounds.corners, choose, None if allowed is None else allowed.layers),
        bounds.magnitudes(len(bounds.stages) - 1),
        None if allowed is None else allowed.pixels,
    )
    assert np.isfinite(found).all()
    return [Fraction(float(value)) for value in found]


def linear(coefficients: np.ndarray, values: np.ndarray) -> Fraction:
    return Fraction(rationals(coefficients) @ values)


@every_build
@every_perturbation
def test_any_multipliers_bound_every_input(build: str, text: str, clip: bool) -> None:
    rng = np.random.default_rng([1, BUILDS.index(build), PERTURBATIONS.index((text, clip))])
    scale = SCALES[rng.integers(3)]
    network = network_of(build, rng, scale)
    exact = ExactNetwork(network)
    for piece in pieces_of(text, clip, domain_of(build)):
        bounds = quick_bounds(network, piece)
        start = rng.normal(size=(2, STARTS, network.classes))
        start[1, 0] = -start[0, 0]
        quick = bound(bounds, start, lambda layer, a, b: (0.5 * a, 0.5 * b))
        wild = bound(bounds, start, any_numbers(rng))
        again = bound(bounds, start, any_numbers(rng))
        for pair in pairs(piece, rng, POINTS):
            first, second = exact(pair.exact), exact(pair.exact_p)
            for k in range(STARTS):
                value = linear(start[0, k], first.scores) + linear(start[1, k], second.scores)
                assert value <= quick[k]
                assert value <= wild[k]
                assert value <= again[k]


def cut_off(values: np.ndarray, positive: np.ndarray, decided: np.ndarray) -> np.ndarray:
    """Minus infinity for the corners `(corners, entries)` on the other side of a decision."""
    return np.where(decided & np.where(positive, values < 0, values > 0), -np.inf, 0.0)


def consistent(bounds: TwinBounds, pair: Pair, copies: tuple[Values, Values], rng: Rng) -> Allowed:
    """Random decisions that a pair agrees with: signs of neurons, and which pixels clip."""
    layers = []
    for corners, s, t in zip(bounds.corners, *(copy.entering for copy in copies), strict=True):
        mask = np.zeros(corners.s.shape)
        for values, entering in ((corners.s, s), (corners.t, t)):
            mask += cut_off(values, entering > 0, rng.random(len(entering)) < 0.6)
        layers.append(mask if rng.random() < 0.9 else None)
    pixels, over = None, overshoot(bounds.piece, pair)
    if over is not None:
        sides = bounds.piece.pixel_corners().side[:, None]
        pixels = cut_off(sides, over > 0, rng.random(len(over)) < 0.6)
    return Allowed(tuple(layers), pixels)


@every_build
@every_perturbation
def test_decisions_keep_the_inputs_that_agree_with_them(build: str, text: str, clip: bool) -> None:
    rng = np.random.default_rng([2, BUILDS.index(build), PERTURBATIONS.index((text, clip))])
    scale = SCALES[rng.integers(3)]
    network = network_of(build, rng, scale)
    exact = ExactNetwork(network)
    for piece in pieces_of(text, clip, domain_of(build)):
        bounds = quick_bounds(network, piece)
        for pair in pairs(piece, rng, 3):
            first, second = exact(pair.exact), exact(pair.exact_p)
            start = rng.normal(size=(2, 2, network.classes))
            allowed = consistent(bounds, pair, (first, second), rng)
            found = bound(bounds, start, any_numbers(rng), allowed)
            for k, limit in enumerate(found):
                value = linear(start[0, k], first.scores) + linear(start[1, k], second.scores)
                assert value <= limit


@pytest.mark.parametrize("scale", SCALES)
@every_perturbation
def test_where_nothing_is_relaxed_the_bound_is_attained(
    text: str, clip: bool, scale: float
) -> None:
    """Only rounding separates the bound from the maximum, and it is on the right side."""
    rng = np.random.default_rng([3, PERTURBATIONS.index((text, clip))])
    for build in ("always on", "no relu"):
        network = network_of(build, rng, scale)
        exact = ExactNetwork(network)
        first_layer, *_, last_layer = network.layers
        product = last_layer.weight @ first_layer.weight
        for piece in pieces_of(text, clip, domain_of(build)):
            bounds = quick_bounds(network, piece)
            start = rng.normal(size=(2, STARTS, 3))
            found = bound(bounds, start, lambda layer, a, b: (a, b))
            best = piece.support(start[0] @ product, start[1] @ product)
            for k in range(STARTS):
                pair = pair_at(piece, best.x[k], best.parameters[k])
                first, second = exact(pair.exact), exact(pair.exact_p)
                value = linear(start[0, k], first.scores) + linear(start[1, k], second.scores)
                assert value <= found[k]
                if piece.exact_support:
                    size = max(abs(value) for value in (*first.scores, *second.scores))
                    assert float(found[k] - value) <= 1e-9 * float(size)


@pytest.mark.parametrize("copies", [(1.0, 1.0), (1.0, 0.0), (0.0, -1.0)])
def test_the_allowance_covers_biases_that_cancel(copies: tuple[float, float]) -> None:
    """The sum of the biases is 3, or -3; in float64 it is lost, and the weights are 0."""
    bias = np.array([2.0**53, 1.0, 1.0, 1.0, -(2.0**53)])
    layer = Affine(np.zeros((5, 2)), bias, (2,), (5,))
    start = tuple(np.full((1, 5), copy) for copy in copies)
    found = through_stage(Stage((layer,)), Backward.begin(start), (np.zeros(2),))
    exact = Fraction(sum(copies)) * 3
    assert Fraction(float(found.constant[0])) != exact
    assert exact <= Fraction(float(found.constant[0])) + Fraction(float(found.error[0]))


@pytest.mark.parametrize(("kind", "half_ulp"), [(np.float64, 2.0**-53), (np.float32, 2.0**-24)])
def test_the_error_of_a_sum_is_that_of_its_precision(kind: type, half_ulp: float) -> None:
    assert unit(6, np.zeros(1, kind)) == 1.05 * half_ulp * 10
    assert unit(0, np.zeros(1, kind)) == 1.05 * half_ulp * 4


@pytest.mark.parametrize(("kind", "least"), [(np.float64, 2.0**-1022), (np.float32, 2.0**-126)])
def test_what_underflow_loses_is_paid_at_the_inputs_size(kind: type, least: float) -> None:
    size = np.array([2.0**100, 3 * 2.0**100])
    assert _lost_to_underflow(4, size, np.zeros(1, kind)) == 2 * least * 5 * 4 * 2.0**100


def stage_of(weight: list[list[float]], bias: list[float]) -> Stage:
    shape = (len(weight[0]),), (len(bias),)
    return Stage((Affine(np.array(weight), np.array(bias), *shape),))


def test_every_error_of_a_stage_is_counted() -> None:
    """Each term by itself, where all others vanish or are far smaller."""
    ulp = 2.0**-53
    p, q = np.array([[2.0, -1.0]]), np.array([[-4.0, 3.0]])
    sizes = (np.array([8.0, 16.0]),)
    biased = through_stage(
        stage_of([[0.0, 0.0], [0.0, 0.0]], [5.0, -7.0]), Backward.begin((p, q)), sizes
    )
    assert biased.constant.tolist() == [(2 - 4) * 5.0 + (-1 + 3) * -7.0]
    spread = 6 * 5.0 + 4 * 7.0
    assert biased.error[0] == pytest.approx(
        1.05 * ulp * (2 + 4 + 4) * spread + ulp * 24, rel=1e-9, abs=0.0
    )
    weighed = through_stage(
        stage_of([[1.0, -2.0], [0.5, 0.0]], [0.0, 0.0]), Backward.begin((p, q)), sizes
    )
    assert weighed.a.tolist() == [[2.0 - 0.5, -4.0]]
    assert weighed.b.tolist() == [[-4.0 + 1.5, 8.0]]
    paid = (6 * 1.0 + 4 * 0.5) * 8 + 6 * 2.0 * 16
    assert weighed.error[0] == pytest.approx(1.05 * ulp * (2 * 2 + 8 + 4) * paid, rel=1e-9, abs=0.0)
    none = through_stage(stage_of([[1.0, -2.0], [0.5, 0.0]], [1.0, 2.0]), Backward.begin((p, q)))
    assert none.error.tolist() == [0.0]


def test_what_a_stage_loses_to_underflow_is_counted() -> None:
    """Coefficients of 0 may have been lost on the way; nothing else is added here."""
    zero, sizes = np.zeros((1, 2)), (np.array([2.0**900, 3 * 2.0**900]),)
    found = through_stage(
        stage_of([[1.0, -2.0], [0.5, 0.0]], [5.0, -7.0]), Backward.begin((zero, zero)), sizes
    )
    assert found.error.tolist() == [2 * 2.0**-1022 * (2 + 1) * 4 * 2.0**900]


def test_every_error_of_a_relu_is_counted() -> None:
    ulp, size = 2.0**-53, np.array([8.0, 16.0])
    state = Backward(
        np.array([[1.0, -2.0]]), np.array([[3.0, 4.0]]), np.array([10.0]), np.array([0.5])
    )
    p, q, offsets = np.array([[-5.0, 6.0]]), np.array([[7.0, -8.0]]), np.array([[1.0, 2.0]])
    found = through_relu(state, (p, q, offsets), size)
    assert found.constant.tolist() == [13.0]
    weight = (1 + 3 + 5 + 7) * 8 + (2 + 4 + 6 + 8) * 16
    error = 1.05 * ulp * (2 * 2 + 32 + 4) * weight + ulp * 13
    assert found.error[0] - 0.5 == pytest.approx(error, rel=1e-2, abs=0.0)
    assert found.error[0] >= 0.5 + 0.99 * error
    assert (found.a is p, found.b is q) == (True, True)
    assert through_relu(state, (p, q, offsets)).error.tolist() == [0.5]
    large = replace(state, constant=np.array([-(2.0**40)]), error=np.zeros(1))
    found = through_relu(large, (p, q, offsets), size)
    error = 1.05 * ulp * (2 * 2 + 32 + 4) * weight + ulp * (2.0**40 - 3)
    assert found.error[0] == pytest.approx(error, rel=1e-9, abs=0.0)


def test_what_is_added_at_the_input_covers_its_own_additions() -> None:
    """The constant and the support nearly cancel: what rounds is as large as either."""
    (piece,) = pieces_of("linf(0.1)", True, domain_of("plain"))
    state = Backward(
        np.full((1, 6), 2.0**40),
        np.zeros((1, 6)),
        np.array([-6 * 2.0**40]),
        np.array([3.0]),
    )
    support = piece.support(state.a, state.b).value
    (found,) = at_input(piece, state)
    total = float(state.constant[0] + support[0])
    scale = 6 * 2.0**40 + abs(total)
    assert found == pytest.approx(total + 2 * 3.0 + 8 * 2.0**-53 * scale, rel=1e-12, abs=0.0)
    assert found > total + 6.0 + 7.9 * 2.0**-53 * scale
    alone = Backward(state.a, state.b, np.zeros(1), np.zeros(1))
    (found,) = at_input(piece, alone)
    assert found - support[0] == pytest.approx(8 * 2.0**-53 * support[0], rel=0.2, abs=0.0)
