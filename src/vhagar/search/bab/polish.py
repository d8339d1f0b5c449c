"""The primal heuristic: from an LP's input to the best input of its linear region.

The network's own forward pass at the input says which neurons are active in both copies. With all
of them decided the lambda-LP is exact: its optimum is the most confident attacked input of the region.
A small margin is asked for, so that float32 agrees.
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


def polish(context: Context, primal: Array, judge: Judge) -> float:
    """Look for a witness near an LP solution; returns the best confidence found, or 0."""
    x, x_p = _pair(context, primal)
    best = 0.0
    for _ in range(_MOST_ROUNDS):
        found = _best_of_region(context, x, x_p, judge)
        if found is None:
            break
        confidence, x, x_p = found
        if confidence <= best * (1 + 1e-6):
            break
        best = confidence
    return best


def _pair(context: Context, primal: Array) -> tuple[Array, Array]:
    inputs = context.model.inputs
    columns = primal[inputs.columns]
    domain = context.problem.domain
    x = np.clip(inputs.x_matrix @ columns + inputs.x_offset, domain.lower, domain.upper)
    return x, inputs.x_p_matrix @ columns + inputs.x_p_offset


def _best_of_region(
    context: Context, x: Array, x_p: Array, judge: Judge
) -> tuple[float, Array, Array] | None:
    piece, network = context.piece, context.problem.network
    parameters = piece.recover(x, x_p)
    x_p = piece.apply(x[None], parameters[None])[0]
    first, scores = network.preactivations(x[None])
    second, _ = network.preactivations(x_p[None])
    simplex = context.polisher
    simplex.switch_off(_outside_region(context, first, second))
    size = max(float(abs(scores).max()), 1e-30)
    for margin in _MARGINS:
        answer = _solve_with_margin(context, simplex, margin * size)
        if answer is None:
            return None
        confidence = judge(answer[0], piece.recover(*answer))
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
    return _pair(context, answer.primal)


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
