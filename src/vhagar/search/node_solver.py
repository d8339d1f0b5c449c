"""Explores parts of the tree: what a worker does with the nodes it is given."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from vhagar.errors import SolverFailure
from vhagar.options import Options
from vhagar.problem import Problem
from vhagar.relaxation.proof import ProofKind
from vhagar.result import BoundKind
from vhagar.runtime.deadline import OutOfTime
from vhagar.search.bounders.base import AbstractBounder, Bound, Branched, CutsFound, Outcome
from vhagar.search.incumbent import Incumbent
from vhagar.search.node import Closed, Node
from vhagar.search.node_heap import NodeHeap
from vhagar.search.proofs.log import ProofEvents, ProofLog

# Bounds by proofs of these kinds are called by their own names.
_KINDS = {ProofKind.SPECTRAL: BoundKind.SPECTRAL, ProofKind.WINDOWS: BoundKind.WINDOWS}


@dataclass(frozen=True, eq=False)
class Explored:
    """What became of the nodes that were given: those still open, and the bounds of the rest.

    `trouble` is the message of a solver that failed; its nodes were closed as they were.
    `logged` is for the certificate, where one is asked for. `floors` say for each target what no
    bound by slopes can go below. `kind` is that of the bounds that became better. `work` is the
    bounder's, in estimated seconds.
    """

    open: list[Node]
    closed: Closed
    nodes: int
    trouble: str | None = None
    logged: ProofEvents | None = None
    floors: dict[int | None, float] = field(default_factory=dict)
    kind: BoundKind = BoundKind.TWIN
    work: float = 0.0


@dataclass(frozen=True, eq=False)
class Underway:
    """A report in between: bounds are better already, and all open nodes stay with the worker."""

    so_far: Explored


# Hears of bounds that have become better while there is still much to do with their nodes.
OnBounds = Callable[[Explored], None]


class NodeSolver:
    """Best-first search below some nodes with one bounder, until a quantum is used up."""

    def __init__(
        self,
        bounder: AbstractBounder,
        incumbent: Incumbent,
        log: ProofLog,
        keeps_closed: bool = False,
    ) -> None:
        """`keeps_closed` says whether closed nodes are reported one by one, for a checkpoint."""
        self.incumbent = incumbent
        self._keeps_closed = keeps_closed
        self._bounder = bounder
        self._log = log
        self._closed = Closed()
        self._left: list[Node] = []
        self._kind = BoundKind.TWIN

    def take_cuts(self, found: CutsFound) -> None:
        """Take over cuts that were found elsewhere."""
        self._bounder.take_cuts(found)

    def explore(
        self,
        nodes: list[Node],
        most_nodes: int,
        seconds: float = math.inf,
        should_stop: Callable[[], bool] = lambda: False,
        on_bounds: OnBounds | None = None,
        quiet: float = 0.0,
    ) -> Explored:
        """Explore the best of the given nodes and their children until the quantum is used up.

        `on_bounds` hears of bounds that took `quiet` seconds, before their nodes are branched.
        """
        heap, told = NodeHeap(nodes), time.monotonic()

        def tell(bounded: list[Node]) -> None:
            nonlocal told
            if on_bounds is not None and time.monotonic() - told >= quiet:
                open_nodes = heap.nodes() + self._left + bounded
                closed, self._closed = self._closed, Closed()
                on_bounds(Explored(open_nodes, closed, 0, logged=self._log.report()))
                told = time.monotonic()

        explored = self.explore_heap(heap, most_nodes, seconds, should_stop, tell)
        return replace(explored, open=heap.nodes() + explored.open)

    def explore_heap(
        self,
        heap: NodeHeap,
        most_nodes: int,
        seconds: float = math.inf,
        should_stop: Callable[[], bool] = lambda: False,
        on_bounded: Callable[[list[Node]], None] = lambda nodes: None,
    ) -> Explored:
        """Explore nodes of a heap, in which open ones stay; return only those left to others.

        `on_bounded` hears of nodes with their new bounds before they are branched.
        """
        self._closed, self._left, self._kind = Closed(), [], BoundKind.TWIN
        done, begun, trouble = 0, time.monotonic(), None
        worked = self._bounder.work
        while len(heap) and done < most_nodes:
            if done and (time.monotonic() - begun > seconds or should_stop()):
                break
            best = heap.pop(min(self._bounder.at_once(len(heap)), most_nodes - done))
            best = [node for node in best if not self._close_if_settled(node)]
            done += len(best)
            try:
                bounded = self._bounded(best)
                nodes = [node for node, _ in bounded]
                if nodes and should_stop():
                    heap.push(nodes)
                    break
                on_bounded(nodes)
                heap.push(self._branched(bounded))
            except OutOfTime:
                heap.push(best)
                break
            except SolverFailure as failure:
                for node in best:
                    self._close(node)
                trouble = str(failure)
        logged = self._log.report()
        work = self._bounder.work - worked
        return Explored(self._left, self._closed, done, trouble, logged, kind=self._kind, work=work)

    def _bounded(self, nodes: list[Node]) -> list[tuple[Node, Bound]]:
        """Bound nodes, and return those that stay open, with their new bounds."""
        bounds = self._bounder.bound(nodes, self.incumbent)
        bounded = []
        for given, bound in zip(nodes, bounds, strict=True):
            self._log.proved(given, bound)
            better = bound.upper < given.upper
            if better and bound.proof is not None:
                self._kind = _KINDS.get(bound.proof.kind, self._kind)
            node = replace(given, upper=bound.upper) if better else given
            if not self._close_if_settled(node):
                bounded.append((node, bound))
        return bounded

    def _branched(self, bounded: list[tuple[Node, Bound]]) -> list[Node]:
        """What replaces nodes: smaller ones, or the same to be bounded again."""
        branched = self._bounder.branch(bounded, self.incumbent) if bounded else []
        children: list[Node] = []
        for (node, _), found in zip(bounded, branched, strict=True):
            children += self._replaced(node, found)
        return [child for child in children if not self._close_if_settled(child)]

    def _replaced(self, node: Node, found: Branched) -> tuple[Node, ...]:
        if found.outcome is Outcome.CLOSED:
            self._close(node)
        elif found.outcome is Outcome.LEFT:
            self._left.append(node)
        elif found.outcome is Outcome.CHILDREN:
            self._log.branched(node, found.children, found.at, found.entry)
            for child, bound in zip(found.children, found.bounds, strict=False):
                self._log.proved(child, bound)
        return found.children

    def _close_if_settled(self, node: Node) -> bool:
        if self.incumbent.settles(node.upper):
            self._close(node)
            return True
        return False

    def _close(self, node: Node) -> None:
        upper = min(node.upper, self.incumbent.ceiling)
        self._closed.add(node.region.target, upper)
        if self._keeps_closed:
            self._closed.keep(node, upper)


def solver_with(bounder: AbstractBounder, problem: Problem, options: Options) -> NodeSolver:
    """A node solver of its own for a problem."""
    log = ProofLog(problem, wanted=options.certificate is not None)
    keeps_closed = options.checkpoint is not None
    return NodeSolver(bounder, Incumbent(problem, options), log, keeps_closed)
