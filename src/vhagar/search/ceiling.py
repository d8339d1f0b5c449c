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

# Time of a ceiling that does not bound the answer, as a share of what all others take: the first
# share if it is within this factor of the answer, otherwise the second.
_NEAR, _NEAR_SHARE, _FAR_SHARE = 1.3, 0.25, 0.05
# A ceiling that can lower the answer by no more than this share has no time of its own. Measured:
# conv1 `translation([1,3],[1,3])` 4 to 7, 60 s: PERFORMANCE.md, "keeps up with `confidence`".
_LITTLE = 0.01
# A ceiling that bounds the answer while an attack is about as confident as any known input has this
# many times as much as the others: once it is low enough, the question is closed.
_SURE_SHARE = 4.0
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


class CeilingTime:
    """What the ceiling's search and all others have taken, and when the ceiling comes next.

    A ceiling that bounds the answer has half of the time: less would leave the answer above what a
    search for the maximal confidence alone proves, more would keep the others from getting below.
    It has four times as much as the others where an attack is about as confident as any known
    input.
    """

    def __init__(self) -> None:
        self.spent = self.on_others = 0.0

    def is_next(
        self,
        ceiling: Ceiling,
        answer: float,
        lower: float,
        binds: bool,
        under_way: float,
        in_rounds: bool,
    ) -> bool:
        """Whether the ceiling comes next; other tasks have been `under_way` for some seconds.

        `lower` is the best attack's confidence. `binds` says whether nothing better is known of the
        `answer` than the ceiling.
        """
        # Where an attack is about as confident as any known input, the others can lower it no more.
        useful = 0 < (1 - _LITTLE) * ceiling.lower <= lower
        if ceiling.lower >= (1 - _LITTLE) * answer and not useful:
            return False
        others = self.on_others + under_way
        most = _SURE_SHARE * others if useful else others
        if binds and (self.spent < most or not self.spent):
            return True
        # In rounds a far one keeps up by its nodes: each round takes longer than the one before.
        far = 0.0 if in_rounds else _FAR_SHARE
        part = _NEAR_SHARE if ceiling.upper <= _NEAR * answer else far
        return self.spent < part * others
