"""Hexagons: what is on and off, how the sides sharpen each other, and the corners."""

from __future__ import annotations

import itertools
from dataclasses import fields
from fractions import Fraction

import numpy as np
import pytest

from vhagar_check.hexagon import (
    Corners,
    Hexagons,
    _difference_slope,
    _slope,
    exact_offset,
    quick_multipliers,
)

SIDES = ("low", "high", "low_p", "high_p", "gap_low", "gap_high")


def _hexagons(*rows: tuple[float, ...], ratio: float = 1.0, linear: object = None) -> Hexagons:
    return Hexagons(*np.array(rows, dtype=float).T, ratio, linear)


def test_on_and_off() -> None:
    """A neuron is off, or on, only if it is so in both copies; 0 counts as off."""
    wide = (-9.0, 9.0)
    rows = [(*first, *second, *wide) for first in PAIRS for second in PAIRS]
    h = _hexagons(*rows)
    for n, (first, second) in enumerate(itertools.product(PAIRS, PAIRS)):
        off = first[1] <= 0 and second[1] <= 0
        assert h.off[n] == off
        assert h.on[n] == (first[0] >= 0 and second[0] >= 0 and not off)
    assert (h.floor == 0).all()


PAIRS = [(-2.0, -1.0), (-1.0, 0.0), (-1.0, 1e-300), (0.0, 0.0), (-1e-300, 1.0), (0.0, 0.5), (1, 2)]


def test_linear_units_are_always_on() -> None:
    linear = np.array([True, False])
    h = _hexagons((-2, -1, -2, -1, 0, 0), (-2, -1, -2, -1, 0, 0), linear=linear)
    assert h.on.tolist() == [True, False]
    assert h.off.tolist() == [False, True]
    assert h.floor.tolist() == [-np.inf, 0.0]
    assert h.take(np.array([1])).on.tolist() == [False]
    assert h.take(np.array([0])).on.tolist() == [True]


def _tightened(row: tuple[float, ...], k: Fraction) -> list[Fraction]:
    """As docs/certificate.md has it, without rounding."""
    low, high, low_p, high_p, gap_low, gap_high = map(Fraction, row)
    low = max(low, (low_p - gap_high) / k)
    high = min(high, (high_p - gap_low) / k)
    low_p = max(low_p, k * low + gap_low)
    high_p = min(high_p, k * high + gap_high)
    gap_low = max(gap_low, low_p - k * high)
    gap_high = min(gap_high, high_p - k * low)
    return [low, high, low_p, high_p, gap_low, gap_high]


@pytest.mark.parametrize("ratio", [1.0, 0.7, 1.3])
def test_tightening(ratio: float) -> None:
    """Every side is that of the exact rule, rounded outward by a few units in the last place."""
    rng = np.random.default_rng(1)
    s, t = rng.normal(size=(2, 300))
    gap = t - ratio * s
    around = rng.exponential(size=(6, 300)) * np.array([[-1], [1]] * 3)
    h = Hexagons(*(np.repeat([s, t, gap], 2, axis=0) + around), ratio).tightened()
    before = np.repeat([s, t, gap], 2, axis=0) + around
    found = np.array([getattr(h, name) for name in SIDES])
    for n in range(300):
        exact = _tightened(tuple(before[:, n]), Fraction(ratio))
        for k, side in enumerate(exact):
            error = Fraction(float(found[k, n])) - side
            assert 0 <= error * (1 if k % 2 else -1) < Fraction(1, 10**14), (n, k)


def test_copies_that_agree_share_their_bounds() -> None:
    h = _hexagons((-1, 2, -3, 1.5, 0, 0)).tightened()
    assert [getattr(h, name)[0] for name in SIDES] == [-1, 1.5, -1, 1.5, 0, 0]
    # With another ratio a gap of 0 does not mean that they agree.
    other = _hexagons((-1, 2, -3, 1.5, 0, 0), ratio=2.0).tightened()
    assert other.high[0] == pytest.approx(0.75)
    assert other.low_p[0] == pytest.approx(-2)
    one_sided = _hexagons((-1, 2, -3, 1.5, -0.5, 0)).tightened()
    assert one_sided.low_p[0] == pytest.approx(-1.5)


def test_what_both_know() -> None:
    first, second = _hexagons((-1, 2, -3, 4, -5, 6)), _hexagons((-2, 1, np.nan, 5, -4, np.nan))
    h = first.meet(second)
    assert [getattr(h, name)[0] for name in SIDES] == [-1, 1, -3, 4, -4, 6]


def test_signs_limit_the_gap() -> None:
    h = _hexagons(*[(-1, 1, -1, 1, -2, 2)] * 4, (-1, 1, -1, 1, 0.5, 2), (-1, 1, -1, 1, -2, -0.5))
    rises = np.array([True, True, False, False, True, False])
    falls = np.array([True, False, True, False, False, True])
    found = h.with_signs(rises, falls)
    assert found.gap_low.tolist() == [-2, 0, -2, 0, 0.5, -2]
    assert found.gap_high.tolist() == [2, 2, 0, 0, 2, -0.5]


def test_taking_keeps_every_field() -> None:
    linear = np.array([True, False, True])
    h = _hexagons(*np.arange(18.0).reshape(3, 6).tolist(), ratio=1.5, linear=linear)
    part = h.take(np.array([2, 1]))
    for each in fields(h):
        whole = getattr(h, each.name)
        chosen = whole if each.name == "ratio" else whole[[2, 1]]
        assert np.all(getattr(part, each.name) == chosen)
    corners, some = Corners.of(h), Corners.of(h).take(np.array([2, 1]))
    for name in ("s", "t"):
        assert (getattr(some, name) == getattr(corners, name)[:, [2, 1]]).all()
    assert (some.magnitude == corners.magnitude[[2, 1]]).all()
    assert (some.floor == corners.floor[[2, 1]]).all()


@pytest.mark.parametrize("ratio", [1.0, 0.6])
def test_offsets_are_the_exact_ones(ratio: float) -> None:
    """Over all corners, with and without signs; no corner may be missing, none may be made up."""
    rng = np.random.default_rng(2)
    count = 120
    s, t = rng.normal(size=(2, count))
    middle = np.repeat([s, t, t - ratio * s], 2, axis=0)
    around = rng.exponential(0.7, size=(6, count)) * np.array([[-1], [1]] * 3)
    linear = rng.random(count) < 0.2
    h = Hexagons(*(middle + around), ratio, linear).tightened()
    corners = Corners.of(h)
    a, b, p, q = rng.normal(size=(4, 1, count))
    offsets = corners.offset(a, b, p, q)[0]
    for n in range(count):
        numbers = tuple(Fraction(float(part[0, n])) for part in (a, b, p, q))
        exact = exact_offset(h, n, {}, numbers)
        assert exact is not None
        assert offsets[n] == pytest.approx(float(exact), abs=1e-12)
        for signs in ({0: 1}, {0: -1}, {1: 1}, {1: -1}, {0: 1, 1: -1}, {0: -1, 1: -1}):
            decided = exact_offset(h, n, signs, numbers)
            found = corners.decided(n, signs, *(part[0, n] for part in (a, b, p, q)))
            if decided is None:
                assert found == -np.inf
            else:
                assert decided <= exact
                assert found == pytest.approx(float(decided), abs=1e-12)


def test_the_exact_offset_is_attained_and_never_exceeded() -> None:
    """By points of the hexagon, tried on a fine grid."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        s, t = rng.normal(size=2)
        ratio = float(rng.choice([1.0, 1.4]))
        row = np.repeat([s, t, t - ratio * s], 2) + rng.exponential(size=6) * np.tile([-1, 1], 3)
        h = Hexagons(*row[:, None], ratio)
        numbers = tuple(Fraction(float(value)) for value in rng.normal(size=4))
        exact = exact_offset(h, 0, {}, numbers)
        assert exact is not None
        a, b, p, q = map(float, numbers)
        grid_s, grid_t = np.meshgrid(np.linspace(*row[:2], 300), np.linspace(*row[2:4], 300))
        gap = grid_t - ratio * grid_s
        inside = (gap >= row[4]) & (gap <= row[5])
        values = a * np.maximum(grid_s, 0) + b * np.maximum(grid_t, 0) - p * grid_s - q * grid_t
        best = values[inside].max()
        assert best <= float(exact) + 1e-12
        assert best >= float(exact) - 0.1


def test_slopes() -> None:
    low, high = np.array([-1.0, -3.0, -1.0, 0.0, 1.0, -2.0]), np.array([3.0, 1.0, 1.0, 2.0, 2.0, 0])
    up = _slope(np.ones(6), low, high)
    down = _slope(-np.ones(6), low, high)
    assert up.tolist() == [0.75, 0.25, 0.5, 1, 1, 0]
    assert down.tolist() == [1, 0, 0, 1, 1, 0]
    assert _slope(np.zeros(6), low, high).tolist() == down.tolist()


def test_slopes_of_differences() -> None:
    rows = [(-1, 1, -1, 1, g, h) for g, h in ((-1, 3), (-3, 1), (-1, 1), (0, 2), (-2, 0), (0, 0))]
    h = _hexagons(*rows, (1, 2, 1, 2, -1, 3), (-2, -1, -2, -1, -1, 3))
    assert _difference_slope(h).tolist() == [0.75, 0.75, 0.5, 1, 1, 0, 1, 0]


@pytest.mark.parametrize("ratio", [1.0, 0.8])
def test_quick_multipliers_choose_the_cheapest_rule(ratio: float) -> None:
    rng = np.random.default_rng(4)
    count = 200
    s, t = rng.normal(size=(2, count))
    middle = np.repeat([s, t, t - ratio * s], 2, axis=0)
    h = Hexagons(*(middle + rng.exponential(0.5, (6, count)) * np.array([[-1], [1]] * 3)), ratio)
    h = h.tightened()
    corners = Corners.of(h)
    a, b = rng.normal(size=(2, 1, count))
    a[:, ::5], b[:, 1::5] = 0.0, 0.0
    b[:, 2::5] = -a[:, 2::5]
    p, q = quick_multipliers(h, corners, a, b)
    kappa, both = _difference_slope(h), a / ratio + b
    first, second = _slope(both, h.low, h.high), _slope(both, h.low_p, h.high_p)
    rules = (
        (_slope(a, h.low, h.high) * a, _slope(b, h.low_p, h.high_p) * b),
        (first * a + ratio * (first - kappa) * b, kappa * b),
        (kappa * a, (second - kappa) / ratio * a + second * b),
    )
    offsets = np.array([corners.offset(a, b, *rule)[0] for rule in rules])
    chosen = corners.offset(a, b, p, q)[0]
    assert chosen == pytest.approx(offsets.min(axis=0), abs=1e-8)
    assert all((offsets[k] < np.delete(offsets, k, axis=0).min(axis=0)).any() for k in range(3))
    # Where rules cost the same the first of them counts.
    same = offsets[0] <= offsets.min(axis=0)
    assert (p[0] == rules[0][0][0])[same].all()
    assert (q[0] == rules[0][1][0])[same].all()


def test_a_linear_unit_leaves_its_neighbours_as_they_are() -> None:
    rows = [
        (1, 2, 1, 2, -1, 1),
        (-2, -1, -2, -1, -1, 1),
        (-1, 1, -1, 1, -1, 1),
        (-1, 1, -1, 1, 0, 0),
    ]
    h = _hexagons(*rows, linear=np.array([False, False, False, True]))
    assert h.on.tolist() == [True, False, False, True]
    assert h.off.tolist() == [False, True, False, False]


def test_what_both_know_in_either_order() -> None:
    first, second = _hexagons((-1, 2, -3, 4, -5, 6)), _hexagons((-2, 3, -2, 3, -6, 5))
    for h in (first.meet(second), second.meet(first)):
        assert [getattr(h, name)[0] for name in SIDES] == [-1, 2, -2, 3, -5, 5]


def test_copies_that_may_rise_do_not_agree() -> None:
    h = _hexagons((-1, 2, -3, 1.5, 0, 0.5)).tightened()
    assert [getattr(h, name)[0] for name in SIDES] == pytest.approx([-1, 1.5, -1, 1.5, 0, 0.5])
    assert h.gap_high[0] >= 0.5


@pytest.mark.parametrize(("ratio", "times"), [(1.0, 1.0), (4.0, 4.0), (0.25, 4.0)])
def test_the_magnitude_of_corners(ratio: float, times: float) -> None:
    """It is that of the largest side, and more where a corner is divided by the ratio."""
    rows = [(-3, 1, -1, 2, -9, 9), (-1, 2, -1, 5, -9, 9), (0, 0, 0, 0, 0, 0)]
    corners = Corners.of(_hexagons(*rows, ratio=ratio))
    assert corners.magnitude.tolist() == [3 * times, 5 * times, 2.0**-900]
    assert corners.slack.tolist() == (2.0**-50 * corners.magnitude).tolist()


@pytest.mark.parametrize("copy", [0, 1])
def test_a_corner_is_left_out_only_if_rounding_cannot_have_moved_it(copy: int) -> None:
    for beyond, empty in ((1.0, False), (1.001, True)):
        side, other = (-1.0, -beyond * 2.0**-50), (-1.0, 1.0)
        first, second = (side, other) if copy == 0 else (other, side)
        corners = Corners.of(_hexagons((*first, *second, -9, 9)))
        assert (corners.decided(0, {copy: 1}, 0, 0, 0, 0) == -np.inf) is empty


def test_the_exact_offset_where_both_copies_switch() -> None:
    """The largest value is at (0, 0), which is no corner of the hexagon itself."""
    numbers = tuple(map(Fraction, (-2, -2, -1, -1)))
    assert exact_offset(_hexagons((-1, 1, -1, 1, -1, 1)), 0, {}, numbers) == 0
    assert exact_offset(_hexagons((-1, 2, -1, 3, -4, 4)), 0, {}, numbers) == 0


def test_the_exact_offset_of_a_point_and_of_lines() -> None:
    numbers = tuple(map(Fraction, (3, 5, 1, 2)))
    point = exact_offset(_hexagons((1, 1, 2, 2, 1, 1)), 0, {}, numbers)
    assert point == 3 + 10 - 1 - 4
    assert exact_offset(_hexagons((1, 1, -1, 2, -9, 9)), 0, {}, numbers) == 3 + 10 - 1 - 4
    assert exact_offset(_hexagons((-1, 1, 2, 2, -9, 9)), 0, {}, numbers) == 3 + 10 - 1 - 4
    assert exact_offset(_hexagons((0, 0, 0, 0, 0, 0)), 0, {0: 1, 1: -1}, numbers) == 0
    assert exact_offset(_hexagons((1, 1, 2, 2, 1, 1)), 0, {1: -1}, numbers) is None


def test_the_exact_offset_where_the_gap_is_one_number() -> None:
    """The hexagon is the line `t = s + 1/2`: at its ends, and where a copy switches on it."""
    line = _hexagons((-1, 2, -9, 9, 0.5, 0.5))
    half = Fraction(1, 2)
    assert exact_offset(line, 0, {}, (Fraction(3), half, half, half)) == Fraction(6 - 1)
    assert exact_offset(line, 0, {}, tuple(map(Fraction, (0, -2, 0, -1)))) == 0
    assert exact_offset(line, 0, {}, tuple(map(Fraction, (-2, 0, -1, 0)))) == 0


def test_quick_multipliers_of_neurons_that_are_on_or_off() -> None:
    h = _hexagons((0.5, 2, 0.5, 2, -1, 1), (-2, -0.5, -2, -0.5, -1, 1))
    a, b = np.array([[3.0, 3.0]]), np.array([[-2.0, -2.0]])
    p, q = quick_multipliers(h, Corners.of(h), a, b)
    assert (p.tolist(), q.tolist()) == ([[3.0, 0.0]], [[-2.0, 0.0]])
    assert _slope(np.ones(2), h.low, h.high).tolist() == [1.0, 0.0]
    assert _slope(-np.ones(2), h.low, h.high).tolist() == [1.0, 0.0]


def test_the_slope_of_a_small_difference() -> None:
    h = _hexagons((-1, 1, -1, 1, -0.25, 0.5), (-1, 1, -1, 1, -0.5, 0.25), (-1, 1, -1, 1, 0.5, 0.75))
    assert _difference_slope(h).tolist() == [0.5 / 0.75, 0.5 / 0.75, 1.0]
