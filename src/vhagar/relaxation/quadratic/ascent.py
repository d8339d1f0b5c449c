"""Search for a large difference of the copies with all slopes free: a limit for bounds by slopes.

For given slopes, the best change of the input is at a corner of its box; for a given change, the
best slopes are 0 or 1, layer by layer. Alternating between the two never decreases the difference.
Where the input stands for its change, no change at all is a corner, too, and slopes that are alike
may lead there, and never away: so every other ascent starts at a random corner of the box. After
these, ascents start near the best one, with some of its slopes changed.
The result is not a pair of inputs, but no bound by slopes alone can be smaller, and the multipliers
of a good bound can be read off from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array
from vhagar.relaxation.quadratic.differences import Differences

# Starts of the ascent, and the most rounds of each.
_STARTS, _ROUNDS = 12, 60
# Ascents near the best one, at most, and the share of the slopes that change.
# Measured: conv1 `linf(0.05)` 2 to 3 reaches 7.4725 with two seeds of two, by 23 and 60 ascents;
# 2,000 other random starts end at 7.4715, and 12 at 7.06.
_NEARBY, _CHANGED = 100, 0.1
# Time for the ascents near the best one: the most that their number may be, times the rows, times
# the columns of the differences.
_NEARBY_WORK = 20_000_000


@dataclass(frozen=True, eq=False)
class Ascent:
    """The largest difference found, with the pairs' changes and the derivatives there.

    `changes` are the differences of the pairs' pre-activations; `weights` are the derivatives of
    the lead by the pairs' outputs, `slopes` those by the inputs.
    """

    value: float
    changes: Array
    weights: Array
    slopes: Array


class _Layers:
    """The differences, layer by layer."""

    def __init__(self, known: Differences) -> None:
        self.known = known
        layers = known.layers
        self.parts = [np.flatnonzero(layers == layer) for layer in np.unique(layers)]

    def best_slopes(self, theta: Array, changes: Array) -> None:
        """Set each slope to 0 or 1, whichever is better, from the last layer to the first."""
        weights = self.known.lead_on_pairs.copy()
        for part in reversed(self.parts):
            theta[part] = weights[part] * changes[part] > 0
            weights += (theta[part] * weights[part]) @ self.known.on_pairs[part]

    def backward(self, theta: Array) -> tuple[Array, Array]:
        """The derivatives of the lead by the pairs' outputs, and by the inputs."""
        weights = self.known.lead_on_pairs.copy()
        for part in reversed(self.parts):
            weights += (theta[part] * weights[part]) @ self.known.on_pairs[part]
        return weights, self.known.lead_on_inputs + (theta * weights) @ self.known.on_inputs

    def forward(self, theta: Array, change: Array) -> Array:
        """The differences of the pre-activations."""
        found = self.known.on_inputs @ change
        left = np.zeros(len(found))
        for part in self.parts:
            found[part] += self.known.on_pairs[part] @ left
            left[part] = theta[part] * found[part]
        return found


def ascend(known: Differences, should_stop: Callable[[], bool] = lambda: False) -> Ascent:
    """The best of several ascents; the first one starts from slopes of one half, the last ones from
    the best one's slopes with a few of them changed.

    Once it is to stop, what was found so far will do.
    """
    random = np.random.default_rng(0)
    layers = _Layers(known)
    best = _ascend(layers, np.full(len(known.places), 0.5), should_stop)
    if not known.places:  # the first one has reached the maximum of a linear function
        return best
    for k in range(_STARTS - 1):
        if should_stop():
            return best
        theta = random.random(len(known.places))
        if k % 2:
            ends = random.random(len(known.radius)) < 0.5
            change = known.middle + np.where(ends, known.radius, -known.radius)
            layers.best_slopes(theta, layers.forward(theta, change))
        best = max(best, _ascend(layers, theta, should_stop), key=_value)
    for _ in range(min(_NEARBY, _NEARBY_WORK // known.rows.size)):
        if should_stop():
            return best
        theta = (best.weights * best.changes > 0).astype(np.float64)
        changed = random.random(len(theta)) < _CHANGED
        theta[changed] = 1.0 - theta[changed]
        best = max(best, _ascend(layers, theta, should_stop), key=_value)
    return best


def _value(found: Ascent) -> float:
    return found.value


def _ascend(layers: _Layers, theta: Array, should_stop: Callable[[], bool]) -> Ascent:
    known, best = layers.known, -np.inf
    for _ in range(_ROUNDS):
        _, slopes = layers.backward(theta)
        change = known.middle + np.where(slopes > 0, known.radius, -known.radius)
        changes = layers.forward(theta, change)
        layers.best_slopes(theta, changes)
        weights, slopes = layers.backward(theta)
        value = float(slopes @ change)
        if not value > best + 1e-9 * abs(value) or should_stop():
            break
        best = value
    return Ascent(value, layers.forward(theta, change), weights, slopes)
