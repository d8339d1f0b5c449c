"""HiGHS behind a small wall: models go in, statuses, safe bounds and solutions come out.

Before a model reaches the solver, columns and rows are scaled by powers of two (which is exact), so
that every column lies in [-1, 1] whatever the weights. The solver's absolute tolerances then mean
the same for every network, and its bounds are moved outward by what those tolerances allow.

Things HiGHS does that this file guards against, each with a test: `mip_dual_bound` reads 0 for pure
LPs; on infeasible models it may be either infinity; `objective_bound` is a simplex option and may
return a wrong optimum (not used); `silent()` would switch the logging callback off (not used);
`changeColsBounds` with an unsorted or repeated index changes nothing, so every status is checked.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.errors import SolverFailure
from vhagar.linear import Columns, LinearArrays

Array = NDArray[np.float64]

# Of the scaled model. HiGHS solves the LPs of a MIP with a tenth of the MIP tolerance on the dual
# side; the full value is assumed here.
_TOLERANCE = 1e-9
# HiGHS's own limit (its option small_matrix_value).
_SMALLEST_COEFFICIENT = 1e-9
# Seconds between two reports of the number of nodes.
_COUNT_EVERY = 0.5


class SolveStatus(Enum):
    """What the solver's word is worth to us."""

    OPTIMAL = "solved to optimality"
    INFEASIBLE = "no feasible point"
    STOPPED = "stopped early"
    FAILED = "failed; nothing is known"


@dataclass(frozen=True, eq=False)
class Solved:
    """`bound` is an upper bound on the maximum with tolerances added; infinite where unknown."""

    status: SolveStatus
    bound: float
    solution: Array | None


OnBound = Callable[[float], None]
OnSolution = Callable[[Array], None]
# Receives how many nodes of the tree were looked at so far.
OnNodes = Callable[[int], None]


class HighsModel:
    """Maximises one column of a model."""

    def __init__(self, arrays: LinearArrays, objective: int) -> None:
        self._arrays = arrays
        self._objective = objective
        sizes = np.maximum(abs(arrays.column_lower), abs(arrays.column_upper))
        self._column_scale = _powers_of_two(sizes)
        self._column_scale[arrays.integer] = 1.0
        matrix = arrays.matrix.copy()
        matrix.data = matrix.data * self._column_scale[matrix.indices]
        # A column that is always 0 says nothing, and must not set the scale of its rows.
        matrix.data[sizes[matrix.indices] == 0] = 0.0
        largest = np.zeros(matrix.shape[0])
        np.maximum.at(
            largest, np.repeat(np.arange(len(largest)), np.diff(matrix.indptr)), abs(matrix.data)
        )
        self._row_scale = 1.0 / _powers_of_two(largest)
        matrix.data = matrix.data * np.repeat(self._row_scale, np.diff(matrix.indptr))
        # HiGHS drops smaller coefficients, silently but for a warning. They are dropped here, and
        # the rows widened by what they can contribute: the scaled columns lie in [-1, 1].
        tiny = abs(matrix)
        tiny.data = np.where(tiny.data < _SMALLEST_COEFFICIENT, tiny.data, 0.0)
        reach = 2.0 * tiny.sum(axis=1)
        matrix.data[abs(matrix.data) < _SMALLEST_COEFFICIENT] = 0.0
        matrix.eliminate_zeros()
        self._matrix = matrix
        self._row_lower = arrays.row_lower * self._row_scale - reach
        self._row_upper = arrays.row_upper * self._row_scale + reach
        self.outward = self._outward()

    def _outward(self) -> float:
        """How far the solver's tolerances can make its bound too small.

        A dual solution whose reduced costs are wrong by the tolerance errs by at most the
        tolerance times the range of each column and row; pruning against the incumbent errs by
        the tolerance once more. All this in units of the rows that hold the objective, whose
        other columns may be much larger than the objective is.
        """
        arrays = self._arrays
        columns = (arrays.column_upper - arrays.column_lower) / self._column_scale
        rows = 2.0 * abs(self._matrix).sum()
        ranges = 1.0 + float(columns.sum()) + float(rows)
        entries = abs(self._matrix.data[self._matrix.indices == self._objective])
        smallest = float(entries.min(initial=1.0))
        unit = float(self._column_scale[self._objective]) / min(1.0, smallest)
        return _TOLERANCE * ranges * unit

    def _build(self, lower: Array, upper: Array, integer: bool) -> Any:
        import highspy

        arrays, scale = self._arrays, self._column_scale
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(scale), len(self._row_scale)
        cost = np.zeros(len(scale))
        cost[self._objective] = 1.0
        lp.col_cost_ = cost
        lp.col_lower_, lp.col_upper_ = lower / scale, upper / scale
        lp.row_lower_, lp.row_upper_ = self._row_lower, self._row_upper
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = self._matrix.indptr.astype(np.int32)
        lp.a_matrix_.index_ = self._matrix.indices.astype(np.int32)
        lp.a_matrix_.value_ = self._matrix.data
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

    def solve(
        self,
        *,
        lower: Array | None = None,
        upper: Array | None = None,
        row_lower: tuple[Columns, Array] | None = None,
        integer: bool = True,
        time_limit: float = math.inf,
        seed: int = 0,
        on_bound: OnBound | None = None,
        on_solution: OnSolution | None = None,
        on_nodes: OnNodes | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> Solved:
        """Solve, optionally with other column bounds, other row lower bounds, or as an LP."""
        lower = self._arrays.column_lower if lower is None else lower
        upper = self._arrays.column_upper if upper is None else upper
        solver = self._build(lower, upper, integer)
        if row_lower is not None:
            for row, value in zip(*row_lower, strict=True):
                scale = self._row_scale[row]
                high = self._row_upper[row]
                _require(solver.changeRowBounds(int(row), value * scale, high), "changeRowBounds")
        _require(solver.setOptionValue("random_seed", seed), "random_seed")
        if math.isfinite(time_limit):
            _require(solver.setOptionValue("time_limit", max(time_limit, 0.0)), "time_limit")
        is_mip = integer and bool(self._arrays.integer.any())
        if is_mip:
            self._subscribe(solver, on_bound, on_solution, on_nodes, should_stop)
        solver.run()
        if is_mip and on_nodes is not None:
            on_nodes(max(int(solver.getInfo().mip_node_count), 0))  # -1 where there is no tree
        return self._outcome(solver, is_mip)

    def _subscribe(
        self,
        solver: Any,
        on_bound: OnBound | None,
        on_solution: OnSolution | None,
        on_nodes: OnNodes | None,
        should_stop: Callable[[], bool] | None,
    ) -> None:
        best, last_report, last_count = math.inf, 0.0, time.monotonic()

        def interrupt(event: Any) -> None:
            nonlocal best, last_report, last_count
            bound = self._safe(event.data_out.mip_dual_bound)
            now = time.monotonic()
            if on_nodes is not None and now - last_count > _COUNT_EVERY:
                last_count = now
                on_nodes(max(int(event.data_out.mip_node_count), 0))
            if on_bound is not None and bound < best and now - last_report > 0.05:
                best, last_report = bound, now
                on_bound(bound)
            if should_stop is not None and should_stop():
                event.data_in.user_interrupt = True

        def improving(event: Any) -> None:
            solution = self._unscaled(event.data_out.mip_solution)
            if on_solution is not None and solution is not None:
                on_solution(solution)

        solver.cbMipInterrupt.subscribe(interrupt)
        solver.cbMipImprovingSolution.subscribe(improving)

    def _safe(self, scaled_bound: float) -> float:
        """A dual bound of the scaled model as an upper bound of ours; infinite where useless."""
        # For a maximisation, minus infinity is what HiGHS says of an infeasible model: only the
        # status may say that.
        if not math.isfinite(scaled_bound) or abs(scaled_bound) >= 1e20:
            return math.inf
        bound = scaled_bound * float(self._column_scale[self._objective]) + self.outward
        return float(np.nextafter(bound, np.inf))

    def _outcome(self, solver: Any, is_mip: bool) -> Solved:
        status = _STATUSES.get(solver.getModelStatus().name, SolveStatus.FAILED)
        info, found = solver.getInfo(), solver.getSolution()
        bound = math.inf
        if is_mip and status in (SolveStatus.OPTIMAL, SolveStatus.STOPPED):
            bound = self._safe(info.mip_dual_bound)
        elif status is SolveStatus.OPTIMAL:
            bound = self._safe(self._weak_duality(solver.getLp(), np.array(found.row_dual)))
        feasible = info.primal_solution_status == _FEASIBLE
        return Solved(status, bound, self._unscaled(found.col_value) if feasible else None)

    def _unscaled(self, values: Any) -> Array | None:
        """A solution in our columns; None where it is none."""
        found = np.array(values, dtype=np.float64)
        if found.shape != self._column_scale.shape or not np.isfinite(found).all():
            return None
        return found * self._column_scale

    def _weak_duality(self, lp: Any, duals: Array) -> float:
        """The bound that any row duals prove; `mip_dual_bound` reads 0 for an LP.

        `c.x = y.(A x) + (c - A'y).x`, and each term is at most its larger end.
        """
        if duals.shape != self._row_scale.shape or not np.isfinite(duals).all():
            return math.inf
        low, high = np.array(lp.row_lower_), np.array(lp.row_upper_)
        # A dual that leans on a side that is not there proves nothing: 0 always does.
        y = np.where((duals > 0) & np.isfinite(high) | (duals < 0) & np.isfinite(low), duals, 0.0)
        cost, left, right = (
            np.array(part) for part in (lp.col_cost_, lp.col_lower_, lp.col_upper_)
        )
        rest = cost - self._matrix.T @ y
        sides = np.where(y == 0, 0.0, np.where(y > 0, high, low))
        bound = y @ sides + rest @ np.where(rest > 0, right, left)
        # Large duals round by more than the tolerances: each sum errs by at most half an ulp of
        # its absolute terms for each of them.
        reach = np.maximum(abs(left), abs(right))
        size = abs(y) @ abs(sides) + (abs(cost) + abs(self._matrix).T @ abs(y)) @ reach
        return float(bound + 2.0**-52 * (len(y) + 2 * len(cost) + 8) * size)


_OPTIONS: dict[str, Any] = {
    # Output on but not shown: switching it off would switch off callbacks as well.
    "output_flag": True,
    "log_to_console": False,
    # More threads would still search with one worker.
    "threads": 1,
    "parallel": "off",
    "small_matrix_value": _SMALLEST_COEFFICIENT,
    "mip_feasibility_tolerance": _TOLERANCE,
    "primal_feasibility_tolerance": _TOLERANCE,
    "dual_feasibility_tolerance": _TOLERANCE,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
}

_STATUSES = {
    "kOptimal": SolveStatus.OPTIMAL,
    "kInfeasible": SolveStatus.INFEASIBLE,
    "kTimeLimit": SolveStatus.STOPPED,
    "kInterrupt": SolveStatus.STOPPED,
    "kHighsInterrupt": SolveStatus.STOPPED,
    "kIterationLimit": SolveStatus.STOPPED,
    "kSolutionLimit": SolveStatus.STOPPED,
    "kMemoryLimit": SolveStatus.STOPPED,
}

_FEASIBLE = 2  # HiGHS's kSolutionStatusFeasible


def _require(status: Any, call: str) -> None:
    if status.name != "kOk":
        raise SolverFailure(f"HiGHS answered {status.name} to {call}")


def _powers_of_two(values: Array) -> Array:
    """The smallest power of two that is at least each value; 1 for zeros."""
    safe = np.where((values > 0) & np.isfinite(values), values, 1.0)
    mantissa, exponent = np.frexp(safe)
    exponent = np.where(mantissa == 0.5, exponent - 1, exponent)
    return np.ldexp(1.0, exponent)
