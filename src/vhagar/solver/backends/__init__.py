"""The table of MIP solvers, and their common interface; LPs of the search: `solver/simplex.py`."""

from __future__ import annotations

from importlib import import_module

from vhagar.errors import InvalidInput
from vhagar.solver.backends.base import AbstractModel, Solved
from vhagar.solver.backends.status import STATUSES, SolveStatus

__all__ = [
    "BACKENDS",
    "STATUSES",
    "AbstractModel",
    "SolveStatus",
    "Solved",
    "backend_named",
    "check_solver_name",
]

# A new solver is one more file and one more line. Solvers are imported lazily.
BACKENDS = {
    "highs": "HighsModel",
    "scip": "ScipModel",
    "gurobi": "GurobiModel",
}


def check_solver_name(name: str) -> None:
    """Raise an error if there is no such solver, installed or not."""
    if name not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise InvalidInput(f"unknown solver {name!r}; choose one of: {known}")


def backend_named(name: str) -> type[AbstractModel]:
    """Return the solver of that name; it is an error if its package is not installed."""
    check_solver_name(name)
    module = import_module(f"vhagar.solver.backends.{name}")
    found: type[AbstractModel] = getattr(module, BACKENDS[name])
    found.require_package()
    return found
