"""Scale the multipliers of whole layers until the bound hardly decreases any more.

The multipliers that an ascent suggests for single pairs are right up to a factor for each layer.
These factors can be far off, and steps on single multipliers take long to correct them. There are
only as many factors as layers, so a quasi-Newton method (BFGS; J. Nocedal and S. Wright, "Numerical
Optimization", 2006, chapter 6) finds them in a dozen evaluations.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vhagar.array_types import Array
from vhagar.relaxation.quadratic.differences import Differences
from vhagar.relaxation.quadratic.dual import Multipliers, evaluate

# Most steps, and most halvings of one step.
_STEPS, HALVINGS = 30, 12
# A step that gains less than this share of the bound is the last. Measured: with a tenth of it,
# steps on single multipliers start near singular matrices and get less far on mnistfc_256x4 (7,522
# instead of 6,541 after 40 steps); with five times as much, layers are still off (7,909).
_LITTLE = 0.01
# The longest step, on the logarithms, and the share of the predicted decrease that is enough.
_LONGEST, _ENOUGH = 1.0, 1e-4


def with_scaled_layers(
    known: Differences,
    start: Multipliers,
    should_stop: Callable[[], bool] = lambda: False,
) -> Multipliers:
    """Scale the multipliers by one factor for each layer and one for the inputs.

    The bound never gets worse. The matrix of the start must be positive definite.
    """
    scales = _Scales(known, start)
    point = np.zeros(scales.count)
    found = scales.at(point)
    if found is None:
        return start
    value, slope = found
    inverse = np.eye(scales.count) / max(abs(value), 1e-300)
    for _ in range(_STEPS):
        step = _shortened(-inverse @ slope)
        reached = None if should_stop() else _lower(scales, point, value, slope, step)
        if reached is None:
            break
        moved, new_value, new_slope = reached
        inverse = _updated(inverse, moved - point, new_slope - slope)
        gain, point, value, slope = value - new_value, moved, new_value, new_slope
        if gain < _LITTLE * abs(value):
            break
    return scales.multipliers(point)


class _Scales:
    """The bound as a function of the logarithms of the factors."""

    def __init__(self, known: Differences, start: Multipliers) -> None:
        self._known, self._pairs = known, len(start.slopes)
        layers, pair_layers = np.unique(known.layers, return_inverse=True)
        self.count = len(layers) + 1
        inputs = np.full(len(start.box), len(layers))
        self._group = np.concatenate([pair_layers.astype(np.int64), inputs])
        self._start = np.concatenate([start.slopes, start.box])

    def multipliers(self, point: Array) -> Multipliers:
        scaled = self._start * np.exp(point)[self._group]
        return Multipliers(scaled[: self._pairs], scaled[self._pairs :])

    def at(self, point: Array) -> tuple[float, Array] | None:
        """The bound and its gradient; None where there is no bound."""
        multipliers = self.multipliers(point)
        found = evaluate(self._known, multipliers)
        if found is None:
            return None
        by_logarithm = np.concatenate(
            [multipliers.slopes * found.slope_facts, multipliers.box * found.box_facts]
        )
        slope: Array = np.bincount(self._group, by_logarithm, self.count).astype(np.float64)
        return (found.value, slope) if np.isfinite(slope).all() else None


def _shortened(step: Array) -> Array:
    longest = float(abs(step).max())
    return step * (_LONGEST / longest) if longest > _LONGEST else step


def _lower(
    scales: _Scales, point: Array, value: float, slope: Array, step: Array
) -> tuple[Array, float, Array] | None:
    """Halve the step until the bound is lower; that point, its bound and its gradient."""
    promised = float(slope @ step)
    for _ in range(HALVINGS):
        found = scales.at(point + step)
        if found is not None and found[0] < value and found[0] <= value + _ENOUGH * promised:
            return point + step, *found
        step, promised = step / 2, promised / 2
    return None


def _updated(inverse: Array, step: Array, change: Array) -> Array:
    """The inverse Hessian's estimate, updated by the change of the gradient along a step."""
    curvature = float(step @ change)
    if not curvature > 0:
        return inverse
    along = np.eye(len(step)) - np.outer(step, change) / curvature
    found: Array = along @ inverse @ along.T + np.outer(step, step) / curvature
    return found if np.isfinite(found).all() else inverse
