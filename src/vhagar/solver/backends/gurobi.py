"""Gurobi, by its package gurobipy (`pip install "vhagar[gurobi]"`), with any licence.

The licence that comes with the package allows only small models, and the error says so.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from vhagar.array_types import Array
from vhagar.errors import SolverFailure, SolverUnavailable
from vhagar.solver.backends.base import TOLERANCE, AbstractModel, Capabilities, Request, Solved
from vhagar.solver.backends.duality import weak_duality
from vhagar.solver.backends.listener import Listener

_PARAMETERS: dict[str, Any] = {
    "FeasibilityTol": TOLERANCE,
    "OptimalityTol": TOLERANCE,
    "IntFeasTol": TOLERANCE,
    "MIPGap": 0.0,
    "MIPGapAbs": 0.0,
    # Targets share the cores, one process each.
    "Threads": 1,
}

_NO_LICENCE, _TOO_LARGE = 10009, 10010  # Gurobi's error codes


class GurobiModel(AbstractModel):
    """Maximises one column of a model with Gurobi."""

    name = "gurobi"
    package = "gurobipy"
    capabilities = Capabilities()

    def _run(self, request: Request, listener: Listener) -> Solved:
        import gurobipy

        try:
            with gurobipy.Model(env=_environment()) as model:
                rows = self._build(model, request)
                model.optimize(_callback(listener) if request.integer else None)
                listener.raise_error()
                return self._outcome(model, rows, request, listener)
        except gurobipy.GurobiError as error:
            self._complain(error)

    def _build(self, model: Any, request: Request) -> _Rows:
        """Fill the model, and return its rows."""
        for name, value in _PARAMETERS.items():
            model.setParam(name, value)
        model.setParam("Seed", request.seed)
        if math.isfinite(request.time_limit):
            model.setParam("TimeLimit", request.time_limit)
        if request.proving:
            model.setParam("MIPFocus", 3)  # the bound
        lower, upper = self._scaled_columns(request)
        kinds = np.where(self._arrays.integer & request.integer, "I", "C")
        columns = model.addMVar(len(lower), lb=lower, ub=upper, obj=self._cost(), vtype=kinds)
        rows = _Rows(self._scaled.matrix, *self._scaled_rows(request))
        if len(rows.senses):
            model.addMConstr(rows.matrix, columns, rows.senses, rows.sides)
        model.ModelSense = -1  # maximise
        known, values = self._scaled_start(request)
        if request.integer and len(known):
            columns[known].Start = values
        return rows

    def _outcome(self, model: Any, rows: _Rows, request: Request, listener: Listener) -> Solved:
        word = _words().get(model.Status, "a status without a name")
        point = model.getAttr("X", model.getVars()) if model.SolCount > 0 else None
        bound = math.inf
        if request.integer:
            listener.nodes(int(model.NodeCount), last=True)
            bound = model.ObjBound
        elif word == "OPTIMAL":
            duals, columns = model.getAttr("Pi", model.getConstrs()), self._scaled_columns(request)
            given = rows.matrix, self._cost(), columns, rows.bounds
            bound = weak_duality(*given, np.array(duals))
        return self._judged(word, bound, point)

    def _complain(self, error: Any) -> NoReturn:
        columns, rows = len(self._scaled.column_scale), len(self._scaled.row_scale)
        if error.errno == _TOO_LARGE:
            raise SolverUnavailable(
                f"Gurobi's licence allows only small models, and this one has {columns} columns "
                f"and {rows} rows: install a full licence (free for academic use, see "
                "gurobi.com), or choose the solver highs or scip"
            ) from error
        if error.errno == _NO_LICENCE:
            raise SolverUnavailable(
                f"Gurobi has no valid licence ({error}): install one (free for academic use, see "
                "gurobi.com), or choose the solver highs or scip"
            ) from error
        raise SolverFailure(f"Gurobi failed: {error}") from error


class _Rows:
    """Rows with one side each, as Gurobi needs them: `=`, `<` or `>`."""

    def __init__(self, matrix: sparse.csr_array, lower: Array, upper: Array) -> None:
        same = lower == upper
        parts = [
            (np.flatnonzero(same), "="),
            (np.flatnonzero(~same & np.isfinite(upper)), "<"),
            (np.flatnonzero(~same & np.isfinite(lower)), ">"),
        ]
        index = np.concatenate([rows for rows, _ in parts])
        self.matrix = sparse.csr_array(matrix[index])
        self.senses = np.concatenate([np.full(len(rows), sense) for rows, sense in parts])
        self.sides = np.where(self.senses == ">", lower[index], upper[index])
        self.bounds = (
            np.where(self.senses == "<", -np.inf, lower[index]),
            np.where(self.senses == ">", np.inf, upper[index]),
        )


def _callback(listener: Listener) -> Any:
    from gurobipy import GRB

    def hear(model: Any, where: int) -> None:
        if where == GRB.Callback.MIPSOL:
            listener.solution(model.cbGetSolution(model.getVars()))
        elif where == GRB.Callback.MIP:
            listener.nodes(int(model.cbGet(GRB.Callback.MIP_NODCNT)))
            listener.bound(model.cbGet(GRB.Callback.MIP_OBJBND))

    def called(model: Any, where: int) -> None:
        if listener.guarded(lambda: hear(model, where)):
            model.terminate()

    return called


@cache
def _environment() -> Any:
    """Create one environment per process: it may have to ask a server for a licence."""
    import gurobipy

    environment = gurobipy.Env(empty=True)
    environment.setParam("OutputFlag", 0)
    environment.start()
    return environment


@cache
def _words() -> dict[int, str]:
    """The names of Gurobi's statuses."""
    from gurobipy import GRB

    return {getattr(GRB.Status, name): name for name in dir(GRB.Status) if name[0] != "_"}
