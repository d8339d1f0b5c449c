"""When linear programs are out of the question."""

from __future__ import annotations

from vhagar.problem import Problem

# With more hidden neurons, a linear program takes longer than it is worth.
MOST_LP_NEURONS = 4_000


def is_large(problem: Problem) -> bool:
    """Whether a problem is bounded by first-order steps instead of linear programs."""
    return problem.network.hidden_neurons > MOST_LP_NEURONS
