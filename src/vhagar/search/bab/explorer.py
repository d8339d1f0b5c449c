"""Explores parts of the tree: what a worker does with the nodes it is given."""

from __future__ import annotations

import heapq
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.options import Options
from vhagar.perturbation import AbstractPiece
from vhagar.perturbation.scalar import AbstractScalarPiece
from vhagar.problem import Problem
from vhagar.relaxation.layerwise import TwinBounds, quick_bounds
from vhagar.result import Witness, WitnessCheck
from vhagar.search.bab.branching import Candidate, Candidates, Chosen, Pseudocosts, choose
from vhagar.search.bab.context import Context, Decision, Evaluation
from vhagar.search.bab.node import Closed, Node, Region
from vhagar.search.bab.polish import polish, proposed
from vhagar.search.bab.simplex import LpStatus

Array = NDArray[np.float64]

_TRIAL_ITERATIONS = 80
_MOST_CONTEXTS = 256
_MOST_BASES = 4096
# The first nodes of a region are polished each, later ones now and then.
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
    """What became of the nodes that were given: those still open, and the bounds of the rest."""

    open: list[Node]
    closed: Closed
    nodes: int


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
        self._regions: _Cache = _Cache(_MOST_CONTEXTS)
        self._bounds: _Cache = _Cache(_MOST_CONTEXTS)
        self._bases: _Cache = _Cache(_MOST_BASES)
        self._costs: dict[int | None, Pseudocosts] = {}
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
        done, begun = 0, time.monotonic()
        while frontier and done < most_nodes:
            if done and (time.monotonic() - begun > seconds or should_stop()):
                break
            node = heapq.heappop(frontier)
            if self._settled(node.upper):
                closed.add(node.region.target, node.upper)
                continue
            done += 1
            for child in self._expand(node, closed):
                heapq.heappush(frontier, child)
        return Explored(frontier, closed, done)

    def _settled(self, upper: float) -> bool:
        return upper - self.lower <= self._options.relative_gap * upper

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
            return self._without_lp(node, closed)
        if state.visits <= _ALWAYS_POLISH or state.visits % _POLISH_EVERY == 0:
            self._polish(state, node.region, primal)
        if not context.piece.convex and len(node.region.path) < self._early_splits:
            return self._split(node) or self._branch(state, node, evaluation, closed)
        return self._branch(state, node, evaluation, closed)

    @property
    def _early_splits(self) -> int:
        """How often a nonconvex piece is halved before neurons are branched on.

        Its relaxation is what is loose, not the neurons'; the limit is the cost of new bounds.
        """
        affordable = math.log2(20_000 / max(self._problem.network.hidden_neurons, 1))
        return max(2, min(6, int(affordable)))

    def _without_lp(self, node: Node, closed: Closed) -> list[Node]:
        """The LP gave nothing to go by: try a smaller piece, else the bound stands as it is."""
        children = self._split(node)
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
            return [] if self._close_if_settled(node, closed) else self._without_lp(node, closed)
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
                self._bounds[key] = quick_bounds(self._problem.network, self._piece(region))
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
