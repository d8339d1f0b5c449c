"""Nodes are small, ordered, and their bounds are never forgotten."""

from __future__ import annotations

import heapq
import math
import pickle

import numpy as np
import pytest

from vhagar.relaxation.lp.decisions import Decision
from vhagar.search.node import Closed, Node, Region


def deep_node(depth: int) -> Node:
    rng = np.random.default_rng(depth)
    decisions = tuple(
        Decision(int(rng.integers(5)), int(rng.integers(4096)), int(rng.integers(2)), bool(k % 2))
        for k in range(depth)
    )
    region = Region(3, 17, tuple(int(part) for part in rng.integers(0, 2, 12)))
    return Node(region, 12.345678901234567, (3 << 40) + 123456, decisions, (3 << 40) + 123455)


@pytest.mark.parametrize("depth", [0, 1, 60])
def test_a_node_is_small_and_travels(depth: int) -> None:
    """It holds decisions, and no copy of any model."""
    node = deep_node(depth)
    sent = pickle.dumps(node)
    assert len(sent) < 5_000
    back = pickle.loads(sent)
    assert (back.region, back.upper, back.number) == (node.region, node.upper, node.number)
    assert (back.decisions, back.basis) == (node.decisions, node.basis)


def test_many_nodes_of_a_subtree_share_what_they_have_in_common() -> None:
    """A worker sends its open nodes at once: the decisions above them travel once."""
    root = deep_node(60)
    siblings = [
        Node(root.region, 1.0, k, (*root.decisions, Decision(0, k, 0, True))) for k in range(100)
    ]
    assert len(pickle.dumps(siblings)) < 300 * len(siblings)


def test_the_most_promising_comes_first_and_among_equals_the_youngest() -> None:
    region = Region(1, 0)
    uppers = [(2.0, 1), (3.0, 2), (3.0, 5), (-math.inf, 4), (math.inf, 3)]
    heap = [Node(region, upper, number) for upper, number in uppers]
    heapq.heapify(heap)
    order = [heapq.heappop(heap).number for _ in uppers]
    assert order == [3, 5, 2, 1, 4]


def test_closed_nodes_leave_their_largest_bound_for_each_target() -> None:
    closed = Closed()
    closed.add(1, 2.0)
    closed.add(1, 1.0)
    closed.add(2, -math.inf)  # proved empty: nothing above 0
    other = Closed()
    other.add(1, 2.5)
    other.add(3, 0.5)
    closed.merge(other)
    assert closed.uppers == {1: 2.5, 2: 0.0, 3: 0.5}


def test_what_is_no_number_is_no_bound() -> None:
    region = Region(1, 0)
    assert Node(region, math.nan, 0).upper == math.inf
    closed = Closed()
    closed.add(1, 2.0)
    closed.add(1, math.nan)
    assert closed.uppers[1] == math.inf
