"""The first bounds of root nodes, method by method: those that every network has within seconds.

Interval arithmetic on the copies and on their difference takes one pass forward; the quick slopes
of the twin dual, layer by layer, take longer and give more. Linear programs or first-order steps
that continue from there find the neurons' bounds in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum

from vhagar.problem import Problem
from vhagar.reduction.base import Reduced
from vhagar.relaxation.bounds_cache import BoundsCache, quick_part
from vhagar.relaxation.differences import difference_bounds
from vhagar.relaxation.layerwise import TwinBounds, quick_bounds
from vhagar.relaxation.lp.cost import lp_seconds
from vhagar.relaxation.proof import Proof, ProofKind
from vhagar.relaxation.quick_root import quick_root_bounds
from vhagar.result import Run
from vhagar.runtime.deadline import NEVER, Deadline, OutOfTime
from vhagar.search.bounders.base import AbstractBounder, Bound, Branched, Outcome
from vhagar.search.incumbent import Incumbent
from vhagar.search.node import Node

# Pieces whose bounds of neurons are kept for the next method, for LPs and for the second round.
MOST_KEPT = 4
# Linear programs that must fit into the remaining time before the first is begun.
_MANY_PROGRAMS = 30.0


class BoundMethod(IntEnum):
    """How neurons are bounded."""

    DIFFERENCES = 0  # interval arithmetic, that of differences included
    QUICK = 1  # the twin dual's quick slopes


def first_neuron_bounds(
    problem: Problem,
    piece_index: int,
    method: BoundMethod,
    cache: BoundsCache,
    threads: int = 1,
    should_stop: Callable[[], bool] = lambda: False,
    deadline: Deadline = NEVER,
) -> TwinBounds:
    """The bounds of a piece's neurons by one method; of few pieces they are cached.

    Neurons that `should_stop` or the deadline leaves no time for keep what interval arithmetic
    knows of them; such bounds are not kept for others.
    """
    network, piece = problem.network, problem.pieces[piece_index]
    incomplete: list[TwinBounds] = []

    def compute() -> TwinBounds:
        if method is BoundMethod.DIFFERENCES:
            return difference_bounds(network, piece)
        found = quick_bounds(network, piece, threads, should_stop, deadline)
        if deadline.passed:
            incomplete.append(found)
            raise OutOfTime
        return found

    with suppress(OutOfTime):
        if len(problem.pieces) > MOST_KEPT:
            return compute()
        plain = (piece_index, "differences")
        part = plain if method is BoundMethod.DIFFERENCES else quick_part(piece_index)
        return cache.of(problem, part, compute)
    return incomplete[0]


def programs_fit(problem: Problem, cache: BoundsCache, deadline: Deadline) -> bool:
    """Whether there is time for many linear programs of the first piece, by what one may cost."""
    if deadline.left == math.inf:
        return True
    bounds = first_neuron_bounds(problem, 0, BoundMethod.DIFFERENCES, cache)
    return _MANY_PROGRAMS * lp_seconds(bounds) <= deadline.left


def root_bounders(
    method: BoundMethod, run: Run, should_stop: Callable[[], bool], deadline: Deadline = NEVER
) -> Callable[[Reduced], RootBounder]:
    """Makes the bounders of a method, for the problem and for the maximal confidence."""

    def make(reduced: Reduced) -> RootBounder:
        threads = run.options.worker_count
        return RootBounder(reduced.problem, method, run.bounds, threads, should_stop, deadline)

    return make


class RootBounder(AbstractBounder):
    """Bounds the roots of a piece by one method, and leaves them to others.

    `should_stop` is asked from several threads. Neurons that the deadline leaves no time for keep
    what interval arithmetic knows of them.
    """

    def __init__(
        self,
        problem: Problem,
        method: BoundMethod,
        cache: BoundsCache,
        threads: int = 1,
        should_stop: Callable[[], bool] = lambda: False,
        deadline: Deadline = NEVER,
    ) -> None:
        self._problem, self._method = problem, method
        self._cache, self._threads, self._should_stop = cache, threads, should_stop
        self._deadline = deadline

    def at_once(self, open_nodes: int) -> int:
        return open_nodes

    def bound(self, nodes: list[Node], incumbent: Incumbent) -> list[Bound]:
        found = [Bound(node.upper) for node in nodes]
        for piece_index in dict.fromkeys(node.region.piece_index for node in nodes):
            own = [k for k, node in enumerate(nodes) if node.region.piece_index == piece_index]
            bounds = first_neuron_bounds(
                self._problem,
                piece_index,
                self._method,
                self._cache,
                self._threads,
                self._should_stop,
                self._deadline,
            )
            targets = [nodes[k].region.target for k in own]
            proven = quick_root_bounds(self._problem, bounds, targets)
            for k, new in zip(own, proven, strict=True):
                if new.upper < nodes[k].upper:
                    proof = Proof(ProofKind.MULTIPLIERS, bounds, new.stated)
                    found[k] = Bound(new.upper, proof)
        return found

    def branch(self, bounded: list[tuple[Node, Bound]], incumbent: Incumbent) -> list[Branched]:
        return [Branched(Outcome.LEFT)] * len(bounded)
