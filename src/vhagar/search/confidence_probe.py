"""How confident the source class can be at least, found in no time.

The search for the largest confidence helps only while it may come below what is known otherwise. An
input that is more confident ends it before it begins.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vhagar.network import AbstractLinear, Relu
from vhagar.problem import Problem

Array = NDArray[np.float64]

# Random inputs, and gradient steps for each.
_STARTS, _STEPS = 16, 20
# Ratio of each step to the one before; the first goes all the way to the best corner of the box.
_DECAY = 0.7


def confidence_within_reach(problem: Problem, seed: int) -> float:
    """The largest confidence in the source class among inputs found by a few steps uphill.

    It is computed as it comes: good for deciding what to do, not for a bound.
    """
    domain = problem.domain
    rng = np.random.default_rng(seed)
    x = rng.uniform(domain.lower, domain.upper, (_STARTS, domain.size))
    best, step = -np.inf, 1.0
    for _ in range(_STEPS):
        confidence, slope = _confidence(problem, x)
        best = max(best, float(confidence.max()))
        corner = np.where(slope > 0, domain.upper, domain.lower)
        x, step = x + step * (corner - x), step * _DECAY
    return best


def _confidence(problem: Problem, x: Array) -> tuple[Array, Array]:
    """The confidence of each input `(batch, size)`, and its gradient."""
    network, every = problem.network, np.arange(len(x))
    entering, scores = network.preactivations(x)
    others = scores.copy()
    others[:, problem.source] = -np.inf
    rival = others.argmax(axis=1)
    slope = np.zeros_like(scores)
    slope[:, problem.source] = 1.0
    slope[every, rival] = -1.0
    for layer in reversed(network.layers):
        if isinstance(layer, AbstractLinear):
            slope = layer.pull(slope)
        elif isinstance(layer, Relu):
            active = entering.pop() > 0
            slope = slope * (active if layer.linear is None else active | layer.linear)
    with np.errstate(invalid="ignore"):  # scores beyond float64 have no difference: NaN
        return scores[:, problem.source] - scores[every, rival], slope
