"""Crops of convolutional networks: a block of a layer, and everything that it depends on.

The neurons of a convolution see a small window of each layer below. Inside the windows the network
is a small one with the same kernels, and coefficients outside of them are 0. So the cost of a
layer's bounds depends on the size of the windows, not of whole layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from vhagar_check.exact import Exact
from vhagar_check.layers import Conv, Floats, Indices, Linear, Network
from vhagar_check.pieces import Piece

# Most coefficients of a block: few enough for a cache.
_MOST_ENTRIES = 2**17

# The rows and the columns of a block, each from the first to behind the last.
Block = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Crop:
    """A block of a layer: `network` computes the pre-activations of its units `outputs`.

    `units[k]` are the units of ReLU layer k, and `pixels` the pixels, on which the block depends.
    """

    network: Network
    units: tuple[Indices, ...]
    pixels: Indices
    outputs: Indices


def convolutions(network: Network, stage: int) -> list[Conv] | None:
    """The stages up to `stage`, if each is a single convolution, with no linear units between."""
    found: list[Conv] = []
    for k, layers in enumerate(network.stages[: stage + 1]):
        layer = layers[0] if len(layers) == 1 else None
        if not isinstance(layer, Conv) or (k < stage and network.linear_units(k) is not None):
            return None
        if found and found[-1].out_shape != layer.in_shape:
            return None
        if any(layer.padding[k] >= _span(layer, k % 2) for k in range(4)):
            return None  # some outputs see nothing but padding
        found.append(layer)
    return found


def _span(layer: Conv, axis: int) -> int:
    """The number of input rows or columns that one output of a convolution spans."""
    return int(layer.dilation[axis] * (layer.weight.shape[2 + axis] - 1) + 1)


def crops(layers: list[Conv]) -> Iterator[Crop]:
    """Divide the output of the last convolution into blocks."""
    _, height, width = layers[-1].out_shape
    step = _block_size(layers)
    for row in range(0, height, step):
        for column in range(0, width, step):
            yield crop(
                layers, ((row, min(row + step, height)), (column, min(column + step, width)))
            )


def _block_size(layers: list[Conv]) -> int:
    """The largest square whose coefficients fit into a cache."""
    filters, height, width = layers[-1].out_shape
    size = 1
    for wider in range(2, max(height, width) + 1):
        rows, columns = min(wider, height), min(wider, width)
        seen = crop(layers, ((0, rows), (0, columns)))
        widest = max([len(seen.pixels), *(len(units) for units in seen.units)])
        if filters * rows * columns * widest > _MOST_ENTRIES:
            break
        size = wider
    return size


def crop(layers: list[Conv], block: Block) -> Crop:
    """Crop the network to the part on which a block of the last convolution depends."""
    outputs = _indices(layers[-1].out_shape, block)
    stages: list[tuple[Linear, ...]] = []
    seen: list[Indices] = []
    for layer in reversed(layers):
        small, block = _cropped(layer, block)
        stages.append((small,))
        seen.append(_indices(layer.in_shape, block))
    pixels, *units = reversed(seen)
    network = Network(tuple(stages[::-1]), (len(pixels),))
    return Crop(network, tuple(units), pixels, outputs)


def _cropped(layer: Conv, block: Block) -> tuple[Conv, Block]:
    """Restrict a convolution to the part of its input on which a block depends; return both."""
    kept, before, behind = [], [], []
    for axis in (0, 1):
        begin, end = block[axis]
        span = _span(layer, axis)
        first = begin * layer.stride[axis] - layer.padding[axis]
        last = (end - 1) * layer.stride[axis] - layer.padding[axis] + span
        extent = layer.in_shape[1 + axis]
        low, high = max(first, 0), min(last, extent)
        kept.append((low, high))
        before.append(low - first)
        behind.append(last - high)
    shape = (layer.in_shape[0], *(high - low for low, high in kept))
    small = replace(layer, in_shape=shape, padding=(*before, *behind))
    return small, (kept[0], kept[1])


def _indices(shape: tuple[int, ...], block: Block) -> Indices:
    """The flat indices of all channels of a block."""
    numbers = np.arange(math.prod(shape)).reshape(shape)
    (top, bottom), (left, right) = block
    return np.ascontiguousarray(numbers[:, top:bottom, left:right]).reshape(-1)


class SeenPiece(Piece):
    """A piece with coefficients on some pixels only; its support is that of the whole piece."""

    def __init__(self, piece: Piece, pixels: Indices) -> None:
        self.domain = piece.domain.part(pixels)
        self.ratio = piece.ratio
        low, high = piece.image_box
        self.image = low[pixels], high[pixels]
        self.rises, self.falls = piece.rises[pixels], piece.falls[pixels]
        self._piece = piece
        self._pixels = pixels

    @property
    def magnitude(self) -> float:
        return self._piece.magnitude

    def largest(self, a: Floats, b: Floats) -> Floats:
        return self._piece.largest(*map(self._spread, (a, b)))

    def support(self, a: Floats, b: Floats) -> Floats:
        return self._piece.support(*map(self._spread, (a, b)))

    def support_with(self, a: Floats, b: Floats, c: Floats, d: Floats) -> Floats:
        return self._piece.support_with(self._spread(a), self._spread(b), c, d)

    def _spread(self, coefficients: Floats) -> Floats:
        found = np.zeros((len(coefficients), self._piece.domain.size))
        found[:, self._pixels] = coefficients
        return found

    @property
    def image_box(self) -> tuple[Floats, Floats]:
        return self.image

    def exact_within(self, a: Exact, b: Exact) -> Fraction | None:
        return self._piece.exact_within(*map(self._exactly_spread, (a, b)))

    def exact_support(self, a: Exact, b: Exact) -> Fraction | None:
        return self._piece.exact_support(*map(self._exactly_spread, (a, b)))

    def _exactly_spread(self, coefficients: Exact) -> Exact:
        found = np.zeros(self._piece.domain.size, dtype=object)
        found[self._pixels] = coefficients.numerators
        return Exact(found, coefficients.denominator)

    def exact_image(self, x: list[Fraction], parameters: list[float]) -> None:
        return None
