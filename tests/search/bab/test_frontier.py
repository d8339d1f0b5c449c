"""No node is lost, whatever workers do."""

from __future__ import annotations

import numpy as np

from vhagar.search.bab.explorer import Explored
from vhagar.search.bab.frontier import Frontier
from vhagar.search.bab.node import Closed, Node, Region, first_number

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
