"""Every pixel changes by the same amount.

With clipping, `x_p - x` is `min(e, upper - x)`, not `e`: two different pixels need not keep their
difference, and each pixel is a two-piece function of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.perturbation.base import Expression, Perturbation, PixelCorners, Support
from vhagar.perturbation.domain import Array, Domain
from vhagar.perturbation.formula import Formula
from vhagar.perturbation.maps import AffineMap
from vhagar.perturbation.ranges import GivenRange, Range, as_range, interval_text, require_within
from vhagar.perturbation.scalar import AbstractScalarPiece
from vhagar.solver.linear_model import Columns, LinearModel


@dataclass(frozen=True)
class Brightness(Perturbation):
    """`brightness([lo,hi])`: adds one e in [lo,hi] to every pixel."""

    span: Range

    name = "brightness"

    def __init__(self, span: GivenRange) -> None:
        object.__setattr__(self, "span", as_range(span, "the range of brightness"))

    def pieces(self, domain: Domain, clip: bool = True) -> tuple[BrightnessPiece, ...]:
        width = domain.width
        require_within(self.span, -width, width, "the range of brightness")
        low, high = self.span
        # Split at 0, so that a piece only brightens or only darkens.
        spans = [(low, 0.0), (0.0, high)] if low < 0 < high else [(low, high)]
        label = str(self)
        return tuple(BrightnessPiece(domain, label, span, clip) for span in spans)

    def arguments(self) -> tuple[str, ...]:
        return (interval_text(self.span),)


@dataclass(frozen=True, eq=False)
class BrightnessPiece(AbstractScalarPiece):
    """`x_p = x + e`, clipped to the domain or not; e does not change sign over the span."""

    @property
    def brightens(self) -> bool:
        return self.span[0] >= 0

    def apply(self, x: Array, parameters: Array) -> Array:
        x_p = x + np.clip(parameters, *self.span)
        return np.clip(x_p, self.domain.lower, self.domain.upper) if self.clip else x_p

    @cached_property
    def formula(self) -> Formula:
        size = self.domain.size
        same, every = sparse.eye_array(size, format="csr"), np.ones((size, 1))
        moved = AffineMap(same, every, np.zeros(size), *self.parameter_bounds, label=self.label)
        return Formula(moved, clip=self.clip)

    @property
    def _best_ends(self) -> Range:
        return self.span  # the support is convex in e

    def _clip_begins(self, e: float) -> float | None:
        if not self.clip:
            return None
        return self.domain.upper - e if self.brightens else self.domain.lower - e

    def image_bounds(self) -> tuple[Array, Array]:
        # One step outward, as the sums may have been rounded inward.
        low = np.nextafter(self.domain.lower + self.span[0], -np.inf)
        high = np.nextafter(self.domain.upper + self.span[1], np.inf)
        if self.clip:
            low, high = np.clip((low, high), self.domain.lower, self.domain.upper)
        return np.full(self.domain.size, low), np.full(self.domain.size, high)

    def changes(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        every = np.ones(self.domain.size, dtype=np.bool_)
        return every & (self.span[1] > 0), every & (self.span[0] < 0)

    def recover(self, x: Array, x_p: Array) -> Array:
        change = x_p - x
        if not self.clip:
            return self.project(np.array([np.median(change)]))
        # Clipped pixels change by less than e.
        return self.project(np.array([change.max() if self.brightens else change.min()]))

    def _explanations(self, x: Array, x_p: Array) -> tuple[Array, Array]:
        low, high = x_p - x - self.slack, x_p - x + self.slack
        if self.clip and self.brightens:
            high = np.where(x_p >= self.domain.upper - self.slack, np.inf, high)
        elif self.clip:
            low = np.where(x_p <= self.domain.lower + self.slack, -np.inf, low)
        return low, high

    def local(self, pixels: Columns) -> tuple[BrightnessPiece, Columns]:
        return replace(self, domain=self.domain.part(len(pixels))), pixels

    def _support(self, a: Array, b: Array) -> Support:
        if self.clip:
            return super()._support(a, b)
        x = np.where(a + b > 0, self.domain.upper, self.domain.lower)
        total = b.sum(axis=1)
        e = np.where(total > 0, self.span[1], self.span[0])
        return Support(((a + b) * x).sum(axis=1) + total * e, x, e[:, None])

    @property
    def convex(self) -> bool:  # type: ignore[override]
        return not self.clip

    def relax(self, model: LinearModel) -> tuple[Expression, Expression]:
        if self.clip:
            return super().relax(model)
        # Without the clip no rows are needed: x_p is a function of x and e.
        size = self.domain.size
        model.add_columns(np.full(size, self.domain.lower), np.full(size, self.domain.upper))
        model.add_columns(*self.span)
        same = sparse.eye_array(size, size + 1, format="csr")
        shift = sparse.csr_array(np.eye(1, size + 1, size).repeat(size, axis=0))
        zero = np.zeros(size)
        return Expression(same, zero), Expression(sparse.csr_array(same + shift), zero)

    def pixel_corners(self) -> PixelCorners | None:
        if not self.clip:
            return None
        black, white = self.domain.lower, self.domain.upper
        weak, strong = self.span if self.brightens else self.span[::-1]
        start, end = (black, white) if self.brightens else (white, black)
        # Where the clip begins for the strongest and the weakest change; then both ends.
        xs = np.array([end - strong, end - weak, start, start, end])
        ps = np.array([end, end, start + weak, start + strong, end])
        return PixelCorners(xs, ps, np.array([0, 0, -1, -1, 1]))

    def add_rows(self, model: LinearModel, x: Columns) -> Columns:
        low, high = self.image_bounds()
        x_p = model.add_columns(low, high)
        e = model.add_columns(*self.span)
        ones = np.ones((len(x), 1))
        if not self.clip:
            model.add_rows([(x_p, 1.0), (x, -1.0), (e, -ones)], 0.0, 0.0)
            return x_p
        # clipped = 1: the pixel stands at the end of the domain; 0: it has moved by e.
        clipped = model.add_columns(np.zeros(len(x)), 1.0, integer=True)
        moved = [(x_p, 1.0), (x, -1.0), (e, -ones)]
        if self.brightens:
            smallest = high - low  # x_p lies in [lower + lo, upper]
            model.add_rows(moved, -np.inf, 0.0)
            model.add_rows([*moved, (clipped, self.span[1])], 0.0, np.inf)
            model.add_rows([(x_p, 1.0), (clipped, -smallest)], low, np.inf)
        else:
            largest = high - low
            model.add_rows(moved, 0.0, np.inf)
            model.add_rows([*moved, (clipped, self.span[0])], -np.inf, 0.0)
            model.add_rows([(x_p, 1.0), (clipped, largest)], -np.inf, high)
        return x_p
