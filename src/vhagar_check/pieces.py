"""The meaning of perturbations: the pieces that they consist of, and the support of each piece.

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
from dataclasses import dataclass, field, is_dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar_check.box_supports import (
    Box,
    exact_box_support,
    joined,
)
from vhagar_check.conditions import Conditions
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.layers import TINY, UNDERFLOW, Floats, Shape, gamma
from vhagar_check.whole_numbers import narrow_whole

Mask = NDArray[np.bool_]
Corner = tuple[Fraction, Fraction]
Span = tuple[float, float]

# How often `a` is shared anew between a domain with rows or a zonotope and the range.
_SHARES = 2
# Images that are bounded at once.
_IMAGES_AT_ONCE = 64


@dataclass(frozen=True)
class Domain:
    """Every entry of the input lies in `[low, high]`; `low` is black.

    `box`, if there is one, narrows the range of the entries of `x`, each end `(size,)`, and
    `conditions` are further conditions on `x`. Perturbed inputs need not satisfy them.
    """

    shape: Shape
    low: float
    high: float
    box: Box | None = field(default=None, compare=False)
    conditions: Conditions | None = field(default=None, compare=False)

    def part(self, pixels: NDArray[np.int64]) -> Domain:
        """The domain of some of the entries, without conditions besides their ranges."""
        box = None if self.box is None else (self.box[0][pixels], self.box[1][pixels])
        return Domain((len(pixels),), self.low, self.high, box)

    def narrowed(self, ranges: dict[int, tuple[float, float]]) -> Domain | None:
        """The part of the domain with these ranges of whole numbers; None if no input is left."""
        if self.conditions is None:
            raise Rejected("an entry is split that need not be a whole number")
        low, high = (side.copy() for side in self.inputs)
        for k, (least, most) in ranges.items():
            low[k], high[k] = max(low[k], least), min(high[k], most)
        if not narrow_whole(self.conditions, low, high):
            return None
        return replace(self, box=(low, high))

    @property
    def inputs(self) -> Box:
        """The ends of the range of every entry of `x`."""
        if self.box is not None:
            return self.box
        return np.full(self.size, self.low), np.full(self.size, self.high)

    def contains(self, x: list[Fraction], coordinates: Any = None) -> bool:
        """Whether an input is in the range, in the box, and satisfies the conditions, exactly.

        `coordinates` are those of the input in the domain's zonotope.
        """
        low, high = (side.tolist() for side in self.inputs)
        ends = zip(x, low, high, strict=True)
        inside = all(Fraction(least) <= v <= Fraction(most) for v, least, most in ends)
        black, white = self.ends
        inside = inside and all(black <= v <= white for v in x)
        return inside and (self.conditions is None or self.conditions.contains(x, coordinates))

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
    """A set of pairs `(x, x_p)`; `span` is the range of its parameter, if it has one."""

    domain: Domain
    span: Span | None = None
    ratio: float = 1.0  # x_p is compared with this multiple of x
    sides: int = 6  # sides of a hexagon that refinements bound; 2 if both copies are the same
    free: bool = False  # whether pixels move by themselves, beside those of the input
    stays: bool = True  # whether every image lies in the input range, clipped or not
    image: tuple[Floats, Floats]  # bounds on the entries of x_p
    rises: Mask  # entries with x_p > x for some pair
    falls: Mask

    @abstractmethod
    def largest(self, a: Floats, b: Floats) -> Floats:
        """The support, up to rounding; coefficients are `(cases, size)`."""

    @abstractmethod
    def exact_support(self, a: Exact, b: Exact) -> Fraction | None:
        """The support in exact arithmetic, or an upper bound on it; None if it is unknown."""

    @abstractmethod
    def exact_image(self, x: list[Fraction], parameters: list[float]) -> list[Fraction] | None:
        """The perturbed input; None if it is not rational."""

    def image_interval(self, x: Floats, parameters: list[float]) -> tuple[Floats, Floats]:
        """Bounds on a perturbed input that is not rational."""
        raise Rejected("this perturbation's image is known exactly")

    def near_image(
        self, x: list[Fraction], parameters: list[float]
    ) -> tuple[list[Fraction], Fraction]:
        """A perturbed input that is not rational, nearly, and a bound on its entries' errors."""
        raise Rejected("this perturbation's image is known exactly")

    def linear_change(self) -> tuple[Floats, Floats] | None:
        """`C` and its entries' errors if `x - x_p = C x` for all pairs; else None."""
        return None

    @property
    def changes_alike(self) -> bool:
        """Whether `x - x_p` has the same value in all entries, for all pairs, exactly."""
        return False

    def with_span(self, span: Span) -> Piece:
        raise Rejected("a piece without a parameter was split")

    def within(self, domain: Domain) -> Piece:
        """The same piece over a part of its domain."""
        if not is_dataclass(self):
            raise Rejected("a piece that does not depend on the domain was split by an entry")
        return replace(self, domain=domain)

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

    def support_with(self, a: Floats, b: Floats, c: Floats, d: Floats) -> Floats:
        """The support of `(a + c, b + d)`, `c` and `d` with an entry for each pixel of the whole
        piece."""
        return self.support(a + c, b + d)

    def _inside(self, box: Box, a: Floats, b: Floats) -> Floats:
        """A bound on the support over a box of inputs, rounded up: see `box_supports`."""
        return self._shared(box, a, b)[0]

    def _shared(self, box: Box, a: Floats, b: Floats) -> tuple[Floats, Floats]:
        """The least of the bounds for some shares of `a`, and the share that gives it."""
        conditions, s = self.domain.conditions, self.share(a, b)
        best, chosen = np.full(len(a), np.inf), s
        for turn in range(1 if conditions is None or not conditions.linear else 2 + _SHARES):
            if turn == 1 and not self.free:
                continue
            if turn == 1:  # where ranges are those of all inputs, the share may leave them nothing
                s = a + b
            elif turn and conditions is not None:  # they take their part of a first
                pulled = conditions.pulled(box, s)
                s = pulled + self.share(a - pulled, b)
            left = a - s
            rest = self.largest(left, b) + self.rounding(left, b)
            known = None if conditions is None else conditions.support(box, s)
            value = joined(box, rest, s, left, self.magnitude, known)
            better = value < best
            best = np.where(better, value, best)
            chosen = np.where(better[:, None], s, chosen)
        return best, chosen

    def share(self, a: Floats, b: Floats) -> Floats:
        """The share of `a.x` that is bounded over the box, not over the range; any is valid."""
        return a

    def exact_within(self, a: Exact, b: Exact) -> Fraction | None:
        """As `exact_support`, over the inputs of the domain."""
        found, box = self.exact_support(a, b), self.domain.box
        if found is None or box is None:
            return found
        rounded = [np.array([[float(v) for v in part.fractions()]]) for part in (a, b)]
        with np.errstate(all="ignore"):
            s = self._shared(box, *rounded)[1][0]
        if not np.isfinite(s).all():
            return found
        rest = self.exact_support(a + Exact.of(-s), b)
        if rest is None:
            return found
        share, conditions = Exact.of(s).fractions(), self.domain.conditions
        own = exact_box_support(box, share)
        known = None if conditions is None else conditions.exact_support(box, share)
        return min(found, rest + (own if known is None else min(own, known)))

    def rounding(self, a: Floats, b: Floats) -> Floats:
        """A bound on the support's loss by rounding and underflow.

        A coefficient may be a sum of products, and what it loses to underflow is multiplied by a
        pixel; a corner may be subnormal, and what it loses is multiplied by a coefficient.
        """
        size, terms = (abs(a) + abs(b)).sum(axis=1), 2 * self.domain.size + 64
        lost = UNDERFLOW * (terms * self.domain.size * self.magnitude + size)
        return np.asarray(1.01 * gamma(terms) * size * self.magnitude + lost + TINY)

    def decided(self, a: Floats, b: Floats, sides: dict[int, int]) -> Floats:
        """The support if some pixels are decided to be clipped (1) or not (-1)."""
        return self.support(a, b)


def everywhere(domain: Domain, low: float, high: float) -> tuple[Floats, Floats]:
    return np.full(domain.size, low), np.full(domain.size, high)


def part_of(piece: Piece, span: Span) -> Piece:
    """The same piece over a part of its span."""
    return piece if piece.span == span else piece.with_span(span)
