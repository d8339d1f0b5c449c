"""A quick estimate, from below, of the maximal confidence in the source class.

The search for the maximal confidence helps only while it may come below what is known otherwise. An
input that is more confident ends it before it begins.
"""

from __future__ import annotations

import numpy as np

from vhagar.array_types import Array
from vhagar.attack.sampling import STEP_RATIO, confidence_gradients
from vhagar.problem import Problem
from vhagar.relaxation import Bounds, largest_confidence
from vhagar.relaxation.rounding import forward_error, sure_confidences
from vhagar.result import BoundKind, Interval

# Random inputs, and gradient steps for each.
_STARTS, _STEPS = 16, 20
# For an interval that is shown beside an answer: hidden neurons, over all starts.
_MOST_UNITS = 2**15
# How far the starts reach from the low end of the box, the brightest first: all of it, and down to
# this part. Measured: on mnist_3x50_nd, whose neurons are mostly off at bright noise, confident
# inputs are found in seven classes instead of two, on other networks about the same.
_DIMMEST = 0.02


def confidence_within_reach(problem: Problem, seed: int) -> float:
    """The largest confidence in the source class among inputs found by a few steps uphill.

    It is computed as it comes: good for deciding what to do, not for a bound.
    """
    return uphill(problem, seed)[0]


def largest_within_reach(problem: Problem, seed: int) -> Interval:
    """An interval around the maximal confidence in the source class, in milliseconds.

    Below, an input that was found; above, interval arithmetic. Both ends are proven.
    """
    domain, network, label = problem.domain, problem.network, problem.source
    box = Bounds.over(domain)
    starts = min(max(_MOST_UNITS // max(network.hidden_neurons, 1), 1), _STARTS)
    _, x = uphill(problem, seed, starts)
    error = forward_error(network, box)
    (reached,) = sure_confidences(network.forward(x[None]), error, label)
    if not domain.contains(x[None])[0]:  # a few steps need not meet rows and whole numbers
        reached = 0.0
    largest = max(largest_confidence(network, box, label), 0.0)
    return Interval(max(float(reached), 0.0), largest, BoundKind.INTERVAL)


def uphill(problem: Problem, seed: int, starts: int = _STARTS) -> tuple[float, Array]:
    """The largest confidence that was found, and an input that has it."""
    domain = problem.domain
    rng = np.random.default_rng(seed)
    reach = np.geomspace(1.0, _DIMMEST, starts)[:, None]
    noise = rng.uniform(0.0, domain.high - domain.low, (starts, domain.size))
    x = domain.project(domain.low + reach * noise)
    best, found, step = -np.inf, x[0], 1.0
    for _ in range(_STEPS):
        confidence, gradient = confidence_gradients(problem.network, problem.source, x)
        row = int(confidence.argmax())
        if confidence[row] > best:
            best, found = float(confidence[row]), x[row]
        corner = domain.farthest(gradient)
        # Rounding must not lead out of the box.
        x = domain.project(x + step * (corner - x))
        step *= STEP_RATIO
    return best, found
