"""Branches a node: chooses a sign to decide, and makes the two children.

Where the bound does not depend on the target's constraints, it bounds the confidence alone: the
relaxation of the second copy lets the target win for free. The decision that lowers the bound most
would then only help to find the maximal confidence there is. At such a node, decisions are compared
by a challenge instead: how far could the target lead if the source led by a given confidence?
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from vhagar.relaxation.bounds_cache import RecentlyUsed
from vhagar.relaxation.lp.decisions import Decision
from vhagar.relaxation.lp.region_model import Evaluation, RegionModel
from vhagar.search.bounders.base import Bound, Branched, Outcome
from vhagar.search.incumbent import Incumbent
from vhagar.search.node import Node, Region
from vhagar.search.pseudocosts import Candidate, Child, Chosen, Pseudocosts, choose
from vhagar.search.region_cache import RegionState
from vhagar.solver.basis import Basis

# Most simplex iterations of one strong-branching LP; a small one that is stuck stops before.
_TRIAL_ITERATIONS = 2000
# Work of all strong branching (simplex iterations times entries of the model): a second, plus a
# share of the nodes' own. Measured: conv1 `brightness([0,0.25])`, 20 s, [7.56, 10.38] with a
# twentieth of it at first, [8.22, 9.64] with all of it (PERFORMANCE.md).
_TRIALS_AT_FIRST, _TRIALS_LATER = 1e9, 0.5
# Bases that are kept.
_MOST_BASES = 4096
# Position of the challenge's confidence between the lower and the node's upper bound.
_CHALLENGE = 0.5
# A sign that is expected to close this share of a node's gap needs no challenge; another one yields
# to a challenge that is this many times better.
_GOOD, _BETTER = 0.25, 2.0

# A node's LP pauses once this share of its gap is left, unless the gap is small relative to the
# bound. Most bounds that fall so far are not among the largest again before the end; where a gap
# closes, they all are. Measured: PERFORMANCE.md, "LPs pause".
_PAUSE, _SMALL_GAP = 0.5, 0.3


def pause_of(node: Node, incumbent: Incumbent) -> float:
    """The bound at which a node's LP pauses: once, and not at a root."""
    if node.rounds or not node.decisions or not node.upper < math.inf:
        return 0.0
    gap = node.upper - incumbent.lower
    return incumbent.lower + _PAUSE * gap if gap > _SMALL_GAP * node.upper else 0.0


class Brancher:
    """Keeps what was learnt from earlier branchings, and the bases of LPs to come back to.

    `trials` says whether strong branching may solve LPs of its own.
    """

    def __init__(self, next_number: Callable[[], int], trials: bool = True) -> None:
        self._trials = trials
        self._next_number = next_number
        self._bases: RecentlyUsed[int | None, Basis] = RecentlyUsed(_MOST_BASES)
        self._pseudocosts: dict[int | None, Pseudocosts] = {}
        self._work = self._trial_work = 0.0

    def basis_of(self, node: Node, region_model: RegionModel) -> Any:
        """Where the node's LP may start."""
        return self._start(node.basis, region_model)

    def keep(self, basis: Any, region_model: RegionModel) -> int:
        """Remember a basis; returns the number it goes by."""
        number = self._next_number()
        in_order = region_model.simplex.has_rows_in_order
        self._bases[number] = Basis(basis, region_model.model.layout, in_order)
        return number

    def _start(self, number: int | None, region_model: RegionModel) -> Any:
        known = self._bases.get(number)
        return None if known is None else known.fitted(region_model.model.layout)

    @property
    def work(self) -> float:
        """The work of all LPs so far, of nodes and of strong branching."""
        return self._work + self._trial_work

    def count(self, work: float) -> None:
        """Add the work of a node's LP, of which strong branching may take a share."""
        self._work += work

    def learn(self, node: Node, evaluation: Evaluation, cutoff: float) -> None:
        """Record an evaluated node's gain relative to the prediction."""
        if node.predicted_gain:
            decision = node.decisions[-1]
            decrease = node.upper - max(evaluation.upper, cutoff)
            pseudocosts = self._pseudocosts_of(node.region)
            pseudocosts.learn(decision.place, decision.positive, decrease, node.predicted_gain)

    def children(
        self,
        state: RegionState,
        node: Node,
        evaluation: Evaluation,
        candidates: list[Candidate],
        incumbent: Incumbent,
    ) -> Branched:
        """The children of the best candidate."""
        region_model = state.region_model
        basis = region_model.simplex.basis()
        challenged = self._challenged(state, node, evaluation, candidates, incumbent)
        if challenged is not None:
            # The bound will hardly move: pseudocosts have nothing to learn from that.
            challenge = self.keep(region_model.challenger.basis(), region_model)
            decided = self.decided(node, challenged, self.keep(basis, region_model))
            children = tuple(
                replace(child, predicted_gain=0.0, challenge=challenge) for child in decided
            )
            return Branched(Outcome.CHILDREN, children)
        chosen = self._choose(state, node, evaluation, candidates, incumbent, basis)
        solved = chosen.children
        if solved is None:
            decided = self.decided(node, chosen.candidate, self.keep(basis, region_model))
            return Branched(Outcome.CHILDREN, decided)
        children = tuple(
            replace(
                child,
                upper=min(node.upper, answer.upper),
                basis=self.keep(answer.basis, region_model),
                predicted_gain=0.0,
            )
            for child, answer in zip(self.decided(node, chosen.candidate), solved, strict=True)
        )
        bounds = tuple(Bound(child.upper, child.proof) for child in solved)
        return Branched(Outcome.CHILDREN, children, bounds)

    def paused(self, node: Node, region_model: RegionModel) -> Branched:
        """Leave a node until its bound is the largest: its LP goes on then."""
        basis = self.keep(region_model.simplex.basis(), region_model)
        again = replace(node, basis=basis, rounds=1, predicted_gain=0.0)
        return Branched(Outcome.AGAIN, (again,))

    def decided(
        self, node: Node, candidate: Candidate, basis: int | None = None
    ) -> tuple[Node, ...]:
        """The two children, the negative one first."""
        return tuple(
            replace(
                node,
                number=self._next_number(),
                decisions=(*node.decisions, Decision(*candidate.place, positive)),
                basis=basis,
                predicted_gain=candidate.gains[positive],
                rounds=0,
            )
            for positive in (False, True)
        )

    def _choose(
        self,
        state: RegionState,
        node: Node,
        evaluation: Evaluation,
        candidates: list[Candidate],
        incumbent: Incumbent,
        basis: Any,
    ) -> Chosen:
        region_model = state.region_model
        lower, cutoff = incumbent.lower, incumbent.cutoff
        limit = min(_TRIAL_ITERATIONS, region_model.simplex.steps_from_basis)

        def trial(candidate: Candidate) -> tuple[Child, Child] | None:
            if not self._trials or self._trial_work > _TRIALS_AT_FIRST + _TRIALS_LATER * self._work:
                return None
            found = []
            for child in self.decided(node, candidate):
                tried = region_model.evaluate(child.decisions, node.upper, limit, basis, lower)
                self._trial_work += tried.answer.iterations * region_model.entries
                own = tried.proved if tried.upper >= node.upper else None
                kept = region_model.simplex.basis()
                found.append(Child(tried.upper, kept, tried.proof, own))
            return found[0], found[1]

        proved = max(evaluation.proved, node.upper) if evaluation.proved < math.inf else None
        costs = self._pseudocosts_of(node.region)
        # Without a target's rows, nothing makes multipliers underestimate the last layer for long.
        doubtful = node.region.target is not None or not incumbent.is_near(node.upper)
        with_cuts = doubtful and bool(len(region_model.formula.cuts))
        return choose(candidates, costs, node.upper, cutoff, trial, proved, with_cuts)

    def _challenged(
        self,
        state: RegionState,
        node: Node,
        evaluation: Evaluation,
        candidates: list[Candidate],
        incumbent: Incumbent,
    ) -> Candidate | None:
        """What a challenge would decide, where that is better than lowering the bound."""
        region_model = state.region_model
        if not region_model.formula.ignores_target(evaluation.answer.duals):
            return None
        gap, pseudocosts = node.upper - incumbent.cutoff, self._pseudocosts_of(node.region)
        progress = max(min(pseudocosts.estimate(c, gap)) for c in candidates) / gap
        if progress > _GOOD or node.region.target is None:
            return None
        lower = incumbent.lower
        confidence = lower + _CHALLENGE * (min(node.upper, incumbent.ceiling) - lower)
        answer = region_model.challenge(
            node.decisions, confidence, self._start(node.challenge, region_model)
        )
        if answer is None:
            return None
        self._work += answer.iterations * region_model.entries
        found = state.candidates(answer)
        if not found or min(found[0].gains) < _BETTER * progress * answer.objective:
            return None
        return found[0]

    def _pseudocosts_of(self, region: Region) -> Pseudocosts:
        return self._pseudocosts.setdefault(region.target, Pseudocosts())
