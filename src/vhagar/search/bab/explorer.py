"""Explores parts of the tree: what a worker does with the nodes it is given."""

from __future__ import annotations

import contextlib
import heapq
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.errors import SolverFailure
from vhagar.options import Options
from vhagar.perturbation import AbstractPiece
from vhagar.perturbation.scalar import AbstractScalarPiece
from vhagar.problem import Problem
from vhagar.relaxation import Bounds, network_bounds
from vhagar.relaxation.layerwise import TwinBounds, quick_bounds, refine_layer
from vhagar.result import Witness, WitnessCheck
from vhagar.search.bab.branching import Candidate, Candidates, Chosen, Pseudocosts, choose
from vhagar.search.bab.context import Context, Decision, Evaluation
from vhagar.search.bab.node import Closed, Node, Region
from vhagar.search.bab.polish import polish, proposed
from vhagar.search.bab.simplex import LpStatus

Array = NDArray[np.float64]

_TRIAL_ITERATIONS = 80
# Of the largest score.
_RESOLUTION = 1e-12
# Below the first splits, a nonconvex piece is halved after so many decisions.
_SPLIT_EVERY = 3
# Or where at the middle of its span the bound would be better by this part of the gap.
_COSTLY = 0.3
# A piece whose parameter varies by less than this part is not split before neurons are.
_NARROW = 0.01
_MOST_REFINED, _REFINING_STEPS = 4, 60
_MOST_CONTEXTS = 256
_MOST_BASES = 4096
_ALWAYS_POLISH, _POLISH_EVERY = 8, 10


@dataclass(frozen=True, eq=False)
class WitnessFound:
    """A candidate that passed the check here; the keeper of the interval checks it again."""

    target: int | None
    root: int
    x: Array
    parameters: Array


@dataclass(frozen=True, eq=False)
class Explored:
    """What became of the nodes that were given: those still open, and the bounds of the rest.

    `trouble` is what a solver said that failed; the node in question was closed as it was.
    """

    open: list[Node]
    closed: Closed
    nodes: int
    trouble: str | None = None


class _Cache(OrderedDict[Any, Any]):
    """Keeps the most recent entries."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


class RegionState:
    """What is kept of a region while it is in memory."""

    def __init__(self, problem: Problem, bounds: TwinBounds, target: int | None) -> None:
        self.context = Context(problem, bounds, target)
        model = self.context.model
        self.candidates = Candidates(bounds, model.weights, model.inputs.pixels)
        self.visits = 0


class Explorer:
    """Works on nodes until a quantum is used up. Pseudocosts and bases stay with the explorer."""

    def __init__(
        self,
        problem: Problem,
        options: Options,
        send: Callable[[WitnessFound], None],
        first: int = 0,
    ) -> None:
        self.lower = 0.0
        self._problem = problem
        self._options = options
        self._send = send
        self._check = WitnessCheck(problem)
        domain = problem.domain
        box = Bounds(np.full(domain.size, domain.lower), np.full(domain.size, domain.upper))
        # Below this an LP cannot tell a bound from 0.
        scores = network_bounds(problem.network, box)[-1]
        self._negligible = _RESOLUTION * float(scores.magnitude.max())
        self._regions: _Cache = _Cache(_MOST_CONTEXTS)
        self._bounds: _Cache = _Cache(_MOST_CONTEXTS)
        self._bases: _Cache = _Cache(_MOST_BASES)
        self._costs: dict[int | None, Pseudocosts] = {}
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
            if self._settled(node.upper):
                closed.add(node.region.target, node.upper)
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
        state = self._state(node.region)
        state.visits += 1
        context = state.context
        if state.visits == 1:
            node = replace(node, upper=min(node.upper, context.quick_upper()))
            if self._close_if_settled(node, closed):
                return []
        basis = self._bases.get(node.parent)
        evaluation = context.evaluate(node.decisions, node.upper, basis=basis)
        node = replace(node, upper=evaluation.upper)
        if self._settled(node.upper):
            closed.add(node.region.target, node.upper)
            return []
        primal = evaluation.answer.primal
        if evaluation.answer.status is not LpStatus.OPTIMAL or primal is None:
            return self._without_lp(state, node, closed)
        if self._polish_is_due(node.region):
            self._polish(state, node.region, primal)
        if self._split_is_due(context, node, evaluation):
            return self._split(node) or self._branch(state, node, evaluation, closed)
        return self._branch(state, node, evaluation, closed)

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
            left = state.candidates.undecided({decision.place for decision in node.decisions})
            children = self._children(node, left, None) if left is not None else []
        if not children:
            closed.add(node.region.target, node.upper)
        return children

    def _branch(
        self, state: RegionState, node: Node, evaluation: Evaluation, closed: Closed
    ) -> list[Node]:
        assert evaluation.answer.primal is not None
        candidates = state.candidates.of(evaluation.answer.primal)
        if not candidates:
            self._polish(state, node.region, evaluation.answer.primal, thorough=True)
            if self._close_if_settled(node, closed):
                return []
            children = self._split(node)
            if not children:  # the LP is exact here: what is missing is a witness, not a bound
                closed.add(node.region.target, node.upper)
            return children
        basis = state.context.simplex.basis()
        chosen = self._choose(state, node, candidates, basis)
        number = self._next_number()
        self._bases[number] = basis
        children = self._children(node, chosen.candidate, number)
        if chosen.uppers is not None:
            tried = zip(children, chosen.uppers, strict=True)
            children = [replace(child, upper=min(node.upper, upper)) for child, upper in tried]
        return [child for child in children if not self._close_if_settled(child, closed)]

    def _children(self, node: Node, candidate: Candidate, basis: int | None) -> list[Node]:
        """The two children, the negative one first."""
        return [
            replace(
                node,
                number=self._next_number(),
                decisions=(*node.decisions, Decision(*candidate.place, positive)),
                parent=basis,
            )
            for positive in (False, True)
        ]

    def _choose(
        self, state: RegionState, node: Node, candidates: list[Candidate], basis: Any
    ) -> Chosen:
        def trial(candidate: Candidate) -> tuple[float, float]:
            negative, positive = (
                state.context.evaluate(child.decisions, node.upper, _TRIAL_ITERATIONS, basis).upper
                for child in self._children(node, candidate, None)
            )
            return negative, positive

        costs = self._costs.setdefault(node.region.target, Pseudocosts())
        cutoff = self.lower / (1 - self._options.relative_gap)
        return choose(candidates, costs, node.upper, cutoff, trial)

    def _close_if_settled(self, node: Node, closed: Closed) -> bool:
        if self._settled(node.upper):
            closed.add(node.region.target, node.upper)
            return True
        return False

    def _split(self, node: Node) -> list[Node]:
        """The same decisions over smaller parts of the piece, whose bounds are tighter."""
        parts = self._piece(node.region).split()
        return [
            replace(
                node,
                region=replace(node.region, path=(*node.region.path, k)),
                number=self._next_number(),
                parent=None,
            )
            for k in range(len(parts))
        ]

    def _polish(
        self, state: RegionState, region: Region, primal: Array, thorough: bool = False
    ) -> None:
        root = self._problem.pieces[region.root]

        def judge(x: Array, parameters: Array) -> float | None:
            verdict = self._check(region.target, x, root, parameters)
            if not isinstance(verdict, Witness):
                return None
            if verdict.confidence > self.lower:
                self.lower = verdict.confidence
                self._send(WitnessFound(region.target, region.root, x, parameters))
            return verdict.confidence

        x, parameters = proposed(state.context, primal)
        with contextlib.suppress(SolverFailure):  # then there is no witness to be had here
            context = self._convex_context(state, region, parameters)
            polish(context, x, parameters, judge, thorough)

    def _convex_context(self, state: RegionState, region: Region, parameters: Array) -> Context:
        """Where a parameter makes a piece nonconvex, the same piece with that parameter fixed."""
        piece = state.context.piece
        if piece.convex or not isinstance(piece, AbstractScalarPiece):
            return state.context
        value = float(parameters[0])
        fixed = replace(piece, span=(value, value))
        return Context(self._problem, quick_bounds(self._problem.network, fixed), region.target)

    def _state(self, region: Region) -> RegionState:
        if region not in self._regions:
            key = (region.root, region.path)
            if key not in self._bounds:
                bounds = quick_bounds(self._problem.network, self._piece(region))
                # With many pieces the time is better spent on searching them.
                if len(self._problem.pieces) <= _MOST_REFINED and not region.path:
                    refine_layer(bounds, len(bounds.hexagons) - 1, _REFINING_STEPS)
                self._bounds[key] = bounds
            self._regions[region] = RegionState(self._problem, self._bounds[key], region.target)
        self._regions.move_to_end(region)
        found: RegionState = self._regions[region]
        return found

    def _piece(self, region: Region) -> AbstractPiece:
        piece = self._problem.pieces[region.root]
        for part in region.path:
            piece = piece.split()[part]
        return piece

    def _next_number(self) -> int:
        self._number += 1
        return self._number
