"""SCIP, by its package pyscipopt (`pip install "vhagar[scip]"`).

It supports bilinear products: a range of contrasts needs no splitting, as in the paper.

It swallows exceptions of its callbacks, so these are kept and raised when it has ended; by default
it handles Ctrl-C itself; and it treats coefficients up to its epsilon as 0.
"""

from __future__ import annotations

import math
from typing import Any

from vhagar.errors import SolverFailure
from vhagar.solver.backends.base import TOLERANCE, AbstractModel, Capabilities, Request, Solved
from vhagar.solver.backends.listener import Listener

_PARAMETERS: dict[str, Any] = {
    "numerics/feastol": TOLERANCE,
    "numerics/dualfeastol": TOLERANCE,
    "numerics/epsilon": TOLERANCE,
    "numerics/sumepsilon": TOLERANCE,
    "limits/gap": 0.0,
    "limits/absgap": 0.0,
    "lp/threads": 1,
    "misc/catchctrlc": False,
    # A start may have as few values as there are hints.
    "heuristics/completesol/maxunknownrate": 1.0,
}

# Relative gap with products, where the bound approaches the optimum without reaching it.
_PRODUCT_GAP = 1e-6


class ScipModel(AbstractModel):
    """Maximises one column of a model with SCIP."""

    name = "scip"
    package = "pyscipopt"
    capabilities = Capabilities(products=True)

    def _run(self, request: Request, listener: Listener) -> Solved:
        try:
            solver, columns = self._build(request)
            if request.integer:
                _start(solver, columns, *self._scaled_start(request))
                _subscribe(solver, columns, listener)
            solver.optimize()
        except Exception as error:  # its package raises plain exceptions
            raise SolverFailure(f"SCIP failed: {error}") from error
        listener.raise_error()
        if request.integer:
            listener.nodes(solver.getNTotalNodes(), last=True)
        point = _point(solver, columns) if solver.getNSols() > 0 else None
        return self._judged(solver.getStatus(), solver.getDualbound(), point)

    def _build(self, request: Request) -> tuple[Any, list[Any]]:
        import pyscipopt

        solver = pyscipopt.Model()
        solver.hideOutput()
        for name, value in _PARAMETERS.items():
            solver.setParam(name, value)
        solver.setParam("randomization/randomseedshift", request.seed)
        if math.isfinite(request.time_limit):
            solver.setParam("limits/time", request.time_limit)
        if request.proving:
            solver.setHeuristics(pyscipopt.SCIP_PARAMSETTING.FAST)
        columns = self._add_columns(solver, request)
        self._add_rows(solver, columns, request)
        if request.integer and self._arrays.products:
            self._add_products(solver, columns)
            solver.setParam("limits/absgap", _PRODUCT_GAP)
        solver.setMaximize()
        return solver, columns

    def _add_columns(self, solver: Any, request: Request) -> list[Any]:
        lower, upper = self._scaled_columns(request)
        whole = self._arrays.integer & request.integer
        return [
            solver.addVar(
                vtype="I" if whole[index] else "C",
                lb=_side(lower[index]),
                ub=_side(upper[index]),
                obj=1.0 if index == self._objective else 0.0,
            )
            for index in range(len(lower))
        ]

    def _add_rows(self, solver: Any, columns: list[Any], request: Request) -> None:
        import pyscipopt

        lower, upper = self._scaled_rows(request)
        # SCIP does not accept rows without entries.
        nothing = solver.addVar(lb=0.0, ub=0.0)
        matrix = self._scaled.matrix
        for row, (low, high) in enumerate(zip(lower.tolist(), upper.tolist(), strict=True)):
            if low == -math.inf and high == math.inf:
                continue
            part = slice(matrix.indptr[row], matrix.indptr[row + 1])
            entries = zip(matrix.indices[part].tolist(), matrix.data[part].tolist(), strict=True)
            total = pyscipopt.quicksum([value * columns[column] for column, value in entries])
            added = solver.addCons(total + nothing <= 0.0)
            solver.chgRhs(added, _side(high))
            solver.chgLhs(added, _side(low))

    def _add_products(self, solver: Any, columns: list[Any]) -> None:
        """`result - shift = factor * (other - shift)`, in units of the result's column."""
        scale = self._scaled.column_scale
        for part in self._arrays.products:
            factor = float(scale[part.factor]) * columns[part.factor]
            for result, other in zip(part.result.tolist(), part.other.tolist(), strict=True):
                unit = float(scale[result])
                stretched = (float(scale[other]) / unit) * columns[other] - part.shift / unit
                solver.addCons(columns[result] - part.shift / unit == factor * stretched)


def _side(value: float) -> float | None:
    """Convert a bound to SCIP's convention: None if there is none."""
    return float(value) if math.isfinite(value) else None


def _start(solver: Any, columns: list[Any], known: Any, values: Any) -> None:
    if len(known):
        start = solver.createPartialSol()
        for column, value in zip(known.tolist(), values.tolist(), strict=True):
            solver.setSolVal(start, columns[column], value)
        solver.addSol(start)


def _point(solver: Any, columns: list[Any]) -> list[float]:
    best = solver.getBestSol()
    return [solver.getSolVal(best, column) for column in columns]


def _subscribe(solver: Any, columns: list[Any], listener: Listener) -> None:
    from pyscipopt import SCIP_EVENTTYPE as EVENT

    def hear(kind: int) -> None:
        if kind == EVENT.BESTSOLFOUND:
            listener.solution(_point(solver, columns))
        else:
            listener.nodes(solver.getNTotalNodes())
            listener.bound(solver.getDualbound())

    def happened(_: Any, event: Any) -> None:
        if listener.guarded(lambda: hear(event.getType())):
            solver.interruptSolve()

    # Frequent enough to stop soon in every stage.
    events = [
        EVENT.BESTSOLFOUND,
        EVENT.PRESOLVEROUND,
        EVENT.NODEFOCUSED,
        EVENT.FIRSTLPSOLVED,
        EVENT.LPSOLVED,
    ]
    solver.attachEventHandlerCallback(happened, events, name="listener")
