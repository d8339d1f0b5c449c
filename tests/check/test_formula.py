"""The formula: never below what it bounds, in floats and exactly, whatever the multipliers are."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar_check.exact import Exact
from vhagar_check.formula import Bounds, Decisions
from vhagar_check.hexagon import Corners, Hexagons, exact_offset
from vhagar_check.intervals import Pulled, confidence_interval, score_size
from vhagar_check.layers import Conv, Dense, Network
from vhagar_check.neuron_bounds import quick_bounds
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain, Piece

SHAPE = (1, 4, 4)
TEXTS = (
    "linf(0.25)",
    "patch([0,1],2,2,2)",
    "occlusion(2,2,2)",
    "translation(1,-1)",
    "brightness([0,0.25])",
    "contrast([1.25,2])",
    "contrast([0.5,0.75])",
    "rotation(20)",
)


def network(rng: np.random.Generator) -> Network:
    conv = Conv(
        rng.normal(size=(2, 1, 2, 2)), rng.normal(size=2), SHAPE, (1, 1), (0,) * 4, (1, 1), 1
    )
    middle = Dense(rng.normal(size=(5, 18)) / 3, rng.normal(size=5))
    last = Dense(rng.normal(size=(3, 5)), rng.normal(size=3))
    return Network(((conv,), (middle,), (last,)), SHAPE)


def pairs(piece: Piece, rng: np.random.Generator, count: int):
    """Pairs of the piece, as fractions; rotations as floats that are nearly right."""
    for _ in range(count):
        x = np.where(rng.random(16) < 0.6, rng.choice([0.0, 1.0], 16), rng.random(16))
        parameters = []
        if piece.span is not None:
            parameters = [float(rng.choice([*piece.span, rng.uniform(*piece.span)]))]
        elif getattr(piece, "limit", 0.0):
            parameters = rng.choice([-piece.limit, piece.limit], int(piece.mask.sum())).tolist()
        image = piece.exact_image(Exact.of(x).fractions(), parameters)
        if image is not None:
            yield Exact.of(x), Exact.of_fractions(image)


def activations(net: Network, x: Exact) -> list[list[Fraction]]:
    """What enters each ReLU layer, and the scores."""
    found, value = [], x
    for k, stage in enumerate(net.stages):
        value = value.positive() if k else value
        for layer in stage:
            value = layer.exact_forward(value)
        found.append(value.fractions())
    return found


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("text", TEXTS)
def test_hexagons_hold(text: str, clip: bool) -> None:
    rng = np.random.default_rng(11)
    net = network(rng)
    for piece in pieces(text, Domain(SHAPE, 0.0, 1.0), clip):
        bounds = quick_bounds(net, piece)
        for x, x_p in pairs(piece, rng, 30):
            first, second = activations(net, x), activations(net, x_p)
            for h, s_values, t_values in zip(bounds.hexagons, first, second, strict=False):
                for n, (s, t) in enumerate(zip(s_values, t_values, strict=True)):
                    gap = t - Fraction(h.ratio) * s
                    assert h.low[n] <= s <= h.high[n]
                    assert h.low_p[n] <= t <= h.high_p[n]
                    assert h.gap_low[n] <= gap <= h.gap_high[n]


@pytest.mark.parametrize("text", TEXTS)
def test_any_multipliers_give_a_bound(text: str) -> None:
    rng = np.random.default_rng(12)
    net = network(rng)
    (piece,) = pieces(text, Domain(SHAPE, 0.0, 1.0), True)
    bounds = quick_bounds(net, piece)
    a, b = rng.normal(size=(2, 4, 3))
    tables = [rng.normal(size=(2, 4, size)) for size in (18, 5)]
    upper, width = bounds.upper(2, a, b, lambda layer, *_: tuple(tables[layer]))
    assert (width < 1e-9).all()
    for x, x_p in pairs(piece, rng, 30):
        scores, scores_p = activations(net, x)[-1], activations(net, x_p)[-1]
        for k in range(4):
            value = sum(Fraction(float(c)) * v for c, v in zip(a[k], scores, strict=True))
            value += sum(Fraction(float(c)) * v for c, v in zip(b[k], scores_p, strict=True))
            assert value <= Fraction(float(upper[k]))


def test_decisions_lower_the_bound_and_keep_what_they_allow() -> None:
    rng = np.random.default_rng(13)
    net = network(rng)
    (piece,) = pieces("linf(0.25)", Domain(SHAPE, 0.0, 1.0), True)
    bounds = quick_bounds(net, piece)
    a, b = rng.normal(size=(2, 1, 3))
    tables = [rng.normal(size=(2, 1, size)) for size in (18, 5)]

    def choose(layer: int, *_: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return tuple(tables[layer])

    free = bounds.upper(2, a, b, choose)[0][0]
    lowered = 0
    for x, x_p in pairs(piece, rng, 30):
        first, second = activations(net, x), activations(net, x_p)
        signs = {
            (layer, n): {
                0: 1 if first[layer][n] >= 0 else -1,
                1: 1 if second[layer][n] >= 0 else -1,
            }
            for layer, n in ((0, 3), (0, 9), (1, 0), (1, 4))
        }
        upper = bounds.upper(2, a, b, choose, [Decisions(signs)])[0][0]
        lowered += upper < free
        value = sum(Fraction(float(c)) * v for c, v in zip(a[0], first[-1], strict=True))
        value += sum(Fraction(float(c)) * v for c, v in zip(b[0], second[-1], strict=True))
        assert value <= Fraction(float(upper))
    assert lowered


def hexagons(rng: np.random.Generator, count: int, ratio: float) -> Hexagons:
    """Around a point each, some degenerate, tightened as bounds are."""
    s, width = rng.normal(size=count), rng.choice([1e-9, 0.5, 2.0], (6, count))
    t = ratio * s + rng.choice([0.0, 0.3], count)
    gap = t - ratio * s
    sides = (s - width[0], s + width[1], t - width[2], t + width[3], gap - width[4], gap + width[5])
    return Hexagons(*sides, ratio).tightened()


@pytest.mark.parametrize("ratio", [1.0, 1.7])
def test_offsets_in_floats_are_the_exact_ones(ratio: float) -> None:
    rng = np.random.default_rng(14)
    h = hexagons(rng, 60, ratio)
    corners = Corners.of(h)
    a, b, p, q = rng.normal(size=(4, 1, 60))
    floats = corners.offset(a, b, p, q)
    for n in range(60):
        numbers = tuple(Fraction(float(part[0, n])) for part in (a, b, p, q))
        exact = exact_offset(h, n, {}, numbers)
        assert exact is not None
        assert float(exact) == pytest.approx(floats[0, n], abs=1e-12)
        for signs in ({0: 1}, {0: -1}, {1: 1}, {1: -1}, {0: 1, 1: -1}, {0: -1, 1: 1}):
            decided = corners.decided(n, signs, *(float(part[0, n]) for part in (a, b, p, q)))
            exact = exact_offset(h, n, signs, numbers)
            if exact is None:
                assert decided == -np.inf or abs(decided) < 10  # a point within rounding is kept
            else:
                assert float(exact) <= decided + 1e-12
                assert decided <= floats[0, n]


def test_points_of_a_hexagon_never_exceed_the_offset() -> None:
    rng = np.random.default_rng(15)
    h = hexagons(rng, 40, 1.3)
    a, b, p, q = rng.normal(size=(4, 1, 40))
    floats = Corners.of(h).offset(a, b, p, q)[0]
    tried = 0
    for _ in range(400):
        s = rng.uniform(h.low, h.high)
        t = np.clip(rng.uniform(h.low_p, h.high_p), 1.3 * s + h.gap_low, 1.3 * s + h.gap_high)
        inside = (t >= h.low_p) & (t <= h.high_p)
        value = (a * np.maximum(s, 0) + b * np.maximum(t, 0) - p * s - q * t)[0]
        assert (value[inside] <= floats[inside] + 1e-12).all()
        tried += int(inside.sum())
    assert tried > 4000


def test_a_sign_that_a_neuron_never_has_leaves_nothing() -> None:
    first = Dense(np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([-3.0, 0.0]))
    net = Network(((first,), (Dense(np.eye(2), np.zeros(2)),)), (2,))
    (piece,) = pieces("linf(0.25)", Domain((2,), 0.0, 1.0), True)
    bounds = quick_bounds(net, piece)
    a, b = np.array([[1.0, -1.0]]), np.array([[0.0, 1.0]])
    cases = [Decisions({(0, 0): {copy: 1}}) for copy in (0, 1)]
    cases += [Decisions({(0, 0): {0: -1}}), Decisions({(0, 1): {0: 1, 1: -1}})]
    found = bounds.upper(1, a.repeat(4, axis=0), b.repeat(4, axis=0), bounds.quick, cases)[0]
    assert np.isneginf(found).tolist() == [True, True, False, False]


def test_numbers_beyond_float64_prove_nothing() -> None:
    rng = np.random.default_rng(17)
    huge = Dense(np.full((3, 4), 1e200), np.zeros(3))
    net = Network(((huge,), (Dense(np.full((2, 3), 1e200), np.zeros(2)),)), (4,))
    (piece,) = pieces("linf(0.5)", Domain((4,), 0.0, 1.0), True)
    with np.errstate(all="ignore"):
        bounds: Bounds = quick_bounds(net, piece)
        upper = bounds.upper(1, *rng.normal(size=(2, 1, 2)), bounds.quick)[0]
    assert not (upper < np.inf).any()


def test_weights_on_inputs_that_are_zero_give_exactly_nothing() -> None:
    """Behind neurons that are off, scores tie exactly; rows of several layers may underflow."""
    weight = np.array([[1.5, -2.0, 0.0], [0.1, 0.2, 0.3]])
    zero, some = np.zeros(3), np.array([0.0, 0.0, 1.0])
    single = (Dense(weight, np.zeros(2)),)
    for low, high, exact in ((zero, zero, [True, True]), (zero, some, [True, False])):
        ends = Pulled.through(single, np.eye(2)).range(single, low, high)
        assert ((ends[0] == 0) & (ends[1] == 0)).tolist() == exact
        ends = Pulled.through(single, np.eye(2)).range(single, -high, low)
        assert ((ends[0] == 0) & (ends[1] == 0)).tolist() == exact
    lead = np.array([[1.0, -1.0]])
    both = (Dense(np.array([[0.5, 3.0], [0.5, 0.0]]), np.full(2, 0.3)),)
    ends = Pulled.through(both, lead).range(both, np.zeros(2), np.array([1.0, 0.0]))
    assert (ends[0][0], ends[1][0]) == (0.0, 0.0)  # the classes differ where the input is 0
    for layers in (
        (Dense(weight, np.array([0.1, 0.0])),),
        (Dense(weight, np.array([1e-300, 0.0])), Dense(1e-300 * np.eye(2), np.zeros(2))),
    ):
        low, high = Pulled.through(layers, np.eye(2)).range(layers, zero, zero)
        assert low[0] < high[0]


def test_scores_lie_within_their_size() -> None:
    rng = np.random.default_rng(21)
    net = network(rng)
    low = rng.random(16) * 0.5
    size = score_size(net, low, low + 0.2)
    scores = [
        max(map(abs, net.exact_scores(Exact.of(x)).fractions()))
        for x in (np.where(rng.random(16) < 0.5, low, low + 0.2) for _ in range(20))
    ]
    assert max(scores) <= size < 20 * max(scores)
    point = (Dense(np.array([[3.0, -4.0], [1.0, 1.0]]), np.array([0.0, -9.0])),)
    assert score_size(Network((point,), (2,)), np.zeros(2), np.ones(2)) == pytest.approx(9.0)


def test_confidences_lie_in_their_interval() -> None:
    rng = np.random.default_rng(18)
    net = network(rng)
    low = rng.random(16) * 0.5
    high = low + 0.2
    least, most = confidence_interval(net, low, high, 1)
    for _ in range(40):
        x = Exact.of(np.where(rng.random(16) < 0.5, low, high))
        scores = net.exact_scores(x).fractions()
        assert least <= scores[1] - max(scores[0], scores[2]) <= most


@pytest.mark.parametrize("decided", [False, True])
@pytest.mark.parametrize("size", [1e150, 1e300, 1.7e308])
def test_multipliers_too_large_to_sum_prove_nothing(size: float, decided: bool) -> None:
    """Sums that overflow, to either side, are no bounds; only an empty case has minus infinity."""
    rng = np.random.default_rng(31)
    net = network(rng)
    (piece,) = pieces("linf(0.25)", Domain(SHAPE, 0.0, 1.0), True)
    bounds = quick_bounds(net, piece)
    a, b = np.array([[1.0, -1.0, 0.0]]), np.array([[-1.0, 1.0, 0.0]])
    cases = [Decisions({(1, 0): {0: 1}})] if decided else [Decisions()]
    for _ in range(30):
        huge = [size * rng.choice([-1.0, 1.0], (1, count)) for count in (18, 18, 5, 5)]

        def choose(layer: int, p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return huge[2 * layer], huge[2 * layer + 1]  # noqa: B023

        with np.errstate(all="ignore"):
            (value,), _ = bounds.upper(2, a, b, choose, cases)
        # The same input in both copies makes the bounded number 0.
        assert value >= 0


@pytest.mark.parametrize("exponents", [(200, 100, -200, -130), (-160, -170, 180, 150)])
@pytest.mark.parametrize("seed", range(4))
def test_underflow_hides_nothing(exponents: tuple[int, ...], seed: int) -> None:
    """Coefficients that vanish on their way back multiply neurons that are huge."""
    rng, layers, inputs = np.random.default_rng(seed), [], 4
    for exponent, size in zip(exponents, (4, 3, 3, 2), strict=True):
        weight = abs(rng.normal(size=(size, inputs))) * 10.0**exponent
        layers.append((Dense(weight, np.zeros(size)),))
        inputs = size
    net = Network(tuple(layers), (1, 2, 2))
    (piece,) = pieces("linf(0.25)", Domain((1, 2, 2), 0.0, 1.0), True)
    bounds = quick_bounds(net, piece)
    last = len(net.stages) - 1
    for on_first, on_second in ((1.0, 0.0), (0.0, 1.0), (1.0, -1.0), (-1.0, 1.0)):
        a, b = on_first * np.eye(2), on_second * np.eye(2)
        upper, _ = bounds.upper(last, a, b, bounds.quick)
        for x, x_p in _corner_pairs(rng):
            first, second = (net.exact_scores(Exact.of(part)).fractions() for part in (x, x_p))
            for k in range(2):
                value = Fraction(on_first) * first[k] + Fraction(on_second) * second[k]
                assert value <= float(upper[k])
    low, high = (np.full(4, end) for end in (0.0, 1.0))
    for label in range(2):
        _, most = confidence_interval(net, low, high, label)
        for x, _ in _corner_pairs(rng):
            scores = net.exact_scores(Exact.of(x)).fractions()
            assert scores[label] - scores[1 - label] <= most


def _corner_pairs(rng: np.random.Generator):
    """Pairs of inputs that differ by up to a quarter in each pixel."""
    for _ in range(8):
        x = rng.choice([0.0, 0.25, 0.75, 1.0], 4)
        yield x, np.clip(x + rng.choice([-0.25, 0.0, 0.25], 4), 0.0, 1.0)
