"""The support of a piece, and the corners of a pixel's pairs `(x, x_p)` that attain it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Mask
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.ranges import Range

# Steeper edges are ignored, because rounding would cancel what they gain.
_STEEPEST = 64.0


@dataclass(frozen=True, eq=False)
class Support:
    """`value = max of a.x + b.x_p` over a piece, rounded outward, and where it is attained."""

    value: Array  # (batch,)
    x: Array  # (batch, size)
    parameters: Array  # (batch, parameters)


@dataclass(frozen=True, eq=False)
class SupportCorners:
    """The corners of a pixel and its image that suffice for the support, if pixels are independent.

    There is one row of `x` and `x_p` `(alternatives, corners)` for each alternative. The support is
    that of the best alternative, in which every pixel takes its best corner; pixels that are not
    `moving` take one of the first two.
    """

    x: Array
    x_p: Array
    moving: Mask | None = None

    @cached_property
    def _slopes(self) -> tuple[float, ...]:
        found = [edge_slopes(xs, ps) for xs, ps in zip(self.x, self.x_p, strict=True)]
        return tuple(dict.fromkeys(slope for slopes in found for slope in slopes))

    def domain_share(self, domain: Domain, a: Array, b: Array) -> Array:
        """The part `s` of `a` that is bounded over the domain, chosen to minimise the bound.

        It is chosen for each pixel, over the corners of all alternatives. The bound is convex and
        piecewise linear in `s`, with its minimum at 0 or where an edge of the corners' hull is
        level.
        """
        xs, ps = self.x.reshape(-1), self.x_p.reshape(-1)
        least = np.full(a.shape, -np.inf)
        for x, x_p in zip(xs, ps, strict=True):
            np.maximum(least, a * x + b * x_p, out=least)
        share = np.zeros_like(a)
        for slope in self._slopes:
            ends = ps - slope * xs
            own = a + slope * b
            value = np.maximum(own * domain.low, own * domain.high)
            value += np.maximum(b * ends.max(), b * ends.min())
            better = value < least
            np.copyto(least, value, where=better)
            np.copyto(share, own, where=better)
        return share if self.moving is None else np.where(self.moving, share, a + b)

    def best(self, a: Array, b: Array) -> tuple[Array, Array, Array, NDArray[np.int64]]:
        """For coefficients `(batch, size)`: the value, `x`, `x_p`, and the best alternative."""
        found = [self._best_of(a, b, k) for k in range(len(self.x))]
        value, x, x_p = found[0]
        chosen = np.zeros(len(a), dtype=np.int64)
        for k, (other, its_x, its_x_p) in enumerate(found[1:], start=1):
            better = other > value
            value = np.where(better, other, value)
            x, x_p = (
                np.where(better[:, None], new, old) for new, old in ((its_x, x), (its_x_p, x_p))
            )
            chosen[better] = k
        return value, x, x_p, chosen

    def _best_of(self, a: Array, b: Array, alternative: int) -> tuple[Array, Array, Array]:
        xs, ps = self.x[alternative], self.x_p[alternative]
        best = a * xs[0] + b * ps[0]
        which = np.zeros(a.shape, dtype=np.int8)
        for k in range(1, len(xs)):
            value = a * xs[k] + b * ps[k]
            better = value > best
            if k >= 2 and self.moving is not None:
                better &= self.moving
            np.copyto(best, value, where=better)
            np.copyto(which, np.int8(k), where=better)
        return best.sum(axis=1), xs[which], ps[which]


@dataclass(frozen=True, eq=False)
class PixelCorners:
    """The corners of a pixel and its image, for the clipped and the unclipped part.

    `side` is 1 for a corner of the clipped part only, -1 of the unclipped part only, 0 of both. The
    first corner belongs to both.
    """

    x: Array
    x_p: Array
    side: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ball:
    """Entries of `mask` change by up to `limit` within the input range; all others stay."""

    limit: float
    mask: Mask


@dataclass(frozen=True)
class Shift:
    """`x_p = x + e` for all entries, with one e of `span`, clipped if `clips`."""

    span: Range
    clips: bool


def edge_slopes(x: Array, x_p: Array) -> tuple[float, ...]:
    """The slopes of the edges of the points' hull that are not negative and not too steep."""
    found = []
    for one, other in combinations(range(len(x)), 2):
        across, up = float(x[other] - x[one]), float(x_p[other] - x_p[one])
        sides = across * (x_p - x_p[one]) - up * (x - x[one])
        edge = (sides >= 0).all() or (sides <= 0).all()
        if edge and across and 0 <= up / across <= _STEEPEST:
            found.append(up / across)
    return tuple(dict.fromkeys(found))
