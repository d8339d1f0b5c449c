"""Pieces `x_p = A x + B e + c` with the parameters `e` in a box: whatever is affine.

The pairs `(x, x_p)` form a convex set, and the support is a sum of maxima, one for each pixel and
one for each parameter. Where such a map leads out of the input range and is to be clipped, the
network does it (see `to_clip`): a piece is the map before the clip.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.perturbation.base import AbstractPiece, Expression, RelaxedInput, Support
from vhagar.perturbation.domain import Array, Domain
from vhagar.perturbation.explaining import explain
from vhagar.perturbation.formula import Formula
from vhagar.perturbation.maps import AffineMap, extremes
from vhagar.solver.linear_model import Columns, LinearModel

Mask = NDArray[np.bool_]

# A map that leaves the input range by less than this part of its width stays inside: rounding makes
# maps do that, such as averages whose weights do not quite sum to one.
STAYS = 1e-9
# So many parameters are told one by one.
_MOST_NAMED = 12


@dataclass(frozen=True, eq=False)
class BoxAffinePiece(AbstractPiece):
    """One affine map with its parameters in a box. `clip` says whether its image is clipped."""

    domain: Domain
    label: str
    map: AffineMap = field()
    clip: bool
    facts: tuple[tuple[str, object], ...] = ()
    convex = True

    @property
    def parameter_bounds(self) -> tuple[Array, Array]:
        return self.map.lower, self.map.upper

    @cached_property
    def formula(self) -> Formula:
        return Formula(self.map, clip=self.to_clip() is not None)

    @cached_property
    def _copied(self) -> Mask:
        """The images that need no arithmetic."""
        return Formula(self.map).copied

    @property
    def exact_apply(self) -> bool:  # type: ignore[override]
        return bool(self._copied.all())

    @cached_property
    def _reach(self) -> Array:
        """The sum of the absolute values of what each image is summed from, at most."""
        found: Array = abs(self.map.matrix) @ np.full(self.domain.size, self.domain.magnitude)
        found = found + abs(self.map.directions) @ np.maximum(
            abs(self.map.lower), abs(self.map.upper)
        )
        return found + abs(self.map.offset)

    @cached_property
    def _room(self) -> Array:
        """More than what rounding does to each image: half an ulp for each term and each sum."""
        terms = np.diff(self.map.matrix.indptr) + np.diff(self.map.directions.indptr)
        room = 2.0**-51 * (terms + 8) * self._reach + np.finfo(np.float64).tiny
        return np.where(self._copied, 0.0, room)

    @property
    def slack(self) -> float:
        return float(self._room.max(initial=0.0))

    def enclosure(self, x: Array, parameters: Array) -> tuple[Array, Array]:
        image = self.apply(x, parameters)
        return image - self._room, image + self._room

    def apply(self, x: Array, parameters: Array) -> Array:
        moves = (self.map.directions @ self.project(parameters).T).T
        image: Array = (self.map.matrix @ x.T).T + moves + self.map.offset
        return image

    def image_bounds(self) -> tuple[Array, Array]:
        return self._image_bounds

    @cached_property
    def _image_bounds(self) -> tuple[Array, Array]:
        low, high = self.map.extremes(self.domain)
        return low - 2 * self._room, high + 2 * self._room

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
        same = sparse.eye_array(self.domain.size, format="csr")
        gap = sparse.csr_array(self.map.matrix - same)
        low, high = extremes(gap, self.domain.lower, self.domain.upper)
        least, most = extremes(self.map.directions, self.map.lower, self.map.upper)
        fall, rise = low + least + self.map.offset, high + most + self.map.offset
        terms = np.diff(gap.indptr) + np.diff(self.map.directions.indptr)
        room = 2.0**-49 * (terms + 8) * (self._reach + self.domain.magnitude)
        rises, falls = rise > room, fall < -room
        unchanged = self._copied & (self.map.matrix.diagonal() == 1.0)
        # Where rounding could decide, it does not.
        for row in np.flatnonzero(((abs(rise) <= room) | (abs(fall) <= room)) & ~unchanged):
            lowest, highest = self._exact_change(int(row))
            falls[row], rises[row] = lowest < 0, highest > 0
        return rises & ~unchanged, falls & ~unchanged

    def _exact_change(self, row: int) -> tuple[Fraction, Fraction]:
        """The least and the most that a pixel changes by, without rounding."""
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

    def _left_over(self, x: Array, x_p: Array) -> Array:
        """What the parameters have to explain."""
        rest: Array = x_p - (self.map.matrix @ x.T).T - self.map.offset
        return rest

    def recover(self, x: Array, x_p: Array) -> Array:
        rest = self._left_over(x[None], x_p[None])[0]
        return explain(self.map, rest, self._room)[0]

    def contains(self, x: Array, x_p: Array) -> NDArray[np.bool_]:
        inside = ((x >= self.domain.lower) & (x <= self.domain.upper)).all(axis=1)
        rest = self._left_over(x, x_p)
        found = [explain(self.map, each, 2 * self._room)[1] for each in rest]
        return np.asarray(inside & np.array(found, dtype=np.bool_))

    def local(self, pixels: Columns) -> tuple[BoxAffinePiece, Columns]:
        # With the pixels that the images of `pixels` are made of, and the parameters that move
        # them. The other images have no weight.
        sources = self.map.matrix[pixels].indices
        every = np.unique(np.concatenate([pixels, sources])).astype(np.int64)
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
        return replace(self, domain=self.domain.part(len(every)), map=part), every

    def _support(self, a: Array, b: Array) -> Support:
        joint = a + (self.map.matrix.T @ b.T).T
        pull = (self.map.directions.T @ b.T).T
        x = np.where(joint > 0, self.domain.upper, self.domain.lower)
        parameters = np.where(pull > 0, self.map.upper, self.map.lower)
        value = (joint * x).sum(axis=1) + (pull * parameters).sum(axis=1) + b @ self.map.offset
        return Support(value, x, parameters)

    def _rounding(self, a: Array, b: Array) -> Array:
        """Coefficients are summed over the pixels, then over pixels or parameters."""
        reach = abs(a) @ np.full(self.domain.size, self.domain.magnitude) + abs(b) @ self._reach
        terms = 2 * self.domain.size + self.map.count + 32
        slack: Array = 2.0**-51 * terms * reach + np.finfo(np.float64).tiny
        return slack

    def add_rows(self, model: LinearModel, x: Columns) -> Columns:
        low, high = self.image_bounds()
        copied = self._copied & (np.diff(self.map.matrix.indptr) == 1)
        x_p = np.empty(self.domain.size, dtype=np.int64)
        x_p[copied] = x[self.map.matrix[copied].indices]
        x_p[~copied] = model.add_columns(low[~copied], high[~copied])
        free = np.flatnonzero(~self._copied)
        if free.size:
            e = model.add_columns(self.map.lower, self.map.upper)
            blocks = [(x_p[free], 1.0), (x, -self.map.matrix[free])]
            if e.size:
                blocks.append((e, -self.map.directions[free]))
            model.add_rows(blocks, self.map.offset[free], self.map.offset[free])
        return x_p

    def relax(self, model: LinearModel) -> tuple[Expression, Expression]:
        """Without rows: the image is an expression in the pixels and the parameters."""
        return self._relaxed(model)[:2]

    def _relaxed(self, model: LinearModel) -> tuple[Expression, Expression, Expression]:
        size, count = self.domain.size, self.map.count
        x = model.add_columns(np.full(size, self.domain.lower), np.full(size, self.domain.upper))
        e = model.add_columns(self.map.lower, self.map.upper)
        pick = sparse.eye_array(model.column_count, format="csr")
        image = sparse.csr_array(self.map.matrix @ pick[x] + self.map.directions @ pick[e])
        return (
            Expression(pick[x], np.zeros(size)),
            Expression(image, self.map.offset),
            Expression(pick[e], np.zeros(count)),
        )

    def relax_stage(
        self, model: LinearModel, matrix: sparse.csr_array, bias: Array
    ) -> RelaxedInput:
        x, x_p, parameters = self._relaxed(model)
        first, second = (part.then(matrix, bias, model.column_count) for part in (x, x_p))
        return RelaxedInput(x, x_p, parameters, first, second)

    def describe(self, parameters: Array) -> dict[str, object]:
        values = parameters.tolist()
        if len(values) <= _MOST_NAMED:
            return {**dict(self.facts), **dict(zip(self.map.names, values, strict=True))}
        return {**dict(self.facts), "smallest parameter": min(values), "largest": max(values)}


def _entries(matrix: sparse.csr_array, row: int) -> dict[int, Fraction]:
    part = slice(matrix.indptr[row], matrix.indptr[row + 1])
    weights = matrix.data[part].tolist()
    return dict(zip(matrix.indices[part].tolist(), map(Fraction, weights), strict=True))
