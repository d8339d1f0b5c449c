"""Bounds in rational arithmetic, on networks of a few neurons where every number is known."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from vhagar_check.exact import Exact
from vhagar_check.formula import Bounds, Choose, Decisions
from vhagar_check.hexagon import Hexagons
from vhagar_check.layers import Dense, Network
from vhagar_check.neuron_bounds import quick_bounds
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.rational import ExactBounds, exact_ceiling, exact_upper, exact_work, rounded_up

DOMAIN = Domain((2,), 0.0, 1.0)
(PIECE,) = pieces("linf(0.5)", DOMAIN, True)
NONE = Decisions()
INF = np.inf
# Both copies between -1 and 2, and at most 1 apart; and the same without any end.
SIDES, UNBOUNDED = (-1, 2, -1, 2, -1, 1), (-INF, INF, -INF, INF, -INF, INF)


def bounds_of(*rows: tuple[float, ...], linear: list[bool] | None = None) -> Bounds:
    """Two neurons between matrices that change nothing, with these hexagons."""
    same = Dense(np.eye(2), np.zeros(2))
    mask = None if linear is None else np.array(linear)
    found = Bounds(Network(((same,), (same,)), (2,), (mask,)), PIECE)
    with np.errstate(all="ignore"):
        found.append(Hexagons(*np.array(rows, dtype=float).T, 1.0, mask))
    return found


def choosing(p: list[float], q: list[float]) -> Choose:
    return lambda layer, a, b: (np.array([p]), np.array([q]))


def passing(layer: int, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return a, b


def upper(
    bounds: Bounds, a: list[object], b: list[object], choose: Choose, case: Decisions = NONE
) -> object:
    given = ([Fraction(x) for x in part] for part in (a, b))  # type: ignore[call-overload]
    return exact_upper(bounds, 1, *map(Exact.of_fractions, given), choose, case)


def support(p: list[object], q: list[object]) -> Fraction:
    given = ([Fraction(x) for x in part] for part in (p, q))  # type: ignore[call-overload]
    found = PIECE.exact_support(*map(Exact.of_fractions, given))
    assert found is not None
    return found


def test_every_coefficient_and_multiplier_is_paid_for() -> None:
    own = bounds_of(SIDES, SIDES)
    zero = [0.0, 0.0]
    assert upper(own, [3, 0], [0, 0], choosing(zero, zero)) == 3 * 2
    assert upper(own, [0, 0], [0, 5], choosing(zero, zero)) == 5 * 2
    assert upper(own, [0, 0], [0, 0], choosing([0.5, 0], zero)) == Fraction(1, 2) + support(
        [0.5, 0], [0, 0]
    )
    assert upper(own, [0, 0], [0, 0], choosing(zero, [0, 0.5])) == Fraction(1, 2) + support(
        [0, 0], [0, 0.5]
    )


def test_a_coefficient_that_is_passed_on_is_passed_on_exactly() -> None:
    third, seventh = Fraction(1, 3), Fraction(1, 7)
    own = bounds_of((1, 2, 1, 2, -1, 1), (1, 2, 1, 2, -1, 1))
    found = upper(own, [third, seventh], [seventh, third], passing)
    assert found == support([third, seventh], [seventh, third])
    # Nearly the same is not the same.
    near = float(np.nextafter(float(seventh), 1))
    other = upper(own, [third, 0], [seventh, 0], choosing([float(third), 0], [near, 0]))
    paid = [
        (third - Fraction(float(third))) * s + (seventh - Fraction(near)) * t
        for s, t in itertools.product((1, 2), repeat=2)
    ]
    assert other == max(paid) + support([float(third), 0], [near, 0])


def test_a_linear_unit_passes_for_nothing_even_without_bounds() -> None:
    own = bounds_of(UNBOUNDED, SIDES, linear=[True, False])
    assert upper(own, [3, 0], [4, 0], passing) == support([3, 0], [4, 0])
    # A ReLU beside it pays: nothing is gained below 0, where its multiplier is negative.
    assert upper(own, [0, 3], [0, 0], passing) == 3 + support([0, 3], [0, 0])
    # And so does a linear unit with other multipliers.
    bounded = bounds_of(SIDES, SIDES, linear=[True, False])
    assert upper(bounded, [3, 0], [0, 0], choosing([0, 0], [0, 0])) == 6
    assert upper(own, [3, 0], [0, 0], choosing([0, 0], [0, 0])) is None


def test_a_unit_without_coefficients_costs_nothing_even_without_bounds() -> None:
    own = bounds_of(UNBOUNDED, SIDES)
    assert upper(own, [0, 3], [0, 0], choosing([0, 0], [0, 0])) == 6


@pytest.mark.parametrize("signs", [{0: -1}, {1: -1}, {0: 1, 1: -1}])
def test_a_case_without_a_point_is_empty_whatever_is_asked(signs: dict[int, int]) -> None:
    own = bounds_of((1, 2, 1, 2, -1, 1), SIDES)
    case = Decisions({(0, 0): signs})
    assert upper(own, [0, 3], [0, 0], choosing([0, 0], [0, 0]), case) == -np.inf
    other = Decisions({(0, 1): signs})
    assert isinstance(upper(own, [0, 3], [0, 0], choosing([0, 0], [0, 0]), other), Fraction)


def cancelling() -> Network:
    """Both neurons receive what cancels in exact arithmetic, and only nearly in float64."""
    apart, together = np.array([[0.1, 0.3], [0.1, 0.3]]), np.array([[1.0, -1.0], [-1.0, 1.0]])
    first = Dense(apart, np.array([0.7, 0.7])), Dense(together, np.zeros(2))
    return Network((first, (Dense(np.eye(2), np.zeros(2)),)), (2,))


def test_every_case_is_decided_exactly() -> None:
    exact = quick_bounds(cancelling(), PIECE, ExactBounds)
    plain = quick_bounds(cancelling(), PIECE)
    for side in ("low", "high", "low_p", "high_p", "gap_low", "gap_high"):
        assert getattr(exact.hexagons[0], side).tolist() == [0.0, 0.0]
    assert (plain.hexagons[0].low < 0).all()
    rows = np.eye(2)
    values, _ = exact.upper(1, rows, 0 * rows, exact.quick)
    assert values.tolist() == [0.0, 0.0]
    assert (plain.upper(1, rows, 0 * rows, plain.quick)[0] > 0).all()


def test_the_decisions_of_a_case_count_in_rationals() -> None:
    own = ExactBounds(bounds_of(SIDES, SIDES).network, PIECE)
    own.append(bounds_of(SIDES, SIDES).hexagons[0])
    rows = np.array([[1.0, 0.0], [1.0, 0.0]])
    cases = [Decisions({(0, 0): {0: -1}}), Decisions()]
    values, _ = own.upper(1, rows, 0 * rows, choosing([0, 0], [0, 0]), cases)
    assert values.tolist() == [0.0, 2.0]


def test_boxes_are_entered_exactly() -> None:
    exact, plain = ExactBounds(cancelling(), PIECE), Bounds(cancelling(), PIECE)
    box = np.zeros(2), np.ones(2)
    for low, high in exact.entering(0, [box, box]):
        assert (low.tolist(), high.tolist()) == ([0.0, 0.0], [0.0, 0.0])
    for low, high in plain.entering(0, [box, box]):
        assert (low < 0).all()
        assert (high > 0).all()


def test_a_box_without_an_end_stays_as_it_was() -> None:
    """Twice 1e200: what leaves the first layer is beyond all float64 numbers."""
    large = Dense(1e200 * np.eye(2), np.zeros(2))
    net = Network(((large, large), (large,), (Dense(np.eye(2), np.zeros(2)),)), (2,))
    with np.errstate(all="ignore"):
        exact = quick_bounds(net, PIECE, ExactBounds)
    for h in exact.hexagons:
        for low, high in ((h.low, h.high), (h.low_p, h.high_p)):
            assert (low <= 0).all()
            assert not (high < 1e300).any()
    assert exact_ceiling(net, (np.zeros(2), np.ones(2)), 0) == INF


def network(seed: int) -> Network:
    rng = np.random.default_rng(seed)
    sizes = (2, 3, 2, 3)
    stages = tuple(
        (Dense(rng.integers(-8, 8, (out, into)) / 4, rng.integers(-8, 8, out) / 4),)
        for into, out in itertools.pairwise(sizes)
    )
    return Network(stages, (2,))


def ceiling_of(net: Network, label: int) -> Fraction:
    """Interval arithmetic in rationals, layer by layer, and the least of the leads' largest."""
    box = [(Fraction(0), Fraction(1))] * 2
    for k, (layer,) in enumerate(net.stages):
        weight = [[Fraction(float(w)) for w in row] for row in layer.weight]  # type: ignore[attr-defined]
        bias = [Fraction(float(b)) for b in layer.bias]
        if k == len(net.stages) - 1:
            rows = [
                ([u - v for u, v in zip(weight[label], weight[j], strict=True)], bias[label] - b)
                for j, b in enumerate(bias)
                if j != label
            ]
            return min(_ends(row, shift, box)[1] for row, shift in rows)
        ends = [_ends(row, shift, box) for row, shift in zip(weight, bias, strict=True)]
        box = [(max(low, Fraction(0)), max(high, Fraction(0))) for low, high in ends]
    raise AssertionError


def _ends(
    row: list[Fraction], shift: Fraction, box: list[tuple[Fraction, Fraction]]
) -> tuple[Fraction, Fraction]:
    products = [(w * low, w * high) for w, (low, high) in zip(row, box, strict=True)]
    return (
        shift + sum(min(pair) for pair in products),
        shift + sum(max(pair) for pair in products),
    )


@pytest.mark.parametrize("seed", range(8))
def test_the_ceiling_of_a_class(seed: int) -> None:
    net, box = network(seed), (np.zeros(2), np.ones(2))
    for label in range(3):
        assert exact_ceiling(net, box, label) == rounded_up(ceiling_of(net, label))


def test_there_is_no_ceiling_where_a_number_is_infinite() -> None:
    assert exact_ceiling(network(1), (np.zeros(2), np.array([1.0, INF])), 0) == INF


def test_how_many_products_it_takes() -> None:
    """Twice six sides of each neuron, each once through all weights before it."""
    stages = (
        (Dense(np.ones((3, 2)), np.zeros(3)),),
        (Dense(np.ones((2, 3)), np.zeros(2)), Dense(np.ones((4, 2)), np.zeros(4))),
    )
    net = Network(stages, (2,))
    bounds = 2 * 6 * (3 * 6 + 4 * (6 + 6 + 8))
    assert exact_work(net, 0, 0) == bounds
    assert exact_work(net, 2, 5) == 3 * bounds + 5 * 20


def test_rounding_up() -> None:
    third = Fraction(1, 3)
    assert Fraction(rounded_up(third)) >= third > Fraction(np.nextafter(rounded_up(third), -1))
    assert Fraction(rounded_up(-third)) >= -third
    assert rounded_up(Fraction(1, 4)) == 0.25
    assert rounded_up(Fraction(10) ** 400) == np.inf
    assert rounded_up(-(Fraction(10) ** 400)) == -np.finfo(float).max
    assert rounded_up(Fraction(1, 10**400)) == 2.0**-1074
    assert rounded_up(-np.inf) == -np.inf


@pytest.mark.parametrize("seed", range(4))
def test_boxes_are_entered_up_to_the_last_bit(seed: int) -> None:
    net = network(seed)
    exact = ExactBounds(net, PIECE)
    (layer,) = net.stages[0]
    low, high = np.array([0.1, 0.2]), np.array([0.3, 0.7])
    ((least, most),) = exact.entering(0, [(low, high)])
    box = list(zip(*(map(Fraction, side.tolist()) for side in (low, high)), strict=True))
    for k, bias in enumerate(layer.bias):
        row = [Fraction(float(w)) for w in layer.weight[k]]  # type: ignore[attr-defined]
        bottom, top = _ends(row, Fraction(float(bias)), box)
        assert (least[k], most[k]) == (-rounded_up(-bottom), rounded_up(top))


@pytest.mark.parametrize("place", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_one_end_that_is_missing_is_enough(place: tuple[int, int]) -> None:
    box = [np.zeros(2), np.ones(2)]
    box[place[0]][place[1]] = INF if place[0] else -INF
    net = network(3)
    with np.errstate(all="ignore"):
        (exact,) = ExactBounds(net, PIECE).entering(0, [(box[0], box[1])])
        (plain,) = Bounds(net, PIECE).entering(0, [(box[0], box[1])])
    for ours, theirs in zip(exact, plain, strict=True):
        assert np.array_equal(ours, theirs, equal_nan=True)
