"""Bounds on the weights of a rotation over an arc of angles, against the weights themselves."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar.perturbation.rotation_weights import arc_between as their_arc
from vhagar_check import arcs
from vhagar_check.turn_ranges import (
    Turn,
    _between,
    _cosine_and_sine,
    _ways,
    snapped,
    tent,
    weight_ranges,
)
from vhagar_check.turning import cosine_and_sine, turn_weights

CASES = [
    ((4, 4), 5.0, 9.0),
    ((5, 3), -8.0, 2.0),
    ((3, 3), 80.0, 90.0),
    ((8, 9), 179.0, 180.0),
    ((17, 17), 40.0, 42.0),
    ((24, 20), -0.5, 0.25),
    ((28, 28), 10.0, 10.4),
    ((33, 11), 269.5, 270.0),
]
SNAP = np.longdouble(1e-9)


def _weights(plane: tuple[int, int], degrees: float) -> dict[tuple[int, int], float]:
    """Pixel and source to weight, in extended precision."""
    height, width = plane
    row, column = np.divmod(np.arange(height * width), width)
    i, j = (
        (part - (n - 1) / 2).astype(np.longdouble) for part, n in ((row, height), (column, width))
    )
    angle = np.longdouble(degrees) * np.arccos(np.longdouble(-1)) / 180
    sources = [
        i * np.cos(angle) - j * np.sin(angle) + (height - 1) / np.longdouble(2),
        i * np.sin(angle) + j * np.cos(angle) + (width - 1) / np.longdouble(2),
    ]
    r, c = (np.where(abs(p - np.round(p)) < SNAP, np.round(p), p) for p in sources)
    found = {}
    for pixel in np.flatnonzero((r >= 0) & (r <= height - 1) & (c >= 0) & (c <= width - 1)):
        for y in {int(np.floor(r[pixel])), int(np.ceil(r[pixel]))}:
            for x in {int(np.floor(c[pixel])), int(np.ceil(c[pixel]))}:
                weight = (1 - abs(r[pixel] - y)) * (1 - abs(c[pixel] - x))
                found[int(pixel), y * width + x] = weight
    return found


def _require_between(arc: arcs.Arc, weights: dict[tuple[int, int], float], s: float) -> None:
    """Every weight keeps within its bounds, those of no bounds are 0, and no tolerance."""
    entries = zip(arc.pixel.tolist(), arc.source.tolist(), strict=True)
    place = {entry: k for k, entry in enumerate(entries)}
    for (pixel, source), weight in weights.items():
        assert not arc.black[pixel] or weight == 0
        assert (pixel, source) in place or weight == 0
    for (pixel, source), k in place.items():
        weight = weights.get((pixel, source), np.longdouble(0))
        middle = np.longdouble(arc.first[k]) + np.longdouble(s) * (
            np.longdouble(arc.last[k]) - np.longdouble(arc.first[k])
        )
        assert middle + np.longdouble(arc.low[k]) <= weight
        assert arc.capped[pixel] or weight <= middle + np.longdouble(arc.high[k])


@pytest.mark.parametrize(("plane", "begin", "end"), CASES)
def test_no_weight_leaves_its_bounds(plane: tuple[int, int], begin: float, end: float) -> None:
    arc = arcs.arc_between(plane, begin, end)
    for s in np.linspace(0, 1, 9).tolist():
        angle = begin + s * (end - begin)
        _require_between(arc, _weights(plane, angle), (angle - begin) / (end - begin))


@pytest.mark.parametrize(("plane", "begin", "end"), CASES[:4])
def test_no_exact_weight_leaves_its_bounds(
    plane: tuple[int, int], begin: float, end: float
) -> None:
    arc = arcs.arc_between(plane, begin, end)
    for s in (0.0, 0.375, 1.0):
        dense = turn_weights((1, *plane), begin + s * (end - begin))
        weights = {(int(p), int(q)): dense[p, q] for p, q in zip(*np.nonzero(dense), strict=True)}
        _require_between(arc, weights, s)


def _random_arcs(count: int) -> list[tuple[tuple[int, int], float, float]]:
    """Of all sizes, from quarter turns and from elsewhere, as long as the search's or shorter."""
    rng = np.random.default_rng(11)
    found = []
    for _ in range(count):
        height, width = rng.integers(1, 12, 2).tolist()
        begin = 90.0 * rng.integers(-4, 4) + float(rng.choice([0.0, rng.uniform(0, 80)]))
        found.append(((height, width), begin, begin + float(10 ** rng.uniform(-3, 0.75))))
    return found


@pytest.mark.parametrize("case", range(40))
def test_no_weight_leaves_its_bounds_on_random_arcs(case: int) -> None:
    plane, begin, end = _random_arcs(40)[case]
    arc = arcs.arc_between(plane, begin, end)
    for s in (0.0, 0.03, 0.3, 0.5, 0.9, 1.0):
        angle = begin + s * (end - begin)
        _require_between(arc, _weights(plane, angle), (angle - begin) / (end - begin))


@pytest.mark.parametrize(("plane", "begin", "end"), [*CASES, *_random_arcs(40)])
def test_no_looser_than_the_search(plane: tuple[int, int], begin: float, end: float) -> None:
    """Certificates rely on it: the same lines, and bounds of the other derivation that are wider by
    no more than what counts as on a grid line."""
    ours, theirs = arcs.arc_between(plane, begin, end), their_arc(plane, begin, end)
    place = ours.pixel, ours.source
    assert (ours.capped == theirs.capped).all()
    assert (ours.black == theirs.black).all()
    assert (np.diff(ours.source) >= 0).all()
    listed = np.zeros(theirs.low.shape, dtype=bool)
    listed[place] = True
    assert not (abs(theirs.high) + abs(theirs.low)).toarray()[~listed].any()
    for mine, his in ((ours.first, theirs.first), (ours.last, theirs.last)):
        assert mine == pytest.approx(his.toarray()[place], abs=1e-12)
    assert (ours.low >= theirs.low.toarray()[place] - 2.1e-9).all()
    assert (ours.high <= theirs.high.toarray()[place] + 2.1e-9).all()


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("case", [0, 2, 4])
def test_whatever_is_capped_the_bounds_hold(
    case: int, large: bool, inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane, begin, end = CASES[case]
    monkeypatch.setattr(
        "vhagar_check.arcs._is_large", lambda near, pixel, high, count: np.full(count, large)
    )
    if not inside:
        nowhere = property(lambda ways: np.zeros(ways.low.shape[1], dtype=bool))
        monkeypatch.setattr("vhagar_check.arcs._Ways.inside", nowhere)
    arc = arcs.arc_between(plane, begin, end)
    assert arc.capped.any() == large
    for s in (0.0, 0.3, 0.5, 0.9, 1.0):
        _require_between(arc, _weights(plane, begin + s * (end - begin)), s)


@pytest.mark.parametrize(
    ("plane", "begin", "length", "count"),
    [((21, 6), -6.52, 5.559, 4), ((10, 22), 0.0, 5.016, 10), ((3, 29), 180.0, 4.082, 6)],
)
def test_pixels_that_are_capped(
    plane: tuple[int, int], begin: float, length: float, count: int
) -> None:
    """At the border, as long as arcs are pieces; nearly always those that the search caps."""
    ours, theirs = (arc(plane, begin, begin + length) for arc in (arcs.arc_between, their_arc))
    assert ours.capped.sum() == count
    assert (ours.capped >= theirs.capped).all()
    assert theirs.capped.sum() in (count, count - 2)
    listed = ours.capped[ours.pixel]
    assert (ours.high[listed] == 0).all()
    assert (ours.low[listed] <= 0).all()
    assert not ours.first[listed].any()


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
        weights = _weights(plane, begin + s * (end - begin))
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
    plane, begin, end = _random_arcs(12)[case]
    turn = Turn(plane, begin, end)
    size = plane[0] * plane[1]
    pixel, row, column = (
        part.reshape(-1)
        for part in np.meshgrid(np.arange(size), range(plane[0]), range(plane[1]), indexing="ij")
    )
    first, last = np.random.default_rng(case).uniform(0, 1, (2, len(pixel)))
    low, high = weight_ranges(turn, pixel, row, column, first, last)
    i, j = (part[pixel][:, None] for part in turn.offsets)
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
    far = (abs(down - row[:, None]) >= 2).all(axis=1)
    assert (abs(low + np.maximum(first, last))[far] < 1e-12).all()
    assert (abs(high + np.minimum(first, last))[far] < 1e-12).all()


def test_no_pixel_no_range() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    found = weight_ranges(Turn((3, 3), 0.0, 1.0), nothing, nothing, nothing, *[np.zeros(0)] * 2)
    assert [side.shape for side in found] == [(0,), (0,)]


@pytest.mark.parametrize("case", range(20))
def test_where_sources_are(case: int) -> None:
    """On both axes, by the definition, and their ranges as near as eight steps can tell."""
    plane, begin, end = _random_arcs(20)[case]
    turn = Turn(plane, begin, end)
    assert turn.turn >= np.radians(np.longdouble(end) - np.longdouble(begin)) > turn.turn - 1e-13
    (row, column), (i, j) = np.divmod(np.arange(plane[0] * plane[1]), plane[1]), turn.offsets
    assert (i + (plane[0] - 1) / 2).tolist() == row.tolist()
    assert (j + (plane[1] - 1) / 2).tolist() == column.tolist()
    angles = np.radians(np.linspace(np.longdouble(begin), np.longdouble(end), 600))[None]
    i, j = i[:, None], j[:, None]
    exact = [
        i * np.cos(angles) - j * np.sin(angles) + (plane[0] - 1) / 2,
        i * np.sin(angles) + j * np.cos(angles) + (plane[1] - 1) / 2,
    ]
    found = turn.sources(i, j, np.linspace(0.0, turn.turn, 600)[None])
    radius = np.hypot(i, j)[:, 0]
    for axis, (low, high) in enumerate(turn.ranges()):
        assert np.allclose(found[axis], exact[axis].astype(np.float64), rtol=0, atol=1e-12)
        assert (low <= exact[axis].min(axis=1) + SNAP).all()
        assert (high >= exact[axis].max(axis=1) - SNAP).all()
        room = radius * ((turn.turn / 8) ** 2 / 8 + 1e-12) + 1.1e-9 + radius * turn.turn**2 / 600**2
        assert (low >= exact[axis].min(axis=1) - room).all()
        assert (high <= exact[axis].max(axis=1) + room).all()
        assert (low >= (plane[axis] - 1) / 2 - radius - 1e-9).all()
        assert (high <= (plane[axis] - 1) / 2 + radius + 1e-9).all()


def test_a_coordinate_near_a_grid_line_lies_on_it() -> None:
    given = np.array([2.0, 2 + 0.9e-9, 3 - 0.9e-9, 2 + 1.1e-9, 3 - 1.1e-9, -0.9e-9])
    assert snapped(given).tolist() == [2.0, 2.0, 3.0, 2 + 1.1e-9, 3 - 1.1e-9, 0.0]


@pytest.mark.parametrize(
    ("plane", "begin", "end"), [((6, 5), 0.0, 90.0), ((5, 3), -8.0, 2.0), ((9, 9), 200.0, 215.0)]
)
def test_every_kink_is_an_end_of_a_step(plane: tuple[int, int], begin: float, end: float) -> None:
    """Where a source crosses a grid line next to the neighbour, or the neighbour's own."""
    turn, rng = Turn(plane, begin, end), np.random.default_rng(0)
    pixel = rng.integers(0, plane[0] * plane[1], 60)
    row, column = rng.integers(0, plane[0], 60), rng.integers(0, plane[1], 60)
    i, j = (part[pixel] for part in turn.offsets)
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
