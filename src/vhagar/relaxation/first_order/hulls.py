"""The hexagons of a layer for many rows: one set per group of rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from vhagar.relaxation.arrays import AnyArray, arange, namespace, row_blocks
from vhagar.relaxation.corners import Corners
from vhagar.relaxation.hexagon import Hexagons


class Hulls:
    """A layer's hexagons with fields `(groups, 1, neurons)`: the rows of a group share them."""

    def __init__(self, hexagons: Hexagons) -> None:
        self.hexagons = hexagons
        self.ratio = float(hexagons.ratio)

    @classmethod
    def of(cls, hexagons: Hexagons) -> Hulls:
        """A single group."""
        return cls(hexagons.mapped(lambda values: values[None, None]))

    @property
    def groups(self) -> int:
        return len(self.hexagons)

    @property
    def on_gpu(self) -> bool:
        lower = self.hexagons.lower
        return not isinstance(lower, np.ndarray) and bool(lower.is_cuda)

    @cached_property
    def stacked(self) -> AnyArray:
        """The six bounds `(groups, 6, neurons)`, as the kernels read them."""
        return namespace(self.hexagons.lower).concatenate(self.hexagons.sides, axis=1)

    @cached_property
    def _corners(self) -> Corners:
        return Corners.of(self.hexagons)

    def blocks(self, a: AnyArray) -> Iterator[tuple[slice, Corners]]:
        """Blocks of the rows of `a` `(rows, neurons)`, and the corners of each block."""
        if self.groups == 1:
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
        if self.groups == 1:
            return self._stable
        return self._stable[arange(count, self._stable)[rows] // (count // self.groups)]

    @cached_property
    def _stable(self) -> AnyArray:
        return (self.hexagons.on | self.hexagons.off)[:, 0]

    def after(self, values: AnyArray) -> AnyArray:
        """The post-activations of pre-activations `(rows, neurons)`."""
        linear = self.hexagons.linear
        if linear is None:
            return values.clip(min=0.0)
        return namespace(values).where(linear[0], values, values.clip(min=0.0))
