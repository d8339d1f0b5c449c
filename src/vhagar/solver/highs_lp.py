"""Translates between our models and HiGHS, for `simplex.py` above all: options, bases, statuses."""

from __future__ import annotations

from typing import Any

import numpy as np

from vhagar.array_types import Array
from vhagar.solver.linear_model import Columns
from vhagar.solver.lp_answer import LpStatus
from vhagar.solver.scaling import Scaled

# Iterations of the interior point method, which usually takes 20 to 40.
_INTERIOR_ITERATIONS = 100

PERTURBATION = "dual_simplex_cost_perturbation_multiplier"
OPTIONS: dict[str, Any] = {
    "output_flag": False,
    "threads": 1,
    "parallel": "off",
    "presolve": "off",
    "solver": "simplex",
    "simplex_strategy": 1,  # dual
    # The model is scaled already; scaling again at every node costs more than it gains.
    "simplex_scale_strategy": 0,
}
INTERIOR_POINT: dict[str, Any] = {
    "solver": "ipm",
    "presolve": "on",
    "run_crossover": "off",
    "ipm_iteration_limit": _INTERIOR_ITERATIONS,
}
MOST = 2**31 - 1  # of HiGHS's integers

STATUSES = {
    "kOptimal": LpStatus.OPTIMAL,
    "kInfeasible": LpStatus.INFEASIBLE,
    "kObjectiveBound": LpStatus.ENOUGH,
    "kIterationLimit": LpStatus.LIMIT,
    "kTimeLimit": LpStatus.LIMIT,
}


def highs_lp(scaled: Scaled, rows: Columns, cost: Array) -> Any:
    """A scaled model with some of its rows; HiGHS minimises, unless it is told otherwise."""
    import highspy

    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(scaled.column_lower), len(rows)
    lp.col_cost_ = cost
    lp.col_lower_, lp.col_upper_ = scaled.column_lower, scaled.column_upper
    lp.row_lower_, lp.row_upper_ = scaled.row_lower[rows], scaled.row_upper[rows]
    matrix = scaled.matrix[rows]
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = matrix.indptr.astype(np.int32)
    lp.a_matrix_.index_ = matrix.indices.astype(np.int32)
    lp.a_matrix_.value_ = matrix.data
    return lp


def with_basic_rows(basis: Any, missing: int) -> Any:
    """Append basic rows to a basis."""
    if missing <= 0:
        return basis
    import highspy

    wider = highspy.HighsBasis()
    wider.col_status, wider.valid = basis.col_status, True
    wider.row_status = [*basis.row_status, *[highspy.HighsBasisStatus.kBasic] * missing]
    return wider
