"""Allowances for rounding are those of the formulas, each of its terms.

Nearly always an allowance is many times as large as what is rounded, so that one that forgets a
term is noticed by no bound. Here what float64 rounds is large enough to be seen.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from vhagar_check import (
    conditions,
    cuts,
    definite,
    first_stage,
    hexagon,
    intervals,
    linear_bounds,
    zonotope,
)
from vhagar_check.box_supports import edge_slopes
from vhagar_check.layers import Dense, Linear, Network, Scale
from vhagar_check.pieces import Domain
from vhagar_check.pixelwise import Pixelwise, brightness_piece, contrast_piece

Array = np.ndarray
UNDERFLOW, TINY, HALF_ULP = 2.0**-10, 2.0**-9, 2.0**-12


def gamma(terms: int) -> float:
    return terms * 2.0**-14


@pytest.fixture
def visible(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes what a module allows for rounding visible."""

    def made(module: ModuleType) -> None:
        numbers = {"UNDERFLOW": UNDERFLOW, "TINY": TINY, "HALF_ULP": HALF_ULP, "gamma": gamma}
        for name, value in numbers.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)

    return made


def test_the_layers_in_front_of_units(visible: Any) -> None:
    """A way through all layers counts where products cancel; underflow is lost from the second."""
    visible(first_stage)
    rng = np.random.default_rng(6)
    shift, first, second, last = (rng.normal(size=size) for size in (3, (4, 3), (5, 4), (2, 5)))
    first[0], first[1, 1], second[2] = 0.0, 0.0, 0.0
    last[0, [0, 1, 3, 4]] = 0.0  # it sees only what sees nothing
    biases = [shift, *(rng.normal(size=size) for size in (4, 5, 2))]
    weights = [np.eye(3), first, second, last]
    layers: list[Linear] = [Scale(np.ones(3), np.ones(3), shift)]
    layers += [Dense(weight, own) for weight, own in zip(weights[1:], biases[1:], strict=True)]
    own = first_stage.First(tuple(layers))
    assert (own.in_size, own.widest) == (3, 5)
    assert own.room == gamma(3) + gamma(4) + gamma(5) + gamma(5)
    values, size, lost, ways = own.rows(np.eye(3))
    expected, sizes, losses, paths = np.eye(3), np.eye(3), np.zeros((3, 3)), np.eye(3)
    bias, bias_size, bias_lost = shift, abs(shift), np.zeros(3)
    for weight, more, terms in zip(weights[1:], biases[1:], (4, 5, 5), strict=True):
        expected, sizes = expected @ weight.T, sizes @ abs(weight.T)
        losses = 1.01 * losses @ abs(weight.T) + UNDERFLOW * (terms + 1)
        paths = paths @ (weight.T != 0)
        bias, bias_size = weight @ bias + more, abs(weight) @ bias_size + abs(more)
        bias_lost = 1.01 * abs(weight) @ bias_lost + UNDERFLOW * (terms + 1)
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(size, sizes, rtol=1e-12)
    np.testing.assert_allclose(lost, losses, rtol=1e-12)
    assert (ways == (paths > 0)).all()
    assert ways.tolist() == [[False, True]] * 3
    found = own.bias()
    np.testing.assert_allclose(found[0], bias, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found[1], bias_size + 2.0**60 * bias_lost, rtol=1e-12)
    only = first_stage.First((Dense(first, np.array([-0.0, 1.0, -2.0, 0.0])),))
    assert [part.tolist() for part in only.bias()] == [[0.0, 1.0, -2.0, 0.0], [0.0, 1.0, 2.0, 0.0]]
    assert not np.signbit(only.bias()[0][0])
    assert only.rows(np.eye(3))[3].tolist() == (first.T != 0).tolist()


def test_sizes_of_biases() -> None:
    """Where nothing underflows that counts."""
    first, second = (
        Dense(np.eye(2), np.array([-1.0, 2.0])),
        Dense(np.ones((1, 2)), np.array([-4.0])),
    )
    value, size = first_stage.First((first, second)).bias()
    assert (value.tolist(), size.tolist()) == ([-3.0], [7.0])


def test_cuts(visible: Any) -> None:
    """What is taken off outputs, and the price."""
    visible(cuts)
    rng = np.random.default_rng(1)
    units = np.array([0, 2])
    some = [
        cuts.Cut(0, units, *rng.normal(size=(2, 2)), limit) for limit in (1.5, -0.75, np.inf, 0.5)
    ]
    weights = np.array([[0.5, 2.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    a, b = rng.normal(size=(2, 2, 3))
    constant, error, magnitude = rng.normal(size=2), rng.random(2), np.array([2.0, 3.0, 4.0])
    found = cuts.Weighted(tuple(some), weights).taken_off(0, a, b, constant, error, magnitude)
    size, paid, total = abs(a) + abs(b), np.zeros(2), constant.copy()
    for k in (0, 1):
        size[:, units] += weights[:, [k]] * (abs(some[k].a) + abs(some[k].b))
        paid += weights[:, k] * abs(some[k].limit)
        total += weights[:, k] * some[k].limit
    allowed = gamma(2 * 2 + 4) * (size @ magnitude + paid) + 2 * UNDERFLOW * (2 + 1) * 9.0
    np.testing.assert_allclose(found[2], total, rtol=1e-13)
    np.testing.assert_allclose(found[3], error + allowed + HALF_ULP * abs(total), rtol=1e-13)


@pytest.mark.parametrize("least", [0.0, 0.5])
@pytest.mark.parametrize("row", [0, 1])
def test_eigenvalues(row: int, least: float, visible: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two levels of one row each; the one is just as large as it must be, or just smaller."""
    visible(definite)
    p, q, r, b = 2.0, 0.25, 1.0, 1.0
    share, off = 4 * gamma(2 * 1 + 16), abs(b - q * p)
    across = share * (abs(b) + p * q)
    needed = least * (1 + share) + TINY
    first = (needed + p * p + share * p * p + TINY + off + across + TINY) / (1 - share)
    second = needed + r * r + q * q + off + TINY
    second = (second + share * (r * r + q * q) + across) / (1 - share)
    one = np.ones((1, 1))
    for more, above in ((1e-12, True), (-1e-12, False)):
        ends = [first * (1 + more), 100.0] if row == 0 else [100.0, second * (1 + more)]
        matrix = definite._Levels([ends[0] * one, ends[1] * one], [b * one])
        given = iter([(np.zeros((1, 0)), p * one), (q * one, r * one)])
        monkeypatch.setattr(definite, "_factors", lambda *_, given=given: next(given))
        assert definite._is_above(matrix, least) is above


def test_an_eigenvalue_that_is_just_large_enough(
    visible: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    visible(definite)
    monkeypatch.setattr(definite, "gamma", lambda _: 0.0)
    for entry, above in ((4 + 2 * TINY, True), (4 + 1.875 * TINY, False)):
        matrix = definite._Levels([np.full((1, 1), entry)], [])
        monkeypatch.setattr(
            definite, "_factors", lambda *_: (np.zeros((1, 0)), np.full((1, 1), 2.0))
        )
        assert definite._is_above(matrix, 0.0) is above


def test_rows_of_a_domain(visible: Any) -> None:
    rng = np.random.default_rng(2)
    weights = rng.uniform(1, 2, (2, 2))
    rows = (
        conditions.Row(np.array([0, 1]), weights[0], -0.5, 0.25),
        conditions.Row(np.array([1, 3]), weights[1], -2.0, -0.75),
    )
    own = conditions.Conditions(rows, (), (), (), None, False)
    box = np.array([-1.0, -2.0, -0.5, -3.0]), np.array([2.0, 1.0, 4.0, 1.5])
    s = rng.normal(size=(3, 4))
    s[0] = [3.0, 4.0, 1.0, 2.0]
    y = own._multipliers(box, s)
    assert (y[0] != 0).all()
    visible(conditions)
    size, rest, total, ends = abs(s), s.copy(), np.zeros(3), np.zeros(3)
    for k, row in enumerate(rows):
        size[:, row.entries] += abs(y[:, [k]] * row.weights)
        rest[:, row.entries] -= y[:, [k]] * row.weights
        total += np.maximum(y[:, k] * row.low, y[:, k] * row.high)
        ends += abs(y[:, k]) * max(abs(row.low), abs(row.high))
    total += np.maximum(rest * box[0], rest * box[1]).sum(axis=1)
    magnitude = np.array([2.0, 2.0, 4.0, 3.0])
    terms = 2 * 4 + 2 * 2 + 32
    expected = total + 1.01 * gamma(terms) * (size @ magnitude + ends)
    expected += UNDERFLOW * terms * (1 + 11.0 + 2) + TINY
    np.testing.assert_allclose(own._rows_support(box, s), expected, rtol=1e-13)


def test_zonotopes(visible: Any) -> None:
    visible(zonotope)
    rng = np.random.default_rng(3)
    mean, components = rng.normal(size=4), rng.normal(size=(2, 4))
    ranges, residual = rng.uniform(1, 2, 2), rng.uniform(1, 2, 4)
    s = rng.normal(size=(3, 4))
    terms = 4 + 2 + 16
    reach = abs(mean) + ranges @ abs(components) + residual + UNDERFLOW * terms
    expected = s @ mean + abs(s @ components.T) @ ranges + abs(s) @ residual
    expected += 2 * gamma(terms) * (abs(s) @ reach)
    expected += UNDERFLOW * terms * (1 + reach.sum() + ranges.sum()) + TINY
    found = zonotope.Zonotope(mean, components, ranges, residual).support(s)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_pairs_of_inputs_in_boxes(visible: Any) -> None:
    """One entry, whose image is the entry itself: the limit is 0."""
    visible(linear_bounds)
    boxes = linear_bounds.Boxes(np.array([[1.0]]), np.array([[3.0]]))
    first, second = np.array([[2.0, -5.0]]), np.array([[1.0, 0.5]])
    (found,) = linear_bounds.largest_of_pairs(first, second, boxes, boxes, np.zeros((1, 1)))
    radius = float(boxes.radius[0, 0])
    assert radius == 1 + 8 * HALF_ULP + TINY
    size = 3 / radius * (4 + 2 * radius) + 5.5
    expected = 3 - 4.5 + gamma(4 + 32) * size + TINY * (1 + size)
    assert found == pytest.approx(expected, rel=1e-13)


def test_stages_of_linear_bounds(visible: Any) -> None:
    visible(linear_bounds)
    rng = np.random.default_rng(4)
    rows, constant = rng.normal(size=(2, 3)), rng.normal(size=2)
    rows_error, constant_error = rng.random((2, 3)), rng.random(2)
    stage = linear_bounds._Stage(rows, constant, rows_error, constant_error)
    below, above = rng.normal(size=(2, 4, 5, 3))
    under, over = stage.through(below, above)
    size = np.maximum(abs(above).sum(axis=1), abs(below).sum(axis=1)) * (1 + 1e-9)
    off = gamma(2 * 3 + 5 + 16) * (size @ abs(rows).T + abs(constant))
    off = 1.01 * (off + size @ rows_error.T + constant_error) + TINY
    up, down = np.maximum(rows, 0), np.minimum(rows, 0)
    most = above @ up.T + below @ down.T
    least = below @ up.T + above @ down.T
    most[:, -1] += constant + off
    least[:, -1] += constant - off
    most[:, -1] += 4 * HALF_ULP * abs(most[:, -1])
    least[:, -1] -= 4 * HALF_ULP * abs(least[:, -1])
    np.testing.assert_allclose(over, most, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(under, least, rtol=1e-13, atol=1e-13)


def test_the_change_of_a_confidence(visible: Any) -> None:
    visible(intervals)
    first, second = (np.random.default_rng(5).normal(size=size) for size in ((4, 3), (3, 4)))
    stages = tuple((Dense(weight, np.zeros(len(weight))),) for weight in (first, second))
    change = np.ones(3)
    for weight in (first, second):
        change = abs(weight) @ change * (1 + 1e-9) + TINY
    expected = (change[1] + max(change[0], change[2])) * (1 + 1e-9)
    assert intervals.steepness(Network(stages, (3,)), 1) == pytest.approx(expected, rel=1e-13)


class Told:
    """Corners that find the offsets that they are told, and note the multipliers."""

    magnitude = np.array([10.0])

    def __init__(self, offsets: list[float]) -> None:
        self._offsets = iter(offsets)
        self.asked: list[tuple[Array, Array]] = []

    def offset(self, a: Array, b: Array, p: Array, q: Array) -> Array:
        self.asked.append((p, q))
        return np.full(a.shape, next(self._offsets))


ROOM = 1e-9 * (2.0 + 3.0) * 10.0


@pytest.mark.parametrize(
    ("offsets", "chosen"),
    [
        ([1.0, 1.0 - 0.9 * ROOM, 1.0 - 1.1 * ROOM], 2),
        ([1.0, 1.0 - ROOM, 1.0], 0),
        ([1.0, 1.0 - 1.1 * ROOM, 1.0 - 2.05 * ROOM], 1),
        ([1.0, 0.9, 0.9 - 1.9 * ROOM], 2),
    ],
)
def test_a_rule_must_be_better_by_more_than_rounding(offsets: list[float], chosen: int) -> None:
    sides = (np.array([value]) for value in (-1.0, 2.0, -1.5, 1.0, -0.5, 0.75))
    h, corners = hexagon.Hexagons(*sides, 1.0), Told(offsets)
    found = hexagon.quick_multipliers(h, corners, np.full((1, 1), -2.0), np.full((1, 1), 3.0))
    assert len({(float(p[0, 0]), float(q[0, 0])) for p, q in corners.asked}) == 3
    assert found == corners.asked[chosen]


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_a_range_that_is_nearly_symmetric(scale: float) -> None:
    """The slope below is 0 unless the range is larger above by more than rounding."""
    for more, slope in ((1.5e-9, 0.0), (3e-9, 1.0)):
        low, high = np.array([-scale]), np.array([scale * (1 + more)])
        assert hexagon._slope(np.array([-1.0]), low, high) == slope


ROW = conditions.Row(np.array([0, 2]), np.array([1.0, -1.0]), -0.25, 0.25)
DOMAIN = Domain(
    (3,),
    -1.0,
    2.0,
    (np.array([-0.9375, 0.5, -1.0]), np.array([1.5, 0.75, 2.0])),
    conditions.Conditions((ROW,), (), (), (), None, False),
)
A, B = np.array([[2.0, -1.0, 0.5]]), np.array([[-1.5, 0.5, 1.0]])


def test_decided_pixels_are_steep(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coefficient of `x_p` counts as often as the image rises with the pixel."""
    piece = contrast_piece(DOMAIN, (1.25, 2.0), True)
    assert DOMAIN.box is not None
    asked: list[tuple[Array, Array]] = []

    def noted(_: Any, a: Array, b: Array) -> Array:
        asked.append((a, b))
        return np.full(len(a), 1000.0)

    free = tuple(corner for corner, _ in piece.clip_corners)
    steepest = max(edge_slopes(free))
    assert steepest == 2.0
    before = piece._decided_inside(DOMAIN.box, A, B, {0: 1})
    usual = piece.rounding(abs(A) + 2 * steepest * abs(B), B)
    monkeypatch.setattr(Pixelwise, "rounding", noted)
    found = piece._decided_inside(DOMAIN.box, A, B, {0: 1})
    assert found - 1000 == pytest.approx(before - usual)
    assert asked[-1][0].tolist() == (abs(A) + 2 * steepest * abs(B)).tolist()
    assert asked[-1][1] is B


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("make", [brightness_piece, contrast_piece])
def test_pixels_with_rows(make: Any, clip: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every bound among which the least is chosen is rounded up."""
    piece = make(DOMAIN, (0.5, 0.75) if make is brightness_piece else (1.5, 1.75), clip)
    before = piece._inside(DOMAIN.box, A, B)
    assert before < 100
    monkeypatch.setattr(Pixelwise, "rounding", lambda _, a, b: np.full(len(a), 1000.0))
    assert piece._inside(DOMAIN.box, A, B) > 900
