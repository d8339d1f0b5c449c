"""The search tree: that it covers everything, and what follows from the bounds of its nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vhagar_check import tree as module
from vhagar_check.conditions import read_conditions
from vhagar_check.errors import Rejected
from vhagar_check.layers import Dense, Network
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.tree import RECORD, Root, Tree

DOMAIN = Domain((1, 2, 3), 0.0, 1.0)
SIZES = (4, 5)
LINEAR = np.array([False, False, False, False, True])


def _network() -> Network:
    stages = tuple(
        (Dense(np.ones((out, into)), np.zeros(out)),)
        for into, out in ((6, SIZES[0]), (SIZES[0], SIZES[1]), (SIZES[1], 3))
    )
    return Network(stages, DOMAIN.shape, (None, LINEAR))


def decision(parent: int, layer: int, neuron: int, copy: int = 0) -> list[list[float]]:
    return [[parent, 0, copy, side, 0, layer, neuron, 0.0] for side in (0, 1)]


def split(parent: int, at: float) -> list[list[float]]:
    return [[parent, 1, 0, side, 0, 0, 0, at] for side in (0, 1)]


def tree(records: list[list[Any]], text: str = "brightness([0.1,0.5])", roots: int = 1) -> Tree:
    rows = np.array([tuple(record) for record in records], dtype=RECORD)
    return Tree([Root(k, 0) for k in range(roots)], rows, _network(), pieces(text, DOMAIN, False))


def test_the_decisions_and_the_part_of_every_node() -> None:
    records = [
        *split(0, 0.25),
        *decision(3, 0, 2),
        *decision(4, 1, 3, copy=1),
        *decision(6, -1, 5),
        *decision(7, 0, 2),
        *split(1, 0.3),
    ]
    found = tree(records, roots=2)
    assert found.count == 2 + len(records)
    assert found.case(0)[:2] == (0, (0.1, 0.5))
    assert found.case(1)[:2] == (1, (0.1, 0.5))
    assert found.case(2)[:2] == (0, (0.1, 0.25))
    assert found.case(3)[:2] == (0, (0.25, 0.5))
    assert found.case(12)[:2] == (1, (0.1, 0.3))
    assert found.case(13)[:2] == (1, (0.3, 0.5))
    _, span, decided = found.case(4)
    assert (span, decided.signs, decided.sides) == ((0.25, 0.5), {(0, 2): {0: -1}}, {})
    _, _, decided = found.case(7)
    assert decided.signs == {(0, 2): {0: -1}, (1, 3): {1: 1}}
    _, _, decided = found.case(9)
    assert decided.sides == {5: 1}
    assert found.case(8)[2].sides == {5: -1}
    # What is decided again stays as it was decided first.
    for node in (10, 11):
        assert found.case(node)[2].signs[0, 2] == {0: -1}


def test_a_node_of_no_piece_has_no_part() -> None:
    rows = np.zeros(0, dtype=RECORD)
    alone = Tree(
        [Root(None, None)], rows, _network(), pieces("brightness([0.1,0.5])", DOMAIN, True)
    )
    assert alone.case(0)[:2] == (0, None)


BROKEN: dict[str, tuple[Callable[[list[list[Any]]], None], str]] = {
    "one child": (lambda r: r.pop(), "single child"),
    "another parent": (lambda r: r[1].__setitem__(0, 1), "two sides"),
    "another kind": (lambda r: r[1].__setitem__(1, 1), "two sides"),
    "another copy": (lambda r: r[1].__setitem__(2, 1), "two sides"),
    "both negative": (lambda r: r[1].__setitem__(3, 0), "two sides"),
    "both positive": (lambda r: r[0].__setitem__(3, 1), "two sides"),
    "positive first": (lambda r: (r[0].__setitem__(3, 1), r[1].__setitem__(3, 0)), "two sides"),
    "a side of 2": (lambda r: r[1].__setitem__(3, 2), "two sides"),
    "another layer": (lambda r: r[1].__setitem__(5, 1), "two sides"),
    "another neuron": (lambda r: r[1].__setitem__(6, 1), "two sides"),
    "another point": (lambda r: r[1].__setitem__(7, 0.5), "two sides"),
    "its own parent": (lambda r: [x.__setitem__(0, 2) for x in r[:2]], "before its parent"),
    "its sibling's child": (lambda r: [x.__setitem__(0, 3) for x in r[:2]], "before its parent"),
    "a later parent": (lambda r: [x.__setitem__(0, 4) for x in r[:2]], "before its parent"),
    "two pairs": (lambda r: [x.__setitem__(0, 0) for x in r[2:4]], "more than two"),
    "an unknown kind": (lambda r: [x.__setitem__(1, 4) for x in r[:2]], "unknown kind"),
    "a third copy": (lambda r: [x.__setitem__(2, 2) for x in r[:2]], "unknown kind"),
    "a layer too far": (lambda r: [x.__setitem__(5, 2) for x in r[:2]], "layer"),
    "a layer far too far": (lambda r: [x.__setitem__(5, 3) for x in r[:2]], "layer"),
    "a layer before the pixels": (lambda r: [x.__setitem__(5, -2) for x in r[:2]], "layer"),
    "a neuron too far": (lambda r: [x.__setitem__(6, 4) for x in r[:2]], "neuron"),
    "a pixel too far": (
        lambda r: [(x.__setitem__(5, -1), x.__setitem__(6, 6)) for x in r[:2]],
        "neuron",
    ),
    "a linear unit": (
        lambda r: [(x.__setitem__(5, 1), x.__setitem__(6, 4)) for x in r[:2]],
        "linear unit",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_cover_is_refused(name: str) -> None:
    records: list[list[Any]] = [*decision(0, 0, 0), *decision(2, 0, 3), *decision(4, 1, 3)]
    tree(records, roots=2)
    change, words = BROKEN[name]
    change(records)
    with pytest.raises(Rejected, match=words):
        tree(records, roots=2)


def test_every_neuron_and_pixel_may_be_decided() -> None:
    for layer, neuron in ((0, 3), (1, 3), (-1, 5), (-1, 0), (0, 0)):
        tree(decision(0, layer, neuron))


@pytest.mark.parametrize("at", [0.1, 0.5, 0.05, 0.6, -1.0, np.nan, np.inf])
def test_a_split_outside_the_part_is_refused(at: float) -> None:
    records = split(0, at)
    with pytest.raises(Rejected):
        tree(records).case(1)


def test_a_split_outside_the_smaller_part_is_refused() -> None:
    found = tree([*split(0, 0.25), *split(1, 0.3), *split(2, 0.3)])
    with pytest.raises(Rejected, match="outside its range"):
        found.case(3)
    assert found.case(5)[1] == (0.25, 0.3)


def test_a_split_of_what_has_no_parameter_is_refused() -> None:
    with pytest.raises(Rejected, match="no parameter"):
        tree(split(0, 0.25), "linf(0.1)").case(1)


def entry_split(parent: int, entry: int, at: float) -> list[list[float]]:
    return [[parent, 3, 0, side, 0, 0, entry, at] for side in (0, 1)]


def whole_tree(records: list[list[Any]]) -> Tree:
    """A tree over a domain whose entry 0 is a whole number, with the one-hot entries 1, 2 and 3."""
    given = {"integer": [0], "one_hot": [[1, 2, 3]]}
    ends = np.zeros(6), np.array([7.0, 1, 1, 1, 8, 8])
    domain = Domain((1, 2, 3), 0.0, 8.0, ends, read_conditions(given, 6))
    rows = np.array([tuple(record) for record in records], dtype=RECORD)
    return Tree([Root(1, 0)], rows, _network(), pieces("brightness([0.1,0.5])", domain, False))


def test_a_split_by_an_entry_narrows_its_range() -> None:
    records = [*entry_split(0, 0, 3.0), *entry_split(2, 0, 5.0), *entry_split(3, 2, 0.0)]
    found = whole_tree([*records, *split(6, 0.25), *decision(8, 0, 1)])
    ranges = [found.case(node)[2].entries for node in range(found.count)]
    assert ranges[:3] == [{}, {0: (0.0, 3.0)}, {0: (4.0, 7.0)}]
    assert ranges[3:5] == [{0: (4.0, 5.0)}, {0: (6.0, 7.0)}]
    assert ranges[5:7] == [{0: (4.0, 5.0), 2: (0.0, 0.0)}, {0: (4.0, 5.0), 2: (1.0, 1.0)}]
    assert ranges[8] == ranges[10] == ranges[6]
    assert found.case(8)[1] == (0.25, 0.5)
    assert found.case(10)[2].signs == {(0, 1): {0: 1}}


@pytest.mark.parametrize(
    ("records", "words"),
    [
        (entry_split(0, 4, 3.0), "need not be a whole number"),
        (entry_split(0, 6, 3.0), "need not be a whole number"),
        (entry_split(0, 0, 3.5), "value that is not a whole number"),
        (entry_split(0, 0, np.nan), "two sides"),
        (entry_split(0, 0, np.inf), "value that is not a whole number"),
        (entry_split(0, 0, 2.0**52), "value that is not a whole number"),
        (entry_split(0, 0, -(2.0**52)), "value that is not a whole number"),
        (entry_split(0, 0, 3.0)[:1], "single child"),
        ([entry_split(0, 0, 3.0)[0], entry_split(0, 0, 4.0)[1]], "two sides"),
        ([entry_split(0, 0, 3.0)[0], entry_split(0, 1, 3.0)[1]], "two sides"),
        ([entry_split(0, 0, 3.0)[0], split(0, 3.0)[1]], "two sides"),
    ],
)
def test_splits_that_leave_inputs_out_are_refused(records: list[list[Any]], words: str) -> None:
    with pytest.raises(Rejected, match=words):
        whole_tree(records)


def test_without_whole_numbers_no_entry_is_split() -> None:
    with pytest.raises(Rejected, match="need not be a whole number"):
        tree(entry_split(0, 0, 0.0))


def test_the_bound_of_a_node_is_its_own_or_its_childrens() -> None:
    """The larger one of the children's, if that is less; from the leaves up."""
    records = [*decision(0, 0, 0), *decision(3, 0, 1), *decision(1, 0, 2), *decision(7, 1, 0)]
    found = tree(records, roots=2)
    inf = np.inf
    values = np.array([9.0, inf, 5.0, inf, 2.0, 3.0, 4.0, inf, 1.0, 7.0])
    assert found.combine(values).tolist() == [5.0, 7.0, 5.0, 3.0, 2.0, 3.0, 4.0, 7.0, 1.0, 7.0]
    values[5] = inf
    assert found.combine(values).tolist()[:4] == [9.0, 7.0, 5.0, inf]
    values[[2, 4, 5]] = -inf
    assert found.combine(values).tolist()[:4] == [-inf, 7.0, -inf, -inf]
    values[0] = 1.0
    values[2] = 8.0
    assert found.combine(values)[0] == 1.0
    assert tree([]).combine(np.array([3.0])).tolist() == [3.0]


def test_the_deepest_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module._DEEPEST == 4096

    def chain(depth: int) -> list[list[Any]]:
        found = decision(0, 0, 0)
        for k in range(1, depth):
            found += decision(2 * k, 0, 0)
        return found

    monkeypatch.setattr(module, "_DEEPEST", 5)
    tree(chain(5))
    with pytest.raises(Rejected, match="deeper"):
        tree(chain(6))
    # Many nodes are not many steps.
    tree([*decision(0, 0, 0), *decision(1, 0, 1), *decision(2, 0, 1), *decision(3, 0, 2)])


def slope(parent: int, layer: int, neuron: int) -> list[list[float]]:
    return [[parent, 2, 0, side, 0, layer, neuron, 0.0] for side in (0, 1)]


def _by_slopes(records: list[list[Any]], slopes: bool = True) -> Tree:
    rows = np.array([tuple(record) for record in records], dtype=RECORD)
    text = "brightness([0.1,0.5])"
    return Tree([Root(1, 0, slopes)], rows, _network(), pieces(text, DOMAIN, False))


def test_a_tree_split_by_slopes() -> None:
    found = _by_slopes([*slope(0, 0, 2), *slope(2, 1, 3), *slope(4, 0, 2)])
    _, span, decided = found.case(4)
    assert (span, decided.signs) == ((0.1, 0.5), {})
    assert decided.slopes == {(0, 2): True, (1, 3): True}
    assert found.case(1)[2].slopes == {(0, 2): False}
    # What is decided again stays as it was decided first.
    assert found.case(5)[2].slopes == found.case(6)[2].slopes == {(0, 2): True, (1, 3): True}


@pytest.mark.parametrize("slopes", [True, False])
def test_slopes_and_other_steps_are_not_mixed(slopes: bool) -> None:
    mixed = _by_slopes([*slope(0, 0, 2), *decision(1, 0, 1)], slopes)
    with pytest.raises(Rejected, match="mixed"):
        mixed.case(3)
    if not slopes:
        with pytest.raises(Rejected, match="mixed"):
            mixed.case(1)


@pytest.mark.parametrize(("layer", "neuron"), [(-1, 0), (2, 0), (0, 4), (1, 4)])
def test_slopes_are_those_of_relus(layer: int, neuron: int) -> None:
    with pytest.raises(Rejected):
        _by_slopes(slope(0, layer, neuron))


def test_whole_numbers_up_to_the_largest_may_be_split_at() -> None:
    """Every whole number below has its neighbours in float64."""
    for at in (2.0**52 - 1, 1 - 2.0**52):
        assert whole_tree(entry_split(0, 0, at)).count == 3


def test_a_tree_that_boxes_prove_has_no_children() -> None:
    rows = np.array([tuple(record) for record in decision(1, 0, 1)], dtype=RECORD)
    made = pieces("linf(0.25)", DOMAIN, True)
    fine = Tree([Root(1, 0, boxes=True), Root(1, 0)], rows, _network(), made)
    assert fine.count == 4
    for roots in ([Root(1, 0), Root(1, 0, boxes=True)], [Root(1, 0, boxes=True)] * 2):
        with pytest.raises(Rejected, match="boxes prove has children"):
            Tree(roots, rows, _network(), made)
