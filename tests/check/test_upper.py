"""The twin dual bound in float64: its value, and all that it adds for rounding."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from vhagar_check.exact import Exact
from vhagar_check.formula import Bounds, Decisions
from vhagar_check.hexagon import Hexagons
from vhagar_check.layers import HALF_ULP, TINY, Dense, Network, gamma
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


def room_of(own: Bounds, a: np.ndarray, b: np.ndarray, given: list, seed: int) -> list[float]:
    """What is added for rounding, term by term, of one case."""
    constant = error = 0.0
    terms: list[float] = []
    sizes = [np.full(3, own.piece.magnitude), *(corners.magnitude for corners in own.corners)]
    for k in (2, 1, 0):
        (layer,) = own.network.stages[k]
        both = abs(a) + abs(b)
        constant += float((a + b) @ layer.bias)
        terms += [
            gamma(layer.out_size + 4) * float(both @ abs(layer.bias)),
            gamma(2 * layer.terms + 8) * float(both @ abs(layer.weight) @ sizes[k]),
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
    error = 1.001 * sum(terms)
    total = constant + float(own.piece.support(a[None], b[None])[0])
    return [total, error + 8 * HALF_ULP * (abs(constant) + abs(total)) + TINY]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3])
def test_every_rounding_is_paid_for(seed: int, scale: float) -> None:
    own, rng = bounds_of(seed, scale=scale), np.random.default_rng([seed, 3])
    a, b = rng.normal(size=(2, 1, 2))
    given = tables(seed, 1)
    (value,), (width,) = own.upper(2, a, b, lambda layer, a, b: given[layer])
    total, room = room_of(own, a[0], b[0], given, seed)
    assert width == pytest.approx(2 * room, rel=1e-9)
    assert value - total == pytest.approx(room, rel=1e-2)


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
