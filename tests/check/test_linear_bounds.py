"""Linear bounds over boxes of inputs: their rules by hand, and all that they add for rounding."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from vhagar_check import linear_bounds
from vhagar_check.errors import Rejected
from vhagar_check.layers import HALF_ULP, TINY, Dense, Network, gamma
from vhagar_check.linear_bounds import (
    Boxes,
    LinearBounds,
    _rectified,
    _slope,
    _Stage,
    extremes,
    largest_of_pairs,
)

ULP = 2.0**-52


def test_boxes_have_a_middle_and_a_radius_that_covers_them() -> None:
    low, high = np.array([[0.0, -3.0, 0.1, 5.0]]), np.array([[2.0, -1.0, 0.4, 5.0]])
    boxes = Boxes(low, high)
    middle = (low + high) / 2
    assert boxes.centre.tolist() == middle.tolist()
    wide = np.maximum(high - middle, middle - low) * (1 + 8 * HALF_ULP) + TINY
    assert boxes.radius.tolist() == wide.tolist()
    assert boxes.radius[0, 3] == TINY
    below = Boxes(np.array([[-(2.0**-1074)]]), np.array([[2.0**-1073]]))
    assert below.radius[0, 0] >= TINY


def test_the_matrix_of_a_stage_with_its_errors() -> None:
    rng = np.random.default_rng(1)
    first = Dense(rng.integers(-3, 4, (5, 3)) * 1.0, rng.integers(-3, 4, 5) * 1.0)
    second = Dense(rng.integers(-3, 4, (2, 5)) * 1.0, rng.integers(-3, 4, 2) * 1.0)
    rows = np.array([[1.0, -1.0], [2.0, 1.0]])
    found = _Stage.of(Network(((first, second),), (3,)), 0, rows)
    assert found.rows.tolist() == (rows @ second.weight @ first.weight).tolist()
    constant = rows @ second.weight @ first.bias + rows @ second.bias
    assert found.constant.tolist() == constant.tolist()
    spread = abs(rows) @ abs(second.weight)
    biases = spread @ abs(first.bias) + abs(rows) @ abs(second.bias)
    share = gamma(5 + 2 * 2 + 8) + 2 * gamma(2 * 5 + 8)
    np.testing.assert_allclose(found.constant_error, 1.02 * share * biases, rtol=1e-12)
    stated = 1.01 * 2 * gamma(2 * 5 + 8) * (spread @ abs(first.weight))
    np.testing.assert_allclose(found.rows_error, stated, rtol=1e-12)
    plain = _Stage.of(Network(((Dense(np.eye(2), np.zeros(2)),),), (2,)), 0, np.eye(2))
    assert plain.constant_error.tolist() == [TINY, TINY]
    nothing = _Stage.of(Network(((),), (2,)), 0, rows)
    assert nothing.rows is rows
    assert not nothing.rows_error.any()
    assert not nothing.constant.any()
    assert not nothing.constant_error.any()


@pytest.mark.parametrize(
    ("rows", "inputs", "outputs", "fits"),
    [(3, 2, 4, True), (4, 2, 4, False), (4, 3, 2, True), (4, 4, 2, False), (1, 12, 3, True)],
)
def test_stages_that_are_too_wide(
    rows: int, inputs: int, outputs: int, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert linear_bounds._MOST_ENTRIES == 2**24
    monkeypatch.setattr(linear_bounds, "_MOST_ENTRIES", 12)
    layer = Dense(np.ones((outputs, inputs)), np.zeros(outputs))
    network = Network(((layer,),), (inputs,))
    if fits:
        _Stage.of(network, 0, np.ones((rows, outputs)))
    else:
        with pytest.raises(Rejected, match="too wide"):
            _Stage.of(network, 0, np.ones((rows, outputs)))


def functions(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Functions of three entries for two boxes, and ones above them."""
    below = rng.integers(-5, 6, (2, 4, 3)) * 1.0
    return below, below + rng.integers(0, 3, (2, 4, 3))


def passed(stage: _Stage, below: np.ndarray, above: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The functions behind a stage by the rule, without constants."""
    up, down = np.maximum(stage.rows, 0.0), np.minimum(stage.rows, 0.0)
    return below @ up.T + above @ down.T, above @ up.T + below @ down.T


@pytest.mark.parametrize("seed", range(4))
def test_functions_through_a_stage(seed: int) -> None:
    """Without constants, nothing but the allowance is left of them."""
    rng = np.random.default_rng(seed)
    below, above = functions(rng)
    rows, constant = rng.integers(-4, 5, (2, 3)) * 1.0, rng.integers(-9, 10, 2) * 1.0
    errors = rng.random((2, 3)) * 1e-14, rng.random(2) * 1e-13
    stage = _Stage(rows, constant, *errors)
    found, expected = stage.through(below, above), passed(stage, below, above)
    for one, other in zip(found, expected, strict=True):
        assert one[:, :-1].tolist() == other[:, :-1].tolist()
        np.testing.assert_allclose(one[:, -1], other[:, -1] + constant, atol=1e-11)
    assert (found[0][:, -1] < expected[0][:, -1] + constant).all()
    assert (found[1][:, -1] > expected[1][:, -1] + constant).all()
    below[:, -1], above[:, -1] = 0.0, 0.0
    under, over = _Stage(rows, np.zeros(2), *errors).through(below, above)
    size = np.maximum(abs(above).sum(axis=1), abs(below).sum(axis=1)) * (1 + 1e-9)
    off = gamma(2 * 3 + 4 + 16) * (size @ abs(rows).T)
    off = 1.01 * (off + size @ errors[0].T + errors[1])
    np.testing.assert_allclose(over[:, -1], off, rtol=1e-12)
    np.testing.assert_allclose(under[:, -1], -off, rtol=1e-12)


def test_a_stage_without_anything_still_pays() -> None:
    stage = _Stage(np.zeros((1, 2)), np.zeros(1), np.zeros((1, 2)), np.zeros(1))
    under, over = stage.through(np.zeros((1, 3, 2)), np.zeros((1, 3, 2)))
    assert over[0, -1, 0] == pytest.approx(TINY, rel=1e-12, abs=0)
    assert under[0, -1, 0] == -over[0, -1, 0]


def test_the_constant_of_a_stage_is_rounded_too() -> None:
    """It is the opposite of the function's, so that 30.6 units of the last place are left."""
    stage = _Stage(np.ones((1, 1)), np.array([-1.0]), np.zeros((1, 1)), np.zeros(1))
    function = np.array([[[0.0], [1.0]]])
    under, over = (float(part[0, -1, 0]) for part in stage.through(function, function))
    share = 1.01 * 1.01 * (2 + 2 + 16 + 4) * (1 + 1) / 2  # in units of ULP
    assert over == pytest.approx(share * ULP, abs=ULP)
    assert under == pytest.approx(-share * ULP, abs=ULP)


def test_the_last_sums_are_rounded_outward() -> None:
    """The constants of functions may be much larger than all else."""
    stage = _Stage(np.ones((1, 1)), np.zeros(1), np.zeros((1, 1)), np.zeros(1))
    for sign in (1.0, -1.0):
        function = np.array([[[0.0], [sign]]])
        under, over = (float(part[0, -1, 0]) for part in stage.through(function, function))
        share = 1.01 * 1.01 * (2 + 2 + 16 + 4) / 2  # of the allowance, in units of ULP
        assert over - sign == pytest.approx((share + 2) * ULP, abs=0.8 * ULP)
        assert sign - under == pytest.approx((share + 2) * ULP, abs=0.8 * ULP)


@pytest.mark.parametrize(
    ("low", "high", "slope"),
    [
        (-1.0, 3.0, 0.75),
        (-3.0, 1.0, 0.25),
        (0.0, 2.0, 1.0),
        (0.5, 2.0, 1.0),
        (-2.0, 0.0, 0.0),
        (-2.0, -1.0, 0.0),
        (0.0, 0.0, 1.0),
        (-1.0, -1.0, 0.0),
    ],
)
def test_the_slope_of_the_chord(low: float, high: float, slope: float) -> None:
    assert _slope(np.array([[low]]), np.array([[high]])).tolist() == [[slope]]


@pytest.mark.parametrize("seed", range(3))
def test_functions_through_relus(seed: int) -> None:
    """On, off, crossing with either end further from 0, constant, linear, and barely crossing."""
    rng = np.random.default_rng(seed)
    middle = np.array([5.0, -5.0, 1.0, -1.0, 0.0, -2.0, *[0.0] * 8])
    above = np.concatenate([rng.uniform(-1, 1, (1, 2, 14)), middle[None, None]], axis=1)
    above[:, :-1, 4] = 0.0
    above[:, -1, 6:] = abs(above[:, :-1, 6:]).sum(axis=1) * (1 - rng.choice([0, 1e-12], 8))
    below = above.copy()
    below[:, -1] -= 0.5
    linear = np.arange(14) == 5
    for mask in (None, linear):
        under, over = _rectified(below.copy(), above.copy(), mask)
        low, high = extremes(above)
        crossing = (low < 0) & (high > 0)
        chord = np.where(crossing, high / (high - low), (low >= 0) * 1.0)
        added = np.maximum(-chord * low, (1 - chord) * high) * (1 + 16 * HALF_ULP) + TINY
        added = np.where(low >= 0, 0.0, np.maximum(added, TINY))
        least, most = extremes(below)
        lean = np.where((least < 0) & (most > 0), most / (most - least), (least >= 0) * 1.0)
        if mask is not None:
            chord[:, mask], added[:, mask], lean[:, mask] = 1.0, 0.0, 1.0
        expected = above * chord[:, None]
        expected[:, -1] += added
        assert over.tolist() == expected.tolist()
        assert under.tolist() == (below * lean[:, None]).tolist()
        assert crossing.any()


def test_a_function_that_is_nearly_0_has_a_chord() -> None:
    nothing = np.zeros((1, 2, 1))
    _, over = _rectified(nothing, nothing, None)
    assert over[0, -1, 0] == pytest.approx(1.5 * TINY, rel=1e-12, abs=0)
    little = np.array([[[0.0], [4 * TINY]]])
    _, over = _rectified(little, little, None)
    assert over[0, -1, 0] == 4 * TINY


def test_extremes_are_rounded_outward() -> None:
    """`1 + u` lies between 0 and 2, and `gamma(2 + 4)` of its size 2 is 10 units of the last
    place."""
    for constant in (1.0, -1.0):
        low, high = extremes(np.array([[[1.0], [constant]]]))
        assert low[0, 0] == constant - (1 + 10 * ULP)
        assert high[0, 0] == constant + (1 + 10 * ULP)
    low, high = extremes(np.array([[[2.0], [-3.0], [1.0]]]))
    assert (low[0, 0], high[0, 0]) == pytest.approx((-4.0, 6.0))
    low, high = extremes(np.zeros((1, 3, 1)))
    assert (low[0, 0], high[0, 0]) == (-TINY, TINY)
    low, high = extremes(np.array([[[1.0], [0.0]]]))
    assert (low[0, 0], high[0, 0]) == (-1 - 5 * ULP, 1 + 5 * ULP)


def test_functions_from_the_input_to_the_leads() -> None:
    """`relu(x_0 - x_1 + 1)` is on, `relu(x_1 - 4)` is off, and `relu(x_0 - 1)` crosses 0."""
    hidden = Dense(np.array([[1.0, -1.0], [0.0, 1.0], [1.0, 0.0]]), np.array([1.0, -4.0, -1.0]))
    middle = Dense(np.eye(3), np.zeros(3))
    last = Dense(np.array([[1.0, 0.0, 0.0], [0.0, 5.0, 1.0]]), np.array([0.5, 0.0]))
    network = Network(((hidden,), (middle,), (last,)), (2,))
    boxes = Boxes(np.array([[0.0, -1.0], [2.0, 0.0]]), np.array([[2.0, 1.0], [3.0, 0.5]]))
    (first, second) = LinearBounds(network).above(boxes, np.array([[1.0, -1.0], [0.0, 1.0]]))
    # Over the first box: relu(x_0 - 1) is between u_0 / 2 and u_0 / 2 + 1/2, of which the second
    # ReLU takes the former from -1/2 to 1/2, which it halves again.
    np.testing.assert_allclose(first[:, 0], [1 - 0.25, -1.0, 2.5], atol=1e-12)
    np.testing.assert_allclose(first[:, 1], [0.5, 0.0, 0.5], atol=1e-12)
    # Over the second: x_0 - 1 = 1.5 + u_0 / 2, and x_0 - x_1 + 1 = 3.25 + u_0 / 2 - u_1 / 4.
    np.testing.assert_allclose(second[:, 0], [0.0, -0.25, 2.25], atol=1e-12)
    np.testing.assert_allclose(second[:, 1], [0.5, 0.0, 1.5], atol=1e-12)


def test_linear_units_pass_on_what_is_below_0() -> None:
    network = Network(
        ((Dense(np.eye(1), np.zeros(1)),), (Dense(np.array([[-1.0], [0.0]]), np.zeros(2)),)),
        (1,),
        (np.array([True]),),
    )
    boxes = Boxes(np.array([[-3.0]]), np.array([[-1.0]]))
    (found,) = LinearBounds(network).above(boxes, np.array([[1.0, -1.0]]))
    np.testing.assert_allclose(found[:, 0], [-1.0, 2.0], atol=1e-12)


def exact_largest(
    first: np.ndarray, second: np.ndarray, boxes: Boxes, images: Boxes, limit: np.ndarray
) -> Fraction:
    """The largest value over all pairs of one box, over the corners of each entry's pairs."""
    best = Fraction(float(first[-1])) + Fraction(float(second[-1]))
    for k in range(len(limit)):
        r, s, c, d, e, a, b = (
            Fraction(float(part))
            for part in (
                boxes.radius[0, k],
                images.radius[0, k],
                boxes.centre[0, k],
                images.centre[0, k],
                limit[k],
                first[k],
                second[k],
            )
        )
        pairs = [(v, w) for v in (-r, r) for w in (-s, s, c + v - d - e, c + v - d + e)]
        pairs += [(v, w) for w in (-s, s) for v in (d + w - c - e, d + w - c + e)]
        inside = [
            a / r * v + b / s * w
            for v, w in pairs
            if abs(v) <= r and abs(w) <= s and abs(c + v - d - w) <= e
        ]
        best += max(inside)
    return best


@pytest.mark.parametrize("signs", list(itertools.product([-1.0, 1.0], repeat=2)))
@pytest.mark.parametrize("limit", [0.25, 1.0, 2.5, 9.0])
@pytest.mark.parametrize("ends", [(-9.0, 14.0), (0.5, 14.0), (-9.0, 4.5), (1.0, 4.0)])
def test_the_largest_of_pairs_is_at_a_corner(
    signs: tuple[float, float], limit: float, ends: tuple[float, float]
) -> None:
    """Whether the ends of the input range cut the images off or not."""
    boxes = Boxes(np.array([[1.0]]), np.array([[4.0]]))
    images = Boxes(np.maximum(boxes.low - limit, ends[0]), np.minimum(boxes.high + limit, ends[1]))
    for small in (0.25, 1.0, 2.0):
        first, second = np.array([signs[0], 0.5]), np.array([small * signs[1], -0.25])
        found = largest_of_pairs(first[None], second[None], boxes, images, np.array([limit]))
        best = exact_largest(first, second, boxes, images, np.array([limit]))
        assert best <= Fraction(float(found[0])) <= best + Fraction(1, 10**12)


@pytest.mark.parametrize("entries", [1, 3])
def test_the_rounding_of_pairs_is_paid_for(entries: int) -> None:
    """Centres and limits are large and the radii small, so that the allowance is seen clearly."""
    rng = np.random.default_rng(entries)
    ones = np.ones((1, entries))
    boxes, images = Boxes(63 * ones, 65 * ones), Boxes(-49.5 * ones, -46.5 * ones)
    limit = np.full(entries, 128.0)
    first, second = rng.normal(size=(2, entries + 1))
    first[-1], second[-1] = 300.0, -200.0
    (found,) = largest_of_pairs(first[None], second[None], boxes, images, limit)
    best = exact_largest(first, second, boxes, images, limit)
    reach = 64.0 + 48.0 + 1.0 + 1.5 + 128.0
    size = float((abs(first[:-1]) / 1.0 + abs(second[:-1]) / 1.5).sum() * reach + 500.0)
    allowance = Fraction(float(found)) - best
    stated = gamma(4 * entries + 32) * size
    assert float(allowance) == pytest.approx(stated, abs=60 * ULP)


def test_pairs_of_nothing() -> None:
    boxes = Boxes(np.zeros((1, 2)), np.ones((1, 2)))
    found = largest_of_pairs(np.zeros((1, 3)), np.zeros((1, 3)), boxes, boxes, np.ones(2))
    assert found.tolist() == [TINY]
