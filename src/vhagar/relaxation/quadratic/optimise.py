"""Find good multipliers: start where the ascent ends, scale its layers, and take Adam's steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.relaxation.adam import Adam
from vhagar.relaxation.quadratic.ascent import Ascent
from vhagar.relaxation.quadratic.differences import Differences
from vhagar.relaxation.quadratic.dual import DualEvaluation, Multipliers, evaluate
from vhagar.relaxation.quadratic.layer_scales import HALVINGS, with_scaled_layers

# Shares of a layer's mean, each tried, that are added to the ascent's value of a pair or an input.
_SMOOTHING = (0.1, 0.3, 1.0, 3.0)
# Lower layers' multipliers grow by powers of this until the matrix is positive definite.
_GROWTH, _MOST_GROWTHS = 1.2, 80
# A step may make the bound worse by this factor; one that makes it still worse is halved.
_WORSE = 1.1
# The decay rates of Adam's means: short ones, because a step that the matrix does not allow is
# followed by others from somewhere else. Measured: PERFORMANCE.md, "steps for quadratic bounds".
_MOMENTUM, _MEMORY = 0.5, 0.8
# Random vectors for the gradient of the determinant.
_PROBES = 4


@dataclass(frozen=True)
class Schedule:
    """The number of steps on the logarithms, and their lengths and barriers, first and last.

    The barrier is the logarithm of the matrix's determinant, weighted by a share of the bound per
    pair. Without it, the steps soon end at the boundary, where the matrix is singular.
    """

    steps: int
    lengths: tuple[float, float]
    barriers: tuple[float, float]

    def at(self, step: int) -> tuple[float, float]:
        """The length and the barrier's share at a step."""
        done = (step + 1) / self.steps
        return _between(*self.lengths, done), _between(*self.barriers, done)


def _between(first: float, last: float, done: float) -> float:
    """Interpolate geometrically from the first number to the last."""
    return float(first * (last / first) ** done)


def starting_multipliers(
    known: Differences, ascent: Ascent, should_stop: Callable[[], bool] = lambda: False
) -> Multipliers | None:
    """Multipliers for which complementarity nearly holds at the ascent's end.

    There `T_i = |derivative by w_i| / |s_i|` and `D_k = |derivative by u_k| / (2 radius_k)`. They
    are smoothed, by the best of several amounts, and then the layers are scaled. None where no such
    matrix is positive definite. Once it is to stop, the first one that is found will do.
    """
    found: list[tuple[Multipliers, float]] = []
    for share in _SMOOTHING:
        if found and should_stop():
            break
        start = _start(known, ascent, share)
        found += [] if start is None else [start]
    best = min(found, key=lambda start: start[1], default=(None, 0.0))[0]
    return None if best is None else with_scaled_layers(known, best, should_stop)


def _start(known: Differences, ascent: Ascent, share: float) -> tuple[Multipliers, float] | None:
    """Smoothed multipliers and their bound."""
    layers = known.layers
    weights = _smoothed(ascent.weights, layers, share) / _smoothed(ascent.changes, layers, share)
    inputs = np.zeros(len(known.inputs), dtype=np.int64)
    box = _smoothed(ascent.slopes, inputs, share) / (2 * np.maximum(known.radius, 1e-100))
    depth = layers.max(initial=0) + 1 - layers
    growth = np.ones(1)
    for _ in range(_MOST_GROWTHS):
        found = Multipliers(weights * growth ** (depth - 1), box * growth ** (depth.max(initial=1)))
        evaluation = evaluate(known, found)
        if evaluation is not None:
            return found, evaluation.value
        growth = growth * _GROWTH
    return None


def _smoothed(values: Array, layers: NDArray[np.int64], share: float) -> Array:
    """Absolute values, each plus a share of its layer's mean; never 0."""
    found = abs(values)
    for layer in np.unique(layers):
        own = layers == layer
        mean = float(found[own].mean())
        found[own] += share * mean if mean > 0 else 1.0
    return found


def improve(
    known: Differences,
    start: Multipliers,
    schedule: Schedule,
    should_stop: Callable[[], bool] = lambda: False,
) -> tuple[Multipliers, DualEvaluation] | None:
    """Improve the multipliers and return the best found; None if the start gives no bound.

    The steps end once the bound is at most 0.
    """
    pairs = len(known.places)
    if not pairs:
        start, schedule = _without_pairs(known), replace(schedule, steps=0)
    random = np.random.default_rng(pairs)

    def tried(multipliers: Multipliers) -> DualEvaluation | None:
        probes = random.choice([-1.0, 1.0], (pairs, _PROBES))
        return evaluate(known, multipliers, probes)

    found = tried(start)
    if found is None:
        return None
    best = current = (start, found)
    adam = Adam(_MOMENTUM, _MEMORY)
    for step in range(schedule.steps):
        if best[1].value <= 0 or should_stop():
            break
        length, share = schedule.at(step)
        barrier = share * abs(best[1].value) / max(1, pairs)
        move = length * adam.direction(_gradient(*current, barrier))
        for _ in range(HALVINGS):
            multipliers = _moved(current[0], move)
            evaluation = tried(multipliers)
            if evaluation is not None and _is_acceptable(evaluation.value, current[1].value):
                current = (multipliers, evaluation)
                break
            move = move / 2
            adam.slow_down()
        if current[1].value < best[1].value:
            best = current
    return best


def _without_pairs(known: Differences) -> Multipliers:
    """The best multipliers where the lead's change depends on the inputs alone."""
    box = abs(known.lead_on_inputs) / (2 * np.maximum(known.radius, 1e-100))
    least = 1e-12 * box.max(initial=0.0) + 1e-50
    return Multipliers(np.zeros(0), np.maximum(box, least))


def _is_acceptable(value: float, before: float) -> bool:
    return value < before + (_WORSE - 1) * abs(before)


def _moved(multipliers: Multipliers, move: Array) -> Multipliers:
    """The multipliers after a descent step on their logarithms."""
    pairs = len(multipliers.slopes)
    factors = np.exp(-move)
    return Multipliers(multipliers.slopes * factors[:pairs], multipliers.box * factors[pairs:])


def _gradient(multipliers: Multipliers, found: DualEvaluation, barrier: float) -> Array:
    """The gradient of the bound minus the barrier, by the logarithms of the multipliers."""
    return np.concatenate(
        [
            multipliers.slopes * (found.slope_facts - barrier * found.probed_slopes),
            multipliers.box * (found.box_facts - barrier * found.probed_box),
        ]
    )
