"""HiGHS, the solver that is always installed.

Pitfalls of HiGHS that this file guards against, each with a test: `mip_dual_bound` is 0 for pure
LPs, and either infinity for infeasible models; `objective_bound` is a simplex option and may return
a wrong optimum (not used); `silent()` would disable the logging callback (not used);
`changeColsBounds` with an unsorted or repeated index changes nothing, so every status is checked; a
partial start is completed by a smaller MIP whose bounds the callbacks report as if they were the
model's, so it is completed here, without callbacks, and passed on complete.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vhagar.array_types import Array
from vhagar.errors import SolverFailure
from vhagar.solver.backends.base import TOLERANCE, AbstractModel, Capabilities, Request, Solved
from vhagar.solver.backends.duality import weak_duality
from vhagar.solver.backends.listener import Listener
from vhagar.solver.highs_lp import highs_lp
from vhagar.solver.scaling import SMALLEST_COEFFICIENT


class HighsModel(AbstractModel):
    """Maximises one column of a model with HiGHS."""

    name = "highs"
    package = "highspy"
    capabilities = Capabilities()

    def _build(self, lower: Array, upper: Array, integer: bool) -> Any:
        import highspy

        arrays, scale = self._arrays, self._scaled.column_scale
        lp = highs_lp(self._scaled, np.arange(len(self._scaled.row_scale)), self._cost())
        lp.col_lower_, lp.col_upper_ = lower / scale, upper / scale
        lp.sense_ = highspy.ObjSense.kMaximize
        if integer and arrays.integer.any():
            kinds = np.where(arrays.integer, 1, 0)
            types = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
            lp.integrality_ = [types[kind] for kind in kinds]
        solver = highspy.Highs()
        for name, value in _OPTIONS.items():
            _require(solver.setOptionValue(name, value), f"option {name}")
        _require(solver.passModel(lp), "passModel")
        return solver

    def _run(self, request: Request, listener: Listener) -> Solved:
        solver = self._build(request.lower, request.upper, request.integer)
        if request.row_lower is not None:
            # Not in the model from the start: an infeasible row would be rejected there.
            lower, upper = self._scaled_rows(request)
            for row in request.row_lower[0].tolist():
                _require(solver.changeRowBounds(row, lower[row], upper[row]), "changeRowBounds")
        _require(solver.setOptionValue("random_seed", request.seed), "random_seed")
        if math.isfinite(request.time_limit):
            _require(solver.setOptionValue("time_limit", request.time_limit), "time_limit")
        if request.proving:
            for name, value in _PROVING.items():
                _require(solver.setOptionValue(name, value), f"option {name}")
        self._hand_over_start(solver, request, listener)
        if request.integer:
            _subscribe(solver, listener)
        solver.run()
        if request.integer:
            listener.nodes(solver.getInfo().mip_node_count, last=True)
        return self._outcome(solver, request.integer)

    def _hand_over_start(self, solver: Any, request: Request, listener: Listener) -> None:
        """Complete the partial start, if there is one, and pass it to the solver."""
        import highspy

        known, values = self._scaled_start(request)
        if not (request.integer and len(known)):
            return
        lower, upper = request.lower.copy(), request.upper.copy()
        scaled = np.clip(values * self._scaled.column_scale[known], lower[known], upper[known])
        lower[known] = upper[known] = scaled
        fixed = Request(
            lower,
            upper,
            request.row_lower,
            True,
            min(request.time_limit, _COMPLETION_SECONDS),
            request.seed,
            None,
        )
        silent = Listener(self._safe, self._unscaled, None, None, None, listener.stop)
        found = self._run(fixed, silent).solution
        if found is None:
            return  # the start is only a hint
        whole = self._arrays.integer
        found[whole] = np.round(found[whole])
        listener.solution(found / self._scaled.column_scale)
        start = highspy.HighsSolution()
        start.col_value = (found / self._scaled.column_scale).tolist()
        start.value_valid = True
        solver.setSolution(start)  # its status does not matter

    def _outcome(self, solver: Any, is_mip: bool) -> Solved:
        word = solver.getModelStatus().name
        info, found = solver.getInfo(), solver.getSolution()
        bound = math.inf
        if is_mip:
            bound = info.mip_dual_bound
        elif word == "kOptimal":
            bound = self._weak_duality(solver.getLp(), np.array(found.row_dual))
        feasible = info.primal_solution_status == _FEASIBLE
        return self._judged(word, bound, found.col_value if feasible else None)

    def _weak_duality(self, lp: Any, duals: Array) -> float:
        """Return the bound that the duals prove; `mip_dual_bound` is 0 for an LP."""
        parts = lp.col_cost_, lp.col_lower_, lp.col_upper_, lp.row_lower_, lp.row_upper_
        cost, left, right, low, high = (np.array(part) for part in parts)
        return weak_duality(self._scaled.matrix, cost, (left, right), (low, high), duals)


def _subscribe(solver: Any, listener: Listener) -> None:
    def interrupt(event: Any) -> None:
        listener.nodes(event.data_out.mip_node_count)
        listener.bound(event.data_out.mip_dual_bound)
        if listener.stop():
            event.data_in.user_interrupt = True

    solver.cbMipInterrupt.subscribe(interrupt)
    solver.cbMipImprovingSolution.subscribe(
        lambda event: listener.solution(event.data_out.mip_solution)
    )


_OPTIONS: dict[str, Any] = {
    # Output is enabled but not shown: disabling it would disable callbacks as well.
    "output_flag": True,
    "log_to_console": False,
    # With more threads, the search still has one worker.
    "threads": 1,
    "parallel": "off",
    # The default; smaller coefficients were dropped by scaling, which widens the rows.
    "small_matrix_value": SMALLEST_COEFFICIENT / 2,
    # HiGHS solves the LPs of a MIP with a tenth of the MIP tolerance on the dual side; the full
    # value is assumed.
    "mip_feasibility_tolerance": TOLERANCE,
    "primal_feasibility_tolerance": TOLERANCE,
    "dual_feasibility_tolerance": TOLERANCE,
    # The default of 8 trials per candidate costs more than better branching gains, because LPs are
    # large and nodes few (PERFORMANCE.md).
    "mip_pscost_minreliable": 2,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
}

# Without a solution, HiGHS spends most of its time on heuristics that solve smaller MIPs,
# recursively.
_PROVING: dict[str, Any] = {
    "mip_heuristic_effort": 0.0,
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_root_reduced_cost": False,
}

# Seconds for the smaller MIP that completes a partial start.
_COMPLETION_SECONDS = 5.0
_FEASIBLE = 2  # HiGHS's kSolutionStatusFeasible


def _require(status: Any, call: str) -> None:
    if status.name != "kOk":
        raise SolverFailure(f"HiGHS answered {status.name} to {call}")
