"""A check of models that a solver reports as infeasible.

    max v   subject to   score[source] - score[j] - least >= v      for every j != source, at x
                         score[target] - score[j] + room  >= v      for every j != target, at x_p
                         x_p a perturbation of x

Every input and its image is feasible here, because v may be as negative as the scores are large.
The original model is infeasible if v is always negative, and a bound on v, unlike a solver's
status, has the tolerances added. (HiGHS's presolve was seen to report a feasible LP as infeasible
when a column's bound exceeded what its row implied by a relative amount near the tolerance.)

If the room is larger than the tolerances, even a nonnegative bound on v is of use: the v of an
attackable input is at least the smaller of `confidence - least` and the room.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from vhagar.array_types import Array
from vhagar.search.mip.encoding import Encoding
from vhagar.solver.linear_model import Columns, LinearArrays

# Widening of the bounds of v: presolve has failed on bounds within a tolerance of what the rows
# imply.
_ROOMY = 1.25
# Room of the check, in multiples of the solver's outward correction.
_ROOM = 4.0


@dataclass(frozen=True, eq=False)
class InfeasibilityModel:
    """The model, the column of v, and the target's rows, to which `room` is still to be added."""

    arrays: LinearArrays
    v: int
    target_rows: Columns

    def room(self, outward: float) -> tuple[float, Array]:
        """The room, for a solver that moves its bounds by `outward`, and the rows' lower bounds."""
        if not len(self.target_rows):
            return np.inf, np.zeros(0)
        # On top of the room that the rows have already.
        return _ROOM * outward, self.arrays.row_lower[self.target_rows] - _ROOM * outward


def infeasibility_model(encoding: Encoding, least: float) -> InfeasibilityModel:
    """The model whose optimum says by how much a confidence of `least` is missed."""
    arrays, count = encoding.arrays, len(encoding.arrays.column_lower)
    rows = np.concatenate([encoding.source_rows, encoding.target_rows])
    lower, upper = arrays.column_lower.copy(), arrays.column_upper.copy()
    row_lower = arrays.row_lower.copy()
    # The bound `least` moves from the column delta to its rows.
    lower[encoding.delta] = upper[encoding.delta] = 0.0
    required = row_lower[encoding.source_rows] + least
    row_lower[encoding.source_rows] = np.nextafter(required, -np.inf)
    activity = abs(arrays.matrix)[rows] @ np.maximum(abs(lower), abs(upper))
    reach = _ROOMY * float((activity + abs(row_lower[rows])).max())
    entries = (np.full(len(rows), -1.0), (rows, np.zeros(len(rows), dtype=np.int64)))
    v = sparse.csr_array(entries, shape=(arrays.matrix.shape[0], 1))
    found = replace(
        arrays,
        column_lower=np.append(lower, -reach),
        column_upper=np.append(upper, reach),
        integer=np.append(arrays.integer, False),
        matrix=sparse.csr_array(sparse.hstack([arrays.matrix, v], format="csr")),
        row_lower=row_lower,
    )
    return InfeasibilityModel(found, count, encoding.target_rows)
