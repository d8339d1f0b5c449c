"""A cover notices every missing part, in whatever order its parts come."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vhagar.relaxation.layerwise import Tightening
from vhagar.relaxation.lp.decisions import Decision
from vhagar.search.cover import Cover, covers
from vhagar.search.node import Closed, Node, Region

ROOTS = (Region(1, 0), Region(1, 1), Region(2, 0))
Rng = np.random.Generator


def leaves(rng: Rng, root: Region, branchings: int) -> list[Node]:
    """The leaves of a random tree of decisions and splits, in random order."""
    found = [Node(root, float(rng.random()), 0)]
    for k in range(branchings):
        parent = found.pop(int(rng.integers(len(found))))
        region = parent.region
        for side in (0, 1):
            if k % 3 == 0:
                part = Region(region.target, region.piece_index, (*region.path, side))
                child = Node(part, float(rng.random()), 2 * k + side + 1, parent.decisions)
            else:
                # The same few places come up in many branches, as in a search.
                place = (k % 2, k % 4, len(parent.decisions) % 2)
                decision = Decision(*place, bool(side))
                made = (*parent.decisions, decision)
                child = Node(region, float(rng.random()), 2 * k + side + 1, made)
            found.append(child)
    return [found[k] for k in rng.permutation(len(found))]


@pytest.mark.parametrize("seed", range(20))
def test_all_leaves_cover_and_none_can_be_missed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = [node for root in ROOTS for node in leaves(rng, root, int(rng.integers(40)))]
    assert covers(ROOTS, nodes)
    for k in range(len(nodes)):
        assert not covers(ROOTS, nodes[:k] + nodes[k + 1 :])


@pytest.mark.parametrize("seed", range(10))
def test_parts_are_few_and_keep_the_largest_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = leaves(rng, ROOTS[0], 60)
    cover = Cover(nodes[:30])
    assert max(node.upper for node in cover.nodes()) == max(node.upper for node in nodes[:30])
    cover.add(nodes[30:])
    (whole,) = cover.nodes()
    assert (whole.region, whole.decisions) == (ROOTS[0], ())
    assert whole.upper == max(node.upper for node in nodes)


def test_what_is_covered_twice_does_no_harm() -> None:
    rng = np.random.default_rng(0)
    nodes = leaves(rng, ROOTS[0], 30)
    assert covers(ROOTS[:1], nodes + nodes[:7])
    assert covers(ROOTS[:1], [Node(ROOTS[0], 1.0, 0), *nodes[:7]])
    assert not covers(ROOTS[:1], nodes[:7] + nodes[:7])


def test_a_subtree_with_tighter_bounds_is_a_part_like_others() -> None:
    rng = np.random.default_rng(1)
    tightening = Tightening(b"digest", 0.0, 1, ())
    nodes = [
        replace(node, region=replace(node.region, tightening=tightening))
        if node.decisions and node.decisions[0].positive
        else node
        for node in leaves(rng, ROOTS[0], 40)
    ]
    assert any(node.region.tightening for node in nodes)
    assert covers(ROOTS[:1], nodes)
    assert not covers(ROOTS[:1], nodes[1:])
    closed = Closed()
    closed.keep(nodes[0], 1.0)
    assert closed.nodes[0].region.tightening is None
