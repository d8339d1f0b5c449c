"""Multipliers of the pixels that windows share, by smoothed subgradient steps at sample points.

The sum of the windows' largest values is a bound for all multipliers, so how they are found does
not matter.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Index
from vhagar.relaxation.adam import Adam
from vhagar.relaxation.windows.boxes import at_points
from vhagar.relaxation.windows.kinds import Kind, Windows

Singles = NDArray[np.float32]

# Steps for a target. Measured: 100 steps of verivital_avgpool `brightness([0,0.1])` 2 to 3 reach
# 45.4 at the sample points; without multipliers it is 112.
_STEPS = 100
# The first step, and the temperatures of the first and of the last step: shares of what windows
# contribute on average without multipliers, at most and in absolute value.
_STEP, _WARM, _COLD = 0.3, 0.65, 0.02
# Parts of a pixel's range between sample points, besides the point where the clip begins.
_PARTS = 4


@dataclass(frozen=True, eq=False)
class Multipliers:
    """For each kind the multipliers `(windows, 2 * pixels)` of pixels and of their images.

    `values` are the largest values of each kind's windows at the sample points; `alone` is the sum
    of the largest absolute ones without any multipliers.
    """

    of: tuple[Array, ...]
    values: tuple[Array, ...]
    alone: float


def multipliers(
    windows: Windows, lead: Array, should_stop: Callable[[], bool] = lambda: False
) -> Multipliers:
    """Good multipliers for coefficients `lead` of all neurons, in numbers of float32."""
    problems = [_Samples(windows, kind, lead) for kind in windows.kinds]
    shared = _Shared([kind.pixels for kind in windows.kinds])
    now = [np.zeros((len(kind.numbers), 2 * kind.width), np.float32) for kind in windows.kinds]
    alone = sum(problem.largest_alone() for problem in problems)
    values = [problem.largest(own) for problem, own in zip(problems, now, strict=True)]
    each = alone / windows.count
    best, least = now, values
    adam = Adam()
    for step in range(_STEPS if each > 0 else 0):
        if should_stop():
            break
        part = step / _STEPS
        heat = each * _WARM * (_COLD / _WARM) ** part
        found = [problem.step(own, heat) for problem, own in zip(problems, now, strict=True)]
        values = [value for value, _ in found]
        if sum(map(np.sum, values)) < sum(map(np.sum, least)):
            best, least = now, values
        ascent = adam.direction(shared.balanced([gradient for _, gradient in found]))
        now = shared.moved(now, each * _STEP * (1 - 0.9 * part) * np.asarray(ascent))
    of = tuple(own.astype(np.float64) for own in best)
    return Multipliers(of, tuple(np.asarray(own, dtype=np.float64) for own in least), alone)


class _Samples:
    """The windows of a kind at sample points."""

    def __init__(self, windows: Windows, kind: Kind, lead: Array) -> None:
        turn = windows.end - windows.most
        axes = []
        for low, high in zip(kind.low, kind.high, strict=True):
            places = np.linspace(low, high, _PARTS + 1)
            axes.append(np.unique([*places, turn] if low < turn < high else places))
        x = np.array(list(itertools.product(*axes)))
        terms = at_points(windows, kind, x, np.full(len(x), windows.most))
        self._width = 2 * kind.width
        self._terms = terms.astype(np.float32)
        self._lead = lead[kind.units].astype(np.float32)

    def _at_points(self, multipliers: Singles) -> Singles:
        return np.asarray(np.concatenate([self._lead, -multipliers], axis=1) @ self._terms.T)

    def largest_alone(self) -> float:
        none = np.zeros((len(self._lead), self._width), np.float32)
        return float(abs(self._at_points(none)).max(axis=1).sum())

    def largest(self, multipliers: Singles) -> Singles:
        return np.asarray(self._at_points(multipliers).max(axis=1))

    def step(self, multipliers: Singles, heat: float) -> tuple[Singles, Singles]:
        """The largest values, and the smoothed gradient of their sum."""
        values = self._at_points(multipliers)
        largest = values.max(axis=1)
        values -= largest[:, None]
        values /= np.float32(heat)
        np.exp(values, out=values)
        values /= values.sum(axis=1, keepdims=True)
        return largest, -(values @ self._terms[:, -self._width :])


class _Shared:
    """Which multipliers belong to the same pixel: theirs add up to 0."""

    def __init__(self, pixels: list[Index]) -> None:
        size = 1 + max(int(own.max()) for own in pixels)
        self._at = np.concatenate([np.concatenate([own, own + size], 1).ravel() for own in pixels])
        self._count = np.bincount(self._at, minlength=2 * size)

    def balanced(self, parts: list[Any]) -> Array:
        """Gradients in one row, without what would change the sums."""
        row = np.concatenate([part.ravel() for part in parts]).astype(np.float64)
        mean = np.bincount(self._at, row, len(self._count)) / np.maximum(self._count, 1)
        return np.asarray(row - mean[self._at])

    def moved(self, before: list[Singles], step: Array) -> list[Singles]:
        row = self.balanced([np.concatenate([part.ravel() for part in before]) - step])
        ends = np.cumsum([part.size for part in before])[:-1]
        parts = zip(np.split(row, ends), before, strict=True)
        return [own.reshape(part.shape).astype(np.float32) for own, part in parts]
