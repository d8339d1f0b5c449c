"""What enters a quadratic proof: the box of the change, or the inputs that determine it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar_check import entering
from vhagar_check.affine import BoxAffine
from vhagar_check.entering import Entering
from vhagar_check.errors import Rejected
from vhagar_check.intervals import Box
from vhagar_check.layers import UNDERFLOW, Indices, gamma
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain, Piece
from vhagar_check.sparse import Sparse

IMAGE = Domain((1, 3, 3), 0.0, 1.0)


def test_free_changes_have_boxes_of_their_own() -> None:
    """Brightness by 0.25 to 0.5 without a clip, and a patch of one pixel."""
    (piece,) = pieces("brightness([0.25,0.5])", IMAGE, False)
    found = Entering.of(piece, tied=False)
    assert found.changed.tolist() == found.inputs.tolist() == list(range(9))
    assert (found.low <= -0.5).all()
    assert (found.high >= -0.25).all()
    np.testing.assert_allclose(found.low, -0.5)
    np.testing.assert_allclose(found.high, -0.25)
    (piece,) = pieces("patch([0,0.125],2,2,1)", IMAGE, True)
    found = Entering.of(piece, tied=False)
    assert found.inputs.tolist() == [4]
    np.testing.assert_allclose([*found.low, *found.high], [-0.125, 0.125])
    values = np.arange(9.0)[None]
    for part, same in zip(found.pulled(values, 2 * values, 3 * values), (1, 2, 3), strict=True):
        assert part.tolist() == [[4.0 * same]]


def test_tied_changes_are_those_of_the_inputs_they_come_from() -> None:
    """What is occluded falls to 0; a column that moves right takes the place of the next one."""
    (piece,) = pieces("occlusion(1,1,2)", IMAGE, True)
    found = Entering.of(piece, tied=True)
    assert found.changed.tolist() == found.inputs.tolist() == [0, 1, 3, 4]
    assert (found.low.tolist(), found.high.tolist()) == ([0.0] * 4, [1.0] * 4)
    assert found.matrix is not None
    assert found.matrix.tolist() == np.eye(4).tolist()
    (piece,) = pieces("translation(0,1)", IMAGE, True)
    found = Entering.of(piece, tied=True)
    assert found.matrix is not None
    x = np.random.default_rng(0).random(9)
    moved = np.concatenate([np.zeros((3, 1)), x.reshape(3, 3)[:, :-1]], axis=1).reshape(-1)
    np.testing.assert_array_equal(found.matrix @ x[found.inputs], (x - moved)[found.changed])


def test_weights_of_a_rotation_are_right_up_to_their_slips() -> None:
    (piece,) = pieces("rotation(30)", IMAGE, True)
    found = Entering.of(piece, tied=True)
    assert found.matrix is not None
    assert found.slips is not None
    assert found.slips.shape == found.matrix.shape
    whole = (found.matrix == 0.0) | (found.matrix == 1.0)
    assert (found.slips == np.where(whole, 0.0, 2.0**-49)).all()
    assert not whole.all()


def test_tied_inputs_range_over_all_of_the_input_range() -> None:
    """Also where the domain is smaller: that only adds inputs."""
    domain = Domain((1, 3, 3), 0.0, 2.0, (np.full(9, 0.5), np.full(9, 0.75)))
    (piece,) = pieces("occlusion(1,1,1)", domain, True)
    found = Entering.of(piece, tied=True)
    assert (found.low.tolist(), found.high.tolist()) == ([0.0], [2.0])


def test_where_all_pixels_change_alike_one_change_is_all_of_them() -> None:
    """Brightness without a clip."""
    for text in ("brightness([0.25,0.5])", "brightness([-0.5,-0.25])"):
        (piece,) = pieces(text, IMAGE, False)
        found = Entering.of(piece, tied=True)
        assert found.inputs.tolist() == [0]
        assert found.matrix is not None
        assert found.matrix.tolist() == [[1.0]] * 9
        ends = sorted([found.low[0], found.high[0]], key=abs)
        np.testing.assert_allclose(np.abs(ends), [0.25, 0.5])
        values = np.arange(9.0)[None]
        pulled, sizes, errors = found.pulled(values, values, np.zeros((1, 9)))
        assert pulled.tolist() == [[36.0]]
        assert 36.0 <= sizes[0, 0] <= 36.1
        assert 0 < errors[0, 0] < 1e-9


def test_of_changes_that_are_alike_one_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of pixels, with a number for each, all would take long."""
    (piece,) = pieces("brightness([0.25,0.5])", IMAGE, False)
    asked: list[list[int]] = []
    change_box = entering.change_box

    def noted(piece: Piece, pixels: Indices) -> Box:
        asked.append(pixels.tolist())
        return change_box(piece, pixels)

    monkeypatch.setattr(entering, "change_box", noted)
    Entering.of(piece, tied=True)
    assert asked == [[0]]


def test_exact_coefficients() -> None:
    """Of the unknowns, where nothing is rounded on the way."""
    values = [Fraction(k * k, 3) for k in range(9)]
    (piece,) = pieces("brightness([0.25,0.5])", IMAGE, False)
    free, tied = (Entering.of(piece, tied) for tied in (False, True))
    assert free.is_exact
    assert tied.is_exact
    assert free.pulled_exactly(values) == values
    assert tied.pulled_exactly(values) == [sum(values)]
    (piece,) = pieces("patch([0,0.125],2,2,1)", IMAGE, True)
    assert Entering.of(piece, tied=False).pulled_exactly(values) == [values[4]]
    (piece,) = pieces("translation(0,1)", IMAGE, True)
    moved = Entering.of(piece, tied=True)
    assert moved.is_exact
    expected = [values[k] - (values[k + 1] if k % 3 < 2 else 0) for k in moved.inputs.tolist()]
    assert moved.pulled_exactly(values) == expected
    (piece,) = pieces("rotation(30)", IMAGE, True)
    assert not Entering.of(piece, tied=True).is_exact


@pytest.mark.parametrize(
    ("weights", "directions", "offset", "alike"),
    [
        ([1.0] * 9, [[0.5, 1.0]] * 9, [0.25] * 9, True),
        ([1.0] * 9, [[0.5, 1.0]] * 8 + [[0.5, 0.5]], [0.25] * 9, False),
        ([1.0] * 9, [[0.5, 0.0]] * 8 + [[0.0, 0.5]], [0.0] * 9, False),
        ([1.0] * 9, [[1.0, 1.0]] * 8 + [[0.0, 0.0]], [0.0] * 9, False),
        ([1.0] * 9, [[1.0, 1.0]] * 9, [0.0] * 8 + [0.5], False),
        ([1.0] * 8 + [0.5], [[1.0, 1.0]] * 9, [0.0] * 9, False),
        ([1.0] * 8 + [0.0], [[1.0, 1.0]] * 9, [0.0] * 9, False),
        ([1.0] * 9, [[0.0, 0.0]] * 9, [0.5] * 9, True),
    ],
)
def test_maps_that_change_all_pixels_alike(
    weights: list[float], directions: list[list[float]], offset: list[float], alike: bool
) -> None:
    lower, upper = np.zeros(2), np.ones(2)
    matrix, moves = Sparse.of(np.diag(weights)), Sparse.of(np.array(directions))
    piece = BoxAffine(IMAGE, matrix, moves, np.array(offset), lower, upper)
    assert piece.changes_alike == alike


def test_nothing_is_tied_that_is_no_linear_function_or_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for text, domain in (
        ("linf(0.1)", IMAGE),
        ("brightness([0,0.1])", IMAGE),
        ("occlusion(1,1,1)", Domain((1, 3, 3), -1.0, 1.0)),
    ):
        (piece,) = pieces(text, domain, True)
        with pytest.raises(Rejected, match="no linear function"):
            Entering.of(piece, tied=True)
    assert entering._MOST_TIED == 8192
    (piece,) = pieces("occlusion(1,1,1)", IMAGE, True)
    monkeypatch.setattr(entering, "_MOST_TIED", 9)
    Entering.of(piece, tied=True)
    monkeypatch.setattr(entering, "_MOST_TIED", 8)
    with pytest.raises(Rejected, match="no linear function"):
        Entering.of(piece, tied=True)


def _exact(array: np.ndarray) -> list[list[Fraction]]:
    return [[Fraction(value) for value in row] for row in array.tolist()]


@pytest.mark.parametrize("slip", [0.0, 2.0**-49, 0.01])
@pytest.mark.parametrize("error", [0.0, 1e-12, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_coefficients_are_pulled_with_all_that_can_be_wrong(
    seed: int, error: float, slip: float
) -> None:
    """The worst true coefficients and the worst true matrix, in exact arithmetic."""
    rng = np.random.default_rng(seed)
    changed, inputs = np.array([0, 2, 3, 5, 6]), np.array([1, 2, 4])
    matrix = rng.normal(size=(5, 3))
    slips = slip * rng.random((5, 3))
    found = Entering(changed, inputs, np.zeros(3), np.ones(3), matrix, slips)
    values, errors = rng.normal(size=(4, 7)), error * rng.random((4, 7))
    sizes = abs(values) + errors
    pulled, large, off = (_exact(part) for part in found.pulled(values, sizes, errors))
    own, wrong = _exact(values[:, changed]), _exact(errors[:, changed])
    weights, slack = _exact(matrix), _exact(slips)
    for k in range(4):
        for j in range(3):
            truth = worst = Fraction(0)
            for i in range(5):
                v, e, w, s = own[k][i], wrong[k][i], weights[i][j], slack[i][j]
                truth += v * w
                worst += e * (abs(w) + s) + abs(v) * s
            assert abs(pulled[k][j] - truth) + worst <= off[k][j]
            assert abs(truth) + worst <= large[k][j]
            room = Fraction(1e-12) + (Fraction(error) + Fraction(slip)) * 60
            assert off[k][j] <= room


def test_what_underflows_is_allowed_for() -> None:
    """Products that are 0 in float64 are multiplied by large inputs later."""
    least = 2.0**-600
    found = Entering(
        np.arange(2),
        np.arange(1),
        np.zeros(1),
        np.ones(1),
        np.full((2, 1), least),
        np.zeros((2, 1)),
    )
    tiny = np.full((1, 2), least)
    pulled, large, off = found.pulled(tiny, tiny, np.zeros((1, 2)))
    assert pulled[0, 0] == 0.0
    assert off[0, 0] >= UNDERFLOW
    assert Fraction(float(off[0, 0])) >= 2 * Fraction(least) ** 2
    assert large[0, 0] >= off[0, 0]


def test_an_input_counts_whose_weights_may_all_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its computed weights are 0, yet a true one need not be."""
    (piece,) = pieces("occlusion(1,1,2)", IMAGE, True)
    matrix, slips = piece.linear_change()
    slips[0, 8] = 2.0**-49
    monkeypatch.setattr(type(piece), "linear_change", lambda self: (matrix, slips))
    found = Entering.of(piece, tied=True)
    assert found.inputs.tolist() == [0, 1, 3, 4, 8]
    assert found.slips is not None
    assert found.slips[:, 4].tolist() == [2.0**-49, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("exponent", [-300, 0, 200])
@pytest.mark.parametrize("count", [1, 3, 40])
def test_every_rounding_of_a_coefficient_is_paid_for(count: int, exponent: int) -> None:
    """The allowances for sums of `count` products, term by term in exact arithmetic."""
    rng = np.random.default_rng(count)
    scale = 2.0**exponent
    matrix, slips = rng.normal(size=(count, 2)), 2.0**-20 * rng.random((count, 2))
    found = Entering(np.arange(count), np.arange(2), np.zeros(2), np.ones(2), matrix, slips)
    values = scale * rng.normal(size=(1, count))
    errors = scale * 2.0**-30 * rng.random((1, count))
    sizes = abs(values) + errors
    _, large, off = found.pulled(values, sizes, errors)
    for j in range(2):
        own = [
            [Fraction(float(part)) for part in row]
            for row in (sizes[0], errors[0], abs(matrix[:, j]), slips[:, j])
        ]
        whole = sum(s * (w + e) for s, _, w, e in zip(*own, strict=True))
        wrong = sum(d * (w + e) + s * e for s, d, w, e in zip(*own, strict=True))
        rounded = Fraction(gamma(count + 8)) * whole
        lost = Fraction(UNDERFLOW) * (count + 8)
        stated = (wrong + rounded) * Fraction(1 + 1e-6) + lost
        assert float(Fraction(float(off[0, j])) / stated) == pytest.approx(1, rel=1e-9)
        most = (whole + stated) * Fraction(1 + 1e-6)
        assert float(Fraction(float(large[0, j])) / most) == pytest.approx(1, rel=1e-9)


def test_what_is_rounded_is_paid_for_where_nothing_else_is_wrong() -> None:
    """Without errors and slips, only the sums are rounded, or lost to underflow."""
    for count in (1, 5):
        ones = np.ones((count, 1))
        found = Entering(
            np.arange(count), np.arange(1), np.zeros(1), np.ones(1), ones, np.zeros((count, 1))
        )
        _, _, off = found.pulled(ones.T, 3 * ones.T, np.zeros((1, count)))
        assert off[0, 0] == pytest.approx(
            gamma(count + 8) * 3 * count * (1 + 1e-6), rel=1e-9, abs=0
        )
        nothing = np.zeros((1, count))
        _, large, off = found.pulled(nothing, nothing, nothing)
        assert off[0, 0] == UNDERFLOW * (count + 8)
        assert large[0, 0] == pytest.approx(off[0, 0], rel=1e-5, abs=0)
