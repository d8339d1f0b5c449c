"""Pieces that change every pixel separately: linf, patch, brightness and contrast."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from vhagar_check.box_supports import (
    Box,
    BoxCorners,
    ball_share,
    brightness_corners,
    contrast_corners,
    decided_part,
    edge_slopes,
    joined,
)
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.layers import Floats
from vhagar_check.pieces import Corner, Domain, Mask, Piece, Span, everywhere


@dataclass(frozen=True, eq=False)
class Pixelwise(Piece):
    """Scenarios of corners for the pixels of `mask`; the others keep their value.

    If clipping divides a pixel's set into two parts, `clip_corners` are the corners of both over
    the whole span; their side is 1 for the clipped part only, -1 for the other only, 0 for both.
    """

    domain: Domain
    name: str
    scenarios: tuple[tuple[Corner, ...], ...]
    mask: Mask
    image: tuple[Floats, Floats]
    rises: Mask
    falls: Mask
    clip: bool
    span: Span | None = None
    ratio: float = 1.0
    limit: float = 0.0
    clip_corners: tuple[tuple[Corner, int], ...] = ()

    @property
    def changes_alike(self) -> bool:
        return self.name == "brightness" and not self.clip and bool(self.mask.all())

    def largest(self, a: Floats, b: Floats) -> Floats:
        kept = _best(a, b, [(end, end) for end in self.domain.ends])
        totals = [
            np.where(self.mask, _best(a, b, corners), kept).sum(axis=1)
            for corners in self.scenarios
        ]
        return np.asarray(np.max(totals, axis=0))

    def decided(self, a: Floats, b: Floats, sides: dict[int, int]) -> Floats:
        whole = self.support(a, b)
        if not self.clip_corners or not sides:
            return whole
        free = [corner for corner, _ in self.clip_corners]
        values = _best(a, b, free)
        for pixel, side in sides.items():
            left = [corner for corner, part in self.clip_corners if part * side >= 0]
            values[:, pixel] = _best(a[:, [pixel]], b[:, [pixel]], left)[:, 0]
        found = np.minimum(whole, values.sum(axis=1) + self.rounding(a, b))
        if self.domain.box is None or self.box_corners is None:
            return np.asarray(found)
        box = self.domain.box
        found = np.fmin(found, self._decided_inside(box, a, b, sides))
        return self._beside_conditions(
            box, a, b, found, lambda left: self._decided_inside(box, left, b, sides)
        )

    def _beside_conditions(
        self, box: Box, a: Floats, b: Floats, known: Floats, bound: Callable[[Floats], Floats]
    ) -> Floats:
        """The smaller of a known bound and of that with rows and a zonotope, where images are
        clipped.

        These take their part of `a` first, as if nothing were; `bound` bounds what is left.
        """
        conditions = self.domain.conditions
        if conditions is None or not conditions.linear:
            return known
        s = conditions.pulled(box, a + b)
        left = a - s
        own = conditions.support(box, s)
        return np.fmin(known, joined(box, bound(left), s, left, self.magnitude, own))

    def _decided_inside(self, box: Box, a: Floats, b: Floats, sides: dict[int, int]) -> Floats:
        """As `decided`, over a box of inputs."""
        free = tuple(corner for corner, _ in self.clip_corners)
        slopes = edge_slopes(free)
        values = decided_part(box, list(free), slopes, a, b)
        for pixel, side in sides.items():
            left = [corner for corner, part in self.clip_corners if part * side >= 0]
            ends = box[0][[pixel]], box[1][[pixel]]
            own = decided_part(ends, left, slopes, a[:, [pixel]], b[:, [pixel]])
            values[:, pixel] = own[:, 0]
        assert self.box_corners is not None
        values = np.fmin(values, np.max(self.box_corners.each(a, b), axis=0))
        steepest = max(slopes, default=0.0)
        return np.asarray(values.sum(axis=1) + self.rounding(abs(a) + 2 * steepest * abs(b), b))

    @cached_property
    def box_corners(self) -> BoxCorners | None:
        """The corners of brightness and contrast over the box; None for other pieces."""
        box, span = self.domain.box, self.span
        if box is None or span is None:
            return None
        if self.name == "brightness":
            return brightness_corners(box, span, self.domain.ends if self.clip else None)
        clips = self.clip and span[1] > 1
        return contrast_corners(box, span, self.domain.low, self.domain.high, clips)

    def _inside(self, box: Box, a: Floats, b: Floats) -> Floats:
        if self.box_corners is None:
            return super()._inside(box, a, b)
        corners = self.box_corners
        found = np.asarray(corners.largest(a, b) + self.rounding(a, b))
        if self.domain.conditions is None:
            return found
        if self._clips:

            def smaller(left: Floats) -> Floats:
                both = np.fmin(corners.largest(left, b), self.largest(left, b))
                return np.asarray(both + self.rounding(left, b))

            return self._beside_conditions(box, a, b, found, smaller)
        return np.asarray(np.fmin(found, self._conditioned(box, a, b)))

    @property
    def free(self) -> bool:  # type: ignore[override]
        return self.span is None

    @property
    def stays(self) -> bool:  # type: ignore[override]
        return self.span is None or self.clip

    @property
    def _clips(self) -> bool:
        """Whether images of brightness or contrast may be clipped."""
        assert self.span is not None
        return self.clip and (self.name == "brightness" or self.span[1] > 1)

    def _conditioned(self, box: Box, a: Floats, b: Floats) -> Floats:
        """A bound from the conditions of the domain, if nothing is clipped.

        For each input the sum is linear in contrast's factor, so its maximum is at an end of the
        span.
        """
        assert self.span is not None
        assert self.domain.conditions is not None
        ends: list[tuple[Pixelwise, float]] = [(self, 1.0)]
        if self.name == "contrast":
            make = contrast_piece
            ends = [(make(self.domain, (e, e), self.clip), e) for e in dict.fromkeys(self.span)]
        found = []
        for piece, factor in ends:
            s = a + factor * b
            left = a - s
            rest = piece.largest(left, b) + piece.rounding(left, b)
            known = self.domain.conditions.support(box, s)
            found.append(joined(box, rest, s, left, self.magnitude, known))
        return np.asarray(np.max(found, axis=0))

    def share(self, a: Floats, b: Floats) -> Floats:
        if self.span is None and self.domain.box is not None:
            (corners,) = self.scenarios
            return np.where(self.mask, ball_share(self.domain.box, corners, a, b), a + b)
        return a + b

    def exact_support(self, a: Exact, b: Exact) -> Fraction | None:
        pairs = list(zip(a.fractions(), b.fractions(), self.mask.tolist(), strict=True))
        diagonal = tuple((end, end) for end in self.domain.ends)
        return max(
            sum(
                (
                    max(u * x + v * y for x, y in (corners if changes else diagonal))
                    for u, v, changes in pairs
                ),
                Fraction(0),
            )
            for corners in self.scenarios
        )

    def exact_image(self, x: list[Fraction], parameters: list[float]) -> list[Fraction]:
        low, high = self.domain.ends
        if self.span is None:
            if len(parameters) != int(self.mask.sum()):
                raise Rejected("a witness has the wrong number of parameters")
            changes, image = iter(parameters), list(x)
            for pixel in np.flatnonzero(self.mask).tolist():
                image[pixel] = self._moved(x[pixel], Fraction(next(changes)))
            return image
        if len(parameters) != 1 or not self.span[0] <= parameters[0] <= self.span[1]:
            raise Rejected("a witness has a parameter outside its range")
        e = Fraction(parameters[0])
        if self.name == "brightness":
            moved = [value + e for value in x]
        else:
            moved = [low + e * (value - low) for value in x]
        return [max(low, min(high, value)) for value in moved] if self.clip else moved

    def _moved(self, value: Fraction, change: Fraction) -> Fraction:
        """Move a pixel freely, rounded to float64: a witness is about what was evaluated.

        Every number within the limit and the range is a possible image, so this one is. Both ends
        of the range and the pixel itself are floats, so rounding does not lead beyond them.
        """
        low, high = self.domain.ends
        limit = Fraction(self.limit)
        moved = float(max(low, min(high, value + max(-limit, min(limit, change)))))
        if abs(Fraction(moved) - value) > limit:
            moved = math.nextafter(moved, float(value))
        return Fraction(moved)

    def with_span(self, span: Span) -> Piece:
        if self.span is None or not self.span[0] <= span[0] < span[1] <= self.span[1]:
            raise Rejected("a piece was split where it has no parameter or outside its range")
        make = brightness_piece if self.name == "brightness" else contrast_piece
        return make(self.domain, span, self.clip)


def _best(a: Floats, b: Floats, corners: Any) -> Floats:
    best = np.full(a.shape, -np.inf)
    for x, y in corners:
        np.maximum(best, a * float(x) + b * float(y), out=best)
    return best


def linf_ball(domain: Domain, limit: float, mask: Mask) -> Pixelwise:
    """The piece in which pixels of the mask change by up to the limit, inside the range."""
    low, high = domain.ends
    step = Fraction(limit)
    above, below = min(low + step, high), max(high - step, low)
    corners = ((low, low), (high, high), (above, low), (low, above), (high, below), (below, high))
    image = everywhere(domain, domain.low, domain.high)
    return Pixelwise(domain, "linf", (corners,), mask, image, mask, mask, True, limit=limit)


def brightness_piece(domain: Domain, span: Span, clip: bool) -> Pixelwise:
    """The piece `x_p = x + e`, clipped or not; e keeps its sign over the span.

    For fixed e the corners are linear in e, so the support is convex in e: its maximum over the
    span is at an end.
    """
    low, high = domain.ends
    weak, strong = (Fraction(end) for end in (span if span[0] >= 0 else span[::-1]))
    start, end = (low, high) if span[0] >= 0 else (high, low)
    scenarios: list[tuple[Corner, ...]] = []
    for e in (weak, strong):
        if clip:
            scenarios.append(((start, start + e), (end - e, end), (end, end)))
        else:
            scenarios.append(((low, low + e), (high, high + e)))
    corners: tuple[tuple[Corner, int], ...] = (
        ((end - strong, end), 0),
        ((end - weak, end), 0),
        ((start, start + weak), -1),
        ((start, start + strong), -1),
        ((end, end), 1),
    )
    every = np.ones(domain.size, dtype=np.bool_)
    least = float(np.nextafter(domain.low + span[0], -np.inf))
    most = float(np.nextafter(domain.high + span[1], np.inf))
    if clip:
        least, most = max(least, domain.low), min(most, domain.high)
    return Pixelwise(
        domain,
        "brightness",
        tuple(scenarios),
        every,
        everywhere(domain, least, most),
        every & (span[1] > 0),
        every & (span[0] < 0),
        clip,
        span,
        clip_corners=corners if clip else (),
    )


def contrast_piece(domain: Domain, span: Span, clip: bool) -> Pixelwise:
    """The piece `x_p - black = e (x - black)`, clipped or not; e stays on one side of 1.

    Without a clip the corners are linear in e, as with brightness. With one, a pixel's triangle
    (black, black), (black + width / e, white), (white, white) grows with e.
    """
    low, high = domain.ends
    width = high - low
    weak, strong = (Fraction(end) for end in span)
    clips = clip and span[1] > 1
    scenarios: list[tuple[Corner, ...]]
    if clips:
        scenarios = [((low, low), (low + width / strong, high), (high, high))]
    else:
        scenarios = [((low, low), (high, low + e * width)) for e in (weak, strong)]
    corners: tuple[tuple[Corner, int], ...] = (
        ((low + width / strong, high), 0),
        ((low + width / weak, high), 0),
        ((low, low), -1),
        ((high, high), 1),
    )
    every = np.ones(domain.size, dtype=np.bool_)
    top = float(np.nextafter(float(low + strong * width), np.inf))
    return Pixelwise(
        domain,
        "contrast",
        tuple(scenarios),
        every,
        everywhere(domain, domain.low, min(top, domain.high) if clip else top),
        every & (span[1] > 1),
        every & (span[0] < 1),
        clip,
        span,
        math.sqrt(span[0] * span[1]),
        clip_corners=corners if clips else (),
    )
