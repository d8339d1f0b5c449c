"""Pieces `x_p = R x + c` with nothing to choose: occlusion, translation, one rotation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.perturbation.base import AbstractPiece, Expression, Support
from vhagar.perturbation.domain import Array, Domain
from vhagar.perturbation.formula import Formula, fixed_map
from vhagar.perturbation.maps import AffineMap
from vhagar.solver.linear_model import Columns, LinearModel


@dataclass(frozen=True, eq=False)
class AffinePiece(AbstractPiece):
    """`x_p = matrix @ x`, and black where a row of the matrix is empty.

    The rows of the matrix are empty or sum to one with entries in [0,1]: each perturbed pixel is
    black or an average of pixels.
    """

    domain: Domain
    label: str
    matrix: sparse.csr_array
    facts: tuple[tuple[str, object], ...] = ()
    convex = True

    @property
    def offset(self) -> Array:
        """Black for the pixels that come from nowhere."""
        empty = np.diff(self.matrix.indptr) == 0
        return np.where(empty, self.domain.lower, 0.0)

    @cached_property
    def map(self) -> AffineMap:  # type: ignore[override]
        return fixed_map(self.matrix, self.offset, self.label)

    @cached_property
    def formula(self) -> Formula:
        return Formula(self.map)

    @property
    def exact_apply(self) -> bool:  # type: ignore[override]
        return bool((self.matrix.data == 1.0).all())

    @property
    def parameter_bounds(self) -> tuple[Array, Array]:
        return np.zeros(0), np.zeros(0)

    def apply(self, x: Array, parameters: Array) -> Array:
        moved: Array = (self.matrix @ x.T).T + self.offset
        return moved

    def contains(self, x: Array, x_p: Array) -> NDArray[np.bool_]:
        expected = self.apply(x, np.zeros((len(x), 0)))
        inside = (x >= self.domain.lower) & (x <= self.domain.upper)
        close = abs(x_p - expected) <= self.slack
        return np.asarray((inside & close).all(axis=1))

    def image_bounds(self) -> tuple[Array, Array]:
        reach = np.where(np.diff(self.matrix.indptr) == 0, self.domain.lower, self.domain.upper)
        # Interpolation weights sum to one up to rounding.
        margin = 0.0 if self.exact_apply else 1e-12 * self.domain.magnitude
        return np.full(self.domain.size, self.domain.lower - margin), reach + margin

    def changes(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        entries = np.diff(self.matrix.indptr)
        same = (entries == 1) & (self.matrix.diagonal() == 1.0)
        return ~same & (entries > 0), ~same  # what turns black can only fall

    def recover(self, x: Array, x_p: Array) -> Array:
        return np.zeros(0)

    def local(self, pixels: Columns) -> tuple[AffinePiece, Columns]:
        # With the pixels that the images of `pixels` are made of. The other images have no weight,
        # so it does not matter that something is missing from them.
        every = np.unique(np.concatenate([pixels, self.matrix[pixels].indices])).astype(np.int64)
        matrix = sparse.csr_array(self.matrix[every][:, every])
        return replace(self, domain=self.domain.part(len(every)), matrix=matrix), every

    def _support(self, a: Array, b: Array) -> Support:
        joint = a + (self.matrix.T @ b.T).T
        x = np.where(joint > 0, self.domain.upper, self.domain.lower)
        value = (joint * x).sum(axis=1) + b @ self.offset
        return Support(value, x, np.zeros((len(a), 0)))

    def add_rows(self, model: LinearModel, x: Columns) -> Columns:
        if self.exact_apply:
            # Each perturbed pixel is a pixel or black: share the columns, no rows.
            black = model.add_columns(self.domain.lower, self.domain.lower)
            x_p = np.full(self.domain.size, black[0])
            x_p[np.diff(self.matrix.indptr) > 0] = x[self.matrix.indices]
            return x_p
        low, high = self.image_bounds()
        x_p = model.add_columns(low, high)
        model.add_rows([(x_p, 1.0), (x, -self.matrix)], self.offset, self.offset)
        return x_p

    def relax(self, model: LinearModel) -> tuple[Expression, Expression]:
        """Without rows: the perturbed input is an expression in the input's columns."""
        size = self.domain.size
        x = model.add_columns(np.full(size, self.domain.lower), np.full(size, self.domain.upper))
        pick = sparse.eye_array(model.column_count, format="csr")[x]
        moved = sparse.csr_array(self.matrix @ pick)
        return Expression(pick, np.zeros(size)), Expression(moved, self.offset)

    def describe(self, parameters: Array) -> dict[str, object]:
        return dict(self.facts)


def identity_piece(domain: Domain) -> AffinePiece:
    """`x_p = x`: the piece of no perturbation at all."""
    same = sparse.csr_array(sparse.eye_array(domain.size, format="csr"))
    return AffinePiece(domain, "identity", same)
