"""Interval arithmetic through stages: what it bounds in fractions, and all that it adds for
rounding."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from vhagar_check import intervals
from vhagar_check.exact import Exact
from vhagar_check.intervals import (
    Pulled,
    _one_by_one,
    _reached,
    _unit_rows,
    confidence_interval,
    directions_of_change,
    entering,
    leaving,
    score_size,
    steepness,
)
from vhagar_check.joined import Joined, Term
from vhagar_check.layers import HALF_ULP, TINY, UNDERFLOW, Dense, Linear, Network, Scale, gamma

Layers = tuple[Linear, ...]


def dense(weight: list[list[float]], bias: list[float] | None = None) -> Dense:
    return Dense(np.array(weight, float), np.zeros(len(weight)) if bias is None else np.array(bias))


DIFFERENCE = Joined(2, ((Term(0, 2), Term(0, 2, None, -1.0)), (Term(0, 2),)))
LOW, HIGH = np.array([-2.0, 1.0, 0.0, -3.0]), np.array([1.0, 2.0, 5.0, -1.0])


def whole_numbers(seed: int, side: str) -> tuple[tuple[Dense, Dense], np.ndarray]:
    """Two layers of whole numbers, whose least or largest values over the box are 0, so that the
    bound is the allowance for rounding alone."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(-5, 6, (6, 4)) * 1.0, rng.integers(-5, 6, (3, 6)) * 1.0
    bias, rows = rng.integers(-9, 10, 6) * 1.0, np.diag([1.0, -1.0, 1.0])
    matrix = rows @ second @ first
    ends = (LOW, HIGH) if side == "low" else (HIGH, LOW)
    reached = np.maximum(matrix, 0) @ ends[0] + np.minimum(matrix, 0) @ ends[1]
    last = -rows @ (reached + rows @ second @ bias)
    return (Dense(first, bias), Dense(second, last)), rows


@pytest.mark.parametrize("side", ["low", "high"])
@pytest.mark.parametrize("seed", range(4))
def test_every_rounding_is_paid_for(seed: int, side: str) -> None:
    layers, rows = whole_numbers(seed, side)
    first, second = layers
    pulled = Pulled.through(layers, rows)
    found = pulled.range(layers, LOW, HIGH)
    room = -found[0] if side == "low" else found[1]
    size = np.maximum(abs(LOW), abs(HIGH))
    after = (abs(first.weight) @ size + abs(first.bias)) * (1 + 1e-9)
    on_second = abs(rows) @ abs(second.weight)
    on_first = on_second @ abs(first.weight)
    stated = gamma(4 + 16) * (abs(rows @ second.weight @ first.weight) @ size)
    stated = stated + gamma(2 * 6 + 8) * (on_first @ size)
    stated = stated + gamma(2 * 6 + 8) * (on_second @ after)
    biases = abs(rows) @ abs(second.bias) + on_second @ abs(first.bias)
    stated = 1.01 * (stated + gamma(6 + 2 * 2 + 8) * biases)
    constant = rows @ second.bias + rows @ second.weight @ first.bias
    stated = stated + 8 * HALF_ULP * abs(constant)
    np.testing.assert_allclose(room, stated, rtol=1e-13)
    np.testing.assert_allclose(pulled.rows, rows @ second.weight @ first.weight)
    np.testing.assert_array_equal(pulled.constant, constant)
    share = 1.01 * 2 * gamma(2 * 6 + 8)
    np.testing.assert_allclose(pulled.room(layers), share * on_first, rtol=1e-13)


def test_what_underflows_is_paid_for() -> None:
    """Weights of 0 may be products that underflowed; inputs and biases are huge."""
    large = 2.0**122  # as large as makes what is lost comparable with `TINY`
    layers = (
        Dense(np.zeros((5, 3)), large * np.array([1.0, 2.0, 0.0, -3.0, 0.5])),
        Dense(np.zeros((2, 5)), np.zeros(2)),
    )
    low, high = large * np.array([-4.0, 0.0, 1.0]), large * np.array([1.0, 3.0, 1.0])
    least, most = Pulled.through(layers, np.eye(2)).range(layers, low, high)
    lost = UNDERFLOW * (5 + 1) * large * (8.0 + 6.5 * (1 + 1e-9))
    np.testing.assert_allclose(most, 1.01 * lost + TINY, rtol=1e-13)
    np.testing.assert_array_equal(least, -most)


def test_what_rows_lose_to_underflow() -> None:
    """Before the last layer nothing is lost yet; what is lost is multiplied by weights."""
    rng = np.random.default_rng(1)
    layers = tuple(
        Dense(2.0**60 * rng.normal(size=(out, into)), np.zeros(out))
        for into, out in itertools.pairwise((2, 7, 4, 3))
    )
    pulled = Pulled.through(layers, np.zeros((2, 3)))
    stated = np.zeros(3)
    for layer, terms in zip(reversed(layers), (4, 7, 7), strict=True):
        stated = 1.01 * (stated @ abs(layer.weight)) + UNDERFLOW * (terms + 1)
    np.testing.assert_allclose(pulled.underflow, stated, rtol=1e-13)
    assert (pulled.underflow > TINY / 16).all()
    np.testing.assert_allclose(pulled.room(layers), [stated + TINY] * 2, rtol=1e-13)


def test_the_reach_of_a_layer() -> None:
    layer = dense([[1.0, -3.0], [0.0, 0.0]], [-2.0, 0.0])
    found = _reached(layer, np.array([4.0, 5.0]))
    np.testing.assert_allclose(found[0], 21.0 * (1 + 1e-9), rtol=1e-13)
    assert found[1] == TINY


@pytest.mark.parametrize("seed", range(3))
def test_spreads_belong_to_the_inputs_of_their_layers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = [rng.integers(-3, 4, shape) * 1.0 for shape in ((4, 2), (3, 4), (2, 3))]
    layers = tuple(Dense(weight, np.ones(len(weight))) for weight in weights)
    pulled = Pulled.through(layers, np.array([[1.0, -1.0]]))
    expected, spread = [], np.ones((1, 2))
    for weight in reversed(weights):
        spread = spread @ abs(weight)
        expected.append(spread.tolist())
    assert [part.tolist() for part in pulled.spreads] == expected[::-1]
    assert pulled.bias_size.tolist() == [2.0 + sum(sum(part[0]) for part in expected[:-1])]


@pytest.mark.parametrize(
    ("low", "high", "bias", "expected"),
    [
        ([0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [True, True]),
        ([-1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [False, True]),
        ([0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [False, True]),
        ([1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [False, True]),
        ([0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [False, True]),
        ([0.0, -1.0], [0.0, 1.0], [1.0, 0.0], [False, False]),
    ],
)
def test_rows_that_are_exactly_0(
    low: list[float], high: list[float], bias: list[float], expected: list[bool]
) -> None:
    layers = (dense([[1.0, 0.0], [0.0, 2.0]], bias),)
    ends = np.array(low), np.array(high)
    pulled = Pulled.through(layers, np.eye(2))
    least, most = pulled.range(layers, *ends)
    assert ((least == 0) & (most == 0)).tolist() == expected
    rounded = ~np.array(expected)
    weights = np.array([1.0, 2.0])
    assert (least < weights * ends[0] + bias)[rounded].all()
    assert (most > weights * ends[1] + bias)[rounded].all()
    for other in (
        (*layers, dense([[1.0, 0.0], [0.0, 1.0]])),
        (Joined(2, ((Term(0, 2, layers[0]),),)),),
    ):
        least, most = Pulled.through(other, np.eye(2)).range(other, *ends)
        assert (least < most).all(), "products may have underflowed"


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ((), True),
        ((Scale(np.ones(2), np.ones(2), np.zeros(2)),), True),
        ((dense([[1.0]]),), True),
        ((Scale(np.ones(1), np.ones(1), np.zeros(1)), dense([[1.0]])), True),
        ((dense([[1.0]]), dense([[1.0]])), False),
        ((DIFFERENCE,), False),
        ((DIFFERENCE, Scale(np.ones(4), np.ones(4), np.zeros(4))), False),
    ],
)
def test_stages_that_are_bounded_layer_by_layer(layers: Layers, expected: bool) -> None:
    assert _one_by_one(layers) is expected


def test_terms_that_cancel_bound_nothing() -> None:
    """Layer by layer, `x - x` would lie between -1 and 1."""
    plain = Dense(np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([0.5, 0.0]))
    cancelling = dense([[1.0, -1.0]])
    copies = dense([[1.0], [1.0]])
    for layers, low, high in (
        ((DIFFERENCE,), [0.0, 0.0, -1.0, 0.0], [0.0, 0.0, 2.0, 1.0]),
        ((copies, cancelling), [0.0], [0.0]),
        ((plain,), [-0.5, -4.0], [4.5, 6.0]),
    ):
        size = layers[0].in_size
        boxes = [
            (np.array([-1.0, 0.0])[:size], np.array([2.0, 1.0])[:size]),
            (np.zeros(size), np.zeros(size)),
        ]
        found = entering(Network((layers,), (size,)), 0, boxes)
        assert len(found) == 2
        np.testing.assert_allclose(found[0], [low, high], atol=1e-12)
        np.testing.assert_allclose(found[1], [layers[0].bias[: len(low)]] * 2, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_a_stage_of_several_layers_in_fractions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    layers = (
        Dense(rng.normal(size=(5, 3)), rng.normal(size=5)),
        Joined(5, ((Term(0, 5), Term(0, 5, None, -1.0)), (Term(0, 5),))),
        Dense(rng.normal(size=(4, 10)), rng.normal(size=4)),
    )
    network = Network((layers,), (3,))
    low = rng.normal(size=3)
    high = low + rng.random(3)
    ((least, most),) = entering(network, 0, [(low, high)])
    values = [
        network.exact_scores(Exact.of(np.array(corner))).fractions()
        for corner in itertools.product(*zip(low, high, strict=True))
    ]
    for k in range(4):
        own = [value[k] for value in values]
        assert Fraction(float(least[k])) <= min(own)
        assert max(own) <= Fraction(float(most[k]))
        assert float(min(own)) - least[k] < 1e-12
        assert most[k] - float(max(own)) < 1e-12


def test_what_leaves_a_relu_layer() -> None:
    box = np.array([-2.0, -2.0, 0.5]), np.array([-1.0, 3.0, 0.75])
    plain = Network(((dense([[1.0]] * 3),), (dense([[1.0] * 3]),)), (1,))
    assert [side.tolist() for side in leaving(plain, 0, box)] == [[0.0, 0.0, 0.5], [0.0, 3.0, 0.75]]
    mask = np.array([True, False, True])
    mixed = Network(plain.stages, (1,), (mask,))
    assert [side.tolist() for side in leaving(mixed, 0, box)] == [
        [-2.0, 0.0, 0.5],
        [-1.0, 3.0, 0.75],
    ]


@pytest.mark.parametrize(
    ("most", "sizes"), [(16, [2, 2]), (24, [3, 1]), (4, [1, 1, 1, 1]), (10**6, [4])]
)
@pytest.mark.parametrize("shape", [(4, 8), (8, 4)])
def test_unit_rows_come_in_batches(
    most: int, sizes: list[int], shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intervals, "MOST_ENTRIES", most)
    wide = [dense(np.ones(shape).tolist())]
    if shape[0] != 4:
        wide.append(dense(np.ones((4, shape[0])).tolist()))
    network = Network((tuple(wide),), (shape[1],))
    found = list(_unit_rows(network, 0))
    assert [len(rows) for rows in found] == sizes
    assert np.concatenate(found).tolist() == np.eye(4).tolist()


def signs(matrix: np.ndarray, rises: np.ndarray, falls: np.ndarray) -> tuple[list, list]:
    up = ((matrix > 0) & rises) | ((matrix < 0) & falls)
    down = ((matrix > 0) & falls) | ((matrix < 0) & rises)
    return up.any(axis=1).tolist(), down.any(axis=1).tolist()


ONE = np.array([[1.0, 0.0, -2.0], [0.0, 0.5, 0.0], [0.0, -0.25, 0.0], [0.0, 0.0, 1.0]])


@pytest.mark.parametrize("mask", list(itertools.product([False, True], repeat=6)))
def test_directions_of_change_by_the_signs_of_weights(mask: tuple[bool, ...]) -> None:
    """Of one layer, and of two, where the whole matrix tells more than its factors."""
    rises, falls = np.array(mask[:3]), np.array(mask[3:])
    network = Network(((Dense(ONE, np.ones(4)),),), (3,))
    found = directions_of_change(network, 0, rises, falls)
    assert tuple(part.tolist() for part in found) == signs(ONE, rises, falls)
    second = np.array([[1.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 1.0], [2.0, 0.0, 0.0, 3.0]])
    both = Network(((Dense(ONE, np.ones(4)), Dense(second, np.ones(3))),), (3,))
    found = directions_of_change(both, 0, rises, falls)
    assert tuple(part.tolist() for part in found) == signs(second @ ONE, rises, falls)


def test_what_may_have_been_rounded_changes_in_both_directions() -> None:
    """`0.1 x + 0.2 x - 0.3 x` is not 0 in float64, and its sign is not certain."""
    layers = (dense([[0.1], [0.2], [0.3]]), dense([[1.0, 1.0, -1.0]]))
    network = Network((layers,), (1,))
    yes, no = np.array([True]), np.array([False])
    for rises, falls in ((yes, no), (no, yes)):
        found = directions_of_change(network, 0, rises, falls)
        assert [part.tolist() for part in found] == [[True], [True]]
    nothing = directions_of_change(network, 0, no, no)
    assert [part.tolist() for part in nothing] == [[False], [False]]


def test_a_path_of_weights_that_underflow_is_one() -> None:
    """Its sign is known from the signs of its weights."""
    for second, expected in ((1e-200, [[True], [False]]), (-1e-200, [[False], [True]])):
        network = Network(((dense([[1e-200]]), dense([[second]])),), (1,))
        found = directions_of_change(network, 0, np.array([True]), np.array([False]))
        assert [part.tolist() for part in found] == expected
        found = directions_of_change(network, 0, np.array([False]), np.array([True]))
        assert [part.tolist() for part in found] == expected[::-1]


def test_the_confidence_over_a_box() -> None:
    """The leads of class 1 are `relu(x_0) + 5` and `relu(x_0) + 3 - relu(x_1)`."""
    network = Network(
        (
            (dense([[2.0, 0.0], [0.0, 1.0]]),),
            (dense([[0.5, 0.0], [0.0, 1.0]]),),
            (dense([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [-5.0, 0.0, -3.0]),),
        ),
        (2,),
    )
    least, most = confidence_interval(network, np.array([-4.0, -1.0]), np.array([2.0, 4.0]), 1)
    assert (least, most) == pytest.approx((-1.0, 5.0))
    assert least <= -1
    assert most >= 5
    least, most = confidence_interval(network, np.array([-4.0, -1.0]), np.array([2.0, 4.0]), 0)
    assert (least, most) == pytest.approx((-7.0, -5.0))
    least, most = confidence_interval(network, np.array([-4.0, 5.0]), np.array([2.0, 6.0]), 1)
    assert (least, most) == pytest.approx((-3.0, 0.0))


@pytest.mark.parametrize("joins", [False, True])
def test_classes_with_the_same_weights_tie_exactly(joins: bool) -> None:
    """Of several layers or joins, sums are rounded, and a tie is only nearly one."""
    last = dense([[0.1, 0.3], [0.1, 0.3], [0.1, 0.3]], [0.7, 0.7, 0.2])
    layers = (Joined(2, ((Term(0, 2, last),),)),) if joins else (last,)
    network = Network((layers,), (2,))
    least, most = confidence_interval(network, np.zeros(2), np.ones(2), 0)
    if joins:
        assert -1e-12 < least < 0 < most < 1e-12
    else:
        assert (least, most) == (0.0, 0.0)


MASKS = np.array([False, True]), None


def test_the_size_of_scores() -> None:
    """Linear units carry negative values; ReLUs do not."""
    first, middle = dense([[1.0], [1.0]]), dense([[1.0, 0.0], [0.0, 1.0]])
    last = dense([[1.0, 2.0], [0.5, 0.0]])
    low, high = np.array([-8.0]), np.array([1.0])
    for masks, expected in (
        ((), 3.0),
        ((np.array([False, True]), np.array([False, True])), 16.0),
        ((np.array([False, True]), np.array([False, False])), 3.0),
        ((None, np.array([True, True])), 3.0),
    ):
        network = Network(((first,), (middle,), (last,)), (1,), masks)
        assert score_size(network, low, high) == pytest.approx(expected)
    opposite = Network(((first,), (dense([[-1.0, 0.0], [0.0, -1.0]]),), (last,)), (1,), MASKS)
    assert score_size(opposite, low, high) == pytest.approx(16.0)
    negative = Network(((dense([[1.0], [0.0]], [-9.0, 0.0]),),), (1,))
    assert score_size(negative, low, high) == pytest.approx(17.0)


def test_steepness() -> None:
    """By hand: |1|*2 + |-3|*1 reaches the first score, and the rows of each layer add up."""
    first = Dense(np.array([[2.0, 0.0], [0.5, -0.5]]), np.array([7.0, -7.0]))
    last = Dense(np.array([[1.0, -3.0], [0.0, 1.0], [-0.25, 0.0]]), np.array([9.0, 0.0, -9.0]))
    network = Network(((first,), (last,)), (2,))
    for label, expected in ((0, 5.0 + 1.0), (1, 1.0 + 5.0), (2, 0.5 + 5.0)):
        found = steepness(network, label)
        assert found == pytest.approx(expected, rel=1e-8)
        assert found >= expected
    assert steepness(Network(((), ()), (2,)), 0) >= 2.0
    huge = Dense(np.full((2, 2), 1e300), np.zeros(2))
    assert steepness(Network(((huge,), (huge,)), (2,)), 0) == np.inf
    tiny = Dense(np.full((2, 2), 5e-324), np.zeros(2))
    large = Dense(np.diag([1e300, 1.0]), np.zeros(2))
    eighth = Dense(np.full((2, 2), 0.125), np.zeros(2))
    assert steepness(Network(((eighth, tiny, large),), (2,)), 0) >= 2e-24
