"""The hexagons of a layer for many rows: one set per group of rows, decided signs per row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from vhagar.relaxation.arrays import AnyArray, arange, contiguous, namespace, row_blocks
from vhagar.relaxation.corners import Corners
from vhagar.relaxation.hexagon import Hexagons


class Hulls:
    """A layer's hexagons with fields `(groups, 1, neurons)`: the rows of a group share them.

    `codes` `(rows, neurons)`, if given, hold decided signs as in `corners.DecidedSigns`.
    """

    def __init__(self, hexagons: Hexagons, codes: AnyArray | None = None) -> None:
        self._hexagons = hexagons
        self.ratio = float(hexagons.ratio)
        self.codes = None if codes is None else contiguous(codes)

    @classmethod
    def of(cls, hexagons: Hexagons) -> Hulls:
        """A single group, in numpy."""
        return cls(hexagons.mapped(lambda values: values[None, None]))

    @property
    def groups(self) -> int:
        return len(self._hexagons)

    @property
    def on_gpu(self) -> bool:
        lower = self._hexagons.lower
        return not isinstance(lower, np.ndarray) and bool(lower.is_cuda)

    @cached_property
    def stacked(self) -> AnyArray:
        """The six bounds `(groups, 6, neurons)`, as the kernels read them."""
        return namespace(self._hexagons.lower).concatenate(self._hexagons.sides, axis=1)

    def of_rows(self, rows: slice = slice(None)) -> Hexagons:
        """The hexagons, `(groups, 1, neurons)`; with codes those of each row, `(1, rows, neurons)`.

        Decisions may leave a hexagon empty. That is detected elsewhere; here it only has to have
        `lower <= upper`.
        """
        if self.codes is None:
            return self._hexagons
        xp, codes = namespace(self.codes), self.codes[rows]
        count = len(self.codes)
        group = arange(count, codes)[rows] // (count // self.groups)
        own = self._hexagons.mapped(lambda values: values[group, 0])
        low = xp.where((codes & 1) != 0, own.lower.clip(min=0), own.lower)
        high = xp.where((codes & 2) != 0, own.upper.clip(max=0), own.upper)
        low_p = xp.where((codes & 4) != 0, own.lower_p.clip(min=0), own.lower_p)
        high_p = xp.where((codes & 8) != 0, own.upper_p.clip(max=0), own.upper_p)
        high, high_p = xp.maximum(high, low), xp.maximum(high_p, low_p)
        sides = (low, high, low_p, high_p, own.gap_lower, own.gap_upper)
        return Hexagons.of((side[None] for side in sides), self.ratio)

    @cached_property
    def _corners(self) -> Corners:
        return Corners.of(self._hexagons)

    def blocks(self, a: AnyArray) -> Iterator[tuple[slice, Corners]]:
        """Blocks of the rows of `a` `(rows, neurons)`, and the corners of each block."""
        if self.codes is not None:
            for rows in row_blocks(a):
                yield rows, Corners.of(self.of_rows(rows))
        elif self.groups == 1:
            for rows in row_blocks(a):
                yield rows, self._corners
        else:
            each = len(a) // self.groups
            for some in row_blocks(a.reshape(self.groups, -1)):
                yield slice(some.start * each, some.stop * each), self._of_groups(some)

    def _of_groups(self, some: slice) -> Corners:
        return self._corners.mapped(lambda values: values[..., some, :, :])

    def stable(self, rows: slice, count: int) -> AnyArray:
        """Which neurons are stable in the given ones of `count` rows: active or inactive in both
        copies."""
        if self.codes is not None:
            h = self.of_rows(rows)
            return (h.on | h.off)[0]
        if self.groups == 1:
            return self._stable
        return self._stable[arange(count, self._stable)[rows] // (count // self.groups)]

    @cached_property
    def _stable(self) -> AnyArray:
        return (self._hexagons.on | self._hexagons.off)[:, 0]

    def after(self, values: AnyArray) -> AnyArray:
        """The post-activations of pre-activations `(rows, neurons)`."""
        linear = self._hexagons.linear
        if linear is None:
            return values.clip(min=0.0)
        return namespace(values).where(linear[0], values, values.clip(min=0.0))
