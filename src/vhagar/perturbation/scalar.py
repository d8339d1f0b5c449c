"""What brightness and contrast share: one number for the whole image, over an interval."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.perturbation.base import AbstractPiece, Array, Domain, Expression, RelaxedInput
from vhagar.perturbation.ranges import Range
from vhagar.solver.linear_model import LinearModel


@dataclass(frozen=True, eq=False)
class AbstractScalarPiece(AbstractPiece):
    """A piece with one parameter in `span`. `clip` says whether `x_p` stays in the domain."""

    domain: Domain
    label: str
    span: Range
    clip: bool

    @property
    def fixed(self) -> bool:
        """Whether there is nothing to choose."""
        return self.span[0] == self.span[1]

    @property
    def spread(self) -> float:
        """How wide the span is beside what the parameter can be at all."""
        return (self.span[1] - self.span[0]) / self.domain.width

    def middle(self) -> Self | None:
        """The piece at the middle of its span, where its support shows how much a split can gain.

        None where that does not show, as neurons' bounds gain more.
        """
        return None

    @property
    def parameter_bounds(self) -> tuple[Array, Array]:
        return np.array([self.span[0]]), np.array([self.span[1]])

    def split(self) -> tuple[Self, ...]:
        low, high = self.span
        middle = low + (high - low) / 2
        if not low < middle < high:
            return ()
        return replace(self, span=(low, middle)), replace(self, span=(middle, high))

    def contains(self, x: Array, x_p: Array) -> NDArray[np.bool_]:
        inside = (x >= self.domain.lower) & (x <= self.domain.upper)
        if self.clip:
            inside &= (x_p >= self.domain.lower) & (x_p <= self.domain.upper)
        low, high = self._explanations(x, x_p)
        lowest = np.maximum(low.max(axis=1), self.span[0])
        highest = np.minimum(high.min(axis=1), self.span[1])
        return np.asarray(inside.all(axis=1) & (lowest <= highest))

    def relax_stage(
        self, model: LinearModel, matrix: sparse.csr_array, bias: Array
    ) -> RelaxedInput:
        corners = self.pixel_corners()
        if corners is None:
            return super().relax_stage(model, matrix, bias)
        # Every pixel and its image is a convex combination of the same few corners. The first needs
        # no column: its weight is what the others leave of 1.
        size, rest = self.domain.size, len(corners.x) - 1
        columns = model.add_columns(np.zeros(size * rest), 1.0)
        per_pixel = sparse.csr_array(sparse.kron(sparse.eye_array(size), np.ones((1, rest))))
        model.add_rows([(columns, per_pixel)], 0.0, 1.0)
        x, x_p = (_combination(size, points) for points in (corners.x, corners.x_p))
        width = model.column_count
        first, second = (part.then(matrix, bias, width) for part in (x, x_p))
        return RelaxedInput(x, x_p, None, first, second, columns.reshape(size, rest))

    @abstractmethod
    def _explanations(self, x: Array, x_p: Array) -> tuple[Array, Array]:
        """For each pixel, the interval of parameters that explain it up to rounding."""

    def describe(self, parameters: Array) -> dict[str, object]:
        return {self.label.split("(")[0]: float(parameters[0])}


def _combination(size: int, points: Array) -> Expression:
    steps = points[1:] - points[0]
    matrix = sparse.csr_array(sparse.kron(sparse.eye_array(size), steps[None]))
    return Expression(matrix, np.full(size, points[0]))
