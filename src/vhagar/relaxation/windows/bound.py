"""Bound how far the source's lead over a target can shift, window by window.

An attacked input's confidence is at most `g(x) - g(x_p)` with `g` the source's score minus the
target's, because `g(x_p) <= 0`. With one hidden layer that is a sum over its neurons, and neurons
that see the same few pixels make a *window*. For any multipliers `u, v` of a window's pixels

    g(x) - g(x_p)  =  sum of (f_w - u_w.x - v_w.x_p)  +  (sum of u_w).x + (sum of v_w).x_p,

and every term is at most its maximum over the window's own pixels and the shift.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vhagar.array_types import Array
from vhagar.network import Network
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.windows.halving import Functions, Halved, Halving, begun_at_most
from vhagar.relaxation.windows.kinds import Windows, windows_of
from vhagar.relaxation.windows.multipliers import Multipliers, multipliers

# More than the error of a window's bound, relative to the absolute values that are added up.
_ROUNDING = 2.0**-40
# Boxes of all trees together, about. Measured: 33,000 boxes of 729 windows take 2.5 s.
_MOST_BOXES = 2**16
# Windows in all boxes of a tree together: the checker refuses more. It follows windows further than
# they are here, because limits are raised here, so that each may be in every box.
_MOST_KEPT = 2**26
# Windows may exceed what they reach by a share of it, or of this share of what they are alone.
_LEAST = 0.1


@dataclass(frozen=True, eq=False)
class WindowProof:
    """The proof of a bound: the windows' multipliers, and a tree of boxes for each kind."""

    upper: float
    target: int
    windows: Windows
    multipliers: Multipliers
    trees: tuple[Halved, ...]

    def block(self) -> tuple[dict[str, Any], bytes]:
        """The proof in the format of certificates (`docs/certificate.md`, "WNDW")."""
        count = self.windows.count
        kind, limits = np.zeros(count, dtype="<u2"), np.zeros(count)
        rows: dict[int, Array] = {}
        each = zip(self.windows.kinds, self.trees, self.multipliers.of, strict=True)
        for number, (own, tree, values) in enumerate(each):
            kind[own.numbers], limits[own.numbers] = number, tree.limits
            rows |= zip(own.numbers.tolist(), values, strict=True)
        codes = [tree.code for tree in self.trees]
        about = {"target": self.target, "windows": count, "boxes": [len(code) for code in codes]}
        values = np.concatenate([rows[window] for window in range(count)])
        parts = kind, limits.astype("<f8"), values.astype("<f4")
        return about, b"".join([*(part.tobytes() for part in parts), *codes])


class WindowBounder:
    """Bounds of one piece, one target after the other."""

    def __init__(self, network: Network, piece: AbstractPiece, source: int) -> None:
        self._network, self._piece, self._source = network, piece, source
        self._windows = windows_of(network, piece)
        self._multipliers: dict[int, Multipliers] = {}

    @np.errstate(over="ignore", invalid="ignore")
    def bound(
        self, target: int, share: float, should_stop: Callable[[], bool] = lambda: False
    ) -> WindowProof | None:
        """A bound for a target; None if windows do not apply, if there was no time, or if numbers
        are too large.

        Windows may exceed what they reach by about this `share` of it, on average.
        """
        windows = self._windows
        if windows is None or should_stop():
            return None
        lead, size = self._lead(target)
        if target not in self._multipliers:
            self._multipliers[target] = multipliers(windows, lead, should_stop)
        found = self._multipliers[target]
        reached = sum(float(values.sum()) for values in found.values)
        slack = share * max(reached, _LEAST * found.alone) / windows.count
        if not math.isfinite(reached + slack):
            return None
        trees = []
        for kind, own, values in zip(windows.kinds, found.of, found.values, strict=True):
            most = math.ceil(_MOST_BOXES * len(kind.numbers) / windows.count)
            most = min(most, begun_at_most(_MOST_KEPT // len(kind.numbers)))
            halving = Halving(windows, kind, Functions(lead[kind.units], own), slack)
            trees.append(halving.grow(values + slack, most, should_stop))
        upper = self._total(windows, found, trees, size)
        if not math.isfinite(upper):
            return None
        return WindowProof(upper, target, windows, found, tuple(trees))

    def _lead(self, target: int) -> tuple[Array, Array]:
        """The coefficients of all neurons, and the sums of absolute values that they round."""
        label = np.arange(self._network.classes)[None]
        row = 1.0 * (label == self._source) - (label == target)
        size = abs(row)
        assert self._windows is not None
        for layer in reversed(self._windows.last.layers):
            row, size = layer.pull(row), layer.absolute.pull(size)
        return row[0], size[0]

    def _total(
        self, windows: Windows, found: Multipliers, trees: list[Halved], size: Array
    ) -> float:
        total, weight = 0.0, 0.0
        left = np.zeros((2, 1, self._network.input_size))
        for kind, own, tree in zip(windows.kinds, found.of, trees, strict=True):
            pixels, neurons = windows.sizes(kind)
            each = 4 * size[kind.units] @ neurons + 4 * abs(own) @ np.tile(pixels, 2)
            total += float(tree.proven.sum())
            weight += float((each + abs(tree.proven)).sum())
            for side in (0, 1):
                part = own[:, side * kind.width : (side + 1) * kind.width]
                np.add.at(left[side, 0], kind.pixels, windows.sign * part)
        rest = float(self._piece.support(left[0], left[1]).value[0])
        weight += abs(rest)
        # What products lose to underflow meets coefficients of at most this size.
        lost = 2.0**-900 * (1.0 + float(size.sum()))
        return max(total + rest + _ROUNDING * weight + lost, 0.0)
