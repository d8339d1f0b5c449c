"""Warm starts across models: from a piece to the parts it was split into.

The LP of a part has nearly the same rows and columns as that of the whole, so the simplex starts
from the whole's basis. Where the two do not match, this only costs iterations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.solver.simplex import Simplex

Keys = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Layout:
    """Keys of the columns and rows of a model, which related models share."""

    columns: Keys
    rows: Keys


@dataclass(frozen=True, eq=False)
class Basis:
    """A solver's basis, and the layout of the model it belongs to."""

    solver: Any
    layout: Layout
    in_order: bool = True  # whether its rows are in the layout's order

    @classmethod
    def of(cls, simplex: Simplex, layout: Layout) -> Basis:
        """The current basis of a simplex on a model of that layout."""
        return cls(simplex.basis(), layout, simplex.has_rows_in_order)

    def fitted(self, layout: Layout) -> Any:
        """Adapt the basis to another layout; None if they have too little in common."""
        if layout is self.layout:
            return self.solver
        if not self.in_order:
            return None
        import highspy

        status = highspy.HighsBasisStatus
        columns = _transferred(self.solver.col_status, self.layout.columns, layout.columns)
        rows = _transferred(self.solver.row_status, self.layout.rows, layout.rows)
        if columns is None or rows is None:
            return None
        # A basis has as many basic columns and rows as there are rows.
        missing = len(rows) - columns.count(status.kBasic) - rows.count(status.kBasic)
        for k, known in enumerate(rows):  # HiGHS makes a new object of every status: no `is`
            if missing > 0 and known != status.kBasic:
                rows[k], missing = status.kBasic, missing - 1
            elif missing < 0 and known == status.kBasic:
                rows[k], missing = status.kLower, missing + 1
        if missing:
            return None
        basis = highspy.HighsBasis()
        basis.col_status, basis.row_status, basis.valid = columns, rows, True
        return basis


def _transferred(statuses: list[Any], old: Keys, new: Keys) -> list[Any] | None:
    """Return the statuses of shared keys; new ones are at their lower bounds."""
    import highspy

    if len(statuses) != len(old):
        return None
    known = dict(zip(old.tolist(), statuses, strict=True))
    lower = highspy.HighsBasisStatus.kLower
    return [known.get(key, lower) for key in new.tolist()]
