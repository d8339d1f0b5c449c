"""The best confidence found so far, and which nodes it prunes."""

from __future__ import annotations

import math

from vhagar.options import Options
from vhagar.problem import Problem
from vhagar.relaxation import Bounds, network_bounds

# Of the largest score.
_RESOLUTION = 1e-12
# Share of a bound that is little of it. Where nothing is attacked, the signs of the last layer are
# decided by then, and hardly anything but cuts lowers the largest bounds.
# Measured: PERFORMANCE.md, "cuts of single copies".
_LITTLE = 0.04


class Incumbent:
    """What a worker knows of the bounds on the answer.

    `lower` is the best witness's confidence; `ceiling` bounds the confidence of any input.
    """

    def __init__(self, problem: Problem, options: Options) -> None:
        self.lower = 0.0
        self.ceiling = math.inf
        # Below this an LP cannot tell a bound from 0.
        scores = network_bounds(problem.network, Bounds.over(problem.domain))[-1]
        self._negligible = _RESOLUTION * float(scores.magnitude.max())
        self._relative_gap = options.relative_gap

    def update(self, lower: float, ceiling: float = math.inf) -> None:
        """Take bounds found elsewhere."""
        self.lower = max(self.lower, lower)
        self.ceiling = min(self.ceiling, ceiling)

    def settles(self, upper: float) -> bool:
        """Whether a node with that bound counts as closed."""
        upper = min(upper, self.ceiling)
        gap = max(self._relative_gap * upper, self._negligible)
        return upper - self.lower <= gap

    def is_near(self, upper: float) -> bool:
        """Whether little is left between the best confidence and a bound."""
        return math.isfinite(upper) and upper - self.lower <= _LITTLE * upper

    @property
    def cutoff(self) -> float:
        """Nodes with a bound below this are closed."""
        return self.lower / (1 - self._relative_gap)
