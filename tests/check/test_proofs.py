"""From multipliers to bounds on the confidence, on networks whose answers are known."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from vhagar_check import proofs as module
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.formula import Added, Decisions
from vhagar_check.layers import Dense, Network
from vhagar_check.neuron_bounds import quick_bounds
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.proofs import CONTRADICTION, EMPTY, MULTIPLIERS, QUICK, Prover, Question
from vhagar_check.rational import exact_upper, rounded_up
from vhagar_check.regions import EQUAL, OFF, ON, PAIR, Region

DOMAIN = Domain((4,), 0.0, 1.0)
STATUS = [np.array([PAIR, EQUAL, PAIR, ON, OFF, PAIR], dtype=np.uint8)]
CLASSES = 4


def region(seed: int = 1) -> Region:
    rng = np.random.default_rng(seed)
    first = Dense(rng.normal(size=(6, 4)), rng.normal(size=6) / 4)
    last = Dense(rng.normal(size=(CLASSES, 6)), rng.normal(size=CLASSES))
    network = Network(((first,), (last,)), (4,))
    (piece,) = pieces("linf(0.25)", DOMAIN, True)
    return Region(0, quick_bounds(network, piece), STATUS)


def vectors(rng: np.random.Generator, count: int, target: bool = True) -> np.ndarray:
    weights = CLASSES - 1
    found = rng.normal(size=(count, 7 + weights * (2 if target else 1)))
    found[:, 7:] = abs(found[:, 7:])
    return found


def _values(
    of: Prover, kinds: list[int], numbers: np.ndarray, cases: list[Decisions]
) -> list[float]:
    return of.values(np.array(kinds, dtype=np.uint8), numbers, cases).tolist()


def _expected(
    own: Region, source: int, target: int | None, vector: np.ndarray, case: Decisions
) -> float:
    """The bound from its definition, in exact arithmetic."""
    p = np.array([[vector[0], vector[6], vector[1], np.nan, 0.0, vector[2]]])
    q = np.array([[vector[3], 0.0, vector[4], np.nan, 0.0, vector[5]]])

    def choose(layer: int, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.where(np.isnan(p), a, p), np.where(np.isnan(q), b, q)

    start = []
    weights = iter(vector[7:].tolist())
    for label in (source, target):
        row = [Fraction(0)] * CLASSES
        for other in range(CLASSES):
            if label is not None and other != label:
                weight = Fraction(next(weights))
                row[label] += weight
                row[other] -= weight
        start.append(Exact.of_fractions(row))
    exact = exact_upper(own.bounds, 1, *start, choose, case)
    assert isinstance(exact, Fraction)
    total = sum(map(Fraction, vector[7 : 7 + CLASSES - 1].tolist()), Fraction(0))
    return rounded_up(max(exact / total, Fraction(0)))


@pytest.mark.parametrize(("source", "target"), [(0, 1), (3, 0), (1, 3), (2, None)])
def test_multipliers_prove_what_the_formula_says(source: int, target: int | None) -> None:
    own, rng = region(), np.random.default_rng(2)
    numbers = vectors(rng, 6, target is not None)
    cases = [Decisions() for _ in range(6)]
    cases[2] = Decisions({(0, 0): {0: 1}})
    cases[3] = Decisions({(0, 2): {1: -1}, (0, 5): {0: -1, 1: -1}})
    expected = [
        _expected(own, source, target, row, case) for row, case in zip(numbers, cases, strict=True)
    ]
    assert max(expected) > 0
    found = _values(Prover(own, Question(source, target, 0.0)), [MULTIPLIERS] * 6, numbers, cases)
    assert found == pytest.approx(expected, rel=1e-9)
    for value, right in zip(found, expected, strict=True):
        assert value >= right
    # With a claim that only exact arithmetic proves, that is what it gives.
    for k in range(6):
        judged = Prover(own, Question(source, target, expected[k]))
        assert _values(judged, [MULTIPLIERS], numbers[[k]], [cases[k]]) == [expected[k]]


def test_proofs_of_several_kinds_keep_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    own, rng = region(), np.random.default_rng(3)
    prover = Prover(own, Question(0, 1, 0.0))
    kinds = [MULTIPLIERS, QUICK, MULTIPLIERS, EMPTY, CONTRADICTION, MULTIPLIERS, MULTIPLIERS]
    numbers = vectors(rng, 5)
    cases = [Decisions() for _ in kinds]
    whole = _values(prover, kinds, numbers, cases)
    alone = [_values(prover, [MULTIPLIERS], numbers[[k]], [Decisions()])[0] for k in (0, 1, 3, 4)]
    quick = _values(prover, [QUICK], numbers[:0], [Decisions()])[0]
    assert whole == pytest.approx(
        [alone[0], quick, alone[1], np.inf, np.inf, alone[2], alone[3]], rel=1e-12
    )
    for size in (1, 2, 3):
        monkeypatch.setattr(module, "_BATCH", size)
        assert _values(prover, kinds, numbers, cases) == pytest.approx(whole, rel=1e-12)


def test_the_quick_bound_is_that_of_the_lead() -> None:
    own = region()
    bounds = own.bounds
    lead = np.array([[0.0, 1.0, 0.0, -1.0]])
    expected = bounds.upper(1, lead, -lead, bounds.quick)[0][0]
    assert _values(Prover(own, Question(1, 3, 0.0)), [QUICK], np.zeros((0, 13)), [Decisions()]) == [
        expected
    ]
    alone = Prover(own, Question(1, None, 0.0))
    assert _values(alone, [QUICK], np.zeros((0, 10)), [Decisions()]) == [np.inf]


@pytest.mark.parametrize("change", ["alpha", "mu", "nan", "inf"])
def test_weights_must_be_finite_and_not_negative(change: str) -> None:
    numbers = vectors(np.random.default_rng(4), 2)
    place, value = {
        "alpha": (7, -5e-324),
        "mu": (10, -1.0),
        "nan": (0, np.nan),
        "inf": (12, np.inf),
    }[change]
    numbers[1, place] = value
    with pytest.raises(Rejected, match="negative weight"):
        _values(
            Prover(region(), Question(0, 1, 0.0)), [MULTIPLIERS] * 2, numbers, [Decisions()] * 2
        )


def _constant(scores: list[float]) -> Region:
    """A network whose scores are the same for all inputs, behind one neuron that counts nothing."""
    last = Dense(np.zeros((len(scores), 1)), np.array(scores))
    network = Network(((Dense(np.ones((1, 4)), np.zeros(1)),), (last,)), (4,))
    (piece,) = pieces("linf(0.25)", DOMAIN, True)
    return Region(0, quick_bounds(network, piece), [np.array([ON], dtype=np.uint8)])


@pytest.mark.parametrize(("target_score", "value"), [(-1.0, -np.inf), (0.0, np.inf), (1.0, np.inf)])
def test_a_contradiction_is_below_0(target_score: float, value: float) -> None:
    """The target's lead over the other class is at most -1, 0 or 1. Only the first excludes it."""
    own = _constant([0.0, target_score])
    for claim in (0.0, 5.0):
        prover = Prover(own, Question(0, 1, claim))
        assert _values(prover, [CONTRADICTION], np.array([[0.0, 1.0]]), [Decisions()]) == [value]
        # A weight of the source does not count in a contradiction.
        assert _values(prover, [CONTRADICTION], np.array([[9.0, 1.0]]), [Decisions()]) == [value]


@pytest.mark.parametrize("kind", [MULTIPLIERS, CONTRADICTION])
def test_weights_of_0_prove_nothing(kind: int) -> None:
    prover = Prover(_constant([0.0, -1.0]), Question(0, 1, 0.0))
    assert _values(prover, [kind], np.zeros((1, 2)), [Decisions()]) == [np.inf]


def test_a_negative_confidence_counts_as_0() -> None:
    prover = Prover(_constant([0.0, 3.0]), Question(0, 1, 0.0))
    assert _values(prover, [MULTIPLIERS], np.array([[1.0, 0.0]]), [Decisions()]) == [0.0]
    higher = Prover(_constant([3.0, 0.0]), Question(0, 1, 3.0))
    assert _values(higher, [MULTIPLIERS], np.array([[2.0, 0.0]]), [Decisions()]) == [3.0]
    below = Prover(_constant([3.0, 0.0]), Question(0, 1, 2.0))
    (found,) = _values(below, [MULTIPLIERS], np.array([[2.0, 0.0]]), [Decisions()])
    assert found == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("bias", "signs", "empty"),
    [
        (1.0, {0: -1}, True),
        (1.0, {1: -1}, True),
        (1.0, {0: 1}, False),
        (0.0, {0: -1}, False),
        (-5.0, {0: 1}, True),
        (-4.0, {0: 1}, False),
        (-2.0, {0: 1, 1: -1}, False),
    ],
)
def test_a_case_is_empty_only_if_no_point_is_left(
    bias: float, signs: dict[int, int], empty: bool
) -> None:
    """The neuron is the sum of four inputs and a bias, so its range is known exactly."""
    network = Network(
        (
            (Dense(np.ones((1, 4)), np.array([bias])),),
            (Dense(np.array([[1.0], [0.0]]), np.zeros(2)),),
        ),
        (4,),
    )
    (piece,) = pieces("linf(0.25)", DOMAIN, True)
    own = Region(0, quick_bounds(network, piece), [np.array([PAIR], dtype=np.uint8)])
    prover = Prover(own, Question(0, 1, 0.0))
    cases = [Decisions({(0, 0): signs}), Decisions()]
    found = _values(prover, [EMPTY, EMPTY], np.zeros((0, 4)), cases)
    assert found == [-np.inf if empty else np.inf, np.inf]
    # Multipliers find it empty, too, whatever they are.
    by_multipliers = _values(prover, [MULTIPLIERS], np.array([[0.1, 0.2, 1.0, 1.0]]), cases[:1])
    assert (by_multipliers == [-np.inf]) is empty


def test_how_many_numbers_a_proof_has() -> None:
    own = region()
    assert own.width(CLASSES, True) == 7 + 6
    assert own.width(CLASSES, False) == 7 + 3


def test_the_rounding_of_the_weights_sums_is_paid_for() -> None:
    """All scores are about a million, so that the sums of alpha and of mu must be very good."""
    own, rng = region(), np.random.default_rng(6)
    own.bounds.network.stages[-1][0].bias[:] = 1e6
    numbers = vectors(rng, 1)
    numbers[:, :7] *= 0.1
    p = np.array([[numbers[0, 0], numbers[0, 6], numbers[0, 1], np.nan, 0.0, numbers[0, 2]]])
    q = np.array([[numbers[0, 3], 0.0, numbers[0, 4], np.nan, 0.0, numbers[0, 5]]])
    alpha, mu = numbers[:, 7:10], numbers[:, 10:]
    a, b = np.zeros((2, 1, CLASSES))
    a[:, 1:], a[:, 0] = -alpha, alpha.sum(axis=1)
    b[:, [0, 2, 3]], b[:, 1] = -mu, mu.sum(axis=1)

    def choose(layer: int, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.where(np.isnan(p), a, p), np.where(np.isnan(q), b, q)

    (upper,), _ = own.bounds.upper(1, a, b, choose)
    (found,) = _values(Prover(own, Question(0, 1, 0.0)), [MULTIPLIERS], numbers, [Decisions()])
    room = found * alpha.sum() - upper
    share = 2 * (CLASSES - 1) * 2.0**-53 * own.bounds.score_size
    assert upper > 0
    assert room == pytest.approx(share * (alpha.sum() + mu.sum()), rel=1e-3, abs=0)


def test_a_region_without_inputs_is_empty() -> None:
    """Whatever was decided; one with inputs is empty only by its decisions."""
    own = region()
    for empty, value in ((True, -np.inf), (False, np.inf)):
        prover = Prover(replace(own, empty=empty), Question(0, 1, 0.0))
        assert _values(prover, [EMPTY], np.zeros((0, 0)), [Decisions()]) == [value]


def test_sides_pay_for_the_sums_they_begin_with(monkeypatch: pytest.MonkeyPatch) -> None:
    own, rng = region(), np.random.default_rng(9)
    prover, numbers = Prover(own, Question(0, 1, 0.0)), vectors(rng, 2)
    added = Added(0, np.eye(2, 6), np.zeros((2, 6)))
    found = []
    for room in (0.0, 1.0):
        monkeypatch.setattr(prover, "_start_room", lambda alpha, mu, room=room: room)
        found.append(prover.sides(added, numbers, Decisions(), Fraction(0)))
    np.testing.assert_allclose(found[1] - found[0], 1.0, rtol=1e-12)
