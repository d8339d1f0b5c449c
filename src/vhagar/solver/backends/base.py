"""A MIP solver behind a small wall: models go in; statuses, safe bounds and solutions come out.

Before a model reaches a solver, columns and rows are scaled by powers of two (which is exact), so
that every column lies in [-1, 1] whatever the weights. The solver's absolute tolerances then mean
the same for every network, and its bounds are moved outward by what those tolerances allow.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from vhagar.errors import SolverFailure, SolverUnavailable
from vhagar.solver.backends.listener import (
    Listener,
    OnBound,
    OnNodes,
    OnSolution,
    ShouldStop,
)
from vhagar.solver.backends.status import STATUSES, SolveStatus
from vhagar.solver.linear_model import Columns, LinearArrays
from vhagar.solver.scaling import Scaled

Array = NDArray[np.float64]

# Tolerance of rows, reduced costs and integers that every solver must keep, in the scaled model.
TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Solved:
    """`bound` is an upper bound on the maximum with tolerances added; infinite where unknown."""

    status: SolveStatus
    bound: float
    solution: Array | None


@dataclass(frozen=True)
class Capabilities:
    """What a solver can do besides solving.

    `partial_start`: begin with values for some of the columns. `live_bounds` and `live_solutions`:
    tell them, and be stopped, while a MIP is being solved. `products`: take a model's bilinear
    products; without, the rows that relax them are all there is.
    """

    partial_start: bool
    live_bounds: bool
    live_solutions: bool
    products: bool = False


@dataclass(frozen=True, eq=False)
class Request:
    """One call of `solve`, in our units. `start` is NaN where a column's value is left open.

    `proving`: a good solution is known already, so the time is for the bound.
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
    """Maximises one column of a model. One solver is one class derived from this."""

    name: ClassVar[str]  # what the user calls the solver; its line in the table of statuses
    package: ClassVar[str]  # what is imported
    capabilities: ClassVar[Capabilities]

    @classmethod
    def require_package(cls) -> None:
        """Complain if the solver is not installed."""
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
        """How far the solver's tolerances can make its bound too small.

        A dual solution whose reduced costs are wrong by the tolerance errs by at most the
        tolerance times the range of each column and row; pruning against the incumbent errs by
        the tolerance once more. All this in units of the rows that hold the objective, whose
        other columns may be much larger than the objective is.
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
        """Whether it is more than an LP to this solver."""
        products = self.capabilities.products and len(self._arrays.products) > 0
        return products or bool(self._arrays.integer.any())

    def _product_entries(self) -> float:
        """The sum of the products' coefficients, as of rows; solvers relax them by such rows."""
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

        `start` has the values of some columns to begin with, and NaN for all others. It is a hint
        and never changes what is true. `proving` says that a good solution is known already: the
        solver need not look for others. While an LP is being solved nobody is told anything.
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
        """Put the request to the solver."""

    def _judged(self, word: str, solvers_bound: float, point: Any | None) -> Solved:
        """The solver's last words, in ours."""
        status = STATUSES[self.name].get(word, SolveStatus.FAILED)
        bound = math.inf
        if status in (SolveStatus.OPTIMAL, SolveStatus.STOPPED):
            bound = self._safe(solvers_bound)
        return Solved(status, bound, None if point is None else self._unscaled(point))

    def _safe(self, scaled_bound: float) -> float:
        """A dual bound of the scaled model as an upper bound of ours; infinite where useless."""
        # For a maximisation, minus infinity is what solvers say of an infeasible model: only the
        # status may say that.
        if not math.isfinite(scaled_bound) or abs(scaled_bound) >= 1e20:
            return math.inf
        bound = scaled_bound * float(self._scaled.column_scale[self._objective]) + self.outward
        return float(np.nextafter(bound, np.inf))

    def _unscaled(self, values: Any) -> Array | None:
        """A solution in our columns; None where it is none."""
        found = np.array(values, dtype=np.float64)
        if found.shape != self._scaled.column_scale.shape or not np.isfinite(found).all():
            return None
        return np.asarray(found * self._scaled.column_scale)

    def _scaled_columns(self, request: Request) -> tuple[Array, Array]:
        return request.lower / self._scaled.column_scale, request.upper / self._scaled.column_scale

    def _scaled_rows(self, request: Request) -> tuple[Array, Array]:
        """The rows' bounds with the request's changes."""
        lower = self._scaled.row_lower.copy()
        if request.row_lower is not None:
            rows, values = request.row_lower
            if not ((rows >= 0) & (rows < len(lower))).all():
                raise SolverFailure(f"there are {len(lower)} rows, and not all of {rows}")
            lower[rows] = values * self._scaled.row_scale[rows] - self._scaled.reach[rows]
        return lower, self._scaled.row_upper

    def _scaled_start(self, request: Request) -> tuple[Columns, Array]:
        """The columns with a value to start from, and the values."""
        if request.start is None:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        known = np.flatnonzero(np.isfinite(request.start))
        return known, request.start[known] / self._scaled.column_scale[known]
