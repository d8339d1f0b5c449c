"""Regions: what their blocks say, what is refused, and whose bounds become tighter."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from vhagar_check import regions as module
from vhagar_check.conditions import read_conditions
from vhagar_check.errors import Rejected
from vhagar_check.formula import Bounds, Decisions, from_sides
from vhagar_check.layers import Dense, Network
from vhagar_check.moved import identity
from vhagar_check.neuron_bounds import quick_bounds
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.rational import ExactBounds
from vhagar_check.regions import (
    EQUAL,
    OFF,
    ON,
    PAIR,
    Form,
    Numbers,
    Region,
    Regions,
    Scope,
    read_status,
)

from .asking import with_json

DOMAIN = Domain((3,), 0.0, 1.0)
SIZES = [5, 4]
PLAIN = [PAIR, ON, PAIR, OFF, PAIR, PAIR, PAIR, ON, EQUAL]


def network(seed: int = 1, inputs: int = 3) -> Network:
    rng = np.random.default_rng(seed)
    sizes = [inputs, *SIZES, 2]
    stages = tuple(
        (Dense(rng.normal(size=(o, i)), rng.normal(size=o) / 2),)
        for i, o in itertools.pairwise(sizes)
    )
    return Network(stages, (inputs,))


def form(text: str = "linf(0.25)", domain: Domain = DOMAIN, **given: Any) -> Form:
    own = network(inputs=domain.size)
    return Form(own, pieces(text, domain, True), network(2, domain.size), domain, **given)


def block(status: list[int] = PLAIN, data: bytes = b"", **about: Any) -> bytes:
    given = {"piece": 0, "span": None, "layers": SIZES, "refined": [], **about}
    return with_json(given, bytes(status) + data)


def sides_of(bounds: Bounds, layer: int) -> list[list[float]]:
    h = bounds.hexagons[layer]
    return [part.tolist() for part in (h.low, h.high, h.low_p, h.high_p, h.gap_low, h.gap_high)]


def test_the_piece_of_a_region() -> None:
    whole = form("occlusion([1,2],1,1)", Domain((1, 2, 2), 0.0, 1.0))
    assert len(whole.pieces) == 2
    for number in (0, 1):
        assert whole.of(number) == (whole.network, whole.pieces[number])
    alone, piece = whole.of(None)
    assert alone is whole.alone
    assert piece.domain is whole.domain
    assert not piece.rises.any()
    for number in (2, -1, True, 0.0, "0"):
        with pytest.raises(Rejected, match="a piece that the perturbation does not have"):
            whole.of(number)


def test_what_a_scope_covers() -> None:
    scope = Scope(1, 2.0, Decisions(signs={(0, 3): {1: -1}}, sides={5: 1}))
    inside = Decisions(signs={(0, 3): {0: 1, 1: -1}, (1, 0): {0: 1}}, sides={5: 1, 6: -1})
    assert scope.covers(1, inside)
    for target, node in (
        (2, inside),
        (None, inside),
        (1, Decisions(signs=inside.signs)),
        (1, Decisions(signs=inside.signs, sides={5: -1})),
        (1, Decisions(signs={(0, 3): {1: 1}}, sides={5: 1})),
        (1, Decisions(signs={(0, 3): {0: -1}}, sides={5: 1})),
        (1, Decisions(sides={5: 1})),
    ):
        assert not scope.covers(target, node)
    assert Scope(1, 2.0, Decisions()).covers(1, Decisions())
    two = Scope(1, 2.0, Decisions(sides={5: 1, 6: -1}))
    assert two.covers(1, inside)
    assert not two.covers(1, Decisions(sides={5: 1, 6: 1}))
    two = Scope(1, 2.0, Decisions(signs={(0, 3): {0: 1, 1: -1}, (1, 0): {0: -1}}))
    assert not two.covers(1, inside)
    anywhere = Scope(None, 2.0, scope.decisions)
    assert anywhere.covers(2, inside)
    assert anywhere.covers(None, inside)


def test_the_width_of_a_vector() -> None:
    """Two numbers for a pair and one for equal copies, then alphas, mus and weights of cuts."""
    status = [np.array(PLAIN[:5], dtype=np.uint8), np.array(PLAIN[5:], dtype=np.uint8)]
    bounds: Any = None
    assert Region(0, bounds, status).width(4, has_target=False) == 2 * 5 + 1 + 3
    assert Region(0, bounds, status).width(4, has_target=True) == 2 * 5 + 1 + 6
    cuts: Any = (None, None)
    assert Region(0, bounds, status, cuts=cuts).width(4, has_target=True) == 2 * 5 + 1 + 6 + 2


def test_a_region_without_refinements_has_the_quick_bounds() -> None:
    whole = form()
    found = Regions(whole).read(block())
    quick = quick_bounds(whole.network, whole.pieces[0])
    for layer in range(2):
        assert sides_of(found.bounds, layer) == sides_of(quick, layer)
    assert [part.tolist() for part in found.status] == [PLAIN[:5], PLAIN[5:]]
    assert (found.piece_number, found.scope, found.entries, found.empty) == (0, None, {}, False)
    assert found.bounds.piece is whole.pieces[0]
    alone = Regions(whole).read(block(piece=None))
    assert alone.bounds.network is whole.alone
    assert alone.piece_number is None


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (block(PLAIN[:-1]), "too few numbers"),
        (block([*PLAIN, 0]), "too many numbers"),
        (block(layers=[5, 4, 2]), "other layers"),
        (block(layers=[4, 5]), "other layers"),
        (block([4, *PLAIN[1:]]), "unknown status"),
        (block([*PLAIN[:-1], 255]), "unknown status"),
        (block(piece=1), "a piece that the perturbation does not have"),
        (block(span=[0.0, 1.0]), "has no parameter"),
        (block(entries=[[0, 0.0, 1.0]]), "need not be a whole number"),
        (block(decisions=[]), "decisions that it may not have"),
        (block(data=bytes(4), refined=[]), "too many numbers"),
    ],
)
def test_what_is_refused(raw: bytes, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        Regions(form()).read(raw)


def test_a_part_of_a_parameter() -> None:
    reader = Regions(form("brightness([0.1,0.5])"))
    found = reader.read(block(span=[0.1, 0.25]))
    assert found.bounds.piece.span == (0.1, 0.25)
    assert reader.read(block(span=[0.1, 0.5])).bounds.piece.span == (0.1, 0.5)
    with pytest.raises(Rejected, match="which part of the parameter"):
        reader.read(block())


def test_bounds_are_kept_while_the_piece_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def quick(network: Network, piece: Any, kind: type[Bounds]) -> Bounds:
        asked.append((piece.span, kind))
        return quick_bounds(network, piece, kind)

    monkeypatch.setattr(module, "quick_bounds", quick)
    reader = Regions(form("brightness([0.1,0.5])"))
    spans = [[0.1, 0.25], [0.1, 0.25], [0.25, 0.5], [0.1, 0.25]]
    found = [reader.read(block(span=span)) for span in spans]
    found[0].bounds.hexagons[0] = found[0].bounds.hexagons[1]
    assert sides_of(found[1].bounds, 0) == sides_of(found[3].bounds, 0)
    assert asked == [((0.1, 0.25), Bounds), ((0.25, 0.5), Bounds), ((0.1, 0.25), Bounds)]
    reader.read(block(piece=None))
    assert len(asked) == 4
    exact = Regions(form(), exact=True).read(block())
    assert type(exact.bounds) is ExactBounds
    assert asked[-1] == (None, ExactBounds)


def whole_numbers() -> Form:
    """Entry 0 is a whole number from 0 to 3."""
    conditions = read_conditions({"integer": [0], "rows": []}, 3)
    box = np.zeros(3), np.array([3.0, 1.0, 1.0])
    return form("linf(0.25)", Domain((3,), 0.0, 4.0, box, conditions))


def test_a_part_of_the_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Regions(whole_numbers())
    found = reader.read(block(entries=[[0, 1.0, 2.0]]))
    assert found.entries == {0: (1.0, 2.0)}
    assert not found.empty
    assert [side[0] for side in found.bounds.piece.inputs] == [1.0, 2.0]
    everything = reader.read(block())
    assert [side[0] for side in everything.bounds.piece.inputs] == [0.0, 3.0]
    assert sides_of(everything.bounds, 0) != sides_of(found.bounds, 0)
    assert sides_of(reader.read(block(entries=[[0, 1.0, 2.0]])).bounds, 0) == sides_of(
        found.bounds, 0
    )
    empty = reader.read(block(entries=[[0, 2.0, 1.0]]))
    assert empty.empty
    assert empty.entries == {0: (2.0, 1.0)}
    assert sides_of(empty.bounds, 0) == sides_of(everything.bounds, 0)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([[3, 0.0, 1.0]], "an entry that there is not"),
        ([[-1, 0.0, 1.0]], "an entry that there is not"),
        ([[True, 0.0, 1.0]], "an entry that there is not"),
        ([[0, 0.0, 1.0], [0, 0.0, 2.0]], "one twice"),
        ([[0, 0.0, 1e999]], "not readable JSON|not finite"),
        ([[0, "nan", 1.0]], "not finite"),
        ([[0, 1.0, "inf"]], "not finite"),
    ],
)
def test_parts_of_the_domain_that_are_none(entries: Any, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        Regions(whole_numbers()).read(block(entries=entries))


def test_numbers_follow_each_other() -> None:
    data = np.array([1.5, 2.5], "<f4").tobytes() + bytes([7, 8])
    reader = Numbers(data)
    assert reader.take("<f4", 0).tolist() == []
    assert reader.take("<f4", 2).tolist() == [1.5, 2.5]
    with pytest.raises(Rejected, match="too many"):
        reader.finish()
    with pytest.raises(Rejected, match="too few"):
        reader.take(np.uint8, 3)
    with pytest.raises(Rejected, match="too few"):
        reader.take(np.uint8, -1)
    assert reader.take(np.uint8, 2).tolist() == [7, 8]
    reader.finish()
    with pytest.raises(Rejected, match="too few"):
        reader.take("<f4", 1)


def test_linear_units_are_on() -> None:
    own = network()
    mask = np.array([False, False, False, False, True])
    for linear in ((mask, None), (None, mask[1:])):
        mixed = Network(own.stages, (3,), linear)
        status = [PAIR] * 9
        place = 4 if linear[0] is not None else 8
        for value in (OFF, PAIR, EQUAL):
            status[place] = value
            with pytest.raises(Rejected, match="linear unit that is not on"):
                read_status(Numbers(bytes(status)), mixed)
        both = Network(own.stages, (3,), tuple(None if m is None else m | True for m in linear))
        with pytest.raises(Rejected, match="linear unit that is not on"):
            read_status(Numbers(bytes([ON] * place + [PAIR] + [ON] * (8 - place))), both)
        status[place] = ON
        found = read_status(Numbers(bytes(status)), mixed)
        assert [part.tolist() for part in found] == [status[:5], status[5:]]


def one_copy() -> SimpleNamespace:
    """Bounds of one image's versions: both copies are the same."""
    own = network()
    piece = identity(DOMAIN)
    piece.__dict__["sides"] = 2
    return SimpleNamespace(network=own, piece=piece, bounds=quick_bounds(own, piece))


def test_decided_neurons_are_cut_at_0() -> None:
    plain = one_copy().bounds
    low, high = plain.hexagons[0].low, plain.hexagons[0].high
    (crossing, *_) = np.flatnonzero((low < 0) & (high > 0)).tolist()
    for positive in (0, 1):
        bounds = one_copy().bounds
        scope = module._decided(bounds, [[0, crossing, positive]])
        assert scope.target is None
        assert scope.level == -np.inf
        assert scope.decisions.signs == {(0, crossing): {0: 1 if positive else -1}}
        found = bounds.hexagons[0]
        ends = (found.low[crossing], found.high[crossing])
        assert ends == ((0.0, high[crossing]) if positive else (low[crossing], 0.0))
        others = np.arange(5) != crossing
        assert found.low[others].tolist() == low[others].tolist()
        assert found.high[others].tolist() == high[others].tolist()
        assert bounds.corners[0].magnitude[crossing] == max(map(abs, ends))


@pytest.mark.parametrize(
    ("ends", "positive", "expected"),
    [
        ((1.0, 2.0), 0, (1.0, 2.0)),
        ((-2.0, -1.0), 1, (-2.0, -1.0)),
        ((0.0, 2.0), 0, (0.0, 0.0)),
        ((-2.0, 0.0), 1, (0.0, 0.0)),
        ((-2.0, 2.0), 1, (0.0, 2.0)),
    ],
)
def test_a_decision_that_leaves_nothing_changes_nothing(
    ends: tuple[float, float], positive: int, expected: tuple[float, float]
) -> None:
    bounds = one_copy().bounds
    sides = [np.full(4, -ends[0]), np.full(4, ends[1])] * 2 + [np.zeros(4)] * 2
    bounds.replace(1, from_sides(sides, 1.0))
    module._decided(bounds, [[1, 3, positive]])
    found = bounds.hexagons[1]
    assert (found.low[3], found.high[3]) == expected
    assert (found.low[0], found.high[0]) == ends


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (None, "may not have"),
        ({"0": 1}, "may not have"),
        ([[0, 0]], "that is none"),
        ([[0, 0, 0, 0]], "that is none"),
        ([(0, 0, 1)], "that is none"),
        ([[0, 0, True]], "that is none"),
        ([[0, 0, 2]], "that is none"),
        ([[0, 0, -1]], "that is none"),
        ([[0, 4, 1]], "that is none"),
        ([[2, 0, 1]], "neuron that there is not"),
        ([[-1, 0, 1]], "neuron that there is not"),
        ([[0, 5, 1]], "neuron that there is not"),
        ([[1, 4, 1]], "neuron that there is not"),
        ([[0, -1, 1]], "neuron that there is not"),
        ([[0, 0, 1], [0, 0, 0]], "twice"),
    ],
)
def test_decisions_that_are_none(steps: Any, words: str) -> None:
    given = one_copy()
    linear = np.array([False, False, False, False, True]), None
    mixed = Network(given.network.stages, (3,), linear)
    with pytest.raises(Rejected, match=words):
        module._decided(quick_bounds(mixed, given.piece), steps)


def test_pairs_have_no_decisions_of_their_region() -> None:
    whole = form()
    with pytest.raises(Rejected, match="may not have"):
        module._decided(quick_bounds(whole.network, whole.pieces[0]), [])
