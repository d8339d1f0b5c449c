"""Hexagons lose no point, and their offset is the maximum that it claims to be."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar.relaxation.corners import Corners
from vhagar.relaxation.hexagon import CORNERS, Hexagons
from vhagar.relaxation.twin_dual import Backward, through_relu

RATIOS = (1.0, 1.0, 0.001, 0.7, 1.4, 900.0)


def random_hexagon(rng: np.random.Generator) -> Hexagons:
    """One hexagon around a random point, with bounds and ratios of very different sizes."""
    ratio = float(rng.choice(RATIOS))
    size = 10.0 ** rng.integers(-6, 7)
    size_p = size * ratio if rng.random() < 0.5 else 10.0 ** rng.integers(-6, 7)
    if ratio == 1.0 and rng.random() < 0.2:  # equal copies
        low, high = np.sort(size * rng.normal(size=2))
        return _hexagon([low, high, low, high, 0.0, 0.0], ratio)
    s, t = size * rng.normal(), size_p * rng.normal()
    width = 10.0 ** rng.integers(-3, 1)
    reach = width * rng.random(6) * np.array([size] * 2 + [size_p] * 2 + [max(size_p, size)] * 2)
    gap = t - ratio * s
    sides = np.array([s, s, t, t, gap, gap]) + np.array([-1, 1, -1, 1, -1, 1]) * reach
    return _hexagon(sides, ratio)


def _hexagon(sides: list[float] | np.ndarray, ratio: float) -> Hexagons:
    return Hexagons(*(np.array([side]) for side in sides), ratio)


def sides_of(hexagon: Hexagons) -> list[Fraction]:
    names = ("lower", "upper", "lower_p", "upper_p", "gap_lower", "gap_upper")
    return [Fraction(float(getattr(hexagon, name)[0])) for name in names]


def inside(hexagon: Hexagons, s: Fraction, t: Fraction) -> bool:
    low, high, low_p, high_p, gap_low, gap_high = sides_of(hexagon)
    gap = t - Fraction(hexagon.ratio) * s
    return low <= s <= high and low_p <= t <= high_p and gap_low <= gap <= gap_high


def exact_corners(hexagon: Hexagons) -> list[tuple[Fraction, Fraction]]:
    """All crossings of the sides and the axes that lie in the hexagon, in rational numbers."""
    low, high, low_p, high_p, gap_low, gap_high = sides_of(hexagon)
    ratio, zero = Fraction(hexagon.ratio), Fraction(0)
    columns, rows, gaps = (low, high, zero), (low_p, high_p, zero), (gap_low, gap_high)
    points = [(s, t) for s in columns for t in rows]
    points += [(s, ratio * s + gap) for s in columns for gap in gaps]
    points += [((t - gap) / ratio, t) for t in rows for gap in gaps]
    return [point for point in points if inside(hexagon, *point)]


def offset(hexagon: Hexagons, multipliers: np.ndarray) -> tuple[float, float]:
    """The offset for `(a, b, p, q)`, and the rounding error that is paid for it."""
    a, b, p, q = multipliers[:, None, None]
    corners = Corners.of(hexagon)
    paid = p, q, corners.offset(a, b, p, q)
    found = through_relu(Backward.begin((a, b)), paid, corners.magnitude)
    return float(found.constant[0]), 2.0 * float(found.error[0])


def exact_value(multipliers: np.ndarray, s: Fraction, t: Fraction) -> Fraction:
    a, b, p, q = (Fraction(float(value)) for value in multipliers)
    return a * max(s, Fraction(0)) + b * max(t, Fraction(0)) - p * s - q * t


def random_multipliers(rng: np.random.Generator, ratio: float) -> np.ndarray:
    a, b, p, q = rng.normal(size=4) * 10.0 ** rng.integers(-2, 3, 4)
    match rng.integers(4):
        case 0:
            p, q = a, b  # as if always on
        case 1:
            p, q = a + ratio * q, -q
        case 2:
            a, b = 0.0, -b
    return np.array([a, b, p, q])


@pytest.mark.parametrize("seed", range(10))
def test_no_point_is_lost_and_the_offset_is_the_maximum(seed: int) -> None:
    rng = np.random.default_rng([4, seed])
    for _ in range(60):
        given = random_hexagon(rng)
        points = exact_corners(given)
        tightened = given.tightened()
        assert points
        assert all(inside(tightened, *point) for point in points)
        multipliers = random_multipliers(rng, given.ratio)
        value, error = offset(tightened, multipliers)
        largest = max(exact_value(multipliers, *point) for point in points)
        assert largest <= Fraction(value) + Fraction(error)
        # Tight, too: a corner that rounding put off the hexagon is off by an ulp or two.
        size = float(abs(multipliers) @ np.ones(4) * tightened.magnitude[0])
        assert value - float(largest) <= 1e-12 * size


@pytest.mark.parametrize("seed", range(6))
def test_the_offset_is_the_maximum_over_a_grid(seed: int) -> None:
    """The same by brute force, with no idea of corners."""
    rng = np.random.default_rng([5, seed])
    tightened = random_hexagon(rng).tightened()
    low, high, low_p, high_p, gap_low, gap_high = (float(side) for side in sides_of(tightened))
    ratio = tightened.ratio
    points = []
    for s in np.linspace(low, high, 60):
        bottom, top = max(low_p, ratio * s + gap_low), min(high_p, ratio * s + gap_high)
        points += [
            (Fraction(float(s)), Fraction(float(t)))
            for t in np.linspace(bottom, top, 60)
            if inside(tightened, Fraction(float(s)), Fraction(float(t)))
        ]
    for _ in range(3):
        multipliers = random_multipliers(rng, ratio)
        value, error = offset(tightened, multipliers)
        if points:
            largest = max(exact_value(multipliers, *point) for point in points)
            assert largest <= Fraction(value) + Fraction(error)
        # From the grid's nearest point to the corner, the value changes by this at most.
        steps = [(high - low) / 59, (high_p - low_p + ratio * (high - low)) / 59]
        slack = float(abs(multipliers[[0, 2]]).sum()) * steps[0]
        slack += float(abs(multipliers[[1, 3]]).sum()) * steps[1]
        if len(points) > 2000:
            assert value - float(largest) <= slack


def test_corners_are_as_many_as_announced_and_lie_in_the_hexagon() -> None:
    rng = np.random.default_rng(6)
    for _ in range(100):
        tightened = random_hexagon(rng).tightened()
        s, t = tightened.corners()
        assert s.shape == t.shape == (CORNERS, 1)
        ulps = 8 * np.spacing(tightened.magnitude) / min(tightened.ratio, 1.0)
        assert (tightened.lower <= s).all()
        assert (s <= tightened.upper + ulps).all()
        assert (tightened.lower_p - ulps <= t).all()
        assert (t <= tightened.upper_p + ulps).all()


def test_equal_copies_stay_equal() -> None:
    hexagon = _hexagon([-1.0, 2.0, -0.5, 3.0, 0.0, 0.0], 1.0).tightened()
    assert hexagon.equal.all()
    s, t = hexagon.corners()
    assert (s == t).all()
    assert sides_of(hexagon) == [Fraction(side) for side in ("-1/2", "2", "-1/2", "2", "0", "0")]


def test_a_multiple_is_not_equality() -> None:
    assert not _hexagon([-1.0, 1.0, -1.4, 1.4, 0.0, 0.0], 1.4).equal.any()


def test_meeting_keeps_the_tighter_side() -> None:
    first = _hexagon([-1.0, 2.0, -3.0, 4.0, -5.0, 6.0], 1.0)
    second = _hexagon([-2.0, 1.0, -2.0, 5.0, -6.0, 5.0], 1.0)
    assert sides_of(first.meet(second)) == [Fraction(k) for k in (-1, 1, -2, 4, -5, 5)]


def test_on_and_off() -> None:
    sides = np.array(
        [[0.0, 1.0, 0.0, 2.0], [-1.0, 0.0, -2.0, -1.0], [-1.0, 1.0, 0.0, 1.0], [0.0] * 4]
    )
    gap = np.full(4, 9.0)
    hexagons = Hexagons(*sides.T, -gap, gap)
    assert hexagons.on.tolist() == [True, False, False, False]
    assert hexagons.off.tolist() == [False, True, False, True]  # always 0 is off
