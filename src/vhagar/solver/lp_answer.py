"""What a simplex method answers about a linear program."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from vhagar.array_types import Array


class LpStatus(Enum):
    """The simplex method's status. No bound relies on it."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    ENOUGH = "stopped where the objective was known to be small enough"
    LIMIT = "stopped at a limit of iterations or time"
    DOUBTFUL = "in numerical trouble"


@dataclass(frozen=True, eq=False)
class LpAnswer:
    """`duals` belong to an optimal or nearly optimal basis, or are a ray that shows infeasibility.

    The sign is such that `cost - matrix' duals` are the reduced costs of the maximisation. A
    `primal` or `duals` with an entry that is not finite is replaced by None. `iterations` measure
    the work; those of an interior point method count for many.
    """

    status: LpStatus
    duals: Array | None
    primal: Array | None
    objective: float
    iterations: int

    def __post_init__(self) -> None:
        for name in ("primal", "duals"):
            values = getattr(self, name)
            if values is not None and not np.isfinite(values).all():
                object.__setattr__(self, name, None)

    @property
    def optimal(self) -> bool:
        """Whether there is a solution with its multipliers."""
        found = self.primal is not None and self.duals is not None
        return found and self.status is LpStatus.OPTIMAL
