"""What a proof by windows states: multipliers of pixels, and trees of boxes.

A window is what neurons of the only hidden layer have in common that see the same few pixels. The
certificate holds the windows' multipliers, limits, and a tree of boxes for each kind of window.
Which windows there are is found here; `window_boxes.py` bounds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vhagar_check.container import require_keys, split_json
from vhagar_check.errors import Rejected
from vhagar_check.first_stage import First
from vhagar_check.layers import UNDERFLOW, Floats, Indices, Mask, Network
from vhagar_check.pieces import Piece, Span, part_of
from vhagar_check.pixelwise import Pixelwise
from vhagar_check.regions import Form, Numbers

_KEYS = frozenset(("piece", "span", "target", "windows", "boxes"))
# A window with more pixels has too many corners. The other limits are for the work.
_MOST_PIXELS, _MOST_ENTRIES, _MOST_BOXES = 4, 2**23, 2**20
# Most products for deciding exactly which weights are 0.
_MOST_PRODUCTS = 2**24
# Entries of a batch of columns.
_BATCH_ENTRIES = 2**20


@dataclass(frozen=True, eq=False)
class Window:
    """The neurons `units` that see `pixels`, by `weight` `(units, pixels)` and `bias`.

    `size` and `bias_size` are the absolute values of both before anything cancels.
    """

    pixels: Indices
    units: Indices
    weight: Floats
    size: Floats
    bias: Floats
    bias_size: Floats


@dataclass(frozen=True, eq=False)
class Stated:
    """What a certificate states about a window: its tree, its limit, and the multipliers of its
    pixels and of their images."""

    tree: int
    limit: float
    on_pixels: Floats
    on_images: Floats


@dataclass(frozen=True, eq=False)
class WindowRegion:
    """The content of a WNDW block: a piece and a target with windows and trees."""

    piece_number: int | None
    target: int
    piece: Pixelwise
    span: Span
    network: Network
    windows: list[Window]
    stated: list[Stated]
    trees: list[bytes]
    room: float  # relative error of a weight

    @classmethod
    def read(cls, form: Form, raw: bytes) -> WindowRegion:
        """Read the region of a WNDW block; `Rejected` if it contradicts the problem."""
        about, data = split_json(raw)
        require_keys(about, _KEYS, "proof by windows")
        number, target = about["piece"], about["target"]
        if number is None:
            raise Rejected("a proof by windows is about no piece")
        network, whole = form.of(number)
        if type(target) is not int or not 0 <= target < network.classes:
            raise Rejected("a proof by windows is about no target")
        piece, span = _shift(whole, about["span"])
        windows, room = _windows(network)
        if about["windows"] != len(windows):
            raise Rejected("a proof by windows has other windows than the network")
        lengths = about["boxes"]
        if type(lengths) is not list or any(type(k) is not int for k in lengths):
            raise Rejected("a proof by windows does not say how long its trees are")
        if not 0 <= sum(lengths) <= _MOST_BOXES:
            raise Rejected("a proof by windows has too many boxes")
        reader = Numbers(data)
        stated = _stated(reader, windows, len(lengths))
        trees = [reader.take(np.uint8, length).tobytes() for length in lengths]
        reader.finish()
        return cls(number, target, piece, span, network, windows, stated, trees, room)


def _shift(piece: Piece, span: Any) -> tuple[Pixelwise, Span]:
    """The piece, over the part of its range that a proof is about."""
    if span is None or piece.span is None:
        raise Rejected("a proof by windows does not say which part of a range it is about")
    part = part_of(piece, (float(span[0]), float(span[1])))
    if not isinstance(part, Pixelwise) or part.name != "brightness":
        raise Rejected("a proof by windows is about a perturbation other than brightness")
    assert part.span is not None
    if part.span[0] < 0 < part.span[1]:
        raise Rejected("a proof by windows is about images that become brighter and darker")
    return part, part.span


def _stated(reader: Numbers, windows: list[Window], trees: int) -> list[Stated]:
    numbers = reader.take("<u2", len(windows))
    limits = reader.take("<f8", len(windows)).astype(np.float64)
    found = []
    for window, tree, limit in zip(windows, numbers.tolist(), limits.tolist(), strict=True):
        if tree >= trees or not np.isfinite(limit):
            raise Rejected("a window has no tree, or a limit that is no number")
        sides = [reader.take("<f4", len(window.pixels)).astype(np.float64) for _ in "xp"]
        if not all(np.isfinite(side).all() for side in sides):
            raise Rejected("a window has a multiplier that is no number")
        found.append(Stated(tree, limit, sides[0], sides[1]))
    return found


def _windows(network: Network) -> tuple[list[Window], float]:
    """The windows in the order of their first neurons, and the relative error of the weights."""
    if len(network.stages) != 2 or not network.stages[0]:
        raise Rejected("a proof by windows is about a network of other layers than two")
    if network.linear_units(0) is not None:
        raise Rejected("a proof by windows is about a network with linear units")
    first = First(network.stages[0])
    parts: list[tuple[Indices, Indices, Floats, Floats, Floats]] = []
    count, step = 0, max(1, _BATCH_ENTRIES // first.widest)
    for begin in range(0, first.in_size, step):
        eye = np.eye(min(step, first.in_size - begin), first.in_size, begin)
        weight, size, lost, ways = first.rows(eye)
        pixel, unit = np.nonzero(ways)
        at = pixel, unit
        parts.append((unit, pixel + begin, weight[at], size[at], lost[at]))
        count += len(unit)
        if count > _MOST_ENTRIES:
            raise Rejected("a proof by windows is about neurons that see too many pixels")
    units, pixels, weights, sizes, losses = (
        np.concatenate([part[k] for part in parts]) for k in range(5)
    )
    kept = ~_cancelled(first, units, pixels, weights)
    units, pixels, weights, sizes, losses = (
        own[kept] for own in (units, pixels, weights, sizes, losses)
    )
    order = np.argsort(units, kind="stable")  # the pixels of a unit ascend already
    units, pixels, weights, sizes, losses = (
        own[order] for own in (units, pixels, weights, sizes, losses)
    )
    # What products lose to underflow is far less than this share of what is left.
    if not (np.isfinite(sizes).all() and (sizes >= 2.0**60 * (UNDERFLOW + losses)).all()):
        raise Rejected("a proof by windows is about weights that may underflow")
    starts = np.flatnonzero(np.diff(units, prepend=-1, append=-1))
    groups: dict[bytes, list[slice]] = {}
    for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        if end - begin > _MOST_PIXELS:
            raise Rejected("a proof by windows is about neurons that see too many pixels")
        groups.setdefault(pixels[begin:end].tobytes(), []).append(slice(begin, end))
    bias, bias_size = first.bias()
    found = []
    for places in groups.values():
        members = units[[place.start for place in places]]
        weight, size = (np.array([own[place] for place in places]) for own in (weights, sizes))
        biases = bias[members], bias_size[members]
        found.append(Window(pixels[places[0]], members, weight, size, *biases))
    return found, first.room


def _cancelled(first: First, units: Indices, pixels: Indices, weights: Floats) -> Mask:
    """Which weights are exactly 0, as where branches cancel; none if that takes too long."""
    found = np.zeros(len(weights), dtype=np.bool_)
    at = np.flatnonzero(weights == 0)
    some, which = np.unique(pixels[at], return_inverse=True)
    if len(some) and len(some) * first.products <= _MOST_PRODUCTS:
        exactly = np.array([first.cancels(pixel) for pixel in some.tolist()])
        found[at] = exactly[which, units[at]]
    return found
