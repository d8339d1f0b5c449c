"""How much memory a long frontier needs.

    python bench/memory.py network.onnx "occlusion(14,14,9)" 2 3 --seconds 60 --nodes 20000

The search is run in this process with a gap of 0, so that nothing closes early; then the frontier
is copied, as if more of it had arrived from workers, until it has the wanted number of nodes.
"""

from __future__ import annotations

import argparse
import pickle
import resource
import sys
import time

from script import in_words

import vhagar
from vhagar import Problem
from vhagar.options import Options
from vhagar.reduction.base import reduce_problem
from vhagar.search.bounders.lp import LpBounder
from vhagar.search.node import Node, Numbers, Region
from vhagar.search.node_solver import NodeSolver, solver_with


def resident() -> float:
    """The largest resident size of this process so far, in megabytes."""
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest / (1024**2 if sys.platform == "darwin" else 1024)


def grow(problem: Problem, seconds: float) -> tuple[list[Node], int, NodeSolver]:
    """Expand nodes for a while; the open ones, how many were expanded, and who did it."""
    options = Options(relative_gap=0.0, workers=1)
    bounder = LpBounder(reduce_problem(problem, ()), lambda _: None, Numbers())
    solver = solver_with(bounder, problem, options)
    upper = float("inf")
    nodes = [
        Node(Region(target, piece_index), upper, -piece_index)
        for target in problem.search_targets
        for piece_index in range(len(problem.pieces))
    ]
    expanded, end = 0, time.monotonic() + seconds
    while nodes and time.monotonic() < end:
        explored = solver.explore(nodes, 50, should_stop=lambda: time.monotonic() > end)
        nodes, expanded = explored.open, expanded + explored.nodes
    return nodes, expanded, solver


@in_words
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network")
    parser.add_argument("perturbation")
    parser.add_argument("source", type=int)
    parser.add_argument("target", type=int)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--nodes", type=int, default=20_000)
    given = parser.parse_args()
    network = vhagar.read_onnx(given.network)
    problem = Problem(
        network, perturbation=given.perturbation, source=given.source, targets=given.target
    )
    start = resident()
    nodes, expanded, _solver = grow(problem, given.seconds)
    searched = resident()
    if not nodes:
        sys.exit("the search ended before it had a frontier; take a harder problem")
    depth = sum(len(node.decisions) for node in nodes) / len(nodes)
    message = pickle.dumps(nodes)
    frontier = list(nodes)
    while len(frontier) < given.nodes:
        frontier += pickle.loads(message)
    print(f"expanded {expanded} nodes; {len(nodes)} open, {depth:.1f} decisions deep on average")
    print(f"a node travels in {len(message) / len(nodes):.0f} bytes")
    print(f"resident: {start:.0f} MB with the network, {searched:.0f} MB after the search,")
    print(f"{resident():.0f} MB with {len(frontier)} open nodes")


if __name__ == "__main__":
    sys.exit(main())
