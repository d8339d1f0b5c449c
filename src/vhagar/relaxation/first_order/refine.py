"""Tighten a layer's hexagons: multipliers by first-order steps, bounds from them in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Index
from vhagar.network import Network
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.corners import Corners
from vhagar.relaxation.first_order.build import local_dual, seen_hexagons, whole_dual
from vhagar.relaxation.first_order.dual import LayerMultipliers, Steps
from vhagar.relaxation.first_order.objective import FixedObjective
from vhagar.relaxation.first_order.torch_layers import torch_stages
from vhagar.relaxation.interval_hexagons import plain_hexagons
from vhagar.relaxation.layerwise import Refined, TwinBounds
from vhagar.relaxation.quick_multipliers import quick_payment
from vhagar.relaxation.receptive_fields import LocalNetwork, local_network
from vhagar.relaxation.refinement import StatedChoice
from vhagar.relaxation.stages import Stage
from vhagar.relaxation.starts import hexagon_directions, hexagons_of, neuron_starts
from vhagar.relaxation.twin_dual import Choice, backward
from vhagar.runtime.devices import Tensor, full_precision, in_parts, require_torch
from vhagar.runtime.threads import in_threads

Tile = tuple[int, int]

# Numbers in memory for each coefficient: the free ones, Adam's moments, and intermediate results.
_NUMBERS_EACH = 48
_CPU_BYTES = 2**28
# Most multipliers that one refinement records, each two float32 numbers.
_MOST_RECORDED = 2**24
# Rows that are evaluated in float64 at once.
_EXACT_ENTRIES = 2**22


def device_bounds(
    network: Network,
    piece: AbstractPiece,
    device: Any,
    threads: int = 1,
    should_stop: Callable[[], bool] = lambda: False,
) -> TwinBounds:
    """As `quick_bounds`, equal up to rounding; the bounds of convolutions are computed on a device.

    Layers for which no time is left keep their bounds by interval arithmetic.
    """
    bounds = TwinBounds(network, piece, threads, should_stop)
    for layer, plain in enumerate(plain_hexagons(network, piece)):
        local = local_network(bounds.stages[: layer + 1]) if layer else None
        if local is None:
            bounds.append_plain(bounds.quick(layer, plain.linear).meet(plain))
            continue
        bounds.append_plain(plain)
        _Windows(bounds, local, device, should_stop).quickly()
    return bounds


def refine(
    bounds: TwinBounds,
    layer: int,
    device: Any,
    steps: Steps,
    should_stop: Callable[[], bool] = lambda: False,
    record: bool = True,
) -> None:
    """Tighten the hexagons of a layer's undecided neurons, as far as time allows.

    `should_stop` is called from several threads. With `record`, the multipliers are stored in the
    bounds.
    """
    if layer < 1:
        return  # the first layer's supports are exact
    local = local_network(bounds.stages[: layer + 1])
    if local is None:
        _whole(bounds, layer, device, steps, should_stop, record)
    else:
        _Windows(bounds, local, device, should_stop).by_steps(steps, record)


def memory_for(device: Any) -> int:
    """Bytes of memory that one part of the work may use."""
    torch = require_torch()
    if device.type != "cuda":
        return _CPU_BYTES
    free, _ = torch.cuda.mem_get_info(device)
    return int(0.5 * free)


def _tightened(bounds: TwinBounds, layer: int, found: Array) -> None:
    """Tighten a layer by the bounds found, `(directions, neurons)`; NaN proves nothing."""
    known, proven = bounds.hexagons[layer], np.where(np.isnan(found), np.inf, found)
    bounds.replace(layer, hexagons_of(proven, known.ratio).meet(known).tightened())


def _undecided(bounds: TwinBounds, layer: int) -> Index:
    known = bounds.hexagons[layer]
    return np.flatnonzero(~known.on & ~known.off)


def _objective(start: tuple[Array, Array], device: Any, tiles: int = 1) -> FixedObjective:
    torch = require_torch()
    return FixedObjective(
        *(
            torch.as_tensor(part, dtype=torch.float32, device=device).repeat(tiles, 1)
            for part in start
        )
    )


def _whole(
    bounds: TwinBounds,
    layer: int,
    device: Any,
    steps: Steps,
    should_stop: Callable[[], bool],
    record: bool,
) -> None:
    known, undecided = bounds.hexagons[layer], _undecided(bounds, layer)
    directions = hexagon_directions(known.ratio)
    found = np.full((len(directions), len(known)), np.inf)
    width = sum(len(h) for h in bounds.hexagons[:layer]) + bounds.piece.domain.size
    stages = torch_stages(bounds.stages[: layer + 1], device)

    def work(begin: int, end: int) -> None:
        if should_stop():
            return
        neurons = undecided[begin:end]
        start = neuron_starts(directions, len(known), neurons)
        objective = _objective(start, device)
        dual = whole_dual(bounds, layer, stages, device)
        frees = dual.begin(objective)
        dual.run(objective, frees, steps, should_stop)
        if should_stop():
            return
        chosen = LayerMultipliers(tuple(free.kept.cpu().numpy() for free in frees))
        value, below = proven_bounds(bounds, layer, start, chosen)
        found[:, neurons] = value.reshape(len(directions), -1)
        if record:
            bounds.refined.append(Refined(layer, neurons, below))

    # The neurons of one part are limited by memory and by what one refinement may record.
    numbers = min(memory_for(device) // (4 * _NUMBERS_EACH), _MOST_RECORDED)
    in_parts(len(undecided), numbers // (len(directions) * width), work)
    _tightened(bounds, layer, found)


def proven_bounds(
    bounds: TwinBounds, layer: int, start: tuple[Array, Array], chosen: LayerMultipliers
) -> tuple[Array, list[tuple[NDArray[np.float32], NDArray[np.float32]]]]:
    """The bounds that multipliers prove for starts `(rows, size)`, in float64 and rounded outward;
    and the multipliers in the form of `Refined`."""
    width = max(stage.in_size for stage in bounds.stages)
    at_once = max(1, _EXACT_ENTRIES // width)
    begins = range(0, len(start[0]), at_once)
    parts = [np.empty(0)] * len(begins)
    stated = [StatedChoice(bounds.hexagons[:layer], chosen.choice())] * len(begins)

    def prove(number: int) -> None:
        rows = slice(begins[number], begins[number] + at_once)
        choose = StatedChoice(bounds.hexagons[:layer], chosen.choice(rows))
        parts[number] = bounds.bound(layer, start[0][rows], start[1][rows], choose)
        stated[number] = choose

    in_threads(prove, len(parts), bounds.threads)
    below = [
        (
            np.concatenate([choose.below[k][0] for choose in stated]),
            np.concatenate([choose.below[k][1] for choose in stated]),
        )
        for k in range(layer)
    ]
    return np.concatenate(parts), below


class _Windows:
    """Tightens the hexagons of a convolution tile by tile."""

    def __init__(
        self,
        bounds: TwinBounds,
        local: LocalNetwork,
        device: Any,
        should_stop: Callable[[], bool],
    ) -> None:
        self._bounds, self._local = bounds, local
        self._device, self._should_stop = device, should_stop
        self._layer = len(local.stages) - 1
        self._directions = hexagon_directions(bounds.piece.ratio)
        self._start = local.starts(self._directions)
        self._undecided = np.zeros(len(bounds.hexagons[self._layer]), dtype=np.bool_)
        self._undecided[_undecided(bounds, self._layer)] = True
        self._found = np.full((len(self._directions), len(self._undecided)), np.inf)

    def quickly(self) -> None:
        """By the quick choice, in float64, so that the CPU would choose the same."""
        torch = require_torch()
        stages = torch_stages(self._local.stages, self._device, torch.float64)
        self._in_parts(8, lambda tiles: self._prove_quickly(tiles, stages))

    def by_steps(self, steps: Steps, record: bool) -> None:
        """By first-order steps; the multipliers are rounded to a certificate's precision."""
        stages = torch_stages(self._local.stages, self._device)
        self._in_parts(4, lambda tiles: self._prove_by_steps(tiles, stages, steps, record))

    def _in_parts(self, size: int, work: Callable[[list[Tile]], None]) -> None:
        places = list(self._local.places())
        width = sum(window.size for window in self._local.windows) * len(self._start[0])

        def part(begin: int, end: int) -> None:
            if not self._should_stop():
                work(places[begin:end])

        in_parts(len(places), memory_for(self._device) // (size * _NUMBERS_EACH * width), part)
        _tightened(self._bounds, self._layer, self._found)

    def _prove_quickly(self, tiles: list[Tile], stages: Sequence[Stage]) -> None:
        torch, count = require_torch(), len(tiles)
        corners = [
            Corners.of(hexagons)
            for hexagons in seen_hexagons(self._bounds, self._local, tiles, self._device)
        ]
        quick, chosen = quick_payment(corners), list[tuple[Array, Array]]()

        def pay(layer: int, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            # One group of rows for each tile; the rows of a group share the tile's corners.
            p, q, r = quick(layer, *(part.reshape(count, -1, a.shape[1]) for part in (a, b)))
            chosen.append((p.cpu().numpy(), q.cpu().numpy()))
            return p.reshape(a.shape), q.reshape(a.shape), r.reshape(a.shape)

        start = tuple(
            torch.as_tensor(part, device=self._device).repeat(count, 1) for part in self._start
        )
        with full_precision():
            backward(stages, start, pay, last=1)
        chosen.reverse()

        def choice(number: int) -> Choice:
            return lambda layer, a, b: (chosen[layer][0][number], chosen[layer][1][number])

        self._prove(tiles, choice)

    def _prove_by_steps(
        self, tiles: list[Tile], stages: Sequence[Stage], steps: Steps, record: bool
    ) -> None:
        objective = _objective(self._start, self._device, len(tiles))
        dual = local_dual(self._bounds, self._local, tiles, stages, self._device)
        frees = dual.begin(objective)
        dual.run(objective, frees, steps, self._should_stop)
        rows = len(self._start[0])
        kept = [free.kept.cpu().numpy().reshape(6, len(tiles), rows, -1) for free in frees]
        stated: dict[int, StatedChoice] = {}

        def choice(number: int) -> Choice:
            chosen = LayerMultipliers(tuple(part[:, number] for part in kept))
            views = [window.at(tiles[number]) for window in self._local.windows[1:]]
            seen = [
                known.take(view.index)
                for known, view in zip(self._bounds.hexagons, views, strict=False)
            ]
            stated[number] = StatedChoice(seen, chosen.choice())
            return stated[number]

        self._prove(tiles, choice)
        if record:
            for number in sorted(stated):
                self._record(tiles[number], stated[number])

    def _prove(self, tiles: list[Tile], choice: Callable[[int], Choice]) -> None:
        """Bound the tiles' undecided neurons by the given choices, in float64, rounded outward."""
        bounds = self._bounds
        values: list[Array | None] = [None] * len(tiles)

        def prove(number: int) -> None:
            if not self._should_stop():
                known = bounds.corners, bounds.piece, self._start, bounds.input_magnitude
                values[number] = self._local.at(tiles[number]).bound(*known, choice(number))

        in_threads(prove, len(tiles), bounds.threads)
        for tile, value in zip(tiles, values, strict=True):
            if value is not None:
                index = self._local.output.at(tile).index
                own = self._undecided[index]
                some = value.reshape(len(self._directions), -1)[:, own]
                self._found[:, index[own]] = np.fmin(self._found[:, index[own]], some)

    def _record(self, tile: Tile, stated: StatedChoice) -> None:
        """Record the multipliers of a tile's undecided neurons, on the neurons that they see."""
        index = self._local.output.at(tile).index
        own = np.flatnonzero(self._undecided[index])
        if not len(own):
            return
        rows = (np.arange(len(self._directions))[:, None] * len(index) + own).reshape(-1)
        below, seen = [], []
        for k, window in enumerate(self._local.windows[1:]):
            view, undecided = window.at(tile), stated.undecided[k]
            there = np.ones(len(undecided), dtype=np.bool_) if view.inside is None else view.inside
            p, q = (part[rows][:, there[undecided]] for part in stated.below[k])
            below.append((p, q))
            seen.append(view.index[undecided & there])
        self._bounds.refined.append(Refined(self._layer, index[own], below, seen))
