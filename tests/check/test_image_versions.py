"""The versions of one image: their formulas, and the boxes around them, entry by entry."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from vhagar_check import one_image as module
from vhagar_check.affine import BoxAffine, ShiftedLinfBall
from vhagar_check.errors import Rejected
from vhagar_check.layers import TINY, gamma
from vhagar_check.one_image import AtImage, Box, Entry, OneImage, at_image, split_box
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.sparse import Sparse

DOMAIN = Domain((1, 2, 2), -0.5, 1.0)
IMAGE = np.array([-0.25, 0.0, 0.75, 1.0])
HALF = Fraction(1, 2)


def made(text: str, clip: bool = True, domain: Domain = DOMAIN) -> AtImage:
    (piece,) = pieces(text, domain, clip)
    return at_image(piece, IMAGE, clip)


def starts(found: AtImage) -> list[float]:
    return [float(entry.start) for entry in found.entries]


def slopes(found: AtImage) -> list[dict[int, float]]:
    return [{k: float(v) for k, v in entry.slopes.items()} for entry in found.entries]


def test_formulas_of_each_kind_of_piece() -> None:
    ball = made("patch(0.25,1,2,1)", False)
    assert starts(ball) == IMAGE.tolist()
    assert slopes(ball) == [{}, {0: 1.0}, {}, {}]
    assert ball.whole == ((-0.25,), (0.25,))
    assert (ball.clip, ball.own) == (True, True)
    lighter = made("brightness([0.125,0.25])", False)
    assert (starts(lighter), slopes(lighter)) == (IMAGE.tolist(), [{0: 1.0}] * 4)
    assert lighter.whole == ((0.125,), (0.25,))
    assert (lighter.clip, lighter.own) == (False, False)
    assert made("brightness([0.125,0.25])", True).clip
    contrast = made("contrast([1.5,2])")
    assert starts(contrast) == [-0.5] * 4
    assert slopes(contrast) == [{0: 0.25}, {0: 0.5}, {0: 1.25}, {0: 1.5}]
    assert contrast.whole == ((1.5,), (2.0,))


def test_formulas_of_pieces_that_move_pixels() -> None:
    moved = made("translation(0,1)", False)
    assert (starts(moved), slopes(moved)) == ([-0.5, -0.25, -0.5, 0.75], [{}] * 4)
    assert (moved.whole, moved.clip) == (((), ()), False)
    (shifted,) = pieces("translation(0,1)+linf(0.125)", DOMAIN, False)
    assert isinstance(shifted, ShiftedLinfBall)
    found = at_image(shifted, IMAGE, False)
    assert starts(found) == [-0.5, -0.25, -0.5, 0.75]
    assert slopes(found) == [{k: 1.0} for k in range(4)]
    assert found.whole == ((-0.125,) * 4, (0.125,) * 4)
    assert (found.clip, found.own) == (True, True)


def test_rotations_are_enclosed() -> None:
    """Their weights are irrational, so that each entry has some room."""
    domain, x = Domain((1, 3, 3), -0.5, 1.0), np.linspace(-0.5, 1.0, 9)
    (piece,) = pieces("rotation(30)", domain, False)
    turned = at_image(piece, x, False)
    low, high = piece.image_interval(x, [])
    assert any(entry.room > 0 for entry in turned.entries)
    for entry, least, most in zip(turned.entries, low.tolist(), high.tolist(), strict=True):
        assert entry.start - entry.room == Fraction(least)
        assert entry.start + entry.room == Fraction(most)
        assert entry.slopes == {}
    (ranged,) = pieces("rotation([1,3])", domain, False)
    with pytest.raises(Rejected, match="range of angles"):
        at_image(ranged, x, False)


def test_formulas_of_maps() -> None:
    matrix = Sparse.of(np.array([[0.5, 2.0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1.0]]))
    directions = Sparse.of(np.array([[1.0, 0], [0, -2.0], [0, 0], [0.5, 0.5]]))
    ends = np.array([-1.0, 0.0]), np.array([1.0, 0.25])
    piece = BoxAffine(DOMAIN, matrix, directions, np.array([0, 0.5, 0.25, 0]), *ends, 2.0**-10)
    found = at_image(piece, IMAGE, False)
    assert starts(found) == [-0.125, 1.25, 0.25, 1.5]
    assert slopes(found) == [{0: 1.0}, {1: -2.0}, {}, {0: 0.5, 1: 0.5}]
    # As many wrong weights as there are, on pixels of up to 1.
    assert [float(entry.room) * 2**10 for entry in found.entries] == [2.0, 1.0, 0.0, 4.0]
    darker = at_image(piece, IMAGE / 2, True)
    assert [float(entry.room) * 2**10 for entry in darker.entries] == [1.0, 0.5, 0.0, 2.0]
    assert found.whole == ((-1.0, 0.0), (1.0, 0.25))
    assert (found.clip, darker.clip, found.own) == (False, True, False)


def exact_extremes(entry: Entry, box: Box, found: AtImage) -> tuple[Fraction, Fraction]:
    """The least and the largest value of an entry, after the clip."""
    values = []
    for corner in itertools.product(*zip(*box, strict=True)):
        value = entry.start + sum(
            (slope * Fraction(corner[k]) for k, slope in entry.slopes.items()), Fraction(0)
        )
        values += [found.clipped(value - entry.room), found.clipped(value + entry.room)]
    return min(values), max(values)


def some_versions(clip: bool, own: bool = False) -> AtImage:
    entries = [
        Entry(Fraction(1, 3), {0: Fraction(1, 7)}, Fraction(1, 1000)),
        Entry(Fraction(9, 10), {1: Fraction(-3)}, Fraction(1, 500)),
        Entry(Fraction(1, 10), {}, Fraction(1, 250)),
        Entry(Fraction(-2, 5), {2: Fraction(5, 3)}),
    ]
    if not own:
        entries[3] = Entry(Fraction(-2, 5), {0: Fraction(1), 1: Fraction(-1, 3)}, Fraction(1, 125))
    count = 3 if own else 2
    return AtImage(DOMAIN, entries, ((-0.5,) * count, (0.75,) * count), clip, own)


@pytest.mark.parametrize(("clip", "own"), [(True, True), (True, False), (False, False)])
def test_images_hold_every_version_and_little_more(clip: bool, own: bool) -> None:
    found = some_versions(clip, own)
    box: Box = tuple(ends[:] for ends in found.whole)  # type: ignore[assignment]
    piece = OneImage(found, box)
    for k, entry in enumerate(found.entries):
        least, most = exact_extremes(entry, box, found)
        low, high = Fraction(piece.image[0][k]), Fraction(piece.image[1][k])
        assert low <= least
        assert most <= high
        room = Fraction(1, 10**9)
        assert least - low <= room
        assert high - most <= room
    assert piece.inputs is piece.image
    assert not piece.rises.any()
    assert piece.directions.shape == (4, 0 if own else 2)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize(
    "box", [((-0.5,), (0.75,)), ((-0.25,), (0.125,)), ((0.5,), (0.75,)), ((0.25,), (0.25,))]
)
@pytest.mark.parametrize(("start", "slope"), [(0.5, 1.0), (0.5, -2.0), (-0.5, 2.0), (1.0, 0.5)])
def test_one_parameter_and_a_clip(clip: bool, box: Box, start: float, slope: float) -> None:
    """Around the chord between the ends: every version lies in the box, at its own parameter."""
    room = Fraction(1, 1000)
    entry = Entry(Fraction(start), {0: Fraction(slope)}, room)
    found = AtImage(DOMAIN, [entry] * 4, ((-0.5,), (0.75,)), clip)
    piece = OneImage(found, box)
    low, high = Fraction(box[0][0]), Fraction(box[1][0])
    centre, half = Fraction(piece.centre[0]), Fraction(piece.directions[0, 0])
    worst = Fraction(0)
    for k in range(65):
        share = Fraction(k, 32) - 1
        value = entry.start + entry.slopes[0] * ((low + high) / 2 + share * (high - low) / 2)
        line = centre + share * half
        for version in (found.clipped(value - room), found.clipped(value + room)):
            worst = max(worst, abs(version - line))
    assert worst <= Fraction(piece.room[0])
    begin, end = (entry.start + entry.slopes[0] * side for side in (low, high))
    bends = any(min(begin, end) < limit < max(begin, end) for limit in DOMAIN.ends)
    if not (clip and bends):
        assert Fraction(piece.room[0]) == pytest.approx(room)
        assert centre == (found.clipped(begin) + found.clipped(end)) / 2
    assert piece.room[0] <= 0.5


def test_rounded_centres_and_directions_are_paid_for() -> None:
    third = Fraction(1, 3)
    found = AtImage(DOMAIN, [Entry(third, {0: third / 5})] * 4, ((0.0,), (1.0,)), clip=False)
    piece = OneImage(found, ((0.0,), (1.0,)))
    middle, half = third + third / 10, third / 10
    wrong = abs(middle - Fraction(float(middle))) + abs(half - Fraction(float(half)))
    assert wrong > 0
    assert Fraction(piece.room[0]) >= wrong
    assert Fraction(piece.room[0]) <= wrong * 2


def test_supports_are_those_of_one_version() -> None:
    """Both copies see the same version: coefficients add up, parameters are shared."""
    piece = OneImage(some_versions(False), ((-0.5, -0.5), (0.75, 0.75)))
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 5, 4))
    both = a + b
    expected = both @ piece.centre + abs(both @ piece.directions).sum(axis=1)
    expected += abs(both) @ piece.room
    np.testing.assert_allclose(piece.largest(a, b), expected, rtol=1e-13)
    support = piece.support(a, b)
    assert (support >= expected).all()
    np.testing.assert_allclose(support, expected, rtol=1e-9)
    np.testing.assert_allclose(piece.largest(a, -a), 0.0, atol=1e-15)


def test_rounding_grows_with_all_that_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    piece = OneImage(some_versions(False), ((-0.5, -0.5), (0.75, 0.75)))
    reach = abs(piece.directions).sum(axis=1) + piece.room
    size = (abs(piece.centre) + reach) * (1 + 1e-9)
    np.testing.assert_allclose(piece._size, size, rtol=1e-12)
    low, high = piece.image
    np.testing.assert_allclose(low, piece.centre - reach, atol=1e-11)
    assert (low < piece.centre - reach).all()
    assert (high > piece.centre + reach).all()
    np.testing.assert_allclose(piece.centre + reach + 1e-12 * size, high, rtol=0, atol=1e-15)
    a, b = np.array([[1.0, -2.0, 0.0, 0.5]]), np.array([[0.0, 3.0, -1.0, 0.25]])
    terms = 2 * 4 + 2 + 64
    expected = 1.01 * gamma(terms) * (abs(a) + abs(b)) @ size
    np.testing.assert_allclose(piece.rounding(a, b), expected, rtol=1e-12)
    assert piece.rounding(0 * a, 0 * b).tolist() == [TINY]
    monkeypatch.setattr(module, "gamma", float)
    np.testing.assert_allclose(
        piece.rounding(a, b), 1.01 * terms * (abs(a) + abs(b)) @ size, rtol=1e-12
    )


def test_parts_of_the_parameters() -> None:
    piece = OneImage(some_versions(False), ((-0.5, -0.5), (0.75, 0.75)))
    for span in (
        ((-0.5, -0.5), (0.75, 0.75)),
        ((0.0, 0.25), (0.5, 0.25)),
        ((-0.5, 0.75), (-0.5, 0.75)),
    ):
        assert piece.with_span(span).span == span
    for span in (
        ((-0.6, 0.0), (0.5, 0.5)),
        ((0.0, -0.6), (0.5, 0.5)),
        ((0.0, 0.0), (0.5, 0.8)),
        ((0.0, 0.0), (0.8, 0.5)),
        ((0.5, 0.0), (0.25, 0.5)),
        ((0.0, 0.5), (0.5, 0.25)),
        ((0.0,), (0.5,)),
        ((0.0, 0.0, 0.0), (0.5, 0.5, 0.5)),
    ):
        with pytest.raises(Rejected, match="parameters that the piece does not have"):
            piece.with_span(span)
    with pytest.raises((Rejected, ValueError)):
        piece.with_span(((0.0, 0.0), (0.5,)))
    assert piece.read_span([[0, 1], [1, 2]]) == ((0.0, 1.0), (1.0, 2.0))


def test_balls_have_a_parameter_for_each_pixel() -> None:
    ball = made("linf(0.25)")
    assert slopes(ball) == [{k: 1.0} for k in range(4)]
    assert ball.whole == ((-0.25,) * 4, (0.25,) * 4)
    (piece,) = pieces("linf(0.25)", DOMAIN, True)
    versions = OneImage(at_image(piece, IMAGE, True), ball.whole)
    np.testing.assert_allclose(versions.image[0], [-0.5, -0.25, 0.5, 0.75], atol=1e-9)
    np.testing.assert_allclose(versions.image[1], [0.0, 0.25, 1.0, 1.0], atol=1e-9)
    assert versions.directions.shape == (4, 0)


@pytest.mark.parametrize(
    ("start", "least", "most", "moves"),
    [
        (0.25, 0.0, 0.5, True),
        (0.75, 0.5, 1.0, True),
        (-0.25, -0.5, 0.0, True),
        (0.875, 0.625, 1.0, False),
        (-0.375, -0.5, -0.125, False),
    ],
)
def test_a_clip_with_several_parameters(
    start: float, least: float, most: float, moves: bool
) -> None:
    """Where it cuts something off, only both ends are known; where it does not, the formula is."""
    entry = Entry(Fraction(start), {0: Fraction(1, 8), 1: Fraction(1, 8)})
    box: Box = ((-1.0, -1.0), (1.0, 1.0))
    piece = OneImage(AtImage(DOMAIN, [entry] * 4, box, clip=True), box)
    np.testing.assert_allclose(piece.image[0], [least] * 4, atol=1e-9)
    np.testing.assert_allclose(piece.image[1], [most] * 4, atol=1e-9)
    assert bool(piece.directions.any()) == moves
    still = OneImage(AtImage(DOMAIN, [Entry(Fraction(2), {})] * 4, ((), ()), True), ((), ()))
    np.testing.assert_allclose(still.image[0], [1.0] * 4, atol=1e-9)
    one = Entry(Fraction(2), {})
    single = OneImage(AtImage(DOMAIN, [one] * 4, ((0.0,), (1.0,)), True), ((0.0,), (1.0,)))
    np.testing.assert_allclose(single.image[1], [1.0] * 4, atol=1e-9)


def test_halves_of_a_box() -> None:
    box: Box = ((0.0, -1.0), (1.0, 1.0))
    assert split_box(box, 0, 0.25, upper=False) == ((0.0, -1.0), (0.25, 1.0))
    assert split_box(box, 0, 0.25, upper=True) == ((0.25, -1.0), (1.0, 1.0))
    assert split_box(box, 1, 0.25, upper=False) == ((0.0, -1.0), (1.0, 0.25))
    assert split_box(box, 1, 0.25, upper=True) == ((0.0, 0.25), (1.0, 1.0))
    for parameter, at in ((0, 0.0), (0, 1.0), (0, -0.5), (1, 1.0), (1, -1.0), (2, 0.5), (-1, 0.5)):
        for upper in (False, True):
            with pytest.raises(Rejected, match="none or outside"):
                split_box(box, parameter, at, upper)
    with pytest.raises(Rejected):
        split_box(box, 0, float("nan"), upper=True)
