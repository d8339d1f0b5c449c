"""What each pixel contributes to a support under clipped brightness or contrast, over a box.

Other perturbations are clipped by the network (`reduction/clipping.py`).

For a fixed parameter e, a pixel's image f(x) has one kink, so `a x + b f(x)` is largest at an end
of the pixel's range or at the kink. Over a span of e:

- For each x the image is monotone in e, so a pixel contributes most at one end of the span: the
  larger of both ends' contributions is a bound.
- For brightness, a contribution is convex in e, or concave if b has the sign for which clipping
  lowers it. A concave one is linear in e unless the kink crosses an end of the pixel's range within
  the span. With each pixel of that kind at its larger end, the sum is convex, so its maximum is at
  an end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array, Mask


@dataclass(frozen=True, eq=False)
class ClippedBox:
    """The corners `(ends of the span, corners, size)` of every pixel and its image.

    `crossed` `(size,)` marks pixels whose kink crosses an end of their range within the span, or
    all pixels where convexity is not known; `sign` is the sign of `b` for which their contributions
    are concave, 0 for both.
    """

    x: Array
    x_p: Array
    crossed: Mask
    sign: int

    def _contributions(self, a: Array, b: Array) -> tuple[Array, Array]:
        """The contributions at each end of the span, `(ends, batch, size)`, and the best `x`."""
        values, where = [], []
        for xs, ps in zip(self.x, self.x_p, strict=True):
            best, x = a * xs[0] + b * ps[0], np.broadcast_to(xs[0], a.shape)
            for one, other in zip(xs[1:], ps[1:], strict=True):
                value = a * one + b * other
                x = np.where(value > best, one, x)
                best = np.maximum(best, value)
            values.append(best)
            where.append(x)
        return np.stack(values), np.stack(where)

    def each(self, a: Array, b: Array) -> Array:
        """The most that each pixel contributes, `(batch, size)`, whatever the others do."""
        return np.asarray(self._contributions(a, b)[0].max(axis=0))

    def best(self, a: Array, b: Array) -> tuple[Array, Array, Array]:
        """A bound `(batch,)` on the sum, the end of the span where it is, and an input there."""
        values, where = self._contributions(a, b)
        apart = self.crossed & ((b * self.sign > 0) if self.sign else np.True_)
        totals = np.where(apart, values.max(axis=0), values).sum(axis=2)
        end = totals.argmax(axis=0)
        rows = np.arange(len(a))
        return totals[end, rows], end, where[end, rows]
