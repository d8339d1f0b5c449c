"""Nodes by linear programs: one lambda-LP for each node, from its parent's basis."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from vhagar.attack.incumbents import AttackFound
from vhagar.reduction.base import Reduced
from vhagar.relaxation.bounds_cache import BoundsCache
from vhagar.relaxation.cone_cuts import ConeCut
from vhagar.relaxation.lp.region_model import Evaluation, RegionModel
from vhagar.relaxation.proof import Proof, ProofKind
from vhagar.result.witness import RestoredCheck
from vhagar.runtime.deadline import NEVER, Deadline, OutOfTime
from vhagar.search.bounders.base import AbstractBounder, Bound, Branched, CutsFound, Outcome
from vhagar.search.bounders.cone_cutting import ConeCutting
from vhagar.search.bounders.splitting import Splitter
from vhagar.search.bounders.subtrees import SubtreeTightener
from vhagar.search.branch import Brancher, pause_of
from vhagar.search.confident_inputs import ConfidentInputs
from vhagar.search.incumbent import Incumbent
from vhagar.search.node import Node, Region
from vhagar.search.primal_heuristic import PrimalHeuristic, WitnessFound
from vhagar.search.region_cache import Regions, RegionState
from vhagar.solver.basis import Basis
from vhagar.solver.lp_answer import LpAnswer, LpStatus

# What a node takes beside its LPs, in simplex iterations times entries: 5 ms. Estimated seconds of
# an iteration for each entry of the model.
# Measured: 5 ms on heloc, where LPs take no time; 1.3e-9 to 3e-9 on ACAS Xu, heloc and conv1.
_NODE_WORK, _WORK_SECONDS = 2.5e6, 2e-9
# A bound this much above its LP's optimum, relative to the bound, is worth a split by an entry.
_NOT_TIGHT = 1e-6

_CLOSED = Branched(Outcome.CLOSED)


@dataclass(frozen=True, eq=False)
class LpBound(Bound):
    """A bound with the LP's answer, where one was solved, and the region that it was solved in."""

    evaluation: Evaluation | None = None
    region: Region | None = None


class LpBounder(AbstractBounder):
    """Solves the LPs of nodes one by one. Pseudocosts and bases stay with it.

    `send` hears of the witnesses that the LPs' inputs lead to, and of cuts. A `plain` one solves no
    other LPs than those of nodes; one that `tightens` has tighter hexagons in some subtrees.
    """

    def __init__(
        self,
        reduced: Reduced,
        send: Callable[[WitnessFound | CutsFound], None],
        next_number: Callable[[], int],
        bounds: BoundsCache | None = None,
        deadline: Deadline = NEVER,
        plain: bool = False,
        tightens: bool = False,
    ) -> None:
        self._problem = reduced.problem
        self._restore, check = reduced.restore, RestoredCheck(reduced)
        self._heuristic = PrimalHeuristic(self._problem, check, self._tell, deadline, plain)
        self._regions = Regions(self._problem, bounds or BoundsCache(), deadline)
        self._brancher = Brancher(next_number, trials=not plain)
        alone = self._problem.perturbation is None
        self._cutting = ConeCutting(wanted=not plain, alone=alone)
        self._tightener = SubtreeTightener() if tightens and not plain else None
        self._send = send
        self._found_elsewhere: dict[Region, list[ConeCut]] = {}
        # An attack asks for a target; without a perturbation, there is none. Workers get to
        # different inputs.
        self._moves: ConfidentInputs | None = None
        if self._problem.perturbation is None and not plain:
            self._moves = ConfidentInputs(reduced, check, self._announce, next_number(), deadline)
        self._nodes = 0
        self._splitter = Splitter(reduced, self._regions, self._brancher, next_number)

    @property
    def work(self) -> float:
        moves = 0.0 if self._moves is None else self._moves.work
        return _WORK_SECONDS * (self._node_work + moves)

    @property
    def _node_work(self) -> float:
        return _NODE_WORK * self._nodes + self._brancher.work

    def bound(self, nodes: list[Node], incumbent: Incumbent) -> list[Bound]:
        self._nodes += len(nodes)
        return [self._bound(node, incumbent) for node in nodes]

    def _bound(self, node: Node, incumbent: Incumbent) -> LpBound:
        state = self._regions[node.region]
        if state.empty:
            bounds = state.region_model.bounds.copy()  # a region of its own in a certificate
            return LpBound(-math.inf, Proof(ProofKind.EMPTY, bounds))
        state.visits += 1
        region_model, quick = state.region_model, None
        self._add_cuts_of_others(node.region, region_model)
        if state.visits == 1 and (upper := region_model.quick_upper()) < node.upper:
            quick = region_model.formula.proof(ProofKind.QUICK)
            node = replace(node, upper=upper)
            if incumbent.settles(upper):
                return LpBound(upper, quick)
        basis = self._brancher.basis_of(node, region_model)
        enough, pause = incumbent.lower, pause_of(node, incumbent)
        evaluation = region_model.evaluate(
            node.decisions, node.upper, basis=basis, enough=enough, pause=pause
        )
        self._count(evaluation, region_model)
        self._brancher.learn(node, evaluation, incumbent.cutoff)
        if node.decisions:
            self._cutting.learn(node.upper, evaluation.upper)
        found = LpBound(evaluation.upper, evaluation.proof or quick, evaluation, node.region)
        found = self._with_cuts(node, found, region_model, incumbent)
        return self._in_subtree(node, found, region_model, incumbent)

    def take_cuts(self, found: CutsFound) -> None:
        self._found_elsewhere.setdefault(found.region, []).extend(found.cuts)

    def _add_cuts_of_others(self, region: Region, region_model: RegionModel) -> None:
        cuts = self._found_elsewhere.pop(region, [])
        if cuts and region_model.bounds.tightening is None and self._cutting.has_room(region_model):
            region_model.add_cuts(cuts)

    def _with_cuts(
        self, node: Node, found: LpBound, region_model: RegionModel, incumbent: Incumbent
    ) -> LpBound:
        """The node's bound with cuts that its LP's solution violates, while they pay off."""
        evaluation = found.evaluation
        assert evaluation is not None
        # Cuts hold for all pairs of a region, and tightened bounds for some of them alone.
        if region_model.bounds.tightening is not None:
            return found
        late = self._cutting.is_late(node.upper, incumbent)
        while self._cutting.is_due(evaluation, region_model, incumbent, late):
            before = evaluation.upper
            least = self._cutting.least(before, region_model, incumbent, late)
            try:
                cuts = region_model.separate(evaluation.answer, *least)
            except OutOfTime:  # the bound without them holds
                break
            if not cuts:
                break
            self._send(CutsFound(node.region, cuts))
            again = region_model.evaluate(node.decisions, before, enough=incumbent.lower)
            self._count(again, region_model)
            evaluation = replace(again, proof=again.proof or evaluation.proof)
            proof = evaluation.proof or found.proof
            found = LpBound(evaluation.upper, proof, evaluation, node.region)
            self._cutting.observe(before, evaluation.upper, region_model.separator.possible)
        return found

    def _in_subtree(
        self, node: Node, found: LpBound, region_model: RegionModel, incumbent: Incumbent
    ) -> LpBound:
        """The node's bound with tighter hexagons, where its subtree is worth tightening."""
        evaluation, tightener = found.evaluation, self._tightener
        assert evaluation is not None
        if tightener is None or not tightener.is_due(node, evaluation, incumbent):
            return found
        basis = Basis.of(region_model.simplex, region_model.model.layout)
        tighter = tightener.tighten(region_model, node, evaluation, incumbent)
        if tighter is None:
            return found
        region, bounds = tighter
        state = self._regions.adopt(region, bounds)
        start = basis.fitted(state.region_model.model.layout)
        again = state.region_model.evaluate(node.decisions, found.upper, basis=start)
        self._count(again, state.region_model)
        if not again.proof or not tightener.is_worth(found.upper, again.upper, incumbent):
            return found
        return LpBound(again.upper, again.proof, again, region)

    def _count(self, evaluation: Evaluation, region_model: RegionModel) -> None:
        work = float(evaluation.answer.iterations * region_model.entries)
        self._brancher.count(work)
        self._cutting.count(work, region_model)
        self._heuristic.count(work)
        if self._tightener is not None:
            self._tightener.count(work)

    def branch(self, bounded: list[tuple[Node, Bound]], incumbent: Incumbent) -> list[Branched]:
        return [self._branch(node, bound, incumbent) for node, bound in bounded]

    def _branch(self, node: Node, bound: Bound, incumbent: Incumbent) -> Branched:
        assert isinstance(bound, LpBound)
        evaluation = bound.evaluation
        assert evaluation is not None, "a settled node is not branched"
        assert bound.region is not None
        node = replace(node, region=bound.region)
        state = self._regions[node.region]
        if evaluation.answer.status is LpStatus.ENOUGH and not node.rounds:
            return self._brancher.paused(node, state.region_model)
        if not evaluation.complete:
            return self._unfinished(state, node, evaluation, incumbent)
        if self._heuristic.is_due(state.region_model, node.region):
            self._polish(state, node, evaluation.answer, incumbent, thorough=False)
        if self._moves is not None:
            known = incumbent.lower
            incumbent.lower = self._moves.look(state.region_model, known, self._node_work)
        if self._splitter.halving_is_due(state, node, evaluation, incumbent):
            split = self._splitter.halved(node)
            if split is not None:
                return split
        x = state.input_of(evaluation.answer)
        by_entry = self._splitter.by_entry(node, x, binary=not self._splitter.entries_are_due(node))
        if by_entry is not None:
            return by_entry
        # With one copy, cuts in the end leave the signs below them no coefficients: all would seem
        # to gain nothing, whatever they do to the functions that the cuts bound.
        with_cuts = node.region.target is not None or not incumbent.is_near(evaluation.upper)
        candidates = state.candidates(evaluation.answer, with_cuts)
        if not candidates:
            return self._settled_by_lp(state, node, evaluation.answer, incumbent)
        return self._brancher.children(state, node, evaluation, candidates, incumbent)

    def _unfinished(
        self, state: RegionState, node: Node, evaluation: Evaluation, incumbent: Incumbent
    ) -> Branched:
        """An LP that was stopped gave a bound all the same, and a hint at what matters."""
        answer = evaluation.answer
        stopped = answer.status is LpStatus.LIMIT
        if stopped and answer.primal is not None and answer.duals is not None:
            candidates = state.candidates(answer)
            if candidates:
                return self._brancher.children(state, node, evaluation, candidates, incumbent)
        return self._without_lp(state, node)

    def _without_lp(self, state: RegionState, node: Node) -> Branched:
        """The LP gave nothing to go by: decide anything, else the bound stands as it is."""
        split = self._splitter.halved(node)
        if split is None and self._problem.domain.rows is not None:
            domain = state.region_model.piece.domain
            middle = domain.low + (domain.high - domain.low) / 2
            split = self._splitter.by_entry(node, middle, settled=False)
        if split is not None:
            return split
        left = state.any_candidate({decision.place for decision in node.decisions})
        if left is None:
            return _CLOSED
        return Branched(Outcome.CHILDREN, self._brancher.decided(node, left))

    def _settled_by_lp(
        self, state: RegionState, node: Node, answer: LpAnswer, incumbent: Incumbent
    ) -> Branched:
        """No sign is left to decide, unless restoring omitted rows brings some up."""
        again = Branched(Outcome.AGAIN, (replace(node, predicted_gain=0.0),))
        if state.region_model.restore_rows(answer) or state.region_model.simplex.correct_costs():
            return again
        self._polish(state, node, answer, incumbent, thorough=True)
        if incumbent.settles(node.upper):
            return _CLOSED
        x = state.input_of(answer)
        by_entry = self._splitter.by_entry(node, x)
        if by_entry is None and self._problem.domain.rows is not None:
            # The formula's bound over rows may be above the LP's; over parts, it is less so.
            settled = node.upper - answer.objective <= _NOT_TIGHT * abs(node.upper)
            by_entry = self._splitter.by_entry(node, x, settled=settled)
        if by_entry is not None:
            return by_entry
        split = self._splitter.halved(node)
        if split is not None:
            return split
        if state.region_model.restore_rows(answer, exactly=True):
            return again
        return _CLOSED  # the LP is exact here: what is missing is a witness, not a bound

    def _polish(
        self,
        state: RegionState,
        node: Node,
        answer: LpAnswer,
        incumbent: Incumbent,
        thorough: bool,
    ) -> None:
        assert answer.primal is not None
        incumbent.lower = self._heuristic.look(
            state.region_model,
            node.region,
            answer.primal,
            incumbent.lower,
            thorough,
            node.decisions,
        )

    def _tell(self, found: AttackFound) -> None:
        if self._moves is not None:
            self._moves.take(found)
        self._announce(found)

    def _announce(self, found: AttackFound) -> None:
        self._send(WitnessFound.of(found, self._restore))
