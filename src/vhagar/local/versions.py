"""Enclose all versions of one image under a piece in a set with support in closed form.

With the image fixed, an entry of a version is an affine function of the piece's parameters, perhaps
clipped. Over a box of parameters the versions lie in

    centre + directions @ v + w,    v in [-1, 1]^k,   abs(w) <= room

which is exact for L-infinity balls (`room` alone) and for maps that are not clipped. A pixel that a
single parameter takes across an end of the input range is enclosed around the chord of its clip;
with several parameters, only its range is known. Smaller boxes of parameters make both exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.array_types import Array
from vhagar.network.layers import rows_times
from vhagar.perturbation import AbstractPiece
from vhagar.perturbation.domain import UNDERFLOW
from vhagar.reduction.clipping import Clip
from vhagar.relaxation.interval import HALF_ULP, middle_and_radius


@dataclass(frozen=True, eq=False)
class Versions:
    """The enclosing set: `centre` and `room` `(size,)`, `directions` `(size, k)`."""

    centre: Array
    directions: sparse.csr_array
    room: Array

    @cached_property
    def magnitude(self) -> Array:
        """The largest absolute value of every entry, rounded up."""
        return (abs(self.centre) + self._spread) * (1 + 2.0**-30)

    @cached_property
    def _spread(self) -> Array:
        across = abs(self.directions) @ np.ones(self.directions.shape[1])
        return np.asarray((across + self.room) * (1 + 2.0**-30))

    def support(self, rows: Array) -> Array:
        """The largest value of each row of coefficients `(rows, size)`, rounded up."""
        across = abs(rows_times(rows, self.directions)).sum(axis=1)
        value = rows @ self.centre + across + abs(rows) @ self.room
        terms = 2 * len(self.centre) + self.directions.shape[1] + 16
        slack = 4 * HALF_ULP * terms * (abs(rows) @ self.magnitude)
        return np.asarray(value + slack + UNDERFLOW)

    def bounds(self) -> tuple[Array, Array]:
        """Bounds on every entry."""
        reach = self._spread + 4 * HALF_ULP * self.magnitude
        return self.centre - reach, self.centre + reach


@dataclass(frozen=True, eq=False)
class FixedMap:
    """The versions of one image: `start + slopes @ e`, clipped to `floor` and `ceiling`.

    `slopes` is `(size, parameters)`; with `own_pixels` `(parameters,)` every parameter is added to
    one pixel of its own. `rounding` `(size,)` bounds the rounding error of each entry for all
    parameters in the box `lower`, `upper`.
    """

    start: Array
    slopes: sparse.csr_array
    own_pixels: NDArray[np.int64] | None
    floor: Array
    ceiling: Array
    rounding: Array
    lower: Array
    upper: Array

    def image(self, parameters: Array) -> Array:
        """The versions `(rows, size)` for parameters `(rows, parameters)`, up to rounding."""
        return np.clip(self.start + self._moved(parameters), self.floor, self.ceiling)

    def pull(self, rows: Array) -> Array:
        """Turn coefficients on the image, `(rows, size)`, into ones on the parameters."""
        return rows_times(rows, self.slopes)

    def _moved(self, parameters: Array) -> Array:
        return rows_times(parameters, sparse.csr_array(self.slopes.T))

    def choice(self, parameters: Array, piece: AbstractPiece) -> Array:
        """Parameters as the piece expects them, including those with a single value."""
        if not len(parameters):
            return piece.parameter_bounds[0]
        return piece.project(parameters)

    def parameters_of(self, versions: Array) -> Array | None:
        """The parameters `(rows, parameters)` of versions; None unless each has its own pixel."""
        if self.own_pixels is None or not len(versions):
            return None
        found = (versions - self.start)[:, self.own_pixels]
        return np.clip(found, self.lower, self.upper)

    def versions(self, lower: Array | None = None, upper: Array | None = None) -> Versions:
        """Enclose the versions over a box of parameters, by default the whole box."""
        low = self.lower if lower is None else lower
        high = self.upper if upper is None else upper
        ends = np.stack([low, high])
        if self.own_pixels is not None or not len(low):
            return self._box(*(self.start + self._moved(ends)))
        if len(low) == 1:
            return self._chord(ends)
        middle, half = (low + high) / 2, (high - low) / 2 * (1 + 4 * HALF_ULP)
        at_middle = self.start + self.slopes @ middle
        spread = abs(self.slopes) @ half
        least, most = at_middle - spread, at_middle + spread
        room = self.rounding
        inside = (least - 4 * room >= self.floor) & (most + 4 * room <= self.ceiling)
        boxed = self._box(least, most)
        kept = sparse.csr_array(sparse.diags_array(inside.astype(np.float64)) @ self.slopes)
        return Versions(
            np.where(inside, at_middle, boxed.centre),
            sparse.csr_array(kept * half[None]),
            np.where(inside, 4 * room, boxed.room),
        )

    def _box(self, least: Array, most: Array) -> Versions:
        """Enclose every entry by its range alone."""
        low = np.clip(least - 4 * self.rounding, self.floor, self.ceiling)
        high = np.clip(most + 4 * self.rounding, self.floor, self.ceiling)
        centre, radius = middle_and_radius(low, high)
        return Versions(centre, sparse.csr_array((len(centre), 0)), radius)

    def _chord(self, ends: Array) -> Versions:
        """With one parameter, enclose every entry around its chord, as far as the clip bends."""
        before = self.start + self._moved(ends)
        first, last = np.clip(before, self.floor, self.ceiling)
        middle, half = (first + last) / 2, (last - first) / 2
        rise, step = before[1] - before[0], half * 2
        least, most = np.zeros_like(first), np.zeros_like(first)
        for end in (self.floor, self.ceiling):
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.clip((end - before[0]) / rise, 0.0, 1.0)
                bend = end - (first + share * step)  # at the kink, the entry is at that end
            inside = (np.minimum(*before) < end) & (end < np.maximum(*before))
            bend = np.where(inside, bend, 0.0)
            least, most = np.minimum(least, bend), np.maximum(most, bend)
        centre = middle + (least + most) / 2
        reach = np.maximum(abs(before).max(axis=0), abs(centre))
        room = (most - least) / 2 + 8 * self.rounding + 64 * HALF_ULP * reach
        return Versions(centre, sparse.csr_array(half[:, None]), room)


def fixed_map(piece: AbstractPiece, x: Array, clip: Clip) -> FixedMap:
    """The map from a piece's parameters to versions of a flat image; an error without a formula.

    `clip` is the clipping that the network does for pieces that leave it to the network.
    """
    formula, domain = piece.required_formula(), piece.domain
    own = formula.map
    start, slopes = formula.at(x, domain)
    floor = np.where(clip.below, clip.lower, -np.inf)
    ceiling = np.where(clip.above, clip.upper, np.inf)
    if formula.clip or piece.free_pixels is not None:
        floor, ceiling = np.full(domain.size, domain.lower), np.full(domain.size, domain.upper)
    reach = abs(slopes) @ np.maximum(abs(own.lower), abs(own.upper))
    size = abs(own.matrix) @ abs(x) + abs(own.offset) + abs(x) + reach + domain.magnitude
    terms = np.diff(own.matrix.indptr) + np.diff(slopes.indptr) + 8
    rounding = 2.0**-51 * terms * size + UNDERFLOW
    ends = own.lower, own.upper
    return FixedMap(start, slopes, piece.free_pixels, floor, ceiling, rounding, *ends)
