"""A spectral bound, part by part, against matrices that are multiplied out."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from vhagar_check import spectral_prover as module
from vhagar_check.layers import TINY, UNDERFLOW, Dense, Network, gamma
from vhagar_check.pieces import Domain, Piece
from vhagar_check.pixelwise import linf_ball
from vhagar_check.spectral import FREE, ON, STILL, Change, SpectralRegion, _change
from vhagar_check.spectral_prover import SpectralProver

Matrix = np.ndarray
DOMAIN = Domain((1, 1, 4), 0.0, 1.0)
BALL = linf_ball(DOMAIN, 0.25, np.array([True, True, False, True]))
STATUS = ([FREE, ON, FREE, STILL, FREE], [FREE, FREE, ON])
PAIRS = ((0, 1), (0, 2), (1, 2))


def dense(weight: Matrix) -> Dense:
    return Dense(weight, np.zeros(len(weight)))


def drawn(seed: int = 0, scale: float = 1.0) -> list[list[Matrix]]:
    """Two layers of units; two linear layers in a row before the first."""
    rng = np.random.default_rng(seed)
    sizes = (((3, 4), (5, 3)), ((3, 5),), ((2, 3),))
    return [[scale * rng.normal(size=size) for size in stage] for stage in sizes]


def change_of(middle: bool) -> Change:
    found = _change(BALL, [0, 1, 3], False)
    return Change(
        found.pixels,
        np.array([0.25, 0.5, 0.125]),
        np.array([0.5, -0.25, 0.0, 0.125]) if middle else None,
        np.array([0.75, 0.75, 0.0, 0.25]),
    )


class Whole:
    """A region with scalings, and all of its matrices in full."""

    def __init__(self, weights: list[list[Matrix]], middle: bool = False, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.weights, self.change = weights, change_of(middle)
        self.status = [np.array(part, dtype=np.uint8) for part in STATUS]
        self.layers = [np.exp(rng.normal(size=3)), np.exp(rng.normal(size=2))]
        self.inputs = [np.exp(rng.normal(size=self.change.count)) for _ in STATUS]

    def block(self, i: int, j: int) -> Matrix:
        """Between the free units of two layers, in which slopes have their middle."""
        if i:
            found = np.eye(len(self.status[i - 1]))[:, self.status[i - 1] == FREE]
        else:
            found = np.zeros((4, len(self.change.pixels)))
            found[self.change.pixels, np.arange(len(self.change.pixels))] = self.change.radius
            if self.change.middle is not None:
                found = np.hstack([found, self.change.middle[:, None]])
        for k in range(i, j):
            for weight in self.weights[k]:
                found = weight @ found
            if k < j - 1:
                found = self.middles(k)[:, None] * found
        return 0.5 * found[self.status[j - 1] == FREE]

    def middles(self, layer: int) -> Matrix:
        return np.array([{STILL: 0.0, ON: 1.0, FREE: 0.5}[s] for s in self.status[layer].tolist()])

    def scaled(self, i: int, j: int) -> Matrix:
        before = self.layers[i - 1] if i else self.inputs[j - 1]
        return np.asarray(self.layers[j - 1][:, None] * self.block(i, j) / before)

    def squares(self, more: float = 1e-9) -> Matrix:
        norms = [np.linalg.norm(self.scaled(i, j), 2) for i, j in PAIRS]
        return np.array(norms) ** 2 * (1 + more)

    def prover(self, squares: Matrix | None = None, piece: Piece = BALL) -> SpectralProver:
        stages = tuple(tuple(map(dense, stage)) for stage in self.weights)
        chosen = self.squares() if squares is None else squares
        network = Network(stages, (1, 1, 4))
        return SpectralProver(
            SpectralRegion(
                0, piece, network, self.change, self.status, chosen, self.layers, self.inputs
            )
        )


@pytest.mark.parametrize("middle", [False, True])
def test_blocks_forwards_and_backwards(middle: bool) -> None:
    whole = Whole(drawn(), middle)
    prover = whole.prover()
    for i, j in PAIRS:
        block = whole.block(i, j)
        rows, columns = block.shape
        np.testing.assert_allclose(prover._push(np.eye(columns), i, j, False), block.T, atol=1e-12)
        np.testing.assert_allclose(prover._pull(np.eye(rows), i, j, False), block, atol=1e-12)
    positive = Whole([[abs(w) for w in stage] for stage in whole.weights], middle)
    if positive.change.middle is not None:
        positive.change = Change(
            whole.change.pixels, whole.change.radius, abs(positive.change.middle), whole.change.size
        )
    for i, j in PAIRS:
        block = positive.block(i, j)
        rows, columns = block.shape
        np.testing.assert_allclose(prover._push(np.eye(columns), i, j, True), block.T, atol=1e-12)
        np.testing.assert_allclose(prover._pull(np.eye(rows), i, j, True), block, atol=1e-12)


@pytest.mark.parametrize("entries", [2**22, 8, 5, 1])
def test_gram_matrices(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower triangles, whatever is computed at once, on the smaller side."""
    monkeypatch.setattr(module, "_BATCH_ENTRIES", entries)
    whole = Whole(drawn(), True)
    prover = whole.prover()
    for i, j in PAIRS:
        left = whole.layers[j - 1]
        right = 1 / (whole.layers[i - 1] if i else whole.inputs[j - 1])
        scaled = whole.scaled(i, j)
        for by_rows, gram in ((True, scaled @ scaled.T), (False, scaled.T @ scaled)):
            if len(gram) != min(len(left), len(right)):
                continue
            found = prover._gram(i, j, left, right, by_rows)
            assert found.order == len(gram)
            assert (found.column <= found.row).all()
            assert len(set(zip(found.row.tolist(), found.column.tolist(), strict=True))) == len(
                found.row
            )
            full = np.zeros_like(gram)
            full[found.row, found.column] = found.value
            np.testing.assert_allclose(full, np.tril(gram), atol=1e-10)
    units = list(module._unit_rows(5, 3))
    assert np.concatenate([rows for _, rows in units]).tolist() == np.eye(5).tolist()
    assert [begin for begin, _ in units] == list(range(0, 5, max(1, entries // 3)))


@pytest.mark.parametrize("middle", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_norms_are_proved_up_to_rounding_and_no_further(seed: int, middle: bool) -> None:
    whole = Whole(drawn(seed), middle, seed)
    prover = whole.prover()
    for (i, j), square in zip(PAIRS, whole.squares(0.0), strict=True):
        assert prover._is_norm(i, j, square * (1 + 1e-10))
        assert not prover._is_norm(i, j, square * (1 - 1e-12))
        assert not prover._is_norm(i, j, 0.0)


def test_a_simple_bound_needs_no_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row sums times column sums."""
    whole = Whole(drawn())
    prover = whole.prover()
    sizes = []
    for i, j in PAIRS:
        left = whole.layers[j - 1]
        right = 1 / (whole.layers[i - 1] if i else whole.inputs[j - 1])
        size = prover._size(i, j, left, right)
        absolute = abs(Whole([[abs(w) for w in s] for s in whole.weights]).block(i, j))
        absolute = left[:, None] * absolute * right
        expected = absolute.sum(axis=1).max() * absolute.sum(axis=0).max()
        assert expected <= size <= expected * (1 + 1e-8)
        sizes.append(size)
    monkeypatch.setattr(SpectralProver, "_gram", None)
    for (i, j), size in zip(PAIRS, sizes, strict=True):
        assert prover._is_norm(i, j, size)
        with pytest.raises(TypeError):
            prover._is_norm(i, j, np.nextafter(size, 0))


def test_units_that_see_nothing_have_a_norm() -> None:
    """Rows of zeros: only the diagonal is left of the matrix there."""
    weights = drawn()
    weights[0][1][0] = 0.0
    weights[1][0][1] = 0.0
    whole = Whole(weights)
    prover = whole.prover()
    for (i, j), square in zip(PAIRS, whole.squares(0.0), strict=True):
        assert prover._is_norm(i, j, square * (1 + 1e-10))
        assert not prover._is_norm(i, j, square * (1 - 1e-12))
    nothing = Whole([[0 * w for w in stage] for stage in weights])
    assert nothing.prover()._is_norm(0, 1, 2 * TINY)
    assert not nothing.prover()._is_norm(0, 1, TINY / 2)


def test_layers_without_free_units_add_nothing() -> None:
    whole = Whole(drawn())
    whole.status[1] = np.array([ON, ON, STILL], dtype=np.uint8)
    whole.layers[1] = np.zeros(0)
    first = np.linalg.norm(whole.scaled(0, 1), 2) ** 2 * (1 + 1e-9)
    prover = whole.prover(np.array([first, 0.0, 0.0]))
    assert prover._reach[0] == pytest.approx(math.sqrt(first) * np.linalg.norm(whole.inputs[0]))
    assert prover._reach[1] == 0.0
    assert math.isfinite(prover.upper(0, 1))


@pytest.mark.parametrize("middle", [False, True])
def test_reaches_and_bounds_are_those_of_the_formula(middle: bool) -> None:
    whole = Whole(drawn(), middle)
    squares = whole.squares(1e-6)
    prover = whole.prover(squares)
    to_first, to_second, between = np.sqrt(squares)
    first = to_first * np.linalg.norm(whole.inputs[0])
    second = to_second * np.linalg.norm(whole.inputs[1]) + between * first
    for reach, expected in zip(prover._reach, (first, second), strict=True):
        assert expected <= reach <= expected * (1 + 1e-10)
    for source, target in ((0, 1), (1, 0)):
        lead = np.zeros(2)
        lead[source], lead[target] = 1.0, -1.0
        on_second = lead @ whole.weights[2][0]
        on_first = (on_second * whole.middles(1)) @ whole.weights[1][0]
        row = on_first * whole.middles(0)
        for weight in reversed(whole.weights[0]):
            row = row @ weight
        expected = float(BALL.support(row[None], -row[None])[0])
        expected += np.linalg.norm(on_second[:2] / whole.layers[1]) * prover._reach[1]
        free = whole.status[0] == FREE
        expected += np.linalg.norm(on_first[free] / whole.layers[0]) * prover._reach[0]
        upper = prover.upper(source, target)
        assert expected < upper <= expected * (1 + 1e-9)


def test_every_norm_must_be_proved() -> None:
    whole = Whole(drawn())
    for k in range(3):
        squares = whole.squares()
        squares[k] *= 1 - 1e-6
        prover = whole.prover(squares)
        assert prover._reach == [math.inf, math.inf]
        assert prover.upper(0, 1) == math.inf


def test_numbers_that_are_too_large_prove_nothing() -> None:
    with np.errstate(all="ignore"):
        for scale in (1e200, 1e100):
            whole = Whole(drawn(0, scale))
            assert whole.prover(np.full(3, 1e300)).upper(0, 1) == math.inf


def test_a_bound_is_never_negative() -> None:
    """Where the change of the input lowers the lead in any case."""
    weights = [[np.zeros_like(w) for w in stage] for stage in drawn()]
    prover = Whole(weights).prover(np.full(3, 1e-200))
    assert 0 <= prover.upper(0, 1) < 1e-90
    darker = linf_ball(DOMAIN, 0.25, np.array([True] * 4))
    assert Whole(weights).prover(np.full(3, 1e-200), darker).span is None


def test_rounding_errors_are_counted() -> None:
    """As many roundings as there are terms on the way, there and back."""
    whole = Whole(drawn())
    prover = whole.prover()
    terms = sum(weight.shape[1] + 4 for stage in whole.weights for weight in stage)
    assert prover._terms >= terms + 2 * DOMAIN.size + 64
    upper = prover.upper(0, 1)
    prover._terms = 10**9
    room = gamma(10**9)
    assert room > 1e-8
    assert prover.upper(0, 1) > upper * (1 + room / 100)


@pytest.mark.parametrize("values", [[3.0, 4.0], [3e-200, 4e-200], [3e-310, 4e-310], [3e200, 4e200]])
def test_lengths_of_any_size(values: list[float]) -> None:
    """Squares underflow, or overflow, where the length does not."""
    exact = sum(Fraction(value) ** 2 for value in values)
    found = module._length(np.array(values))
    assert Fraction(found) ** 2 >= exact
    assert found <= math.hypot(*values) * (1 + 1e-11)
    assert module._length(np.zeros(3)) == 0.0
    assert module._length(np.zeros(0)) == 0.0
    assert module._length(np.array([1.0, math.inf])) == math.inf
    assert math.isnan(module._length(np.array([math.nan, 1.0])))


def single(weights: list[float], last: float, square: float) -> SpectralProver:
    """One pixel, one free unit behind several layers of one neuron, and a score."""
    domain = Domain((1,), 0.0, 1.0)
    ball = linf_ball(domain, 0.25, np.array([True]))
    one = np.ones(1)
    layers = tuple(dense(np.array([[weight]])) for weight in weights)
    network = Network((layers, (dense(np.array([[last], [0.0]])),)), (1,))
    status = [np.array([FREE], dtype=np.uint8)]
    change = _change(ball, [0], False)
    return SpectralProver(
        SpectralRegion(0, ball, network, change, status, np.array([square]), [one], [one])
    )


def test_underflow_in_a_norm_is_counted() -> None:
    """A product that vanishes in float64 is multiplied by huge weights afterwards."""
    weights = [1e-33] * 10 + [1e30] * 10
    exact = math.prod(map(Fraction, weights)) / 8  # half of the radius of 1/4
    for square in (1e-270, 1e-100, float(exact**2) / 2):
        assert Fraction(square) < exact**2
        assert not single(weights, 1.0, square)._is_norm(0, 1, square)


def test_underflow_of_squares_is_counted() -> None:
    """Coefficients whose squares vanish, and a reach that is huge."""
    prover = single([1e150], 1e-170, (1e150 / 8) ** 2 * 1.0001)
    assert math.isfinite(prover._reach[0])
    assert prover.upper(0, 1) >= 1e-20 / 4


@pytest.mark.parametrize(
    "exponents", [*itertools.permutations((-200, -200, 250)), (-160, -160, 300)]
)
def test_underflow_in_a_gram_matrix_is_counted(exponents: tuple[int, ...]) -> None:
    weights = [10.0**exponent for exponent in exponents]
    prover = single(weights, 1.0, 1.0)
    exact = (math.prod(map(Fraction, weights)) / 8) ** 2
    one = np.ones(1)
    with np.errstate(all="ignore"):
        lost = prover._lost(0, 1, one, one, True)
        found = prover._gram(0, 1, one, one, True).value
        assert lost >= UNDERFLOW
        value = Fraction(float(found[0])) if len(found) else Fraction(0)
        assert not math.isfinite(lost) or abs(value - exact) <= Fraction(lost) + exact / 2**40
        other = prover._lost(0, 1, one, one, False)
        assert not math.isfinite(other) or abs(value - exact) <= Fraction(other) + exact / 2**40
        if math.isfinite(lost):
            assert not prover._is_norm(0, 1, float(exact) / 2)


class Visible:
    """Allowances that are large enough to be seen: each must be where the formula has it."""

    UNDERFLOW = 2.0**-10
    TINY = 2.0**-9
    SLACK = 2.0**-8

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.middle = True
        self.whole = Whole(drawn(), True)
        squares = self.whole.squares(0.5)
        self.before = self.whole.prover(squares)
        monkeypatch.setattr(module, "UNDERFLOW", self.UNDERFLOW)
        monkeypatch.setattr(module, "TINY", self.TINY)
        monkeypatch.setattr(module, "_SLACK", self.SLACK)
        monkeypatch.setattr(module, "gamma", lambda terms: terms * 2.0**-14)
        self.prover = self.before

    def forwards(self, rows: Matrix, i: int, j: int, lost: float) -> Matrix:
        """A row in absolute values, to every product of which `lost` was added."""
        change = self.whole.change
        if i:
            values = np.zeros(len(self.whole.status[i - 1]))
            values[self.whole.status[i - 1] == FREE] = rows
        else:
            values = np.zeros(4)
            values[change.pixels] = rows[: len(change.pixels)] * change.radius
            assert change.middle is not None
            values = values + rows[-1] * abs(change.middle) + lost
        for k in range(i, j):
            for weight in self.whole.weights[k]:
                values = abs(weight) @ values + lost * (max(weight.shape) + 1)
            if k < j - 1:
                values = values * self.whole.middles(k)
        return np.asarray(values[self.whole.status[j - 1] == FREE] / 2)

    def backwards(self, rows: Matrix, i: int, j: int, lost: float) -> Matrix:
        change = self.whole.change
        values = np.zeros(len(self.whole.status[j - 1]))
        values[self.whole.status[j - 1] == FREE] = rows / 2
        for k in range(j - 1, i - 1, -1):
            for weight in reversed(self.whole.weights[k]):
                values = values @ abs(weight) + lost * (max(weight.shape) + 1)
            if k > i:
                values = values * self.whole.middles(k - 1)
        if i:
            return np.asarray(values[self.whole.status[i - 1] == FREE])
        assert change.middle is not None
        parts = [values[change.pixels] * change.radius, [values @ abs(change.middle)]]
        return np.concatenate(parts) + lost * 4

    def scalings(self, i: int, j: int) -> tuple[Matrix, Matrix]:
        right = self.whole.layers[i - 1] if i else self.whole.inputs[j - 1]
        return self.whole.layers[j - 1], 1 / right


def nearly(found: float, expected: float, more: float = 0.12) -> bool:
    """At least what is expected, and little more: bounds are themselves rounded up."""
    return expected * (1 - 1e-12) <= found <= expected * (1 + more)


@pytest.mark.parametrize("pair", PAIRS)
def test_what_underflow_takes_is_added_everywhere(
    pair: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    visible, (i, j) = Visible(monkeypatch), pair
    left, right = visible.scalings(i, j)
    u = 4 * visible.UNDERFLOW
    there = visible.backwards(np.full(len(left), u), i, j, u) * right + u
    back = visible.forwards(there * right + u, i, j, u) * left
    assert nearly(visible.prover._lost(i, j, left, right, True), back.max() + u)
    there = visible.forwards(np.full(len(right), u), i, j, u) * left + u
    back = visible.backwards(there * left + u, i, j, u) * right
    assert nearly(visible.prover._lost(i, j, left, right, False), back.max() + u)
    u = visible.UNDERFLOW
    rows = visible.forwards(right, i, j, 0.0) + visible.forwards(0 * right, i, j, u) + u
    columns = visible.backwards(left, i, j, 0.0) + visible.backwards(0 * left, i, j, u) + u
    size = ((rows * left).max() + u) * ((columns * right).max() + u) + visible.TINY
    assert nearly(visible.prover._size(i, j, left, right), size, 0.05)


@pytest.mark.parametrize("pair", PAIRS)
def test_what_a_gram_matrix_must_exceed(
    pair: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The errors of its entries, of their number, and of the subtraction on the diagonal."""
    visible, (i, j) = Visible(monkeypatch), pair
    monkeypatch.setattr(module, "HALF_ULP", 2.0**-7)
    asked: list[float] = []
    monkeypatch.setattr(module, "is_above", lambda _, least: bool(asked.append(least)))
    left, right = visible.scalings(i, j)
    prover, square = visible.prover, 2.0**-4
    assert not prover._is_norm(i, j, square)
    order, by_rows = min(len(left), len(right)), len(left) <= len(right)
    lost = order * prover._lost(i, j, left, right, by_rows) + visible.TINY
    room = 2 * prover._terms * 2.0**-14 * prover._size(i, j, left, right)
    assert asked == [pytest.approx(room + lost + 4 * 2.0**-7 * square, rel=1e-9)]


def test_everything_that_a_bound_allows_for(monkeypatch: pytest.MonkeyPatch) -> None:
    visible = Visible(monkeypatch)
    whole, prover = visible.whole, visible.prover
    prover._reach = [3.0, 5.0]
    lead = np.array([1.0, -1.0])
    rows = []
    for values, size, lost in ((lead, False, 0.0), (abs(lead), True, 0.0), (0 * lead, True, 1.0)):
        found, taken = values, []
        for k in (2, 1, 0):
            for weight in reversed(whole.weights[k]):
                found = found @ (abs(weight) if size else weight)
                found = found + lost * visible.UNDERFLOW * (max(weight.shape) + 1)
            if k:
                taken.append(found[whole.status[k - 1] == FREE])
                found = found * whole.middles(k - 1)
        rows.append([*taken, found])
    share = prover._terms * 2.0**-14
    errors = [share * size + lost + visible.TINY for _, size, lost in zip(*rows, strict=True)]
    row = rows[0][2]
    linear = float(BALL.support(row[None], -row[None])[0])
    total = float((errors[2] * whole.change.size).sum())
    for k, reach in ((1, 5.0), (0, 3.0)):
        largest = (abs(rows[0][1 - k]) + errors[1 - k]) / whole.layers[k]
        total += float(np.linalg.norm(largest)) * math.sqrt(1 + visible.SLACK) * reach
    expected = total * (1 + visible.SLACK) + linear + abs(linear) * visible.SLACK
    assert nearly(prover.upper(0, 1), expected, 1e-3)
    monkeypatch.setattr(SpectralProver, "_is_norm", lambda *_: True)
    reach = whole.prover(whole.squares(0.5))._reach
    first, second, between = np.sqrt(whole.squares(0.5)) * (1 + visible.SLACK)
    one, two = (np.linalg.norm(part) * math.sqrt(1 + visible.SLACK) for part in whole.inputs)
    assert reach == pytest.approx([first * one, second * two + between * first * one], rel=1e-9)


def test_constants_are_what_the_formula_needs() -> None:
    """More than the roundings of a few sums, and no more than a bound can spare."""
    assert 2.0**-45 <= module._SLACK <= 2.0**-35
    assert module._BATCH_ENTRIES >= 2**16
    whole = Whole(drawn())
    terms = sum(max(weight.shape) + 4 for stage in whole.weights for weight in stage)
    assert whole.prover()._terms == terms + 2 * DOMAIN.size + 64
    assert whole.prover()._widest() == 5
    flat = Whole([[drawn()[0][0], drawn()[0][1]], *drawn()[1:]])
    flat.weights[1] = [np.ones((3, 5))]
    assert flat.prover(np.full(3, 1e3))._widest() == 5


def test_gram_matrices_on_the_side_of_the_inputs() -> None:
    """One pixel that changes, and several free units behind it."""
    whole = Whole(drawn())
    found = whole.change
    whole.change = Change(found.pixels[:1], found.radius[:1], None, found.size)
    whole.inputs = [part[:1] for part in whole.inputs]
    scaled = whole.layers[0][:, None] * whole.block(0, 1) / whole.inputs[0]
    prover = whole.prover(np.full(3, 1e6))
    gram = prover._gram(0, 1, whole.layers[0], 1 / whole.inputs[0], False)
    assert gram.order == 1
    assert gram.value == pytest.approx([(scaled**2).sum()])
    square = float((scaled**2).sum())
    assert prover._is_norm(0, 1, square * (1 + 1e-10))
    assert not prover._is_norm(0, 1, square * (1 - 1e-12))


def test_a_layer_whose_slopes_are_all_known_is_passed() -> None:
    """Nothing deviates there: the layer behind it depends on the input alone."""
    whole = Whole(drawn())
    whole.status[0] = np.array([ON, ON, STILL, ON, ON], dtype=np.uint8)
    whole.layers[0] = np.zeros(0)
    square = np.linalg.norm(whole.scaled(0, 2), 2) ** 2 * (1 + 1e-9)
    prover = whole.prover(np.array([0.0, square, 0.0]))
    assert prover._reach[0] == 0.0
    expected = math.sqrt(square) * float(np.linalg.norm(whole.inputs[1]))
    assert prover._reach[1] == pytest.approx(expected)
