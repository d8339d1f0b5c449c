"""What `docs/certificate.md` says of windows in boxes, one number after the other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
Ends = list[float]
LEAF = 255


@dataclass(frozen=True)
class Formula:
    """Windows with the same weights: sums of `c relu(s) - c relu(t)`, less multipliers.

    A box has the ranges of the pixels, and then of the shift.
    """

    weight: Array
    bias: Array
    end: float
    lead: Array
    on_pixels: Array
    on_images: Array

    @staticmethod
    def line(values: list[float], value: float) -> float:
        """Below the ReLU; over a range of values that it crosses 0 in, of the chord's slope."""
        low, high = min(values), max(values)
        if low < 0 < high:
            return high / (high - low) * value
        return value if high > 0 else 0.0

    def corners(self, low: Ends, high: Ends) -> list[tuple[tuple[float, float], ...]]:
        end, weak, strong = self.end, low[-1], high[-1]
        found = []
        for e in (weak, strong):
            pixels: list[list[tuple[float, float]]] = []
            for a, b in zip(low[:-1], high[:-1], strict=True):
                if b <= end - strong:
                    pixels.append([(a, a + e), (b, b + e)])
                elif a >= end - weak:
                    pixels.append([(a, end), (b, end)])
                else:
                    first, last = min(a, end - strong), max(b, end - weak)
                    pixels.append([(first, first + e), (end - e, end), (last, end)])
            found += itertools.product(*pixels)
        return found

    def in_box(self, window: int, low: Ends, high: Ends) -> float:
        corners = [np.array(corner).T for corner in self.corners(low, high)]
        sides = [
            [(self.weight @ corner[side] + self.bias).tolist() for corner in corners]
            for side in (0, 1)
        ]
        totals = []
        for k, (x, x_p) in enumerate(corners):
            total = -float(self.on_pixels[window] @ x + self.on_images[window] @ x_p)
            for unit, lead in enumerate(self.lead[window].tolist()):
                rising, falling = sides if lead > 0 else sides[::-1]
                below = self.line([values[unit] for values in falling], falling[k][unit])
                total += abs(lead) * (max(rising[k][unit], 0.0) - below)
            totals.append(total)
        return max(totals)

    def halves(self, code: int, low: Ends, high: Ends) -> list[tuple[Ends, Ends]]:
        at = (low[code] + high[code]) / 2
        clip = self.end - high[-1]
        if code < len(low) - 1 and low[code] < clip < high[code]:
            at = clip
        lower, upper = high.copy(), low.copy()
        lower[code] = upper[code] = at
        return [(low, lower), (upper, high)]

    def by_tree(self, low: Ends, high: Ends, tree: Sequence[int], limits: Array) -> list[float]:
        """What a tree proves, level by level."""
        found = [-math.inf] * len(limits)
        codes = iter(tree)
        known = dict.fromkeys(range(len(limits)), math.inf)
        level = [((low, high), known)]
        while level:
            below = []
            for box, known in level:
                code, left = next(codes), {}
                for window, most in known.items():
                    value = min(most, self.in_box(window, *box))
                    if code == LEAF or value <= limits[window]:
                        found[window] = max(found[window], value)
                    else:
                        left[window] = value
                if code != LEAF:
                    below += [(half, left) for half in self.halves(code, *box)]
            level = below
        assert not list(codes)
        return found
