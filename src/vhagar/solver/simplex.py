"""HiGHS's dual simplex on an LP whose column bounds change from node to node; MIPs: `backends/`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from vhagar.array_types import Array
from vhagar.errors import SolverFailure
from vhagar.runtime.deadline import NEVER, Deadline
from vhagar.solver.gap_rows import GapRows
from vhagar.solver.highs_lp import (
    INTERIOR_POINT,
    MOST,
    OPTIONS,
    PERTURBATION,
    STATUSES,
    highs_lp,
    with_basic_rows,
)
from vhagar.solver.linear_model import Columns, LinearArrays
from vhagar.solver.lp_answer import LpAnswer, LpStatus
from vhagar.solver.scaling import Scaled, powers_of_two

_NO_ROWS = np.zeros(0, dtype=np.int64)
# Iterations of one solve, for each row and column: many times what the simplex method takes.
_ITERATIONS_EACH = 10
# Iterations per row after which a solve from a basis counts as stuck in degenerate steps, and costs
# are perturbed; for the impatient, the second number. Measured: PERFORMANCE.md, "perturbed costs,
# late".
_STUCK, _STUCK_SOON = 4, 1
# Cost of a column that is taken from one end of its range to the other, where costs are slightly
# off; the objective's own is 1, and more where it is emphasised. Measured: PERFORMANCE.md, "costs
# slightly off".
_SLIGHTLY_OFF = 1e-6
# Largest cost of the objective, where it is emphasised.
_MOST_EMPHASIS = 2.0**16
# Seconds of the interior point method: occasionally it takes a hundred times as long as usual.
_PATIENCE = 3.0
# Iterations of the simplex method that take about as long as one of the interior point method.
_WORK_OF_INTERIOR = 50


class Simplex:
    """Maximises one column. Columns can be switched off, and rows omitted until they are added.

    Rows are identified by their indices in the model; the solver has those that are not omitted, in
    the order in which they were added. Every solve ends after a limited number of iterations, and
    at the deadline.

    With costs `slightly_off`, always by the same random numbers, hardly two bases are as good as
    each other, and the dual simplex method goes from one node's to the next without the many steps
    that gain nothing. Its multipliers are then those of nearly the same model, and still prove a
    bound.
    """

    def __init__(
        self,
        arrays: LinearArrays,
        objective: int,
        left_out: Columns = _NO_ROWS,
        deadline: Deadline = NEVER,
        slightly_off: bool = False,
    ) -> None:
        import highspy

        self._off: frozenset[int] = frozenset()
        self.from_nothing = True
        self._deadline = deadline
        self.by_interior_point = False
        self.impatient = False  # whether a solve from a basis counts as stuck four times as early
        self._gaps = GapRows.of(arrays)
        scaled = self._scaled = Scaled(self._gaps.subtracted(arrays))
        self._rows = np.delete(np.arange(len(scaled.row_lower)), left_out)
        # The objective in the model's units is this times the solver's, which minimises.
        self._unit = float(scaled.column_scale[objective])
        self._objective = objective
        self._emphasis = 1.0
        # What costs that are slightly off add to the solver's objective at the latest optimum.
        # Before the first one it is not known, and no solve stops early.
        self._shift = np.inf if slightly_off else 0.0
        self.slightly_off = slightly_off
        self._highs = highspy.Highs()
        for name, value in OPTIONS.items():
            self._require(self._highs.setOptionValue(name, value), name)
        self._require(
            self._highs.passModel(highs_lp(scaled, self._rows, self._cost())), "passModel"
        )
        self._most_iterations = _ITERATIONS_EACH * sum(scaled.matrix.shape)

    def _cost(self) -> Array:
        """The costs of the scaled columns."""
        scaled, count = self._scaled, len(self._scaled.column_lower)
        cost = np.zeros(count)
        if self.slightly_off:
            ranges = np.clip(scaled.column_upper - scaled.column_lower, 1e-3, 1e3)
            draw = np.random.default_rng(count).uniform(-1.5, 1.5, count)
            cost = _SLIGHTLY_OFF * (draw + np.sign(draw) * 0.5) / 2 / ranges
        cost[self._objective] = -self._emphasis
        return cost

    def correct_costs(self) -> bool:
        """From now on with the objective's cost alone; whether that makes a difference."""
        if not self.slightly_off:
            return False
        self.slightly_off, self._shift = False, 0.0
        self._change_costs(self._cost())
        return True

    def emphasise(self, times: float) -> bool:
        """Make the objective's cost larger, about so many times; whether it is larger now.

        The solver's tolerance for multipliers and the costs that are slightly off do not grow with
        it, so both make less of a difference. The basis stays as good as it was.
        """
        factor = float(powers_of_two(np.array([times]))[0])
        emphasis = min(self._emphasis * factor, _MOST_EMPHASIS)
        if emphasis <= self._emphasis:
            return False
        self._unit *= self._emphasis / emphasis
        self._emphasis = emphasis
        self._change_costs(self._cost())
        return True

    def _change_costs(self, cost: Array) -> None:
        every = np.arange(len(cost), dtype=np.int32)
        self._require(self._highs.changeColsCost(len(cost), every, cost), "changeColsCost")

    def _require(self, status: Any, call: str) -> None:
        if status.name == "kError":
            raise SolverFailure(f"HiGHS answered {status.name} to {call}")

    @property
    def entries(self) -> int:
        """The relative cost of one iteration."""
        return int(self._scaled.matrix.nnz) + 1

    @property
    def has_rows_in_order(self) -> bool:
        """Whether the solver's rows are in the model's order, that is, none was added later."""
        return bool((np.diff(self._rows) > 0).all())

    def basis(self) -> Any:
        """Return the current basis, for `restore`."""
        return self._highs.getBasis()

    def restore(self, basis: Any) -> None:
        """Go back to a basis, even from before rows were added.

        A basis with more rows than the solver has is ignored.
        """
        missing = 0 if basis is None else len(self._rows) - len(basis.row_status)
        if basis is not None and basis.valid and missing >= 0:
            self._require(self._highs.setBasis(with_basic_rows(basis, missing)), "setBasis")
            self.from_nothing = False

    def forget(self) -> None:
        """Start again without a basis, for example after numerical trouble."""
        self._require(self._highs.clearSolver(), "clearSolver")
        self.from_nothing = True

    def use_interior_point(self) -> None:
        """Use an interior point method, which is faster for large models that change a lot.

        The duals of such a solution prove little, so it is for primal points only.
        """
        for name, value in INTERIOR_POINT.items():
            self._require(self._highs.setOptionValue(name, value), name)
        self.forget()  # with a basis there would be no presolve
        self.by_interior_point = True

    def aim(self, cost: Array) -> None:
        """Maximise another linear function of the columns, from the current basis."""
        scaled = cost * self._scaled.column_scale
        self._unit = float(powers_of_two(abs(scaled).max(keepdims=True))[0])
        self._change_costs(-scaled / self._unit)
        # The basis stays primal feasible, so the primal method continues from it.
        self._require(self._highs.setOptionValue("simplex_strategy", 4), "simplex_strategy")

    def bound_column(self, column: int, lower: float, upper: float) -> None:
        scale = float(self._scaled.column_scale[column])
        status = self._highs.changeColBounds(column, lower / scale, upper / scale)
        self._require(status, "changeColBounds")

    def switch_off(self, columns: Columns) -> None:
        """Fix exactly these columns at 0; others that were switched off are restored."""
        wanted = frozenset(columns.tolist())
        changed = np.array(sorted(wanted ^ self._off), dtype=np.int32)
        if len(changed):
            upper = np.array(
                [0.0 if int(k) in wanted else self._scaled.column_upper[k] for k in changed]
            )
            lower = self._scaled.column_lower[changed]
            status = self._highs.changeColsBounds(len(changed), changed, lower, upper)
            self._require(status, "changeColsBounds")
        self._off = wanted

    def add_all_but(self, left_out: Columns) -> None:
        """Add all omitted rows except these."""
        if len(self._rows) + len(left_out) >= len(self._scaled.row_lower):
            return
        wanted = np.delete(np.arange(len(self._scaled.row_lower)), left_out)
        new = np.setdiff1d(wanted, self._rows)
        ends = self._scaled.row_lower[new], self._scaled.row_upper[new]
        self._add_rows(self._scaled.matrix[new], *ends)
        self._rows = np.concatenate([self._rows, new])

    def append_rows(self, matrix: sparse.csr_array, upper: Array) -> None:
        """Append rows to the model: `matrix @ columns <= upper`. A basis from before still fits."""
        new = self._scaled.rows(matrix, upper)
        self._add_rows(new.matrix, new.row_lower, new.row_upper)
        first = len(self._scaled.row_lower)
        self._scaled.append(new)
        self._rows = np.concatenate([self._rows, first + np.arange(len(upper))])

    def _add_rows(self, matrix: sparse.csr_array, lower: Array, upper: Array) -> None:
        """Add scaled rows to the solver; where it refuses, the model is still the solver's."""
        start, index = matrix.indptr[:-1].astype(np.int32), matrix.indices.astype(np.int32)
        status = self._highs.addRows(
            len(lower), lower, upper, matrix.nnz, start, index, matrix.data
        )
        self._require(status, "addRows")

    def decide_signs(self) -> None:
        """Go on with the dual method: a basis stays dual feasible if columns are switched off."""
        self._require(self._highs.setOptionValue("simplex_strategy", 1), "simplex_strategy")

    def require_rows(self, rows: Columns, lower: Array) -> None:
        """Set the lower bounds of some rows, none of which is omitted."""
        places = np.flatnonzero(np.isin(self._rows, rows))
        for place, value in zip(places.tolist(), lower, strict=True):
            row = self._rows[place]
            low = float(value * self._scaled.row_scale[row])
            high = float(self._scaled.row_upper[row])
            self._require(self._highs.changeRowBounds(place, low, high), "changeRowBounds")

    def solve(
        self, iteration_limit: int | None = None, need_primal: bool = True, enough: float = -np.inf
    ) -> LpAnswer:
        """Run the solver from its current basis; it may stop once the maximum is below `enough`.

        Where costs are slightly off, the solver stops by an objective that is off by as much as at
        the latest optimum: nodes differ little in that, and multipliers say what is proved.
        """
        limit = min(self._most_iterations if iteration_limit is None else iteration_limit, MOST)
        self._highs.setOptionValue("objective_bound", self._shift - enough / self._unit)
        # Cost perturbation helps without a basis. From a good basis it costs more than it gains: it
        # must be undone afterwards, and spoils the duals of an unfinished solve.
        first = limit if self.from_nothing else min(limit, self.steps_from_basis)
        status, iterations = self._run(first, perturbed=self.from_nothing)
        self.from_nothing = False
        if status is LpStatus.LIMIT and first < limit and iterations >= first:
            status, more = self._run(limit - first, perturbed=True)
            iterations += more
        if status is LpStatus.INFEASIBLE:
            return LpAnswer(status, self._ray(), None, -np.inf, iterations)
        solution = self._highs.getSolution()
        duals = primal = None
        if solution.dual_valid:
            duals = -self._of_all_rows(solution.row_dual) * self._unit
        if need_primal and solution.value_valid:
            primal = np.array(solution.col_value) * self._scaled.column_scale
        value, shift = self._highs.getInfo().objective_function_value, 0.0
        if self.slightly_off and solution.value_valid:
            shift = value + self._emphasis * solution.col_value[self._objective]
            if status is LpStatus.OPTIMAL:
                self._shift = shift
        objective = (shift - value) * self._unit
        return LpAnswer(status, duals, primal, objective, iterations)

    @property
    def steps_from_basis(self) -> int:
        """Iterations after which a solve from a basis is stuck."""
        if self.by_interior_point:
            return MOST
        return (_STUCK_SOON if self.impatient else _STUCK) * (len(self._rows) + 1)

    def _run(self, limit: int, perturbed: bool) -> tuple[LpStatus, int]:
        """Run the solver; its status, and how many iterations it took."""
        self._highs.setOptionValue("simplex_iteration_limit", limit)
        self._highs.setOptionValue(PERTURBATION, 1.0 if perturbed else 0.0)
        left = min(self._deadline.left, _PATIENCE if self.by_interior_point else np.inf)
        if left < np.inf:  # the solver's clock is cumulative
            self._highs.setOptionValue("time_limit", self._highs.getRunTime() + left)
        self._highs.run()
        status = STATUSES.get(self._highs.getModelStatus().name, LpStatus.DOUBTFUL)
        info = self._highs.getInfo()
        iterations = max(int(info.simplex_iteration_count), 0)
        return status, iterations + _WORK_OF_INTERIOR * max(int(info.ipm_iteration_count), 0)

    def _ray(self) -> Array | None:
        answer = self._highs.getDualRay()
        ray = np.asarray(answer[-1], dtype=np.float64)
        return self._of_all_rows(ray) if len(ray) == len(self._rows) else None

    def _of_all_rows(self, multipliers: ArrayLike) -> Array:
        """Return the solver's multipliers in the model's units; 0 for omitted rows."""
        found = np.zeros(len(self._scaled.row_lower))
        found[self._rows] = np.asarray(multipliers, dtype=np.float64)
        return self._gaps.restored(found * self._scaled.row_scale)
