"""Pieces with one parameter for the whole image, in an interval: brightness and contrast.

With clipping, `x_p - x` is `min(e, upper - x)`, not `e`: the difference of two pixels may change,
and the image of each pixel is a piecewise linear function with two parts.

The product `e * x` of contrast is bilinear, but nothing here needs a quadratic solver: for a fixed
e it is linear, the support is convex in e, and a range of e is relaxed and split.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy import sparse

from vhagar.array_types import Array, Mask
from vhagar.perturbation.affine import relaxed_map
from vhagar.perturbation.clipped_box import ClippedBox
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.formula import Formula
from vhagar.perturbation.maps import AffineMap
from vhagar.perturbation.piece import ROUNDING, AbstractPiece, at_least_one
from vhagar.perturbation.ranges import Range
from vhagar.perturbation.relaxed import ModelImage, RelaxedInput, RelaxedPair, picked
from vhagar.perturbation.scalar_rows import ScalarRows, relaxed_product
from vhagar.perturbation.support import PixelCorners, Shift, Support, SupportCorners
from vhagar.solver.linear_model import Columns, LinearModel


@dataclass(frozen=True, eq=False)
class ScalarPiece(AbstractPiece):
    """`x_p = x + e`, or with `product` `x_p - black = e (x - black)`; clipped if `clip` is set.

    The span of e lies on one side of the value that changes nothing, so that the piece only
    brightens or only darkens.
    """

    domain: Domain
    label: str
    span: Range = field()
    clip: bool
    product: bool

    @property
    def fixed(self) -> bool:
        """Whether the parameter has a single value."""
        return self.span[0] == self.span[1]

    @property
    def _brightens(self) -> bool:
        return self.product or self.span[0] >= 0

    @property
    def clips(self) -> bool:
        """Whether any image is clipped: factors up to 1 never leave the input range."""
        return self.clip and not (self.product and self.span[1] <= 1)

    @property
    def spread(self) -> float:  # type: ignore[override]
        return (self.span[1] - self.span[0]) / (self.span[0] if self.product else self.domain.width)

    @property
    def shift(self) -> Shift | None:  # type: ignore[override]
        return None if self.product else Shift(self.span, self.clip)

    @property
    def ratio(self) -> float:  # type: ignore[override]
        return math.sqrt(self.span[0] * self.span[1]) if self.product else 1.0

    @property
    def exact_rows(self) -> bool:  # type: ignore[override]
        return self.fixed or not self.product

    @property
    def exact_products(self) -> bool:  # type: ignore[override]
        return self.product

    @property
    def convex(self) -> bool:  # type: ignore[override]
        return not self.clips and (self.fixed or not self.product)

    @property
    def parameter_bounds(self) -> tuple[Array, Array]:
        return np.array([self.span[0]]), np.array([self.span[1]])

    @cached_property
    def formula(self) -> Formula:
        size, black = self.domain.size, self.domain.lower
        if self.product:
            parts = sparse.csr_array((size, size)), sparse.csr_array((size, 1)), black
        else:
            parts = sparse.eye_array(size, format="csr"), np.ones((size, 1)), 0.0
        matrix, moves, offset = parts
        ends = self.parameter_bounds
        own = AffineMap(matrix, moves, np.full(size, offset), *ends, label=self.label)
        return Formula(own, clip=self.clips, product=self.product)

    def split(self) -> tuple[Self, ...]:
        low, high = self.span
        middle = low + (high - low) / 2
        if not low < middle < high:
            return ()
        return replace(self, span=(low, middle)), replace(self, span=(middle, high))

    def narrower(self) -> tuple[Self, ...]:
        # With the clip, the strongest change allows each pixel what weaker ones allow: while the
        # sides of the clip are open, the half that contains it gains nothing.
        return self.split() if self.clips else ()

    def fixed_at(self, value: float) -> Self:
        return replace(self, span=(value, value))

    def local(self, pixels: Columns) -> tuple[Self, Columns]:
        every = at_least_one(pixels)
        return replace(self, domain=self.domain.part(every)), every

    def describe(self, parameters: Array) -> dict[str, object]:
        return {self.label.split("(")[0]: float(parameters[0])}

    def apply(self, x: Array, parameters: Array) -> Array:
        e, black = np.clip(parameters, *self.span), self.domain.lower
        x_p = black + e * (x - black) if self.product else x + e
        return np.clip(x_p, black, self.domain.upper) if self.clip else x_p

    def image_bounds(self) -> tuple[Array, Array]:
        low, high, size = self.domain.lower, self.domain.upper, self.domain.size
        # Outward, because each operation may have been rounded inward.
        if self.product:
            largest = self.span[1] * self.domain.width
            high = low + largest + ROUNDING * (largest + self.domain.magnitude)
        else:
            low = float(np.nextafter(low + self.span[0], -np.inf))
            high = float(np.nextafter(high + self.span[1], np.inf))
        if self.clip:
            low, high = np.clip((low, high), self.domain.lower, self.domain.upper)
        return np.full(size, low), np.full(size, high)

    def changes(self) -> tuple[Mask, Mask]:
        every, neutral = np.ones(self.domain.size, dtype=np.bool_), float(self.product)
        return every & (self.span[1] > neutral), every & (self.span[0] < neutral)

    @property
    def _best_ends(self) -> tuple[float, ...]:
        """The values of the parameter among which the support's maximum is attained."""
        if self.product and self.clips:
            # A pixel and its image lie in the triangle (black, black), (black + width / e, upper),
            # (upper, upper), which grows with e: the largest factor is best for every pixel.
            return self.span[1:]
        return tuple(dict.fromkeys(self.span))  # the support is convex in e

    def _clip_begins(self, e: float) -> float:
        """The pixel value at which clipping begins."""
        if self.product:
            return self.domain.lower + self.domain.width / e
        return (self.domain.upper if self._brightens else self.domain.lower) - e

    @property
    def _clipped_end(self) -> int:
        """The end of a pixel's range, 0 or 1, with the image of the point where clipping begins.

        The image is computed from this end: a large factor would multiply that point's rounding.
        """
        return int(self._brightens)

    def support_corners(self) -> SupportCorners:
        return self._support_corners

    @cached_property
    def _support_corners(self) -> SupportCorners:
        low, high = self.domain.lower, self.domain.upper
        part = replace(self, domain=Domain((1,), low, high))
        x, x_p = [], []
        for e in self._best_ends:
            turns = [min(max(self._clip_begins(e), low), high)] if self.clips else []
            x.append(np.array([low, high, *turns]))
            ends = part.apply(x[-1][:2, None], np.array([[e]]))[:, 0]
            x_p.append(np.array([*ends, *([ends[self._clipped_end]] * len(turns))]))
        return SupportCorners(np.array(x), np.array(x_p))

    def _support(self, a: Array, b: Array) -> Support:
        if self.clips or self.product:
            value, x, _, chosen = self._support_corners.best(a, b)
            return Support(value, x, np.array(self._best_ends)[chosen][:, None])
        x = np.where(a + b > 0, self.domain.upper, self.domain.lower)
        total = b.sum(axis=1)
        e = np.where(total > 0, self.span[1], self.span[0])
        return Support(((a + b) * x).sum(axis=1) + total * e, x, e[:, None])

    def support(self, a: Array, b: Array) -> Support:
        if self.domain.whole or not (self.clips or self.product):
            return super().support(a, b)
        if not self.clips:
            if self.fixed:
                return super().support(a, b)
            # For each input the value is linear in the factor, so its maximum is at an end.
            return _larger(*(self.fixed_at(end).support(a, b) for end in self.span))
        with np.errstate(over="ignore", invalid="ignore"):
            found = self._rest_support(a, b)
            if not self.domain.linear:
                return found
            # Rows and zonotope take their part of `a` first, as if nothing were clipped.
            return self._shared_support(a, b, self.domain.pulled(a + b), found)

    def _rest_support(self, a: Array, b: Array) -> Support:
        found = self._rounded_support(a, b)
        if not self.clips:
            return found
        value, end, x = self.inside.best(a, b)
        value = value + self.rounding(a, b)
        better = value < found.value  # false where it is NaN
        return Support(
            np.where(better, value, found.value),
            np.where(better[:, None], x, found.x),
            np.where(better[:, None], np.array(self.span)[end][:, None], found.parameters),
        )

    @cached_property
    def inside(self) -> ClippedBox:  # type: ignore[override]
        """What pixels of the domain contribute to the support, with the clip."""
        low, high, size = self.domain.low, self.domain.high, self.domain.size
        turns = [self._clip_begins(e) for e in self.span]
        xs = [np.stack([low, high, np.clip(np.full(size, t), low, high)]) for t in turns]
        ps = [self.apply(x, np.full((3, 1), e)) for x, e in zip(xs, self.span, strict=True)]
        for image in ps:
            image[2] = image[self._clipped_end]
        if self.product:
            return ClippedBox(np.stack(xs), np.stack(ps), np.ones(size, dtype=np.bool_), 0)
        # One step outward, because the turns are rounded.
        first, last = np.nextafter(min(turns), -np.inf), np.nextafter(max(turns), np.inf)
        crossed = ((low > first) & (low < last)) | ((high > first) & (high < last))
        return ClippedBox(np.stack(xs), np.stack(ps), crossed, 1 if self._brightens else -1)

    def _domain_share(self, a: Array, b: Array) -> Array:
        """All terms that depend on the input; called only if nothing is clipped."""
        return a + (self.span[0] if self.product else 1.0) * b

    def pixel_corners(self) -> PixelCorners | None:
        if not self.clips:
            return None
        black, white = self.domain.lower, self.domain.upper
        start, end = (black, white) if self._brightens else (white, black)
        weak, strong = self.span if self._brightens else self.span[::-1]
        # Where the clip begins for the strongest and the weakest change; then both ends.
        turns = [self._clip_begins(strong), self._clip_begins(weak)]
        images = [black] if self.product else [start + weak, start + strong]
        xs = np.array([*turns, *([start] * len(images)), end])
        ps = np.array([end, end, *images, end])
        return PixelCorners(xs, ps, np.array([0, 0, *([-1] * len(images)), 1]))

    def relax(self, model: LinearModel) -> RelaxedPair:
        if not self.convex:
            return super().relax(model)
        pair = relaxed_map(model, self.domain, self.formula.simplified(self.domain).map)
        known = self.fixed_parameters(model.column_count)
        return RelaxedPair(pair.x, pair.x_p, known or pair.parameters)

    def relax_stage(
        self, model: LinearModel, matrix: sparse.csr_array, bias: Array
    ) -> RelaxedInput:
        """Relaxes a range of factors at the stage's outputs, which are fewer than the pixels."""
        if self.fixed or self.clips or not self.product:
            return super().relax_stage(model, matrix, bias)
        return relaxed_product(model, self.domain, self.span, matrix, bias)

    def add_rows(self, model: LinearModel, x: Columns) -> ModelImage:
        ends = self.image_bounds()
        rows = ScalarRows(self.domain, self.span, self.product, self.clips, ends)
        x_p, e = rows.add(model, x)
        width = model.column_count
        return ModelImage(x_p, self.fixed_parameters(width) or picked(e, width))


def _larger(one: Support, other: Support) -> Support:
    better = other.value > one.value
    wide = better[:, None]
    return Support(
        np.where(better, other.value, one.value),
        np.where(wide, other.x, one.x),
        np.where(wide, other.parameters, one.parameters),
    )
