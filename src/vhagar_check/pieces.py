"""What the perturbations mean: the pieces they consist of, and how far each piece can reach.

For coefficients `(a, b)` the support of a piece is the maximum of `a.x + b.x_p` over its pairs
`(x, x_p)`. Two kinds of pieces suffice:

- *pixelwise*: for one of a few scenarios, the same for all pixels, every pixel with its image lies
  in the convex hull of a few corners. The support is the largest scenario's sum of the pixels'
  largest corners.
- *moved*: `x_p = M x + c`, so the support is that of `a + M'b` over the box of inputs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar_check.domain_boxes import (
    Box,
    BoxCorners,
    ball_share,
    brightness_corners,
    contrast_corners,
    decided_part,
    edge_slopes,
    exact_box_support,
    joined,
)
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.layers import TINY, UNDERFLOW, Floats, Shape, gamma

Mask = NDArray[np.bool_]
Corner = tuple[Fraction, Fraction]
Span = tuple[float, float]

# Images that are bounded at once.
_IMAGES_AT_ONCE = 64


@dataclass(frozen=True)
class Domain:
    """Every entry of the input lies in `[low, high]`; `low` is black.

    `box`, where there is one, narrows the range of the entries of `x`, each `(size,)`. Perturbed
    inputs need not lie in it.
    """

    shape: Shape
    low: float
    high: float
    box: Box | None = field(default=None, compare=False)

    def part(self, pixels: NDArray[np.int64]) -> Domain:
        """Some of the entries, in a row."""
        box = None if self.box is None else (self.box[0][pixels], self.box[1][pixels])
        return Domain((len(pixels),), self.low, self.high, box)

    @property
    def inputs(self) -> Box:
        """The ends of the range of every entry of `x`."""
        if self.box is not None:
            return self.box
        return np.full(self.size, self.low), np.full(self.size, self.high)

    def contains(self, x: Floats) -> bool:
        """Whether an input `(size,)` is in the range and in the box."""
        inside = ((x >= self.low) & (x <= self.high)).all()
        if self.box is not None:
            inside = inside and ((x >= self.box[0]) & (x <= self.box[1])).all()
        return bool(inside)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def ends(self) -> Corner:
        return Fraction(self.low), Fraction(self.high)

    @property
    def image(self) -> tuple[int, int, int]:
        if len(self.shape) not in (2, 3):
            raise Rejected("this perturbation needs an image")
        height, width = self.shape[-2:]
        return (self.shape[0] if len(self.shape) == 3 else 1), height, width


class Piece(ABC):
    """A set of pairs `(x, x_p)`. `span` is the range of its parameter where it has one."""

    domain: Domain
    span: Span | None = None
    ratio: float = 1.0  # what x_p follows is this multiple of x
    sides: int = 6  # of a hexagon that refinements bound; 2 where both copies are the same
    image: tuple[Floats, Floats]  # bounds on the entries of x_p
    rises: Mask  # entries with x_p > x for some pair
    falls: Mask

    @abstractmethod
    def largest(self, a: Floats, b: Floats) -> Floats:
        """The support, up to rounding; coefficients are `(cases, size)`."""

    @abstractmethod
    def exact_support(self, a: Exact, b: Exact) -> Fraction | None:
        """The support in exact arithmetic, or an upper bound; None where it is not known."""

    @abstractmethod
    def exact_image(self, x: list[Fraction], parameters: list[float]) -> list[Fraction] | None:
        """The perturbed input; None where it is not rational."""

    def image_interval(self, x: Floats, parameters: list[float]) -> tuple[Floats, Floats]:
        """Bounds on the perturbed input where it is not rational."""
        raise Rejected("this perturbation's image is known exactly")

    def linear_change(self) -> tuple[Floats, Floats] | None:
        """`C` and the errors of its entries where `x - x_p = C x` for all pairs; else None."""
        return None

    def with_span(self, span: Span) -> Piece:
        raise Rejected("a piece without a parameter was split")

    def read_span(self, given: Any) -> Span:
        """A part of the span, as a certificate states it."""
        return float(given[0]), float(given[1])

    @property
    def inputs(self) -> tuple[Floats, Floats]:
        """Bounds on the entries of x."""
        return self.domain.inputs

    @cached_property
    def image_box(self) -> tuple[Floats, Floats]:
        """Bounds on the entries of x_p, for x in the box: supports in their directions."""
        if self.domain.box is None:
            return self.image
        size = self.domain.size
        low, high = (side.copy() for side in self.image)
        for begin in range(0, size, _IMAGES_AT_ONCE):
            pixels = np.arange(begin, min(begin + _IMAGES_AT_ONCE, size))
            unit = np.zeros((len(pixels), size))
            unit[np.arange(len(pixels)), pixels] = 1.0
            nothing = np.zeros_like(unit)
            high[pixels] = np.fmin(high[pixels], self.support(nothing, unit))
            low[pixels] = np.fmax(low[pixels], -self.support(nothing, -unit))
        return low, high

    @property
    def magnitude(self) -> float:
        """The largest absolute value of an entry of x or x_p."""
        ends = [abs(side).max() for side in self.image]
        return float(max(abs(self.domain.low), abs(self.domain.high), *ends))

    def support(self, a: Floats, b: Floats) -> Floats:
        """The support over the inputs of the domain, or a bound on it, rounded up."""
        found = np.asarray(self.largest(a, b) + self.rounding(a, b))
        if self.domain.box is None:
            return found
        return np.asarray(np.fmin(found, self._inside(self.domain.box, a, b)))

    def _inside(self, box: Box, a: Floats, b: Floats) -> Floats:
        """A bound on the support over a box of inputs, rounded up: see `domain_boxes`."""
        s = self.share(a, b)
        left = a - s
        rest = self.largest(left, b) + self.rounding(left, b)
        return joined(box, rest, s, left, self.magnitude)

    def share(self, a: Floats, b: Floats) -> Floats:
        """The part of `a.x` that is bounded over the box, not over the range; any is valid."""
        return a

    def exact_within(self, a: Exact, b: Exact) -> Fraction | None:
        """As `exact_support`, for the inputs of the domain."""
        found, box = self.exact_support(a, b), self.domain.box
        if found is None or box is None:
            return found
        rounded = [np.array([[float(v) for v in part.fractions()]]) for part in (a, b)]
        with np.errstate(all="ignore"):
            s = self.share(*rounded)[0]
        if not np.isfinite(s).all():
            return found
        rest = self.exact_support(a + Exact.of(-s), b)
        if rest is None:
            return found
        return min(found, rest + exact_box_support(box, Exact.of(s).fractions()))

    def rounding(self, a: Floats, b: Floats) -> Floats:
        """More than what rounding and underflow take from the support.

        A coefficient may be a sum of products, and what it loses to underflow is multiplied by a
        pixel; a corner may be subnormal, and what it loses is multiplied by a coefficient.
        """
        size, terms = (abs(a) + abs(b)).sum(axis=1), 2 * self.domain.size + 64
        lost = UNDERFLOW * (terms * self.domain.size * self.magnitude + size)
        return np.asarray(1.01 * gamma(terms) * size * self.magnitude + lost + TINY)

    def decided(self, a: Floats, b: Floats, sides: dict[int, int]) -> Floats:
        """The support where pixels are decided to be clipped (1) or not (-1)."""
        return self.support(a, b)


@dataclass(frozen=True, eq=False)
class Pixelwise(Piece):
    """Scenarios of corners for the pixels of `mask`; the others keep their value.

    `clip_corners`, where clipping makes two parts of a pixel's set, are the corners of both over
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
        return np.asarray(np.fmin(found, self._decided_inside(self.domain.box, a, b, sides)))

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
        """The corners over the box, of brightness and contrast."""
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
        return np.asarray(self.box_corners.largest(a, b) + self.rounding(a, b))

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
            changes = iter(parameters)
            if len(parameters) != int(self.mask.sum()):
                raise Rejected("a witness has the wrong number of parameters")
            limit = Fraction(self.limit)
            steps = [
                max(-limit, min(limit, Fraction(next(changes)))) if moves else Fraction(0)
                for moves in self.mask.tolist()
            ]
            return [max(low, min(high, value + step)) for value, step in zip(x, steps, strict=True)]
        if len(parameters) != 1 or not self.span[0] <= parameters[0] <= self.span[1]:
            raise Rejected("a witness has a parameter outside its range")
        e = Fraction(parameters[0])
        if self.name == "brightness":
            moved = [value + e for value in x]
        else:
            moved = [low + e * (value - low) for value in x]
        return [max(low, min(high, value)) for value in moved] if self.clip else moved

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
    """Pixels of the mask change by up to the limit, inside the domain."""
    low, high = domain.ends
    step = Fraction(limit)
    above, below = min(low + step, high), max(high - step, low)
    corners = ((low, low), (high, high), (above, low), (low, above), (high, below), (below, high))
    image = everywhere(domain, domain.low, domain.high)
    return Pixelwise(domain, "linf", (corners,), mask, image, mask, mask, True, limit=limit)


def everywhere(domain: Domain, low: float, high: float) -> tuple[Floats, Floats]:
    return np.full(domain.size, low), np.full(domain.size, high)


def brightness_piece(domain: Domain, span: Span, clip: bool) -> Pixelwise:
    """`x_p = x + e`, clipped or not; e keeps its sign over the span.

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
    """`x_p - black = e (x - black)`, clipped or not; e stays on one side of 1.

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


def part_of(piece: Piece, span: Span) -> Piece:
    """The same piece over a part of its span."""
    return piece if piece.span == span else piece.with_span(span)
