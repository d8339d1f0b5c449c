"""Tighter hexagons of a layer: multipliers by first-order steps, bounds from them in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.network import Network
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.first_order.build import local_dual, whole_dual
from vhagar.relaxation.first_order.dual import Multipliers, Steps
from vhagar.relaxation.first_order.goal import FixedGoal
from vhagar.relaxation.first_order.torch_layers import torch_stages
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.interval_hexagons import plain_hexagons
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.receptive_fields import LocalNetwork, local_network
from vhagar.relaxation.starts import hexagon_directions, hexagons_of
from vhagar.runtime.cores import available_cores
from vhagar.runtime.devices import in_parts, require_torch
from vhagar.runtime.threads import in_threads

Array = NDArray[np.float64]

# Numbers held per coefficient: the free parameters, Adam's moments, and intermediate values.
_NUMBERS_EACH = 48
# Bytes that a batch may take on a CPU.
_CPU_BYTES = 2**30
# Entries of the coefficients that are evaluated in float64 at once.
_EXACT_ENTRIES = 2**22


def first_order_bounds(
    network: Network,
    piece: AbstractPiece,
    device: Any,
    steps: Callable[[int], Steps] = lambda layer: Steps(1),
    should_stop: Callable[[], bool] = lambda: False,
) -> TwinBounds:
    """Hexagons of all hidden neurons; `steps` says how many steps a layer is worth.

    One step is none: it evaluates the quick choice. Where there is no time left, layers keep what
    interval arithmetic knows of them.
    """
    bounds = TwinBounds(network, piece, available_cores(), should_stop)
    for layer, plain in enumerate(plain_hexagons(network, piece)):
        if layer == 0:
            bounds.append_plain(bounds.quick(0).meet(plain))
            continue
        bounds.append_plain(plain)
        refine(bounds, layer, device, steps(layer), should_stop)
    return bounds


def refine(
    bounds: TwinBounds,
    layer: int,
    device: Any,
    steps: Steps,
    should_stop: Callable[[], bool] = lambda: False,
) -> None:
    """Tighten the hexagons of a layer's undecided neurons, as far as time allows.

    `should_stop` is asked from several threads.
    """
    if layer < 1:
        return  # the first layer's supports are exact
    known = bounds.hexagons[layer]
    local = local_network(bounds.stages[: layer + 1])
    if local is None:
        found = _whole(bounds, layer, device, steps, should_stop)
    else:
        found = _local(bounds, local, device, steps, should_stop)
    bounds.replace(layer, _met(known, found))


def _met(known: Hexagons, found: Array) -> Hexagons:
    proven = np.where(np.isnan(found), np.inf, found)  # NaN proves nothing
    return hexagons_of(proven, known.ratio).meet(known).tightened()


def memory_for(device: Any) -> int:
    """Bytes that one part of the work may take."""
    torch = require_torch()
    if device.type != "cuda":
        return _CPU_BYTES
    free, _ = torch.cuda.mem_get_info(device)
    return int(0.5 * free)


def _whole(
    bounds: TwinBounds,
    layer: int,
    device: Any,
    steps: Steps,
    should_stop: Callable[[], bool],
) -> Array:
    torch = require_torch()
    known = bounds.hexagons[layer]
    directions = hexagon_directions(known.ratio)
    found = np.full((len(directions), len(known)), np.inf)
    undecided = np.flatnonzero(~known.on & ~known.off)
    if not len(undecided):
        return found
    wanted = [(k, neuron) for k in range(len(directions)) for neuron in undecided.tolist()]
    width = sum(len(h) for h in bounds.hexagons[:layer]) + bounds.piece.domain.size
    stages = torch_stages(bounds.stages[: layer + 1], device)

    def work(begin: int, end: int) -> None:
        if should_stop():
            return
        start = np.zeros((2, end - begin, len(known)))
        for row, (k, neuron) in enumerate(wanted[begin:end]):
            start[:, row, neuron] = directions[k]
        goal = FixedGoal(
            *(torch.as_tensor(part, dtype=torch.float32, device=device) for part in start)
        )
        dual = whole_dual(bounds, layer, stages, device)
        frees = dual.begin(goal)
        dual.run(goal, frees, steps, should_stop)
        chosen = Multipliers(tuple(free.kept.cpu().numpy() for free in frees))
        value = exact_bounds(bounds, layer, start, chosen)
        for (k, neuron), bound in zip(wanted[begin:end], value, strict=True):
            found[k, neuron] = bound

    in_parts(len(wanted), memory_for(device) // (4 * _NUMBERS_EACH * width), work)
    return found


def exact_bounds(bounds: TwinBounds, layer: int, start: Array, chosen: Multipliers) -> Array:
    """What the multipliers prove of starts `(2, rows, size)`, in float64 and rounded outward."""
    width = max(stage.in_size for stage in bounds.stages)
    at_once = max(1, _EXACT_ENTRIES // width)
    begins = range(0, start.shape[1], at_once)
    parts = [np.empty(0)] * len(begins)

    def prove(number: int) -> None:
        rows = slice(begins[number], begins[number] + at_once)
        own = bounds.bound(layer, start[0, rows], start[1, rows], chosen.choice(rows))
        parts[number] = own

    in_threads(prove, len(parts), available_cores())
    return np.concatenate(parts)


def _local(
    bounds: TwinBounds,
    local: LocalNetwork,
    device: Any,
    steps: Steps,
    should_stop: Callable[[], bool],
) -> Array:
    torch = require_torch()
    directions = hexagon_directions(bounds.piece.ratio)
    found = np.full((len(directions), bounds.stages[len(local.stages) - 1].out_size), np.inf)
    places = list(local.places())
    start = local.starts(directions)
    width = sum(window.size for window in local.windows) * len(start[0])
    stages = torch_stages(local.stages, device)

    def work(begin: int, end: int) -> None:
        if should_stop():
            return
        tiles = places[begin:end]
        goal = FixedGoal(
            *(
                torch.as_tensor(part, dtype=torch.float32, device=device).repeat(len(tiles), 1)
                for part in start
            )
        )
        dual = local_dual(bounds, local, tiles, stages, device)
        frees = dual.begin(goal)
        dual.run(goal, frees, steps, should_stop)
        kept = [free.kept.cpu().numpy().reshape(6, len(tiles), len(start[0]), -1) for free in frees]

        def prove(number: int) -> None:
            if should_stop():
                return
            chosen = Multipliers(tuple(part[:, number] for part in kept))
            value = local.at(tiles[number]).bound(
                bounds.corners, bounds.piece, start, bounds.input_magnitude, chosen.choice()
            )
            index = local.output.at(tiles[number]).index
            found[:, index] = value.reshape(len(directions), -1)

        in_threads(prove, len(tiles), available_cores())

    in_parts(len(places), memory_for(device) // (4 * _NUMBERS_EACH * width), work)
    return found
