"""Ranges of angles: every bound is compared with the exact weights at many angles, in fractions."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from vhagar.perturbation import Domain, Rotation
from vhagar.perturbation.interpolation import GRID_SNAP, offsets, rotation_matrix
from vhagar.perturbation.nearest import nearest_parameters
from vhagar.perturbation.rotation_range import RotationPiece, turn_by
from vhagar.perturbation.rotation_weights import Arc, _extremes, arc_between
from vhagar.solver.linear_model import LinearModel

from ..marks import mostly_slow

PLANES = [(4, 4), (5, 5), (3, 6), (5, 2), (1, 4), (1, 1), (7, 8)]
SPANS = [
    (5.0, 10.0),
    (-3.0, 2.0),
    (88.0, 91.5),
    (33.0, 33.0 + 1e-6),
    (0.0, 1e-7),
    (-1e-9, 1e-9),
    (179.5, 180.0),
    (44.9, 45.1),
    (-360.0, -359.0),
    (12.0, np.nextafter(12.0, 13.0)),
    (-30.0, 30.0),
    (0.0, 360.0),
]


def fractions(values: np.ndarray) -> np.ndarray:
    flat = [Fraction(float(value)) for value in values.reshape(-1)]
    return np.array(flat, dtype=object).reshape(values.shape)


def angles_to_try(
    plane: tuple[int, int], span: tuple[float, float], rng: np.random.Generator, count: int
) -> list[float]:
    """The ends, quarter turns, random angles, and those that put a pixel's source on a grid line.

    Around the latter, what is a hair away: by an ulp, and just inside and outside of the snap.
    """
    i, j = offsets(*plane)
    found = [*span, *rng.uniform(*span, count), *(90.0 * np.arange(-4, 5))]
    for pixel in rng.integers(len(i), size=count):
        radius, phase = math.hypot(i[pixel], j[pixel]), math.atan2(j[pixel], i[pixel])
        axis = int(rng.integers(2))
        line = rng.integers(plane[axis]) - (plane[axis] - 1) / 2
        if radius == 0 or abs(line) > radius:
            continue
        # row = radius cos(angle + phase), column = radius sin(angle + phase)
        turn = math.acos(line / radius) * rng.choice([-1, 1]) - phase + axis * math.pi / 2
        hair = math.degrees(GRID_SNAP / radius)
        for full in (-360, 0, 360):
            angle = math.degrees(turn) + full
            found += [angle + k * hair for k in (-2, -1.000001, -0.999999, 0, 0.999999, 1.000001)]
            found += [np.nextafter(angle, angle - 1), np.nextafter(angle, angle + 1)]
    return [float(angle) for angle in found if span[0] <= angle <= span[1]]


def require_between(arc: Arc, weights: np.ndarray, s: Fraction, rows: slice = slice(None)) -> None:
    """No tolerance: `s` of the way, the weights lie between the arc's bounds."""
    first, last, low, high = (
        fractions(part.toarray()[rows]) for part in (arc.first, arc.last, arc.low, arc.high)
    )
    mixture, exact = (1 - s) * first + s * last, fractions(weights[rows])
    assert (mixture + low <= exact).all()
    assert ((exact <= mixture + high) | arc.capped[rows, None]).all()
    assert not weights[arc.black].any()


@pytest.mark.parametrize("plane", PLANES, ids=str)
@pytest.mark.parametrize("span", mostly_slow([(span,) for span in SPANS], 3), ids=str)
def test_an_arc_holds_the_weights_of_every_angle(
    plane: tuple[int, int], span: tuple[float, float]
) -> None:
    rng = np.random.default_rng(11)
    arc = arc_between(plane, *span)
    for angle in angles_to_try(plane, span, rng, 5):
        weights = rotation_matrix((1, *plane), angle).toarray()
        s = (Fraction(angle) - Fraction(span[0])) / (Fraction(span[1]) - Fraction(span[0]))
        require_between(arc, weights, s)


def test_the_tightest_bounds_are_rounded_outward_too() -> None:
    # A weight of exactly 1, in a bound that is the difference of two others.
    span, angle = (-5.049742321865436, 5.049742321865436), -1.2722218725854067e-14
    weights = rotation_matrix((1, 32, 11), angle).toarray()
    s = (Fraction(angle) - Fraction(span[0])) / (Fraction(span[1]) - Fraction(span[0]))
    require_between(arc_between((32, 11), *span), weights, s, rows=slice(70, 73))


def exact_support(domain: Domain, angle: float, a: np.ndarray, b: np.ndarray) -> Fraction:
    """The maximum over all inputs at one angle, without rounding."""
    weights = rotation_matrix(domain.image, angle).toarray()
    black, white = Fraction(domain.lower), Fraction(domain.upper)
    joint = fractions(a) + fractions(b) @ fractions(weights)
    dark = black * sum(fractions(b)[~weights.any(axis=1)], Fraction(0))
    return dark + sum((max(c * black, c * white) for c in joint), Fraction(0))


@pytest.mark.parametrize("span", SPANS, ids=str)
@pytest.mark.parametrize(
    "domain", [Domain((1, 4, 4)), Domain((2, 3, 5), -0.7, 0.4), Domain((3, 3), 0, 255)]
)
def test_support_is_never_below_any_angle(domain: Domain, span: tuple[float, float]) -> None:
    rng = np.random.default_rng(12)
    pieces = (RotationPiece(domain, "rotation", span), *Rotation(span).pieces(domain)[:2])
    for piece in pieces:
        a, b = rng.normal(size=(2, 3, domain.size))
        a[1], b[2] = -b[1], abs(b[2])
        found = piece.support(a, b)
        for angle in angles_to_try(domain.image[1:], piece.span, rng, 2):
            for k in range(len(a)):
                assert Fraction(found.value[k]) >= exact_support(domain, angle, a[k], b[k])


@pytest.mark.parametrize("span", [span for span in SPANS if span[1] - span[0] < 6], ids=str)
@pytest.mark.parametrize(
    "domain", [Domain((1, 4, 4)), Domain((2, 3, 5), -0.7, 0.4), Domain((3, 3), 0, 255)]
)
def test_rows_hold_at_every_angle(domain: Domain, span: tuple[float, float]) -> None:
    """With s, how far the angle is along the span, and s u in their columns: no tolerance."""
    rng = np.random.default_rng(13)
    piece = RotationPiece(domain, "rotation", span)
    model = LinearModel()
    piece.add_rows(model, model.add_columns(np.full(domain.size, domain.lower), domain.upper))
    arrays = model.arrays()
    rows, black = fractions(arrays.matrix.toarray()), Fraction(domain.lower)
    for angle in angles_to_try(domain.image[1:], span, rng, 2):
        x = rng.choice([domain.lower, rng.uniform(domain.lower, domain.upper), domain.upper], 30)
        exact = fractions(x[: domain.size])
        weights = rotation_matrix(domain.image, angle).toarray()
        image = np.where(weights.any(axis=1), fractions(weights) @ exact, black)
        s = (Fraction(angle) - Fraction(span[0])) / (Fraction(span[1]) - Fraction(span[0]))
        values = np.array([*exact, *image, s, *(s * (exact - black))], dtype=object)
        values = values[: model.column_count]  # tiny ranges do without s
        for low, value, high in (
            (arrays.row_lower, rows @ values, arrays.row_upper),
            (arrays.column_lower, values, arrays.column_upper),
        ):
            assert (low <= value).all()  # a fraction compares exactly with a float
            assert (value <= high).all()


def test_support_converges_as_the_range_shrinks() -> None:
    domain = Domain((1, 6, 6))
    rng = np.random.default_rng(14)
    a, b = rng.normal(size=(2, 20, domain.size))
    alone = turn_by(domain, "rotation", 17.0).support(a, b).value
    losses = []
    for width in (4.0, 1.0, 0.25, 0.0625):
        piece = RotationPiece(domain, "rotation", (17 - width / 2, 17 + width / 2))
        angles = np.linspace(*piece.span, 101)
        best = np.max([turn_by(domain, "", angle).support(a, b).value for angle in angles], axis=0)
        found = piece.support(a, b).value
        assert (found >= best - 1e-12).all()
        losses.append(float((found - best).mean()))
    assert losses[0] < 0.1 * float(abs(alone).mean())
    assert all(after < before / 4 for before, after in itertools.pairwise(losses))
    tiny = RotationPiece(domain, "rotation", (17.0, np.nextafter(17.0, 18.0)))
    assert tiny.support(a, b).value == pytest.approx(alone, abs=1e-9)


def test_splits_end_in_single_angles() -> None:
    domain = Domain((1, 4, 4))
    piece = RotationPiece(domain, "rotation", (5.0, 10.0))
    assert [part.span for part in piece.split()] == [(5.0, 7.5), (7.5, 10.0)]
    neighbours = replace(piece, span=(5.0, np.nextafter(5.0, 6.0)))
    assert [part.span for part in neighbours.split()] == [(end, end) for end in neighbours.span]
    assert piece.fixed_at(5.0).split() == ()


@pytest.mark.parametrize("angle", [-17.0, 0.0, 33.3, 90.0])
def test_at_one_angle_everything_is_exact(angle: float) -> None:
    domain = Domain((2, 3, 4), -1.0, 1.0)
    rng = np.random.default_rng(15)
    fixed = RotationPiece(domain, "rotation", (angle - 1, angle)).fixed_at(angle)
    alone = turn_by(domain, "rotation", angle)
    a, b = rng.normal(size=(2, 5, domain.size))
    assert fixed.support(a, b).value == pytest.approx(alone.support(a, b).value, rel=1e-12)
    x = rng.uniform(-1, 1, (3, domain.size))
    turned = fixed.apply(x, np.full((3, 1), angle))
    assert (turned == alone.apply(x, np.zeros((3, 0)))).all()
    assert fixed.contains(x, turned, np.full((3, 1), angle)).all()
    assert fixed.parameter_bounds == ([angle], [angle])
    assert fixed.span == (angle, angle)
    assert fixed.describe(np.array([angle])) == {"angle": angle}
    assert fixed.exact_support
    assert fixed.exact_rows
    assert fixed.convex
    assert fixed.exact_apply == alone.exact_apply


@pytest.mark.parametrize(
    ("span", "count"), [((5, 10), 1), ((-30, 30), 12), ((0, 360), 64), ((-360, 360), 128)]
)
def test_pieces_cover_the_range(span: tuple[float, float], count: int) -> None:
    pieces = Rotation(span).pieces(Domain((1, 4, 4)))
    assert len(pieces) == count
    ends = [piece.span for piece in pieces]
    assert (ends[0][0], ends[-1][1]) == span
    assert all(left[1] == right[0] for left, right in itertools.pairwise(ends))
    # At a quarter turn the border's pixels turn black to either side.
    assert not any(low < 90 * k < high for low, high in ends for k in range(-4, 5))


def test_the_number_of_pieces_is_limited() -> None:
    photo = Domain((3, 224, 224))
    assert len(Rotation((5, 10)).pieces(photo)) == 14
    assert len(Rotation((-360, 360)).pieces(photo)) < 200


FLAT = np.full((1, 9 * 9), 0.5)
DOT = np.eye(1, 9 * 9, 12)
NOISE = np.random.default_rng(16).random((1, 9 * 9))


@pytest.mark.parametrize("x", [FLAT, DOT, NOISE, np.round(NOISE)], ids=["flat", "dot", "", "0/1"])
def test_membership_is_by_the_angle(x: np.ndarray) -> None:
    domain = Domain((1, 9, 9))
    rng = np.random.default_rng(17)
    for piece in Rotation((-40, 50)).pieces(domain)[::4]:
        for angle in (*piece.span, *rng.uniform(*piece.span, 4)):
            parameters = np.array([[angle]])
            turned = piece.apply(x, parameters)
            assert piece.contains(x, turned, parameters).all()
            brighter = turned + 1e-9 * (np.arange(81) == 40)
            assert not piece.contains(x, brighter, parameters).any()
            near = nearest_parameters(piece, x[0], turned[0])
            assert piece.project(near) == near


def test_membership_asks_for_the_range() -> None:
    domain = Domain((1, 9, 9))
    (piece,) = Rotation((5, 8)).pieces(domain)
    for angle in (4.99, 8.001, -6.0, 95.0):
        turned = turn_by(domain, "", angle).apply(NOISE, np.zeros((1, 0)))
        assert not piece.contains(NOISE, turned, np.array([[angle]])).any()
        assert not piece.contains(NOISE, turned, piece.project(np.array([[angle]]))).any()


def test_no_number_is_no_bound() -> None:
    domain = Domain((1, 4, 4))
    (piece,) = Rotation((5, 8)).pieces(domain)
    a, b = np.zeros((2, 1, 16))
    b[0, 5] = np.nan
    assert not piece.support(a, b).value[0] < np.inf
    b[0, 5] = np.inf
    with np.errstate(invalid="ignore"):
        assert not piece.support(a, b).value[0] < np.inf


def test_channels_are_turned_alike() -> None:
    rng = np.random.default_rng(18)
    grey, colour = Domain((1, 5, 5)), Domain((3, 5, 5))
    one, three = (Rotation((20, 24)).pieces(domain)[0] for domain in (grey, colour))
    a, b = rng.normal(size=(2, 4, 25))
    for channel in range(3):
        wide = np.zeros((2, 4, 3, 25))
        wide[:, :, channel] = a, b
        found = three.support(*wide.reshape(2, 4, 75)).value
        assert found == pytest.approx(one.support(a, b).value)


def test_the_vertex_of_a_parabola_counts() -> None:
    """Between two knots a weight is quadratic, and its extremum may be far from both."""
    rng = np.random.default_rng(19)
    square, slope, constant = rng.normal(size=(3, 400, 1))
    knots = np.sort(np.concatenate([np.tile([0.0, 1.0], (400, 1)), rng.random((400, 1))], 1), 1)

    def values(s: np.ndarray) -> np.ndarray:
        return np.asarray(square * s**2 + slope * s + constant)

    low, high = _extremes(values(knots), values((knots[:, 1:] + knots[:, :-1]) / 2))
    dense = values(np.linspace(0.0, 1.0, 1001)[None])
    assert (low <= dense.min(axis=1) + 1e-12).all()
    assert (dense.max(axis=1) - 1e-12 <= high).all()
    assert low == pytest.approx(dense.min(axis=1), abs=1e-5)
    assert high == pytest.approx(dense.max(axis=1), abs=1e-5)


@pytest.mark.parametrize("plane", [(20, 20), (17, 24), (28, 28)], ids=str)
@pytest.mark.parametrize("span", [(10.0, 14.0), (40.0, 43.0)], ids=str)
def test_an_arc_of_a_large_image_holds_the_weights(
    plane: tuple[int, int], span: tuple[float, float]
) -> None:
    """The sources of outer pixels pass whole pixels on their way: weights rise and fall again."""
    arc = arc_between(plane, *span)
    first, last, low, high = (part.toarray() for part in (arc.first, arc.last, arc.low, arc.high))
    for s in np.linspace(0.0, 1.0, 25):
        weights = rotation_matrix((1, *plane), span[0] + s * (span[1] - span[0])).toarray()
        mixture = (1 - s) * first + s * last
        # The arc itself is rounded outward; the angle, and the mixture here, are not.
        assert (mixture + low <= weights + 1e-12).all()
        assert ((weights <= mixture + high + 1e-12) | arc.capped[:, None]).all()
