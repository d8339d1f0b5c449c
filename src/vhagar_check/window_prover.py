"""Proves the bound of a proof by windows: the sum of the windows' largest values."""

from __future__ import annotations

import math

import numpy as np

from vhagar_check.errors import Rejected
from vhagar_check.layers import UNDERFLOW, Floats, gamma
from vhagar_check.window_boxes import Alike, largest
from vhagar_check.window_proofs import WindowRegion

# Most boxes of all trees, each counted as often as windows that are not alike share it.
_MOST_BOXES = 2**22


class WindowProver:
    """Proves the bound of one region.

    Where a piece darkens, everything is about `-x` and `-x_p`, so that images rise.
    """

    def __init__(self, region: WindowRegion) -> None:
        self._region = region
        self.piece_number, self.span = region.piece_number, region.span
        piece = region.piece
        self._sign = 1.0 if region.span[0] >= 0 else -1.0
        ends = [self._sign * side for side in piece.domain.inputs]
        self._low, self._high = np.minimum(*ends), np.maximum(*ends)
        white = max(self._sign * piece.domain.low, self._sign * piece.domain.high)
        self._end = white if piece.clip else math.inf
        self._shift = sorted(self._sign * side for side in region.span)
        size = np.maximum(abs(self._low), abs(self._high))
        size = np.maximum(size, abs(self._end)) if piece.clip else size
        self._size: Floats = size + self._shift[1]

    def upper(self, source: int, target: int) -> float:
        """A bound on the confidence of inputs that the piece pushes into the target."""
        if target != self._region.target:
            raise Rejected("a proof by windows is for a tree of another target")
        lead, size, lost = self._lead(source)
        values = self._values(lead)
        error = self._error(lead, size, lost)
        rest, on_pixels = self._rest()
        parts = [*values.tolist(), *error, *rest]
        total: float = sum(map(abs, parts))
        if not math.isfinite(2 * total):
            return math.inf
        return max(math.fsum(parts) + gamma(8 + on_pixels) * total, 0.0)

    def _lead(self, source: int) -> tuple[Floats, Floats, Floats]:
        """The coefficients of all neurons, the absolute values that add up to them, and bounds on
        their errors."""
        network = self._region.network
        label = np.arange(network.classes)[None]
        row = 1.0 * (label == source) - (label == self._region.target)
        size, lost, terms = abs(row), np.zeros_like(row), 4
        for layer in reversed(network.stages[1]):
            row, size = layer.backward(layer.kernel, row), layer.backward(layer.size, size)
            lost = 1.01 * layer.backward(layer.size, lost) + UNDERFLOW * (layer.terms + 1)
            terms += layer.terms + 4
        return row[0], size[0], gamma(2 * terms) * size[0] + 2 * lost[0]

    def _values(self, lead: Floats) -> Floats:
        """The largest value of each window, up to rounding; windows that are alike together."""
        region, found = self._region, np.empty(len(self._region.windows))
        alike: dict[tuple[int, bytes], list[int]] = {}
        for number, (window, stated) in enumerate(zip(region.windows, region.stated, strict=True)):
            ranges = self._low[window.pixels], self._high[window.pixels]
            parts = window.weight, window.bias, *ranges
            key = stated.tree, b"".join(part.tobytes() for part in parts)
            alike.setdefault(key, []).append(number)
        if sum(len(region.trees[tree]) for tree, _ in alike) > _MOST_BOXES:
            raise Rejected("the windows of a proof share too large trees of boxes")
        for own in alike.values():
            first = region.windows[own[0]]
            tree = region.trees[region.stated[own[0]].tree]
            limits = np.array([region.stated[number].limit for number in own])
            found[own] = largest(
                Alike(
                    self._sign * first.weight,
                    first.bias,
                    np.append(self._low[first.pixels], self._shift[0]),
                    np.append(self._high[first.pixels], self._shift[1]),
                    self._end,
                    np.array([lead[region.windows[number].units] for number in own]),
                    np.array([region.stated[number].on_pixels for number in own]),
                    np.array([region.stated[number].on_images for number in own]),
                ),
                tree,
                limits,
            )
        return found

    def _error(self, lead: Floats, size: Floats, lost: Floats) -> list[float]:
        """Bounds on the errors of the windows' values, by rounding and underflow."""
        region, found = self._region, []
        for window, stated in zip(region.windows, region.stated, strict=True):
            pixels = self._size[window.pixels]
            neurons = window.size @ pixels * (1 + 2.0**-40) + window.bias_size
            on = abs(stated.on_pixels) + abs(stated.on_images)
            terms = 4 * (len(window.units) + len(pixels)) + 64
            weights = float(size[window.units] @ neurons)
            rounded = gamma(terms) * (4 * weights + 2 * float(on @ pixels))
            rounded += 4 * region.room * weights + 2 * float(lost[window.units] @ neurons)
            entries = 1 + float(size[window.units].sum()) + float(on.sum())
            below = 4 * terms * UNDERFLOW * entries * (1 + float(pixels.sum()) + len(neurons))
            found.append(rounded * (1 + 2.0**-40) + below)
        return found

    def _rest(self) -> tuple[list[float], int]:
        """A bound on what the multipliers leave of pixels, with its error, and the largest number
        of windows of a pixel."""
        region = self._region
        left, size = np.zeros((2, 2, region.piece.domain.size))
        count = np.zeros(region.piece.domain.size, dtype=np.int64)
        for window, stated in zip(region.windows, region.stated, strict=True):
            for k, side in enumerate((stated.on_pixels, stated.on_images)):
                left[k, window.pixels] += self._sign * side
                size[k, window.pixels] += abs(side)
            count[window.pixels] += 1
        most = int(count.max(initial=0))
        value = float(region.piece.support(left[[0]], left[[1]])[0])
        return [value, gamma(2 * most + 8) * float((size @ self._size).sum())], most
