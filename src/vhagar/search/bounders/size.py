"""How large a problem is: too large for linear programs, or too small for other processes."""

from __future__ import annotations

from vhagar.problem import Problem

# With more hidden neurons, a linear program takes longer than it is worth.
MOST_LP_NEURONS = 4_000
# Problems with no more hidden neurons, and no more of these times pixels, begin in this process.
_SMALL_NEURONS, _SMALL_PRODUCT = 150, 60_000


def is_large(problem: Problem) -> bool:
    """Whether a problem is bounded by first-order steps instead of linear programs."""
    return problem.network.hidden_neurons > MOST_LP_NEURONS


def is_small(problem: Problem) -> bool:
    """Whether much can be done before another process has started."""
    neurons = problem.network.hidden_neurons
    return neurons <= _SMALL_NEURONS and neurons * problem.domain.size <= _SMALL_PRODUCT
