"""Pieces that move whole pixels or blacken them, and then let each move by up to `e`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.perturbation.base import AbstractPiece, Expression, Support
from vhagar.perturbation.domain import Array, Domain
from vhagar.perturbation.formula import Formula
from vhagar.perturbation.linf_ball import LinfBallPiece, within
from vhagar.perturbation.maps import AffineMap
from vhagar.solver.linear_model import Columns, LinearModel


@dataclass(frozen=True, eq=False)
class ShiftedLinfBallPiece(AbstractPiece):
    """`abs(x_p - y) <= limit`, all in the domain, where `y` are pixels of `x` or black.

    `source` `(size,)` says which pixel each of `y` is, -1 for black; no pixel is there twice. The
    parameters are the changes of all pixels.
    """

    domain: Domain
    label: str
    limit: float
    source: Columns
    facts: tuple[tuple[str, object], ...] = ()
    exact_apply = True
    convex = True

    @property
    def parameter_bounds(self) -> tuple[Array, Array]:
        ends = np.full(self.domain.size, self.limit)
        return -ends, ends

    @cached_property
    def free_pixels(self) -> Columns:  # type: ignore[override]
        return np.arange(self.domain.size)

    @cached_property
    def formula(self) -> Formula:
        size, kept = self.domain.size, np.flatnonzero(~self._black)
        places = (kept, self.source[kept])
        moves = sparse.csr_array((np.ones(len(kept)), places), shape=(size, size))
        same = sparse.eye_array(size, format="csr")
        dark = np.where(self._black, self.domain.lower, 0.0)
        return Formula(
            AffineMap(moves, same, dark, *self.parameter_bounds, label=self.label), clip=True
        )

    @cached_property
    def _band(self) -> LinfBallPiece:
        """From `y` to `x_p`."""
        every = np.ones(self.domain.size, dtype=np.bool_)
        return LinfBallPiece(self.domain, self.label, self.limit, every)

    @property
    def _black(self) -> NDArray[np.bool_]:
        return np.asarray(self.source < 0)

    @property
    def _brightest_black(self) -> float:
        """The most that a black pixel becomes."""
        step = min(self.limit, self.domain.width)
        return min(self.domain.lower + step, self.domain.upper)

    def _moved(self, x: Array) -> Array:
        return np.where(self._black, self.domain.lower, x[:, self.source])

    def apply(self, x: Array, parameters: Array) -> Array:
        return self._band.apply(self._moved(x), parameters)

    def contains(self, x: Array, x_p: Array) -> NDArray[np.bool_]:
        low, high = self.domain.lower, self.domain.upper
        inside = (x >= low) & (x <= high) & (x_p >= low) & (x_p <= high)
        return np.asarray((inside & within(self._moved(x), x_p, self.limit)).all(axis=1))

    def image_bounds(self) -> tuple[Array, Array]:
        # One step outward, as the sum may have been rounded inward.
        top = min(float(np.nextafter(self._brightest_black, np.inf)), self.domain.upper)
        high = np.where(self._black, top, self.domain.upper)
        return np.full(self.domain.size, self.domain.lower), high

    def recover(self, x: Array, x_p: Array) -> Array:
        return self.project(x_p - self._moved(x[None])[0])

    def local(self, pixels: Columns) -> tuple[ShiftedLinfBallPiece, Columns]:
        sources = self.source[pixels]
        every = np.unique(np.concatenate([pixels, sources[sources >= 0]])).astype(np.int64)
        place = np.full(self.domain.size + 1, -1)
        place[every] = np.arange(len(every))
        # A source that is not here belongs to an image that has no weight.
        moved = place[self.source[every]]
        return replace(self, domain=self.domain.part(len(every)), source=moved), every

    def _support(self, a: Array, b: Array) -> Support:
        black = self._black
        taken = self.source[~black]
        pulled = np.zeros_like(b)
        pulled[:, taken] = b[:, ~black]
        # A pixel that is nowhere in the image is free, and so is what a black one becomes.
        found = self._band._support(a, pulled)
        top, low = self._brightest_black, self.domain.lower
        becomes = np.where(b > 0, top, low)
        value = found.value + np.where(black, b * becomes, 0.0).sum(axis=1)
        changes = np.where(black, becomes - low, found.parameters[:, self.source])
        return Support(value, found.x, self.project(changes))

    def add_rows(self, model: LinearModel, x: Columns) -> Columns:
        x_p = model.add_columns(*self.image_bounds())
        kept = ~self._black
        if kept.any() and self.limit < self.domain.width:
            blocks = [(x_p[kept], 1.0), (x[self.source[kept]], -1.0)]
            model.add_rows(blocks, -self.limit, self.limit)
        return x_p

    def relax(self, model: LinearModel) -> tuple[Expression, Expression]:
        """Without rows: the band about the pixels where they were, moved."""
        x, near = self._band.relax(model)
        black = np.flatnonzero(self._black)
        low, high = self.image_bounds()
        risen = model.add_columns(low[black], high[black])
        size, width = self.domain.size, model.column_count
        kept = np.flatnonzero(~self._black)
        moves = sparse.csr_array(
            (np.ones(len(kept)), (kept, self.source[kept])), shape=(size, size)
        )
        image = near.then(moves, np.zeros(size), width)
        own = sparse.csr_array((np.ones(len(black)), (black, risen)), shape=(size, width))
        return x, Expression(sparse.csr_array(image.matrix + own), image.constant)

    def describe(self, parameters: Array) -> dict[str, object]:
        return {**dict(self.facts), "largest change": float(abs(parameters).max())}
