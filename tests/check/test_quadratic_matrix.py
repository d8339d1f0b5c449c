"""The matrix of a quadratic proof: as the document defines it, exactly and in floats with all that
rounding can do."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vhagar_check import quadratic as module
from vhagar_check.formula import Decisions
from vhagar_check.layers import HALF_ULP, UNDERFLOW, Dense, Network, gamma
from vhagar_check.neuron_bounds import quick_bounds
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain, Piece
from vhagar_check.pixelwise import linf_ball
from vhagar_check.quadratic import QuadraticProver, _Rows, is_definite
from vhagar_check.regions import EQUAL, OFF, ON, PAIR, Region

DOMAIN = Domain((1, 2, 2), 0.0, 1.0)
STATUS = [[PAIR, ON, OFF, EQUAL, PAIR], [PAIR, PAIR, OFF, ON]]
Matrix = list[list[Fraction]]
BALL = linf_ball(DOMAIN, 0.5, np.array([True, False, True, False]))


def region(seed: int, piece: Piece = BALL, steps: bool = False) -> Region:
    """Two pixels change. Of layer 0, unit 1 is on, 2 is off, and 3 sees neither; of layer 1, unit 2
    is off and 3 is on."""
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(5, 4)), rng.normal(size=(4, 5))
    first[3, [0, 2]] = 0.0
    bias = np.array([0.1, 20.0, -20.0, 0.3, -0.2]), np.array([0.0, 0.1, -200.0, 200.0])
    stages: list[Any] = [(Dense(first, bias[0]),), (Dense(second, bias[1]),)]
    if steps:
        own = Dense(rng.normal(size=(5, 5)), np.zeros(5))
        stages[1] = (own, Dense(second, bias[1]))
    stages.append((Dense(rng.normal(size=(3, 4)), rng.normal(size=3)),))
    network = Network(tuple(stages), (1, 2, 2))
    status = [np.array(layer, dtype=np.uint8) for layer in STATUS]
    return Region(0, quick_bounds(network, piece), status)


def prover(own: Region, claim: float = 3.0, tied: bool = False) -> QuadraticProver:
    return QuadraticProver(own, 0, 2, claim, tied)


def lopsided(own: Region) -> QuadraticProver:
    """One over a box of changes whose middle is not 0."""
    found = prover(own)
    found._low, found._high = np.array([-0.5, -0.25]), np.array([0.25, 1.0])
    return found


CASES = {
    "free": (Decisions(), [PAIR] * 4),
    "a slope of 1": (Decisions(slopes={(0, 4): True}), [PAIR, ON, PAIR, PAIR]),
    "a slope of 0": (Decisions(slopes={(1, 0): False}), [PAIR, PAIR, OFF, PAIR]),
    "signs": (
        Decisions({(0, 0): {0: 1, 1: 1}, (1, 1): {0: -1, 1: -1}, (1, 0): {0: 1, 1: -1}}),
        [ON, PAIR, PAIR, OFF],
    ),
}


def definition(own: Region, settled: list[int]) -> tuple[Matrix, list[Fraction], list[int]]:
    """Rows `a_i` of the free pairs, and `c`, over the changes of all pixels and the free pairs in
    the order of the vector: differences are passed forwards, one variable at a time."""
    states = [list(layer) for layer in STATUS]
    pairs = [(k, n) for k in range(2) for n in range(len(states[k])) if states[k][n] == PAIR]
    for (k, n), state in zip(pairs, settled, strict=True):
        states[k][n] = state
    free = [place for place in pairs if states[place[0]][place[1]] == PAIR]
    rows: Matrix = [[] for _ in free]
    lead: list[Fraction] = []
    for variable in range(4 + len(free)):
        value = [Fraction(int(k == variable)) for k in range(4)]
        for k, stage in enumerate(own.bounds.network.stages):
            for layer in stage:
                weight = [[Fraction(w) for w in row] for row in layer.weight.tolist()]
                value = [sum(w * v for w, v in zip(row, value, strict=True)) for row in weight]
            if k == 2:
                break
            for i, (own_layer, unit) in enumerate(free):
                if own_layer == k:
                    rows[i].append(value[unit])
            value = [
                v if state == ON else Fraction(0) for v, state in zip(value, states[k], strict=True)
            ]
            for i, (own_layer, unit) in enumerate(free):
                if own_layer == k:
                    value[unit] = Fraction(int(variable == 4 + i))
        lead.append(value[0] - value[2])
    return rows, lead, [pairs.index(place) for place in free]


def eliminated(
    own: Region, settled: list[int], claim: float, vector: np.ndarray, judge: QuadraticProver
) -> tuple[Matrix, list[int]]:
    """`[[4 (beta - const), b'], [b, M]]` of the document, with the changes eliminated."""
    rows, lead, places = definition(own, settled)
    inputs = judge._inputs.tolist()
    low, high = (list(map(Fraction, side.tolist())) for side in (judge._low, judge._high))
    d = [Fraction(vector[4 + k]) for k in inputs]
    t = [Fraction(vector[place]) for place in places]
    kept = [*inputs, *range(4, 4 + len(places))]
    n, size = len(inputs), len(kept) + 1
    found = [[Fraction(0)] * size for _ in range(size)]
    for k in range(n):
        found[1 + k][1 + k] = d[k]
    for i, weight in enumerate(t):
        own_row = 1 + n + i
        found[own_row][own_row] += weight
        for j, variable in enumerate(kept):
            half = weight * rows[i][variable] / 2
            found[own_row][1 + j] -= half
            found[1 + j][own_row] -= half
    for j, variable in enumerate(kept):
        b = lead[variable] + (d[j] * (low[j] + high[j]) if j < n else 0)
        found[0][1 + j] = found[1 + j][0] = b
    constant = -sum(d[k] * low[k] * high[k] for k in range(n))
    found[0][0] = 4 * (Fraction(claim) - constant)
    rest = [0, *range(1 + n, size)]
    small = [
        [
            found[i][j] - sum(found[i][1 + k] * found[1 + k][j] / d[k] for k in range(n))
            for j in rest
        ]
        for i in rest
    ]
    return small, places


def numbers(seed: int) -> np.ndarray:
    """Multipliers of four pairs and four pixels."""
    return np.random.default_rng([seed, 1]).uniform(0.5, 4.0, 8)


def reordered(matrix: Matrix, order: list[int]) -> Matrix:
    return [[matrix[i][j] for j in order] for i in order]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("steps", [False, True])
def test_the_matrix_is_that_of_the_document(name: str, seed: int, steps: bool) -> None:
    """In rationals exactly, and in floats up to the radius. The last layer's pairs come first."""
    own, vector = region(seed, steps=steps), numbers(seed)
    case, settled = CASES[name]
    judge = lopsided(own)
    slopes = judge._slopes(case)
    rows = judge._composed(slopes)
    small, places = eliminated(own, settled, 3.0, vector, judge)
    order = [0, *(1 + places.index(place) for place in rows.places.tolist())]
    assert sorted(rows.places.tolist()) == places
    assert rows.places.tolist() == sorted(places, key=lambda place: (place < 2, place))
    facts, box = vector[:4][rows.places], vector[4:][judge._inputs]
    exact = judge._exact_matrix(slopes, facts, box)
    assert exact == reordered(small, order)
    matrix, radius = judge._enclosed(rows, facts, box)
    for i, row in enumerate(exact):
        for j, entry in enumerate(row):
            assert abs(Fraction(matrix[i, j]) - entry) <= Fraction(radius[i, j])
            assert radius[i, j] < 1e-10 * (1 + abs(float(entry)))


def brightened(seed: int) -> Region:
    """All pixels change by the same amount, so that no unit sees neither change."""
    (piece,) = pieces("brightness([0.25,0.75])", DOMAIN, False)
    own = region(seed, piece)
    status = [np.where(layer == EQUAL, PAIR, layer).astype(np.uint8) for layer in own.status]
    return replace(own, status=status)


@pytest.mark.parametrize("seed", range(3))
def test_one_change_of_all_pixels_has_an_exact_matrix(seed: int) -> None:
    judge = prover(brightened(seed), tied=True)
    assert len(judge._inputs) == 1
    slopes = judge._slopes(Decisions())
    rows = judge._composed(slopes)
    facts, box = np.random.default_rng(seed).uniform(0.5, 4.0, len(rows.places)), np.ones(1)
    exact = judge._exact_matrix(slopes, facts, box)
    matrix, radius = judge._enclosed(rows, facts, box)
    for i, row in enumerate(exact):
        for j, entry in enumerate(row):
            assert abs(Fraction(matrix[i, j]) - entry) <= Fraction(radius[i, j])
            assert radius[i, j] < 1e-10 * (1 + abs(float(entry)))


def test_ties_are_decided_in_rationals_where_they_are_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With few pixels that change, however few the unknowns are."""
    monkeypatch.setattr(module, "is_definite", lambda *_: False)
    own = brightened(1)
    vector = np.repeat([1e-4, 1e-8, 1.0], [3, 2, 4])  # of pairs in both layers, and of pixels
    assert len(vector) == QuadraticProver.width(own)
    judge = prover(own, 1e10, tied=True)
    assert judge.value(vector, Decisions()) == 1e10
    assert prover(own, 1e-6, tied=True).value(vector, Decisions()) == np.inf
    monkeypatch.setattr(module, "_FEW_INPUTS", 4)
    assert judge.value(vector, Decisions()) == 1e10
    monkeypatch.setattr(module, "_FEW_INPUTS", 3)
    assert judge.value(vector, Decisions()) == np.inf
    monkeypatch.undo()
    monkeypatch.setattr(module, "is_definite", lambda *_: False)
    judge._entering = replace(judge._entering, slips=np.full((4, 1), 2.0**-50))
    assert judge.value(vector, Decisions()) == np.inf


def test_changes_are_those_of_the_pixels_that_move() -> None:
    judge = prover(region(1))
    assert judge._inputs.tolist() == [0, 2]
    assert QuadraticProver.width(region(1)) == 4 + 4


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_coefficients_come_with_their_errors(seed: int, steps: bool) -> None:
    """Sizes are the same products of absolute values; errors grow with the terms on the way."""
    judge = prover(region(seed, steps=steps))
    rows = judge._composed(judge._slopes(Decisions()))
    stages = judge._network.stages
    weights = [[abs(layer.weight) for layer in stage] for stage in stages]
    lead = np.array([[1.0, 0.0, 1.0]]) @ weights[2][0]
    terms = 8 + 4 + 2
    on_second = [0, 1]
    np.testing.assert_allclose(
        rows.pair_errors[0, :2], gamma(terms) * lead[0, on_second], rtol=1e-12
    )
    np.testing.assert_allclose(
        rows.pair_sizes[0, :2], lead[0, on_second] * (1 + gamma(terms)), rtol=1e-15
    )
    assert not rows.pair_sizes[1:, :2].any()
    below = np.concatenate([lead * [0, 0, 0, 1], np.eye(4)[on_second]])
    for weight in reversed(weights[1]):
        below = below @ weight
        terms += 5 + 2
    on_first = [0, 4]
    np.testing.assert_allclose(
        rows.pair_errors[:3, 2:], gamma(terms) * below[:, on_first], rtol=1e-12
    )
    np.testing.assert_allclose(rows.pair_sizes[:3, 2:], below[:, on_first], rtol=1e-12)
    assert not rows.pair_sizes[3:].any()
    inputs = np.concatenate([below * [0, 1, 0, 0, 0], np.eye(5)[on_first]]) @ weights[0][0]
    terms += 5 + 2
    inputs = inputs[:, judge._inputs]
    np.testing.assert_allclose(rows.input_errors, gamma(terms) * inputs, rtol=1e-12)
    np.testing.assert_allclose(rows.input_sizes, inputs * (1 + gamma(terms)), rtol=1e-15)


def test_coefficients_lose_what_underflows() -> None:
    """It is multiplied by all weights below; where weights are 0, nothing else is lost."""
    own = region(1)
    first, second, last = (stage[0] for stage in own.bounds.network.stages)
    judge = prover(own)
    last.weight[:], second.weight[:], first.weight[:] = 0.0, 2.0**60, 2.0**70
    for layer in (first, second, last):
        layer.__dict__.pop("size", None)
    rows = judge._composed(judge._slopes(Decisions()))
    lost = UNDERFLOW * (4 + 1)
    np.testing.assert_allclose(rows.pair_errors[0, :2], lost, rtol=1e-12)
    lost = 1.01 * 4 * 2.0**60 * lost + UNDERFLOW * (5 + 1)
    np.testing.assert_allclose(rows.pair_errors[0, 2:], lost, rtol=1e-12)
    lost = 1.01 * 5 * 2.0**70 * lost + UNDERFLOW * (5 + 1)
    np.testing.assert_allclose(rows.input_errors[0], lost, rtol=1e-12)


def random_rows(rng: np.random.Generator, pairs: int, inputs: int) -> _Rows:
    """Coefficients with errors that are large, so that every share of them is seen."""
    on_inputs, on_pairs = rng.normal(size=(1 + pairs, inputs)), rng.normal(size=(1 + pairs, pairs))
    errors = 0.1 * rng.random(on_inputs.shape), 0.1 * rng.random(on_pairs.shape)
    return _Rows(
        on_inputs,
        abs(on_inputs) + errors[0],
        errors[0],
        on_pairs,
        abs(on_pairs) + errors[1],
        errors[1],
        np.arange(pairs),
    )


@pytest.mark.parametrize("large", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_the_radius_holds_all_errors(seed: int, large: bool) -> None:
    """Entry by entry; with small errors, the rounding of the sums is what counts."""
    rng = np.random.default_rng(seed)
    judge = lopsided(region(1))
    pairs, inputs = 3, len(judge._inputs)
    rows = random_rows(rng, pairs, inputs)
    if not large:
        rows = _Rows(
            *(
                part * (1.0 if k % 3 < 2 else 0.0)
                for k, part in enumerate(
                    (
                        rows.on_inputs,
                        rows.input_sizes,
                        rows.input_errors,
                        rows.on_pairs,
                        rows.pair_sizes,
                        rows.pair_errors,
                    )
                )
            ),
            rows.places,
        )
    t, d = rng.uniform(0.5, 2.0, pairs), rng.uniform(0.5, 2.0, inputs)
    matrix, radius = judge._enclosed(rows, t, d)
    middle = (judge._low + judge._high) / 2
    reach = np.maximum(judge._high - middle, middle - judge._low)
    sums = gamma(inputs + 32)
    c, c_size, c_off = rows.on_inputs[0], rows.input_sizes[0], rows.input_errors[0]
    constant = sum(
        c[k] * middle[k] + c[k] ** 2 / (4 * d[k]) + d[k] * reach[k] ** 2 for k in range(inputs)
    )
    spread = sum(
        c_size[k] * abs(middle[k]) + c_size[k] ** 2 / d[k] + d[k] * reach[k] ** 2
        for k in range(inputs)
    )
    slip = sum(c_off[k] * abs(middle[k]) + c_off[k] * c_size[k] / d[k] for k in range(inputs))
    assert matrix[0, 0] == pytest.approx(4 * (3.0 - constant))
    stated = 4 * (slip + sums * spread) + sums * (3.0 + abs(constant))
    assert radius[0, 0] == pytest.approx(stated * (1 + 1e-6), rel=1e-11, abs=0)
    for i in range(pairs):
        a, size, off = (
            part[1 + i] for part in (rows.on_inputs, rows.input_sizes, rows.input_errors)
        )
        right = rows.on_pairs[0, i] + t[i] * sum(
            a[k] * (c[k] / (2 * d[k]) + middle[k]) for k in range(inputs)
        )
        assert matrix[0, 1 + i] == matrix[1 + i, 0] == pytest.approx(right)
        shift = c_size / (2 * d) + abs(middle)
        stated = (
            rows.pair_errors[0, i]
            + sums * rows.pair_sizes[0, i]
            + t[i]
            * sum(
                off[k] * shift[k] + size[k] * c_off[k] / d[k] + sums * size[k] * shift[k]
                for k in range(inputs)
            )
        )
        assert radius[0, 1 + i] == radius[1 + i, 0]
        assert radius[0, 1 + i] == pytest.approx(stated * (1 + 1e-6), rel=1e-11, abs=0)
        for j in range(pairs):
            b, other, wrong = (
                part[1 + j] for part in (rows.on_inputs, rows.input_sizes, rows.input_errors)
            )
            entry = (t[i] if i == j else 0.0) - t[i] * rows.on_pairs[1 + i, j] / 2
            entry -= t[j] * rows.on_pairs[1 + j, i] / 2
            entry -= t[i] * t[j] * sum(a[k] * b[k] / d[k] for k in range(inputs)) / 4
            assert matrix[1 + i, 1 + j] == matrix[1 + j, 1 + i] == pytest.approx(entry)
            stated = sums * t[i] if i == j else 0.0
            for p, q, weight in ((i, j, t[i]), (j, i, t[j])):
                part = rows.pair_errors[1 + p, q] + sums * rows.pair_sizes[1 + p, q]
                stated += weight * part / 2
            for k in range(inputs):
                part = off[k] * other[k] + size[k] * wrong[k] + sums * size[k] * other[k]
                stated += t[i] * t[j] * part / d[k] / 4
            found = radius[1 + i, 1 + j]
            assert found == pytest.approx(stated * (1 + 1e-6), rel=1e-11, abs=0)


def test_the_radius_of_nothing() -> None:
    """Neither the reach of a box nor the radius is ever 0."""
    judge = prover(region(1), claim=0.0)
    judge._low = judge._high = np.zeros(2)
    zero = np.zeros((2, 2))
    rows = _Rows(zero, zero, zero, zero[:, :1], zero[:, :1], zero[:, :1], np.arange(1))
    _, radius = judge._enclosed(rows, np.zeros(1), np.ones(2))
    assert radius.tolist() == [[module._TINY] * 2] * 2
    judge._low, judge._high = np.full(2, -1.0), np.full(2, 1.0)
    matrix, _ = judge._enclosed(rows, np.zeros(1), np.ones(2))
    assert matrix[0, 0] == -4 * 2 * (1 + 4 * HALF_ULP) ** 2


def test_the_reach_of_a_box_is_that_of_its_further_end() -> None:
    """Its middle is rounded, so that one end may be further."""
    judge, rng = prover(region(1), claim=0.0), np.random.default_rng(7)
    zero = np.zeros((2, 2))
    rows = _Rows(zero, zero, zero, zero[:, :1], zero[:, :1], zero[:, :1], np.arange(1))
    lows = 0
    for _ in range(60):
        low = rng.normal(size=2)
        judge._low, judge._high = low, low + rng.random(2)
        matrix, _ = judge._enclosed(rows, np.zeros(1), np.ones(2))
        middle = (judge._low + judge._high) / 2
        reach = np.maximum(judge._high - middle, middle - judge._low) * (1 + 4 * HALF_ULP)
        assert matrix[0, 0] == -4 * (reach**2).sum()
        lows += (middle - judge._low > judge._high - middle).any()
    assert lows


def test_a_network_without_neurons() -> None:
    """Its lead is linear in the changes, and there are no pairs."""
    weight = np.random.default_rng(6).normal(size=(3, 4))
    network = Network(((Dense(weight, np.zeros(3)),),), (1, 2, 2))
    judge = prover(Region(0, quick_bounds(network, BALL), []))
    rows = judge._composed(judge._slopes(Decisions()))
    assert rows.places.tolist() == []
    np.testing.assert_allclose(rows.on_inputs, (weight[0] - weight[2])[None, [0, 2]])
    assert rows.on_pairs.shape == (1, 0)


@pytest.mark.parametrize(
    ("matrix", "radius", "expected"),
    [
        ([[1.0, 0.999], [0.999, 1.0]], 0.0, True),
        ([[1.0, 1.001], [1.001, 1.0]], 0.0, False),
        ([[1.0, 0.0], [0.0, 1.0]], 0.49, True),
        ([[1.0, 0.0], [0.0, 1.0]], 0.51, False),
        ([[1.0, 0.0], [0.0, -1.0]], 0.0, False),
        ([[1.0, 0.0], [0.0, 0.0]], 0.0, False),
        ([[1.0, np.nan], [np.nan, 1.0]], 0.0, False),
        ([[1.0, 0.0], [0.0, np.inf]], 0.0, False),
        ([[1.0, 0.0], [0.0, 1.0]], np.nan, False),
        ([[1.0, 0.0], [0.0, 1.0]], np.inf, False),
        ([[1e-100, 0.9], [0.9, 1e100]], 0.0, True),
        ([[1e-100, 1.1], [1.1, 1e100]], 0.0, False),
        ([[1e-100, 0.0], [0.0, 1e-100]], 1e-101, True),
        ([[1e-100, 0.0], [0.0, 1e-100]], 1e-99, False),
    ],
)
def test_definite_within_a_radius(matrix: Any, radius: float, expected: bool) -> None:
    given = np.array(matrix)
    with np.errstate(all="ignore"):
        assert is_definite(given, np.full(given.shape, radius)) is expected


def test_what_is_judged_is_scaled_and_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """By powers of two, and on the diagonal by the sum of the radii of its row."""
    seen = []
    monkeypatch.setattr(module, "Entries", SimpleNamespace(of=lambda matrix: matrix))
    monkeypatch.setattr(module, "is_above", lambda matrix, least: seen.append((matrix, least)))
    matrix = np.array([[5.0, 1.0, 0.25], [1.0, 0.75, 0.5], [0.25, 0.5, 40.0]])
    radius = np.array([[1e-3, 2e-3, 3e-3], [2e-3, 5e-3, 7e-3], [3e-3, 7e-3, 11e-3]])
    is_definite(matrix, radius)
    ((found, least),) = seen
    factors = np.array([0.5, 1.0, 0.125])
    expected = matrix * np.outer(factors, factors)
    sums = (radius * np.outer(factors, factors)).sum(axis=1) * (1 + 1e-9)
    diagonal = np.nextafter(expected.diagonal() - sums, -np.inf)
    assert least == 0.0
    assert found.diagonal().tolist() == diagonal.tolist()
    off = ~np.eye(3, dtype=np.bool_)
    assert found[off].tolist() == expected[off].tolist()
