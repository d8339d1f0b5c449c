"""Zonotopes of inputs: `mean + components' z + r` with `|z| <= ranges` and `|r| <= residual`.

Over a zonotope alone the maximum of `s.x` has a closed form. Inputs lie in a box, too, so for every
`c` it is at most the zonotope's at `c` plus the box's at `s - c`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from vhagar_check.box_supports import Box, exact_box_support, joined
from vhagar_check.container import require_keys
from vhagar_check.errors import Rejected
from vhagar_check.layers import TINY, UNDERFLOW, Floats, gamma

_KEYS = ("mean", "components", "ranges", "residual")
# How often the share of a zonotope and its coordinates answer each other.
_ROUNDS = 32


@dataclass(frozen=True, eq=False)
class Zonotope:
    """Inputs `mean + components' z + r` with `|z| <= ranges` and `|r| <= residual`."""

    mean: Floats
    components: Floats
    ranges: Floats
    residual: Floats

    def support(self, s: Floats) -> Floats:
        """The maximum of `s.x`, rounded up."""
        along = abs(s @ self.components.T)
        value = s @ self.mean + along @ self.ranges + abs(s) @ self.residual
        terms = len(self.mean) + len(self.ranges) + 16
        reach = abs(self.mean) + self.ranges @ abs(self.components) + self.residual
        reach = reach + UNDERFLOW * terms  # its products may underflow, too
        lost = UNDERFLOW * terms * (1 + reach.sum() + self.ranges.sum()) + TINY
        return np.asarray(value + 2 * gamma(terms) * (abs(s) @ reach) + lost)

    def exact_support(self, s: list[Fraction]) -> Fraction:
        triples = zip(s, self.mean.tolist(), self.residual.tolist(), strict=True)
        total = sum((v * Fraction(m) + abs(v) * Fraction(r) for v, m, r in triples), Fraction(0))
        for row, end in zip(self.components.tolist(), self.ranges.tolist(), strict=True):
            terms = (v * Fraction(weight) for v, weight in zip(s, row, strict=True) if v and weight)
            total += abs(sum(terms, Fraction(0))) * Fraction(end)
        return total

    def share(self, box: Box, s: Floats, stops: bool = False) -> Floats:
        """Choose the part of `s` that is bounded here and not over the box.

        Any part is valid. At given coordinates, the box or the zonotope limits an entry; where it
        is the zonotope, the entry's coefficient belongs to it. At the coordinates that are best for
        some share, others may be limited. Averages of both answers approach a best pair.

        Where the box limits all entries at some average of the coordinates, the box alone gives the
        best bound. With `stops` such a case is done, and its share is 0.
        """
        share, used = np.zeros_like(s), np.flatnonzero(s.any(axis=0))
        moves = (self.components * self.ranges[:, None])[:, used]
        above, below = box[1] - (self.mean + self.residual), self.mean - self.residual - box[0]
        own, cases = s[:, used], np.arange(len(s))
        room = np.where(own > 0, above[used], np.where(own < 0, below[used], -np.inf))
        sign = np.sign(own)
        found, z = np.zeros_like(own), np.zeros((len(s), len(self.ranges)))
        for turn in range(_ROUNDS):
            step = 2 / (turn + 2)
            limits = sign * (z @ moves) < room
            useful = limits.any(axis=1)
            if stops and not useful.all():
                cases, limits = cases[useful], limits[useful]
                own, room, sign, found, z = (each[useful] for each in (own, room, sign, found, z))
            found += step * (np.where(limits, own, 0.0) - found)
            z += step * (np.sign(found @ moves.T) - z)
        share[np.ix_(cases, used)] = found
        return share

    def shared_support(self, box: Box, s: Floats) -> Floats:
        """A bound on `s.x` over the inputs of the zonotope that lie in the box, rounded up."""
        share = self.share(box, s, stops=True)
        rest = s - share
        magnitude = float(np.max(np.abs(box)))
        value = joined(box, self.support(share), rest, share, magnitude)
        return np.asarray(np.fmin(value, self.support(s)))

    def exact_shared(self, box: Box, s: list[Fraction]) -> Fraction:
        """As `shared_support`, in exact arithmetic."""
        alone = self.exact_support(s)
        try:
            rounded = np.array([[float(v) for v in s]])
        except OverflowError:  # the closed form needs no rounding
            return alone
        found = self.share(box, rounded, stops=True)[0]
        share = [Fraction(v) for v in found.tolist()]
        rest = [v - own for v, own in zip(s, share, strict=True)]
        return min(alone, self.exact_support(share) + exact_box_support(box, rest))

    def contains(self, x: list[Fraction], coordinates: Any) -> bool:
        """Whether the given coordinates prove that an input lies in the zonotope."""
        z = [Fraction(float(value)) for value in coordinates]
        if len(z) != len(self.ranges):
            return False
        inside = all(
            abs(v) <= Fraction(end) for v, end in zip(z, self.ranges.tolist(), strict=True)
        )
        for k, value in enumerate(x):
            column = self.components[:, k].tolist()
            terms = (v * Fraction(weight) for v, weight in zip(z, column, strict=True) if weight)
            centre = sum(terms, Fraction(float(self.mean[k])))
            inside = inside and abs(value - centre) <= Fraction(float(self.residual[k]))
        return inside


def read_zonotope(given: Any, size: int) -> Zonotope:
    """Read the zonotope of a certificate's domain."""
    require_keys(given, frozenset(_KEYS), "zonotope")
    mean, components, ranges, residual = (np.array(given[key], dtype=np.float64) for key in _KEYS)
    count = len(ranges)
    if (mean.shape, components.shape, residual.shape) != ((size,), (count, size), (size,)):
        raise Rejected("the zonotope does not have the shape of inputs")
    finite = all(np.isfinite(part).all() for part in (mean, components, ranges, residual))
    if not finite or (ranges < 0).any() or (residual < 0).any() or ranges.ndim != 1:
        raise Rejected("the zonotope has a negative range or a number that is not finite")
    return Zonotope(mean, components, ranges, residual)
