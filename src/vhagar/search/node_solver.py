"""Explores parts of the tree: what a worker does with the nodes it is given."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from vhagar.errors import SolverFailure
from vhagar.options import Options
from vhagar.perturbation import AbstractPiece
from vhagar.problem import Problem
from vhagar.reduction.base import Reduced
from vhagar.relaxation import Bounds, network_bounds
from vhagar.relaxation.bounds_cache import BoundsCache
from vhagar.relaxation.lp.node_bound import Proof
from vhagar.relaxation.lp.proof_kind import ProofKind
from vhagar.relaxation.lp.region_model import Evaluation, RegionModel
from vhagar.search.branch import Brancher, Known
from vhagar.search.node import Closed, Node
from vhagar.search.primal_heuristic import PrimalHeuristic, WitnessFound
from vhagar.search.proof_log import ProofEvents, ProofLog
from vhagar.search.region_cache import Regions, RegionState
from vhagar.solver.simplex import LpAnswer

# Of the largest score.
_RESOLUTION = 1e-12
# Below the first splits, a nonconvex piece is halved after so many decisions.
_SPLIT_EVERY = 3
# Or where at the middle of its span the bound would be better by this part of the gap.
_COSTLY = 0.3
# A piece whose parameter varies by less than this part is not split before neurons are.
_NARROW = 0.01


@dataclass(frozen=True, eq=False)
class Explored:
    """What became of the nodes that were given: those still open, and the bounds of the rest.

    `trouble` is what a solver said that failed; the node in question was closed as it was. `logged`
    is for the certificate, where one is asked for.
    """

    open: list[Node]
    closed: Closed
    nodes: int
    trouble: str | None = None
    logged: ProofEvents | None = None


class Limits:
    """When a node needs no more work."""

    def __init__(self, problem: Problem, options: Options) -> None:
        domain = problem.domain
        box = Bounds(np.full(domain.size, domain.lower), np.full(domain.size, domain.upper))
        # Below this an LP cannot tell a bound from 0.
        scores = network_bounds(problem.network, box)[-1]
        self._negligible = _RESOLUTION * float(scores.magnitude.max())
        self._relative_gap = options.relative_gap

    def settled(self, upper: float, lower: float) -> bool:
        """Whether a node with that bound is as good as closed."""
        gap = max(self._relative_gap * upper, self._negligible)
        return upper - lower <= gap

    def cutoff(self, lower: float) -> float:
        """Nodes with a bound below this are closed."""
        return lower / (1 - self._relative_gap)


class NodeSolver:
    """Works on nodes until a quantum is used up. Pseudocosts and bases stay with it."""

    def __init__(
        self,
        reduced: Reduced,
        options: Options,
        send: Callable[[WitnessFound], None],
        first: int = 0,
        bounds: BoundsCache | None = None,
    ) -> None:
        self.lower = 0.0
        self.ceiling = math.inf  # what is known of the largest confidence
        self._problem = problem = reduced.problem
        self._finder = PrimalHeuristic(reduced, send)
        self._limits = Limits(problem, options)
        self._log = ProofLog(problem, wanted=options.certificate is not None)
        self._regions = Regions(problem, bounds or BoundsCache())
        self._brancher = Brancher(self._next_number)
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
        return Explored(frontier, closed, done, trouble, self._log.report())

    def _expand(self, node: Node, closed: Closed) -> list[Node]:
        """Bound a node; close it, or replace it by smaller ones."""
        state = self._regions[node.region]
        state.visits += 1
        context = state.context
        if state.visits == 1:
            node = self._after_quick_bound(node, context)
            if self._close_if_settled(node, closed):
                return []
        basis = self._brancher.basis_of(node, context)
        evaluation = context.evaluate(node.decisions, node.upper, basis=basis)
        self._log.proved(node, evaluation.proof, context)
        self._brancher.learn(node, evaluation, self._cutoff)
        node = replace(node, upper=evaluation.upper)
        if self._close_if_settled(node, closed):
            return []
        if not evaluation.complete:
            return self._without_lp(state, node, closed)
        if self._finder.is_due(context, node.region):
            self._polish(state, node, evaluation.answer, thorough=False)
        if self._split_is_due(context, node, evaluation):
            return self._split(node) or self._branch(state, node, evaluation, closed)
        return self._branch(state, node, evaluation, closed)

    def _after_quick_bound(self, node: Node, context: RegionModel) -> Node:
        upper = context.quick_upper()
        if upper >= node.upper:
            return node
        self._log.proved(node, Proof(ProofKind.QUICK), context)
        return replace(node, upper=upper)

    @property
    def _cutoff(self) -> float:
        """Nodes with a bound below this are closed."""
        return self._limits.cutoff(self.lower)

    def _split_is_due(self, context: RegionModel, node: Node, evaluation: Evaluation) -> bool:
        """A nonconvex piece is halved where its span costs much of the gap.

        Where that is not known, it is halved a few times first, and then once in a while: at first
        its relaxation is what is loose, not the neurons'; the limit is the cost of new bounds for
        every part.
        """
        piece = context.piece
        if piece.convex or piece.span is None:
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
            if left is not None:
                children = self._brancher.decided(node, left)
                self._log.decided(node, children)
        if not children:
            closed.add(node.region.target, node.upper)
        return children

    def _branch(
        self, state: RegionState, node: Node, evaluation: Evaluation, closed: Closed
    ) -> list[Node]:
        candidates = state.candidates(evaluation.answer)
        if not candidates:
            return self._settled_by_lp(state, node, evaluation.answer, closed)
        known = Known(self.lower, self._cutoff, self.ceiling)
        branched = self._brancher.children(state, node, evaluation, candidates, known)
        self._log.decided(node, branched.children)
        for child, proof in zip(branched.children, branched.proofs, strict=True):
            self._log.proved(child, proof, state.context)
        return [child for child in branched.children if not self._close_if_settled(child, closed)]

    def _settled_by_lp(
        self, state: RegionState, node: Node, answer: LpAnswer, closed: Closed
    ) -> list[Node]:
        """Nothing is left to decide but what rows that were left out would bring up."""
        again = [replace(node, predicted_gain=0.0)]
        if state.context.restore_rows(answer):
            return again
        self._polish(state, node, answer, thorough=True)
        if self._close_if_settled(node, closed):
            return []
        children = self._split(node)
        if not children and state.context.restore_rows(answer, exactly=True):
            return again
        if not children:  # the LP is exact here: what is missing is a witness, not a bound
            closed.add(node.region.target, node.upper)
        return children

    def _close_if_settled(self, node: Node, closed: Closed) -> bool:
        if self._limits.settled(min(node.upper, self.ceiling), self.lower):
            closed.add(node.region.target, min(node.upper, self.ceiling))
            return True
        return False

    def _split(self, node: Node) -> list[Node]:
        """The same decisions over smaller parts of the piece, whose bounds are tighter."""
        parts = self._regions.piece(node.region).split()
        at = self._split_point(parts)
        if at is None:
            return []
        context = self._regions[node.region].context
        basis = self._brancher.keep(context.simplex.basis(), context)
        children = [
            replace(
                node,
                region=replace(node.region, path=(*node.region.path, k)),
                number=self._next_number(),
                basis=basis,
                challenge=None,
                predicted_gain=0.0,
            )
            for k in range(len(parts))
        ]
        self._log.split(node, children, at)
        return children

    def _split_point(self, parts: tuple[AbstractPiece, ...]) -> float | None:
        """Where two parts meet.

        None where there are none, or where only float64 has nothing between them: bounds are about
        real numbers.
        """
        ends = [part.span for part in parts if part.span is not None]
        if len(ends) != 2 or ends[0][1] != ends[1][0]:
            return None
        return ends[1][0]

    def _polish(self, state: RegionState, node: Node, answer: LpAnswer, thorough: bool) -> None:
        assert answer.primal is not None
        self.lower = self._finder.look(
            state.context, node.region, answer.primal, self.lower, thorough, node.decisions
        )

    def _next_number(self) -> int:
        self._number += 1
        return self._number
