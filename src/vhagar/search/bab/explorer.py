"""Explores parts of the tree: what a worker does with the nodes it is given."""

from __future__ import annotations

import contextlib
import heapq
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vhagar.errors import SolverFailure
from vhagar.options import Options
from vhagar.perturbation.scalar import AbstractScalarPiece
from vhagar.problem import Problem
from vhagar.relaxation import Bounds, network_bounds
from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.memory import BoundsMemory
from vhagar.result import Witness, WitnessCheck
from vhagar.search.bab.brancher import Brancher, Known
from vhagar.search.bab.context import Context, Evaluation
from vhagar.search.bab.node import Closed, Node, Region
from vhagar.search.bab.polish import polish, proposed
from vhagar.search.bab.regions import RecentlyUsed, Regions, RegionState

Array = NDArray[np.float64]

# Of the largest score.
_RESOLUTION = 1e-12
# Below the first splits, a nonconvex piece is halved after so many decisions.
_SPLIT_EVERY = 3
# Or where at the middle of its span the bound would be better by this part of the gap.
_COSTLY = 0.3
# A piece whose parameter varies by less than this part is not split before neurons are.
_NARROW = 0.01
_ALWAYS_POLISH, _POLISH_EVERY = 8, 10
_MOST_CONVEX = 64


@dataclass(frozen=True, eq=False)
class WitnessFound:
    """A candidate that passed the check here; the keeper of the interval checks it again."""

    target: int | None
    root: int
    x: Array
    parameters: Array
    confidence: float


@dataclass(frozen=True, eq=False)
class Explored:
    """What became of the nodes that were given: those still open, and the bounds of the rest.

    `trouble` is what a solver said that failed; the node in question was closed as it was.
    """

    open: list[Node]
    closed: Closed
    nodes: int
    trouble: str | None = None


class Explorer:
    """Works on nodes until a quantum is used up. Experience and bases stay with the explorer."""

    def __init__(
        self,
        problem: Problem,
        options: Options,
        send: Callable[[WitnessFound], None],
        first: int = 0,
        bounds: BoundsMemory | None = None,
    ) -> None:
        self.lower = 0.0
        self.ceiling = math.inf  # what is known of the largest confidence
        self._problem = problem
        self._options = options
        self._send = send
        self._check = WitnessCheck(problem)
        domain = problem.domain
        box = Bounds(np.full(domain.size, domain.lower), np.full(domain.size, domain.upper))
        # Below this an LP cannot tell a bound from 0.
        scores = network_bounds(problem.network, box)[-1]
        self._negligible = _RESOLUTION * float(scores.magnitude.max())
        self._regions = Regions(problem, bounds or BoundsMemory())
        self._convex = RecentlyUsed(_MOST_CONVEX)
        self._brancher = Brancher(self._next_number)
        self._visits: dict[tuple[int | None, int], int] = {}
        self._number = first

    def explore(
        self,
        nodes: list[Node],
        most_nodes: int,
        seconds: float = float("inf"),
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Explored:
        """Best-first from the given nodes."""
        frontier = list(nodes)
        heapq.heapify(frontier)
        closed = Closed()
        done, begun, trouble = 0, time.monotonic(), None
        while frontier and done < most_nodes:
            if done and (time.monotonic() - begun > seconds or should_stop()):
                break
            node = heapq.heappop(frontier)
            if self._close_if_settled(node, closed):
                continue
            done += 1
            try:
                children = self._expand(node, closed)
            except SolverFailure as failure:
                closed.add(node.region.target, node.upper)
                trouble = str(failure)
                continue
            for child in children:
                heapq.heappush(frontier, child)
        return Explored(frontier, closed, done, trouble)

    def _settled(self, upper: float) -> bool:
        gap = max(self._options.relative_gap * upper, self._negligible)
        return upper - self.lower <= gap

    def _expand(self, node: Node, closed: Closed) -> list[Node]:
        """Bound a node; close it, or replace it by smaller ones."""
        state = self._regions[node.region]
        state.visits += 1
        context = state.context
        if state.visits == 1:
            node = replace(node, upper=min(node.upper, context.quick_upper()))
            if self._close_if_settled(node, closed):
                return []
        basis = self._brancher.basis_of(node, context)
        evaluation = context.evaluate(node.decisions, node.upper, basis=basis)
        self._brancher.learn(node, evaluation, self._cutoff)
        node = replace(node, upper=evaluation.upper)
        if self._close_if_settled(node, closed):
            return []
        if not evaluation.complete:
            return self._without_lp(state, node, closed)
        if self._polish_is_due(node.region):
            self._polish(state, node.region, evaluation)
        if self._split_is_due(context, node, evaluation):
            return self._split(node) or self._branch(state, node, evaluation, closed)
        return self._branch(state, node, evaluation, closed)

    @property
    def _cutoff(self) -> float:
        """Nodes with a bound below this are closed."""
        return self.lower / (1 - self._options.relative_gap)

    def _polish_is_due(self, region: Region) -> bool:
        """The first nodes of a piece are polished each, later ones now and then."""
        key = (region.target, region.root)
        visits = self._visits[key] = self._visits.get(key, 0) + 1
        return visits <= _ALWAYS_POLISH or visits % _POLISH_EVERY == 0

    def _split_is_due(self, context: Context, node: Node, evaluation: Evaluation) -> bool:
        """A nonconvex piece is halved where its span costs much of the gap.

        Where that is not known, it is halved a few times first, and then once in a while: at first
        its relaxation is what is loose, not the neurons'; the limit is the cost of new bounds for
        every part.
        """
        piece = context.piece
        if piece.convex or not isinstance(piece, AbstractScalarPiece):
            return False
        cost = context.cost_of_span(node.decisions, evaluation.answer.duals)
        if cost is not None:
            return cost > _COSTLY * (node.upper - self.lower)
        affordable = int(math.log2(20_000 / max(self._problem.network.hidden_neurons, 1)))
        early = max(2, min(6, affordable)) if piece.spread > _NARROW else 0
        return len(node.region.path) < max(early, len(node.decisions) // _SPLIT_EVERY)

    def _without_lp(self, state: RegionState, node: Node, closed: Closed) -> list[Node]:
        """The LP gave nothing to go by: decide anything, else the bound stands as it is."""
        children = self._split(node)
        if not children:
            left = state.any_candidate({decision.place for decision in node.decisions})
            children = self._brancher.decided(node, left) if left is not None else []
        if not children:
            closed.add(node.region.target, node.upper)
        return children

    def _branch(
        self, state: RegionState, node: Node, evaluation: Evaluation, closed: Closed
    ) -> list[Node]:
        candidates = state.candidates(evaluation.answer)
        if not candidates:
            self._polish(state, node.region, evaluation, thorough=True)
            if self._close_if_settled(node, closed):
                return []
            children = self._split(node)
            if not children:  # the LP is exact here: what is missing is a witness, not a bound
                closed.add(node.region.target, node.upper)
            return children
        known = Known(self.lower, self._cutoff, self.ceiling)
        children = self._brancher.children(state, node, evaluation, candidates, known)
        return [child for child in children if not self._close_if_settled(child, closed)]

    def _close_if_settled(self, node: Node, closed: Closed) -> bool:
        if self._settled(min(node.upper, self.ceiling)):
            closed.add(node.region.target, min(node.upper, self.ceiling))
            return True
        return False

    def _split(self, node: Node) -> list[Node]:
        """The same decisions over smaller parts of the piece, whose bounds are tighter."""
        parts = self._regions.piece(node.region).split()
        if not parts:
            return []
        context = self._regions[node.region].context
        basis = self._brancher.keep(context.simplex.basis(), context)
        return [
            replace(
                node,
                region=replace(node.region, path=(*node.region.path, k)),
                number=self._next_number(),
                basis=basis,
                challenge=None,
                promise=0.0,
            )
            for k in range(len(parts))
        ]

    def _polish(
        self, state: RegionState, region: Region, evaluation: Evaluation, thorough: bool = False
    ) -> None:
        assert evaluation.answer.primal is not None
        root = self._problem.pieces[region.root]

        def judge(x: Array, parameters: Array) -> float | None:
            verdict = self._check(region.target, x, root, parameters)
            if not isinstance(verdict, Witness):
                return None
            if verdict.confidence > self.lower:
                self.lower = verdict.confidence
                self._send(
                    WitnessFound(region.target, region.root, x, parameters, verdict.confidence)
                )
            return verdict.confidence

        x, parameters = proposed(state.context, evaluation.answer.primal)
        with contextlib.suppress(SolverFailure):  # then there is no witness to be had here
            context = self._convex_context(state, region, parameters, thorough)
            polish(context, x, context.piece.project(parameters), judge, thorough)

    def _convex_context(
        self, state: RegionState, region: Region, parameters: Array, exactly: bool
    ) -> Context:
        """Where a parameter makes a piece nonconvex, the same piece with that parameter fixed.

        Exactly as given, or at the nearer end of its span: the best attack is often there, and the
        neighbouring parts share it.
        """
        piece = state.context.piece
        if piece.convex or not isinstance(piece, AbstractScalarPiece):
            return state.context
        value = float(parameters[0])
        if not exactly:
            value = min(piece.span, key=lambda end: abs(end - value))
        key = (region.target, region.root, value)
        if key not in self._convex:
            bounds = quick_bounds(self._problem.network, replace(piece, span=(value, value)))
            self._convex[key] = Context(self._problem, bounds, region.target)
        found: Context = self._convex[key]
        return found

    def _next_number(self) -> int:
        self._number += 1
        return self._number
