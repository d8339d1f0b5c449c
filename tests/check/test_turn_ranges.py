"""Ranges of rotations' weights over an arc: none leaves them, and few are wider than needed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar_check import arcs
from vhagar_check.turn_ranges import (
    Turn,
    _between,
    _cosine_and_sine,
    _ends,
    _ways,
    offsets,
    snapped,
    tent,
    weight_ranges,
)
from vhagar_check.turning import cosine_and_sine

from .test_arcs import CASES, random_arcs, weights_at


@pytest.mark.parametrize(("plane", "begin", "end"), [CASES[0], CASES[4], CASES[6]])
def test_the_ranges_hold_by_themselves(plane: tuple[int, int], begin: float, end: float) -> None:
    """Without a proposal: off the line from 0 to 0, a range is that of the weight."""
    arc = arcs.arc_between(plane, begin, end)
    row, column = np.divmod(arc.source, plane[1])
    nothing = np.zeros(len(row))
    low, high = weight_ranges(Turn(plane, begin, end), arc.pixel, row, column, nothing, nothing)
    inside = np.ones(plane[0] * plane[1], dtype=bool)
    reached = [np.full(len(row), np.inf), np.full(len(row), -np.inf)]
    for s in np.linspace(0, 1, 11).tolist():
        weights = weights_at(plane, begin + s * (end - begin))
        inside[sorted(set(range(len(inside))) - {pixel for pixel, _ in weights})] = False
        pairs = zip(arc.pixel.tolist(), arc.source.tolist(), strict=True)
        now = np.array([weights.get(pair, np.longdouble(0)) for pair in pairs])
        reached = [np.minimum(reached[0], now), np.maximum(reached[1], now)]
    kept = inside[arc.pixel]
    assert (low[kept] <= reached[0][kept]).all()
    assert (high >= reached[1]).all()
    assert (high - low)[kept].max() <= 1


@pytest.mark.parametrize("angle", [0.0, 1e-9, 0.3, 1.0, 1.5707963267948966])
def test_sine_and_cosine_by_their_series(angle: float) -> None:
    cosine, sine = _cosine_and_sine(np.array([angle]))
    degrees = Fraction(angle) * 180 / Fraction(3141592653589793238462643383279, 10**30)
    exact = cosine_and_sine(float(degrees))
    assert abs(Fraction(float(cosine[0])) - exact[0]) < Fraction(1, 10**15)
    assert abs(Fraction(float(sine[0])) - exact[1]) < Fraction(1, 10**15)


@pytest.mark.parametrize("case", range(12))
def test_ranges_are_no_wider_than_needed(case: int) -> None:
    """Off any lines, by what a step between two angles can hide, and no more."""
    plane, begin, end = random_arcs(12)[case]
    turn = Turn(plane, begin, end)
    rng = np.random.default_rng(case)
    row, column, above, left = (rng.integers(0, count, 1500) for count in plane * 2)
    pixel = above * plane[1] + left
    first, last = rng.uniform(0, 1, (2, len(pixel)))
    low, high = weight_ranges(turn, pixel, row, column, first, last)
    i, j = (part[pixel][:, None] for part in offsets(plane))
    way = np.linspace(0.0, turn.turn, 400)[None]
    down, right = turn.sources(i, j, way)
    offs = tent(down - row[:, None]) * tent(right - column[:, None])
    offs = offs - (first[:, None] + (last - first)[:, None] * (way / turn.turn))
    least, most = offs.min(axis=1), offs.max(axis=1)
    radius = np.hypot(i, j)[:, 0]
    # Ten steps or more; near kinks the weight is followed exactly.
    room = 3e-9 * (1 + radius) + (radius**2 + 8 * radius) * (turn.turn / 5) ** 2 / 4
    assert (low <= least).all()
    assert (high >= most).all()
    assert (low >= least - room).all()
    assert (high <= most + room).all()


def test_a_line_is_rounded() -> None:
    """A weight of 0 is off the line alone, of which rounding hides nothing."""
    pixel, far = np.zeros(200, dtype=np.int64), np.full(200, 8)
    first, last = np.random.default_rng(3).uniform(0, 1, (2, 200)) ** 3
    low, high = weight_ranges(Turn((9, 9), 0.0, 1.0), pixel, far, far, first, last)
    for room in (-np.maximum(first, last) - low, high + np.minimum(first, last)):
        assert (room >= 0).all()
        assert (room < 1e-12).all()


def test_no_pixel_no_range() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    found = weight_ranges(Turn((3, 3), 0.0, 1.0), nothing, nothing, nothing, *[np.zeros(0)] * 2)
    assert [side.shape for side in found] == [(0,), (0,)]


@pytest.mark.parametrize("case", range(20))
def test_where_sources_are(case: int) -> None:
    """On both axes, by the definition."""
    plane, begin, end = random_arcs(20)[case]
    turn = Turn(plane, begin, end)
    exact = np.radians(np.longdouble(end) - np.longdouble(begin))
    assert exact <= turn.turn <= exact * (1 + 1.5e-14)
    (row, column), (i, j) = np.divmod(np.arange(plane[0] * plane[1]), plane[1]), offsets(plane)
    assert (i + (plane[0] - 1) / 2).tolist() == row.tolist()
    assert (j + (plane[1] - 1) / 2).tolist() == column.tolist()
    angles = np.radians(np.linspace(np.longdouble(begin), np.longdouble(end), 50))[None]
    i, j = i[:, None], j[:, None]
    found = turn.sources(i, j, np.linspace(0.0, turn.turn, 50)[None])
    down = i * np.cos(angles) - j * np.sin(angles) + (plane[0] - 1) / 2
    right = i * np.sin(angles) + j * np.cos(angles) + (plane[1] - 1) / 2
    assert abs(found[0] - down).max() < 1e-12
    assert abs(found[1] - right).max() < 1e-12


def _exact_ranges(plane: tuple[int, int], begin: float, end: float) -> list[np.ndarray]:
    """The least and the largest row and column of each source, in extended precision.

    Both coordinates are the middle plus the radius times the cosine of an angle along the arc.
    """
    i, j = (part.astype(np.longdouble) for part in offsets(plane))
    turn = 2 * np.arccos(np.longdouble(-1))
    first, last = (np.longdouble(angle) * turn / 360 for angle in (begin, end))
    found = []
    for phase, count in ((np.arctan2(j, i), plane[0]), (np.arctan2(-i, j), plane[1])):
        ends = np.cos(np.stack([first + phase, last + phase]))
        least, most = ends.min(axis=0), ends.max(axis=0)
        # Whether the angle passes an even or an odd number of half turns.
        begun, done = (first + phase) / turn, (last + phase) / turn
        least = np.where(np.ceil(begun - 0.5) <= done - 0.5, -1, least)
        most = np.where(np.ceil(begun) <= done, 1, most)
        found.append((count - 1) / np.longdouble(2) + np.hypot(i, j) * np.stack([least, most]))
    return found


RANGES = [
    *(((7, 6), 5.6 * k, 5.6 * (k + 1)) for k in range(0, 64, 3)),
    ((2, 2500), -0.5, 0.25),
    ((2500, 2), 89.0, 91.0),
    ((2, 2500), 33.0, 33.0 + 1e-9),
]
LONG = [((5, 8), begin, begin + length) for begin in (-180, -77, 45) for length in (90, 270, 360)]


@pytest.mark.parametrize(("plane", "begin", "end"), [*RANGES, *LONG])
def test_no_source_leaves_its_range(plane: tuple[int, int], begin: float, end: float) -> None:
    ranges = zip(Turn(plane, begin, end).ranges(), _exact_ranges(plane, begin, end), strict=True)
    for (low, high), (least, most) in ranges:
        assert (low <= snapped(least)).all()
        assert (high >= snapped(most)).all()


@pytest.mark.parametrize(("plane", "begin", "end"), RANGES)
def test_ranges_are_as_near_as_eight_steps_can_tell(
    plane: tuple[int, int], begin: float, end: float
) -> None:
    turn, radius = Turn(plane, begin, end), np.hypot(*offsets(plane))
    room = radius * np.radians((end - begin) / 8) ** 2 / 8 * (1 + 1e-9) + 1e-9 + 1e-10
    for (low, high), (least, most), count in zip(
        turn.ranges(), _exact_ranges(plane, begin, end), plane, strict=True
    ):
        assert (low >= least - room).all()
        assert (high <= most + room).all()
        assert (low >= (count - 1) / 2 - radius - 1e-9 - 1e-10).all()
        assert (high <= (count - 1) / 2 + radius + 1e-9 + 1e-10).all()


def test_a_coordinate_near_a_grid_line_lies_on_it() -> None:
    given = np.array([2.0, 2 + 0.9e-9, 3 - 0.9e-9, 2 + 1.1e-9, 3 - 1.1e-9, -0.9e-9])
    assert snapped(given).tolist() == [2.0, 2.0, 3.0, 2 + 1.1e-9, 3 - 1.1e-9, 0.0]
    assert snapped(np.array([1e-9, -1e-9])).tolist() == [1e-9, -1e-9]


def test_ends_of_steps() -> None:
    lower, upper = _ends(np.array([[3.0, 1.0, 2.0, 4.0]]))
    assert lower.tolist() == [[1.0, 1.0, 2.0]]
    assert upper.tolist() == [[3.0, 2.0, 4.0]]


@pytest.mark.parametrize(
    ("plane", "begin", "end"), [((6, 5), 0.0, 90.0), ((5, 3), -8.0, 2.0), ((9, 9), 200.0, 215.0)]
)
def test_every_kink_is_an_end_of_a_step(plane: tuple[int, int], begin: float, end: float) -> None:
    """Where a source crosses a grid line next to the neighbour, or the neighbour's own."""
    turn, rng = Turn(plane, begin, end), np.random.default_rng(0)
    pixel = rng.integers(0, plane[0] * plane[1], 60)
    row, column = rng.integers(0, plane[0], 60), rng.integers(0, plane[1], 60)
    i, j = (part[pixel] for part in offsets(plane))
    way = _ways(turn, i, j, row, column)
    assert (way[:, 0] == 0).all()
    assert (way[:, -1] == turn.turn).all()
    assert (np.diff(way, axis=1) >= 0).all()
    assert np.diff(way, axis=1).max() <= turn.turn / 3
    fine = np.linspace(0.0, turn.turn, 2000)
    crossings = 0
    down, right = turn.sources(i[:, None], j[:, None], fine[None])
    for value, line in ((down, row), (right, column)):
        for beside in (-1, 0, 1):
            above = value > (line + beside)[:, None]
            for k, at in zip(*np.nonzero(above[:, 1:] != above[:, :-1]), strict=True):
                crossings += 1
                inside = (way[k] >= fine[at] - 1e-9) & (way[k] <= fine[at + 1] + 1e-9)
                assert inside.any()
    assert crossings > 9


@pytest.mark.parametrize(("radius", "parts"), [(0.0, 5), (2.0, 5), (10.0, 5), (11.0, 6), (40.0, 7)])
def test_steps_are_finer_far_from_the_centre(radius: float, parts: int) -> None:
    """`sqrt(radius / 2 + 4) + 2` parts, rounded up, of the steps between 12 kinks and both ends."""
    i, j = np.array([0.0, radius]), np.zeros(2)
    row = column = np.zeros(2, dtype=np.int64)
    assert _ways(Turn((3, 3), 0.0, 10.0), i, j, row, column).shape == (2, 13 * parts + 1)


def test_how_far_a_weight_is_from_a_line_between_two_angles() -> None:
    """No kink, one on each side of a coordinate, and one in both, for which products count."""
    step, radius = np.array([[0.1]]), np.array([[2.0]])
    bend, smooth = 2.0 * 0.01 / 8, (4.0 + 8.0) * 0.01 / 8

    def between(u: tuple[float, float], v: tuple[float, float]) -> float:
        return float(_between(np.array([u]), np.array([v]), step, radius)[0, 0])

    away = (0.3, 0.4)
    assert between(away, away) == pytest.approx(1.001 * smooth)
    for kink in (-1.0, 0.0, 1.0):
        for u in ((kink - 0.1, kink + 0.2), (kink + 0.2, kink - 0.1), (kink - 0.2, kink + 0.1)):
            one = 2 * (2 * 0.1 + bend)
            assert between(u, away) == pytest.approx(1.001 * (smooth + one))
            assert between(away, u) == pytest.approx(1.001 * (smooth + one))
            both = 1.001 * (smooth + 2 * one + one**2)
            assert between(u, (kink + 0.1, kink - 0.3)) == pytest.approx(both)
        for beside in (kink + 0.9 * bend, kink - 0.9 * bend):
            further = beside + np.sign(beside - kink) * 0.1
            near = 1.001 * (smooth + 2 * bend)
            assert between((beside, further), away) == pytest.approx(near)
            assert between((further, beside), away) == pytest.approx(near)
        for beside in (kink + 1.1 * bend, kink - 1.1 * bend):
            further = beside + np.sign(beside - kink) * 0.1
            assert between((beside, further), away) == pytest.approx(1.001 * smooth)
    across = between((-0.2, 1.1), away)
    assert across == pytest.approx(1.001 * (smooth + 2 * (0.4 + bend) + 2 * (0.2 + bend)))
    step, radius = np.array([[1.0]]), np.array([[1.0]])
    for u in ((0.125, 0.5), (-0.125, -0.5)):  # touches the kink and turns back
        assert between(u, away) == pytest.approx(1.001 * 5 / 8)
