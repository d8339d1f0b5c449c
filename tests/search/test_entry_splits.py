"""Splits of the search space by entries that are whole numbers."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Domain, Zonotope
from vhagar.perturbation import parse
from vhagar.search.cover import covers
from vhagar.search.entry_splits import (
    EntryBrancher,
    EntrySplit,
    entry_ranges,
    halvings,
    is_entry_step,
    part_of,
    split_of,
)
from vhagar.search.node import Node, Region

from .proofs.test_tree import network

DOMAIN = Domain((5,), -3, 4, integer=[0, 1], one_hot=[[2, 3, 4]])


@pytest.mark.parametrize("lower", [-3.0, -2.5, 0.0])
def test_steps_name_their_splits(lower: float) -> None:
    domain = Domain((5,), lower, 4, integer=[0, 1])
    steps = set()
    for entry in (0, 1, 4):
        for at in range(int(np.floor(lower)), 4):
            split = EntrySplit(entry, at)
            for above in (False, True):
                step = split.step(domain, above)
                assert is_entry_step(step)
                assert split_of(step, domain) == (split, above)
                steps.add(step)
            assert split.step(domain, above=False) ^ 1 == split.step(domain, above=True)
    assert len(steps) == 6 * (4 - np.floor(lower))
    assert not is_entry_step(0)
    assert not is_entry_step(1)


def test_a_path_narrows_entries_to_ranges() -> None:
    path = (
        EntrySplit(1, 0).step(DOMAIN, above=True),
        0,
        EntrySplit(1, 2).step(DOMAIN, above=False),
        EntrySplit(0, -2).step(DOMAIN, above=False),
        1,
    )
    assert entry_ranges(path, DOMAIN) == {0: (-3.0, -2.0), 1: (1.0, 2.0)}
    assert list(entry_ranges(path, DOMAIN)) == [0, 1]
    assert halvings(path) == 2
    assert entry_ranges((), DOMAIN) == {}


def test_parts_of_a_piece_have_smaller_domains() -> None:
    (piece,) = parse("linf(0.5)").pieces(DOMAIN, True)
    assert part_of(piece, ()) is piece
    hot = part_of(piece, [EntrySplit(3, 0).step(DOMAIN, above=True)])
    assert hot is not None
    assert hot.domain.low.tolist() == [-3, -3, 0, 1, 0]
    assert hot.domain.high.tolist() == [4, 4, 0, 1, 0]
    assert piece.domain.high.tolist() == [4, 4, 1, 1, 1]
    path = [EntrySplit(k, 0).step(DOMAIN, above=False) for k in (2, 3)]
    rest = part_of(piece, path)
    assert rest is not None
    assert rest.domain.low[4] == 1
    assert part_of(piece, [*path, EntrySplit(4, 0).step(DOMAIN, above=False)]) is None


def test_siblings_cover_their_parent() -> None:
    region, split = Region(1, 0), EntrySplit(0, 1)
    parts = [
        Node(Region(1, 0, (split.step(DOMAIN, above),)), 1.0, k)
        for k, above in enumerate((False, True), start=1)
    ]
    assert covers([region], parts)
    assert not covers([region], parts[:1])


def test_the_fractional_entry_that_matters_most_is_split() -> None:
    net = network(5, 6, 3)
    brancher = EntryBrancher(net, DOMAIN)
    weights = abs(net.layers[0].weight).sum(axis=0)
    x = np.array([0.0, 2.0, 1.0, 0.0, 0.0])
    assert brancher.choose(DOMAIN, x, binary=False) is None
    x[:2] = -1.5, 2.5
    best = int(weights[:2].argmax())
    found = brancher.choose(DOMAIN, x, binary=False)
    assert found == EntrySplit(best, (-2, 2)[best])
    assert brancher.choose(DOMAIN, x, binary=True) is None
    x[2:] = 0.0, 0.4, 0.6
    binary = brancher.choose(DOMAIN, x, binary=True)
    assert binary is not None
    assert binary.entry in (3, 4)
    assert binary.at == 0
    # What was settled on the way is not split again.
    fixed = DOMAIN.with_box(DOMAIN.low, np.array([4.0, 4, 1, 0, 0]))
    assert brancher.choose(fixed, x, binary=True) is None


def test_a_domain_without_whole_numbers_has_nothing_to_split() -> None:
    domain = Domain((5,), -3, 4)
    assert EntryBrancher(network(5, 6, 3), domain).choose(domain, np.full(5, 0.5), False) is None


@pytest.mark.parametrize("middle", [-0.1, 0.1, 0.4, -1.6])
def test_splits_of_an_entry_in_a_zonotope_come_to_an_end(middle: float) -> None:
    mean, component = np.full(5, 0.5), np.eye(5)[:1]
    mean[0] = middle
    rest = Zonotope(mean, component, np.array([0.9]), np.array([1e-3, 1, 1, 1, 1]))
    domain = Domain((5,), -3, 4, integer=[0], zonotope=rest)
    assert domain.low[0] == np.ceil(domain.low[0])
    assert domain.high[0] == np.floor(domain.high[0])
    (piece,), brancher = (
        parse("linf(0.5)").pieces(domain, True),
        EntryBrancher(network(5, 6, 3), domain),
    )
    left, steps = [()], 0
    while left and steps < 20:
        path, steps = left.pop(), steps + 1
        part = part_of(piece, path)
        if part is None:
            continue
        x = part.domain.low + 0.7 * (part.domain.high - part.domain.low)
        split = brancher.choose(part.domain, x)
        if split is not None:
            left += [(*path, split.step(domain, above)) for above in (False, True)]
    assert not left


def test_values_that_steps_cannot_hold_are_not_split() -> None:
    x = np.full(5, 0.5)
    for low, high in ((-1e30, 4.0), (0.0, 1e30)):
        domain = Domain((5,), low, high, integer=[0])
        brancher = EntryBrancher(network(5, 6, 3), domain)
        assert (brancher.choose(domain, x) is None) == (low < 0)
        assert brancher.choose(domain, x + 2.0**52) is None
