"""Bounds of a convolutional layer from the receptive fields of its neurons.

A neuron of a convolution depends on a small window of each layer below. All neurons at one place of
the image, or in a small tile of places, share that window, and inside it the network is a small one
with the same kernels. So the cost of a layer's bounds depends on the size of the windows and not on
the size of the layers below.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vhagar.array_types import Array
from vhagar.network import Convolution
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.corners import Corners
from vhagar.relaxation.stages import Stage
from vhagar.relaxation.starts import Directions, neuron_starts
from vhagar.relaxation.subnetworks import Subnetwork, View
from vhagar.runtime.threads import in_threads

# Most entries of one tile's coefficients: enough to use numpy well, few enough for a cache.
_TILE_ENTRIES = 2**16


@dataclass(frozen=True)
class _Window:
    """A tile's window in one layer: the layer's shape, the window's extent, and where it begins.

    The window of the tile at place `k` (in rows or columns) begins at `k * stride + start`.
    """

    shape: tuple[int, int, int]
    extent: tuple[int, int]
    stride: tuple[int, int]
    start: tuple[int, int]

    @property
    def size(self) -> int:
        return self.shape[0] * math.prod(self.extent)

    def below(self, layer: Convolution) -> _Window:
        """The window in the layer's input."""
        spans = [d * (k - 1) for d, k in zip(layer.dilation, layer.weight.shape[2:], strict=True)]
        steps = layer.stride
        return _Window(
            (layer.in_shape[0], layer.in_shape[1], layer.in_shape[2]),
            (
                (self.extent[0] - 1) * steps[0] + spans[0] + 1,
                (self.extent[1] - 1) * steps[1] + spans[1] + 1,
            ),
            (self.stride[0] * steps[0], self.stride[1] * steps[1]),
            (
                self.start[0] * steps[0] - layer.padding[0],
                self.start[1] * steps[1] - layer.padding[1],
            ),
        )

    def at(self, place: tuple[int, int]) -> View:
        axes = []
        for axis in (0, 1):
            first = place[axis] * self.stride[axis] + self.start[axis]
            axes.append(first + np.arange(self.extent[axis]))
        rows, columns = axes[0][None, :, None], axes[1][None, None, :]
        channels, height, width = self.shape
        inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        index = np.clip(rows, 0, height - 1) * width + np.clip(columns, 0, width - 1)
        index = index + np.arange(channels)[:, None, None] * (height * width)
        full = np.broadcast_to(inside, index.shape).reshape(-1)
        return View(index.reshape(-1), None if full.all() else full)


@dataclass(frozen=True, eq=False)
class LocalNetwork:
    """The stages up to a convolutional layer, restricted to the windows of that layer's tiles.

    `stages[k]` is stage k inside the windows; `windows[k]` is the window of its inputs, and
    `output` that of the last stage's outputs: the tile itself.
    """

    stages: tuple[Stage, ...]
    windows: tuple[_Window, ...]
    output: _Window

    def places(self) -> Iterator[tuple[int, int]]:
        """Places of tiles that together cover the layer; the last ones may overlap others."""
        _, height, width = self.output.shape
        rows, columns = (
            sorted({min(k, full - step) for k in range(0, full, step)})
            for full, step in zip((height, width), self.output.extent, strict=True)
        )
        yield from itertools.product(rows, columns)

    def starts(self, directions: Directions) -> tuple[Array, Array]:
        """The start coefficients of all neurons of a tile."""
        return neuron_starts(directions, self.output.size, np.arange(self.output.size))

    def at(self, place: tuple[int, int]) -> Subnetwork:
        """The part of the network that the tile at the given place depends on."""
        return Subnetwork(self.stages, tuple(window.at(place) for window in self.windows))


def local_network(stages: tuple[Stage, ...], rows_each: int = 6) -> LocalNetwork | None:
    """The stages restricted to tiles of the last one's outputs; None unless all are convolutions.

    `rows_each` is the number of coefficient rows per neuron.
    """
    layers: list[Convolution] = []
    for stage in stages:
        layer = stage.layers[0]
        if len(stage.layers) > 1 or not isinstance(layer, Convolution) or layer.bias.ndim != 1:
            return None
        if layers and layers[-1].out_shape != layer.in_shape:
            return None
        layers.append(layer)
    _, height, width = layers[-1].out_shape
    best = _tiled(layers, (1, 1))
    for step in range(2, max(height, width) + 1):
        wider = _tiled(layers, (min(step, height), min(step, width)))
        rows = rows_each * wider.output.size
        if rows * max(window.size for window in wider.windows) > _TILE_ENTRIES:
            break
        best = wider
    return best


def _tiled(layers: list[Convolution], tile: tuple[int, int]) -> LocalNetwork:
    filters, height, width = layers[-1].out_shape
    output = window = _Window((filters, height, width), tile, (1, 1), (0, 0))
    stages, windows = [], []
    for layer in reversed(layers):
        window = window.below(layer)
        small = replace(layer, in_shape=(layer.in_shape[0], *window.extent), padding=(0, 0, 0, 0))
        stages.append(Stage((small,)))
        windows.append(window)
    return LocalNetwork(tuple(stages[::-1]), tuple(windows[::-1]), output)


def local_bounds(
    local: LocalNetwork,
    corners: Sequence[Corners],
    piece: AbstractPiece,
    directions: Directions,
    input_magnitude: Array,
    threads: int = 1,
    should_stop: Callable[[], bool] = lambda: False,
) -> Array:
    """Upper bounds `(directions, size)` on `on_s * s + on_t * t` of every neuron of the layer.

    They are infinite for tiles that were not reached before `should_stop()` became true.
    """
    filters, height, width = local.output.shape
    found = np.full((len(directions), filters * height * width), np.inf)
    start, places = local.starts(directions), list(local.places())

    def prove(number: int) -> None:
        if should_stop():
            return
        place = places[number]
        value = local.at(place).bound(corners, piece, start, input_magnitude)
        found[:, local.output.at(place).index] = value.reshape(len(directions), -1)

    in_threads(prove, len(places), threads)
    return found
