"""The support of a piece, and corners of a pixel's pairs `(x, x_p)` that attain it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar.perturbation.domain import Array, Mask


@dataclass(frozen=True, eq=False)
class Support:
    """`value = max of a.x + b.x_p` over a piece, rounded outward, and where it is attained."""

    value: Array  # (batch,)
    x: Array  # (batch, size)
    parameters: Array  # (batch, parameters)


@dataclass(frozen=True, eq=False)
class SupportCorners:
    """What a piece with independent pixels lets a pixel and its image be, as few corners as do.

    There is one row of `x` and `x_p` `(alternatives, corners)` for each alternative. The support is
    the best alternative's, where every pixel takes its best corner; pixels that are not `moving`
    take one of the first two.
    """

    x: Array
    x_p: Array
    moving: Mask | None = None

    def best(self, a: Array, b: Array) -> tuple[Array, Array, Array, NDArray[np.int64]]:
        """For coefficients `(batch, size)`: value, `x`, `x_p`, and which alternative it is."""
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
    """Where clipping makes a pixel and its image a function of two parts: the corners of both.

    `side` is 1 for a corner of the clipped part only, -1 of the other part only, 0 of both. The
    first corner belongs to both.
    """

    x: Array
    x_p: Array
    side: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Ball:
    """Entries of `mask` move freely by up to `limit` inside the domain; all others stay."""

    limit: float
    mask: Mask
