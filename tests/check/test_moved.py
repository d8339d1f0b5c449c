"""Pieces that move pixels, against their definition pixel by pixel."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from vhagar_check import moved as module
from vhagar_check.affine import ShiftedLinfBall
from vhagar_check.arcs import Arc
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.layers import gamma
from vhagar_check.moved import Moved, Turned, TurnedBetween, identity, radius, turned
from vhagar_check.pieces import Domain
from vhagar_check.turning import cosine_and_sine

SOURCE = np.array([2, -1, 0, 3])
ENDS = [(0.0, 1.0), (-2.0, 3.0), (1.0, 4.0)]


def numbers(seed: int, size: int = 4) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.random.default_rng(seed).normal(size=(2, 3, size))
    return a, b


def exactly(row: np.ndarray) -> list[Fraction]:
    return [Fraction(value) for value in row.tolist()]


@pytest.mark.parametrize("ends", ENDS)
def test_moved_pixels(ends: tuple[float, float]) -> None:
    """Pixels 0 and 2 change places, pixel 1 becomes black, and pixel 3 stays."""
    domain = Domain((1, 2, 2), *ends)
    piece = Moved(domain, SOURCE)
    low, high = (Fraction(end) for end in ends)
    assert piece.rises.tolist() == [True, False, True, False]
    assert piece.falls.tolist() == [True, True, True, False]
    assert piece.image[0].tolist() == [ends[0]] * 4
    assert piece.image[1].tolist() == [ends[1], ends[0], ends[1], ends[1]]
    x = [Fraction(k, 3) for k in range(4)]
    assert piece.exact_image(x, []) == [x[2], low, x[0], x[3]]
    a, b = numbers(1)
    for row in range(3):
        u, v = exactly(a[row]), exactly(b[row])
        joint = [u[0] + v[2], u[1], u[2] + v[0], u[3] + v[3]]
        best = sum((max(w * low, w * high) for w in joint), v[1] * low)
        assert piece.exact_support(Exact.of(a[row]), Exact.of(b[row])) == best
        assert piece.largest(a, b)[row] == pytest.approx(float(best))
        assert piece.share(a, b)[row] == pytest.approx([float(w) for w in joint])
    found = piece.linear_change()
    if ends[0] != 0:
        assert found is None
        whole = Moved(domain, np.array([2, 1, 0, 3])).linear_change()
        assert whole is not None
        assert whole[0].tolist() == [[1, 0, -1, 0], [0] * 4, [-1, 0, 1, 0], [0] * 4]
    else:
        assert found is not None
        matrix = [[1, 0, -1, 0], [0, 1, 0, 0], [-1, 0, 1, 0], [0] * 4]
        assert found[0].tolist() == matrix
        assert not found[1].any()


def test_nothing_moves() -> None:
    piece = identity(Domain((1, 2, 2), 0.0, 1.0))
    assert piece.source.tolist() == [0, 1, 2, 3]
    assert not (piece.rises | piece.falls).any()


WEIGHTS = np.array(
    [[0.5, 0.25, 0.125, 0.125], [0.0] * 4, [0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]]
)


@pytest.mark.parametrize("ends", ENDS)
def test_averages_of_pixels(ends: tuple[float, float]) -> None:
    """Pixel 0 is an average, 1 black, 2 stays, and 3 is another pixel."""
    piece = Turned(Domain((1, 2, 2), *ends), WEIGHTS, 30.0)
    low, high = ends
    assert piece.rises.tolist() == [True, False, False, True]
    assert piece.falls.tolist() == [True, True, False, True]
    room = 1e-12 * max(map(abs, ends))
    assert piece.image[0].tolist() == [low - room] * 4
    assert piece.image[1].tolist() == [high + room, low + room, high + room, high + room]
    a, b = numbers(2)
    joint = a + b @ WEIGHTS
    best = np.maximum(joint * low, joint * high).sum(axis=1) + b[:, 1] * low
    np.testing.assert_allclose(piece.largest(a, b), best)
    np.testing.assert_allclose(piece.share(a, b), joint)
    assert piece.exact_support(Exact.of(a[0]), Exact.of(b[0])) is None
    assert piece.exact_image([Fraction(0)] * 4, []) is None
    found = piece.linear_change()
    assert (found is None) == (low != 0)
    if found is not None:
        assert found[0].tolist() == (np.eye(4) - WEIGHTS).tolist()
        slips = [[2.0**-49] * 4, [0.0] * 4, [0.0] * 4, [0.0] * 4]
        assert found[1].tolist() == slips
    x = np.array([low, high, low, high])
    image = WEIGHTS @ x + np.array([0.0, low, 0.0, 0.0])
    least, most = piece.image_interval(x, [])
    room = gamma(4 + 64) * (WEIGHTS.sum(axis=1) + 1) * piece.magnitude
    np.testing.assert_array_equal(least, image - room)
    np.testing.assert_array_equal(most, image + room)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("degrees", [30.0, 45.0, -100.0, 89.0])
def test_images_nearly(ends: tuple[float, float], degrees: float) -> None:
    """By the definition: every entry is as near as is said, and floats are not."""
    domain = Domain((2, 3, 4), *ends)
    piece = turned(domain, degrees)
    x = exactly(np.random.default_rng(3).uniform(*ends, 24))
    image, error = piece.near_image(x, [])
    assert error == Fraction(piece.magnitude) * (3 + 4) / 2**89
    cosine, sine = cosine_and_sine(degrees)
    low, furthest = Fraction(ends[0]), Fraction(0)
    for channel, row, column in itertools.product(range(2), range(3), range(4)):
        i, j = row - Fraction(1), column - Fraction(3, 2)
        down, right = i * cosine - j * sine + 1, i * sine + j * cosine + Fraction(3, 2)
        value = low
        if 0 <= down <= 2 and 0 <= right <= 3:
            value = sum(
                (
                    max(1 - abs(down - y), Fraction(0))
                    * max(1 - abs(right - z), Fraction(0))
                    * x[12 * channel + 4 * y + z]
                    for y, z in itertools.product(range(3), range(4))
                ),
                Fraction(0),
            )
        found = image[12 * channel + 4 * row + column]
        furthest = max(furthest, abs(found - value))
    assert furthest < error
    least, most = piece.image_interval(np.array([float(v) for v in x]), [])
    assert (least.astype(object) <= image).all()
    assert (image <= most.astype(object)).all()
    between = TurnedBetween(domain, (-120.0, -90.0) if degrees < 0 else (0.0, 90.0))
    assert between.near_image(x, [degrees]) == (image, error)
    with pytest.raises(Rejected, match="parameter outside its range"):
        between.near_image(x, [91.0])


def test_averages_without_black_are_linear_whatever_black_is() -> None:
    weights = WEIGHTS.copy()
    weights[1, 3] = 1.0
    assert Turned(Domain((1, 2, 2), -1.0, 1.0), weights, 30.0).linear_change() is not None


@pytest.mark.parametrize(
    ("degrees", "source"),
    [
        (0.0, [0, 1, 2, 3]),
        (90.0, [2, 0, 3, 1]),
        (180.0, [3, 2, 1, 0]),
    ],
)
def test_a_rotation_by_one_angle(degrees: float, source: list[int]) -> None:
    """By quarter turns, whole pixels move."""
    piece = turned(Domain((1, 2, 2), 0.0, 1.0), degrees)
    assert isinstance(piece, Moved)
    assert piece.source.tolist() == source
    assert isinstance(turned(Domain((1, 3, 3), 0.0, 1.0), degrees + 45), Turned)


def test_whole_pixels_that_are_taken_twice_are_no_permutation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights = np.array([[1.0, 0.0], [1.0, 0.0]])
    monkeypatch.setattr(module, "turn_weights", lambda image, degrees: weights)
    assert isinstance(turned(Domain((1, 1, 2), 0.0, 1.0), 10.0), Turned)
    monkeypatch.setattr(module, "turn_weights", lambda image, degrees: weights * [[1.0], [0.0]])
    piece = turned(Domain((1, 1, 2), 0.0, 1.0), 10.0)
    assert isinstance(piece, Moved)
    assert piece.source.tolist() == [0, -1]


def test_the_distance_of_the_outermost_pixel() -> None:
    assert radius(Domain((1, 3, 5), 0.0, 1.0)) == pytest.approx(math.hypot(1, 2))


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("shape", [(1, 3, 3), (2, 3, 4)])
@pytest.mark.parametrize("span", [(10.0, 12.0), (-30.0, 20.0), (80.0, 100.0)])
def test_rotations_of_a_range(
    ends: tuple[float, float], shape: tuple[int, int, int], span: tuple[float, float]
) -> None:
    """No angle of the span exceeds the support, which a narrow span nearly attains."""
    domain = Domain(shape, *ends)
    piece = TurnedBetween(domain, span)
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 4, domain.size))
    support = piece.support(a, b)
    best = np.full(4, -np.inf)
    for angle in np.linspace(*span, 23).tolist():
        own = turned(domain, angle)
        best = np.maximum(best, own.largest(a, b))
        changed = own.rises | own.falls
        assert (piece.rises | piece.falls)[changed].all()
        assert (piece.rises >= own.rises).all()
        assert (piece.image[1] >= own.image[1] - 1e-12 * max(map(abs, ends))).all()
    assert (support >= best - 1e-12).all()
    wide = abs(a).sum(axis=1) + abs(b).sum(axis=1)
    share = 0.05 if span == (10.0, 12.0) else 0.5
    assert (support <= best + share * wide * (ends[1] - ends[0])).all()


def test_pixels_of_a_range_of_rotations() -> None:
    """The middle stays, the corners become black, and all others may become anything."""
    piece = TurnedBetween(Domain((2, 3, 3), -1.0, 2.0), (40.0, 50.0))
    middle, corners = [4, 13], [0, 2, 6, 8, 9, 11, 15, 17]
    assert np.flatnonzero(~piece.falls).tolist() == middle
    assert np.flatnonzero(~piece.rises).tolist() == sorted(middle + corners)
    room = 1e-12 * 2.0
    assert (piece.image[0] == -1.0 - room).all()
    top = np.full(18, 2.0)
    top[corners] = -1.0
    assert piece.image[1].tolist() == (top + room).tolist()
    plain = Domain((2, 3, 3), -1.0, 2.0)
    a, b = np.random.default_rng(4).normal(size=(2, 3, 18))
    base = 1.01 * gamma(2 * 18 + 64) * (abs(a) + abs(b)).sum(axis=1) * piece.magnitude
    np.testing.assert_allclose(piece.rounding(a, b), 8 * base, rtol=1e-12)
    assert piece.exact_support(Exact.of(a[0]), Exact.of(b[0])) is None
    assert plain == piece.domain


def arc(begin: float, sources: tuple[int, ...] = (1, 1, 3)) -> Arc:
    """Weights of pixels 0, 2 and 3 on some sources; pixel 1 is capped."""
    return Arc(
        np.array([0, 2, 3]),
        np.array(sources),
        np.array([begin, 0.25, 0.5]),
        np.array([0.25, begin, 0.75]),
        np.array([-0.125, -0.0625, -0.25]),
        np.array([0.0625, 0.125, 0.5]),
        np.array([False, True, False, False]),
        np.zeros(4, dtype=np.bool_),
    )


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("sources", [(1, 1, 3), (0, 0, 0), (0, 1, 1), (1, 2, 3)])
def test_the_support_over_arcs(ends: tuple[float, float], sources: tuple[int, ...]) -> None:
    """At an end of an arc, weights are as large as they can be where that pays, and as small where
    it does not; a capped pixel is white where that pays."""
    domain = Domain((2, 2, 2), *ends)
    piece = TurnedBetween(domain, (10.0, 20.0))
    arcs = [arc(0.5, sources), arc(0.75, sources)]
    piece.__dict__["_arcs"] = arcs
    piece.__dict__["_whole"] = arcs[0]
    a, b = numbers(7, 8)
    low, width = ends[0], ends[1] - ends[0]
    for row in range(3):
        best = -np.inf
        for own in arcs:
            for weights in (own.first, own.last):
                total = 0.0
                for channel in (0, 4):
                    joint = a[row, channel : channel + 4].copy()
                    for k, (pixel, source) in enumerate(zip(own.pixel, own.source, strict=True)):
                        v = b[row, channel + pixel]
                        extra = own.high[k] if v > 0 else own.low[k]
                        joint[source] += v * (weights[k] + extra)
                    total += np.maximum(joint, 0.0).sum() + max(b[row, channel + 1], 0.0)
                best = max(best, total)
        expected = low * (a[row] + b[row]).sum() + width * best
        assert piece.largest(a, b)[row] == pytest.approx(expected)
        joint = a[row].copy()
        for channel in (0, 4):
            for k, (pixel, source) in enumerate(zip(arcs[0].pixel, arcs[0].source, strict=True)):
                weight = (arcs[0].first[k] + arcs[0].last[k]) / 2
                joint[channel + source] += b[row, channel + pixel] * weight
        np.testing.assert_allclose(piece.share(a, b)[row], joint)


def test_an_image_of_one_pixel_has_an_arc() -> None:
    """It does not move at all."""
    piece = TurnedBetween(Domain((1, 1, 1), 0.0, 1.0), (10.0, 20.0))
    assert len(piece._arcs) == 1
    assert piece.support(np.ones((1, 1)), np.ones((1, 1)))[0] >= 2.0


def test_an_arc_without_entries() -> None:
    """All pixels are capped or black."""
    nothing = np.zeros(0)
    empty = Arc(
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
        *(nothing,) * 4,
        np.array([True, False, False, False]),
        np.array([False, True, True, True]),
    )
    piece = TurnedBetween(Domain((1, 2, 2), 0.0, 1.0), (10.0, 20.0))
    piece.__dict__["_arcs"], piece.__dict__["_whole"] = [empty], empty
    a, b = numbers(8)
    expected = np.maximum(a, 0.0).sum(axis=1) + np.maximum(b[:, 0], 0.0)
    np.testing.assert_allclose(piece.largest(a, b), expected)
    assert piece.share(a, b).tolist() == a.tolist()


@pytest.mark.parametrize(
    ("degrees", "count"), [(1.0, 1), (5.06, 1), (5.07, 2), (11.0, 3), (40.0, 8), (90.0, 8)]
)
def test_a_range_is_bounded_arc_by_arc(degrees: float, count: int) -> None:
    """The outermost pixel, at a distance of sqrt(2), moves by an eighth on each arc, unless there
    would be more than eight."""
    piece = TurnedBetween(Domain((1, 3, 3), 0.0, 1.0), (10.0, 10.0 + degrees))
    assert len(piece._arcs) == count


def test_the_share_in_the_middle_of_a_range() -> None:
    domain = Domain((2, 3, 3), 0.0, 1.0)
    piece = TurnedBetween(domain, (10.0, 10.001))
    a, b = np.random.default_rng(5).normal(size=(2, 3, 18))
    middle = turned(domain, 10.0005)
    assert isinstance(middle, Turned)
    np.testing.assert_allclose(piece.share(a, b), a + b @ middle.weights, atol=1e-3)
    assert not np.allclose(piece.share(a, b), a, atol=1e-2)


def test_witnesses_and_parts_of_a_range() -> None:
    domain = Domain((1, 3, 3), 0.0, 1.0)
    piece = TurnedBetween(domain, (80.0, 100.0))
    x = [Fraction(k, 9) for k in range(9)]
    quarter = turned(domain, 90.0).exact_image(x, [])
    assert piece.exact_image(x, [90.0]) == quarter
    floats = np.array([float(value) for value in x])
    least, most = piece.image_interval(floats, [80.0])
    own = turned(domain, 80.0).image_interval(floats, [])
    assert [least.tolist(), most.tolist()] == [side.tolist() for side in own]
    assert piece.exact_image(x, [80.0]) is None
    piece.exact_image(x, [100.0])
    for wrong in ([], [79.9], [100.1], [90.0, 90.0], [math.nan]):
        with pytest.raises(Rejected, match="parameter outside its range"):
            piece.exact_image(x, wrong)
    for span in ((80.0, 90.0), (90.0, 100.0), (80.0, 100.0)):
        part = piece.with_span(span)
        assert isinstance(part, TurnedBetween)
        assert part.span == span
    for span in ((79.0, 90.0), (90.0, 101.0), (90.0, 90.0), (95.0, 90.0)):
        with pytest.raises(Rejected, match="split outside its range"):
            piece.with_span(span)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("limit", [0.25, 9.0])
def test_a_ball_around_moved_pixels(ends: tuple[float, float], limit: float) -> None:
    """Every pixel of the image moves from its source, or from black, and stays in the range."""
    domain = Domain((1, 2, 2), *ends)
    piece = ShiftedLinfBall(domain, SOURCE, limit)
    low, high = (Fraction(end) for end in ends)
    top = min(low + Fraction(limit), high)
    assert piece.rises.all()
    assert piece.falls.all()
    assert piece.image[0].tolist() == [ends[0]] * 4
    risen = min(float(np.nextafter(float(top), np.inf)), ends[1])
    assert piece.image[1].tolist() == [ends[1], risen, ends[1], ends[1]]
    step = min(Fraction(limit), high - low)
    corners = [
        (low, low),
        (high, high),
        (low + step, low),
        (low, low + step),
        (high, high - step),
        (high - step, high),
    ]
    a, b = numbers(6)
    for row in range(3):
        u, v = exactly(a[row]), exactly(b[row])
        pulled = [v[2], Fraction(0), v[0], v[3]]
        best = max(v[1] * low, v[1] * top) + sum(
            max(w * x + z * y for x, y in corners) for w, z in zip(u, pulled, strict=True)
        )
        assert piece.exact_support(Exact.of(a[row]), Exact.of(b[row])) == best
        assert piece.largest(a, b)[row] == pytest.approx(float(best))
    joint = a.copy()
    joint[:, [2, 0, 3]] += b[:, [0, 2, 3]]
    np.testing.assert_allclose(piece.share(a, b), joint)
    x = [low, high, high, low]
    given = [0.0, limit, 0.0, 0.0]
    assert piece.exact_image(x, given) == [high, top, low, low]
    assert piece.exact_image([high, low, low, high], given) == [low, top, high, high]
