"""Tighter hexagons by LP: each bound of a neuron, over the inputs that can still matter.

Only attacked inputs more confident than the best witness are of interest, so the class constraints
and the incumbent take part: the bounds hold for those inputs, not for all. As everywhere, the LP
proposes multipliers and the twin dual formula decides.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from vhagar.relaxation.hexagon import Hexagons
from vhagar.search.bab.context import Context
from vhagar.search.bab.simplex import LpStatus, Simplex

Array = NDArray[np.float64]


def tighten_layer(context: Context, layer: int, confidence: float, deadline: float) -> Hexagons:
    """The hexagons of one layer, each bound improved where an LP can."""
    bounds = context.bounds
    hexagons = bounds.hexagons[layer]
    simplex = Simplex(context.model.arrays, context.model.delta)
    largest = float(context.model.arrays.column_upper[context.model.delta])
    simplex.bound_column(context.model.delta, confidence, largest)
    ratio = hexagons.ratio
    found = {
        (-1.0, 0.0): -hexagons.lower,
        (1.0, 0.0): hexagons.upper.copy(),
        (0.0, -1.0): -hexagons.lower_p,
        (0.0, 1.0): hexagons.upper_p.copy(),
        (ratio, -1.0): -hexagons.gap_lower,
        (-ratio, 1.0): hexagons.gap_upper.copy(),
    }
    undecided = np.flatnonzero(~hexagons.on & ~hexagons.off)
    for direction, values in found.items():
        for neuron in undecided.tolist():
            if time.monotonic() > deadline:
                break
            if hexagons.equal[neuron] and direction[1] != 0.0:
                continue
            values[neuron] = min(
                values[neuron], _largest(context, simplex, layer, neuron, direction, confidence)
            )
    equal = hexagons.equal
    low, high, low_p, high_p, gap_low, gap_high = found.values()
    return Hexagons(
        -low,
        high,
        np.where(equal, -low, -low_p),
        np.where(equal, high, high_p),
        np.where(equal, 0.0, -gap_low),
        np.where(equal, 0.0, gap_high),
        ratio,
        hexagons.linear,
    ).tightened()


def _largest(
    context: Context,
    simplex: Simplex,
    layer: int,
    neuron: int,
    direction: tuple[float, float],
    confidence: float,
) -> float:
    first, second = context.model.entering[layer]
    cost = np.zeros(len(context.model.arrays.column_lower))
    for weight, expression in zip(direction, (first, second), strict=True):
        row = expression.matrix[[neuron]]
        cost[row.indices] += weight * row.data
    simplex.aim(cost)
    answer = simplex.solve(need_primal=False)
    if answer.status is not LpStatus.OPTIMAL:
        return np.inf
    unit = np.zeros(len(context.bounds.hexagons[layer]))
    unit[neuron] = 1.0
    return context.formula.neuron(
        answer.duals, layer, direction[0] * unit, direction[1] * unit, confidence
    )
