"""The interface of the pieces of perturbations.

A piece is a relation between an input `x` and its perturbed image `x_p` with parameters in a box.
All methods take flat float64 batches `(batch, size)`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy import sparse

from vhagar.array_types import Array, Mask
from vhagar.errors import InvalidInput
from vhagar.perturbation.clipped_box import ClippedBox
from vhagar.perturbation.domain import UNDERFLOW, Domain
from vhagar.perturbation.formula import Formula
from vhagar.perturbation.ranges import Range
from vhagar.perturbation.relaxed import (
    SPARE,
    Expression,
    ModelImage,
    RelaxedInput,
    RelaxedPair,
    add_condition_rows,
    add_domain_rows,
    add_weights,
    add_zonotope_rows,
    combination,
    constants,
    picked,
)
from vhagar.perturbation.support import Ball, PixelCorners, Shift, SupportCorners
from vhagar.perturbation.support_over_domain import AbstractSupport
from vhagar.runtime.devices import Tensor
from vhagar.solver.linear_model import Columns, LinearModel

# Maps `(x, parameters)` to `x_p`, all tensors.
TorchApply = Callable[[Tensor, Tensor], Tensor]

# Largest relative error of `apply` in float64 (a handful of operations per pixel).
ROUNDING = 2.0**-49
# Pixels that are bounded at once.
_PIXELS_AT_ONCE = 64


def at_least_one(pixels: Columns) -> Columns:
    """The pixels, or the first of all if there are none: a piece needs a pixel to be about."""
    return pixels if len(pixels) else np.zeros(1, dtype=np.int64)


class AbstractPiece(AbstractSupport):
    """One relation between `x` and `x_p`, with parameters in a box.

    Methods with an underscore are about all `x` of the input range; `support` and `relax_stage`
    restrict them to the domain where it is smaller.
    """

    label: str
    # Whether `support` is the exact maximum, or only an upper bound that `split` tightens.
    exact_support: bool = True
    # Whether the model rows describe the piece exactly, or a relaxation that `split` tightens.
    exact_rows: bool = True
    # Whether the model is exact for solvers that support its products.
    exact_products: bool = False
    # Whether the result of `apply` is exactly an image that the piece allows, despite rounding.
    exact_apply: bool = False
    # Whether the pairs `(x, x_p)` form a convex set, which `relax` then describes exactly.
    convex: bool = False
    # `x_p` is roughly this multiple of `x`: a hint for bounds on their difference.
    ratio: float = 1.0
    # The range of the one parameter that `split` halves; None where there is no such parameter.
    span: Range | None = None
    # The width of the span, relative to the range of all values of the parameter.
    spread: float = 0.0
    # What pixels of the domain contribute to the support, where the images are clipped.
    inside: ClippedBox | None = None
    # The pixels that change independently, each by its own parameter, in order.
    free_pixels: Columns | None = None
    # The ball around `x` that the images fill, if the piece is exactly that.
    ball: Ball | None = None
    # The one amount that all entries rise or fall by, if the piece is exactly that.
    shift: Shift | None = None

    @property
    @abstractmethod
    def parameter_bounds(self) -> tuple[Array, Array]:
        """Lower and upper ends of the parameter box, each `(parameters,)`; may be empty."""

    @abstractmethod
    def apply(self, x: Array, parameters: Array) -> Array:
        """The perturbed inputs `(batch, size)` of `x` `(batch, size)`."""

    @abstractmethod
    def add_rows(self, model: LinearModel, x: Columns) -> ModelImage:
        """Add rows to a mixed-integer model that tie `x_p` and the parameters to columns `x`."""

    @abstractmethod
    def describe(self, parameters: Array) -> dict[str, object]:
        """The parameters by name, for reports."""

    def contains(self, x: Array, x_p: Array, parameters: Array) -> Mask:
        """Whether these parameters map each `x` to its `x_p`, up to the rounding of `apply`.

        The input must lie in the domain and the parameters in their box.
        """
        low, high = self.parameter_bounds
        inside = self.domain.contains(x)
        inside &= ((parameters >= low) & (parameters <= high)).all(axis=1)
        close = abs(self.apply(x, parameters) - x_p) <= 2 * self.room
        return np.asarray(inside & close.all(axis=1))

    def changes(self) -> tuple[Mask, Mask]:
        """Which entries `(size,)` can rise (`x_p > x`), and which can fall."""
        every = np.ones(self.domain.size, dtype=np.bool_)
        return every, every

    def to_clip(self) -> tuple[Mask, Mask] | None:
        """Which entries the network clips from below and from above; None if it clips none.

        All other methods are about the image before that clip.
        """
        return None

    @property
    def formula(self) -> Formula | None:
        """The image as a formula, with the clip; None where there is no such formula."""
        return None

    def required_formula(self) -> Formula:
        """The formula, simplified if all parameters are fixed; an error if there is none."""
        if self.formula is None:
            raise InvalidInput(
                f"{self.label} can neither be exported nor be asked about one image: how it moves "
                "pixels is not a formula that ONNX or VNN-LIB can hold; give a single value "
                "instead of a range"
            )
        return self.formula.simplified(self.domain)

    def support_corners(self) -> SupportCorners | None:
        """The corners that attain the support if pixels are independent, else None."""
        return None

    def torch_apply(self) -> TorchApply | None:
        """`apply` as a differentiable function of tensors, for pieces without a formula."""
        return None

    def fixed_at(self, value: float) -> AbstractPiece:
        """The piece with its one parameter fixed; the piece itself if it has no `span`."""
        return self

    def narrower(self) -> tuple[AbstractPiece, ...]:
        """Pieces with narrower spans; the largest of their supports shows what a split can gain.

        There are none where a split improves neurons' bounds more than the support.
        """
        return ()

    def pixel_corners(self) -> PixelCorners | None:
        """The corners of a pixel's clipped and unclipped parts, equal for all pixels; or None."""
        return None

    def relax(self, model: LinearModel) -> RelaxedPair:
        """Add a linear relaxation to a model; returns the pair as expressions in its columns."""
        x = model.add_columns(self.domain.low, self.domain.high)
        image = self.add_rows(model, x)
        width = model.column_count
        return RelaxedPair(picked(x, width), picked(image.x_p, width), image.parameters)

    def relax_stage(
        self, model: LinearModel, matrix: sparse.csr_array, bias: Array
    ) -> RelaxedInput:
        """The relaxation together with the network's first linear stage, `matrix @ x + bias`.

        Engines use it only for proposals; their bounds come from `support`.
        """
        corners, pixels = self.pixel_corners(), None
        if corners is None:
            pair = self.relax(model)
        else:
            pixels = add_weights(model, self.domain.size, len(corners.x) - 1)
            x, x_p = (combination(pixels, points) for points in (corners.x, corners.x_p))
            pair = RelaxedPair(x, x_p, self.fixed_parameters(model.column_count))
            add_domain_rows(model, self.domain, x)
        add_condition_rows(model, self.domain, pair.x)
        zonotope = add_zonotope_rows(model, self.domain, pair.x, SPARE)
        width = model.column_count
        first, second = (part.then(matrix, bias, width) for part in (pair.x, pair.x_p))
        return RelaxedInput(pair.x, pair.x_p, pair.parameters, first, second, pixels, zonotope)

    def fixed_parameters(self, width: int) -> Expression | None:
        """The parameters in a model of `width` columns if each has a single value, else None."""
        low, high = self.parameter_bounds
        return constants(low, width) if (low == high).all() else None

    def split(self) -> tuple[AbstractPiece, ...]:
        """Smaller pieces that together cover this one; empty if a split gains nothing."""
        return ()

    def within(self, domain: Domain) -> AbstractPiece:
        """The same piece over a part of its domain."""
        return replace(self, domain=domain)  # type: ignore[type-var]  # all pieces are dataclasses

    def local(self, pixels: Columns) -> tuple[AbstractPiece, Columns]:
        """A piece on fewer pixels with the same support if only `pixels` have nonzero coefficients.

        `pixels` are in ascending order. Returns the piece and its pixels `(its size,)`, which
        include the given ones, in ascending order; by default all pixels.
        """
        return self, np.arange(self.domain.size)

    @cached_property
    def image_box(self) -> tuple[Array, Array]:
        """As `image_bounds`, for inputs in the domain, and tightened by supports."""
        low, high = self.image_bounds()
        if self.domain.whole:
            return low, high
        least, most = self.pixel_ends(np.arange(self.domain.size), 0.0)
        return np.maximum(low, least), np.minimum(high, most)

    def pixel_ends(self, pixels: Columns, on_x: float) -> tuple[Array, Array]:
        """The ends of `x_p + on_x * x` of some pixels, by supports."""
        low, high = np.zeros((2, len(pixels)))
        for begin in range(0, len(pixels), _PIXELS_AT_ONCE):
            some = slice(begin, begin + _PIXELS_AT_ONCE)
            part, columns = self.local(pixels[some])
            unit = np.zeros((len(pixels[some]), len(columns)))
            unit[np.arange(len(unit)), np.searchsorted(columns, pixels[some])] = 1.0
            high[some] = part.support(on_x * unit, unit).value
            low[some] = -part.support(-on_x * unit, -unit).value
        return low, high

    def project(self, parameters: Array) -> Array:
        """The nearest parameters inside the box."""
        low, high = self.parameter_bounds
        return np.clip(parameters, low, high)

    def enclosure(self, x: Array, parameters: Array) -> tuple[Array, Array]:
        """An interval around the exact real-arithmetic image of `x`."""
        image = self.apply(x, parameters)
        return image - self.room, image + self.room

    @cached_property
    def room(self) -> Array:
        """A bound on the rounding error of each entry of `apply`."""
        if self.exact_apply:
            return np.zeros(self.domain.size)
        low, high = self.image_bounds()
        largest = max(self.domain.magnitude, float(np.maximum(abs(low), abs(high)).max()))
        room = ROUNDING * 2.0 * (largest + self.domain.width) + 8 * UNDERFLOW
        return np.full(self.domain.size, room)
