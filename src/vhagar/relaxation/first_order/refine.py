"""Tighten a layer's hexagons: multipliers by first-order steps, bounds from them in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.network import Network
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.first_order.build import whole_dual
from vhagar.relaxation.first_order.dual import NUMBERS_EACH, LayerMultipliers, Steps
from vhagar.relaxation.first_order.objective import FixedObjective
from vhagar.relaxation.first_order.tiles import Tiles
from vhagar.relaxation.first_order.torch_layers import torch_stages
from vhagar.relaxation.interval_hexagons import plain_hexagons
from vhagar.relaxation.layerwise import Refined, TwinBounds
from vhagar.relaxation.receptive_fields import local_network
from vhagar.relaxation.refinement import StatedChoice
from vhagar.relaxation.starts import hexagon_directions, neuron_starts
from vhagar.runtime.devices import in_parts, memory_for
from vhagar.runtime.threads import in_threads

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
        Tiles(bounds, local, device, should_stop).quickly()
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
        Tiles(bounds, local, device, should_stop).by_steps(steps, record)


def _whole(
    bounds: TwinBounds,
    layer: int,
    device: Any,
    steps: Steps,
    should_stop: Callable[[], bool],
    record: bool,
) -> None:
    known = bounds.hexagons[layer]
    undecided = np.flatnonzero(known.undecided)
    directions = hexagon_directions(known.ratio)
    found = np.full((len(directions), len(known)), np.inf)
    width = sum(len(h) for h in bounds.hexagons[:layer]) + bounds.piece.domain.size
    stages = torch_stages(bounds.stages[: layer + 1], device)

    def work(begin: int, end: int) -> None:
        if should_stop():
            return
        neurons = undecided[begin:end]
        start = neuron_starts(directions, len(known), neurons)
        objective = FixedObjective.on_device(start, device)
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
    numbers = min(memory_for(device) // (4 * NUMBERS_EACH), _MOST_RECORDED)
    in_parts(len(undecided), numbers // (len(directions) * width), work)
    bounds.tighten(layer, found)


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
