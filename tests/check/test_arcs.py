"""Bounds on the weights of a rotation over an arc of angles, against the weights themselves."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar.perturbation.rotation_weights import arc_between as their_arc
from vhagar_check import arcs
from vhagar_check.turn_ranges import Turn, _cosine_and_sine, weight_ranges
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
    """Of all sizes, from quarter turns and from elsewhere, between 1e-4 and 15 degrees long."""
    rng = np.random.default_rng(11)
    found = []
    for _ in range(count):
        height, width = rng.integers(1, 12, 2).tolist()
        begin = float(rng.choice([rng.uniform(-300, 270), 90.0 * rng.integers(-4, 4)]))
        found.append(((height, width), begin, begin + float(10 ** rng.uniform(-4, 1.2))))
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


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("tighter", [False, True])
@pytest.mark.parametrize("case", [0, 2, 4])
def test_whatever_is_chosen_the_bounds_hold(
    case: int, tighter: bool, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane, begin, end = CASES[case]

    def chosen(near: object, pixel: object, count: int) -> tuple[np.ndarray, np.ndarray]:
        return np.full(count, tighter), np.full(count, large)

    monkeypatch.setattr("vhagar_check.arcs._choices", chosen)
    arc = arcs.arc_between(plane, begin, end)
    for s in (0.0, 0.3, 0.5, 0.9, 1.0):
        _require_between(arc, _weights(plane, begin + s * (end - begin)), s)


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
