"""Bounds windows over boxes of their pixels and of the shift.

A window's function is a sum of `c relu(s) - c relu(t)` over its neurons, less multipliers times
pixels and images. Terms with a negative sign are at most a line through 0 with any slope in
[0, 1]; the rest is convex in pixels and images, and so largest at a corner of what a box allows.
For one shift e, a pixel and its image lie on a line from `(low, low + e)` to where the clip
begins, `(end - e, end)`, and on to `(high, end)`. These corners are linear in e, so the largest
value over a range of shifts is at one of its ends.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from vhagar_check.errors import Rejected
from vhagar_check.layers import TINY, Floats, Indices, Mask

LEAF = 255
# Boxes that are bounded at once, and numbers at all of their corners together.
_BATCH, _MOST_NUMBERS = 256, 2**22
# Most windows of all boxes of a tree together, for the memory, some 400 MB, and the time.
_MOST_KEPT = 2**26


@dataclass(frozen=True, eq=False)
class Alike:
    """Windows with the same weights and ranges, whose images rise by a shift.

    `lead` `(windows, units)` are the coefficients c; `on_pixels` and `on_images` the multipliers.
    """

    weight: Floats
    bias: Floats
    low: Floats  # the ends of the pixels' ranges, and then of the shift's
    high: Floats
    end: float  # where images are clipped; infinite if they are not
    lead: Floats
    on_pixels: Floats
    on_images: Floats


@dataclass(frozen=True, eq=False)
class _Box:
    """A box, the windows that are to be bounded in it, and what is known of them."""

    low: Floats
    high: Floats
    windows: Indices
    known: Floats


def largest(alike: Alike, tree: bytes, limits: Floats) -> Floats:
    """The largest values of windows, up to rounding, by a tree that is given level by level.

    A window is not followed below a box that keeps it within its limit.
    """
    found = np.full(len(limits), -np.inf)
    everything = np.full(len(limits), np.inf)
    level = [_Box(alike.low, alike.high, np.arange(len(limits)), everything)]
    place = kept = 0
    rising, falling = np.maximum(alike.lead, 0), np.maximum(-alike.lead, 0)
    coefficients = np.concatenate([rising, falling, -alike.on_pixels, -alike.on_images], 1)
    corners = 2 * 3 ** alike.weight.shape[1]  # at most, of each box
    batch = max(1, min(_BATCH, _MOST_NUMBERS // (corners * coefficients.shape[1])))
    while level:
        kept += sum(len(box.windows) for box in level)
        if kept > _MOST_KEPT:
            raise Rejected("a tree of boxes is followed by too many windows")
        below: list[_Box] = []
        for begin in range(0, len(level), batch):
            some = level[begin : begin + batch]
            codes = tree[place : place + len(some)]
            place += len(some)
            if len(codes) < len(some):
                raise Rejected("a tree of boxes is cut off")
            for box, code, terms in zip(some, codes, _terms(alike, some), strict=True):
                # NaN would be no bound: what is known already stays.
                own = np.fmin((coefficients[box.windows] @ terms.T).max(axis=1), box.known)
                done = (own <= limits[box.windows]) | (code == LEAF)
                leaving = box.windows[done]
                found[leaving] = np.maximum(found[leaving], own[done])
                if code != LEAF:
                    below += _halves(alike.end, box, code, box.windows[~done], own[~done])
        level = below
    if place != len(tree):
        raise Rejected("a tree of boxes goes on behind its end")
    return found


def _halves(end: float, box: _Box, code: int, windows: Indices, known: Floats) -> list[_Box]:
    """The halves of a box; a pixel's range is cut where the clip begins, if it does there."""
    if code >= len(box.low):
        raise Rejected("a tree of boxes halves an entry that there is not")
    low, high = float(box.low[code]), float(box.high[code])
    at = end - float(box.high[-1])
    if code == len(box.low) - 1 or not low < at < high:
        at = (low + high) / 2
    if not low < at < high:
        raise Rejected("a tree of boxes halves what has no middle")
    ends, begins = box.high.copy(), box.low.copy()
    ends[code] = begins[code] = at
    return [_Box(box.low, ends, windows, known), _Box(begins, box.high, windows, known)]


def _terms(alike: Alike, boxes: list[_Box]) -> list[Floats]:
    """What is multiplied with the coefficients at the corners of each box."""
    low, high = np.array([box.low for box in boxes]), np.array([box.high for box in boxes])
    weakest, strongest = alike.end - low[:, -1:], alike.end - high[:, -1:]
    unclipped = high[:, :-1] <= strongest
    bent = ~unclipped & (low[:, :-1] < weakest)
    found: dict[int, Floats] = {}
    for shape in {tuple(row) for row in bent.tolist()}:
        own = np.flatnonzero((bent == shape).all(axis=1))
        sides = [
            _corners(alike.end, low[own], high[own], e[own, None], unclipped[own], shape)
            for e in (low[:, -1], high[:, -1])
        ]
        x, x_p = (np.concatenate([side[k] for side in sides], axis=1) for k in (0, 1))
        for number, terms in zip(own.tolist(), _at_corners(alike, x, x_p), strict=True):
            found[number] = terms
    return [found[number] for number in range(len(boxes))]


def _corners(
    end: float, low: Floats, high: Floats, e: Floats, unclipped: Mask, bent: tuple[bool, ...]
) -> tuple[Floats, Floats]:
    """Corners of the pixels and their images for one shift, `(boxes, corners, pixels)`.

    Boxes have the same `bent` pixels, which may be clipped or not. Their ranges are widened to
    where all shifts are clipped and where none is, so that corners do not depend on the shift
    otherwise.
    """
    pixels: list[list[tuple[Floats, Floats]]] = []
    for k, may_be_clipped in enumerate(bent):
        first, last = low[:, k], high[:, k]
        if may_be_clipped:
            first = np.minimum(first, end - high[:, -1])
            last = np.maximum(last, end - low[:, -1])
            turn = end - e[:, 0]
            at_end = np.full_like(first, end)
            pixels.append([(first, first + e[:, 0]), (last, at_end), (turn, at_end)])
        else:
            rises = unclipped[:, k]
            pixels.append([(side, np.where(rises, side + e[:, 0], end)) for side in (first, last)])
    chosen = list(itertools.product(*pixels))
    x, x_p = (
        np.array([[corner[side] for corner in corners] for corners in chosen]).transpose(2, 0, 1)
        for side in (0, 1)
    )
    return x, x_p


def _at_corners(alike: Alike, x: Floats, x_p: Floats) -> Floats:
    s, t = (side @ alike.weight.T + alike.bias for side in (x, x_p))
    first = np.maximum(s, 0) - _below(t)
    second = np.maximum(t, 0) - _below(s)
    return np.concatenate([first, second, x, x_p], axis=2)


def _below(values: Floats) -> Floats:
    """A line through 0 that is nowhere above the ReLU: its slope is in [0, 1].

    It is the chord's slope, 1 where no value is negative, and 0 where none is positive.
    """
    rise = np.maximum(values.max(axis=1, keepdims=True), 0)
    fall = np.maximum(-values.min(axis=1, keepdims=True), 0)
    return np.asarray(rise / np.maximum(rise + fall, TINY) * values)
