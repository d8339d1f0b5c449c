"""What a spectral proof states: scalings, norms, and known slopes.

`docs/certificate.md` explains the mathematics. The certificate holds the scalings, upper bounds on
the eigenvalues of the blocks' Gram matrices, and which slopes are taken as 0 or 1. Here the slopes
are checked, and the box of `x - x_p` is derived; `spectral_prover.py` proves the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar_check.container import require_keys, split_json
from vhagar_check.errors import Rejected
from vhagar_check.intervals import Box, entering, leaving
from vhagar_check.layers import HALF_ULP, TINY, Floats, Indices, Mask, Network
from vhagar_check.pieces import Piece, part_of
from vhagar_check.regions import Form, Numbers

STILL, ON, FREE = range(3)
_KEYS = frozenset(("piece", "span", "layers", "pixels", "middle"))
# Entries of a batch of rows.
_BATCH_ENTRIES = 2**22

Status = list[NDArray[np.uint8]]


@dataclass(frozen=True, eq=False)
class Change:
    """`x - x_p = middle + radius * y` with every `|y| <= 1`, or without the middle."""

    pixels: Indices
    radius: Floats
    middle: Floats | None
    size: Floats  # bounds on the absolute entries of x - x_p

    @property
    def count(self) -> int:
        return len(self.pixels) + (self.middle is not None)

    def push(self, rows: Floats) -> Floats:
        """Turn coordinates into `x - x_p`."""
        found = np.zeros((len(rows), len(self.size)))
        found[:, self.pixels] = rows[:, : len(self.pixels)] * self.radius
        if self.middle is not None:
            found += rows[:, -1:] * self.middle
        return found

    def pull(self, rows: Floats) -> Floats:
        """Turn coefficients on `x - x_p` into coefficients on the coordinates."""
        found = rows[:, self.pixels] * self.radius
        if self.middle is None:
            return found
        return np.concatenate([found, (rows @ self.middle)[:, None]], axis=1)

    def absolute(self) -> Change:
        middle = None if self.middle is None else abs(self.middle)
        return Change(self.pixels, self.radius, middle, self.size)


@dataclass(frozen=True, eq=False)
class SpectralRegion:
    """The content of a SPEC block: a piece with scalings."""

    piece_number: int | None
    piece: Piece
    network: Network
    change: Change
    status: Status
    squares: Floats
    layers: list[Floats]
    inputs: list[Floats]

    @classmethod
    def read(cls, form: Form, raw: bytes) -> SpectralRegion:
        """Read the region of a SPEC block; `Rejected` if it contradicts the problem."""
        about, data = split_json(raw)
        require_keys(about, _KEYS, "spectral proof")
        number, span = about["piece"], about["span"]
        if number is None:
            raise Rejected("a spectral proof is about no piece")
        network, piece = form.of(number)
        if span is not None:
            piece = part_of(piece, (float(span[0]), float(span[1])))
        elif piece.span is not None:
            raise Rejected("a spectral proof does not say which part of a range it is about")
        sizes = network.relu_sizes_and_classes[:-1]
        if about["layers"] != sizes:
            raise Rejected("a spectral proof has other layers than the network")
        change = _change(piece, about["pixels"], about["middle"])
        reader = Numbers(data)
        status = [reader.take(np.uint8, size) for size in sizes]
        squares = reader.take("<f8", len(sizes) * (len(sizes) + 1) // 2).astype(np.float64)
        layers = [_scalings(reader, int((layer == FREE).sum())) for layer in status]
        inputs = [_scalings(reader, change.count) for _ in sizes]
        reader.finish()
        if not np.isfinite(squares).all() or (squares < 0).any():
            raise Rejected("a spectral proof has a norm that is no number")
        _check_status(network, piece, status)
        return cls(number, piece, network, change, status, squares, layers, inputs)


def _scalings(reader: Numbers, count: int) -> Floats:
    found: Floats = reader.take("<f4", count).astype(np.float64)
    if not np.isfinite(found).all() or (found <= 0).any():
        raise Rejected("a spectral proof has a scaling that is not a positive number")
    return found


def _change(piece: Piece, pixels: Any, with_middle: Any) -> Change:
    """The box of `x - x_p`, from the piece's support in the direction of each pixel."""
    size = piece.domain.size
    if type(pixels) is not list or any(type(k) is not int for k in pixels):
        raise Rejected("a spectral proof does not list pixels")
    chosen = np.array(pixels, dtype=np.int64)
    inside = not len(chosen) or (chosen[0] >= 0 and chosen[-1] < size)
    if not inside or (np.diff(chosen) <= 0).any() or type(with_middle) is not bool:
        raise Rejected("a spectral proof does not list pixels in order")
    moving = piece.rises | piece.falls
    if moving[np.setdiff1d(np.arange(size), chosen)].any():
        raise Rejected("a spectral proof leaves out a pixel that changes")
    low, high = change_box(piece, chosen)
    middle = (low + high) / 2 if with_middle else np.zeros(size)
    radius = np.maximum(high - middle, middle - low) * (1 + 4 * HALF_ULP) + TINY
    largest = np.maximum(abs(low), abs(high))
    return Change(chosen, radius[chosen], middle if with_middle else None, largest)


def change_box(piece: Piece, pixels: Indices) -> Box:
    """Bounds `(size,)` on `x - x_p`: supports in the direction of some pixels; 0 for others."""
    size = piece.domain.size
    low, high = np.zeros(size), np.zeros(size)
    step = max(1, _BATCH_ENTRIES // size)
    for begin in range(0, len(pixels), step):
        some = pixels[begin : begin + step]
        unit = np.zeros((len(some), size))
        unit[np.arange(len(some)), some] = 1.0
        high[some] = piece.support(unit, -unit)
        low[some] = -piece.support(-unit, unit)
    low = np.where(piece.rises, low, np.maximum(low, 0.0))
    return low, np.where(piece.falls, high, np.minimum(high, 0.0))


def _check_status(network: Network, piece: Piece, status: Status) -> None:
    """Check that slopes taken as 1 or 0 are: by the signs in both copies, or because the unit
    receives the same value in both."""
    boxes: list[Box] = [piece.inputs, piece.image_box]
    differs: Mask = piece.rises | piece.falls
    for k, layer in enumerate(status):
        if (layer > FREE).any():
            raise Rejected("a spectral proof gives a slope an unknown status")
        boxes = entering(network, k, boxes)
        for linear in network.stages[k]:
            ways = (linear.kernel != 0).astype(np.float64)
            differs = linear.forward(ways, differs.astype(np.float64)[None])[0] > 0
        passes = network.linear_units(k)
        passing = np.zeros(len(layer), np.bool_) if passes is None else passes
        on = passing | np.all([low >= 0 for low, _ in boxes], axis=0)
        off = ~passing & np.all([high <= 0 for _, high in boxes], axis=0)
        if (layer == ON)[~(on | ~differs)].any() or (layer == STILL)[~(off | ~differs)].any():
            raise Rejected("a spectral proof takes a slope for 0 or 1 that need not be")
        differs = differs & (layer != STILL)
        boxes = [leaving(network, k, box) for box in boxes]
