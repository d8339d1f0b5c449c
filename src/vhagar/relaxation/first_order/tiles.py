"""Tighten the hexagons of a convolution, tile by tile of its outputs.

A tile's neurons see a window of each earlier layer; all tiles share the window's shape, so that
many are bounded at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vhagar.array_types import Array
from vhagar.relaxation.corners import Corners
from vhagar.relaxation.first_order.build import local_dual, seen_hexagons
from vhagar.relaxation.first_order.dual import NUMBERS_EACH, LayerMultipliers, Steps
from vhagar.relaxation.first_order.objective import FixedObjective
from vhagar.relaxation.first_order.torch_layers import torch_stages
from vhagar.relaxation.layerwise import Refined, TwinBounds
from vhagar.relaxation.quick_multipliers import quick_payment
from vhagar.relaxation.receptive_fields import LocalNetwork
from vhagar.relaxation.refinement import StatedChoice
from vhagar.relaxation.stages import Stage
from vhagar.relaxation.starts import hexagon_directions
from vhagar.relaxation.twin_dual import Choice, backward
from vhagar.runtime.devices import Tensor, full_precision, in_parts, memory_for, require_torch
from vhagar.runtime.threads import in_threads

Tile = tuple[int, int]


class Tiles:
    """Tightens the hexagons of a convolution tile by tile, as far as time allows."""

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
        self._undecided = bounds.hexagons[self._layer].undecided
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

        in_parts(len(places), memory_for(self._device) // (size * NUMBERS_EACH * width), part)
        self._bounds.tighten(self._layer, self._found)

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
        objective = FixedObjective.on_device(self._start, self._device, len(tiles))
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
