"""The interface of MIP solvers: models go in; statuses, safe bounds and solutions come out.

Before a model reaches a solver, columns and rows are scaled by powers of two (which is exact), so
that every column lies in [-1, 1] whatever the weights. The solver's absolute tolerances then mean
the same for every network, and its bounds are moved outward by as much as they allow.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from vhagar.array_types import Array
from vhagar.errors import SolverFailure, SolverUnavailable
from vhagar.solver.backends.listener import Listener, OnBound, OnNodes, OnSolution, ShouldStop
from vhagar.solver.backends.status import STATUSES, SolveStatus
from vhagar.solver.linear_model import Columns, LinearArrays
from vhagar.solver.scaling import Scaled

# Tolerance of rows, reduced costs and integers that every solver must keep, in the scaled model.
TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Solved:
    """The outcome; `bound` is an upper bound with tolerances added, infinite if unknown."""

    status: SolveStatus
    bound: float
    solution: Array | None


@dataclass(frozen=True)
class Capabilities:
    """Optional features of a solver.

    `products`: it supports a model's bilinear products; otherwise they are only relaxed by rows.
    """

    products: bool = False


@dataclass(frozen=True, eq=False)
class Request:
    """One call of `solve`, in the model's units. `start` is NaN for columns without a value.

    `proving`: a good solution is known already, so the solver should work on the bound.
    """

    lower: Array
    upper: Array
    row_lower: tuple[Columns, Array] | None
    integer: bool
    time_limit: float
    seed: int
    start: Array | None
    proving: bool = False


class AbstractModel(ABC):
    """Maximises one column of a model. Each solver is a class derived from this."""

    name: ClassVar[str]  # on the command line, and in the table of statuses
    package: ClassVar[str]  # the package to import
    capabilities: ClassVar[Capabilities]

    @classmethod
    def require_package(cls) -> None:
        """Raise an error if the solver is not installed."""
        if find_spec(cls.package) is None:
            raise SolverUnavailable(
                f"the solver {cls.name} needs the package {cls.package}, which is not installed: "
                f'run `pip install "vhagar[{cls.name}]"`, or choose another solver'
            )

    def __init__(self, arrays: LinearArrays, objective: int) -> None:
        self._arrays = arrays
        self._objective = objective
        self._scaled = Scaled(arrays)
        self.outward = self._outward()

    def _outward(self) -> float:
        """Bound how much too small the solver's bound can be because of its tolerances.

        A dual solution whose reduced costs are off by the tolerance errs by at most the tolerance
        times the range of each column and row; pruning against the incumbent errs by the tolerance
        once more. This is in units of the rows that contain the objective, whose other columns may
        be much larger than the objective.
        """
        arrays = self._arrays
        columns = (arrays.column_upper - arrays.column_lower) / self._scaled.column_scale
        rows = 2.0 * abs(self._scaled.matrix).sum() + 2.0 * self._product_entries()
        ranges = 1.0 + float(columns.sum()) + float(rows)
        entries = abs(self._scaled.matrix.data[self._scaled.matrix.indices == self._objective])
        smallest = float(entries.min(initial=1.0))
        unit = float(self._scaled.column_scale[self._objective]) / min(1.0, smallest)
        return TOLERANCE * ranges * unit

    @property
    def _is_mip(self) -> bool:
        """Whether the model is more than an LP for this solver."""
        products = self.capabilities.products and len(self._arrays.products) > 0
        return products or bool(self._arrays.integer.any())

    def _product_entries(self) -> float:
        """Sum the coefficients of the rows by which solvers relax the products."""
        if not self.capabilities.products:
            return 0.0
        scale = self._scaled.column_scale
        total = 0.0
        for part in self._arrays.products:
            factor = scale[part.factor]
            linear = (factor * (scale[part.other] + 2.0 * abs(part.shift))) / scale[part.result]
            # A relaxation of a product has up to four sides.
            total += 4.0 * float((1.0 + linear).sum())
        return total

    def solve(
        self,
        *,
        lower: Array | None = None,
        upper: Array | None = None,
        row_lower: tuple[Columns, Array] | None = None,
        integer: bool = True,
        time_limit: float = math.inf,
        seed: int = 0,
        start: Array | None = None,
        proving: bool = False,
        on_bound: OnBound | None = None,
        on_solution: OnSolution | None = None,
        on_nodes: OnNodes | None = None,
        should_stop: ShouldStop | None = None,
    ) -> Solved:
        """Solve, optionally with other column bounds, other row lower bounds, or as an LP.

        `start` has the values of some columns, and NaN for all others; it is only a hint.
        `proving` says that a good solution is known already, so that the solver need not look for
        others. There are no callbacks while an LP is being solved.
        """
        arrays = self._arrays
        request = Request(
            arrays.column_lower if lower is None else lower,
            arrays.column_upper if upper is None else upper,
            row_lower,
            integer and self._is_mip,
            max(time_limit, 0.0),
            seed,
            start,
            proving,
        )
        listener = Listener(
            self._safe, self._unscaled, on_bound, on_solution, on_nodes, should_stop
        )
        return self._run(request, listener)

    @abstractmethod
    def _run(self, request: Request, listener: Listener) -> Solved:
        """Run the solver on the request."""

    def _judged(self, word: str, solvers_bound: float, point: Any | None) -> Solved:
        """Translate the solver's outcome."""
        status = STATUSES[self.name].get(word, SolveStatus.FAILED)
        bound = math.inf
        if status in (SolveStatus.OPTIMAL, SolveStatus.STOPPED):
            bound = self._safe(solvers_bound)
        return Solved(status, bound, None if point is None else self._unscaled(point))

    def _safe(self, scaled_bound: float) -> float:
        """Convert a dual bound of the scaled model to a safe one of ours; infinite if useless."""
        # Solvers report minus infinity for an infeasible model, but only the status may say so.
        if not math.isfinite(scaled_bound) or abs(scaled_bound) >= 1e20:
            return math.inf
        bound = scaled_bound * float(self._scaled.column_scale[self._objective]) + self.outward
        return float(np.nextafter(bound, np.inf))

    def _unscaled(self, values: Any) -> Array | None:
        """Convert a solution to the model's units; None if it is not finite."""
        found = np.array(values, dtype=np.float64)
        if found.shape != self._scaled.column_scale.shape or not np.isfinite(found).all():
            return None
        return np.asarray(found * self._scaled.column_scale)

    def _cost(self) -> Array:
        """1 for the column to maximise, 0 for all others."""
        cost = np.zeros(len(self._scaled.column_scale))
        cost[self._objective] = 1.0
        return cost

    def _scaled_columns(self, request: Request) -> tuple[Array, Array]:
        ends = request.lower / self._scaled.column_scale, request.upper / self._scaled.column_scale
        if any(np.isnan(end).any() for end in ends):
            raise SolverFailure("a column's bound is not a number")
        return ends

    def _scaled_rows(self, request: Request) -> tuple[Array, Array]:
        """Return the rows' bounds with the request's changes."""
        lower = self._scaled.row_lower.copy()
        if request.row_lower is not None:
            rows, values = request.row_lower
            if not ((rows >= 0) & (rows < len(lower))).all():
                raise SolverFailure(f"there are {len(lower)} rows, and not all of {rows}")
            lower[rows] = values * self._scaled.row_scale[rows] - self._scaled.reach[rows]
        return lower, self._scaled.row_upper

    def _scaled_start(self, request: Request) -> tuple[Columns, Array]:
        """Return the columns that have a starting value, and these values."""
        if request.start is None:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        known = np.flatnonzero(np.isfinite(request.start))
        return known, request.start[known] / self._scaled.column_scale[known]
