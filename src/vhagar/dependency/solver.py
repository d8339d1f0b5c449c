"""What a MIP backend must be able to do for a question, and HiGHS as the one that is there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vhagar.solver.linear_model import LinearArrays

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Watch:
    """Who listens to a solver while it works, and how long it may."""

    time_limit: float
    seed: int
    on_bound: Callable[[float], None]  # an upper bound, tolerances added
    on_solution: Callable[[Array], None]
    should_stop: Callable[[], bool]


class Maximiser(Protocol):
    """Maximises one column of one model."""

    @property
    def outward(self) -> float:
        """How much its bounds were moved outward, for its tolerances."""

    def maximise(self, watch: Watch) -> float:
        """An upper bound on the maximum, tolerances added.

        Infinite where nothing is known, minus infinity where there is no feasible point.
        """


# Takes a model and the index of the column to maximise.
Backend = Callable[[LinearArrays, int], Maximiser]


class _HighsMaximiser:
    def __init__(self, arrays: LinearArrays, objective: int) -> None:
        from vhagar.solver.backends.highs import HighsModel

        self._model = HighsModel(arrays, objective)

    @property
    def outward(self) -> float:
        return self._model.outward

    def maximise(self, watch: Watch) -> float:
        from vhagar.solver.backends import SolveStatus

        solved = self._model.solve(
            time_limit=watch.time_limit,
            seed=watch.seed,
            on_bound=watch.on_bound,
            on_solution=watch.on_solution,
            should_stop=watch.should_stop,
        )
        if solved.solution is not None:
            watch.on_solution(solved.solution)
        return -math.inf if solved.status is SolveStatus.INFEASIBLE else solved.bound


def highs(arrays: LinearArrays, objective: int) -> Maximiser:
    """The backend that is always installed."""
    return _HighsMaximiser(arrays, objective)
