"""Pieces in which pixels change independently by up to `e` inside the input range.

Linf and patch have such pieces, and so has linf after a perturbation that moves or blackens pixels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from vhagar.array_types import Array, Mask
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.formula import Formula
from vhagar.perturbation.maps import AffineMap
from vhagar.perturbation.piece import AbstractPiece, at_least_one
from vhagar.perturbation.relaxed import Expression, ModelImage, RelaxedPair, add_domain_rows, picked
from vhagar.perturbation.support import Ball, Support, SupportCorners
from vhagar.solver.linear_model import Columns, LinearModel


@dataclass(frozen=True, eq=False)
class LinfBallPiece(AbstractPiece):
    """`abs(x_p - y) <= limit` on the pixels of `mask`, `x_p = y` elsewhere, all in the input range.

    Each pixel of `y` is a pixel of `x` or black: `source` `(size,)` is its number in `x`, -1 for
    black, and no pixel occurs twice. The parameters are the changes of the pixels in the mask, in
    order.
    """

    domain: Domain
    label: str
    limit: float
    mask: Mask
    source: Columns
    facts: tuple[tuple[str, object], ...] = ()
    exact_apply = True
    convex = True

    @property
    def parameter_bounds(self) -> tuple[Array, Array]:
        ends = np.full(len(self.free_pixels), self.limit)
        return -ends, ends

    @cached_property
    def free_pixels(self) -> Columns:  # type: ignore[override]
        return np.flatnonzero(self.mask)

    @cached_property
    def ball(self) -> Ball | None:  # type: ignore[override]
        return Ball(self.limit, self.mask) if self._in_place else None

    @cached_property
    def _in_place(self) -> bool:
        """Whether `y = x`: no pixel is moved or blackened before it changes."""
        return bool((self.source == np.arange(self.domain.size)).all())

    @cached_property
    def _black(self) -> Mask:
        return np.asarray(self.source < 0)

    @cached_property
    def _kept(self) -> Columns:
        return np.flatnonzero(~self._black)

    @cached_property
    def _moves(self) -> sparse.csr_array:
        """The matrix that maps `x` to `y`, except for the black pixels."""
        size, kept = self.domain.size, self._kept
        return sparse.csr_array((np.ones(len(kept)), (kept, self.source[kept])), shape=(size, size))

    @cached_property
    def _moving(self) -> Mask:
        """The pixels of `x` that occur in `y` and may change there."""
        found = np.zeros(self.domain.size, dtype=np.bool_)
        found[self.source[self._kept]] = self.mask[self._kept]
        return found

    @property
    def _brightest_black(self) -> float:
        """The largest value to which a black pixel can change."""
        step = min(self.limit, self.domain.width)
        return min(self.domain.lower + step, self.domain.upper)

    @cached_property
    def formula(self) -> Formula:
        same = sparse.csr_array(sparse.eye_array(self.domain.size, format="csr"))
        dark = np.where(self._black, self.domain.lower, 0.0)
        spread = same[:, self.free_pixels]
        ends = self.parameter_bounds
        return Formula(AffineMap(self._moves, spread, dark, *ends, label=self.label), clip=True)

    def _start(self, x: Array) -> Array:
        """The inputs `y` before the change by up to `limit`."""
        if self._in_place:
            return x
        return np.where(self._black, self.domain.lower, x[:, self.source])

    def apply(self, x: Array, parameters: Array) -> Array:
        change = np.clip(parameters, -self.limit, self.limit)
        x_p = np.array(self._start(x))
        start = x_p[:, self.mask]
        moved = np.clip(start + change, self.domain.lower, self.domain.upper)
        # Undo the rounding of the sum where it went beyond the limit by an ulp.
        near = within(start, moved, self.limit)
        x_p[:, self.mask] = np.where(near, moved, np.nextafter(moved, start))
        return x_p

    def contains(self, x: Array, x_p: Array, parameters: Array) -> Mask:
        """Whether all changes are within the limit, in exact arithmetic; `apply` plays no part."""
        inside = (x_p >= self.domain.lower) & (x_p <= self.domain.upper)
        start = self._start(x)
        close = np.where(self.mask, within(start, x_p, self.limit), x_p == start)
        known = (abs(parameters) <= self.limit).all(axis=1)
        return np.asarray((inside & close).all(axis=1) & known & self.domain.contains(x))

    def image_bounds(self) -> tuple[Array, Array]:
        low, size = self.domain.lower, self.domain.size
        # One step outward, because the sum may have been rounded inward.
        top = min(float(np.nextafter(self._brightest_black, np.inf)), self.domain.upper)
        black = np.where(self.mask, top, low)
        return np.full(size, low), np.where(self._black, black, self.domain.upper)

    def changes(self) -> tuple[Mask, Mask]:
        falls = self.mask | (self.source != np.arange(self.domain.size))
        return falls & (self.mask | ~self._black), falls

    def local(self, pixels: Columns) -> tuple[LinfBallPiece, Columns]:
        sources = self.source[pixels]
        every = at_least_one(np.unique(np.concatenate([pixels, sources[sources >= 0]])))
        place = np.full(self.domain.size + 1, -1)
        place[every] = np.arange(len(every))
        # A source outside of `every` belongs to an image pixel without weight.
        moved, mask = place[self.source[every]], self.mask[every]
        return replace(self, domain=self.domain.part(every), mask=mask, source=moved), every

    def support_corners(self) -> SupportCorners | None:
        return self._corners if self._in_place else None

    @cached_property
    def _corners(self) -> SupportCorners:
        """The corners of a pixel of `x` and its image."""
        low, high = self.domain.lower, self.domain.upper
        step = min(self.limit, self.domain.width)
        # The vertices of {x, x_p in [low, high], abs(x_p - x) <= step}. The domain's width is
        # rounded, so the sums may step over its ends.
        above, below = min(low + step, high), max(high - step, low)
        xs = np.array([low, high, above, low, high, below])
        ps = np.array([low, high, low, above, below, high])
        # A pixel that does not change has only the two vertices on the diagonal.
        return SupportCorners(xs[None], ps[None], None if self._moving.all() else self._moving)

    def _support(self, a: Array, b: Array) -> Support:
        if self._in_place:
            value, x, x_p, _ = self._corners.best(a, b)
            return Support(value, x, self.project((x_p - x)[:, self.mask]))
        # The image of a blackened pixel does not depend on `x`.
        pulled = self._pulled(b)
        value, x, x_p, _ = self._corners.best(a, pulled)
        low, top = self.domain.lower, self._brightest_black
        becomes = np.where((b > 0) & self.mask, top, low)
        value = value + np.where(self._black, b * becomes, 0.0).sum(axis=1)
        changes = np.where(self._black, becomes - low, (x_p - x)[:, self.source])
        return Support(value, x, self.project(changes[:, self.mask]))

    def _pulled(self, b: Array) -> Array:
        """Coefficients on `x_p`, moved back to the pixels of `x` that they came from."""
        pulled = np.zeros_like(b)
        pulled[:, self.source[self._kept]] = b[:, self._kept]
        return pulled

    def _domain_share(self, a: Array, b: Array) -> Array:
        return self._corners.domain_share(self.domain, a, self._pulled(b))

    def _joint_share(self, a: Array, b: Array) -> Array | None:
        """Start as if images only moved along with the input: the domain gets all coefficients."""
        return a + b if self._in_place else None

    def add_rows(self, model: LinearModel, x: Columns) -> ModelImage:
        x_p = x[self.source]
        low, high = self.image_bounds()
        new = self.mask | self._black
        x_p[new] = model.add_columns(low[new], high[new])
        tied = self.mask & ~self._black
        if tied.any() and self.limit < self.domain.width:
            blocks = [(x_p[tied], 1.0), (x[self.source[tied]], -1.0)]
            model.add_rows(blocks, -self.limit, self.limit)
        width = model.column_count
        return ModelImage(x_p, self._parameters(picked(x, width), picked(x_p, width)))

    def _parameters(self, x: Expression, x_p: Expression) -> Expression:
        """The parameters as expressions: `x_p - y` on the pixels that may change."""
        matrix = sparse.csr_array(x_p.matrix - self._moves @ x.matrix)[self.free_pixels]
        dark = np.where(self._black, self.domain.lower, 0.0)
        rest = x_p.constant - self._moves @ x.constant - dark
        return Expression(matrix, rest[self.free_pixels])

    def relax(self, model: LinearModel) -> RelaxedPair:
        """Needs no rows: `x = z + p`, `x_p = z + q` describes exactly the pairs of a pixel."""
        low, high, size = self.domain.lower, self.domain.upper, self.domain.size
        half = min(self.limit, self.domain.width) / 2
        inner = np.where(self._moving, half, 0.0)
        # Where the limit is the whole range, rounding may have put the ends in the wrong order.
        middle = model.add_columns(np.minimum(low + inner, high - inner), high - inner)
        count = int(self._moving.sum())
        before = model.add_columns(np.full(count, -half), half)
        after = model.add_columns(np.full(count, -half), half)
        image_low, image_high = self.image_bounds()
        black = np.flatnonzero(self._black)
        risen = model.add_columns(image_low[black], image_high[black])
        width = model.column_count
        spread = sparse.eye_array(size, format="csr")[:, self._moving]
        centre = picked(middle, width).matrix
        x, near = (centre + spread @ picked(part, width).matrix for part in (before, after))
        own = sparse.csr_array((np.ones(len(black)), (black, risen)), shape=(size, width))
        image = near if self._in_place else self._moves @ near + own
        zero = np.zeros(size)
        pair = Expression(sparse.csr_array(x), zero), Expression(sparse.csr_array(image), zero)
        add_domain_rows(model, self.domain, pair[0])
        return RelaxedPair(*pair, self._parameters(*pair))

    def describe(self, parameters: Array) -> dict[str, object]:
        largest = float(abs(parameters).max()) if parameters.size else 0.0
        return {**dict(self.facts), "largest change": largest}


def within(x: Array, y: Array, limit: float) -> Mask:
    """Whether `abs(y - x) <= limit` exactly, by the rounded difference and its rounding error."""
    difference = y - x
    back = difference - y
    error = (y - (difference - back)) - (x + back)
    over = (difference > limit) | ((difference == limit) & (error > 0))
    under = (difference < -limit) | ((difference == -limit) & (error < 0))
    return np.asarray(~(over | under))
