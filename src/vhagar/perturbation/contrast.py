"""Every pixel's distance from black is multiplied by the same factor.

The product `e * x` is bilinear, yet nothing here needs a quadratic solver: for a fixed e it is
linear, the support is convex in e, and a range of e is relaxed and split.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.errors import InvalidInput
from vhagar.perturbation.base import (
    ROUNDING,
    Expression,
    Perturbation,
    PixelCorners,
    RelaxedInput,
)
from vhagar.perturbation.domain import Array, Domain
from vhagar.perturbation.formula import Formula
from vhagar.perturbation.maps import AffineMap
from vhagar.perturbation.ranges import GivenRange, Range, as_range, interval_text, require_within
from vhagar.perturbation.scalar import AbstractScalarPiece
from vhagar.solver.linear_model import Array as LinearArray
from vhagar.solver.linear_model import Columns, LinearModel, Products

# The largest factor, and the inverse of the smallest: beyond any use, and no product overflows.
_LARGEST = 1e6


@dataclass(frozen=True)
class Contrast(Perturbation):
    """`contrast([lo,hi])`: multiplies every pixel by one e in [lo,hi], 0 < lo."""

    span: Range

    name = "contrast"

    def __init__(self, span: GivenRange) -> None:
        low, high = as_range(span, "the range of contrast")
        if low <= 0:
            raise InvalidInput(
                f"the range of contrast must be above 0, not {interval_text((low, high))}"
            )
        require_within((low, high), 1 / _LARGEST, _LARGEST, "the range of contrast")
        object.__setattr__(self, "span", (low, high))

    def pieces(self, domain: Domain, clip: bool = True) -> tuple[ContrastPiece, ...]:
        low, high = self.span
        # Split at 1, so that a piece only brightens or only darkens.
        spans = [(low, 1.0), (1.0, high)] if low < 1 < high else [(low, high)]
        label = str(self)
        return tuple(ContrastPiece(domain, label, span, clip) for span in spans)

    def arguments(self) -> tuple[str, ...]:
        return (interval_text(self.span),)


@dataclass(frozen=True, eq=False)
class ContrastPiece(AbstractScalarPiece):
    """`x_p - black = e (x - black)`, clipped to the domain or not; e stays on one side of 1."""

    exact_products = True

    @property
    def clips(self) -> bool:
        """Factors up to 1 never leave the domain."""
        return self.clip and self.span[1] > 1

    @property
    def spread(self) -> float:  # type: ignore[override]
        return (self.span[1] - self.span[0]) / self.span[0]

    @property
    def exact_rows(self) -> bool:  # type: ignore[override]
        return self.fixed

    @property
    def ratio(self) -> float:  # type: ignore[override]
        return math.sqrt(self.span[0] * self.span[1])

    def apply(self, x: Array, parameters: Array) -> Array:
        black = self.domain.lower
        x_p = black + np.clip(parameters, *self.span) * (x - black)
        return np.clip(x_p, black, self.domain.upper) if self.clip else x_p

    @cached_property
    def formula(self) -> Formula:
        size = self.domain.size
        nothing, still = sparse.csr_array((size, size)), sparse.csr_array((size, 1))
        black = np.full(size, self.domain.lower)
        moved = AffineMap(nothing, still, black, *self.parameter_bounds, label=self.label)
        return Formula(moved, clip=self.clips, product=True)

    @property
    def _best_ends(self) -> Range:
        # Clipped, a pixel and its image lie in the triangle (black, black), (black + width / e,
        # upper), (upper, upper), which grows with e: the largest factor is best for every pixel.
        # Unclipped, the support is convex in e.
        return (self.span[1], self.span[1]) if self.clips else self.span

    def _clip_begins(self, e: float) -> float | None:
        return self.domain.lower + self.domain.width / e if self.clips else None

    def image_bounds(self) -> tuple[Array, Array]:
        largest = self.span[1] * self.domain.width
        high = self.domain.lower + largest
        high += ROUNDING * (largest + self.domain.magnitude)  # each step above was rounded
        if self.clip:
            high = min(high, self.domain.upper)
        return np.full(self.domain.size, self.domain.lower), np.full(self.domain.size, high)

    def changes(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        every = np.ones(self.domain.size, dtype=np.bool_)
        return every & (self.span[1] > 1), every & (self.span[0] < 1)

    def recover(self, x: Array, x_p: Array) -> Array:
        u, v = x - self.domain.lower, x_p - self.domain.lower
        free = v < self.domain.width - self.slack if self.clips else np.ones_like(u, dtype=bool)
        weight = float((u[free] ** 2).sum())
        if weight == 0.0:  # all black or all clipped, which the largest factor explains best
            return np.array([self.span[1]])
        factor = float((u * v)[free].sum()) / weight
        low, high = self._explanations(x[None], x_p[None])
        if low.max() <= high.min():  # the clipped pixels have a say as well
            factor = float(np.clip(factor, low.max(), high.min()))
        return self.project(np.array([factor]))

    def _explanations(self, x: Array, x_p: Array) -> tuple[Array, Array]:
        u, v = x - self.domain.lower, x_p - self.domain.lower
        black = u <= self.slack
        safe = np.where(black, 1.0, u)
        low, high = (v - self.slack) / safe, (v + self.slack) / safe
        if self.clips:
            high = np.where(v >= self.domain.width - self.slack, np.inf, high)
        # A black pixel stays black under every factor, and any other image of it is wrong.
        stays = abs(v) <= self.slack * (1 + self.span[1])
        low = np.where(black, np.where(stays, -np.inf, np.inf), low)
        return low, np.where(black, np.inf, high)

    def local(self, pixels: Columns) -> tuple[ContrastPiece, Columns]:
        return replace(self, domain=self.domain.part(len(pixels))), pixels

    @property
    def convex(self) -> bool:  # type: ignore[override]
        return self.fixed and not self.clips

    def pixel_corners(self) -> PixelCorners | None:
        if not self.clips:
            return None
        black, white, width = self.domain.lower, self.domain.upper, self.domain.width
        # Where the clip begins for the largest and the smallest factor; then both ends.
        xs = np.array([black + width / self.span[1], black + width / self.span[0], black, white])
        ps = np.array([white, white, black, white])
        return PixelCorners(xs, ps, np.array([0, 0, -1, 1]))

    def relax(self, model: LinearModel) -> tuple[Expression, Expression]:
        if not self.convex:
            return super().relax(model)
        # One factor without a clip needs no rows: x_p is a function of x.
        size, black, e = self.domain.size, self.domain.lower, self.span[0]
        model.add_columns(np.full(size, black), np.full(size, self.domain.upper))
        same = sparse.csr_array(sparse.eye_array(size, format="csr"))
        zero = np.zeros(size)
        return Expression(same, zero), Expression(e * same, zero + (black - e * black))

    def relax_stage(
        self, model: LinearModel, matrix: sparse.csr_array, bias: Array
    ) -> RelaxedInput:
        """A range of factors is relaxed where it meets the neurons, which are fewer than pixels.

        With `g = W (x - black)` the second copy is `e g`, a product of two bounded numbers.
        """
        if self.fixed or self.clips:
            return super().relax_stage(model, matrix, bias)
        size, black, width = self.domain.size, self.domain.lower, self.domain.width
        low, high = self.span
        x = model.add_columns(np.full(size, black), np.full(size, self.domain.upper))
        e = model.add_columns(low, high)
        ends = [np.asarray(part.sum(axis=1)).reshape(-1) * width for part in _signed(matrix)]
        g = model.add_columns(ends[0], ends[1])
        h = model.add_columns(np.minimum(ends[0] * high, ends[0]), np.maximum(ends[1] * high, 0))
        dark = matrix @ np.full(size, black)
        model.add_rows([(x, matrix), (g, -1.0)], dark, dark)
        for factor, end, below in (
            (low, ends[0], True),
            (high, ends[1], True),
            (high, ends[0], False),
            (low, ends[1], False),
        ):
            corner = -factor * end
            sides = (corner, np.inf) if below else (-np.inf, corner)
            model.add_rows([(h, 1.0), (g, -factor), (e, -end[:, None])], *sides)
        pick = sparse.eye_array(model.column_count, format="csr")
        return RelaxedInput(
            Expression(pick[x], np.zeros(size)),
            None,
            Expression(pick[e], np.zeros(1)),
            Expression(pick[g], dark + bias),
            Expression(pick[h], dark + bias),
        )

    def add_rows(self, model: LinearModel, x: Columns) -> Columns:
        low, high = self.image_bounds()
        if not self.clips:
            x_p = model.add_columns(low, high)
            self._add_product(model, x, x_p)
            return x_p
        black, width = self.domain.lower, self.domain.width
        overshoot = self.span[1] * width - width
        stretched = model.add_columns(low, np.nextafter(high + overshoot, np.inf))
        self._add_product(model, x, stretched)
        x_p = model.add_columns(low, high)
        # clipped = 1: the pixel stands at the upper end; 0: it is the product.
        clipped = model.add_columns(np.zeros(len(x)), 1.0, integer=True)
        model.add_rows([(x_p, 1.0), (stretched, -1.0)], -np.inf, 0.0)
        model.add_rows([(x_p, 1.0), (stretched, -1.0), (clipped, overshoot)], 0.0, np.inf)
        model.add_rows([(x_p, 1.0), (clipped, -width)], black, np.inf)
        return x_p

    def _add_product(self, model: LinearModel, x: Columns, y: Columns) -> None:
        """`y - black = e (x - black)` for one e: exact when e is fixed, else its hull.

        The product itself is there for solvers that know products, as in the paper.
        """
        black, width = self.domain.lower, self.domain.width
        low, high = self.span
        shift_low, shift_high = black - low * black, black - high * black
        if self.fixed:
            model.add_rows([(y, 1.0), (x, -low)], shift_low, shift_low)
            return
        e = model.add_columns(low, high)
        model.add_products(Products(y, int(e[0]), x, black))
        spread: LinearArray = np.full((len(x), 1), -width)
        model.add_rows([(y, 1.0), (x, -low)], shift_low, np.inf)
        model.add_rows([(y, 1.0), (x, -high)], -np.inf, shift_high)
        model.add_rows([(y, 1.0), (x, -high), (e, spread)], shift_high - high * width, np.inf)
        model.add_rows([(y, 1.0), (x, -low), (e, spread)], -np.inf, shift_low - low * width)


def _signed(matrix: sparse.csr_array) -> tuple[sparse.csr_array, sparse.csr_array]:
    """The negative and the positive entries."""
    return matrix.minimum(0), matrix.maximum(0)
