"""Bound the windows of a kind over all of their pixels, by boxes that are halved.

One tree of boxes serves all windows; a window leaves it where a box proves its limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array, Index, Mask
from vhagar.relaxation.windows.boxes import Boxes, Corners, at_points, corners
from vhagar.relaxation.windows.kinds import Kind, Windows

# Ends a branch of a tree; other codes are entries.
LEAF = 255
# Boxes that are bounded at once, and numbers at all of their corners together.
_BATCH, _MOST_NUMBERS = 256, 2**22
# Part of a box's width that counts even where no neuron is open.
_LITTLE = 1e-3


def begun_at_most(boxes: int) -> int:
    """How many boxes a tree may have before its open ones are left, to have so many in the end.

    The batch in which it gets there is finished, and each box so far may leave two halves. A batch
    is part of a level, which has at most one box more than all levels before it together.
    """
    return max((boxes - 1) // 2 - _BATCH, (boxes - 3) // 4)


@dataclass(frozen=True, eq=False)
class Functions:
    """What is bounded for each window of a kind: the neurons' coefficients, less multipliers."""

    lead: Array
    multipliers: Array

    @property
    def at_corners(self) -> Array:
        """The coefficients of the terms of `Corners`."""
        parts = np.maximum(self.lead, 0.0), np.maximum(-self.lead, 0.0), -self.multipliers
        return np.concatenate(parts, axis=1)

    @property
    def at_points(self) -> Array:
        return np.concatenate([self.lead, -self.multipliers], axis=1)


@dataclass(frozen=True, eq=False)
class Halved:
    """A tree of boxes, level by level: what is halved (the shift comes last), or `LEAF`.

    A window leaves it where it is within its limit; `proven` is what it then proves for each, up to
    rounding. With limits that were raised meanwhile it would prove less.
    """

    code: bytes
    limits: Array
    proven: Array


class Halving:
    """Grows the tree of a kind until all windows are within their limits.

    A limit below the truth is raised by `slack` above it when that is seen.
    """

    def __init__(self, windows: Windows, kind: Kind, functions: Functions, slack: float) -> None:
        self._windows, self._kind, self._slack = windows, kind, slack
        self._at_corners, self._at_points = functions.at_corners, functions.at_points
        self._code = bytearray()
        corners = 2 * 3**kind.width  # at most, of each box
        numbers = corners * self._at_corners.shape[1]
        self._batch = max(1, min(_BATCH, _MOST_NUMBERS // numbers))

    def grow(
        self, limits: Array, most_boxes: int, should_stop: Callable[[], bool] = lambda: False
    ) -> Halved:
        """The tree, with at most about so many boxes."""
        kind, windows = self._kind, self._windows
        self._limits = limits.copy()
        self._proven = np.full(len(limits), -np.inf)
        low, high = np.append(kind.low, windows.least), np.append(kind.high, windows.most)
        level = [_Open(low, high, np.arange(len(limits)), np.full(len(limits), np.inf))]
        while level:
            following: list[_Open] = []
            for begin in range(0, len(level), self._batch):
                some = level[begin : begin + self._batch]
                if len(self._code) > most_boxes or (self._code and should_stop()):
                    self._leave(some)
                else:
                    following += self._halved(some)
            if following:
                self._raise_limits(following)
            level = following
        return Halved(bytes(self._code), limits, self._proven)

    def _leave(self, boxes: list[_Open]) -> None:
        for box in boxes:
            self._code.append(LEAF)
            self._prove(box.windows, box.upper)

    def _prove(self, windows: Index, upper: Array) -> None:
        self._proven[windows] = np.maximum(self._proven[windows], upper)

    def _halved(self, level: list[_Open]) -> list[_Open]:
        boxes = Boxes(np.array([box.low for box in level]), np.array([box.high for box in level]))
        choices: list[tuple[int, Index, Array]] = [(LEAF, _NONE, _NOTHING)] * len(level)
        for found in corners(self._windows, self._kind, boxes):
            for k, number in enumerate(found.which.tolist()):
                choices[number] = self._bounded(level[number], found, k)
        following = []
        for box, (entry, left, upper) in zip(level, choices, strict=True):
            self._code.append(entry)
            if entry != LEAF:
                following += box.halves(entry, self._windows.end, left, upper)
        return following

    def _bounded(self, box: _Open, found: Corners, k: int) -> tuple[int, Index, Array]:
        """What is halved in a box, and for which windows, with their bounds."""
        values = self._at_corners[box.windows] @ found.terms[k].T
        upper = np.minimum(values.max(axis=1), box.upper)
        over = upper > self._limits[box.windows]
        self._prove(box.windows[~over], upper[~over])
        if not over.any():
            return LEAF, _NONE, _NOTHING
        left, upper = box.windows[over], upper[over]
        entry = self._widest(box, found.open[k])
        if box.middle(entry, self._windows.end) is None:
            self._prove(left, upper)
            return LEAF, _NONE, _NOTHING
        return entry, left, upper

    def _widest(self, box: _Open, is_open: Mask) -> int:
        """The entry along which open neurons change the most."""
        own = abs(self._kind.weight[is_open]).sum(axis=0)
        by_shift = abs(self._kind.weight[is_open].sum(axis=1)).sum()
        weight = np.append(own, by_shift) + _LITTLE * abs(self._kind.weight).max(initial=0.0)
        return int((weight * (box.high - box.low)).argmax())

    def _raise_limits(self, level: list[_Open]) -> None:
        """Windows reach at least their values at the centres of boxes, with the largest shift."""
        low, high = np.array([box.low for box in level]), np.array([box.high for box in level])
        x = (low[:, :-1] + high[:, :-1]) / 2
        terms = at_points(self._windows, self._kind, x, high[:, -1])
        for begin in range(0, len(x), _BATCH):
            reached = (self._at_points @ terms[begin : begin + _BATCH].T).max(axis=1)
            self._limits = np.maximum(self._limits, reached + self._slack)


_NONE, _NOTHING = np.zeros(0, dtype=np.int64), np.zeros(0)


@dataclass(frozen=True, eq=False)
class _Open:
    """A box with the windows that are not within their limits, and bounds on these."""

    low: Array
    high: Array
    windows: Index
    upper: Array

    def middle(self, entry: int, end: float) -> float | None:
        """Where an entry is halved: where the clip begins for the strongest shift, if it does."""
        low, high = float(self.low[entry]), float(self.high[entry])
        begins = end - float(self.high[-1])
        if entry < len(self.low) - 1 and low < begins < high:
            return begins
        at = (low + high) / 2
        return at if low < at < high else None

    def halves(self, entry: int, end: float, windows: Index, upper: Array) -> list[_Open]:
        at = self.middle(entry, end)
        low, high = self.low.copy(), self.high.copy()
        low[entry] = high[entry] = at
        return [_Open(self.low, high, windows, upper), _Open(low, self.high, windows, upper)]
