"""What brightness and contrast share: one number for the whole image, over an interval."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.perturbation.base import (
    AbstractPiece,
    Expression,
    RelaxedInput,
    Support,
    SupportCorners,
)
from vhagar.perturbation.domain import Array, Domain
from vhagar.perturbation.ranges import Range
from vhagar.solver.linear_model import LinearModel


@dataclass(frozen=True, eq=False)
class AbstractScalarPiece(AbstractPiece):
    """A piece with one parameter in `span`. `clip` says whether `x_p` stays in the domain."""

    domain: Domain
    label: str
    span: Range = field()
    clip: bool

    @property
    def fixed(self) -> bool:
        """Whether there is nothing to choose."""
        return self.span[0] == self.span[1]

    @property
    def spread(self) -> float:  # type: ignore[override]
        return (self.span[1] - self.span[0]) / self.domain.width

    def fixed_at(self, value: float) -> Self:
        return replace(self, span=(value, value))

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

    @property
    def _best_ends(self) -> Range:
        """The values of the parameter among which the support's maximum is attained."""
        raise NotImplementedError

    def _clip_begins(self, e: float) -> float | None:
        """The pixel value from which on the images are clipped; None without a clip."""
        raise NotImplementedError

    def support_corners(self) -> SupportCorners | None:
        return self._support_corners

    @cached_property
    def _support_corners(self) -> SupportCorners:
        low, high = self.domain.lower, self.domain.upper
        part, _ = self.local(np.arange(1))
        x, x_p = [], []
        for e in dict.fromkeys(self._best_ends):
            turn = self._clip_begins(e)
            turns = [low, high] if turn is None else [low, high, min(max(turn, low), high)]
            x.append(np.array(turns))
            x_p.append(part.apply(x[-1][:, None], np.array([[e]]))[:, 0])
        return SupportCorners(np.array(x), np.array(x_p))

    def _support(self, a: Array, b: Array) -> Support:
        value, x, _, chosen = self._support_corners.best(a, b)
        ends = np.array(list(dict.fromkeys(self._best_ends)))
        return Support(value, x, ends[chosen][:, None])

    @abstractmethod
    def _explanations(self, x: Array, x_p: Array) -> tuple[Array, Array]:
        """For each pixel, the interval of parameters that explain it up to rounding."""

    def describe(self, parameters: Array) -> dict[str, object]:
        return {self.label.split("(")[0]: float(parameters[0])}


def _combination(size: int, points: Array) -> Expression:
    steps = points[1:] - points[0]
    matrix = sparse.csr_array(sparse.kron(sparse.eye_array(size), steps[None]))
    return Expression(matrix, np.full(size, points[0]))
