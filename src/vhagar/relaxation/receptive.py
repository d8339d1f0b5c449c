"""Bounds of a convolutional layer from what its neurons see.

A neuron of a convolution depends on a small window of each layer below. All neurons of one place of
the image, or of a small tile of places, share that window, and inside it the network is a small one
with the same kernels. So the bounds of a layer cost what its windows hold, not whole layers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vhagar.network import Convolution
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.slopes import quick_slopes
from vhagar.relaxation.starts import Directions, neuron_starts
from vhagar.relaxation.twin import (
    Backward,
    Corners,
    Stage,
    at_input,
    through_relu,
    through_stage,
)
from vhagar.runtime.threads import in_threads

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.int64]

# Multipliers of a layer below for coefficients `(rows, window)` on it.
LocalChoice = Callable[[int, "View", Array, Array], tuple[Array, Array]]

# Entries of one tile's coefficients: large enough for numpy, small enough for a cache.
_TILE_ENTRIES = 2**16


@dataclass(frozen=True, eq=False)
class View:
    """What a tile sees of one layer: its neurons in order, and which of them exist.

    Where the window reaches beyond the image, `index` names any neuron.
    """

    index: Index
    inside: Mask

    def masked(self, values: Array) -> Array:
        """Zero for what does not exist; values of padding are 0 whatever their coefficient."""
        return values if self.inside.all() else values * self.inside


@dataclass(frozen=True)
class _Window:
    """A tile's window at one layer: shape of that layer, extent, and where it starts.

    The tile at place `k` (in rows or columns) begins at `k * stride + start`.
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
        full = np.broadcast_to(inside, index.shape)
        return View(index.reshape(-1), full.reshape(-1))


@dataclass(frozen=True, eq=False)
class LocalNetwork:
    """The stages up to a convolutional layer, as a tile of that layer sees them.

    `stages[k]` is stage k inside the windows; `windows[k]` is the window of what enters it, and
    `output` that of what leaves the last one: the tile itself.
    """

    stages: tuple[Stage, ...]
    windows: tuple[_Window, ...]
    output: _Window

    def places(self) -> Iterator[tuple[int, int]]:
        """Where tiles begin so that they cover the layer; the last ones overlap others."""
        _, height, width = self.output.shape
        rows, columns = (
            sorted({min(k, full - step) for k in range(0, full, step)})
            for full, step in zip((height, width), self.output.extent, strict=True)
        )
        yield from itertools.product(rows, columns)


def local_network(stages: tuple[Stage, ...], rows_each: int = 6) -> LocalNetwork | None:
    """The stages as seen from a tile of the last one's outputs; None unless all are convolutions.

    `rows_each` is how many coefficient rows each neuron needs.
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
    corners: list[Corners],
    piece: AbstractPiece,
    directions: Directions,
    choose: LocalChoice,
    input_magnitude: Array,
    threads: int = 1,
    should_stop: Callable[[], bool] = lambda: False,
) -> Array:
    """Upper bounds `(directions, size)` on `on_s * s + on_t * t` of every neuron of the layer.

    They are infinite for tiles that were not reached before `should_stop` said so.
    """
    filters, height, width = local.output.shape
    found = np.full((len(directions), filters * height * width), np.inf)
    start = neuron_starts(directions, local.output.size, np.arange(local.output.size))
    places = list(local.places())

    def prove(number: int) -> None:
        if should_stop():
            return
        place = places[number]
        value = tile_bounds(local, place, corners, piece, start, choose, input_magnitude)
        found[:, local.output.at(place).index] = value.reshape(len(directions), -1)

    in_threads(prove, len(places), threads)
    return found


def tile_bounds(
    local: LocalNetwork,
    place: tuple[int, int],
    corners: list[Corners],
    piece: AbstractPiece,
    start: tuple[Array, ...],
    choose: LocalChoice,
    input_magnitude: Array,
) -> Array:
    views = tuple(window.at(place) for window in local.windows)
    return seen_bounds(local.stages, views, corners, piece, start, choose, input_magnitude)


def seen_bounds(
    stages: tuple[Stage, ...],
    views: tuple[View, ...],
    corners: list[Corners],
    piece: AbstractPiece,
    start: tuple[Array, ...],
    choose: LocalChoice,
    input_magnitude: Array,
) -> Array:
    """The twin dual bound `(batch,)` through stages of which `views[k]` is what enters stage k."""
    rows = len(start[0])
    state = Backward(start[0], start[1], np.zeros(rows), np.zeros(rows))
    for k in range(len(stages) - 1, 0, -1):
        view = views[k]
        seen = corners[k - 1].take(view.index)
        state = through_stage(stages[k], state, seen.magnitude)
        state = replace(state, a=view.masked(state.a), b=view.masked(state.b))
        p, q = choose(k - 1, view, state.a, state.b)
        state = through_relu(seen, state, view.masked(p), view.masked(q))
    state = through_stage(stages[0], state, input_magnitude[views[0].index])
    return at_input(*_seen_part(piece, views[0], state))


def _seen_part(piece: AbstractPiece, view: View, state: Backward) -> tuple[AbstractPiece, Backward]:
    """The piece on the pixels that the tile sees, and the coefficients in their order."""
    pixels = view.index[view.inside]
    part, columns = piece.local(pixels)
    wide = []
    for values in (state.a, state.b):
        seen = values[:, view.inside]
        if len(columns) > len(pixels):
            spread = np.zeros((len(seen), len(columns)))
            spread[:, np.searchsorted(columns, pixels)] = seen
            seen = spread
        wide.append(seen)
    return part, replace(state, a=wide[0], b=wide[1])


def quick_local_choice(hexagons: list[Hexagons], corners: list[Corners]) -> LocalChoice:
    """As `quick_choice`, within windows."""

    def choose(layer: int, view: View, a: Array, b: Array) -> tuple[Array, Array]:
        seen = hexagons[layer].take(view.index)
        c = quick_slopes(seen, corners[layer].take(view.index), a, b)
        return c[0] * a + c[1] * b, c[2] * a + c[3] * b

    return choose
