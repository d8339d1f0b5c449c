"""The maximal confidence that any input reaches in the source class: a small search of its own.

No attacked input is more confident, so it is a ceiling for every target and piece, and one that the
LPs of strong perturbations find hard to see. It is searched only while it can still help.
"""

from __future__ import annotations

from collections.abc import Callable

from vhagar.problem import Problem
from vhagar.search.confidence_probe import confidence_within_reach
from vhagar.search.frontier import Frontier
from vhagar.search.node import Node, Region
from vhagar.search.proofs.tree_state import SearchKind

# Makes the frontier of one of the searches from its roots.
FrontierMaker = Callable[[list[Node], SearchKind], Frontier]


class Ceiling:
    """An interval around the maximal confidence in the source class, and the open nodes."""

    def __init__(self, problem: Problem, upper: float, frontier_of: FrontierMaker) -> None:
        # A search for the maximal confidence is its own ceiling.
        wanted = problem.perturbation is not None
        roots = [Node(Region(None, 0), upper, 0)] if wanted else []
        self.frontier = frontier_of(roots, SearchKind.CEILING)
        self.lower = 0.0
        self.upper = min(upper, self.frontier.uppers([None])[None]) if wanted else upper
        self._problem = problem

    def probe(self, seed: int) -> None:
        """Look for a confident input, which may end this search before it begins."""
        if len(self.frontier):
            self.lower = confidence_within_reach(self._problem, seed)

    def is_wanted(self, upper: float) -> bool:
        """Whether the ceiling may still fall below `upper`, which is known otherwise."""
        return len(self.frontier) > 0 and self.lower < upper

    def update(self) -> None:
        """Take over the bound of the nodes."""
        self.upper = min(self.upper, self.frontier.uppers([None])[None])
