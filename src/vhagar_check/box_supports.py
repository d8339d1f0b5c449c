"""Bounds on supports over a box of inputs inside the input range.

For any `s`, a maximum of `a.x + b.x_p` over inputs in the box is at most the box's support of `s`
plus the piece's support of `(a - s, b)` over all inputs of the range. For clipped brightness and
contrast the corners over the box are used directly.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from vhagar_check.layers import HALF_ULP, TINY, UNDERFLOW, Floats, gamma

Mask = NDArray[np.bool_]
Box = tuple[Floats, Floats]
Corner = tuple[Fraction, Fraction]

# Steepest edge that is tried.
_STEEPEST = 64


def box_support(box: Box, s: Floats) -> Floats:
    """The maximum of `s.x` over the box, not rounded."""
    low, high = box
    return np.asarray(np.maximum(s * low, s * high).sum(axis=1))


def exact_box_support(box: Box, s: list[Fraction]) -> Fraction:
    ends = zip(s, box[0].tolist(), box[1].tolist(), strict=True)
    found = (max(v * Fraction(low), v * Fraction(high)) for v, low, high in ends if v)
    return sum(found, Fraction(0))


def joined(
    box: Box,
    rest: Floats,
    s: Floats,
    left: Floats,
    magnitude: float,
    known: Floats | None = None,
) -> Floats:
    """The bound from a share `s`, rounded up. `rest` is a bound on the other part, whose
    coefficients are `left = a - s`, rounded; `known` is another bound on `s.x`, if there is one."""
    own = box_support(box, s)
    if known is not None:
        own = np.fmin(own, known)
    size = (abs(s) + abs(left)).sum(axis=1) * magnitude
    slack = 1.01 * gamma(s.shape[1] + 16) * size + 8 * HALF_ULP * (abs(own) + abs(rest))
    return np.asarray(own + rest + slack + UNDERFLOW * (s.shape[1] + 16) + TINY)


def edge_slopes(corners: tuple[Corner, ...]) -> list[float]:
    """The slopes of the edges of the corners' hull that are not negative and not too steep."""
    found: list[float] = []
    for (x, y), (u, v) in combinations(corners, 2):
        across, up = u - x, v - y
        sides = [across * (q - y) - up * (p - x) for p, q in corners]
        edge = all(side >= 0 for side in sides) or all(side <= 0 for side in sides)
        if edge and across and 0 <= up / across <= _STEEPEST:
            found.append(float(up / across))
    return list(dict.fromkeys(found))


def ball_share(box: Box, corners: tuple[Corner, ...], a: Floats, b: Floats) -> Floats:
    """Choose the share of `a.x` that minimises the bound, pixel by pixel, for these corners.

    Any share is valid, so its rounding does not matter.
    """
    least = np.max([a * float(x) + b * float(y) for x, y in corners], axis=0)
    share = np.zeros_like(a)
    for slope in edge_slopes(corners):
        ends = [float(y) - slope * float(x) for x, y in corners]
        own = a + slope * b
        value = np.maximum(own * box[0], own * box[1])
        value = value + np.maximum(b * max(ends), b * min(ends))
        better = value < least
        least, share = np.where(better, value, least), np.where(better, own, share)
    return share


def decided_part(
    box: Box, corners: list[Corner], slopes: list[float], a: Floats, b: Floats
) -> Floats:
    """Bound the contribution of pixels that lie in the box and, with their image, in the hull of
    some corners."""
    found = np.max([a * float(x) + b * float(y) for x, y in corners], axis=0)
    for slope in slopes:
        own = a + slope * b
        rest = np.max([b * float(y - Fraction(slope) * x) for x, y in corners], axis=0)
        found = np.fmin(found, np.maximum(own * box[0], own * box[1]) + rest)
    return np.asarray(found)


@dataclass(frozen=True, eq=False)
class BoxCorners:
    """The corners of every pixel over its range, at both ends of the parameter's span.

    Each end has a list of pairs `(x, image)`, `(size,)` each. For one parameter the image is linear
    in x except at one kink, which is among the corners. `apart` says for which signs of `b` a
    pixel's contribution may be neither convex nor linear in the parameter; such a pixel is
    maximised on its own, at an end of the span, as its image moves in one direction.
    """

    ends: list[list[tuple[Floats, Floats]]]
    apart_above: Mask  # for b > 0
    apart_below: Mask  # for b < 0

    def each(self, a: Floats, b: Floats) -> list[Floats]:
        """The contributions of all pixels at both ends of the span."""
        return [np.max([a * x + b * y for x, y in corners], axis=0) for corners in self.ends]

    def largest(self, a: Floats, b: Floats) -> Floats:
        """A bound on the sum of all contributions, not rounded."""
        both = self.each(a, b)
        apart = np.where(b > 0, self.apart_above, self.apart_below)
        alone = np.max(both, axis=0)
        totals = [np.where(apart, alone, end).sum(axis=1) for end in both]
        return np.asarray(np.max(totals, axis=0))


def brightness_corners(box: Box, span: tuple[float, float], clip: Corner | None) -> BoxCorners:
    """The corners of `x + e`, clipped to the two ends of the range or not."""
    low, high = box
    nowhere = np.zeros(len(low), dtype=np.bool_)
    if clip is None:
        ends = [[(low, low + e), (high, high + e)] for e in span]
        return BoxCorners(ends, nowhere, nowhere)
    black, white = float(clip[0]), float(clip[1])
    rising = span[0] >= 0
    turns = [(white if rising else black) - e for e in span]
    ends = []
    for e, turn in zip(span, turns, strict=True):
        xs = low, high, np.clip(np.full(len(low), turn), low, high)
        ends.append([(x, np.clip(x + e, black, white)) for x in xs])
    first, last = np.nextafter(min(turns), -np.inf), np.nextafter(max(turns), np.inf)
    crossed = ((low > first) & (low < last)) | ((high > first) & (high < last))
    return BoxCorners(ends, crossed if rising else nowhere, nowhere if rising else crossed)


def contrast_corners(
    box: Box, span: tuple[float, float], black: float, white: float, clip: bool
) -> BoxCorners:
    """The corners of `black + e (x - black)`, clipped to `white` or not."""
    low, high = box
    ends = []
    for e in span:
        xs = [low, high]
        images = [black + e * (x - black) for x in xs]
        if clip:
            images = [np.clip(image, black, white) for image in images]
            # From the kink on, the image is that of the upper end. Computed from the kink, which is
            # rounded, it could be less by the rounding error times the factor.
            kink = black + (white - black) / e
            xs.append(np.clip(np.full(len(low), kink), low, high))
            images.append(images[1])
        ends.append(list(zip(xs, images, strict=True)))
    apart = np.full(len(low), clip)
    return BoxCorners(ends, apart, apart)
