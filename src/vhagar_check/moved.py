"""Pieces that move pixels: `x_p = M x + c`, for one M, or for all M of a range of angles."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vhagar_check.arcs import Arc, arc_between
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.layers import Floats, gamma
from vhagar_check.pieces import Domain, Piece, Span, everywhere
from vhagar_check.turn_ranges import offsets
from vhagar_check.turning import precise_weights, turn_weights


@dataclass(frozen=True, eq=False)
class Moved(Piece):
    """Every pixel of `x_p` is a pixel of `x` (`source`) or black (-1)."""

    domain: Domain
    source: NDArray[np.int64]

    def __post_init__(self) -> None:
        black = self.source < 0
        changed = ~black & (self.source != np.arange(len(self.source)))
        low, high = everywhere(self.domain, self.domain.low, self.domain.high)
        object.__setattr__(self, "image", (low, np.where(black, low, high)))
        object.__setattr__(self, "rises", changed)
        object.__setattr__(self, "falls", changed | black)

    def largest(self, a: Floats, b: Floats) -> Floats:
        joint, low, high = self.share(a, b), self.domain.low, self.domain.high
        best = np.maximum(joint * low, joint * high).sum(axis=1)
        return np.asarray(best + b[:, self.source < 0].sum(axis=1) * low)

    def share(self, a: Floats, b: Floats) -> Floats:
        kept = self.source >= 0
        joint = a.copy()
        joint[:, self.source[kept]] += b[:, kept]  # no pixel is the source of two
        return joint

    def exact_support(self, a: Exact, b: Exact) -> Fraction:
        joint, on_image = a.fractions(), b.fractions()
        low, high = self.domain.ends
        total = Fraction(0)
        for value, source in zip(on_image, self.source.tolist(), strict=True):
            if source >= 0:
                joint[source] += value
            else:
                total += value * low
        return total + sum((max(value * low, value * high) for value in joint), Fraction(0))

    def linear_change(self) -> tuple[Floats, Floats] | None:
        black = self.source < 0
        if black.any() and self.domain.low != 0:
            return None
        found = np.eye(len(self.source))
        found[np.flatnonzero(~black), self.source[~black]] -= 1.0
        return found, np.zeros_like(found)

    def exact_image(self, x: list[Fraction], parameters: list[float]) -> list[Fraction]:
        low = self.domain.ends[0]
        return [x[source] if source >= 0 else low for source in self.source.tolist()]


@dataclass(frozen=True, eq=False)
class Turned(Piece):
    """Every pixel of `x_p` is an average of up to four pixels of `x`, or black.

    The true weights are irrational; `weights` err by at most `2**-50`, which `rounding` covers.
    """

    domain: Domain
    weights: Floats  # (size, size)
    degrees: float

    def __post_init__(self) -> None:
        black = ~self.weights.any(axis=1)
        same = self.weights.diagonal() == 1.0
        room = 1e-12 * max(abs(self.domain.low), abs(self.domain.high))
        low, high = everywhere(self.domain, self.domain.low, self.domain.high)
        object.__setattr__(self, "image", (low - room, np.where(black, low, high) + room))
        object.__setattr__(self, "rises", ~same & ~black)
        object.__setattr__(self, "falls", ~same)

    def largest(self, a: Floats, b: Floats) -> Floats:
        joint, low, high = self.share(a, b), self.domain.low, self.domain.high
        black = ~self.weights.any(axis=1)
        best = np.maximum(joint * low, joint * high).sum(axis=1)
        return np.asarray(best + b[:, black].sum(axis=1) * low)

    def share(self, a: Floats, b: Floats) -> Floats:
        return np.asarray(a + b @ self.weights)

    def exact_support(self, a: Exact, b: Exact) -> None:
        return None

    def linear_change(self) -> tuple[Floats, Floats] | None:
        if (~self.weights.any(axis=1)).any() and self.domain.low != 0:
            return None
        # Weights of 0 and 1 are exact, and so is 1 minus them.
        whole = (self.weights == 0.0) | (self.weights == 1.0)
        return np.eye(len(self.weights)) - self.weights, np.where(whole, 0.0, 2.0**-49)

    def exact_image(self, x: list[Fraction], parameters: list[float]) -> None:
        return None

    def image_interval(self, x: Floats, parameters: list[float]) -> tuple[Floats, Floats]:
        black = ~self.weights.any(axis=1)
        image = self.weights @ x + np.where(black, self.domain.low, 0.0)
        room = gamma(len(x) + 64) * (self.weights.sum(axis=1) + 1) * self.magnitude
        return image - room, image + room

    def near_image(
        self, x: list[Fraction], parameters: list[float]
    ) -> tuple[list[Fraction], Fraction]:
        _, height, width = self.domain.image
        low = self.domain.ends[0]
        image = [Fraction(0) if any(row) else low for row in self.weights.tolist()]
        for pixel, source, weight in precise_weights((height, width), self.degrees):
            for channel in range(0, len(x), height * width):
                image[channel + pixel] += weight * x[channel + source]
        # Four weights, each of a pixel of at most this magnitude.
        return image, Fraction(self.magnitude) * (height + width) / 2**89


def turned(domain: Domain, degrees: float) -> Piece:
    """The piece of a rotation by one angle, which is exact if it only moves whole pixels."""
    weights = turn_weights(domain.image, degrees)
    source = np.where(weights.any(axis=1), weights.argmax(axis=1), -1)
    taken = source[source >= 0]
    whole = ((weights == 0.0) | (weights == 1.0)).all() and len(np.unique(taken)) == len(taken)
    return Moved(domain, source) if whole else Turned(domain, weights, degrees)


# The support of a range of angles is bounded arc by arc: on each arc the outermost pixel moves by
# about this much, and there are at most this many arcs.
_ARC, _MOST_ARCS = 0.125, 8


@dataclass(frozen=True, eq=False)
class TurnedBetween(Piece):
    """Rotations of the image by any angle of a span."""

    domain: Domain
    span: Span

    def __post_init__(self) -> None:
        channels, *plane = self.domain.image
        self_arc = arc_between((plane[0], plane[1]), *self.span)
        black = np.tile(self_arc.black, channels)
        moves = np.tile(np.hypot(*offsets((plane[0], plane[1]))) > 0, channels)
        low, high = everywhere(self.domain, self.domain.low, self.domain.high)
        room = 1e-12 * max(abs(self.domain.low), abs(self.domain.high))
        object.__setattr__(self, "image", (low - room, np.where(black, low, high) + room))
        object.__setattr__(self, "rises", moves & ~black)
        object.__setattr__(self, "falls", moves)

    @cached_property
    def _arcs(self) -> list[Arc]:
        _, height, width = self.domain.image
        way = radius(self.domain) * math.radians(self.span[1] - self.span[0])
        count = min(max(math.ceil(way / _ARC), 1), _MOST_ARCS)
        knots = np.linspace(*self.span, count + 1).tolist()
        return [arc_between((height, width), *ends) for ends in itertools.pairwise(knots)]

    def largest(self, a: Floats, b: Floats) -> Floats:
        """With u the distance from black, the image of u is W u; by W's bounds, the support over an
        arc is largest at one of its ends."""
        low, width = self.domain.low, self.domain.high - self.domain.low
        channels = self.domain.image[0]
        on_image = b.reshape(len(b), channels, -1)
        up, down = np.maximum(on_image, 0.0), np.minimum(on_image, 0.0)
        best = np.full(len(a), -np.inf)
        for arc in self._arcs:
            white = up[:, :, arc.capped].sum(axis=(1, 2))
            starts = np.flatnonzero(np.diff(arc.source, prepend=-1))
            for end in (arc.first, arc.last):
                parts = up[:, :, arc.pixel] * (end + arc.high)
                parts += down[:, :, arc.pixel] * (end + arc.low)
                joint = a.reshape(on_image.shape).copy()
                if len(starts):
                    joint[:, :, arc.source[starts]] += np.add.reduceat(parts, starts, axis=2)
                best = np.maximum(best, np.maximum(joint, 0.0).sum(axis=(1, 2)) + white)
        return np.asarray(low * (a + b).sum(axis=1) + width * best)

    def share(self, a: Floats, b: Floats) -> Floats:
        """The share by the weights in the middle of the span."""
        arc, on_image = self._whole, b.reshape(len(b), self.domain.image[0], -1)
        found = a.reshape(on_image.shape).copy()
        starts = np.flatnonzero(np.diff(arc.source, prepend=-1))
        if len(starts):
            parts = on_image[:, :, arc.pixel] * (0.5 * (arc.first + arc.last))
            found[:, :, arc.source[starts]] += np.add.reduceat(parts, starts, axis=2)
        return found.reshape(a.shape)

    @cached_property
    def _whole(self) -> Arc:
        _, height, width = self.domain.image
        return arc_between((height, width), *self.span)

    def rounding(self, a: Floats, b: Floats) -> Floats:
        """A larger bound, because the bounds on the weights of a pixel sum to more than 1."""
        return 8 * super().rounding(a, b)

    def exact_support(self, a: Exact, b: Exact) -> None:
        return None

    def exact_image(self, x: list[Fraction], parameters: list[float]) -> list[Fraction] | None:
        return self._at(parameters).exact_image(x, [])

    def image_interval(self, x: Floats, parameters: list[float]) -> tuple[Floats, Floats]:
        return self._at(parameters).image_interval(x, [])

    def near_image(
        self, x: list[Fraction], parameters: list[float]
    ) -> tuple[list[Fraction], Fraction]:
        return self._at(parameters).near_image(x, [])

    def _at(self, parameters: list[float]) -> Piece:
        if len(parameters) != 1 or not self.span[0] <= parameters[0] <= self.span[1]:
            raise Rejected("a witness has a parameter outside its range")
        return turned(self.domain, parameters[0])

    def with_span(self, span: Span) -> Piece:
        if not self.span[0] <= span[0] < span[1] <= self.span[1]:
            raise Rejected("a piece was split outside its range")
        return TurnedBetween(self.domain, span)


def radius(domain: Domain) -> float:
    """The distance of the outermost pixel from the centre."""
    return float(np.hypot(*offsets(domain.image[1:])).max())


def identity(domain: Domain) -> Moved:
    return Moved(domain, np.arange(domain.size))
