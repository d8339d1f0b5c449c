"""What windows contribute at most over boxes of their pixels and of the shift.

Of a window's function some terms are convex, the others are negated ReLUs; these are at most their
tangents through 0, whatever the slopes in [0, 1]. What remains is convex, so largest at a corner.
Where a pixel may be clipped or not, the pairs of it and its image have three corners, which move
linearly with the shift.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array, Index, Mask
from vhagar.relaxation.windows.kinds import Kind, Windows


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes `(count, pixels + 1)`; the last entry is the shift."""

    low: Array
    high: Array

    def __len__(self) -> int:
        return len(self.low)

    def take(self, rows: slice | Index) -> Boxes:
        return Boxes(self.low[rows], self.high[rows])


@dataclass(frozen=True, eq=False)
class Corners:
    """The corners of some boxes, and what they are multiplied with there.

    `which` boxes have the `terms` `(boxes, corners, 2 * units + 2 * pixels)`: convex terms with a
    positive coefficient, those with a negative one, pixels and their images. `open` marks neurons
    that have both signs in a copy.
    """

    which: Index
    terms: Array
    open: Mask


def corners(windows: Windows, kind: Kind, boxes: Boxes) -> Iterator[Corners]:
    """The corners of boxes; those with as many corners come together."""
    low, high = boxes.low[:, :-1], boxes.high[:, :-1]
    weak, strong = boxes.low[:, -1:], boxes.high[:, -1:]
    begins, all_clipped = windows.end - strong, windows.end - weak
    free, clipped = high <= begins, low >= all_clipped
    mixed = ~(free | clipped)
    # An end between the two would move with the shift.
    low = np.where(mixed, np.minimum(low, begins), low)
    high = np.where(mixed, np.maximum(high, all_clipped), high)
    patterns, number = np.unique(mixed, axis=0, return_inverse=True)
    for k, pattern in enumerate(patterns):
        own = np.flatnonzero(number.reshape(-1) == k)
        choice = np.array(list(itertools.product(*(range(2 + three) for three in pattern))))
        pairs = [
            _pairs(windows.end, low[own], high[own], e[own], free[own], clipped[own])
            for e in (weak, strong)
        ]
        place = np.arange(kind.width)
        x, x_p = (
            np.concatenate([pair[side][:, choice, place] for pair in pairs], axis=1)
            for side in (0, 1)
        )
        yield Corners(own, *_terms(kind, x, x_p))


def _pairs(
    end: float, low: Array, high: Array, e: Array, free: Mask, clipped: Mask
) -> tuple[Array, Array]:
    """Pixels and their images, each `(boxes, 3, pixels)`; the third only counts where mixed."""
    turn = np.where(free | clipped, low, end - e)
    x = np.stack([low, high, turn], axis=1)
    images = np.where(clipped, end, low + e), np.where(free, high + e, end)
    return x, np.stack([*images, np.full_like(turn, end)], axis=1)


def _terms(kind: Kind, x: Array, x_p: Array) -> tuple[Array, Mask]:
    s, t = (side @ kind.weight.T + kind.bias for side in (x, x_p))
    below_s, open_s = _tangents(s)
    below_t, open_t = _tangents(t)
    rising, falling = np.maximum(s, 0.0) - below_t, np.maximum(t, 0.0) - below_s
    return np.concatenate([rising, falling, x, x_p], axis=2), open_s | open_t


def _tangents(values: Array) -> tuple[Array, Mask]:
    """Lines through 0 below the ReLU, of the slope that errs least over a box."""
    low, high = values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True)
    both = (low < 0) & (high > 0)
    slope = np.where(both, high / np.where(both, high - low, 1.0), high > 0)
    return np.minimum(slope, 1.0) * values, both[:, 0]


def at_points(windows: Windows, kind: Kind, x: Array, e: Array) -> Array:
    """The terms of windows at inputs and shifts: differences of neurons, pixels and images."""
    x_p = np.minimum(x + e[:, None], windows.end)
    s, t = (side @ kind.weight.T + kind.bias for side in (x, x_p))
    return np.concatenate([np.maximum(s, 0.0) - np.maximum(t, 0.0), x, x_p], axis=1)
