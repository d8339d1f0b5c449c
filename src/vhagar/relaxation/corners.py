"""The largest value of a ReLU pair over its hexagon: the offset that the twin dual pays.

Decisions cut corners off: `s >= 0`, for example, removes the corners with `s < 0`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar.relaxation.arrays import AnyArray, add_product, buffer, namespace, put, row_blocks
from vhagar.relaxation.hexagon import Hexagons

# `s` and `t` of a corner, and the neuron's outputs there in both copies.
Corner = tuple[AnyArray, AnyArray, AnyArray, AnyArray]

# Up to this many values, all corners are computed in one call: the calls cost more than the work.
_FEW = 2**13


@dataclass(frozen=True, eq=False)
class DecidedSigns:
    """Decisions of many rows: `codes` `(rows, neurons)` of a layer, and the corners they cut off.

    A code is a sum: 1 for `s >= 0`, 2 for `s <= 0`, 4 for `t >= 0`, 8 for `t <= 0`. `cut`
    `(CORNERS, neurons)` holds the codes that cut a corner off; any one of its bits is enough.
    """

    codes: AnyArray
    cut: AnyArray

    def rows(self, rows: slice) -> DecidedSigns:
        return DecidedSigns(self.codes[rows], self.cut)

    def __getitem__(self, corner: int) -> AnyArray:
        """Where a corner is cut off, `(rows, neurons)`."""
        return (self.codes & self.cut[corner]) != 0

    def empty(self) -> AnyArray:
        """The rows whose decisions leave some neuron without any corner, as a mask."""
        xp = namespace(self.codes)
        rows, neurons = xp.where(self.codes != 0)
        left = (self.codes[rows, neurons] & self.cut[:, neurons]) == 0
        empty = xp.zeros_like(self.codes[:, 0]) != 0
        empty[rows[~left.any(axis=0)]] = True
        return empty


# Which of a layer's corners the decisions leave: by decided signs that differ from row to row, or,
# the same for all rows, `(CORNERS, neurons)`: 0 for a corner that stays, minus infinity otherwise.
LayerDecisions = DecidedSigns | AnyArray | None


@dataclass(frozen=True, eq=False)
class Corners:
    """The corners of one layer's hexagons, each `(CORNERS, neurons)`, in numpy or in torch."""

    hexagons: Hexagons
    s: AnyArray
    t: AnyArray
    z: AnyArray  # the neuron's output: relu(s), or s itself for linear units
    z_p: AnyArray
    magnitude: AnyArray  # (neurons,)

    @classmethod
    def of(cls, hexagons: Hexagons) -> Corners:
        s, t = hexagons.corners()
        z, z_p = hexagons.after(s), hexagons.after(t)
        return cls(hexagons, s, t, z, z_p, hexagons.magnitude)

    def mapped(self, function: Callable[[AnyArray], AnyArray]) -> Corners:
        """The same with a function applied to each array."""
        return Corners(
            self.hexagons.mapped(function),
            function(self.s),
            function(self.t),
            function(self.z),
            function(self.z_p),
            function(self.magnitude),
        )

    def take(self, neurons: NDArray[np.int64]) -> Corners:
        """The corners of the given neurons."""
        return self.mapped(lambda values: values[..., neurons])

    def diagonal(self) -> Corners:
        """The corners with `t = s`, for neurons whose copies are equal: there are no others."""
        some = [0, 3, 6]  # the first with `s` at its lower end, nearest to 0, at its upper end
        s, z = self.s[some], self.z[some]
        return Corners(self.hexagons, s, s, z, z, self.magnitude)

    def __iter__(self) -> Iterator[Corner]:
        return zip(self.s, self.t, self.z, self.z_p, strict=True)

    def cut(self) -> NDArray[np.uint8]:
        """For each corner, the codes of the decisions that cut it off: those for the other sign."""
        s, t = self.s, self.t
        bits = 1 * (s < 0) + 2 * (s > 0) + 4 * (t < 0) + 8 * (t > 0)
        return np.asarray(bits, dtype=np.uint8)

    def offset(
        self, a: AnyArray, b: AnyArray, p: AnyArray, q: AnyArray, allowed: LayerDecisions = None
    ) -> AnyArray:
        """Each neuron's offset `r` for coefficients `(rows, neurons)`: the maximum over corners.

        Coefficients may also be `(groups, rows, neurons)`, with corners of its own for each group.
        """
        signs = allowed if isinstance(allowed, DecidedSigns) else None
        if a.ndim > 2:  # only where many are computed at once, on a device with the memory for it
            return largest(self, a, b, p, q, allowed)
        if len(self.s) * len(a) * a.shape[1] <= _FEW and signs is None:
            return self._all_at_once(a, b, p, q, allowed)
        best = namespace(a).empty_like(a)
        for rows in row_blocks(a):
            own = allowed if signs is None else signs.rows(rows)
            best[rows] = largest(self, a[rows], b[rows], p[rows], q[rows], own)
        return best

    def _all_at_once(
        self, a: AnyArray, b: AnyArray, p: AnyArray, q: AnyArray, allowed: AnyArray | None
    ) -> AnyArray:
        """As `largest`, with the corners as an additional dimension."""
        value = a * self.z[:, None]
        value += b * self.z_p[:, None]
        value -= p * self.s[:, None]
        value -= q * self.t[:, None]
        if allowed is not None:
            value += allowed[:, None]
        return namespace(a).amax(value, axis=0)


def largest(
    corners: Corners,
    a: AnyArray,
    b: AnyArray,
    p: AnyArray,
    q: AnyArray,
    allowed: LayerDecisions = None,
    point: tuple[AnyArray, AnyArray] | None = None,
) -> AnyArray:
    """Maximise `a z + b z_p - p s - q t` over the corners; `point` receives the best `s` and `t`.

    Meant for rows that fit into a core's cache: a few buffers serve all corners.
    """
    xp = namespace(a)
    best, value, spare = xp.full_like(a, -np.inf), xp.empty_like(a), buffer(a)
    for k, (s, t, z, z_p) in enumerate(corners):
        xp.multiply(a, z, out=value)
        add_product(value, b, z_p, spare)
        add_product(value, p, s, spare, -1)
        add_product(value, q, t, spare, -1)
        if isinstance(allowed, DecidedSigns):
            put(value, -np.inf, allowed[k])
        elif allowed is not None:
            value += allowed[k]
        if point is not None:
            better = value > best
            put(point[0], s, better)
            put(point[1], t, better)
        xp.maximum(best, value, out=best)
    return best
