"""Who judges a quadratic proof, which multipliers count, and which states of neurons it may use."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from vhagar_check import quadratic as module
from vhagar_check.errors import Rejected
from vhagar_check.formula import Decisions
from vhagar_check.hexagon import Hexagons
from vhagar_check.layers import Network
from vhagar_check.perturbations import pieces
from vhagar_check.quadratic import QuadraticProver, _Rows
from vhagar_check.regions import EQUAL, OFF, ON, PAIR

from .test_quadratic_matrix import BALL, DOMAIN, numbers, prover, region


def test_multipliers_of_settled_pairs_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor those of pixels that do not change; all others are positive and finite."""
    judge, seen = prover(region(1)), []

    def enclosed(rows: _Rows, slopes: np.ndarray, box: np.ndarray) -> Any:
        seen.append((slopes.tolist(), box.tolist()))
        return "matrix", "radius"

    monkeypatch.setattr(judge, "_enclosed", enclosed)
    monkeypatch.setattr(module, "is_definite", lambda matrix, radius: True)
    vector = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    assert judge.value(vector, Decisions()) == 3.0
    assert seen == [([3.0, 4.0, 1.0, 2.0], [5.0, 7.0])]
    case = Decisions(slopes={(0, 0): True})
    for value in (0.0, -1.0, np.nan, np.inf):
        for place in (0, 5, 7):
            vector[place] = value
        assert judge.value(vector, case) == 3.0
        for place in (1, 3, 4, 6):
            other = vector.copy()
            other[place] = value
            with pytest.raises(Rejected, match="not a positive number"):
                judge.value(other, case)
    for value, proved in (
        (2.0**-200, True),
        (2.0**-201, False),
        (2.0**200, True),
        (2.0**201, False),
    ):
        vector[6] = value
        assert judge.value(vector, case) == (3.0 if proved else np.inf)


@pytest.mark.parametrize(
    ("pairs", "inputs", "tied", "semidefinite", "expected"),
    [
        (4, 2, False, True, 3.0),
        (4, 2, False, False, np.inf),
        (3, 2, False, True, np.inf),
        (4, 1, False, True, np.inf),
        (4, 1, True, True, 3.0),
        (4, 0, True, True, np.inf),
    ],
)
def test_rationals_decide_small_matrices(
    pairs: int,
    inputs: int,
    tied: bool,
    semidefinite: bool,
    expected: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (module._FEW_PAIRS, module._FEW_INPUTS) == (24, 40)
    monkeypatch.setattr(module, "_FEW_PAIRS", pairs)
    monkeypatch.setattr(module, "_FEW_INPUTS", inputs)
    monkeypatch.setattr(module, "is_definite", lambda matrix, radius: False)
    monkeypatch.setattr(module, "is_semidefinite_exactly", lambda matrix: semidefinite)
    (occlusion,) = pieces("occlusion(1,1,1)", DOMAIN, True)
    judge = prover(region(1, occlusion if tied else BALL), tied=tied)
    assert judge.value(numbers(1), Decisions()) == expected


def hexagons(low: float, high: float, low_p: float, high_p: float, count: int) -> Hexagons:
    ends = [np.full(count, end) for end in (low, high, low_p, high_p, -9.0, 9.0)]
    return Hexagons(*ends, 1.0)


@pytest.mark.parametrize(
    ("ends", "signs", "on", "free"),
    [
        ((-1.0, 1.0, -1.0, 1.0), {0: 1, 1: 1}, True, False),
        ((-1.0, 1.0, -1.0, 1.0), {0: -1, 1: -1}, False, False),
        ((-1.0, 1.0, -1.0, 1.0), {0: 1, 1: -1}, False, True),
        ((-1.0, 1.0, -1.0, 1.0), {0: 1}, False, True),
        ((-1.0, 1.0, -1.0, 1.0), {0: -1}, False, True),
        ((-1.0, 1.0, 0.0, 1.0), {0: 1}, True, False),
        ((-1.0, 1.0, -1.0, 0.0), {0: -1}, False, False),
        ((0.0, 1.0, -1.0, 1.0), {1: 1}, True, False),
        ((-1.0, 0.0, -1.0, 1.0), {1: -1}, False, False),
        ((0.0, 1.0, -1.0, 1.0), {1: -1}, False, True),
        ((-1.0, 1.0, 0.5, 1.0), {0: -1}, False, True),
    ],
)
def test_slopes_that_decisions_settle(
    ends: tuple[float, ...], signs: dict[int, int], on: bool, free: bool
) -> None:
    own = region(1)
    judge = prover(own)
    own.bounds.replace(0, hexagons(*ends, 5))
    found = judge._slopes(Decisions({(0, 0): signs}))
    assert (bool(found.on[0][0]), bool(found.free[0][0])) == (on, free)
    assert found.on[0][1:].tolist() == [True, False, False, False]
    assert found.free[0][1:].tolist() == [False, False, False, True]
    # A unit whose state is known keeps it.
    known = judge._slopes(Decisions({(0, 2): {0: 1, 1: 1}}, slopes={(0, 1): False}))
    assert known.on[0].tolist() == [False, True, False, False, False]
    # A sign that settles comes before a slope.
    both = judge._slopes(Decisions({(0, 0): signs}, slopes={(0, 0): True}))
    assert bool(both.on[0][0]) == (on or free)


@pytest.mark.parametrize(
    ("state", "ends", "gap", "fine"),
    [
        (ON, (0.0, 1.0, 0.0, 1.0), 1.0, True),
        (ON, (-0.1, 1.0, 0.0, 1.0), 1.0, False),
        (ON, (0.0, 1.0, -0.1, 1.0), 1.0, False),
        (ON, (-0.1, 1.0, -0.1, 1.0), 0.0, False),
        (OFF, (-1.0, 0.0, -1.0, 0.0), 1.0, True),
        (OFF, (-1.0, 0.1, -1.0, 0.0), 1.0, False),
        (OFF, (-1.0, 0.0, -1.0, 0.1), 1.0, False),
        (OFF, (-1.0, 1.0, -1.0, 1.0), 0.0, True),
        (EQUAL, (-1.0, 1.0, -1.0, 1.0), 0.0, True),
        (EQUAL, (-1.0, 1.0, -1.0, 1.0), 0.1, False),
        (PAIR, (-1.0, 1.0, -1.0, 1.0), 1.0, True),
    ],
)
@pytest.mark.parametrize("half", [None, "low", "high"])
def test_states_are_those_of_the_hexagons(
    state: int,
    ends: tuple[float, ...],
    gap: float,
    fine: bool,
    half: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rationals are asked only about units whose hexagons do not say so."""
    own = region(1)
    sides = [np.full(5, end) for end in (*ends, -gap, gap)]
    own.bounds.hexagons[0] = Hexagons(*sides, 1.0)
    if half is not None:  # copies that differ on one side only are not the same
        part = own.bounds.hexagons[0]
        (part.gap_low if half == "high" else part.gap_high)[:] = 0.0
    own.status[0] = np.array([state, PAIR, PAIR, PAIR, PAIR], dtype=np.uint8)
    asked: list[Any] = []
    for answer in (True, False):
        monkeypatch.setattr(
            QuadraticProver,
            "_is_exact",
            lambda self, layer, units, answer=answer: (
                asked.append((layer, units.tolist())) or answer
            ),
        )
        if fine or answer:
            prover(own)
        else:
            with pytest.raises(Rejected, match="state that is not proved"):
                prover(own)
    assert asked == ([] if fine else [(0, [0])] * 2)


def test_copies_with_a_ratio_are_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gap of 0 says then that one is a multiple of the other."""
    monkeypatch.setattr(QuadraticProver, "_is_exact", lambda self, layer, units: False)
    own = region(1)
    own.status[0] = np.array([EQUAL, PAIR, PAIR, PAIR, PAIR], dtype=np.uint8)
    sides = [np.full(5, end) for end in (-1.0, 1.0, -1.0, 1.0, 0.0, 0.0)]
    own.bounds.hexagons[0] = Hexagons(*sides, 1.0)
    prover(own)
    own.bounds.hexagons[0] = Hexagons(*sides, 2.0)
    with pytest.raises(Rejected, match="state that is not proved"):
        prover(own)


def test_linear_units_pass_whatever_their_hexagons() -> None:
    own = region(1)
    mask = np.array([True, False, False, False, False])
    network = Network(own.bounds.network.stages, (1, 2, 2), (mask, None))
    own.bounds.network = network
    own.bounds.hexagons[0] = hexagons(-1.0, 1.0, -1.0, 1.0, 5)
    own.status[0] = np.array([ON, PAIR, PAIR, PAIR, PAIR], dtype=np.uint8)
    prover(own)
    own.bounds.hexagons[0] = hexagons(-2.0, -1.0, -2.0, -1.0, 5)
    own.status[0][0] = OFF
    with pytest.raises(Rejected, match="state that is not proved"):
        prover(own)


@pytest.mark.parametrize(
    ("state", "ends"),
    [(OFF, [(1, 0), (0, 1)]), (ON, [(-1, 0), (0, -1)]), (EQUAL, [(1, -1), (-1, 1)])],
)
def test_states_in_rationals(
    state: int, ends: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two functions of each unit are at most 0, or the state is not proved."""
    own = region(1)
    judge = prover(own)
    own.status[0] = np.array([PAIR, PAIR, PAIR, state, PAIR], dtype=np.uint8)
    asked: list[Any] = []
    answers: list[Any] = []

    def upper(bounds: Any, layer: int, first: Any, second: Any, choose: Any, case: Any) -> Any:
        assert (bounds, layer, choose) == (own.bounds, 0, own.bounds.quick)
        assert not case.signs
        asked.append((first.fractions(), second.fractions()))
        return answers[len(asked) - 1]

    monkeypatch.setattr(module, "exact_upper", upper)
    unit = [Fraction(int(k == 3)) for k in range(5)]
    expected = [([on_s * v for v in unit], [on_t * v for v in unit]) for on_s, on_t in ends]
    least = Fraction(1, 10**300)
    for given, proved in (
        ([Fraction(0), Fraction(-1)], True),
        ([-np.inf, Fraction(0)], True),
        ([Fraction(0), least], False),
        ([least], False),
        ([None], False),
        ([Fraction(0), None], False),
    ):
        asked.clear()
        answers[:] = given
        assert judge._is_exact(0, np.array([3])) is proved
        assert asked == expected[: len(given)]


@pytest.mark.parametrize(
    ("layer", "units", "most", "tried"),
    [
        (0, 1, 40, True),
        (0, 1, 39, False),
        (0, 2, 80, True),
        (0, 2, 79, False),
        (1, 1, 80, True),
        (1, 1, 79, False),
    ],
)
def test_rationals_are_not_asked_about_too_much(
    layer: int, units: int, most: int, tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two functions of every unit, through layers of 5 x 4 and 4 x 5 weights."""
    assert module._MOST_PRODUCTS == 2**22
    own = region(1)
    judge = prover(own)
    own.status[layer][:] = OFF
    monkeypatch.setattr(module, "_MOST_PRODUCTS", most)
    monkeypatch.setattr(module, "exact_upper", lambda *given: Fraction(-1))
    assert judge._is_exact(layer, np.arange(units)) is tried
