"""Nodes by quadratic facts: bounds on the difference of the copies, and branching on slopes.

Its nodes are split by the slope of a pair, 0 or 1, instead of a sign. As a bound on the difference
that is exhaustive (`docs/engine.md`, "Slopes instead of signs"): the difference is affine in every
single slope, so its maximum over all slopes is at a corner. A node says nothing about the inputs in
it; so its bound uses the slopes, what is known of all units from the beginning, and the box of
the input's change (or of the input, where it determines its change), and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from vhagar.array_types import Array
from vhagar.problem import Problem
from vhagar.relaxation.bounds_cache import RecentlyUsed
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.lp.decisions import Decision
from vhagar.relaxation.proof import Proof, ProofKind
from vhagar.relaxation.quadratic import (
    Differences,
    Multipliers,
    Schedule,
    ascend,
    differences_of,
    improve,
    proven_bound,
    starting_multipliers,
)
from vhagar.relaxation.quadratic.differences import free_pairs
from vhagar.runtime.deadline import NEVER, Deadline
from vhagar.search.bounders.base import AbstractBounder, Bound, Branched, Outcome
from vhagar.search.incumbent import Incumbent
from vhagar.search.node import SLOPE, Node, Region

# Steps at a root.
_ROOT = Schedule(100, lengths=(0.1, 0.02), barriers=(0.03, 0.001))
# Fewer steps where one takes long: the least number, and the multiplications of all factorisations.
_FEWEST_STEPS, _ROOT_WORK = 40, 3e10
# Steps at all other nodes, from their parents' multipliers.
_NODE = Schedule(12, lengths=(0.07, 0.02), barriers=(0.01, 0.0005))
# A bound this close to what slopes can reach, relatively, is not worth another node.
_CLOSE = 1e-4
# Roots that are kept.
_MOST_ROOTS = 64

_CLOSED = Branched(Outcome.CLOSED)


@dataclass(frozen=True, eq=False)
class _Root:
    """A piece and a target: the differences, and what slopes alone can reach at least."""

    bounds: TwinBounds
    known: Differences
    floor: float
    start: Multipliers | None


@dataclass(frozen=True, eq=False)
class QuadraticBound(Bound):
    """A bound with the multipliers it comes from, and which pair matters most to them.

    `floor` is what no bound of this root by slopes alone can go below.
    """

    floor: float = -np.inf
    multipliers: Multipliers | None = None
    place: tuple[int, int] | None = None


class QuadraticBounder(AbstractBounder):
    """Bounds nodes one by one, each from its parent's multipliers.

    `bounds_of` gives what is known of the units over a region.
    """

    def __init__(
        self,
        problem: Problem,
        next_number: Callable[[], int],
        bounds_of: Callable[[Region], TwinBounds],
        deadline: Deadline = NEVER,
    ) -> None:
        self._problem = problem
        self._next_number = next_number
        self._bounds_of = bounds_of
        self._deadline = deadline
        self._roots: RecentlyUsed[Region, _Root | None] = RecentlyUsed(_MOST_ROOTS)
        self.floors: dict[int | None, float] = {}

    def bound(self, nodes: list[Node], incumbent: Incumbent) -> list[Bound]:
        return [self._bound(node) for node in nodes]

    def _bound(self, node: Node) -> QuadraticBound:
        root = self._root(node.region)
        if root is None:
            return QuadraticBound(node.upper, floor=np.inf)
        if not node.decisions and root.floor >= node.upper:
            return QuadraticBound(node.upper, floor=root.floor)
        known = root.known.settled({d.place[:2]: d.positive for d in node.decisions})
        start = _start(root, known, node)
        if start is None:
            return QuadraticBound(node.upper, floor=np.inf)
        schedule = _NODE if node.decisions else _root_schedule(known, node.rounds)
        found = improve(known, start, schedule, lambda: self._deadline.passed)
        if found is None:
            return QuadraticBound(node.upper, floor=np.inf)
        multipliers, evaluation = found
        upper = proven_bound(known, multipliers)
        place = None
        if known.places:
            place = known.places[int((multipliers.slopes * abs(evaluation.slope_facts)).argmax())]
        if upper is None or upper >= node.upper:
            return QuadraticBound(node.upper, None, root.floor, multipliers, place)
        numbers = _numbers(root, known, multipliers)
        kind = ProofKind.TIED if known.tied else ProofKind.QUADRATIC
        proof = Proof(kind, root.bounds, numbers)
        return QuadraticBound(upper, proof, root.floor, multipliers, place)

    def branch(self, bounded: list[tuple[Node, Bound]], incumbent: Incumbent) -> list[Branched]:
        return [self._branch(node, bound) for node, bound in bounded]

    def _branch(self, node: Node, bound: Bound) -> Branched:
        assert isinstance(bound, QuadraticBound)
        place, multipliers = bound.place, bound.multipliers
        if place is None or multipliers is None:
            return _CLOSED
        if node.upper <= bound.floor + _CLOSE * abs(bound.floor):
            return _CLOSED
        root = self._root(node.region)
        assert root is not None, "it was bounded"
        if not node.decisions and not node.rounds:
            return Branched(Outcome.AGAIN, (replace(node, rounds=1),))
        taken = {decision.place[:2] for decision in node.decisions}
        free = [known for known in root.known.places if known not in taken]
        start = replace(multipliers, slopes=np.delete(multipliers.slopes, free.index(place)))
        children = tuple(
            replace(
                node,
                number=self._next_number(),
                decisions=(*node.decisions, Decision(*place, SLOPE, positive)),
                start=start,
            )
            for positive in (False, True)
        )
        return Branched(Outcome.CHILDREN, children)

    def _root(self, region: Region) -> _Root | None:
        """What is known of a piece and a target; None where the bound does not apply."""
        if region not in self._roots:
            self._roots[region] = self._make_root(region)
        found = self._roots.used(region)
        # Where there is no bound, none can be better than the rest of the search.
        floor = np.inf if found is None else found.floor
        self.floors[region.target] = max(self.floors.get(region.target, floor), floor)
        return found

    def _make_root(self, region: Region) -> _Root | None:
        if region.target is None:
            return None
        bounds = self._bounds_of(region)
        self._deadline.check()
        known = differences_of(bounds, self._problem.source, region.target)
        if known is None:
            return None
        self._deadline.check()
        ascent = ascend(known, lambda: self._deadline.passed)
        start = starting_multipliers(known, ascent, lambda: self._deadline.passed)
        return _Root(bounds, known, ascent.value, start)


def _start(root: _Root, known: Differences, node: Node) -> Multipliers | None:
    """The parent's multipliers; the root's where there are none that fit, as in a checkpoint that
    was made with other bounds of the neurons."""
    given = node.start if node.decisions else root.start
    fitting = len(known.places), len(known.inputs)
    if given is not None and (len(given.slopes), len(given.box)) == fitting:
        return given
    if root.start is None:
        return None
    slopes = dict(zip(root.known.places, root.start.slopes, strict=True))
    return replace(root.start, slopes=np.array([slopes[place] for place in known.places]))


def _root_schedule(known: Differences, rounds: int) -> Schedule:
    """The steps at a root: none in the first round, so that all roots have bounds early."""
    if not rounds:
        return replace(_ROOT, steps=0)
    pairs = len(known.places)
    affordable = _ROOT_WORK / max(pairs**2 * (len(known.inputs) + pairs), 1)
    return replace(_ROOT, steps=int(min(_ROOT.steps, max(_FEWEST_STEPS, affordable))))


def _numbers(root: _Root, known: Differences, multipliers: Multipliers) -> Callable[[], Array]:
    """The multipliers in the order of certificates: of all undecided pairs, then of all inputs."""

    def numbers() -> Array:
        given = dict(zip(known.places, multipliers.slopes.tolist(), strict=True))
        slopes = [
            given.get((layer, int(unit)), 0.0)
            for layer, hexagons in enumerate(root.bounds.hexagons)
            for unit in np.flatnonzero(free_pairs(hexagons))
        ]
        box = np.zeros(root.bounds.piece.domain.size)
        box[known.inputs] = multipliers.box
        return np.concatenate([slopes, box])

    return numbers
