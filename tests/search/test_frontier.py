"""No node is lost, whatever workers do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vhagar.relaxation.lp.decisions import Decision
from vhagar.search.frontier import Frontier
from vhagar.search.node import Closed, Node, Region, first_number
from vhagar.search.node_solver import Explored

TARGETS = (1, 2)


def nodes(count: int, rng: np.random.Generator) -> list[Node]:
    return [
        Node(Region(int(rng.choice(TARGETS)), 0), float(rng.random()), first_number(k % 2) + k)
        for k in range(count)
    ]


def test_bounds_never_forget_a_node() -> None:
    """Workers take, report, shrink and die at random; no bound falls below a node's."""
    rng = np.random.default_rng(0)
    frontier = Frontier(nodes(40, rng))
    held: dict[int, list[Node]] = {}
    least = dict(frontier.uppers(TARGETS))
    for _ in range(300):
        worker = int(rng.integers(3))
        if worker not in held:
            if len(frontier):
                held[worker] = frontier.take(worker, int(rng.integers(1, 6)))
        elif rng.random() < 0.2:
            frontier.abandon(worker)
            del held[worker]
        else:
            shrunk, closed = [], Closed()
            for node in held.pop(worker):
                upper = 0.99 * node.upper
                if rng.random() < 0.1:
                    closed.add(node.region.target, upper)
                else:
                    shrunk.append(Node(node.region, upper, node.number))
            frontier.put_back(worker, Explored(shrunk, closed, 1))
        uppers = frontier.uppers(TARGETS)
        for target in TARGETS:
            assert uppers[target] <= least[target]
            known = [n.upper for own in held.values() for n in own if n.region.target == target]
            assert uppers[target] >= max(known, default=0.0)
        least = uppers
    for worker in list(held):
        frontier.abandon(worker)
    assert not frontier.in_flight
    assert max(frontier.uppers(TARGETS).values()) > 0.0


def test_the_best_node_is_taken_and_then_those_the_worker_knows() -> None:
    region = Region(1, 0)
    given = [Node(region, 10.0 - k, first_number(k % 2) + k) for k in range(8)]
    frontier = Frontier(given)
    taken = frontier.take(1, 3)
    assert taken[0] is given[0]
    assert [node.maker for node in taken[1:]] == [1, 1]
    assert frontier.has(1)
    assert not frontier.has(0)
    assert len(frontier) == 5


def test_what_is_lent_counts_until_it_is_back() -> None:
    """A worker that keeps nodes reports bounds at random, gives some back, or dies."""
    rng = np.random.default_rng(1)
    keeper, root = 7, Region(1, 0)
    frontier = Frontier(nodes(60, rng))
    kept: list[Node] = []
    lent: list[Node] = []
    for _ in range(200):
        best = frontier.best()
        taken = frontier.lend(keeper, 5, 2, 0.1, [root])
        assert all(node.region == root and node.upper > 0.1 for node in taken)
        assert len(frontier) < 2 or frontier.best() == best  # the very best stay
        kept, lent = kept + taken, lent + taken
        known = [node.upper for node in kept]
        assert frontier.uppers(TARGETS)[1] >= max(known, default=0.0)
        if rng.random() < 0.1:
            frontier.abandon(keeper)
            assert frontier.uppers(TARGETS)[1] >= max((n.upper for n in lent), default=0.0)
            kept, lent = [], []
            assert not frontier.in_flight
            continue
        kept = [Node(node.region, 0.97 * node.upper, node.number) for node in kept]
        back, kept = kept[:2], kept[2:]
        held = {1: max(node.upper for node in kept)} if kept else {}
        frontier.report(keeper, Explored(back, Closed(), 1), held)
        assert frontier.in_flight == bool(kept)
        lent = lent if kept else []
        everything = [node.upper for node in kept + back]
        assert frontier.uppers(TARGETS)[1] >= max(everything, default=0.0)


def test_bounds_of_a_keeper_are_those_it_reports_last() -> None:
    frontier = Frontier([Node(Region(1, 0), 9.0 - k, k) for k in range(3)])
    taken = frontier.lend(5, 10, 1, 7.5, [Region(1, 0)])
    assert [node.upper for node in taken] == [8.0]
    assert frontier.uppers([1]) == {1: 9.0}
    frontier.take(0, 1)
    frontier.put_back(0, Explored([], Closed(), 1))
    assert frontier.uppers([1]) == {1: 8.0}
    closed = Closed()
    closed.add(1, 2.0)
    frontier.report(5, Explored([], closed, 4), {1: 7.25})
    assert frontier.uppers([1]) == {1: 7.25}
    frontier.report(5, Explored([Node(Region(1, 0), 3.0, 9)], closed, 4), {})
    assert frontier.uppers([1]) == {1: 7.0}
    assert frontier.explored == 9
    assert not frontier.in_flight


def test_whole_nodes_replace_the_parts_that_a_lost_keeper_gave_back() -> None:
    """Parts that others have made of these parts are replaced, too; other nodes stay."""
    region, keeper = Region(1, 0), 5
    first, second, third = (Decision(0, k, 0, True) for k in range(3))
    other = Node(region, 9.0, 1, (replace(first, positive=False),))
    whole = Node(region, 8.0, 2, (first,))
    frontier = Frontier([other, whole])
    assert frontier.lend(keeper, 10, 1, 0.0, [region]) == [whole]
    parts = [
        Node(region, 7.5, first_number(keeper) + k, (first, replace(second, positive=k == 0)))
        for k in range(2)
    ]
    frontier.report(keeper, Explored(parts, Closed(), 2), {1: 7.0})
    assert frontier.best_of(keeper) == (7.5, 9.0)
    best, part = frontier.take(0, 2)
    assert best is other
    deeper = Node(region, 6.0, first_number(0), (*part.decisions, third))
    frontier.put_back(0, Explored([other, deeper], Closed(), 1))
    assert frontier.best_of(0) == (6.0, 9.0)
    frontier.abandon(keeper)
    assert frontier.take(0, 5) == [other, whole]


def test_what_a_lost_keeper_had_is_open_again() -> None:
    given = [Node(Region(1, 0), 9.0 - k, k) for k in range(5)]
    frontier = Frontier(given)
    frontier.lend(5, 10, 1, 0.0, [Region(1, 0)])
    assert len(frontier) == 1
    frontier.report(5, Explored([], Closed(), 4), {1: 7.25})
    frontier.abandon(5)
    assert not frontier.in_flight
    assert {node.number for node in frontier.take(0, 5)} == {node.number for node in given}


def test_what_is_kept_is_all_there_is() -> None:
    """Open, in a worker's hands, lent or closed: a frontier made of it has the same bounds."""
    rng = np.random.default_rng(2)
    given = nodes(40, rng)
    frontier = Frontier(given, keeps_closed=True)
    taken = frontier.take(0, 6)
    frontier.lend(7, 5, 2, 0.1, [Region(1, 0), Region(2, 0)])
    closed = Closed()
    for node in taken[:3]:
        closed.add(node.region.target, node.upper)
        closed.keep(node, node.upper)
    frontier.put_back(0, Explored(taken[3:], closed, 1))
    frontier.take(1, 4)
    opened, parts = frontier.kept()
    assert sorted(node.number for node in opened) == sorted(
        node.number for node in given if node not in taken[:3]
    )
    again = Frontier(opened, parts, keeps_closed=True)
    assert again.uppers(TARGETS) == frontier.uppers(TARGETS)
    assert len(again) == len(given) - 3
    assert [node.upper for node in again.kept()[1]] == [node.upper for node in parts]


def test_roots_are_capped_by_what_is_known_and_children_are_not() -> None:
    decided = (Decision(0, 0, 0, True),)
    child = replace(Node(Region(1, 0), 9.0, 3), decisions=decided)
    frontier = Frontier([Node(Region(1, 0), 9.0, 1), child, Node(Region(2, 0), 9.0, 2)])
    frontier.cap_roots({1: 4.0, 2: 12.0}.__getitem__)
    assert frontier.uppers(TARGETS) == {1: 9.0, 2: 9.0}
    taken = frontier.take(0, 3)
    assert sorted((node.region.target, node.upper) for node in taken) == [(1, 4), (1, 9), (2, 9)]
    assert taken[-1].upper == 4.0  # the smallest bound comes last


def test_the_target_with_the_largest_better_bound_comes_first() -> None:
    """What another search knows of a target counts, where it knows anything of it."""
    decided = (Decision(0, 0, 0, True),)
    frontier = Frontier(
        [
            Node(Region(1, 0), 9.0, 0, decided),
            Node(Region(1, 0), 8.0, 1, decided),
            Node(Region(2, 0), 5.0, 2, decided),
        ]
    )
    frontier.known_elsewhere = lambda: {1: 3.0}
    assert [node.region.target for node in frontier.take(0, 2)] == [2, 1]
    frontier.abandon(0)
    frontier.known_elsewhere = lambda: {1: 6.0, 2: 7.0}
    assert [node.upper for node in frontier.take(0, 3)] == [9.0, 8.0, 5.0]


def test_every_target_has_its_root_bounded_here() -> None:
    decided = (Decision(0, 0, 0, True),)
    frontier = Frontier([Node(Region(1, 0), 6.0, 0), Node(Region(2, 0), 5.0, 1, decided)])
    frontier.known_elsewhere, frontier.roots_as_they_are = lambda: {1: 3.0}, True
    assert [node.region.target for node in frontier.take(0, 2)] == [1, 2]
