"""Cuts: their limits hold, and a certificate proves no more by them than follows."""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from vhagar_check import cone_proofs
from vhagar_check.cone_proofs import with_cuts
from vhagar_check.container import Block
from vhagar_check.cuts import Cut, Weighted
from vhagar_check.errors import Rejected
from vhagar_check.evaluation import proof_groups
from vhagar_check.exact import Exact
from vhagar_check.formula import Bounds, Decisions
from vhagar_check.hexagon import exact_offset
from vhagar_check.layers import Conv, Dense, Network
from vhagar_check.neuron_bounds import quick_bounds
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.proofs import CONTRADICTION, MULTIPLIERS, Prover, Question
from vhagar_check.rational import ExactBounds
from vhagar_check.regions import EQUAL, OFF, ON, PAIR, Region

from .test_formula import activations, network, pairs

SHAPE = (1, 4, 4)
Entry = dict[str, Any]


def convolutional(rng: np.random.Generator) -> Network:
    """Its second layer sees windows of the first: cuts are proved in a crop."""
    first = Conv(
        rng.normal(size=(2, 1, 2, 2)), rng.normal(size=2) / 2, SHAPE, (1, 1), (0,) * 4, (1, 1), 1
    )
    second = Conv(
        rng.normal(size=(2, 2, 2, 2)), rng.normal(size=2), (2, 3, 3), (1, 1), (0,) * 4, (1, 1), 1
    )
    last = Dense(rng.normal(size=(3, 8)), rng.normal(size=3))
    return Network(((first,), (second,), (last,)), SHAPE)


def region_of(net: Network, kind: type[ExactBounds] | None = None) -> Region:
    (piece,) = pieces("linf(0.25)", Domain(net.input_shape, 0.0, 1.0), True)
    bounds = quick_bounds(net, piece, *([] if kind is None else [kind]))
    status = []
    for h in bounds.hexagons:
        own = np.where(h.off, OFF, np.where(h.on, ON, PAIR))
        status.append(own.astype(np.uint8))
    return Region(0, bounds, status)


def described(
    own: Region, rng: np.random.Generator, layer: int, units: list[int], splits: int
) -> tuple[Entry, np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """A cut with quick multipliers, and a tree that decides some signs of the first layer."""
    a, b = abs(rng.normal(size=(2, len(units))))
    bounds = own.bounds
    rows = np.zeros((2, 1, len(own.status[layer])))
    rows[0, 0, units], rows[1, 0, units] = a, b
    chosen: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def choose(k: int, on_s: np.ndarray, on_t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        chosen[k] = bounds.quick(k, on_s, on_t)
        return chosen[k]

    bounds.upper_of_outputs(layer, rows[0], rows[1], choose, [Decisions()])
    seen = [np.flatnonzero(status >= PAIR) for status in own.status[: layer + 1]]
    below = [n for n in seen[0].tolist() if chosen[0][0][0, n] or chosen[0][1][0, n]]
    tree: list[Any] = [0]
    for n in below[:splits]:  # the first leaf is split
        tree = [[0, n, len(tree) % 4 // 2], *tree, 0]
    leaves = tree.count(0)
    tables = [
        tuple(np.repeat(chosen[k][side][:, own], leaves, axis=0) for side in (0, 1))
        for k, own in enumerate(seen)
    ]
    entry = {"layer": layer, "units": units, "seen": [s.tolist() for s in seen], "tree": tree}
    return entry, a, b, tables


def block(
    entry: Entry,
    a: np.ndarray,
    b: np.ndarray,
    tables: list[tuple[np.ndarray, np.ndarray]],
    **more: Any,
) -> bytes:
    text = json.dumps({"cuts": [entry], **more}).encode()
    parts = [part.astype("<f8").tobytes() for part in (a, b)]
    parts += [part.astype("<f4").tobytes() for both in tables for part in both]
    return struct.pack("<I", len(text)) + text + b"".join(parts)


@pytest.mark.parametrize(
    ("build", "layer", "units"),
    [
        (network, 0, [0, 1, 3, 4, 7, 8]),
        (network, 1, [0, 1, 2, 3, 4]),
        (convolutional, 0, [0, 1, 3, 4, 7, 8]),
        (convolutional, 1, [0, 4]),
    ],
)
def test_a_limit_holds_for_all_pairs(
    build: Callable[..., Network], layer: int, units: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(9)
    net = build(rng)
    own = region_of(net)
    entry, a, b, tables = described(own, rng, layer, units, 3)
    assert len(entry["tree"]) == 7
    tables = [tuple(part * rng.uniform(0.5, 1.5, part.shape) for part in both) for both in tables]
    (cut,) = with_cuts(own, [block(entry, a, b, tables)]).cuts
    best = -np.inf
    for x, x_p in pairs(own.bounds.piece, rng, 60):
        outputs = (activations(net, part)[layer] for part in (x, x_p))
        value = sum(
            Fraction(float(c)) * max(s[n], 0)
            for weights, s in zip((a, b), outputs, strict=True)
            for n, c in zip(units, weights, strict=True)
        )
        assert value <= Fraction(cut.limit)
        best = max(best, float(value))
    assert cut.limit < best + 30
    # In the whole network the same is proved as in the part on which the units depend.
    monkeypatch.setattr(Bounds, "around", lambda self, _, neurons: (self, neurons, None))
    (whole,) = with_cuts(own, [block(entry, a, b, tables)]).cuts
    assert whole.limit == pytest.approx(cut.limit, rel=1e-9)


def test_a_known_maximum_is_found() -> None:
    """`relu(x - 1/4) - relu(x - 1/2)` is at most 1/4; without decided signs, 3/8 is proved."""
    first = Dense(np.ones((2, 1)), np.array([-0.25, -0.5]))
    own = region_of(Network(((first,), (Dense(np.eye(2), np.zeros(2)),)), (1,)))
    entry = {"layer": 0, "units": [0, 1], "seen": [[0, 1]], "tree": [[0, 0, 0], 0, [0, 1, 0], 0, 0]}
    a, b, q = np.array([1.0, -1.0]), np.zeros(2), np.zeros((3, 2))
    p = np.array([[0.0, 0.0], [1.0, -1.0], [1.0, -1.0]])
    (cut,) = with_cuts(own, [block(entry, a, b, [(p, q)])]).cuts
    assert 0.25 <= cut.limit == pytest.approx(0.25, abs=1e-12)
    # The multipliers of one leaf prove less of another: every leaf has its own.
    for order in ([1, 0, 2], [1, 2, 0]):
        (other,) = with_cuts(own, [block(entry, a, b, [(p[order], q)])]).cuts
        assert other.limit > 0.49
    # In the second copy nothing is decided.
    (other,) = with_cuts(own, [block(entry, b, a, [(q, p)])]).cuts
    assert other.limit > 0.49


FORGERIES: dict[str, tuple[str, Callable[[Entry], None]]] = {
    "a leaf missing": ("lacks a leaf", lambda e: e["tree"].pop()),
    "a leaf too many": ("after its last leaf", lambda e: e["tree"].append(0)),
    "a sign twice": ("twice", lambda e: e["tree"].__setitem__(1, list(e["tree"][0]))),
    "a split elsewhere": ("without multipliers", lambda e: e["tree"][0].__setitem__(0, 2)),
    "a split outside": ("without multipliers", lambda e: e["seen"][0].remove(e["tree"][0][1])),
    "a copy too many": ("without multipliers", lambda e: e["tree"][0].__setitem__(2, 2)),
    "no node": ("that is none", lambda e: e["tree"].__setitem__(0, None)),
    "a child that is true": ("that is none", lambda e: e["tree"].__setitem__(-1, False)),
    "no tree": ("no tree", lambda e: e.update(tree=[])),
    "a huge tree": ("too many leaves", lambda e: e.update(tree=[0] * 2**13)),
    "a tree that is none": ("no tree", lambda e: e.update(tree=0)),
    "a leaf of another number": ("that is none", lambda e: e["tree"].__setitem__(-1, 1)),
    "a node without a copy": ("that is none", lambda e: e["tree"][0].pop()),
    "a node of truths": ("that is none", lambda e: e["tree"][0].__setitem__(0, False)),
    "no layer": ("layer that there is not", lambda e: e.update(layer=2)),
    "a layer that is true": ("layer that there is not", lambda e: e.update(layer=True)),
    "a layer below": ("layer", lambda e: e.update(layer=0)),
    "a unit too many": ("that there are not", lambda e: e.update(units=[1, 5])),
    "units out of order": ("not in order", lambda e: e.update(units=[3, 1])),
    "a unit twice": ("not in order", lambda e: e.update(units=[1, 1])),
    "no units": ("no units", lambda e: e.update(units=[])),
    "nothing seen": ("which neurons", lambda e: e.update(seen=None)),
    "another key": ("not understood", lambda e: e.update(limit=-5.0)),
    "too few numbers": ("too few", lambda e: e.update(units=[0, 1, 3])),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_cuts_are_refused(name: str) -> None:
    rng = np.random.default_rng(9)
    own = region_of(network(rng))
    entry, a, b, tables = described(own, rng, 1, [1, 3], 3)
    message, edit = FORGERIES[name]
    edit(entry)
    with pytest.raises(Rejected, match=message):
        with_cuts(own, [block(entry, a, b, tables)])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"cuts": []}, "no cuts"),
        ({"cuts": {"layer": 0}}, "no cuts"),
        ({"limits": [0.0]}, "not understood"),
    ],
)
def test_a_block_has_cuts_and_nothing_else(more: Entry, message: str) -> None:
    rng = np.random.default_rng(9)
    own = region_of(network(rng))
    raw = block(*described(own, rng, 1, [1, 3], 1), **more)
    with pytest.raises(Rejected, match=message):
        with_cuts(own, [raw])


def test_numbers_behind_the_last_cut_are_refused() -> None:
    rng = np.random.default_rng(9)
    own = region_of(network(rng))
    raw = block(*described(own, rng, 1, [1, 3], 1))
    assert len(with_cuts(own, [raw, raw]).cuts) == 2
    with pytest.raises(Rejected, match="too many numbers"):
        with_cuts(own, [raw, raw + bytes(8)])


def test_a_region_has_a_limited_number_of_cuts_and_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks count together: each is small, and what is kept of them is not."""
    rng = np.random.default_rng(9)
    own = region_of(network(rng))
    first, other = (block(*described(own, rng, 1, units, 1)) for units in ([2], [1, 3]))
    for name, value in (("_MOST_CUTS", 3), ("_MOST_UNITS", 5)):
        with monkeypatch.context() as patch:
            patch.setattr(cone_proofs, name, value)
            assert len(with_cuts(own, [first, other, other]).cuts) == 3
            with pytest.raises(Rejected, match="too many"):
                with_cuts(own, [first, other, other, first])


def halfway(size: int) -> Region:
    """Every unit is 0 for one half of the range of its own input."""
    stages = (Dense(np.eye(size), np.full(size, -0.5)),), (Dense(np.eye(size), np.zeros(size)),)
    return region_of(Network(stages, (size,)))


def test_every_leaf_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs of three units are decided in both copies, but for one, in as many leaves as may be."""
    own, bits = halfway(3), 5
    nodes: list[Any] = [0]
    for k in range(bits):  # the last one is the first that is decided: its bit is the highest
        nodes = [[0, k // 2, k % 2], *nodes, *nodes]
    entry = {"layer": 0, "units": [0, 1, 2], "seen": [[0, 1, 2]], "tree": nodes}
    signs = (np.arange(2**bits)[:, None] >> np.arange(bits)) & 1
    p, q = signs[:, 0::2].astype(float), np.hstack([signs[:, 1::2], np.zeros((2**bits, 1))])
    a, b = np.ones(3), np.array([1.0, 1.0, 0.0])
    monkeypatch.setattr(cone_proofs, "_MOST_LEAVES", 2**bits)
    monkeypatch.setattr(cone_proofs, "_BATCH", 5)
    (cut,) = with_cuts(own, [block(entry, a, b, [(p, q)])]).cuts
    assert 2.5 <= cut.limit == pytest.approx(2.5)
    for useless in range(2**bits):
        other = p.copy()
        other[useless] += 100.0
        (cut,) = with_cuts(own, [block(entry, a, b, [(other, q)])]).cuts
        assert cut.limit > 50
    monkeypatch.setattr(cone_proofs, "_MOST_LEAVES", 2**bits - 1)
    with pytest.raises(Rejected, match="too many leaves"):
        with_cuts(own, [block(entry, a, b, [(p, q)])])


def test_one_leaf_is_a_tree() -> None:
    own = halfway(2)
    entry = {"layer": 0, "units": [0, 1], "seen": [[0, 1]], "tree": [0]}
    half = np.full((1, 2), 0.5)
    (cut,) = with_cuts(own, [block(entry, np.ones(2), np.zeros(2), [(half, 0 * half)])]).cuts
    assert 1 <= cut.limit == pytest.approx(1)


def test_signs_that_the_units_do_not_depend_on_decide_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neurons outside of the part of the network that is looked at, behind it and within it."""
    rng = np.random.default_rng(9)
    own = region_of(convolutional(rng))
    units = [0, 4]  # one place of both channels: they see four of nine places of two channels
    _, _, inside = own.bounds.around(1, np.array(units))
    assert inside is not None
    entry, a, b, tables = described(own, rng, 1, units, 2)
    strange = [n for n in entry["seen"][0] if n not in inside[0]]
    assert min(strange) < inside[0].max() < max(strange)
    found, expected = [], []
    for n, copy, _ in itertools.product(strange, (0, 1), range(4)):
        twice = {**entry, "tree": [[0, n, copy], *entry["tree"], *entry["tree"]]}
        # Both sides have multipliers of their own: a sign that counted would show.
        sides = [
            tuple(np.tile(part, (2, 1)) * rng.uniform(0, 2, (6, part.shape[1])) for part in both)
            for both in tables
        ]
        raw = block(twice, a, b, sides)
        found.append(with_cuts(own, [raw]).cuts[0].limit)
        with monkeypatch.context() as patch:
            patch.setattr(Bounds, "around", lambda self, _, neurons: (self, neurons, None))
            expected.append(with_cuts(own, [raw]).cuts[0].limit)
    assert found == pytest.approx(expected, rel=1e-9)


def test_a_tree_has_a_limited_depth() -> None:
    own = halfway(80)
    for depth, refused in ((64, False), (65, True)):
        tree: list[Any] = [0]
        for n in range(depth):
            tree = [[0, n, 0], *tree, 0]
        entry = {"layer": 0, "units": [0], "seen": [list(range(80))], "tree": tree}
        zeros = np.zeros((depth + 1, 80))
        raw = block(entry, np.ones(1), np.ones(1), [(zeros, zeros)])
        if refused:
            with pytest.raises(Rejected, match="too deep"):
                with_cuts(own, [raw])
        else:
            assert with_cuts(own, [raw]).cuts[0].limit < 2


@pytest.mark.parametrize("place", ["a", "p"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(place: str, value: float) -> None:
    rng = np.random.default_rng(9)
    own = region_of(network(rng))
    entry, a, b, tables = described(own, rng, 1, [1, 3], 1)
    (a if place == "a" else tables[0][0][0])[0] = value
    with pytest.raises(Rejected, match="not finite"):
        with_cuts(own, [block(entry, a, b, tables)])


def test_numbers_without_a_bound_give_no_limit() -> None:
    rng = np.random.default_rng(9)
    own = region_of(network(rng))
    entry, a, b, tables = described(own, rng, 1, [1, 3], 1)
    (cut,) = with_cuts(own, [block(entry, a * 1e308, b * 1e308, tables)]).cuts
    assert cut.limit == np.inf


def small(exact: bool = False) -> Region:
    """One hidden layer with units of all kinds, and three cuts: two with limits."""
    rng = np.random.default_rng(1)
    first = Dense(rng.normal(size=(6, 4)), rng.normal(size=6) / 4)
    last = Dense(rng.normal(size=(3, 6)), rng.normal(size=3))
    own = region_of(Network(((first,), (last,)), (4,)), ExactBounds if exact else None)
    status = np.array([PAIR, EQUAL, PAIR, ON, OFF, PAIR], dtype=np.uint8)
    cuts = [
        Cut(0, np.array([0, 3, 5]), rng.normal(size=3), rng.normal(size=3), limit)
        for limit in (0.7, np.inf, -0.3)
    ]
    return replace(own, status=[status], cuts=tuple(cuts))


def expected(own: Region, vector: np.ndarray, case: Decisions) -> Fraction:
    """The sum of alpha times the bound, from its definition."""
    u = [Fraction(float(part)) for part in vector]
    p = [u[0], u[6], u[1], None, Fraction(0), u[2]]
    q = [u[3], Fraction(0), u[4], None, Fraction(0), u[5]]
    alpha, mu, rho = u[7:9], u[9:11], u[11:]
    last, first = own.bounds.network.stages[1][0], own.bounds.network.stages[0][0]
    on_first = Exact.of_fractions([sum(alpha), -alpha[0], -alpha[1]])
    on_second = Exact.of_fractions([-mu[0], sum(mu), -mu[1]])
    total = on_first.dot(Exact.of(last.bias)) + on_second.dot(Exact.of(last.bias))
    a, b = (last.exact_backward(part).fractions() for part in (on_first, on_second))
    for weight, cut in zip(rho, own.cuts, strict=True):
        if weight:
            total += weight * Fraction(cut.limit)
            for n, c, d in zip(cut.units.tolist(), cut.a.tolist(), cut.b.tolist(), strict=True):
                a[n] -= weight * Fraction(c)
                b[n] -= weight * Fraction(d)
    for n in range(6):
        p[n], q[n] = (a[n], b[n]) if p[n] is None else (p[n], q[n])
        numbers = a[n], b[n], p[n], q[n]
        total += exact_offset(own.bounds.hexagons[0], n, case.signs.get((0, n), {}), numbers)
    ends = Exact.of_fractions(p), Exact.of_fractions(q)
    total += sum(end.dot(Exact.of(first.bias)) for end in ends)
    return total + own.bounds.piece.exact_within(*(first.exact_backward(end) for end in ends))


def vectors(count: int) -> np.ndarray:
    found = np.random.default_rng(2).normal(size=(count, 7 + 4 + 3))
    found[:, 7:] = abs(found[:, 7:])
    found[:, 12] = 0.0  # the cut without a limit
    return found


def values(own: Region, kind: int, numbers: np.ndarray, claim: float = 0.0) -> list[float]:
    kinds = np.full(len(numbers), kind, dtype=np.uint8)
    cases = [Decisions({(0, 0): {0: 1}}) for _ in numbers]
    with np.errstate(all="ignore"):
        return Prover(own, Question(0, 1, claim)).values(kinds, numbers, cases).tolist()


@pytest.mark.parametrize("exact", [False, True])
def test_weights_of_cuts_count_as_the_formula_says(exact: bool) -> None:
    own, numbers = small(exact), vectors(5)
    case = Decisions({(0, 0): {0: 1}})
    right = [expected(own, row, case) / sum(map(Fraction, row[7:9].tolist())) for row in numbers]
    assert min(right) > 0
    found = values(own, MULTIPLIERS, numbers)
    assert found == pytest.approx([float(part) for part in right], rel=1e-9)
    without = numbers.copy()
    without[:, 11:] = 0.0
    assert found != pytest.approx(values(own, MULTIPLIERS, without), rel=1e-3)
    for k in range(5):
        assert Fraction(found[k]) >= right[k]
        # A claim at the edge is decided in exact arithmetic.
        edge = float(np.nextafter(float(right[k]), np.inf))
        (judged,) = values(own, MULTIPLIERS, numbers[[k]], edge)
        assert right[k] <= Fraction(judged) <= Fraction(edge)


def test_a_cut_without_a_limit_proves_nothing() -> None:
    own, numbers = small(), vectors(3)
    before = values(own, MULTIPLIERS, numbers)
    numbers[1, 12] = 5e-324
    for claim in (0.0, 1e9):
        found = values(own, MULTIPLIERS, numbers, claim)
        assert found == pytest.approx([before[0], np.inf, before[2]], rel=1e-12)


def test_a_contradiction_by_cuts() -> None:
    """The weight of a cut with a low enough limit makes a number negative that is at least 0."""
    own, numbers = small(), vectors(1)
    numbers[0, 7:9] = 0.0
    bound = float(expected(own, numbers[0], Decisions({(0, 0): {0: 1}})))
    assert values(own, CONTRADICTION, numbers) == [np.inf]
    share = numbers[0, 13]
    for limit, answer in ((-1.01, -np.inf), (-0.99, np.inf)):
        rest = replace(own.cuts[2], limit=own.cuts[2].limit + limit * bound / share)
        lower = replace(own, cuts=(*own.cuts[:2], rest))
        assert values(lower, CONTRADICTION, numbers) == [answer]


@pytest.mark.parametrize("value", [-5e-324, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("kind", [MULTIPLIERS, CONTRADICTION])
def test_weights_of_cuts_must_be_finite_and_not_negative(kind: int, value: float) -> None:
    numbers = vectors(2)
    numbers[1, 13] = value
    with pytest.raises(Rejected, match="negative weight"):
        values(small(), kind, numbers)


SIZES = np.array([2.0, 3.0, 4.0])


def lost_and_allowed(
    cuts: Weighted, a: np.ndarray, b: np.ndarray, constant: float = 0.0, error: float = 0.0
) -> tuple[Fraction, Fraction]:
    """What rounding makes of coefficients and constant, times the outputs' sizes, and its bound."""
    begun = a, b, np.array([constant]), np.array([error])
    on_s, on_t, total, bound = cuts.taken_off(0, *begun, SIZES)
    exact = cuts.exactly_taken_off(0, Exact.of(a[0]), Exact.of(b[0]))
    lost = abs(Fraction(float(total[0])) - Fraction(constant) - exact[2])
    for found, right in ((on_s, exact[0]), (on_t, exact[1])):
        for n, number in enumerate(right.fractions()):
            lost += abs(Fraction(float(found[0, n])) - number) * Fraction(SIZES[n])
    return lost, Fraction(float(bound[0]))


@pytest.mark.parametrize("limit", [1e-9 / 3, 1e9 / 3])
def test_the_rounding_of_cuts_is_paid_for(limit: float) -> None:
    """What is taken off nearly cancels numbers that are 10^15 times as large as the rest."""
    cut = Cut(0, np.array([0, 2]), np.array([0.1, 0.3]), np.array([0.7, -0.9]), limit)
    given = np.array([[1e14 / 3, 5.0, 1e15 / 7]]), np.array([[-1e14 / 9, 1.0, 3e14 / 7]])
    weighted = Weighted((cut, cut), np.array([[1e15 / 3, 1e14 / 7]]))
    lost, allowed = lost_and_allowed(weighted, *given)
    assert 0 < lost <= allowed < 10**4 * lost
    zero = np.zeros(1)
    assert weighted.taken_off(1, *given, zero, zero, SIZES) == (*given, zero, zero)
    exact = tuple(Exact.of(part[0]) for part in given)
    assert weighted.exactly_taken_off(1, *exact) == (*exact, 0)
    nothing = Weighted((cut, cut), np.zeros((1, 2)))
    assert nothing.taken_off(0, *given, zero, zero, SIZES)[3] is zero


@pytest.mark.parametrize(
    ("a", "b", "on_a", "on_b", "limit", "constant"),
    [
        (1e16 / 3, 0.0, 0.3, 0.0, 0.0, 0.0),
        (0.0, 1e16 / 3, 0.0, 0.3, 0.0, 0.0),
        (1e16 / 3, -1e16 / 3, 0.3, 0.3, 0.0, 0.0),
        (0.0, 0.0, 1e16 / 3, 0.0, 0.0, 0.0),
        (0.0, 0.0, 0.0, 1e16 / 3, 0.0, 0.0),
        (0.0, 0.0, 0.0, 0.0, 1e16 / 3, 0.0),
        (0.0, 0.0, 0.0, 0.0, -1e16 / 3, 0.0),
        (0.0, 0.0, 0.0, 0.0, 0.3, 1e16 / 3),
        (0.0, 0.0, 0.0, 0.0, 0.3, -1e16 / 3),
    ],
)
@pytest.mark.parametrize("weights", [(0.7,), (7e9 / 3,), (7e-17, 0.7), (0.7, 0.7000001, 7e-17)])
def test_everything_that_is_rounded_is_paid_for(
    a: float,
    b: float,
    on_a: float,
    on_b: float,
    limit: float,
    constant: float,
    weights: tuple[float, ...],
) -> None:
    """One number is large at a time, so that nothing else can pay for its rounding."""
    unit, row = np.array([1]), np.array([[0.0, 1.0, 0.0]])
    cuts = tuple(
        Cut(0, unit, np.array([sign * on_a]), np.array([sign * on_b]), sign * limit)
        for sign in (1.0, -1.0, 1.0)[: len(weights)]
    )
    weighted = Weighted(cuts, np.array([weights]))
    lost, allowed = lost_and_allowed(weighted, a * row, b * row, constant)
    assert 0 < lost <= allowed
    # What was lost before is not forgotten.
    assert lost_and_allowed(weighted, a * row, b * row, constant, 1e20)[1] >= 10**20


def test_rounding_adds_up_over_many_cuts() -> None:
    """Each takes off less than half of what float64 can tell from 1: all of it is lost."""
    count, little = 1000, 0.99 * 2.0**-54
    cut = Cut(0, np.array([1]), np.array([little]), np.array([0.0]), 0.0)
    row = np.array([[0.0, 1.0, 0.0]])
    weighted = Weighted((cut,) * count, np.ones((1, count)))
    lost, allowed = lost_and_allowed(weighted, row, 0 * row)
    assert lost == count * Fraction(little) * 3
    assert lost <= allowed


@pytest.mark.parametrize("count", [1, 3])
def test_what_cuts_lose_to_underflow_is_paid_for(count: int) -> None:
    """Also where subnormal numbers are flushed to 0: one product for each cut and copy."""
    cut = Cut(0, np.array([0, 2]), np.full(2, 1e-200), np.full(2, 1e-200), 0.0)
    zeros = np.zeros((1, 3))
    weighted = Weighted((cut,) * count, np.full((1, count), 1e-200))
    _, allowed = lost_and_allowed(weighted, zeros, zeros)
    assert allowed >= 2 * count * Fraction(2.0**-1022) * Fraction(SIZES.sum())


def test_a_weight_of_one_is_a_weight() -> None:
    cut = Cut(0, np.array([1]), np.array([2.0]), np.array([3.0]), 5.0)
    zeros, zero = np.zeros((1, 3)), np.zeros(1)
    a, b, constant, _ = Weighted((cut,), np.ones((1, 1))).taken_off(
        0, zeros, zeros, zero, zero, SIZES
    )
    assert (a[0, 1], b[0, 1], constant[0]) == (-2.0, -3.0, 5.0)


@pytest.mark.parametrize(
    ("tags", "right"),
    [
        ("REGN CUTS CUTS PROF", True),
        ("REGN REFN CUTS PROF", True),
        ("REGN CUTS REFN PROF", False),
        ("REGN TIGH CUTS PROF", False),
        ("REGN CUTS TIGH PROF", False),
        ("REGN PROF CUTS PROF", False),
        ("SPEC CUTS PROF", False),
        ("CUTS PROF", False),
    ],
)
def test_cuts_come_before_the_proofs_of_a_plain_region(tags: str, right: bool) -> None:
    blocks = [Block(tag, k, 0, 0) for k, tag in enumerate(["HEAD", *tags.split()])]
    if right:
        ((_, before, proofs),) = proof_groups(blocks)
        assert [*before, *proofs] == blocks[2:]
    else:
        with pytest.raises(Rejected, match="not in order"):
            proof_groups(blocks)
