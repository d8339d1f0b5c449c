"""Models of one amount or factor for the whole image: its rows in a MIP, and a product relaxed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from vhagar.array_types import Array
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.ranges import Range
from vhagar.perturbation.relaxed import (
    SPARE,
    Expression,
    RelaxedInput,
    add_condition_rows,
    add_zonotope_rows,
    picked,
)
from vhagar.solver.linear_model import Block, Columns, LinearModel, Products


@dataclass(frozen=True, eq=False)
class ScalarRows:
    """The rows of `x_p = x + e`, or with `product` `x_p - black = e (x - black)`.

    `span` is the range of e, `ends` are bounds on `x_p`; with `clips`, images are clipped.
    """

    domain: Domain
    span: Range
    product: bool
    clips: bool
    ends: tuple[Array, Array]

    def add(self, model: LinearModel, x: Columns) -> tuple[Columns, Columns]:
        """Add the rows to a model; returns the columns of `x_p` and of e."""
        x_p = model.add_columns(*self.ends)
        alone = self.product and self._fixed  # e is then part of the coefficients
        e = model.add_columns(np.full(0 if alone else 1, self.span[0]), self.span[1])
        moved = self._moved(model, x, e, None if self.clips else x_p)
        if self.clips:
            self._add_clip(model, x_p, moved)
        elif not self.product:
            model.add_rows([(x_p, 1.0), *moved], 0.0, 0.0)
        return x_p, e

    @property
    def _fixed(self) -> bool:
        return self.span[0] == self.span[1]

    @property
    def _brightens(self) -> bool:
        return self.product or self.span[0] >= 0

    @property
    def _overshoot(self) -> float:
        """How far images would leave the input range without the clip; negative if below."""
        if self.product:
            return self.span[1] * self.domain.width - self.domain.width
        return self.span[1] if self._brightens else self.span[0]

    def _moved(
        self, model: LinearModel, x: Columns, e: Columns, image: Columns | None
    ) -> list[Block]:
        """The images before the clip, negated, as blocks of rows.

        A product needs columns of its own, unless the columns of the image serve.
        """
        if not self.product:
            return [(x, -1.0), (e, -np.ones((len(x), 1)))]
        if image is None:
            low, high = self.ends
            image = model.add_columns(low, np.nextafter(high + self._overshoot, np.inf))
        self._add_product(model, x, e, image)
        return [(image, -1.0)]

    def _add_clip(self, model: LinearModel, x_p: Columns, moved: list[Block]) -> None:
        """Model the clip with one boolean for each pixel, 1 if the pixel is clipped."""
        low, high = self.ends
        clipped = model.add_columns(np.zeros(len(x_p)), 1.0, integer=True)
        gap: list[Block] = [(x_p, 1.0), *moved]  # x_p minus its value without the clip
        below, above = (-np.inf, 0.0), (0.0, np.inf)
        if self._brightens:
            model.add_rows(gap, *below)
            model.add_rows([*gap, (clipped, self._overshoot)], *above)
            model.add_rows([(x_p, 1.0), (clipped, low - high)], low, np.inf)
        else:
            model.add_rows(gap, *above)
            model.add_rows([*gap, (clipped, self._overshoot)], *below)
            model.add_rows([(x_p, 1.0), (clipped, high - low)], -np.inf, high)

    def _add_product(self, model: LinearModel, x: Columns, e: Columns, y: Columns) -> None:
        """Add rows for `y - black = e (x - black)`: exact if e is fixed, else its convex hull.

        The product itself is added for solvers that support products, as in the paper.
        """
        black, width = self.domain.lower, self.domain.width
        low, high = self.span
        shift_low, shift_high = black - low * black, black - high * black
        if self._fixed:
            model.add_rows([(y, 1.0), (x, -low)], shift_low, shift_low)
            return
        model.add_products(Products(y, int(e[0]), x, black))
        spread: Array = np.full((len(x), 1), -width)
        model.add_rows([(y, 1.0), (x, -low)], shift_low, np.inf)
        model.add_rows([(y, 1.0), (x, -high)], -np.inf, shift_high)
        model.add_rows([(y, 1.0), (x, -high), (e, spread)], shift_high - high * width, np.inf)
        model.add_rows([(y, 1.0), (x, -low), (e, spread)], -np.inf, shift_low - low * width)


def relaxed_product(
    model: LinearModel, domain: Domain, span: Range, matrix: sparse.csr_array, bias: Array
) -> RelaxedInput:
    """A range of factors, relaxed at the outputs of the network's first stage.

    With `g = W (x - black)` the second copy is `e g`, a product of two bounded numbers.
    """
    low, high = span
    x = model.add_columns(domain.low, domain.high)
    e = model.add_columns(low, high)
    ends = [
        np.asarray(part.sum(axis=1)).reshape(-1) * domain.width
        for part in (matrix.minimum(0), matrix.maximum(0))
    ]
    g = model.add_columns(ends[0], ends[1])
    h = model.add_columns(np.minimum(ends[0] * high, ends[0]), np.maximum(ends[1] * high, 0))
    dark = matrix @ np.full(domain.size, domain.lower)
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
    inputs = picked(x, model.column_count)
    add_condition_rows(model, domain, inputs)
    zonotope = add_zonotope_rows(model, domain, inputs, SPARE)
    own, parameters, first, second = (picked(part, model.column_count) for part in (x, e, g, h))
    first, second = (Expression(part.matrix, dark + bias) for part in (first, second))
    return RelaxedInput(own, None, parameters, first, second, zonotope=zonotope)
