"""Bounds on the weights of a rotation over an arc of angles, against the weights themselves."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar.perturbation.rotation_weights import arc_between as their_arc
from vhagar_check import arcs
from vhagar_check.turn_ranges import Turn, offsets
from vhagar_check.turning import turn_weights

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
# At its end, the sources of the corners are moved onto grid lines in both directions.
SHORTEST = ((3, 3), 0.0, 5.6e-8)
SNAP = np.longdouble(1e-9)


def weights_at(plane: tuple[int, int], degrees: float) -> dict[tuple[int, int], float]:
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


@pytest.mark.parametrize(("plane", "begin", "end"), [*CASES, SHORTEST])
def test_no_weight_leaves_its_bounds(plane: tuple[int, int], begin: float, end: float) -> None:
    arc = arcs.arc_between(plane, begin, end)
    for s in np.linspace(0, 1, 9).tolist():
        angle = begin + s * (end - begin)
        _require_between(arc, weights_at(plane, angle), (angle - begin) / (end - begin))


@pytest.mark.parametrize(("plane", "begin", "end"), CASES[:4])
def test_no_exact_weight_leaves_its_bounds(
    plane: tuple[int, int], begin: float, end: float
) -> None:
    arc = arcs.arc_between(plane, begin, end)
    for s in (0.0, 0.375, 1.0):
        dense = turn_weights((1, *plane), begin + s * (end - begin))
        weights = {(int(p), int(q)): dense[p, q] for p, q in zip(*np.nonzero(dense), strict=True)}
        _require_between(arc, weights, s)


def random_arcs(count: int) -> list[tuple[tuple[int, int], float, float]]:
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
    plane, begin, end = random_arcs(40)[case]
    arc = arcs.arc_between(plane, begin, end)
    for s in (0.0, 0.03, 0.3, 0.5, 0.9, 1.0):
        angle = begin + s * (end - begin)
        _require_between(arc, weights_at(plane, angle), (angle - begin) / (end - begin))


@pytest.mark.parametrize(("plane", "begin", "end"), [*CASES, *random_arcs(40)])
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
    capped = arc.capped[arc.pixel]
    assert not (abs(arc.first) + abs(arc.last) + abs(arc.high))[capped].any()
    for s in (0.0, 0.3, 0.5, 0.9, 1.0):
        _require_between(arc, weights_at(plane, begin + s * (end - begin)), s)


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


@pytest.mark.parametrize(("begin", "end"), [(-2.0, 2.0), (89.0, 90.5), (5.0, 9.0)])
def test_how_unevenly_sources_move(begin: float, end: float) -> None:
    """A source is off the straight way between its ends by no more than this, and about as much
    where it moves across the axis at the middle of the arc."""
    plane = (5, 9)
    turn, (i, j) = Turn(plane, begin, end), offsets(plane)
    ways = arcs._ways(turn)
    s = np.linspace(0.0, 1.0, 101)
    found = turn.sources(i[:, None], j[:, None], (s * turn.turn)[None])
    apart = np.zeros(len(i))
    for axis, values in enumerate(found):
        even = ways.begin[axis][:, None] * (1 - s) + ways.end[axis][:, None] * s
        apart = np.maximum(apart, abs(values - even).max(axis=1))
    assert (apart <= ways.bend + 1e-12).all()
    if begin == -end:
        assert apart[(i == 0) | (j == 0)] == pytest.approx(ways.bend[(i == 0) | (j == 0)], rel=1e-3)


def test_which_pixels_are_capped() -> None:
    """Those whose largest weights sum to more than 2: by their ranges, or by their way."""

    def is_large(high: list[float], nearest: list[float], bend: float = 0.0) -> bool:
        place, count = np.zeros((2, len(high))), len(high)
        low = np.array([nearest, [0.0] * count])
        near = arcs._Ways(place, place, low, low + 1, np.full(count, bend), np.ones((2, 1)))
        (found,) = arcs._is_large(near, np.zeros(count, dtype=np.int64), np.array(high), 1)
        return bool(found)

    assert not is_large([0.5] * 4, [0.0] * 4)
    assert is_large([0.5] * 4 + [0.125], [0.0] * 5)
    assert not is_large([0.25] * 4, [0.0] * 4, 0.125)
    assert is_large([0.25] * 5, [0.0] * 5, 0.125)
    assert not is_large([1.0] * 4, [0.5] * 4)
    assert not is_large([1.0] * 4, [-1.5] * 4)
    assert is_large([1.0] * 5, [0.5] * 5)
    assert is_large([1.0] * 5, [-1.5] * 5)
