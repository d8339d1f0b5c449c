"""The primal heuristic: from an LP's input to the best input of its linear region.

The network's own forward pass at the input says which neurons are active in both copies. With all
of them decided the lambda-LP is exact: its optimum is the most confident attacked input of the
region. A small margin is asked for, so that float32 agrees.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from vhagar.search.bab.context import Context
from vhagar.search.bab.simplex import LpStatus, Simplex

Array = NDArray[np.float64]

# Margins to ask for, as parts of the largest score.
_MARGINS = (1e-6, 1e-5, 1e-4, 1e-3)
_MOST_ROUNDS = 4

# Judges an input and parameters; returns the confidence if it is a witness.
Judge = Callable[[Array, Array], float | None]


def polish(context: Context, x: Array, parameters: Array, judge: Judge) -> float:
    """Look for a witness near an input; returns the best confidence found, or 0.

    The context's piece must be convex: then all that is left to choose is in its LP.
    """
    best = 0.0
    for _ in range(_MOST_ROUNDS):
        found = _best_of_region(context, x, parameters, judge)
        if found is None:
            break
        confidence, x, parameters = found
        if confidence <= best * (1 + 1e-6):
            break
        best = confidence
    return best


def proposed(context: Context, primal: Array) -> tuple[Array, Array]:
    """The input of an LP solution, and parameters that go with it."""
    inputs, domain = context.model.inputs, context.problem.domain
    x = np.clip(inputs.x.value(primal), domain.lower, domain.upper)
    if inputs.parameters is not None:
        return x, context.piece.project(inputs.parameters.value(primal))
    assert inputs.x_p is not None  # one of the two is always there
    return x, context.piece.recover(x, inputs.x_p.value(primal))


def _best_of_region(
    context: Context, x: Array, parameters: Array, judge: Judge
) -> tuple[float, Array, Array] | None:
    piece, network = context.piece, context.problem.network
    x_p = piece.apply(x[None], parameters[None])
    first, scores = network.preactivations(x[None])
    second, _ = network.preactivations(x_p)
    simplex = context.polisher
    simplex.switch_off(_outside_region(context, first, second))
    size = max(float(abs(scores).max()), 1e-30)
    for margin in _MARGINS:
        answer = _solve_with_margin(context, simplex, margin * size)
        if answer is None:
            return None
        confidence = judge(*answer)
        if confidence is not None:
            return confidence, *answer
    return None


def _solve_with_margin(
    context: Context, simplex: Simplex, margin: float
) -> tuple[Array, Array] | None:
    rows = context.model.target_rows
    simplex.require_rows(rows, context.model.arrays.row_lower[rows] + margin)
    answer = simplex.solve()
    if answer.status is not LpStatus.OPTIMAL or answer.primal is None:
        return None
    return proposed(context, answer.primal)


def _outside_region(context: Context, first: list[Array], second: list[Array]) -> NDArray[np.int64]:
    """The lambda columns of corners on the other side of some neuron's sign."""
    weights = context.model.weights
    cut = np.zeros(len(weights.column), dtype=np.bool_)
    for values, copies in ((weights.s, first), (weights.t, second)):
        signs = np.concatenate([layer[0] > 0 for layer in copies] or [np.zeros(0, bool)])
        offsets = np.concatenate([[0], np.cumsum([layer.shape[1] for layer in copies])])
        active = signs[offsets[weights.layer] + weights.neuron]
        cut |= np.where(active, values < 0, values > 0)
    return np.sort(weights.column[cut])
