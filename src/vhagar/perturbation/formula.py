"""The image of an input as a formula, `x_p = A x + B e + c` with the parameters `e` in a box."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from vhagar.array_types import Array, Mask
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.maps import AffineMap


@dataclass(frozen=True, eq=False)
class Formula:
    """An affine map of the input and the parameters; with `clip`, clipped to the input range.

    With `product`, the only parameter is a factor: the image is `black + e * (x - black)`.
    """

    map: AffineMap
    clip: bool = False
    product: bool = False

    @cached_property
    def copied(self) -> Mask:
        """The pixels `(size,)` of the image that are unchanged pixels of `x`, or constants."""
        entries = np.diff(self.map.matrix.indptr)
        ones = np.ones(len(entries), dtype=np.bool_)
        rows = np.repeat(np.arange(len(entries)), entries)
        ones[rows[self.map.matrix.data != 1.0]] = False
        alone = ((entries == 1) & (self.map.offset == 0)) | (entries == 0)
        found: Mask = ones & alone & (np.diff(self.map.directions.indptr) == 0)
        return found & (not self.product)

    @property
    def changes_alike(self) -> bool:
        """Whether every pixel changes by the same amount, whatever the parameters."""
        size, moves = self.map.size, self.map.directions
        if self.clip or self.product or (self.map.offset != self.map.offset[0]).any():
            return False
        same = sparse.csr_array(sparse.eye_array(size, format="csr"))
        if (self.map.matrix != same).nnz:
            return False
        first = moves[[0] * size]
        return not (moves != first).nnz

    def at(self, x: Array, domain: Domain) -> tuple[Array, sparse.csr_array]:
        """The image of one input `(size,)` before the clip: offset and directions of parameters."""
        if self.product:  # linear in the factor, as the pixels are fixed
            return self.map.offset, sparse.csr_array((x - domain.lower)[:, None])
        return self.map.matrix @ x + self.map.offset, self.map.directions

    def simplified(self, domain: Domain) -> Formula:
        """The formula without parameters if each of them has a single value, else itself."""
        own = self.map
        if not own.count or (own.lower < own.upper).any():
            return self
        if self.product:
            factor, black = float(own.lower[0]), domain.lower
            matrix = sparse.csr_array(factor * sparse.eye_array(own.size, format="csr"))
            shift: Array = np.full(own.size, black - factor * black)
        else:
            matrix, shift = own.matrix, own.offset + own.directions @ own.lower
        return Formula(fixed_map(matrix, shift, own.label), self.clip)


def fixed_map(matrix: sparse.csr_array, offset: Array, label: str = "map") -> AffineMap:
    """`x_p = matrix @ x + offset`, without parameters."""
    nothing: Array = np.zeros(0)
    still = sparse.csr_array((len(offset), 0))
    return AffineMap(matrix, still, offset, nothing, nothing, label=label)
