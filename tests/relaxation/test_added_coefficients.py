"""What joins the coefficients on their way back: facts, functions of a layer, places that exist."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vhagar.network import Affine
from vhagar.perturbation.decided_support import decided_support
from vhagar.relaxation.stages import Stage
from vhagar.relaxation.twin_dual import (
    INPUTS,
    Added,
    Allowed,
    Backward,
    at_input,
    backward,
    coefficients,
    paying,
    plus_inputs,
    twin_bound,
)

from .samples import domain_of, pieces_of

ULP = 2.0**-53
RNG = np.random.default_rng(5)
Numbers = np.ndarray


def affine(into: int, out: int) -> Affine:
    weight, bias = RNG.integers(-4, 5, (out, into)), RNG.integers(1, 9, out)
    return Affine(weight.astype(float), bias.astype(float), (into,), (out,))


# The second stage has two layers. All numbers are whole, so that sums are exact.
SIZES = ((2, 3), (3, 4, 2), (2, 3))
LAYERS = [[affine(*sizes) for sizes in pairwise(each)] for each in SIZES]
STAGES = [Stage(tuple(layers)) for layers in LAYERS]
MAGNITUDES = [tuple(RNG.integers(1, 9, n) * 1.0 for n in sizes[:-1]) for sizes in SIZES]
START = tuple(RNG.integers(-4, 5, (2, 2, 3)) * 1.0)


def pay(layer: int, a: Numbers, b: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    return a + b, 2 * b, np.full(a.shape, 3.0 + layer)


def state_of(a: list[float], b: list[float]) -> Backward:
    return Backward(np.array([a]), np.array([b]), np.array([7.0]), np.array([0.5]))


def through(k: int, a: Numbers, b: Numbers, constant: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    for layer in reversed(LAYERS[k]):
        constant = constant + (a + b) @ layer.bias
        a, b = a @ layer.weight, b @ layer.weight
    return a, b, constant


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("place", [None, 0, 1])
def test_facts_and_a_function_are_added_in_their_places(
    last: int, sized: bool, place: int | None
) -> None:
    """Facts before a layer is paid for, and about the inputs; the function on pre-activations."""
    sizes = MAGNITUDES if sized else None
    seen: list[tuple[int, Backward, Numbers | None]] = []

    def facts(layer: int, state: Backward, size: Numbers | None) -> Backward:
        seen.append((layer, state, size))
        return replace(state, a=state.a + 1, b=state.b - 2, constant=state.constant + 100)

    added = None if place is None else Added(place, np.full((2, 1), 5.0), np.full((2, 1), 6.0))
    found = backward(STAGES, START, pay, sizes, last, added, facts)
    (a, b), constant = START, np.zeros(2)
    expected: list[tuple[int, Numbers, Numbers | None]] = []
    for k in (2, 1):
        a, b, constant = through(k, a, b, constant)
        expected.append((k - 1, a, None if sizes is None else sizes[k][0]))
        a, b, constant = a + 1, b - 2, constant + 100
        a, b, paid = pay(k - 1, a, b)
        constant = constant + paid.sum(axis=1)
        if place == k - 1:
            a, b = a + 5, b + 6
    if not last:
        a, b, constant = through(0, a, b, constant)
        expected.append((INPUTS, a, None if sizes is None else sizes[0][0]))
        a, b, constant = a + 1, b - 2, constant + 100
    assert (found.a.tolist(), found.b.tolist()) == (a.tolist(), b.tolist())
    assert found.constant.tolist() == constant.tolist()
    assert (found.error > 0).all() == (found.error != 0).any() == sized
    for (layer, state, size), (where, own, known) in zip(seen, expected, strict=True):
        assert (layer, state.a.tolist()) == (where, own.tolist())
        assert size is known


def test_rows_may_start_in_one_copy_alone() -> None:
    begun = Backward.begin(START)
    assert (begun.a is START[0], begun.b is START[1]) == (True, True)
    assert begun.constant.tolist() == begun.error.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("last", [0, 1])
def test_the_coefficients_on_the_way(last: int) -> None:
    """On the outputs of each ReLU layer, facts among them, and then on the inputs."""

    def facts(layer: int, state: Backward, size: None) -> Backward:
        return replace(state, a=state.a + 10 + layer)

    found = coefficients(STAGES, START, lambda *given: pay(*given)[:2], last, facts)
    a, b = START
    expected = []
    for k in (2, 1, 0)[: 3 - last]:
        a, b, _ = through(k, a, b, np.zeros(2))
        a = a + 10 + (k - 1)
        expected.append((a, b))
        a, b, _ = pay(k - 1, a, b)
    for (own, own_p), (known, known_p) in zip(found, expected, strict=True):
        assert (own.tolist(), own_p.tolist()) == (known.tolist(), known_p.tolist())


def test_a_function_is_added_with_the_rounding_of_its_sums() -> None:
    added = Added(0, np.array([[3.0, -4.0]]), np.array([[-5.0, 6.0]]))
    state = state_of([1.0, -2.0], [-7.0, 8.0])
    found = added.to(state, np.array([16.0, 32.0]))
    assert (found.a.tolist(), found.b.tolist()) == ([[4.0, -6.0]], [[-12.0, 14.0]])
    assert found.constant is state.constant
    weight = (1 + 7 + 3 + 5) * 16 + (2 + 8 + 4 + 6) * 32
    assert found.error[0] - 0.5 == pytest.approx(1.05 * ULP * 8 * weight, rel=1e-2, abs=0.0)
    small = replace(state, error=np.zeros(1))
    error = added.to(small, np.array([16.0, 32.0])).error
    assert error == pytest.approx(1.05 * ULP * 8 * weight, rel=1e-9, abs=0.0)
    assert added.to(state, None).error is state.error


def test_coefficients_on_inputs_are_added_with_the_rounding_of_their_sums() -> None:
    state, size = state_of([1.0, -2.0], [-7.0, 8.0]), np.array([16.0, 32.0])
    c, d = np.array([-3.0, 5.0]), np.array([9.0, -4.0])
    found = plus_inputs(state, c, d, size)
    assert (found.a.tolist(), found.b.tolist()) == ([[-2.0, 3.0]], [[2.0, 4.0]])
    assert found.constant is state.constant
    weight = (1 + 3 + 7 + 9) * 16 + (2 + 5 + 8 + 4) * 32
    assert found.error[0] - 0.5 == pytest.approx(1.05 * ULP * 6 * weight, rel=1e-2, abs=0.0)
    small = replace(state, error=np.zeros(1))
    error = plus_inputs(small, c, d, size).error
    assert error == pytest.approx(1.05 * ULP * 6 * weight, rel=1e-9, abs=0.0)
    assert plus_inputs(state, c, d, None).error is state.error


@pytest.mark.parametrize("decided", [None, ["first", "second"]])
@pytest.mark.parametrize("marked", [True, False])
def test_neurons_that_do_not_exist_are_0_whatever_their_coefficients(
    marked: bool, decided: list[Any] | None
) -> None:
    """They get none, and their multipliers do not count; a layer need not have such neurons."""
    exists = np.array([1.0, 0.0, 0.5])  # half a neuron shows that each is taken once
    seen: list[tuple[Numbers, Numbers]] = []

    def choose(layer: int, a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
        seen.append((a, b))
        return 4 * a + 1, 8 * b + 1

    a, b = np.array([[1.0, 2.0, 4.0]]), np.array([[-3.0, 5.0, 6.0]])
    corners: Any = [SimpleNamespace(offset=lambda *given: given)] * 2
    payment = paying(corners, choose, decided, [None, exists] if marked else None)
    for layer, share in ((0, np.ones(3)), (1, exists if marked else np.ones(3))):
        p, q, given = payment(layer, a, b)
        own, own_p = seen.pop()
        assert (own.tolist(), own_p.tolist()) == ((a * share).tolist(), (b * share).tolist())
        assert p.tolist() == ((4 * own + 1) * share).tolist()
        assert q.tolist() == ((8 * own_p + 1) * share).tolist()
        assert all(one is other for one, other in zip(given[:4], (own, own_p, p, q), strict=True))
        assert given[4] is (None if decided is None else decided[layer])


@pytest.mark.parametrize("limited", [False, True])
def test_decided_pixels_count_at_the_input(limited: bool) -> None:
    piece, *_ = pieces_of("brightness([0,0.3])", True, domain_of("plain"))
    corners = piece.pixel_corners()
    assert corners is not None
    clipped = np.where(corners.side < 0, -np.inf, 0.0)[:, None].repeat(6, axis=1)
    a, b = -np.arange(1.0, 7.0)[None], -np.ones((1, 6))
    state = Backward(a, b, np.array([2.0]), np.array([0.25]))
    support = decided_support(piece, a, b, clipped) if limited else piece.support(a, b).value
    found = at_input(piece, state, Allowed([], clipped).pixels if limited else None)
    assert found == pytest.approx(2 + support + 0.5, rel=1e-12)
    assert decided_support(piece, a, b, clipped) < piece.support(a, b).value - 0.1


def test_a_bound_takes_what_is_added() -> None:
    """Both copies' coefficients vanish but for what is added: the bound is that function's."""
    (piece,) = pieces_of("linf(0.1)", True, domain_of("plain"))
    weight = np.ones((2, 6))
    stages = [
        Stage((Affine(weight, np.zeros(2), (6,), (2,)),)),
        Stage((Affine(np.eye(2), np.zeros(2), (2,), (2,)),)),
    ]
    zero = np.zeros((1, 2))
    nothing = lambda layer, a, b: (0 * a, 0 * b, 0 * a)  # noqa: E731
    sizes = [(np.ones(6),), (np.full(2, 6.0),)]
    added = Added(0, np.array([[2.0, -1.0]]), zero)
    facts = lambda layer, state, size: replace(state, constant=state.constant + 1)  # noqa: E731
    (plain,) = twin_bound(stages, piece, (zero, zero), nothing, sizes)
    (found,) = twin_bound(stages, piece, (zero, zero), nothing, sizes, added=added)
    (both,) = twin_bound(stages, piece, (zero, zero), nothing, sizes, None, added, facts)
    assert 0 <= plain < 1e-12
    assert found == pytest.approx(6.0)
    assert both == pytest.approx(8.0)
