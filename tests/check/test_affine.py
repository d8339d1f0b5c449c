"""Affine maps of pixels and parameters, entry by entry in fractions."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from vhagar_check import affine as module
from vhagar_check.affine import BoxAffine
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.layers import HALF_ULP, TINY, UNDERFLOW, gamma
from vhagar_check.pieces import Domain
from vhagar_check.sparse import Sparse

MATRIX = np.array([[0.5, 0.25, 0.0], [0.0, 1.0, 0.0], [-2.0, 0.0, 0.5]])
DIRECTIONS = np.array([[1.0, 0.0], [0.0, 0.0], [0.5, -1.0]])
OFFSET = np.array([0.125, 0.0, -1.0])
LOWER, UPPER = np.array([-0.5, 0.0]), np.array([1.0, 2.0])
ENDS = [(0.0, 1.0), (-3.0, 2.0), (1.0, 4.0)]


def affine(ends: tuple[float, float], box: bool = False, **given) -> BoxAffine:
    size = len(given.get("offset", OFFSET))
    narrow = np.full(size, ends[0] + 0.25), np.full(size, ends[1] - 0.25)
    domain = Domain((size,), *ends, narrow if box else None)
    parts = {
        "matrix": MATRIX,
        "directions": DIRECTIONS,
        "offset": OFFSET,
        "lower": LOWER,
        "upper": UPPER,
        "error": 0.0,
        **given,
    }
    return BoxAffine(
        domain,
        Sparse.of(parts["matrix"]),
        Sparse.of(parts["directions"]),
        parts["offset"],
        parts["lower"],
        parts["upper"],
        parts["error"],
    )


def still(matrix: np.ndarray, offset: np.ndarray, ends: tuple[float, float], error: float = 0.0):
    """A map without parameters."""
    none, nothing = np.zeros((len(matrix), 0)), np.zeros(0)
    given = {"matrix": matrix, "directions": none, "offset": offset}
    return affine(ends, **given, lower=nothing, upper=nothing, error=error)


@pytest.mark.parametrize("error", [0.0, 2.0**-30])
@pytest.mark.parametrize("box", [False, True])
@pytest.mark.parametrize("ends", ENDS)
def test_the_range_of_the_image(ends: tuple[float, float], box: bool, error: float) -> None:
    """Over the inputs that count, with the rounding of every row; a copied pixel has none."""
    piece = affine(ends, box, error=error)
    low, high = (side.tolist() for side in piece.domain.inputs)
    size = max(map(abs, ends))
    counts, both = np.array([2, 1, 2]), np.array([3, 1, 4])
    moved = abs(DIRECTIONS) @ np.maximum(abs(LOWER), abs(UPPER))
    reach = (abs(MATRIX).sum(axis=1) * size + moved + abs(OFFSET)) * (1 + 1e-9)
    room = 2 * gamma(1) * (both + 8) * reach + error * size * counts + TINY
    room[1] = 0.0
    np.testing.assert_allclose(piece._reach, reach, rtol=1e-14)
    np.testing.assert_allclose(piece._room, room, rtol=1e-14)
    for row in range(3):
        terms = [(MATRIX[row, k] * low[k], MATRIX[row, k] * high[k]) for k in range(3)]
        terms += [(DIRECTIONS[row, k] * LOWER[k], DIRECTIONS[row, k] * UPPER[k]) for k in range(2)]
        least = sum(map(min, terms)) + OFFSET[row]
        most = sum(map(max, terms)) + OFFSET[row]
        assert piece.image[0][row] == pytest.approx(least - room[row], rel=1e-14)
        assert piece.image[1][row] == pytest.approx(most + room[row], rel=1e-14)
    assert piece.image[0][1] == low[1]
    assert not piece.stays


def test_a_range_of_nothing_has_room() -> None:
    piece = still(np.array([[0.5]]), np.zeros(1), (0.0, 0.0))
    assert piece._room.tolist() == [TINY]
    assert (piece.image[0][0], piece.image[1][0]) == (-TINY, TINY)


def test_entries_that_need_no_arithmetic() -> None:
    """A copied pixel, a constant; not a sum, a multiple, a shift or a parameter."""
    matrix = np.array(
        [[0, 1.0, 0, 0], [0] * 4, [1.0, 1.0, 0, 0], [0, 0, 0.5, 0], [0, 0, 1.0, 0], [0, 0, 0, 1.0]]
    )
    square = np.zeros((6, 6))
    square[:, :4] = matrix
    directions = np.zeros((6, 1))
    directions[5, 0] = 1.0
    offset = np.array([0.0, 0.5, 0.0, 0.0, 0.25, 0.0])
    domain = Domain((6,), 0.0, 1.0)
    piece = BoxAffine(
        domain, Sparse.of(square), Sparse.of(directions), offset, np.zeros(1), np.ones(1)
    )
    assert piece._copied().tolist() == [True, True, False, False, False, False]
    assert piece._rational().tolist() == [True, True, True, False, True, True]
    assert (piece._room == 0).tolist() == [True, True, False, False, False, False]


@pytest.mark.parametrize("ends", ENDS)
def test_supports_and_shares(ends: tuple[float, float]) -> None:
    piece = affine(ends)
    a, b = np.random.default_rng(1).normal(size=(2, 4, 3))
    low, high = (Fraction(end) for end in ends)
    joint = a + b @ MATRIX
    np.testing.assert_allclose(piece.share(a, b), joint)
    for row in range(4):
        u, v = ([Fraction(x) for x in part[row].tolist()] for part in (a, b))
        own = [u[k] + sum(v[i] * Fraction(MATRIX[i, k]) for i in range(3)) for k in range(3)]
        pull = [sum(v[i] * Fraction(DIRECTIONS[i, k]) for i in range(3)) for k in range(2)]
        best = sum(max(w * low, w * high) for w in own)
        best += sum(
            max(w * Fraction(x), w * Fraction(y))
            for w, x, y in zip(pull, LOWER.tolist(), UPPER.tolist(), strict=True)
        )
        best += sum(w * Fraction(c) for w, c in zip(v, OFFSET.tolist(), strict=True))
        assert piece.exact_support(Exact.of(a[row]), Exact.of(b[row])) == best
        assert piece.largest(a, b)[row] == pytest.approx(float(best))
    inexact = affine(ends, error=2.0**-50)
    assert inexact.exact_support(Exact.of(a[0]), Exact.of(b[0])) is None


@pytest.mark.parametrize("error", [0.0, 2.0**-30])
@pytest.mark.parametrize("ends", ENDS)
def test_the_rounding_of_a_support(ends: tuple[float, float], error: float) -> None:
    piece = affine(ends, error=error)
    a, b = np.random.default_rng(2).normal(size=(2, 4, 3))
    size = max(map(abs, ends))
    reach = abs(a).sum(axis=1) * size + abs(b) @ piece._reach
    wrong = abs(b) @ (error * size * np.array([2, 1, 2]))
    stated = 1.01 * (gamma(2 * 3 + 2 + 64) * reach + wrong)
    np.testing.assert_allclose(piece.rounding(a, b), stated, rtol=1e-12)


def test_what_underflows_is_paid_for() -> None:
    large = 2.0**122  # as large as makes what is lost comparable with `TINY`
    piece = affine((0.0, large), lower=-large * np.ones(2), upper=3 * large * np.ones(2))
    zero = np.zeros((1, 3))
    lost = UNDERFLOW * (2 * 3 + 2 + 64) * (3 * large + 2 * 3 * large)
    np.testing.assert_allclose(piece.rounding(zero, zero), [lost + TINY], rtol=1e-12)


@pytest.mark.parametrize("ends", ENDS)
def test_which_pixels_rise_and_fall(ends: tuple[float, float]) -> None:
    """By the extremes of `x_p - x`, exactly."""
    piece = affine(ends)
    low, high = (Fraction(end) for end in ends)
    for row in range(3):
        weights = [Fraction(MATRIX[row, k]) - (k == row) for k in range(3)]
        terms = [(w * low, w * high) for w in weights]
        terms += [
            (
                Fraction(DIRECTIONS[row, k]) * Fraction(LOWER[k]),
                Fraction(DIRECTIONS[row, k]) * Fraction(UPPER[k]),
            )
            for k in range(2)
        ]
        shift = Fraction(OFFSET[row])
        least, most = (sum(map(pick, terms), shift) for pick in (min, max))
        assert piece._exact_change(row) == (least, most)
        assert (bool(piece.falls[row]), bool(piece.rises[row])) == (least < 0, most > 0)
    assert not piece.rises[1]
    assert not piece.falls[1]


@pytest.mark.parametrize("exactly", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_changes_of_random_maps(seed: int, exactly: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without exact decisions, a pixel that only touches its value may rise and fall."""
    if not exactly:
        monkeypatch.setattr(module, "_MOST_EXACT", -1)
    rng = np.random.default_rng(seed)
    ends = ENDS[seed % 3]
    matrix = rng.integers(-8, 9, (3, 3)) * (rng.random((3, 3)) < 0.6) / 8
    matrix += np.diag(rng.choice([0.0, 1.0], 3))
    directions = rng.integers(-4, 5, (3, 2)) * (rng.random((3, 2)) < 0.4) / 4
    lower = rng.integers(-4, 2, 2) / 4
    piece = affine(
        ends,
        matrix=matrix,
        directions=directions,
        offset=rng.integers(-8, 9, 3) * (rng.random(3) < 0.5) / 4,
        lower=lower,
        upper=lower + rng.integers(0, 4, 2) / 4,
    )
    for row in range(3):
        terms = [((matrix[row, k] - (k == row)) * np.array(ends)) for k in range(3)]
        terms += [directions[row, k] * np.array([piece.lower[k], piece.upper[k]]) for k in range(2)]
        least, most = (sum(map(pick, terms), piece.offset[row]) for pick in (min, max))
        assert piece._exact_change(row) == (least, most)
        copied = least == most == 0 and not directions[row].any() and not piece.offset[row]
        touches = not exactly and not (copied and (matrix[row] == np.eye(3)[row]).all())
        assert bool(piece.falls[row]) == (least < 0 or (touches and least == 0))
        assert bool(piece.rises[row]) == (most > 0 or (touches and most == 0))


@pytest.mark.parametrize("share", [0.97, 1.03])
@pytest.mark.parametrize("error", [2.0**-30, 2.0**-1000])
@pytest.mark.parametrize("width", [1.0, 64.0])
def test_changes_are_certain_beyond_rounding(share: float, error: float, width: float) -> None:
    """`x / 2 + c` of weights that may be wrong: it rises by at most `c`, and falls by at most
    `width / 2 - c`."""
    for rising in (True, False):
        reach = width / 2 if rising else width
        size = reach + width
        room = 4 * 2 * gamma(1) * (1 + 8) * size + error * size * 2
        shift = -share * room if rising else width / 2 + share * room
        piece = still(np.array([[0.5]]), np.array([shift]), (0.0, width), error)
        assert bool(piece.rises[0] if rising else piece.falls[0]) == (share < 1)
        assert bool(piece.falls[0] if rising else piece.rises[0])


def test_nothing_changes_by_less_than_any_number() -> None:
    for sign in (1.0, -1.0):
        piece = still(np.array([[0.5]]), np.array([sign * 2.0**-902]), (0.0, 0.0), 2.0**-50)
        assert (bool(piece.rises[0]), bool(piece.falls[0])) == (True, True)


def test_parameters_count_among_exact_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"matrix": np.eye(1), "directions": np.ones((1, 2)), "offset": np.zeros(1)}
    for limit, exact in ((3, True), (2, False)):
        monkeypatch.setattr(module, "_MOST_EXACT", limit)
        piece = affine((0.0, 1.0), **given, lower=np.zeros(2), upper=np.ones(2))
        assert piece.rises.tolist() == [True]
        assert piece.falls.tolist() == [not exact]


@pytest.mark.parametrize("limit", [10**6, 0])
def test_changes_within_rounding_are_decided_exactly(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`0.1 x_0 + 0.9 x_1` of a pixel that is never larger; if too many, both may be."""
    monkeypatch.setattr(module, "_MOST_EXACT", limit)
    tiny = 2.0**-60
    matrix = np.array([[1.0 - 2.0**-53, 0.0], [0.0, 1.0]])
    for shift, rises, falls in ((0.0, False, True), (tiny, True, True)):
        piece = still(matrix, np.array([shift, 0.0]), (0.0, 1.0))
        if limit:
            assert (bool(piece.rises[0]), bool(piece.falls[0])) == (rises, falls)
        else:
            assert (bool(piece.rises[0]), bool(piece.falls[0])) == (True, True)
        assert not piece.rises[1]
        assert not piece.falls[1]


def test_weights_that_may_be_wrong_are_not_decided_exactly() -> None:
    matrix = np.array([[1.0 - 2.0**-53, 0.0], [1.0, 0.0]])
    piece = still(matrix, np.zeros(2), (0.0, 1.0), error=2.0**-50)
    assert piece.rises.tolist() == [True, True]
    assert piece.falls.tolist() == [True, True]


def test_the_number_of_exact_decisions_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module._MOST_EXACT == 2**20
    matrix = (1.0 - 2.0**-53) * np.eye(3)
    for limit, exact in ((3, True), (2, False)):
        monkeypatch.setattr(module, "_MOST_EXACT", limit)
        piece = still(matrix, np.zeros(3), (0.0, 1.0))
        assert piece.rises.tolist() == [not exact] * 3


@pytest.mark.parametrize(
    ("matrix", "offset", "ends", "expected"),
    [
        ([[1.0]], 0.0, (0.0, 1.0), (False, False)),
        ([[1.0]], 2.0**-80, (0.0, 1.0), (False, True)),
        ([[1.0]], -(2.0**-80), (0.0, 1.0), (True, False)),
        ([[-1.0]], 0.0, (-1.0, 1.0), (False, False)),
        ([[2.0]], 0.0, (-1.0, 1.0), (True, True)),
        ([[0.5]], 0.5, (0.0, 1.0), (False, False)),
    ],
)
def test_which_images_leave_the_range(
    matrix: list[list[float]],
    offset: float,
    ends: tuple[float, float],
    expected: tuple[bool, bool],
) -> None:
    narrow = Domain((1,), *ends)
    none, nothing = Sparse.of(np.zeros((1, 0))), np.zeros(0)
    given = Sparse.of(np.array(matrix)), none, np.array([offset]), nothing, nothing
    assert BoxAffine(narrow, *given).leaves(0) == expected
    wrong = BoxAffine(narrow, *given, 2.0**-50).leaves(0)
    assert wrong == (expected if matrix == [[1.0]] else (True, True))
    middle = Domain((1,), *ends, (np.array([0.25]), np.array([0.5])))
    if matrix != [[2.0]]:
        assert BoxAffine(middle, *given).leaves(0) == (False, False)


def test_parameters_may_lead_out_of_the_range() -> None:
    domain = Domain((1,), 0.0, 1.0, (np.array([0.25]), np.array([0.5])))
    one = Sparse.of(np.eye(1))
    for lower, upper, expected in (
        (-0.25, 0.5, (False, False)),
        (-0.5, 0.0, (True, False)),
        (0.0, 0.75, (False, True)),
    ):
        piece = BoxAffine(domain, one, one, np.zeros(1), np.array([lower]), np.array([upper]))
        assert piece.leaves(0) == expected
        minus = Sparse.of(-2 * np.eye(1))
        ends = np.array([-upper / 2]), np.array([-lower / 2])
        assert BoxAffine(domain, one, minus, np.zeros(1), *ends).leaves(0) == expected


def test_linear_changes() -> None:
    assert affine((0.0, 1.0)).linear_change() is None
    assert affine((0.0, 1.0), offset=np.zeros(3)).linear_change() is None
    assert still(MATRIX, OFFSET, (0.0, 1.0)).linear_change() is None
    for error in (0.0, 2.0**-50):
        found = still(MATRIX, np.zeros(3), (0.0, 1.0), error).linear_change()
        assert found is not None
        assert found[0].tolist() == (np.eye(3) - MATRIX).tolist()
        slips = error + HALF_ULP * abs(np.eye(3) - MATRIX)
        whole = (MATRIX == 0.0) | (MATRIX == 1.0)
        assert found[1].tolist() == np.where(whole, 0.0, slips).tolist()


def test_images_of_witnesses() -> None:
    piece = affine((0.0, 1.0))
    x = [Fraction(1, 3), Fraction(1, 7), Fraction(1)]
    for parameters in ([-0.5, 2.0], [1.0, 0.0], [0.25, 0.5]):
        expected = [
            sum(Fraction(MATRIX[row, k]) * x[k] for k in range(3))
            + sum(Fraction(DIRECTIONS[row, k]) * Fraction(parameters[k]) for k in range(2))
            + Fraction(OFFSET[row])
            for row in range(3)
        ]
        assert piece.exact_image(x, parameters) == expected
        floats = np.array([float(value) for value in x])
        least, most = piece.image_interval(floats, parameters)
        image = MATRIX @ floats + DIRECTIONS @ parameters + OFFSET
        np.testing.assert_allclose(least, image - piece._room, rtol=1e-15)
        np.testing.assert_allclose(most, image + piece._room, rtol=1e-15)
        assert affine((0.0, 1.0), error=2.0**-50).exact_image(x, parameters) is None
    for wrong in ([0.0], [0.0, 0.0, 0.0], [-0.6, 0.0], [0.0, 2.5], [np.nan, 0.0], []):
        for asked in (piece.exact_image, affine((0.0, 1.0), error=2.0**-50).exact_image):
            with pytest.raises(Rejected, match="parameter outside its range"):
                asked(x, wrong)
        with pytest.raises(Rejected, match="parameter outside its range"):
            piece.image_interval(np.zeros(3), wrong)
        with pytest.raises(Rejected, match="parameter outside its range"):
            piece.near_image(x, wrong)
    with pytest.raises(Rejected, match="known exactly"):
        piece.near_image(x, [0.0, 0.0])


def test_images_on_top_of_what_is_known_nearly() -> None:
    first = SimpleNamespace(near_image=lambda x, _: ([2 * v for v in x], Fraction(1, 99)))
    piece = replace(affine((0.0, 1.0), error=2.0**-50), first=first)
    x, parameters = [Fraction(1, 3), Fraction(1, 7), Fraction(1)], [0.25, 1.5]
    image, error = piece.near_image(x, parameters)
    assert error == Fraction(1, 99)
    assert image == [
        2 * x[row] + sum(Fraction(DIRECTIONS[row, k]) * Fraction(parameters[k]) for k in range(2))
        for row in range(3)
    ]
    with pytest.raises(Rejected, match="parameter outside its range"):
        piece.near_image(x, [0.0, 2.5])


@pytest.mark.parametrize("seed", range(3))
def test_no_pair_exceeds_the_support(seed: int) -> None:
    piece = affine((-3.0, 2.0))
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 5, 3))
    support = piece.support(a, b)
    best = np.full(5, -np.inf)
    for corner in itertools.product((-3.0, 2.0), repeat=3):
        for parameters in itertools.product(*zip(LOWER, UPPER, strict=True)):
            image = MATRIX @ corner + DIRECTIONS @ parameters + OFFSET
            best = np.maximum(best, a @ corner + b @ image)
    assert (support >= best).all()
    np.testing.assert_allclose(support, best, rtol=1e-10)
