"""The twin dual bound in float64: its value, and all that it adds for rounding."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from vhagar_check.exact import Exact
from vhagar_check.formula import Added, Bounds, Decisions
from vhagar_check.hexagon import Hexagons, quick_multipliers
from vhagar_check.layers import HALF_ULP, TINY, UNDERFLOW, Conv, Dense, Network, gamma
from vhagar_check.neuron_bounds import quick_bounds
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.rational import exact_upper

SIZES = (3, 4, 3, 2)
(PIECE,) = pieces("linf(0.25)", Domain((3,), 0.0, 1.0), True)
(CLIPPED,) = pieces("brightness([0.25,0.5])", Domain((3,), 0.0, 1.0), True)


def bounds_of(seed: int, linear: bool = False, scale: float = 1.0, piece=PIECE) -> Bounds:
    """A random network of two ReLU layers, and hexagons that need not be those of it."""
    rng = np.random.default_rng(seed)
    stages = tuple(
        (Dense(scale * rng.normal(size=(out, into)), scale * rng.normal(size=out)),)
        for into, out in itertools.pairwise(SIZES)
    )
    mask = np.array([False, True, False, True])
    found = Bounds(Network(stages, (3,), (mask, None) if linear else ()), piece)
    for k, size in enumerate(SIZES[1:-1]):
        s, t = rng.normal(size=(2, size))
        middle = np.repeat([s, t, t - s], 2, axis=0)
        around = rng.exponential(size=(6, size)) * np.array([[-1], [1]] * 3)
        own = mask if linear and k == 0 else None
        found.append(Hexagons(*(middle + around), 1.0, own).tightened())
    return found


def tables(seed: int, rows: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng([seed, 1])
    return [tuple(rng.normal(size=(2, rows, size))) for size in SIZES[1:-1]]


CASES = [
    Decisions(),
    Decisions({(1, 0): {0: 1}, (0, 2): {1: -1}}),
    Decisions({(1, 2): {0: -1, 1: -1}}),
]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("linear", [False, True])
def test_the_bound_is_the_exact_one_and_a_little_more(seed: int, linear: bool) -> None:
    own, rng = bounds_of(seed, linear), np.random.default_rng([seed, 2])
    a, b = rng.normal(size=(2, 3, 2))
    given = tables(seed, 3)

    def choose(row: slice):
        def found(layer: int, a: np.ndarray, b: np.ndarray):
            p, q = (part[row].copy() for part in given[layer])
            if linear and layer == 0:
                p[:, 1], q[:, 1] = a[:, 1], b[:, 1]  # one linear unit passes, the other pays
            return p, q

        return found

    values, widths = own.upper(2, a, b, choose(slice(0, 3)), CASES)
    for k, case in enumerate(CASES):
        starts = Exact.of(a[k]), Exact.of(b[k])
        exact = exact_upper(own, 2, *starts, choose(slice(k, k + 1)), case)
        if exact == -np.inf:
            assert values[k] == -np.inf
            continue
        assert isinstance(exact, Fraction)
        assert exact <= Fraction(float(values[k])) <= exact + Fraction(1, 10**11)
        assert Fraction(float(values[k] - widths[k])) <= exact


def test_decisions_that_leave_no_point() -> None:
    own = bounds_of(1)
    sides = np.array([[1.0, 2, 1, 2, -1, 1]] * 4).T
    own.replace(0, Hexagons(*sides, 1.0))
    zero = np.zeros((2, 2))
    nothing = lambda layer, a, b: (0 * a, 0 * b)  # noqa: E731
    cases = [Decisions({(0, 1): {0: -1}}), Decisions({(0, 1): {0: 1}})]
    values, _ = own.upper(2, zero, zero, nothing, cases)
    assert values[0] == -np.inf
    assert 0 <= values[1] < 1e-200


@pytest.mark.parametrize("value", [1e250, np.inf, np.nan])
def test_multipliers_that_overflow_prove_nothing(value: float) -> None:
    own = bounds_of(1, scale=1e100)
    huge = lambda layer, a, b: (0 * a + value, 0 * b + value)  # noqa: E731
    found, _ = own.upper(2, np.ones((1, 2)), np.ones((1, 2)), huge)
    assert found.tolist() == [np.inf]


def room_of(
    own: Bounds, a: np.ndarray, b: np.ndarray, given: list, added: Added | None = None
) -> tuple[float, float]:
    """The bound without its allowance for rounding, and that allowance, term by term."""
    constant, terms = 0.0, list[float]()
    for k in reversed(range(len(own.network.stages))):
        size = own.corners[k - 1].magnitude if k else np.full(3, own.piece.magnitude)
        sizes = [size]
        for layer in own.network.stages[k]:
            sizes.append((abs(layer.weight) @ sizes[-1] + abs(layer.bias)) * (1 + 1e-9))
        for layer, size in zip(reversed(own.network.stages[k]), sizes[-2::-1], strict=True):
            both = abs(a) + abs(b)
            constant += float((a + b) @ layer.bias)
            terms += [
                gamma(layer.out_size + 4) * float(both @ abs(layer.bias)),
                gamma(2 * layer.terms + 8) * float(both @ abs(layer.weight) @ size),
                HALF_ULP * abs(constant),
            ]
            a, b = a @ layer.weight, b @ layer.weight
        if k:
            p, q = (part[0] for part in given[k - 1])
            corners = own.corners[k - 1]
            constant += float(corners.offset(a[None], b[None], p[None], q[None]).sum())
            size = (abs(a) + abs(b) + abs(p) + abs(q)) @ corners.magnitude
            terms += [gamma(2 * len(a) + 48) * float(size), HALF_ULP * abs(constant)]
            a, b = p, q
            if added is not None and added.layer == k - 1:
                parts = (p, q, added.on_s[0], added.on_t[0])
                terms.append(gamma(4) * float(sum(map(abs, parts)) @ corners.magnitude))
                a, b = p + added.on_s[0], q + added.on_t[0]
    total = constant + float(own.piece.support(a[None], b[None])[0])
    return total, 1.001 * sum(terms) + 8 * HALF_ULP * (abs(constant) + abs(total)) + TINY


def in_steps(own: Bounds, seed: int) -> Bounds:
    """The same bounds, of a network whose middle stage has two layers."""
    rng = np.random.default_rng([seed, 4])
    first, _, last = own.network.stages
    steps = tuple(Dense(rng.normal(size=(o, i)), rng.normal(size=o)) for i, o in ((4, 5), (5, 3)))
    found = Bounds(Network((first, steps, last), (3,)), own.piece)
    for hexagons in own.hexagons:
        found.append(hexagons)
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3])
@pytest.mark.parametrize("steps", [False, True])
def test_every_rounding_is_paid_for(seed: int, scale: float, steps: bool) -> None:
    own, rng = bounds_of(seed, scale=scale), np.random.default_rng([seed, 3])
    own = in_steps(own, seed) if steps else own
    a, b = rng.normal(size=(2, 1, 2))
    given = tables(seed, 1)
    (value,), (width,) = own.upper(2, a, b, lambda layer, a, b: given[layer])
    total, room = room_of(own, a[0], b[0], given)
    assert width == pytest.approx(2 * room, rel=1e-11, abs=0)
    assert value - total == pytest.approx(room, rel=0.1, abs=0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("layer", [0, 1])
def test_functions_of_pre_activations_are_added(seed: int, layer: int) -> None:
    """Where their layer is, and with the rounding of the sums."""
    own, rng = bounds_of(seed), np.random.default_rng([seed, 5])
    a, b = rng.normal(size=(2, 1, 2))
    on_s, on_t = rng.normal(size=(2, 1, SIZES[layer + 1]))
    added, given = Added(layer, on_s, on_t), tables(seed, 1)
    choose = lambda layer, a, b: given[layer]  # noqa: E731
    (value,) = own.upper_with(added, a, b, choose, [Decisions()])
    total, room = room_of(own, a[0], b[0], given, added)
    assert value - total == pytest.approx(room, rel=0.1, abs=0)
    (same,), (width,) = own._upper(2, a, b, choose, [Decisions()], added)
    assert same == value
    assert width == pytest.approx(2 * room, rel=1e-11, abs=0)


@pytest.mark.parametrize("layer", [0, 1])
def test_functions_of_outputs(layer: int) -> None:
    """The same as if the layer's outputs were scores."""
    own, rng = bounds_of(4), np.random.default_rng(6)
    a, b = rng.normal(size=(2, 2, SIZES[layer + 1]))
    given = tables(4, 2)
    choose = lambda layer, a, b: given[layer]  # noqa: E731
    found = own.upper_of_outputs(layer, a, b, choose, [])
    same = Dense(np.eye(SIZES[layer + 1]), np.zeros(SIZES[layer + 1]))
    short = Bounds(Network((*own.network.stages[: layer + 1], (same,)), (3,)), PIECE)
    for k in range(layer + 1):
        short.append(own.hexagons[k])
    values, _ = short.upper(layer + 1, a, b, choose)
    np.testing.assert_allclose(found, values, rtol=1e-9)


@pytest.mark.parametrize("layer", [0, 1])
def test_coefficients_on_pixels_join_those_of_outputs(layer: int) -> None:
    """At the input, with the rounding of the sums; the pixels reach up to 2."""
    (piece,) = pieces("linf(0.25)", Domain((3,), 0.0, 2.0), True)
    own, rng = bounds_of(5, piece=piece), np.random.default_rng(10)
    a, b = rng.normal(size=(2, 2, SIZES[layer + 1]))
    zero, on_pixels = np.zeros(2), (np.array([3.0, -1.0, 0.5]), np.array([-2.0, 1.5, 0.25]))
    given = tables(5, 2)
    choose = lambda layer, a, b: given[layer]  # noqa: E731
    plain, widths = own._below(layer + 1, (a, b, zero, zero), choose, [])
    found, wider = own._below(layer + 1, (a, b, zero, zero), choose, [], on_pixels=on_pixels)
    np.testing.assert_array_equal(own.upper_of_outputs(layer, a, b, choose, [], on_pixels), found)
    p, q = (part @ own.network.stages[0][0].weight for part in given[0])
    c, d = on_pixels
    gained = piece.support(p + c, q + d) - piece.support(p, q)
    np.testing.assert_allclose(found - plain, gained, atol=1e-12)
    size = 2 * ((abs(p) + abs(q)).sum(axis=1) + 4.5 + 3.75)
    total, before = found - wider / 2, plain - widths / 2
    room = 1.001 * gamma(2 * 3 + 4) * size + 8 * HALF_ULP * (abs(total) - abs(before))
    np.testing.assert_allclose(wider - widths, 2 * room, rtol=1e-9)


def test_what_underflows_is_paid_for() -> None:
    """A coefficient of 0 may have been lost; it is multiplied by values that are huge."""
    large = 2.0**122  # as large as makes what is lost comparable with `TINY`
    (piece,) = pieces("linf(0.25)", Domain((3,), 0.0, large), True)
    own = bounds_of(1, piece=piece)
    own.replace(0, Hexagons(*large * np.array([[-1.0, 2, -3, 1, -1, 1]] * 4).T, 1.0))
    own.replace(1, Hexagons(*large * np.array([[-1.0, 1, -1, 1, -1, 1]] * 3).T, 1.0))
    zero = np.zeros((1, 2))
    _, (width,) = own.upper(2, zero, zero, lambda layer, a, b: (0 * a, 0 * b))
    lost = 0.0
    for k, terms in ((0, 4), (1, 4), (2, 3)):
        size = own.corners[k - 1].magnitude.sum() if k else 3 * piece.magnitude
        lost += 2 * UNDERFLOW * (terms + 1) * size
    support = piece.support(np.zeros((1, 3)), np.zeros((1, 3)))[0]
    assert width == pytest.approx(2 * (1.001 * lost + TINY), rel=1e-11, abs=0)
    assert support < 1e-200


def test_a_size_is_never_0() -> None:
    own = bounds_of(1)
    for layer in (layer for stage in own.network.stages for layer in stage):
        layer.weight[:], layer.bias[:] = 0.0, 0.0
    assert own._sizes(1)[-1].tolist() == [TINY] * 3
    assert own.score_size == TINY


def test_the_size_of_scores() -> None:
    own = bounds_of(3)
    (last,) = own.network.stages[2]
    stated = abs(last.weight) @ own.corners[1].magnitude + abs(last.bias)
    assert stated[0] != stated[1]
    assert own.score_size == pytest.approx(max(stated) * (1 + 1e-9), rel=1e-12)
    steps = in_steps(own, 3)
    assert steps.score_size == own.score_size
    first, second = steps.network.stages[1]
    middle = (abs(first.weight) @ own.corners[0].magnitude + abs(first.bias)) * (1 + 1e-9)
    most = (abs(second.weight) @ middle + abs(second.bias)) * (1 + 1e-9)
    np.testing.assert_allclose(steps._sizes(1)[-1], most, rtol=1e-12)
    short = Bounds(Network(steps.network.stages[:2], (3,)), PIECE)
    short.append(own.hexagons[0])
    assert short.score_size == pytest.approx(max(most), rel=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_offsets_are_left_out_only_where_they_are_0(seed: int) -> None:
    """Of units without coefficients, and of linear units whose multipliers pass them on."""
    own, rng = bounds_of(seed, linear=True), np.random.default_rng([seed, 7])
    a, b, p, q = rng.normal(size=(4, 2, 4)) * rng.choice([0.0, 1.0], (4, 2, 4), p=[0.3, 0.7])
    p, q = np.where(rng.random((2, 4)) < 0.6, a, p), np.where(rng.random((2, 4)) < 0.6, b, q)
    for units in ([], [0, 1], [2, 3], [1, 3]):
        p[:, units], q[:, units] = a[:, units], b[:, units]
        passed = own.hexagons[0].linear & (p == a).all(axis=0) & (q == b).all(axis=0)
        expected = np.where(passed, 0.0, own.corners[0].offset(a, b, p, q))
        np.testing.assert_array_equal(own._offsets(0, a, b, p, q), expected)


@pytest.mark.parametrize("seed", range(4))
def test_quick_multipliers_pass_linear_units_on(seed: int) -> None:
    own, rng = bounds_of(seed, linear=True), np.random.default_rng([seed, 8])
    a, b = rng.normal(size=(2, 3, 4)) * rng.choice([0.0, 1.0], (2, 3, 4))
    linear = own.hexagons[0].linear
    assert linear is not None
    whole = quick_multipliers(own.hexagons[0], own.corners[0], a, b)
    for found, passed, rule in zip(own.quick(0, a, b), (a, b), whole, strict=True):
        np.testing.assert_array_equal(found, np.where(linear, passed, rule))


@pytest.mark.parametrize("neurons", [[0], [7, 8, 12], [13, 26, 33], [0, 35], [22]])
def test_the_part_around_some_neurons(neurons: list[int]) -> None:
    """The block of rows and columns that they span, and the same bounds in it."""
    rng = np.random.default_rng(9)
    first = Conv(
        rng.normal(size=(2, 1, 2, 2)), rng.normal(size=2), (1, 5, 6), (1, 1), (0,) * 4, (1, 1), 1
    )
    second = Conv(
        rng.normal(size=(3, 2, 1, 2)), rng.normal(size=3), (2, 4, 5), (1, 1), (0,) * 4, (1, 1), 1
    )
    last = Dense(rng.normal(size=(2, 48)), rng.normal(size=2))
    (piece,) = pieces("linf(0.25)", Domain((1, 5, 6), 0.0, 1.0), True)
    own = quick_bounds(Network(((first,), (second,), (last,)), (1, 5, 6)), piece)
    assert own.around(2, np.array([0]))[0] is own
    assert own.around(2, np.array([0]))[2] is None
    part, places, units = own.around(1, np.array(neurons))
    assert units is not None
    rows, columns = ({n // 4 % 4 for n in neurons}, {n % 4 for n in neurons})
    spanned = [
        n
        for n in range(48)
        if min(rows) <= n // 4 % 4 <= max(rows) and min(columns) <= n % 4 <= max(columns)
    ]
    assert units[1].tolist() == spanned
    assert units[1][places].tolist() == neurons
    assert len(part.hexagons) == len(part.corners) == 1
    whole, inside = np.eye(48)[neurons], np.eye(len(spanned))[places]
    for on_s, on_t in ((1.0, 0.0), (-1.0, 1.0)):
        values, _ = own.upper(1, on_s * whole, on_t * whole, own.quick)
        found, _ = part.upper(1, on_s * inside, on_t * inside, part.quick)
        np.testing.assert_allclose(found, values, rtol=1e-9)


def test_a_part_knows_as_many_layers_as_the_whole() -> None:
    """One whose last layers are not bounded yet."""
    conv = Conv(np.ones((1, 1, 2, 2)), np.zeros(1), (1, 4, 4), (1, 1), (0,) * 4, (1, 1), 1)
    (piece,) = pieces("linf(0.25)", Domain((1, 4, 4), 0.0, 1.0), True)
    last = Dense(np.ones((2, 9)), np.zeros(2))
    own = Bounds(Network(((conv,), (last,)), (1, 4, 4)), piece)
    part, places, _ = own.around(0, np.array([4]))
    assert part.hexagons == []
    (found,), _ = part.upper(0, np.eye(1), np.zeros((1, 1)), part.quick)
    assert places.tolist() == [0]
    assert found == pytest.approx(4.0)


def test_a_bound_of_nothing_is_above_0_by_what_underflows() -> None:
    own = bounds_of(1)
    zero = np.zeros((1, 2))
    (value,), (width,) = own.upper(2, zero, zero, lambda layer, a, b: (0 * a, 0 * b))
    assert value >= TINY
    assert width >= 2 * TINY
    assert value < 1e-200


def test_decided_pixels_count_in_the_cases_that_decide_them() -> None:
    own = bounds_of(2, piece=CLIPPED)
    a, b = np.array([[1.0, 2.0]] * 3), np.array([[-2.0, 1.0]] * 3)
    given = tables(2, 1)
    choose = lambda layer, a, b: tuple(np.repeat(part, 3, axis=0) for part in given[layer])  # noqa: E731
    cases = [Decisions(), Decisions(sides={0: 1, 2: -1}), Decisions(sides={0: -1, 2: 1})]
    values, _ = own.upper(2, a, b, choose, cases)
    p, q = (part @ own.network.stages[0][0].weight for part in given[0])
    whole = CLIPPED.support(p, q)[0]
    for value, case in zip(values, cases, strict=True):
        gained = whole - CLIPPED.decided(p, q, case.sides)[0]
        assert values[0] - value == pytest.approx(gained, abs=1e-12)
    assert max(values[0] - values[1:]) > 0.01
