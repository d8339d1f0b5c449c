"""Facts about one image: bounds are what exact arithmetic makes of the multipliers, no less."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from vhagar_check import image_facts as module
from vhagar_check.errors import Rejected
from vhagar_check.formula import Bounds
from vhagar_check.hexagon import Hexagons
from vhagar_check.image_facts import FactsProver, _Ranges
from vhagar_check.layers import Dense, Network
from vhagar_check.neuron_bounds import quick_bounds
from vhagar_check.one_image import AtImage, Entry, OneImage
from vhagar_check.pieces import Domain
from vhagar_check.pixelwise import linf_ball
from vhagar_check.proofs import Question
from vhagar_check.regions import EQUAL, OFF, ON, PAIR, Region

DOMAIN = Domain((1, 1, 4), 0.0, 1.0)
CLASSES = 3


def network(seed: int, linear: bool = False, size: int = 6) -> Network:
    rng, sizes = np.random.default_rng(seed), (4, size, size, CLASSES)
    stages = [
        (Dense(rng.normal(size=(out, into)), rng.normal(size=out) / 4),)
        for into, out in itertools.pairwise(sizes)
    ]
    masks = (np.arange(size) == 1, None) if linear else ()
    return Network(tuple(stages), (4,), masks)


def versions(seed: int, kind: str) -> OneImage:
    """A ball; or two parameters that move most of the entries, and room that is left."""
    rng = np.random.default_rng(seed)
    starts = [Fraction(float(value)) for value in rng.uniform(0.3, 0.7, 4)]
    if kind == "ball":
        moving = [{k: Fraction(1)} if k != 2 else {} for k in range(4)]
        entries = [Entry(start, slopes) for start, slopes in zip(starts, moving, strict=True)]
        made = AtImage(DOMAIN, entries, ((-0.25,) * 4, (0.25,) * 4), clip=True, own=True)
        return OneImage(made, made.whole)
    slopes = [{0: Fraction(float(a)), 2: Fraction(float(b))} for a, b in rng.normal(size=(4, 2))]
    del slopes[1][0], slopes[3][2]
    rooms = [Fraction(0), Fraction(1, 16), Fraction(0), Fraction(1, 8)]
    entries = [Entry(*each) for each in zip(starts, slopes, rooms, strict=True)]
    made = AtImage(DOMAIN, entries, ((-0.25, 0.0, -0.125), (0.125, 0.5, 0.25)), clip=False)
    return OneImage(made, made.whole)


def status_of(bounds: Bounds) -> list[np.ndarray]:
    found = []
    for hexagons in bounds.hexagons:
        own = np.where(hexagons.low >= 0, ON, np.where(hexagons.high <= 0, OFF, EQUAL))
        own = own if hexagons.linear is None else np.where(hexagons.linear, ON, own)
        found.append(own.astype(np.uint8))
    return found


def region(seed: int, kind: str = "ball", linear: bool = False) -> Region:
    bounds = quick_bounds(network(seed, linear), versions(seed, kind))
    return Region(0, bounds, status_of(bounds))


def fractions(values: Any) -> np.ndarray:
    return np.vectorize(Fraction, otypes=[object])(np.asarray(values, dtype=np.float64))


@dataclass
class Numbers:
    """The numbers of a proof, by their kind."""

    facts: np.ndarray  # (5, neurons)
    parameters: np.ndarray
    entries: np.ndarray
    alpha: np.ndarray

    @property
    def vector(self) -> np.ndarray:
        return np.concatenate([self.facts.ravel(), self.parameters, self.entries, self.alpha])


def numbers(about: Region, seed: int) -> Numbers:
    """Multipliers for which the sum is concave."""
    rng = np.random.default_rng(seed)
    neurons = sum(int((layer == EQUAL).sum()) for layer in about.status)
    facts = rng.uniform(0.5, 1.5, (5, neurons)) * [[0.2], [1.0], [1.0], [1.0], [3.0]]
    parameters = rng.uniform(0.1, 0.3, len(about.bounds.piece.span[0]))
    alpha = rng.uniform(0.5, 1.5, CLASSES - 1)
    return Numbers(facts, parameters, rng.uniform(0.05, 0.15, 4), alpha)


class Ideal:
    """The same bound, from the input forwards and in rational numbers.

    Values are rows over the moves, the undecided neurons' outputs, the strays and 1.
    """

    def __init__(self, about: Region) -> None:
        piece: Any = about.bounds.piece
        self.along = np.flatnonzero(piece.directions.any(axis=0))
        self.free = np.flatnonzero(piece.room)
        self.moves = len(self.along) + len(self.free)
        self.neurons = sum(int((layer == EQUAL).sum()) for layer in about.status)
        units = sum(len(layer) for layer in about.status)
        value = fractions(np.zeros((4, self.moves + self.neurons + units + 1)))
        value[:, : len(self.along)] = fractions(piece.directions[:, self.along])
        value[self.free, len(self.along) + np.arange(len(self.free))] = fractions(
            piece.room[self.free]
        )
        value[:, -1] = fractions(piece.centre)
        rows, self.low, self.high, self.strays = [], [], [], [Fraction(0)] * units
        unit, place = 0, self.moves
        net = about.bounds.network
        for k, (layer,) in enumerate(net.stages):
            value = fractions(layer.weight) @ value
            value[:, -1] += fractions(layer.bias)
            if k == len(about.status):
                break
            hexagons, linear = about.bounds.hexagons[k], net.linear_units(k)
            for n, status in enumerate(about.status[k]):
                low, high = Fraction(hexagons.low[n]), Fraction(hexagons.high[n])
                if status == EQUAL:
                    rows.append(value[n].copy())
                    self.low.append(low)
                    self.high.append(high)
                    value[n] = fractions(np.arange(value.shape[1]) == place)
                    place += 1
                elif linear is None or not linear[n]:
                    value[n] = value[n] * int(status == ON)
                    value[n, self.moves + self.neurons + unit] += 1
                    self.strays[unit] = max(Fraction(0), -low if status == ON else high)
                unit += 1
        self.scores = value
        self.rows = np.array(rows).reshape(self.neurons, value.shape[1])

    def parts(self, given: Numbers, source: int) -> tuple[np.ndarray, np.ndarray, Fraction]:
        """The matrix, the linear coefficients and the constant, with the slips paid."""
        others = [j for j in range(CLASSES) if j != source]
        curve, zero, line, above, within = fractions(given.facts)
        box = fractions([*given.parameters[self.along], *given.entries[self.free]])
        lead = sum(
            w * (self.scores[source] - self.scores[j])
            for w, j in zip(fractions(given.alpha), others, strict=True)
        )
        used = np.flatnonzero(box > 0)

        def split(row: np.ndarray) -> tuple[np.ndarray, np.ndarray, Fraction, Fraction]:
            on_moves, on_neurons, on_strays = np.split(
                row[:-1], [self.moves, self.moves + self.neurons]
            )
            idle = np.delete(on_moves, used)
            slip = sum(abs(on_strays) * self.strays, Fraction(0)) + sum(abs(idle), Fraction(0))
            return on_moves[used], on_neurons, row[-1], slip

        chord = fractions(
            [
                1.0 if a >= 0 else 0.0 if b <= 0 else float(b) / (float(b) - float(a))
                for a, b in zip(self.low, self.high, strict=True)
            ]
        )
        top = np.array([max(b, Fraction(0)) for b in self.high])
        cut = np.array(
            [
                max(-c * a, (1 - c) * b, Fraction(0))
                for a, b, c in zip(self.low, self.high, chord, strict=True)
            ]
        )
        order, d = self.neurons, box[used]
        matrix, right = np.diag(curve + within), fractions(np.zeros(order))
        g, on_neurons, constant, slip = split(lead)
        g, constant = g.copy(), constant + slip + sum(d, Fraction(0)) + sum(above * cut)
        right = right + on_neurons + zero + line - above + within * top
        every = [split(row) for row in self.rows]
        for i, (by_move, by_neuron, bias, off) in enumerate(every):
            weight = chord[i] * above[i] - line[i]
            g, right, constant = (
                g + weight * by_move,
                right + weight * by_neuron,
                constant
                + (weight * bias + (curve[i] * top[i] + line[i] + above[i] * chord[i]) * off),
            )
            right[i] += curve[i] * bias
            matrix[i] -= curve[i] * by_neuron / 2
            matrix[:, i] -= curve[i] * by_neuron / 2
        pulled = np.array([curve[i] * each[0] for i, each in enumerate(every)])
        pulled = pulled.reshape(order, len(d))
        matrix = matrix - pulled @ (pulled / d).T / 4
        right = right + pulled @ (g / d) / 2
        self.paid = slip + sum(
            (curve[i] * top[i] + line[i] + above[i] * chord[i]) * each[3]
            for i, each in enumerate(every)
        )
        return matrix, right, constant + sum(g * g / d, Fraction(0)) / 4

    def bound(self, given: Numbers, source: int) -> float:
        """What the multipliers prove of the confidence in a class."""
        matrix, right, constant = self.parts(given, source)
        matrix, right = matrix.astype(np.float64), right.astype(np.float64)
        assert (np.linalg.eigvalsh(matrix) > 0).all()
        value = float(constant) + right @ np.linalg.solve(matrix, right) / 4
        return float(value / given.alpha.sum())


def proves(about: Region, given: Numbers, claim: float, source: int = 1) -> bool:
    found = FactsProver(about).value(given.vector, Question(source, None, claim, signed=True))
    assert found in (claim, np.inf)
    return found == claim


def assert_bound(about: Region, given: Numbers, source: int) -> None:
    ideal = Ideal(about)
    bound = ideal.bound(given, source)
    room = 1e-8 * (1 + abs(bound)) + 0.005 * float(ideal.paid / sum(fractions(given.alpha)))
    assert proves(about, given, bound + room, source)
    assert not proves(about, given, bound - 1e-8 * (1 + abs(bound)), source)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("kind", ["ball", "parameters"])
@pytest.mark.parametrize("seed", range(3))
def test_a_bound_is_what_the_multipliers_are_worth(seed: int, kind: str, linear: bool) -> None:
    about = region(seed, kind, linear)
    for source in range(CLASSES):
        assert_bound(about, numbers(about, seed), source)


@pytest.mark.parametrize("kind", ["ball", "parameters"])
def test_bounds_hold_for_versions(kind: str) -> None:
    for seed in range(4):
        about, rng = region(seed, kind), np.random.default_rng(seed)
        piece: Any = about.bounds.piece
        v = rng.uniform(-1, 1, (2000, piece.directions.shape[1]))
        x = piece.centre + v @ piece.directions.T + rng.choice([-1.0, 1.0], (2000, 4)) * piece.room
        values = x
        for k, (layer,) in enumerate(about.bounds.network.stages):
            values = np.maximum(values, 0.0) if k else values
            values = values @ layer.weight.T + layer.bias
        others = values[:, [0, 2]].max(axis=1)
        truth = float((values[:, 1] - others).max())
        assert not proves(about, numbers(about, seed), truth - 1e-9)


def test_units_that_are_not_what_their_status_says() -> None:
    """Their outputs differ from the input or from 0 by no more than their ranges allow."""
    tried = 0
    for seed in range(3):
        about = region(seed, "parameters", linear=True)
        for layer, kind in ((0, ON), (0, OFF), (1, ON), (1, OFF)):
            status = [own.copy() for own in about.status]
            own = np.flatnonzero(status[layer] == EQUAL)
            status[layer][own[:1]] = kind
            tried += len(own) > 0
            changed = replace(about, status=status)
            assert_bound(changed, numbers(changed, seed), 0)
    assert tried > 8


def test_units_that_are_undecided_by_name_only() -> None:
    for seed in range(3):
        about = region(seed)
        status = [np.where(own == PAIR, own, EQUAL).astype(np.uint8) for own in about.status]
        changed = replace(about, status=status)
        assert_bound(changed, numbers(changed, seed), 2)


@pytest.mark.parametrize("kind", ["ball", "parameters"])
def test_moves_without_a_multiplier_are_slips(kind: str) -> None:
    about = region(1, kind)
    given = numbers(about, 1)
    given.entries[[0, 1]], given.parameters[0] = 0.0, 0.0
    assert_bound(about, given, 1)
    given.entries[:], given.parameters[:] = 0.0, 0.0
    assert_bound(about, given, 1)


def test_without_undecided_units() -> None:
    about = region(0)
    status = [np.where(own == EQUAL, OFF, own).astype(np.uint8) for own in about.status]
    changed = replace(about, status=status)
    assert_bound(changed, numbers(changed, 0), 1)


def test_numbers_of_what_does_not_move_are_ignored() -> None:
    about = region(2, "parameters")
    piece: Any = about.bounds.piece
    assert not piece.directions[:, 1].any()
    given = numbers(about, 2)
    bound = Ideal(about).bound(given, 1) + 1e-7
    given.parameters[1] = 0.0
    given.entries[[0, 2]] = 2.0**90
    assert (piece.room[[0, 2]] < 2.0**-50).all()
    given.entries[piece.room == 0] = 2.0**90
    assert proves(about, given, bound) or (piece.room[[0, 2]] > 0).any()


@pytest.mark.parametrize(("at_once", "most"), [(12, 2), (1, 1), (10**6, 6)])
def test_many_rows_are_traced_in_parts(
    at_once: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = region(1)
    status = [np.full(len(own), EQUAL, dtype=np.uint8) for own in about.status]
    about = replace(about, status=status)
    whole, counts, traced = FactsProver(about), [], FactsProver._traced

    def noting(prover: FactsProver, stage: int, a: Any) -> Any:
        counts.append(len(a))
        return traced(prover, stage, a)

    monkeypatch.setattr(FactsProver, "_traced", noting)
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    parts = FactsProver(about)
    assert (sum(counts), max(counts)) == (12, most)
    np.testing.assert_allclose(parts._rows.on_moves, whole._rows.on_moves, rtol=1e-12)
    np.testing.assert_allclose(parts._rows.on_neurons, whole._rows.on_neurons, rtol=1e-12)
    assert_bound(about, numbers(about, 1), 1)


@pytest.mark.parametrize("bad", [-1.0, -1e-300, np.nan, np.inf, -np.inf])
def test_multipliers_that_are_negative_or_no_numbers_are_refused(bad: float) -> None:
    about = region(0)
    prover, honest = FactsProver(about), numbers(about, 0).vector
    for place in range(len(honest)):
        vector = honest.copy()
        vector[place] = bad
        with pytest.raises(Rejected):
            prover.value(vector, Question(1, None, 1e6, signed=True))


def test_multipliers_beyond_all_measure_prove_nothing() -> None:
    about = region(0)
    prover, honest = FactsProver(about), numbers(about, 0).vector
    for place in range(len(honest)):
        for bad in (2.0**-101, 2.0**101, 1e-310, 1e300):
            vector = honest.copy()
            vector[place] = bad
            assert prover.value(vector, Question(1, None, 1e9, signed=True)) == np.inf
    for fine in (2.0**-100, 2.0**100):
        vector = honest.copy()
        vector[len(honest) - CLASSES - 4] = fine  # of a fact `z (top - z) >= 0`
        assert prover.value(vector, Question(1, None, 1e40, signed=True)) < np.inf


def test_without_a_claim_or_without_alpha_nothing_is_proved() -> None:
    about = region(0)
    given = numbers(about, 0)
    for claim in (np.inf, -np.inf, np.nan):
        found = FactsProver(about).value(given.vector, Question(1, None, claim, signed=True))
        assert found == np.inf
    given.alpha[:] = 0.0
    assert not proves(about, given, 1e9)
    given.alpha[0] = 1.0
    assert proves(about, given, 1e9)


def test_without_a_curve_or_a_top_nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrix would have a diagonal entry that is not above 0, whatever else there is."""
    about = region(0)
    given = numbers(about, 0)
    assert proves(about, given, 1e6)
    vector = given.vector.copy()
    neurons = FactsProver(about)._neurons
    vector[[0, 4 * neurons]] = 0.0
    monkeypatch.setattr(module, "_enclosed", _not_needed)
    question = Question(1, None, 1e6, signed=True)
    assert FactsProver(about).value(vector, question) == np.inf


@pytest.mark.parametrize(("curve", "within"), [(0.0, 1.0), (1e-3, 0.0), (0.2, 0.2)])
def test_a_curve_or_a_top_is_enough(curve: float, within: float) -> None:
    about = region(0)
    given = numbers(about, 0)
    given.facts[0, -1], given.facts[4, -1] = curve, within
    assert proves(about, given, 1e6)


def _not_needed(*_: object) -> None:
    raise AssertionError("computed all the same")


@pytest.mark.parametrize("kind", ["ball", "parameters"])
def test_neurons_and_their_moves_are_limited(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ball has a parameter for each pixel, but no direction: three of the entries move."""
    assert (module.MOST_NEURONS, module.MOST_COEFFICIENTS) == (2000, 2**25)
    about = region(0, kind)
    prover = FactsProver(about)
    neurons, along, free = prover._neurons, len(prover._along), len(prover._free)
    assert (along, free) == ((0, 3) if kind == "ball" else (2, 4))
    for name, most in (("MOST_NEURONS", neurons), ("MOST_COEFFICIENTS", (along + free) * neurons)):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, most)
            FactsProver(about)
            patch.setattr(module, name, most - 1)
            with pytest.raises(Rejected, match="more neurons"):
                FactsProver(about)


def test_a_large_claim_does_not_overflow() -> None:
    about = region(0)
    given = numbers(about, 0)
    given.alpha[:] = 2.0**99
    with np.errstate(over="ignore"):
        assert not proves(about, given, -1e300)


@pytest.mark.parametrize("scale", [1.0, 1e25])
def test_large_coefficients_prove_nothing(scale: float) -> None:
    about = region(0)
    net = about.bounds.network
    last = Dense(net.stages[-1][0].weight * scale * 1e10, net.stages[-1][0].bias)
    changed = Network((*net.stages[:-1], (last,)), (4,))
    bounds = quick_bounds(changed, about.bounds.piece)
    own = Region(0, bounds, status_of(bounds))
    given = numbers(own, 0)
    assert proves(own, given, 1e75) is (scale == 1.0)


def test_ranges_that_are_not_known_prove_nothing() -> None:
    about = region(0)
    given = numbers(about, 0)
    assert proves(about, given, 1e6)
    for side in ("low", "high"):
        for layer in (0, 1):
            bounds = about.bounds.copy()
            hexagons: Hexagons = bounds.hexagons[layer]
            ends = getattr(hexagons, side).copy()
            ends[:] = -np.inf if side == "low" else np.inf
            bounds.replace(layer, replace(hexagons, **{side: ends}))
            changed = Region(0, bounds, about.status)
            with np.errstate(all="ignore"):
                assert not proves(changed, given, 1e6)


def test_what_it_is_not_about_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    about = region(0)
    status = [own.copy() for own in about.status]
    status[1][0] = PAIR
    with pytest.raises(Rejected, match="two copies"):
        FactsProver(replace(about, status=status))
    ball = linf_ball(DOMAIN, 0.1, np.ones(4, dtype=np.bool_))
    pairs = Region(0, quick_bounds(about.bounds.network, ball), about.status)
    with pytest.raises(Rejected, match="no image"):
        FactsProver(pairs)


def test_the_length_of_a_proof() -> None:
    about = region(0, "parameters")
    assert FactsProver.width(about) == len(numbers(about, 0).vector)
    ball = linf_ball(DOMAIN, 0.1, np.ones(4, dtype=np.bool_))
    bounds = quick_bounds(about.bounds.network, ball)
    assert FactsProver.width(Region(0, bounds, about.status)) == FactsProver.width(about) - 3


def test_ranges() -> None:
    low = np.array([-1.0, -2.0, 0.0, 1.0, -2.0, 0.0])
    high = np.array([3.0, 0.0, 0.0, 2.0, -1.0, 2.0])
    found = _Ranges.of(low, high)
    assert found.top.tolist() == [3.0, 0.0, 0.0, 2.0, 0.0, 2.0]
    assert found.chord.tolist() == [0.75, 0.0, 1.0, 1.0, 0.0, 1.0]
    assert ((found.offset >= [0.75, 0, 0, 0, 0, 0]) & (found.offset < 0.7501)).all()
    assert (found.offset > 0).all()
    for a, b in np.random.default_rng(0).uniform(-1, 1, (200, 2)):
        ends = np.sort([a, b])
        own = _Ranges.of(ends[:1], ends[1:])
        chord, offset = Fraction(own.chord[0]), Fraction(own.offset[0])
        for end in ends:
            s = Fraction(end)
            assert max(s, Fraction(0)) <= chord * s + offset


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["ball", "parameters"])
def test_errors_hold_the_exact_numbers(
    seed: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights that nearly cancel: what is left of them is mostly rounding."""
    rng, net = np.random.default_rng(seed), network(seed)
    (_first,), (second,), (last,) = net.stages
    half = 1e6 * rng.normal(size=(3, 4))
    nearly = np.concatenate([half, half * (1 + 1e-9 * rng.normal(size=(3, 1)))])
    offset = -nearly @ versions(seed, kind).centre
    weight = second.weight * 1e5
    weight[:, 3:] = -weight[:, :3]
    stages = ((Dense(nearly, offset),), (Dense(weight, second.bias),), (last,))
    bounds = quick_bounds(Network(stages, (4,)), versions(seed, kind))
    about = Region(0, bounds, status_of(bounds))
    given = numbers(about, seed)
    kept: list[Any] = []
    enclosed = module._enclosed

    def noting(*arguments: Any) -> Any:
        kept.append(enclosed(*arguments))
        return kept[-1]

    monkeypatch.setattr(module, "_enclosed", noting)
    claim = float(rng.normal())
    proves(about, given, claim)
    ((found, radius),) = kept
    matrix, right, constant = Ideal(about).parts(given, 1)
    total = sum(fractions(given.alpha))
    exact = np.concatenate([[4 * (Fraction(claim) * total - constant)], right])[None]
    exact = np.concatenate([exact, np.concatenate([right[:, None], matrix], axis=1)])
    # The first entry is lower than the exact one at most: what is paid is part of its radius.
    off = abs(fractions(found) - exact)
    assert (off[1:, 1:] <= fractions(radius[1:, 1:])).all()
    assert off[0, 0] <= Fraction(radius[0, 0])
    assert (off.astype(np.float64) > 0).any()


def close(found: Any, expected: Any) -> bool:
    return bool(np.allclose(np.asarray(found), np.asarray(expected), rtol=1e-9, atol=0.0))


def test_the_allowance_of_versions() -> None:
    """What rounding may do to a row, to the last term: no more, no less."""
    about = region(0, "parameters")
    prover, rng = FactsProver(about), np.random.default_rng(0)
    piece: Any = about.bounds.piece
    a, constant, slip = rng.normal(size=(3, 4)), rng.normal(size=3), rng.uniform(1, 2, 3) * 1e-15
    found = prover._entered(a, np.zeros((3, 0)), constant, slip)
    reach = abs(piece.centre) + abs(piece.directions).sum(axis=1) + piece.room
    terms = 2 * 4 + 2 + 16
    own = 1.01 * 2.0**-53 * (terms + 4) * (abs(a) @ reach) + 4 * 2.0**-53 * abs(found.constant)
    assert close(found.slip, 1.001 * (slip + own))
    nothing = prover._entered(np.zeros((1, 4)), np.zeros((1, 0)), np.zeros(1), np.zeros(1))
    assert nothing.slip.tolist() == [2.0**-900]


def test_the_allowance_of_alpha() -> None:
    about = region(0)
    prover, alpha = FactsProver(about), np.array([0.75, 1.5])
    lead = prover._lead(alpha, Question(1, None, 0.0, signed=True))
    traced = prover._traced(2, np.array([[-0.75, 2.25, -1.5]]))
    np.testing.assert_array_equal(lead.on_moves, traced.on_moves)
    np.testing.assert_array_equal(lead.constant, traced.constant)
    rounded = 1.01 * 2 * 2.0**-53 * 2 * about.bounds.score_size * 2.25
    assert close(lead.slip - traced.slip, [rounded])


def test_the_allowance_of_the_matrix() -> None:
    rng, neurons, moves = np.random.default_rng(0), 3, 2
    curve, zero, line, above, within = rng.uniform(0.5, 2, (5, neurons))
    box, top, chord, offset = rng.uniform(0.5, 2, moves), *rng.uniform(0.5, 1, (3, neurons))
    given = module._Multipliers(curve, zero, line, above, within, box)
    ranges = _Ranges(top, chord, offset)
    coupling = np.tril(rng.normal(size=(neurons, neurons)), -1)
    rows = module._Rows(
        rng.normal(size=(neurons, moves)), coupling, rng.normal(size=3), rng.uniform(size=3)
    )
    lead = module._Rows(
        rng.normal(size=(1, moves)), rng.normal(size=(1, 3)), rng.normal(size=1), np.array([0.5])
    )
    for slip, limit in ((0.0, 3.0), (1.0, -700.0)):
        one = replace(rows, slip=slip * rows.slip)
        two = replace(lead, slip=slip * lead.slip)
        whole, radius = module._enclosed(one, two, ranges, given, limit)
        a, b, c = abs(rows.on_moves), abs(rows.on_neurons), abs(rows.constant)
        share = 1.01 * 2.0**-53 * (4 * (neurons + moves) + 64 + 4) * (1 + 1e-6)
        weight = chord * above + line
        g = abs(lead.on_moves[0]) + weight @ a
        half = np.diag(curve / 2)
        sizes = np.diag(curve + within) + half @ b + (half @ b).T + half @ (a / box) @ a.T @ half
        assert np.allclose(radius[1:, 1:], share * sizes, rtol=1e-9, atol=0)
        right = abs(lead.on_neurons[0]) + weight @ b + zero + line + above + within * top
        right = right + curve * (c + a @ (g / box) / 2)
        assert close(radius[0, 1:], share * right)
        assert close(radius[1:, 0], share * right)
        constant = abs(lead.constant[0]) + weight @ c + above @ offset + box.sum()
        constant += (g * g / box).sum() / 4
        paid = slip * ((curve * top + line + above * chord) @ rows.slip + 0.5)
        ends = abs(limit) + abs(limit - whole[0, 0] / 4)
        assert close(radius[0, 0], 4.001 * (share * constant + paid) + 16 * 2.0**-53 * ends)


@pytest.mark.parametrize("part", ["on_moves", "on_neurons", "constant"])
def test_rows_are_limited(part: str) -> None:
    """One coefficient that is too large, of a neuron or of the lead."""
    one = np.ones(2)
    rows = module._Rows(np.ones((2, 2)), np.zeros((2, 2)), one, one)
    lead = module._Rows(np.ones((1, 2)), np.zeros((1, 2)), one[:1], one[:1])
    given, ranges = module._Multipliers(*(one,) * 6), _Ranges(one, one, one)
    for about in ("rows", "lead"):
        for size, finite in ((2.0**100, True), (2.0**101, False), (np.nan, False)):
            both = {"rows": rows, "lead": lead}
            changed = getattr(both[about], part).copy()
            changed.flat[0] = -size
            both[about] = replace(both[about], **{part: changed})
            with np.errstate(all="ignore"):
                radius = module._enclosed(both["rows"], both["lead"], ranges, given, 1.0)[1]
            assert np.isfinite(radius[0, 0]) == finite


def test_ranges_are_limited() -> None:
    one = np.ones(2)
    rows = module._Rows(np.ones((2, 2)), np.zeros((2, 2)), one, one)
    lead = module._Rows(np.ones((1, 2)), np.zeros((1, 2)), one[:1], one[:1])
    given = module._Multipliers(*(one,) * 6)
    large = np.array([1.0, 2.0**101])
    for ranges in (_Ranges(large, one, one), _Ranges(one, one, large)):
        assert module._enclosed(rows, lead, ranges, given, 1.0)[1][0, 0] == np.inf
    fine = _Ranges(one, one, one)
    assert module._enclosed(rows, lead, fine, given, 1.0)[1][0, 0] < np.inf
    # What underflow takes is added where everything is 0.
    zeros = np.zeros(2)
    rows = module._Rows(np.zeros((2, 2)), np.zeros((2, 2)), zeros, zeros)
    lead = module._Rows(np.zeros((1, 2)), np.zeros((1, 2)), zeros[:1], zeros[:1])
    radius = module._enclosed(rows, lead, fine, replace(given, curve=zeros), 1.0)[1]
    assert radius[2, 1] == 2.0**-500
