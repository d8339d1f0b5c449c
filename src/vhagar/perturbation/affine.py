"""Affine pieces: `x_p = A x + B e + c` with the parameters `e` in a box.

The pairs `(x, x_p)` form a convex set, and the support is a sum of maxima, one for each pixel and
one for each parameter. If the image leaves the input range and is to be clipped, the network does
the clipping (see `to_clip`); the piece is the map before the clip.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from scipy import sparse

from vhagar.array_types import Array, Mask
from vhagar.perturbation.domain import UNDERFLOW, Domain
from vhagar.perturbation.formula import Formula, fixed_map
from vhagar.perturbation.maps import AffineMap, extremes
from vhagar.perturbation.piece import AbstractPiece, at_least_one
from vhagar.perturbation.ranges import Range
from vhagar.perturbation.relaxed import Expression, ModelImage, RelaxedPair, picked
from vhagar.perturbation.support import Support
from vhagar.solver.linear_model import Columns, LinearModel

# A map that leaves the input range by less than this share of the range's width counts as inside,
# because rounding alone can do that, for example to averages whose weights do not sum to one.
STAYS = 1e-9
# Up to this many parameters are described one by one.
_MOST_NAMED = 12


@dataclass(frozen=True, eq=False)
class AffinePiece(AbstractPiece):
    """One affine map with its parameters in a box; `clip` tells whether its image is clipped."""

    domain: Domain
    label: str
    map: AffineMap = field()
    clip: bool = False
    facts: tuple[tuple[str, object], ...] = ()
    span: Range | None = None
    convex = True

    @property
    def parameter_bounds(self) -> tuple[Array, Array]:
        return self.map.lower, self.map.upper

    @cached_property
    def formula(self) -> Formula:
        return Formula(self.map, clip=self.to_clip() is not None)

    @cached_property
    def _copied(self) -> Mask:
        """The pixels of the image that need no arithmetic."""
        return Formula(self.map).copied

    @cached_property
    def exact_apply(self) -> bool:  # type: ignore[override]
        return bool(self._copied.all())

    @cached_property
    def _reach(self) -> Array:
        """An upper bound on the sum of the absolute terms of each image pixel."""
        found: Array = abs(self.map.matrix) @ np.full(self.domain.size, self.domain.magnitude)
        found = found + abs(self.map.directions) @ np.maximum(
            abs(self.map.lower), abs(self.map.upper)
        )
        return found + abs(self.map.offset)

    @cached_property
    def room(self) -> Array:
        """A bound on the rounding error of `apply`: half an ulp for each term and each sum."""
        terms = np.diff(self.map.matrix.indptr) + np.diff(self.map.directions.indptr)
        room = (terms + 8) * (2.0**-51 * self._reach + UNDERFLOW)
        return np.where(self._copied, 0.0, room)

    def apply(self, x: Array, parameters: Array) -> Array:
        image: Array = (self.map.matrix @ x.T).T
        if self.map.count:
            image = image + (self.map.directions @ self.project(parameters).T).T
        return image + self.map.offset

    def image_bounds(self) -> tuple[Array, Array]:
        return self._image_bounds

    @cached_property
    def _image_bounds(self) -> tuple[Array, Array]:
        low, high = self.map.extremes(self.domain)
        return low - 2 * self.room, high + 2 * self.room

    def to_clip(self) -> tuple[Mask, Mask] | None:
        if not self.clip:
            return None
        low, high = self.image_bounds()
        room = STAYS * self.domain.width
        below, above = low < self.domain.lower - room, high > self.domain.upper + room
        return (below, above) if below.any() or above.any() else None

    def changes(self) -> tuple[Mask, Mask]:
        return self._changes

    @cached_property
    def _changes(self) -> tuple[Mask, Mask]:
        offset, own = self.map.offset, self.map
        same = sparse.eye_array(self.domain.size, format="csr")
        gap = sparse.csr_array(own.matrix - same)
        with np.errstate(over="ignore", invalid="ignore"):
            low, high = extremes(gap, self.domain.lower, self.domain.upper)
            least, most = extremes(own.directions, own.lower, own.upper)
            fall, rise = low + least + offset, high + most + offset
            terms = np.diff(gap.indptr) + np.diff(own.directions.indptr)
            room = (terms + 8) * (2.0**-49 * (self._reach + self.domain.magnitude) + UNDERFLOW)
        rises, falls = rise > room, fall < -room
        constant = self._copied & (np.diff(own.matrix.indptr) == 0)
        rises[constant] = offset[constant] > self.domain.lower
        falls[constant] = offset[constant] < self.domain.upper
        unchanged = self._copied & (own.matrix.diagonal() == 1.0)
        unclear = ~((abs(rise) > room) & (abs(fall) > room)) & ~unchanged & ~constant
        # Signs that rounding or overflow could change are computed exactly.
        for row in np.flatnonzero(unclear):
            lowest, highest = self._exact_change(int(row))
            falls[row], rises[row] = lowest < 0, highest > 0
        return rises & ~unchanged, falls & ~unchanged

    def _exact_change(self, row: int) -> tuple[Fraction, Fraction]:
        """The smallest and the largest change of a pixel, without rounding."""
        weights = _entries(self.map.matrix, row)
        weights[row] = weights.get(row, Fraction(0)) - 1
        ends = Fraction(self.domain.lower), Fraction(self.domain.upper)
        terms = [(weight, ends) for weight in weights.values()]
        for k, weight in _entries(self.map.directions, row).items():
            span = Fraction(float(self.map.lower[k])), Fraction(float(self.map.upper[k]))
            terms.append((weight, span))
        shift = Fraction(float(self.map.offset[row]))
        low = sum((min(w * a, w * b) for w, (a, b) in terms), shift)
        high = sum((max(w * a, w * b) for w, (a, b) in terms), shift)
        return low, high

    def local(self, pixels: Columns) -> tuple[AffinePiece, Columns]:
        # Includes the pixels that the images of `pixels` depend on, and the parameters that move
        # these images. All other images have no weight.
        sources = self.map.matrix[pixels].indices
        every = at_least_one(np.unique(np.concatenate([pixels, sources])))
        moves = np.unique(self.map.directions[pixels].indices)
        part = AffineMap(
            self.map.matrix[every][:, every],
            self.map.directions[every][:, moves],
            self.map.offset[every],
            self.map.lower[moves],
            self.map.upper[moves],
            tuple(self.map.names[k] for k in moves),
            self.label,
        )
        return replace(self, domain=self.domain.part(every), map=part), every

    def _support(self, a: Array, b: Array) -> Support:
        joint = a + (self.map.matrix.T @ b.T).T
        x = np.where(joint > 0, self.domain.upper, self.domain.lower)
        value = (joint * x).sum(axis=1) + b @ self.map.offset
        if not self.map.count:
            return Support(value, x, np.zeros((len(a), 0)))
        pull = (self.map.directions.T @ b.T).T
        parameters = np.where(pull > 0, self.map.upper, self.map.lower)
        return Support(value + (pull * parameters).sum(axis=1), x, parameters)

    def _domain_share(self, a: Array, b: Array) -> Array:
        """All terms that depend on the input."""
        found: Array = a + (self.map.matrix.T @ b.T).T
        return found

    def rounding(self, a: Array, b: Array) -> Array:
        """Covers two sums, over the pixels and then over pixels or parameters.

        What a coefficient loses to underflow is multiplied by a pixel or a parameter.
        """
        reach = abs(a) @ np.full(self.domain.size, self.domain.magnitude) + abs(b) @ self._reach
        terms = 2 * self.domain.size + self.map.count + 32
        largest = np.maximum(abs(self.map.lower), abs(self.map.upper)).sum()
        sizes = 1 + self.domain.size * self.domain.magnitude + float(largest)
        slack: Array = 2.0**-51 * terms * reach + UNDERFLOW * terms * sizes
        return slack

    def add_rows(self, model: LinearModel, x: Columns) -> ModelImage:
        low, high = self.image_bounds()
        copied = self._copied & (np.diff(self.map.matrix.indptr) == 1)
        x_p = np.empty(self.domain.size, dtype=np.int64)
        x_p[copied] = x[self.map.matrix[copied].indices]
        x_p[~copied] = model.add_columns(low[~copied], high[~copied])
        e = model.add_columns(self.map.lower, self.map.upper)
        free = np.flatnonzero(~self._copied)
        if free.size:
            blocks = [(x_p[free], 1.0), (x, -self.map.matrix[free])]
            blocks.append((e, -self.map.directions[free]))
            model.add_rows(blocks, self.map.offset[free], self.map.offset[free])
        return ModelImage(x_p, picked(e, model.column_count))

    def relax(self, model: LinearModel) -> RelaxedPair:
        """Needs no rows: the image is an expression in the pixels and the parameters."""
        return relaxed_map(model, self.domain, self.map)

    def describe(self, parameters: Array) -> dict[str, object]:
        values = parameters.tolist()
        if len(values) <= _MOST_NAMED:
            return {**dict(self.facts), **dict(zip(self.map.names, values, strict=True))}
        return {**dict(self.facts), "smallest parameter": min(values), "largest": max(values)}


def relaxed_map(model: LinearModel, domain: Domain, map_: AffineMap) -> RelaxedPair:
    """Add the pairs of an affine map to a model, exactly and without rows."""
    x = model.add_columns(domain.low, domain.high)
    e = model.add_columns(map_.lower, map_.upper)
    own, parameters = picked(x, model.column_count), picked(e, model.column_count)
    image = sparse.csr_array(map_.matrix @ own.matrix + map_.directions @ parameters.matrix)
    return RelaxedPair(own, Expression(image, map_.offset), parameters)


def identity_piece(domain: Domain) -> AffinePiece:
    """The piece `x_p = x`, without any perturbation."""
    same = sparse.csr_array(sparse.eye_array(domain.size, format="csr"))
    return AffinePiece(domain, "identity", fixed_map(same, np.zeros(domain.size)))


def _entries(matrix: sparse.csr_array, row: int) -> dict[int, Fraction]:
    part = slice(matrix.indptr[row], matrix.indptr[row + 1])
    weights = matrix.data[part].tolist()
    return dict(zip(matrix.indices[part].tolist(), map(Fraction, weights), strict=True))
