"""The lemma on single neurons: equal indices, shifted indices, and what must not follow."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Network
from vhagar.dependency import DependencyOptions, Relations, find_dependencies
from vhagar.dependency.propagation import through_linear, through_relu
from vhagar.dependency.relation import Rule, same_indices, unrelated
from vhagar.network import Affine, Convolution, Relu
from vhagar.perturbation import Domain, parse
from vhagar.relaxation import Bounds

from ..relaxation.samples import pairs
from .exact import violations
from .orders import orders_of

UNIT = Bounds(np.zeros(3), np.ones(3))
SIGNED = Bounds(-np.ones(3), np.ones(3))
NO_SOLVER = DependencyOptions(optimise=False)


def related(*orders: str) -> Relations:
    can_rise = np.array([order in "<=?" and order != "=" for order in orders])
    can_fall = np.array([order in (">=", "?") for order in orders])
    return same_indices(len(orders)).restricted(can_rise, can_fall, Rule.PERTURBATION)


def order_of(known: Relations) -> str:
    (order,) = orders_of(known)
    return "?" if order is None else order.value


@pytest.mark.parametrize(
    ("weights", "below", "expected"),
    [
        ((1, 2, -3), ("=", "=", "="), "="),
        ((1, 2, -3), ("<=", "=", "="), "<="),
        ((-1, 2, -3), ("<=", "=", "="), ">="),
        ((1, 2, -3), ("<=", "<=", ">="), "<="),
        ((1, 2, -3), (">=", ">=", "<="), ">="),
        ((1, 2, -3), ("<=", "=", "<="), "?"),
        ((0, 2, 0), ("?", "<=", "?"), "<="),
        ((1, 0, 0), ("?", "=", "="), "?"),
        ((1e-300, -1, 0), ("<=", "<=", "="), "?"),  # however small, it counts
    ],
)
def test_a_neuron_and_its_copy(
    weights: tuple[float, ...], below: tuple[str, ...], expected: str
) -> None:
    layer = Affine(np.array([weights], dtype=float), np.zeros(1), (3,), (1,))
    known = through_linear(layer, related(*below), same_indices(1), SIGNED, SIGNED)
    assert order_of(known) == expected


@pytest.mark.parametrize(
    ("first", "second", "bias", "bounds", "expected"),
    [
        ((1, -2, 3), (1, -2, 3), (0, 0), SIGNED, "="),
        ((1, -2, 3), (1, -2, 3), (0, 1), SIGNED, "<="),
        ((1, -2, 3), (1, -2, 3), (1, 0), SIGNED, ">="),
        ((1, -2, 3), (1, -2, 4), (0, 0), UNIT, "<="),
        ((1, -2, 3), (1, -2.5, 3), (0, 0), UNIT, ">="),
        ((1, -2, 3), (1, -2.5, 4), (0, 0), UNIT, "?"),
        ((1, -2, 3), (1, -2, 4), (0, 0), SIGNED, "?"),  # the value may be negative
        ((1, -2, 3), (1, -2, np.nextafter(3, 4)), (0, 0), UNIT, "<="),
    ],
)
def test_two_neurons(
    first: tuple[float, ...],
    second: tuple[float, ...],
    bias: tuple[float, float],
    bounds: Bounds,
    expected: str,
) -> None:
    """Neuron 0 of the first copy, neuron 1 of the second, over equal inputs."""
    layer = Affine(np.array([first, second]), np.array(bias, dtype=float), (3,), (2,))
    pair = unrelated(np.array([0]), np.array([1]))
    known = through_linear(layer, related("=", "=", "="), pair, bounds, bounds)
    assert order_of(known) == expected


def test_inputs_without_a_partner_count_by_their_sign() -> None:
    """Input 0 of the first copy is input 1 of the second; the others are on their own."""
    below = unrelated(np.array([0]), np.array([1])).restricted(
        np.array([False]), np.array([False]), Rule.PERTURBATION
    )
    layer = Affine(np.array([[5.0, 0.0, 2.0], [0.0, 5.0, -3.0]]), np.zeros(2), (3,), (2,))
    pair = unrelated(np.array([0]), np.array([1]))
    # 5 y_p[1] - 3 y_p[2] against 5 y[0] + 2 y[2], where y_p[1] = y[0]
    assert order_of(through_linear(layer, below, pair, UNIT, UNIT)) == ">="
    black = Bounds(np.zeros(3), np.zeros(3))
    assert order_of(through_linear(layer, below, pair, UNIT, black)) == ">="
    assert order_of(through_linear(layer, below, pair, black, black)) == "="
    assert order_of(through_linear(layer, below, pair, SIGNED, UNIT)) == "?"


def test_relu_keeps_an_order_and_makes_the_inactive_equal() -> None:
    known = related("<=", ">=", "?", "?")
    first = Bounds(np.zeros(4), np.array([1.0, 1.0, 0.0, 0.0]))
    second = Bounds(np.zeros(4), np.array([1.0, 1.0, 0.0, 1.0]))
    orders = orders_of(through_relu(Relu((4,)), known, first, second))
    assert [order.value for order in orders if order] == ["<=", ">=", "=", "<="]
    # A linear unit that is at most 0 may well be above another.
    linear = Relu((4,), np.ones(4, dtype=bool))
    orders = orders_of(through_relu(linear, known, first, second))
    assert [order.value if order else None for order in orders] == ["<=", ">=", None, None]


def test_disjoint_bounds() -> None:
    """Ranges that at most touch order their values; the caller's bounds are taken at their word."""
    weight = np.array([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]])
    network = Network((Affine(weight, np.zeros(3), (2,), (3,)),), (2,))
    (piece,) = parse("linf(1)").pieces(Domain((2,)))
    low, high = [Bounds(np.full(3, a), np.full(3, a + 1)) for a in (-1.0, 0.0)]
    mixed = Bounds(np.array([0.0, -1.0, -1.0]), np.array([1.0, 0.0, 1.0]))
    up = find_dependencies(network, piece, ([low], [high]), NO_SOLVER).layers[-1]
    assert [order.value for order in orders_of(up) if order] == ["<="] * 3
    down = find_dependencies(network, piece, ([high], [low]), NO_SOLVER).layers[-1]
    assert [order.value for order in orders_of(down) if order] == [">="] * 3
    some = find_dependencies(network, piece, ([low], [mixed]), NO_SOLVER).layers[-1]
    assert some.first.tolist() == [0]


KERNEL = np.array([[[[0.5, -1.0], [2.0, 0.25]]]])


def moving(
    translation: str, stride: int = 1, padding: int = 0, black: float = 0.0
) -> tuple[Network, list[Relations]]:
    shape = (1, 5, 6)
    first = Convolution(KERNEL, np.array([-0.5]), shape, (stride, stride), (padding,) * 4)
    last = Affine(np.ones((2, first.out_size)), np.zeros(2), first.out_shape, (2,))
    network = Network((first, Relu(first.out_shape), last), shape)
    (piece,) = parse(translation).pieces(Domain(shape, black, 1.0))
    found = find_dependencies(network, piece, options=NO_SOLVER)
    rng = np.random.default_rng(3)
    for pair in pairs(piece, rng, 12):
        assert list(violations(found.layers, network, pair)) == []
    return network, list(found.layers)


def shifted(known: Relations, sign: str) -> set[tuple[int, int]]:
    return {
        (int(a), int(b))
        for a, b, order in zip(known.first, known.second, orders_of(known), strict=True)
        if a != b and order is not None and order.value == sign
    }


def test_interior_neurons_just_move() -> None:
    """4x5 places; moved right by one, the first four columns appear in the last four."""
    _, layers = moving("translation(0,1)")
    expected = {(5 * i + j, 5 * i + j + 1) for i in range(4) for j in range(4)}
    for known in layers[1:3]:
        assert shifted(known, "=") == expected


@pytest.mark.parametrize("text", ["translation(2,0)", "translation(-1,-2)", "translation(1,-1)"])
def test_every_direction(text: str) -> None:
    _, layers = moving(text)
    down, right = (int(part) for part in text[12:-1].split(","))
    expected = {
        (5 * i + j, 5 * (i + down) + j + right)
        for i in range(4)
        for j in range(5)
        if 0 <= i + down < 4 and 0 <= j + right < 5
    }
    assert shifted(layers[2], "=") == expected


def test_a_stride_that_divides_the_move() -> None:
    _, layers = moving("translation(2,2)", stride=2)
    assert shifted(layers[2], "=") == {(0, 4), (1, 5)}
    assert not shifted(moving("translation(1,2)", stride=2)[1][2], "=")


def test_black_is_like_padding_where_black_is_0() -> None:
    """With padding, 6x7 places: only what leaves the image at the right differs, by signs."""
    _, layers = moving("translation(0,1)", padding=1)
    known = layers[1]
    equal = {(7 * i + j, 7 * i + j + 1) for i in range(6) for j in range(5)}
    # In column 5 the weights on the leaving pixel are -1 and 0.25: only rows that see one of them
    # alone have an order.
    assert equal <= shifted(known, "=")
    assert shifted(known, "<=") == {(5 * 7 + 5, 5 * 7 + 6)}
    assert shifted(known, ">=") == {(5, 6)}


def test_black_is_not_like_padding_where_it_is_not_0() -> None:
    _, layers = moving("translation(0,1)", padding=1, black=-1.0)
    equal = {(7 * i + j, 7 * i + j + 1) for i in range(6) for j in range(1, 5)}
    assert shifted(layers[1], "=") == equal
