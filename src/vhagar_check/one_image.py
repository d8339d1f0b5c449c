"""Enclose all versions of one given image under a piece in a set of inputs for a single copy.

With the image fixed, an entry of a version is `start + slopes . e`, perhaps clipped to the input
range, for parameters `e` in a box. The versions over a box lie in

    centre + directions v + w,    v in [-1, 1]^k,   abs(w) <= room

Everything is computed in rational numbers, and only the results are rounded, outward.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from vhagar_check.affine import BoxAffine, ShiftedLinfBall
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.layers import TINY, Floats, gamma
from vhagar_check.moved import Moved, Turned
from vhagar_check.pieces import Domain, Piece
from vhagar_check.pixelwise import Pixelwise
from vhagar_check.rational import rounded_up

Box = tuple[tuple[float, ...], tuple[float, ...]]
_ZERO, _ONE = Fraction(0), Fraction(1)


@dataclass(frozen=True, eq=False)
class Entry:
    """One entry of a version: `start + slopes . e`, up to an error `room`, then clipped or not."""

    start: Fraction
    slopes: dict[int, Fraction]
    room: Fraction = _ZERO

    def ends(self, low: list[Fraction], high: list[Fraction]) -> tuple[Fraction, Fraction]:
        """Its least and largest value over a box of parameters, before the clip."""
        least = most = self.start
        for k, slope in self.slopes.items():
            both = slope * low[k], slope * high[k]
            least, most = least + min(both), most + max(both)
        return least - self.room, most + self.room


@dataclass(frozen=True, eq=False)
class AtImage:
    """The versions of one image under a piece; `own` if every parameter has its own entry."""

    domain: Domain
    entries: list[Entry]
    whole: Box
    clip: bool
    own: bool = False

    def clipped(self, value: Fraction) -> Fraction:
        low, high = self.domain.ends
        return max(low, min(high, value)) if self.clip else value


def at_image(piece: Piece, x: Floats, clip: bool) -> AtImage:
    """Find the formula of an image's versions under a piece; `Rejected` if there is none.

    `clip` says whether the images of affine maps are clipped; all other pieces know it themselves.
    """
    pixels, domain = Exact.of(x).fractions(), piece.domain
    black = domain.ends[0]
    if isinstance(piece, Pixelwise) and piece.span is None:
        moving = np.flatnonzero(piece.mask).tolist()
        number = {pixel: k for k, pixel in enumerate(moving)}
        found = [
            Entry(value, {number[k]: _ONE} if k in number else {}) for k, value in enumerate(pixels)
        ]
        ends = (-piece.limit,) * len(moving), (piece.limit,) * len(moving)
        return AtImage(domain, found, ends, clip=True, own=True)
    if isinstance(piece, Pixelwise) and piece.span is not None:
        if piece.name == "brightness":
            found = [Entry(value, {0: _ONE}) for value in pixels]
        else:
            found = [Entry(black, {0: value - black}) for value in pixels]
        low, high = piece.span
        return AtImage(domain, found, ((low,), (high,)), piece.clip)
    if isinstance(piece, ShiftedLinfBall):
        sources = piece.source.tolist()
        found = [
            Entry(pixels[source] if source >= 0 else black, {k: _ONE})
            for k, source in enumerate(sources)
        ]
        ends = (-piece.limit,) * len(found), (piece.limit,) * len(found)
        return AtImage(domain, found, ends, clip=True, own=True)
    if isinstance(piece, BoxAffine):
        return _of_map(piece, pixels, clip)
    if isinstance(piece, Moved | Turned):
        return AtImage(domain, _still(piece, x, pixels), ((), ()), clip)
    raise Rejected("the versions of an image under a range of angles are not certified")


def _still(piece: Piece, x: Floats, pixels: list[Fraction]) -> list[Entry]:
    """The entries under a piece without parameters."""
    image = piece.exact_image(pixels, [])
    if image is not None:
        return [Entry(value, {}) for value in image]
    ends = (side.tolist() for side in piece.image_interval(x, []))
    both = [(Fraction(low), Fraction(high)) for low, high in zip(*ends, strict=True)]
    return [Entry((low + high) / 2, {}, (high - low) / 2) for low, high in both]


def _of_map(piece: BoxAffine, pixels: list[Fraction], clip: bool) -> AtImage:
    largest = max((abs(value) for value in pixels), default=_ZERO)
    found = []
    for row, offset in enumerate(piece.offset.tolist()):
        weights = piece.matrix.exact_row(row)
        start = Fraction(offset) + sum((w * pixels[k] for k, w in weights.items()), _ZERO)
        wrong = Fraction(piece.error) * len(weights) * largest
        found.append(Entry(start, piece.directions.exact_row(row), wrong))
    ends = tuple(piece.lower.tolist()), tuple(piece.upper.tolist())
    return AtImage(piece.domain, found, ends, clip)


class OneImage(Piece):
    """The versions over a box of parameters; both copies see the same version.

    `span` is the box: the lower ends of all parameters, and their upper ends. The versions lie in
    `centre + directions v + w` with `v` in `[-1, 1]^k` and `abs(w) <= room`.
    """

    sides = 2

    def __init__(self, made: AtImage, box: Box) -> None:
        self._made = made
        self.domain = made.domain
        self.span: Any = box
        size = self.domain.size
        self.centre, self.room = np.zeros(size), np.zeros(size)
        self.directions = np.zeros((size, len(box[0])) if not made.own else (size, 0))
        low, high = ([Fraction(end) for end in ends] for ends in box)
        for k, entry in enumerate(made.entries):
            middle, halves, room = self._spread(entry, low, high)
            self.centre[k] = float(middle)
            room += abs(middle - Fraction(float(middle)))
            for j, half in halves.items():
                self.directions[k, j] = float(half)
                room += abs(half - Fraction(float(half)))
            self.room[k] = rounded_up(room)
        reach = abs(self.directions).sum(axis=1) + self.room
        self._size = (abs(self.centre) + reach) * (1 + 1e-9)
        slack = 1e-12 * self._size
        self.image = self.centre - reach - slack, self.centre + reach + slack
        self.rises = self.falls = np.zeros(size, dtype=np.bool_)

    def _spread(
        self, entry: Entry, low: list[Fraction], high: list[Fraction]
    ) -> tuple[Fraction, dict[int, Fraction], Fraction]:
        """The middle of an entry, how it moves with each parameter, and the remaining error."""
        made, (least, most) = self._made, entry.ends(low, high)
        black, white = self.domain.ends
        if made.clip and not made.own and len(low) == 1 and entry.slopes:
            return self._chord(entry, low[0], high[0])
        if made.own or (made.clip and not (black <= least and most <= white)):
            first, last = made.clipped(least), made.clipped(most)
            return (first + last) / 2, {}, (last - first) / 2
        halves = {k: slope * (high[k] - low[k]) / 2 for k, slope in entry.slopes.items()}
        return (least + most) / 2, halves, entry.room

    def _chord(
        self, entry: Entry, low: Fraction, high: Fraction
    ) -> tuple[Fraction, dict[int, Fraction], Fraction]:
        """With one parameter and a clip, enclose the entry around the chord between its ends."""
        made, slope = self._made, entry.slopes[0]
        begin, end = entry.start + slope * low, entry.start + slope * high
        first, last = made.clipped(begin), made.clipped(end)
        bends = [_ZERO]
        for limit in self.domain.ends:
            if min(begin, end) < limit < max(begin, end):
                share = (limit - begin) / (end - begin)
                bends.append(limit - first - share * (last - first))
        middle = (first + last + min(bends) + max(bends)) / 2
        # A clip moves no two numbers further apart, so `room` bounds the error after it, too.
        return middle, {0: (last - first) / 2}, (max(bends) - min(bends)) / 2 + entry.room

    @property
    def inputs(self) -> tuple[Floats, Floats]:
        return self.image

    def read_span(self, given: Any) -> Any:
        low, high = (tuple(float(end) for end in ends) for ends in given)
        return low, high

    def with_span(self, span: Any) -> Piece:
        whole = self._made.whole
        fits = all(len(own) == len(given) for own, given in zip(whole, span, strict=True))
        if not fits or not all(
            a <= b <= c <= d for a, b, c, d in zip(whole[0], *span, whole[1], strict=True)
        ):
            raise Rejected("a region is about parameters that the piece does not have")
        return OneImage(self._made, span)

    def largest(self, a: Floats, b: Floats) -> Floats:
        both = a + b
        across = abs(both @ self.directions).sum(axis=1)
        return np.asarray(both @ self.centre + across + abs(both) @ self.room)

    def rounding(self, a: Floats, b: Floats) -> Floats:
        """A bound on the rounding of sums over all entries and all parameters."""
        terms = 2 * self.domain.size + self.directions.shape[1] + 64
        reach = (abs(a) + abs(b)) @ self._size
        return np.asarray(1.01 * gamma(terms) * reach + TINY)

    def exact_support(self, a: Exact, b: Exact) -> None:
        return None

    def exact_image(self, x: list[Fraction], parameters: list[float]) -> None:
        return None


def split_box(box: Box, parameter: int, at: float, upper: bool) -> Box:
    """One side of a box that is split at a value of a parameter."""
    low, high = list(box[0]), list(box[1])
    if not 0 <= parameter < len(low) or not low[parameter] < at < high[parameter]:
        raise Rejected("a box of parameters is split where it has none or outside its range")
    (low if upper else high)[parameter] = at
    return tuple(low), tuple(high)
