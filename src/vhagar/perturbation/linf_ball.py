"""Pieces in which chosen pixels move freely by up to `e` inside the domain: linf and patch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.perturbation.base import AbstractPiece, Expression, Support, SupportCorners
from vhagar.perturbation.domain import Array, Domain
from vhagar.perturbation.formula import Formula
from vhagar.perturbation.maps import AffineMap
from vhagar.solver.linear_model import Columns, LinearModel


@dataclass(frozen=True, eq=False)
class LinfBallPiece(AbstractPiece):
    """`abs(x_p - x) <= limit` on the pixels of `mask`, `x_p = x` elsewhere, all in the domain.

    The parameters are the changes of the pixels in the mask, in order.
    """

    domain: Domain
    label: str
    limit: float
    mask: NDArray[np.bool_]
    facts: tuple[tuple[str, object], ...] = ()
    exact_apply = True
    convex = True

    @property
    def parameter_bounds(self) -> tuple[Array, Array]:
        ends = np.full(int(self.mask.sum()), self.limit)
        return -ends, ends

    def apply(self, x: Array, parameters: Array) -> Array:
        change = np.clip(parameters, -self.limit, self.limit)
        x_p = x.copy()
        moved = np.clip(x[:, self.mask] + change, self.domain.lower, self.domain.upper)
        x_p[:, self.mask] = self._pulled_inside(x[:, self.mask], moved)
        return x_p

    def _pulled_inside(self, x: Array, moved: Array) -> Array:
        """Undo the rounding of `x + change` where it went beyond the limit by an ulp."""
        return np.where(within(x, moved, self.limit), moved, np.nextafter(moved, x))

    def contains(self, x: Array, x_p: Array) -> NDArray[np.bool_]:
        low, high = self.domain.lower, self.domain.upper
        inside = (x >= low) & (x <= high) & (x_p >= low) & (x_p <= high)
        close = np.where(self.mask, within(x, x_p, self.limit), x_p == x)
        return np.asarray((inside & close).all(axis=1))

    def image_bounds(self) -> tuple[Array, Array]:
        size = self.domain.size
        return np.full(size, self.domain.lower), np.full(size, self.domain.upper)

    def changes(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        return self.mask, self.mask

    def recover(self, x: Array, x_p: Array) -> Array:
        return self.project((x_p - x)[self.mask])

    def local(self, pixels: Columns) -> tuple[LinfBallPiece, Columns]:
        return replace(self, domain=self.domain.part(len(pixels)), mask=self.mask[pixels]), pixels

    @cached_property
    def free_pixels(self) -> Columns:  # type: ignore[override]
        return np.flatnonzero(self.mask)

    @cached_property
    def formula(self) -> Formula:
        size = self.domain.size
        same = sparse.csr_array(sparse.eye_array(size, format="csr"))
        spread = same[:, self.free_pixels]
        moved = AffineMap(same, spread, np.zeros(size), *self.parameter_bounds, label=self.label)
        return Formula(moved, clip=True)

    def support_corners(self) -> SupportCorners:
        return self._support_corners

    @cached_property
    def _support_corners(self) -> SupportCorners:
        low, high = self.domain.lower, self.domain.upper
        step = min(self.limit, self.domain.width)
        # The vertices of {x, x_p in [low, high], abs(x_p - x) <= step}. The domain's width is
        # rounded, so the sums may step over its ends.
        above, below = min(low + step, high), max(high - step, low)
        xs = np.array([low, high, above, low, high, below])
        ps = np.array([low, high, low, above, below, high])
        # Off the mask only the two vertices on the diagonal count.
        return SupportCorners(xs[None], ps[None], None if self.mask.all() else self.mask)

    def _support(self, a: Array, b: Array) -> Support:
        value, x, x_p, _ = self.support_corners().best(a, b)
        return Support(value, x, self.project((x_p - x)[:, self.mask]))

    def add_rows(self, model: LinearModel, x: Columns) -> Columns:
        x_p = x.copy()
        count = int(self.mask.sum())
        x_p[self.mask] = model.add_columns(
            np.full(count, self.domain.lower), np.full(count, self.domain.upper)
        )
        if count and self.limit < self.domain.width:
            blocks = [(x_p[self.mask], 1.0), (x[self.mask], -1.0)]
            model.add_rows(blocks, -self.limit, self.limit)
        return x_p

    def relax(self, model: LinearModel) -> tuple[Expression, Expression]:
        """Without rows: `x = z + p`, `x_p = z + q` describes exactly the pairs of a pixel."""
        low, high, size = self.domain.lower, self.domain.upper, self.domain.size
        half = min(self.limit, self.domain.width) / 2
        inner = np.where(self.mask, half, 0.0)
        # Where the limit is the whole range, the rounded ends may have changed places.
        middle = model.add_columns(np.minimum(low + inner, high - inner), high - inner)
        count = int(self.mask.sum())
        before = model.add_columns(np.full(count, -half), half)
        after = model.add_columns(np.full(count, -half), half)
        pick = sparse.eye_array(model.column_count, format="csr")
        spread = sparse.eye_array(size, format="csr")[:, self.mask]
        zero = np.zeros(size)
        return (
            Expression(sparse.csr_array(pick[middle] + spread @ pick[before]), zero),
            Expression(sparse.csr_array(pick[middle] + spread @ pick[after]), zero),
        )

    def describe(self, parameters: Array) -> dict[str, object]:
        largest = float(abs(parameters).max()) if parameters.size else 0.0
        return {**dict(self.facts), "largest change": largest}


def within(x: Array, y: Array, limit: float) -> NDArray[np.bool_]:
    """`abs(y - x) <= limit` in exact arithmetic: the difference with its rounding error."""
    difference = y - x
    back = difference - y
    error = (y - (difference - back)) - (x + back)
    over = (difference > limit) | ((difference == limit) & (error > 0))
    under = (difference < -limit) | ((difference == -limit) & (error < 0))
    return np.asarray(~(over | under))
