"""What the nodes of one piece and one target share: bounds, the LP, and the dual formula."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from vhagar.array_types import Array
from vhagar.errors import SolverFailure
from vhagar.perturbation import AbstractPiece
from vhagar.problem import Problem
from vhagar.relaxation.cone_cuts import ConeCut
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.lp.cone_separation import MOST_LPS, ConeSeparator
from vhagar.relaxation.lp.decisions import Decision, DecisionCuts
from vhagar.relaxation.lp.lambda_model import LambdaModel
from vhagar.relaxation.lp.lazy_rows import LazyRows
from vhagar.relaxation.lp.node_bound import NodeBound
from vhagar.relaxation.proof import Proof, ProofKind
from vhagar.relaxation.starts import lead_start, score_size
from vhagar.relaxation.twin_dual import Allowed
from vhagar.runtime.deadline import NEVER, Deadline
from vhagar.solver.linear_model import Columns, LinearArrays
from vhagar.solver.lp_answer import LpAnswer, LpStatus
from vhagar.solver.simplex import Simplex

_NONE = np.zeros(0, dtype=np.int64)

# With more rows than this, the first LP of a fixed linear region takes as long as many nodes.
_MANY_ROWS = 2500
# With more rows than this, the LP of a fixed linear region is solved by an interior point method:
# from there it finds no better region, and regions one after the other are quick from a basis.
# Measured: cifar10_conv1 clipped brightness, 5,082 rows: 0.8 s for the first, then 0.01 to 0.16 s;
# by interior points 0.36 s each. 1.8 s instead of 14.7 s with 6,081 rows (PERFORMANCE.md, a9a5301).
_ROWS_FOR_INTERIOR_POINTS = 5500
# Omitted rows are restored if they would lower the bound by this share; the most such rounds.
_WORTH_THE_ROWS, _MOST_ROUNDS = 0.01, 8
# An LP stops this share below `enough`, because the formula's bound is slightly above the LP's.
_SURELY = 1e-3
# Share of the gap that slightly perturbed costs and the solver's tolerance may lose; if they lose
# more, the objective is emphasised by this many times the excess, in at most this many rounds.
# Measured: PERFORMANCE.md, "the objective emphasised".
_WORTH_THE_COSTS, _AMPLY, _MOST_SHARPENED = 0.02, 8.0, 3


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A node's bound, and the LP's answer that it was computed from.

    `proof` is None where the LP did not improve the bound known before. `proved` is the bound of
    the answer's multipliers alone.
    """

    upper: float
    answer: LpAnswer
    proof: Proof | None = None
    proved: float = np.inf

    @property
    def complete(self) -> bool:
        """Whether the LP gave a solution and multipliers, from which the search can go on."""
        return self.answer.optimal

    @property
    def doubtful(self) -> bool:
        """Whether the LP neither gave a solution nor proved the node empty."""
        if self.answer.status is LpStatus.INFEASIBLE:
            return self.upper > -np.inf
        return not self.complete


class RegionModel:
    """The bounds, the LP and the dual formula of one piece and one target.

    A search builds it `lazily`: the LP leaves out rows that hardly matter, and its costs are
    slightly perturbed until that matters. No LP runs beyond the deadline.
    """

    def __init__(
        self,
        problem: Problem,
        bounds: TwinBounds,
        target: int | None,
        lazily: bool = False,
        deadline: Deadline = NEVER,
    ) -> None:
        self.problem = problem
        self.deadline = deadline
        # Iterations of all polishing, LPs of regions that the simplex method solved, and others.
        self.polish_work = self.solved_regions = self.hard_regions = 0
        self.bounds = bounds
        self.target = target
        size = score_size(problem.network, bounds.piece)
        self.model = LambdaModel(bounds, problem.source, target, size)
        self.cuts = DecisionCuts(bounds, self.model)
        self.lazy_rows = LazyRows(bounds, self.model) if lazily else None
        self.simplex = self._simplex(self.model.arrays, self.model.delta, self.left_out, lazily)
        self.formula = NodeBound(bounds, self.model, problem.source, target, size)

    def _simplex(
        self,
        arrays: LinearArrays,
        objective: int,
        left_out: Columns = _NONE,
        slightly_off: bool = False,
    ) -> Simplex:
        return Simplex(arrays, objective, left_out, self.deadline, slightly_off)

    @property
    def piece(self) -> AbstractPiece:
        return self.bounds.piece

    @cached_property
    def separator(self) -> ConeSeparator:
        """Finds cuts for groups of neurons that see little."""
        return ConeSeparator(self.bounds, self.model, self.deadline)

    def separate(
        self, answer: LpAnswer, worth: float, total: float, most: int = MOST_LPS
    ) -> list[ConeCut]:
        """Add cuts that an LP's solution violates by more than `worth` each, and by about `total`
        or more together; those that were added. The search for one takes `most` LPs."""
        separator = self.separator
        if not separator.layers or answer.primal is None or answer.duals is None:
            return []
        wanted = self.formula.wanted(answer.duals, separator.layers)
        try:
            cuts = separator.cuts(answer.primal, wanted, worth, total, most)
        except SolverFailure:  # costs these cuts, not the node
            return []
        return cuts if self.add_cuts(cuts) else []

    def add_cuts(self, cuts: list[ConeCut]) -> bool:
        """Add cuts of this region to the LP and to the formula; False if the solver refuses."""
        if cuts:
            try:
                self.simplex.append_rows(*self._cut_rows(cuts))
            except SolverFailure:  # costs these cuts, not the node
                return False
        self.formula.cuts.cuts += cuts
        return True

    def _cut_rows(self, cuts: list[ConeCut]) -> tuple[sparse.csr_array, Array]:
        """Cuts as rows of the LP, and their upper ends."""
        rows = np.zeros((len(cuts), self.model.model.column_count))
        limits = np.array([cut.limit for cut in cuts])
        for row, (place, cut) in zip(rows, enumerate(cuts), strict=True):
            copies = zip((cut.a, cut.b), self.model.leaving[cut.layer], strict=True)
            for factors, outputs in copies:
                part = outputs.matrix[cut.units].T @ factors
                row[: len(part)] += part
                limits[place] -= float(outputs.constant[cut.units] @ factors)
            inputs = self.model.inputs
            on_inputs = (cut.pixels, cut.c, inputs.x), (cut.perturbed, cut.d, inputs.x_p)
            for pixels, factors, image in on_inputs:
                if image is not None:
                    row[: image.matrix.shape[1]] += image.matrix[pixels].T @ factors
                    limits[place] -= float(image.constant[pixels] @ factors)
        return sparse.csr_array(rows), limits

    @property
    def entries(self) -> int:
        """The relative cost of one simplex iteration on the model."""
        return self.simplex.entries

    @property
    def is_large(self) -> bool:
        """Whether the LP of a fixed linear region takes long, for a search by nodes."""
        return self.model.model.row_count > _MANY_ROWS

    @cached_property
    def polisher(self) -> Simplex:
        """A second simplex on the same model, so that polishing leaves the search's basis alone."""
        polisher = self._simplex(self.model.arrays, self.model.delta)
        polisher.impatient = True  # whole regions are exchanged, and no bound rests on the duals
        if self.model.model.row_count > _ROWS_FOR_INTERIOR_POINTS:
            polisher.use_interior_point()
        return polisher

    @cached_property
    def outer_polisher(self) -> Simplex | None:
        """As `polisher`, without the rows of a zonotope: a quick bound on the optimum of a region.

        None if there are no such rows.
        """
        left_out = self.model.region_rows
        if not len(left_out):
            return None
        return self._simplex(self.model.arrays, self.model.delta, left_out)

    @cached_property
    def interior(self) -> Simplex:
        """A third solver on the same model, for regions that take the simplex method too long."""
        interior = self._simplex(self.model.arrays, self.model.delta)
        interior.use_interior_point()
        return interior

    @cached_property
    def challenger(self) -> Simplex:
        """A simplex on the same model that maximises the target's lead, not the confidence."""
        model = self.model
        lower, upper = model.arrays.column_lower.copy(), model.arrays.column_upper.copy()
        lower[model.lead], upper[model.lead] = lower[model.delta], upper[model.delta]
        free = replace(model.arrays, column_lower=lower, column_upper=upper)
        return self._simplex(free, model.lead, self.left_out)

    def challenge(
        self, decisions: tuple[Decision, ...], confidence: float, basis: Any
    ) -> LpAnswer | None:
        """Maximise the target's lead where the confidence in the first copy is at least the given
        one; None without an optimum."""
        simplex, delta = self.challenger, self.model.delta
        try:
            simplex.bound_column(delta, confidence, float(self.model.arrays.column_upper[delta]))
            self._add_rows(simplex, decisions)
            simplex.switch_off(self.cuts.switched_off(decisions))
            simplex.restore(basis)
            answer = simplex.solve()
        except SolverFailure:
            return None
        return answer if answer.optimal else None

    def quick_upper(self) -> float:
        """A bound without an LP: how far the source's lead over the target can shift.

        `delta` is at most that lead at the input. At the perturbed input the lead is at most 0, so
        `delta` is at most the difference of the two.
        """
        if self.target is None:
            return float("inf")
        start = lead_start(self.problem.network.classes, self.problem.source, self.target)
        found = float(self.bounds.bound(len(self.bounds.stages) - 1, *start)[0])
        return max(found, self.bounds.level)

    def evaluate(
        self,
        decisions: tuple[Decision, ...],
        known: float,
        iteration_limit: int | None = None,
        basis: Any = None,
        enough: float = 0.0,
        pause: float = 0.0,
    ) -> Evaluation:
        """Bound a node, for which `known` is a valid bound already.

        The LP may stop as soon as the bound is below `enough` or `pause`, if that is positive.
        Below `enough`, nothing more is done for the bound either. Tightened bounds say nothing
        about pairs below their level, so no bound is below it.
        """
        found = self._evaluate(decisions, known, iteration_limit, basis, enough, pause)
        return replace(found, upper=max(found.upper, self.bounds.level))

    def _evaluate(
        self,
        decisions: tuple[Decision, ...],
        known: float,
        iteration_limit: int | None,
        basis: Any,
        enough: float,
        pause: float,
    ) -> Evaluation:
        allowed = self.cuts.allowed(decisions)
        if allowed is None:
            nothing = LpAnswer(LpStatus.INFEASIBLE, None, None, -np.inf, 0)
            return Evaluation(-np.inf, nothing, self.formula.proof(ProofKind.EMPTY))
        try:
            self._add_rows(self.simplex, decisions)
            self.simplex.switch_off(self.cuts.switched_off(decisions))
            self.simplex.restore(basis)
            stop = (1 - _SURELY) * max(enough, pause) if max(enough, pause) > 0 else -np.inf
            answer = self.simplex.solve(iteration_limit, enough=stop)
            evaluation = self._judge(answer, allowed, known)
            if iteration_limit is not None and self._stopped_early(evaluation, enough):
                evaluation = self._again(evaluation, allowed, iteration_limit)
            paused = answer.status is LpStatus.ENOUGH and evaluation.upper <= pause
            if iteration_limit is not None or paused or evaluation.upper <= enough:
                return evaluation
            if evaluation.doubtful and answer.status is not LpStatus.ENOUGH:
                self.simplex.forget()
            if evaluation.doubtful:
                evaluation = self._again(evaluation, allowed)
            for _ in range(_MOST_SHARPENED):
                if not self._sharpens(evaluation, known - enough):
                    break
                evaluation = self._again(evaluation, allowed)
            return self._with_worthy_rows(evaluation, allowed)
        except SolverFailure:  # the known bound remains valid
            return Evaluation(known, LpAnswer(LpStatus.DOUBTFUL, None, None, np.inf, 0))

    def _stopped_early(self, evaluation: Evaluation, enough: float) -> bool:
        """Whether an LP stopped before its multipliers proved `enough`: costs that are slightly off
        can deceive the solver, and a node would seem to gain nothing."""
        return evaluation.answer.status is LpStatus.ENOUGH and evaluation.upper > enough

    def _again(
        self, evaluation: Evaluation, allowed: Allowed, iteration_limit: int | None = None
    ) -> Evaluation:
        """Solve the LP once more."""
        answer = self.simplex.solve(iteration_limit)
        answer = replace(answer, iterations=answer.iterations + evaluation.answer.iterations)
        second = self._judge(answer, allowed, evaluation.upper)
        return replace(second, proof=second.proof or evaluation.proof)

    def _sharpens(self, evaluation: Evaluation, gap: float) -> bool:
        """Emphasise the objective, or correct the costs, if the multipliers lose too much of a gap;
        whether that changed anything.

        The loss is measured against the solution's confidence: the solution is feasible, so no
        bound of this LP is smaller. It counts also where a smaller bound is known: the children's
        LPs would lose as much, and branching would see no gain in any of them.
        """
        primal = evaluation.answer.primal
        if primal is None or not evaluation.complete or not gap > 0:
            return False
        lost = (evaluation.proved - float(primal[self.model.delta])) / (_WORTH_THE_COSTS * gap)
        if not 1 < lost < np.inf:
            return False
        return self.simplex.emphasise(_AMPLY * lost) or self.simplex.correct_costs()

    @property
    def left_out(self) -> Columns:
        """The rows that the nodes' LPs leave out at present."""
        lazy = _NONE if self.lazy_rows is None else self.lazy_rows.rows
        return np.concatenate([lazy, self.model.region_rows])

    def _add_rows(self, simplex: Simplex, decisions: tuple[Decision, ...] = ()) -> None:
        """Add the restored rows, and those of the decided neurons, to a simplex."""
        if self.lazy_rows is not None:
            # Without its row, a neuron's decision would have no effect.
            self.lazy_rows.restore_places({decision.place[:2] for decision in decisions})
        simplex.add_all_but(self.left_out)

    def _with_worthy_rows(self, evaluation: Evaluation, allowed: Allowed) -> Evaluation:
        """Restore rows and solve again as long as that lowers the bound enough."""
        for _ in range(_MOST_ROUNDS):
            if not self.restore_rows(evaluation.answer, _WORTH_THE_ROWS * abs(evaluation.upper)):
                break
            self._add_rows(self.simplex)
            again = self._judge(self.simplex.solve(), allowed, evaluation.upper)
            if again.doubtful:
                break
            evaluation = replace(again, proof=again.proof or evaluation.proof)
        return evaluation

    def restore_rows(self, answer: LpAnswer, worth: float = 0.0, exactly: bool = False) -> bool:
        """Restore the omitted rows that would lower the bound most; whether any was restored.

        None is restored unless all gains together exceed `worth`. `exactly` measures violations
        against ReLU itself instead of its triangle.
        """
        if not self.lazy_rows or not answer.optimal:
            return False
        assert answer.primal is not None
        assert answer.duals is not None
        coefficients = self.formula.coefficients(answer.duals)
        gains = self.lazy_rows.gains(answer.primal, coefficients, exactly)
        return bool(gains.sum() > worth) and self.lazy_rows.restore(gains)

    def _judge(self, answer: LpAnswer, allowed: Allowed, known: float) -> Evaluation:
        """The bound that an LP's answer proves, by the formula."""
        if answer.status is LpStatus.INFEASIBLE:
            ray = self.formula.contradiction(answer.duals, allowed)
            if ray is None:
                return Evaluation(known, answer)
            return Evaluation(-np.inf, answer, self.formula.proof(ProofKind.CONTRADICTION, ray))
        upper = self.formula.upper(answer.duals, allowed)
        if upper >= known:
            return Evaluation(known, answer, proved=upper)
        proof = self.formula.proof(ProofKind.MULTIPLIERS, answer.duals)
        return Evaluation(upper, answer, proof, upper)

    def cost_of_span(self, decisions: tuple[Decision, ...], duals: Array | None) -> float | None:
        """How much smaller a node's bound would be over narrower spans of the piece.

        None for pieces where that says little about the gain of a split.
        """
        narrower, allowed = self._narrower, self.cuts.allowed(decisions)
        if not narrower or allowed is None:
            return None
        bounds = [self.formula.upper(duals, allowed, part) for part in narrower]
        return self.formula.upper(duals, allowed) - max(bounds)

    @cached_property
    def _narrower(self) -> tuple[AbstractPiece, ...]:
        return self.piece.narrower()
