"""Weights of corners: with a side chosen, they can be any point of the hexagon on that side."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.pair_hulls import (
    CornerWeights,
    _different,
    add_convexity,
    add_weights,
    on_axes,
)
from vhagar.solver.linear_model import LinearModel

from .test_hexagon import exact_corners, random_hexagon

Point = tuple[Fraction, Fraction]


def weights_of(hexagon: Hexagons) -> CornerWeights:
    return add_weights(LinearModel(), *hexagon.widened().corners())


def corners_of(weights: CornerWeights) -> list[Point]:
    found = [
        (Fraction(float(s)), Fraction(float(t))) for s, t in zip(weights.s, weights.t, strict=True)
    ]
    return found + ([(Fraction(0), Fraction(0))] if weights.has_origin[0] else [])


def turn(a: Point, b: Point, c: Point) -> Fraction:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def hull(points: list[Point]) -> list[Point]:
    """Counterclockwise, by Andrew's monotone chain."""
    ordered = sorted(set(points))
    if len(ordered) < 3:
        return ordered
    chains = []
    for direction in (ordered, ordered[::-1]):
        chain: list[Point] = []
        for point in direction:
            while len(chain) > 1 and turn(chain[-2], chain[-1], point) <= 0:
                chain.pop()
            chain.append(point)
        chains.append(chain[:-1])
    return chains[0] + chains[1]


def holds(points: list[Point], point: Point) -> bool:
    corners = hull(points)
    if len(corners) < 3:
        (low_s, low_t), (high_s, high_t) = corners[0], corners[-1]
        between = low_s <= point[0] <= high_s
        between &= min(low_t, high_t) <= point[1] <= max(low_t, high_t)
        return between and turn(corners[0], corners[-1], point) == 0
    around = zip(corners, [*corners[1:], corners[0]], strict=True)
    return all(turn(a, b, point) >= 0 for a, b in around)


def sides(value: Fraction) -> list[int]:
    """The sides of an axis that a number is on; 0 is on both."""
    return [side for side in (-1, 1) if side * value >= 0]


@pytest.mark.parametrize("seed", range(300))
def test_every_point_of_a_side_is_a_combination_of_the_corners_on_it(seed: int) -> None:
    hexagon = random_hexagon(np.random.default_rng([3, seed])).tightened()
    corners = corners_of(weights_of(hexagon))
    for s, t in exact_corners(hexagon):
        for side in sides(s):
            for side_p in sides(t):
                on_it = [p for p in corners if side * p[0] >= 0 and side_p * p[1] >= 0]
                assert on_it
                assert holds(on_it, (s, t))


def test_equal_copies_stay_on_the_diagonal() -> None:
    ends = np.array([-1.0]), np.array([0.7])
    weights = weights_of(Hexagons(*ends, *ends, np.zeros(1), np.zeros(1)))
    np.testing.assert_array_equal(weights.s, weights.t)
    assert len(weights.s) == 2
    assert weights.has_origin.all()


def test_a_bound_that_has_a_sign_keeps_it() -> None:
    zero, one, gap = np.zeros(1), np.ones(1), np.ones(1)
    weights = weights_of(Hexagons(zero, one, -one, zero, -2 * gap, gap))
    assert (weights.s >= 0).all()
    assert (weights.t <= 0).all()


def test_the_weights_of_a_neuron_sum_to_one() -> None:
    model = LinearModel()
    one = np.ones(2)
    # The first hexagon holds the origin as a corner, the second does not.
    low, high = np.array([-1.0, 2.0]), np.array([1.0, 3.0])
    hexagons = Hexagons(low, high, low, high, -0.1 * one, 0.1 * one)
    weights = add_weights(model, *hexagons.corners())
    add_convexity(model, weights)
    arrays = model.arrays()
    assert weights.has_origin.tolist() == [True, False]
    assert arrays.row_lower.tolist() == [0.0, 1.0]
    assert arrays.row_upper.tolist() == [1.0, 1.0]
    np.testing.assert_array_equal(arrays.matrix.sum(axis=1), np.bincount(weights.owner))


# Of corners whose largest coordinates are 2 and 6.
ULP = 8e-12


@pytest.mark.parametrize(("distance", "snaps"), [(0.9, True), (1.0, True), (1.1, False)])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_corner_near_an_axis_lies_on_it(distance: float, snaps: bool, side: float) -> None:
    near = side * distance * ULP
    s, t = on_axes(np.array([[2.0], [near], [-1.0]]), np.array([[near], [-6.0], [1.0]]))
    assert s.ravel().tolist() == [2.0, 0.0 if snaps else near, -1.0]
    assert t.ravel().tolist() == [0.0 if snaps else near, -6.0, 1.0]


@pytest.mark.parametrize(("distance", "same"), [(0.9, True), (1.1, False)])
@pytest.mark.parametrize("moved", [(1, 0), (0, 1), (-1, 0), (1, -1)])
def test_corners_that_rounding_separates_are_one(
    distance: float, same: bool, moved: tuple[int, int]
) -> None:
    shift = distance * ULP * np.array(moved)
    s = np.array([[2.0], [1.0], [1.0 + shift[0]], [2.0]])
    t = np.array([[-6.0], [1.0], [1.0 + shift[1]], [6.0]])
    assert _different(s, t).ravel().tolist() == [True, True, not same, True]


def test_corners_at_just_that_distance_are_one() -> None:
    s, t = np.array([[0.0], [ULP], [2.0]]), np.array([[0.0], [0.0], [6.0]])
    assert _different(s, t).ravel().tolist() == [True, False, True]
    assert _different(s[:, :0], t[:, :0]).shape == (3, 0)
    t, s = np.array([[0.0], [ULP], [2.0]]), np.array([[0.0], [0.0], [6.0]])
    assert _different(s, t).ravel().tolist() == [True, False, True]


def test_weights_are_between_0_and_1_and_nobody_has_none() -> None:
    model = LinearModel()
    corners = np.array([[0.0, -1.0], [1.0, 2.0]]), np.array([[0.0, -1.0], [1.0, 2.0]])
    weights = add_weights(model, *corners)
    rows = add_convexity(model, weights)
    arrays = model.arrays()
    assert weights.column.tolist() == [0, 1, 2]
    assert (arrays.column_lower == 0).all()
    assert (arrays.column_upper == 1).all()
    assert rows.tolist() == [0, 1]
    assert (arrays.row_lower.tolist(), arrays.row_upper.tolist()) == ([0.0, 1.0], [1.0, 1.0])
    nobody = add_weights(model, np.zeros((6, 0)), np.zeros((6, 0)))
    assert (len(nobody.column), len(nobody.owner)) == (0, 0)
    assert len(add_convexity(model, nobody)) == 0
    assert (model.column_count, model.row_count) == (3, 2)
