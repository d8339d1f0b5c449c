"""First-order steps on the multipliers of many nodes at once, on a CPU or a GPU.

The multipliers are `p = slope * a + shift`. Where `a > 0` the slope is the chord's, elsewhere it is
free between 0 and 1 (alpha-CROWN); neurons with a decided sign have a free shift (beta-CROWN). This
is float32 and only proposes: `compact.upper_bounds` decides what the multipliers prove.

The gradient needs no automatic differentiation. With `s*` the point of each neuron's range that
attains its offset, and `x*` the version that attains the support, one forward pass computes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Self

import numpy as np

from vhagar.local.compact import Compact, Rows, dense
from vhagar.relaxation.adam import Adam
from vhagar.relaxation.arrays import AnyArray, arange, namespace


@dataclass(frozen=True, eq=False)
class Steps:
    """A schedule of `count` steps, the first of size `rate`, each `decay` times the one before."""

    count: int
    rate: float = 0.1
    decay: float = 0.9


class _Columns:
    """Arrays with one row for each node."""

    @property
    def arrays(self) -> list[AnyArray]:
        return [getattr(self, part.name) for part in fields(self)]  # type: ignore[arg-type]

    def take(self, some: Any) -> Self:
        """The arrays of some nodes."""
        return type(self)(*(part[some] for part in self.arrays))

    def mapped(self, function: Callable[[AnyArray], AnyArray]) -> Self:
        return type(self)(*map(function, self.arrays))

    def merged(self, better: AnyArray, other: Self) -> Self:
        """Replace the nodes that are `better` in `other`."""
        xp = namespace(better)
        pairs = zip(self.arrays, other.arrays, strict=True)
        return type(self)(
            *(
                xp.where(better[:, None] if old.ndim == 2 else better, new, old)
                for old, new in pairs
            )
        )


@dataclass(frozen=True, eq=False)
class Nodes(_Columns):
    """Nodes: the row of each, decided signs (1, -1, or 0 for none) and multipliers of all blocks.

    `signs`, `slopes` and `shifts` are `(nodes, undecided)`.
    """

    rows: AnyArray
    signs: AnyArray
    slopes: AnyArray
    shifts: AnyArray

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def joined(cls, parts: list[Nodes]) -> Nodes:
        """Concatenate several batches of nodes, in numpy."""
        columns = zip(*(part.arrays for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


@dataclass(frozen=True, eq=False)
class Evaluated(_Columns):
    """Values `(nodes,)`, coefficients and multipliers `(nodes, undecided)`, the version of each
    node that attains its value, and the gradients of the value by slopes and shifts."""

    value: AnyArray
    a: AnyArray
    p: AnyArray
    x: AnyArray
    by_slope: AnyArray
    by_shift: AnyArray


@dataclass(frozen=True, eq=False)
class _Block:
    """A block in the search's precision; `own` is the position of its outputs in `v`."""

    lower: AnyArray
    upper: AnyArray
    chord: AnyArray
    weight: AnyArray
    bias: AnyArray
    part: slice  # of all undecided neurons

    @property
    def width(self) -> int:
        return int(self.weight.shape[1])

    @property
    def own(self) -> slice:
        return slice(self.width, self.width + len(self.lower))


class Dual:
    """The dual bound of rows of coefficients on a compact network, in float32."""

    def __init__(
        self, compact: Compact, rows: Rows, start: AnyArray, place: Callable[[Any], AnyArray]
    ) -> None:
        """Bound `start @ rows`, such as score differences; `place` puts an array on a device."""
        ends = np.cumsum([0, *(len(block.neurons) for block in compact.blocks)]).tolist()
        self.blocks = []
        for block, part in zip(compact.blocks, pairwise(ends), strict=True):
            chord = block.upper / (block.upper - block.lower)
            numbers = block.lower, block.upper, chord, block.weight, block.bias
            low, high, slope, weight, bias = map(place, numbers)
            self.blocks.append(_Block(low, high, slope, weight, bias, slice(*part)))
        self.undecided: int = ends[-1]
        versions = compact.versions
        self._rows, self._bias = place(start @ dense(rows.weight)), place(start @ rows.bias)
        self._centre, self._room = place(versions.centre), place(versions.room)
        self._directions = place(versions.directions.toarray())
        self._size = len(versions.centre)

    def begin(self) -> Nodes:
        """One node for each row, with CROWN's multipliers and the signs that ranges decide."""
        xp = namespace(self._rows)
        zeros = xp.zeros_like(self._rows)[:, :1] + xp.zeros_like(self._rows)[:1, : self.undecided]
        near, signs = zeros + 0.0, zeros + 0.0
        for block in self.blocks:
            one = xp.ones_like(block.chord)
            near[:, block.part] = xp.where(block.chord > 0.5, one, 0.0 * one)
            negative = xp.where(block.upper <= 0, -one, 0.0 * one)
            signs[:, block.part] = xp.where(block.lower >= 0, one, negative)
        return Nodes(arange(len(zeros), zeros), signs, near, zeros)

    def evaluate(self, nodes: Nodes) -> Evaluated:
        """Compute the value of each node, and its gradient by the multipliers."""
        xp = namespace(self._rows)
        v, value = self._rows[nodes.rows] + 0.0, self._bias[nodes.rows]
        a, p, slopes, points = (xp.zeros_like(nodes.slopes) for _ in range(4))
        for block in reversed(self.blocks):
            own, part = v[:, block.own], block.part
            slope, point, paid = self._passed(block, own, nodes)
            value = value + (own * point.clip(min=0.0) - paid * point).sum(axis=1)
            value = value + paid @ block.bias
            v[:, : block.width] += paid @ block.weight
            a[:, part], p[:, part], slopes[:, part], points[:, part] = own, paid, slope, point
        on_x = v[:, : self._size]
        across = xp.sign(on_x @ self._directions)
        x = self._centre + xp.sign(on_x) * self._room + across @ self._directions.T
        value = value + (on_x * x).sum(axis=1)
        by_p = self._by_multipliers(v, x, slopes, points)
        nothing = xp.zeros_like(by_p)
        free = (a <= 0) & (nodes.signs == 0)
        by_slope = xp.where(free, by_p * a, nothing)
        return Evaluated(value, a, p, x, by_slope, xp.where(nodes.signs != 0, by_p, nothing))

    def _passed(
        self, block: _Block, a: AnyArray, nodes: Nodes
    ) -> tuple[AnyArray, AnyArray, AnyArray]:
        """Slopes, the points that attain the offsets, and multipliers of one block."""
        xp, part = namespace(a), block.part
        sign, nothing = nodes.signs[:, part], xp.zeros_like(a)
        slope = xp.where(a > 0, block.chord, nodes.slopes[:, part])
        slope = xp.where(sign == 0, slope, sign.clip(min=0.0))
        p = slope * a + nodes.shifts[:, part]
        at_low = xp.where(sign > 0, nothing, -p * block.lower)
        at_high = xp.where(sign < 0, nothing, (a - p) * block.upper)
        end = xp.where(at_low >= at_high, block.lower + nothing, block.upper + nothing)
        return slope, xp.where(xp.maximum(at_low, at_high) > 0, end, nothing), p

    def _by_multipliers(
        self, like: AnyArray, x: AnyArray, slopes: AnyArray, points: AnyArray
    ) -> AnyArray:
        xp = namespace(like)
        v, by_p = xp.zeros_like(like), xp.zeros_like(slopes)
        v[:, : self._size] = x
        for block in self.blocks:
            part = block.part
            found = v[:, : block.width] @ block.weight.T + block.bias - points[:, part]
            by_p[:, part] = found
            v[:, block.own] = points[:, part].clip(min=0.0) + slopes[:, part] * found
        return by_p

    def improve(self, nodes: Nodes, steps: Steps, enough: float) -> tuple[Nodes, Evaluated]:
        """Descend until every value is below `enough`; return the best multipliers of each node."""
        now, found = nodes, self.evaluate(nodes)
        best, worth = now, found
        scale = self._scale(found.a)
        by_slope, by_shift = Adam(), Adam()
        for step in range(steps.count):
            if bool((worth.value < enough).all()):
                break
            size = steps.rate * steps.decay**step
            slopes = now.slopes - size * by_slope.direction(found.by_slope)
            shifts = now.shifts - size * scale * by_shift.direction(found.by_shift)
            now = Nodes(nodes.rows, nodes.signs, slopes.clip(0.0, 1.0), shifts)
            found = self.evaluate(now)
            better = found.value < worth.value
            best, worth = best.merged(better, now), worth.merged(better, found)
        return best, worth

    def _scale(self, a: AnyArray) -> AnyArray:
        """The step size of a shift: the mean absolute coefficient in its block."""
        found = namespace(a).zeros_like(a)
        for block in self.blocks:
            if len(block.lower):
                sizes = abs(a[:, block.part]).sum(axis=1) / len(block.lower)
                found[:, block.part] = sizes[:, None]
        return found
