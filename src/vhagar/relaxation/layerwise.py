"""Hexagons of all neurons, layer by layer: exact supports first, then the twin dual bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vhagar.network import Network, Relu
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.cones import cones, sees_little
from vhagar.relaxation.dual_ascent import DualAscent
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.interval import Bounds, layer_bounds, network_bounds
from vhagar.relaxation.receptive import (
    local_bounds,
    local_network,
    quick_local_choice,
    seen_bounds,
)
from vhagar.relaxation.slopes import quick_choice
from vhagar.relaxation.starts import (
    FIRST_COPY,
    Directions,
    hexagon_directions,
    hexagons_of,
    maxima_of,
    neuron_starts,
)
from vhagar.relaxation.twin import Choice, Corners, Stage, stages_of, twin_bound

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.int64]

# Entries of one batch of start coefficients; keeps the memory of wide layers bounded.
_BATCH_ENTRIES = 3_000_000
# Multipliers moved in all steps of a refinement together: some seconds of work.
_MOST_STEPPED = 12_000_000


@dataclass(frozen=True, eq=False)
class Refined:
    """How a layer's bounds were refined: multipliers that prove them, in float32.

    `below` holds, for each layer below, `p` and `q` of its undecided neurons, each
    `(6 * len(neurons), undecided)`; those that are on have `p = a, q = b`, those that are off 0.
    """

    layer: int
    neurons: NDArray[np.int64]
    below: list[tuple[NDArray[np.float32], NDArray[np.float32]]]


class TwinBounds:
    """The network's stages over one piece, and the hexagons known so far."""

    def __init__(
        self,
        network: Network,
        piece: AbstractPiece,
        threads: int = 1,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.network = network
        self._threads = threads
        self._should_stop = should_stop
        self.piece = piece
        self.stages: tuple[Stage, ...] = stages_of(network)
        low, high = piece.image_bounds()
        self.input_magnitude = np.maximum(piece.domain.magnitude, np.maximum(abs(low), abs(high)))
        self.hexagons: list[Hexagons] = []
        self.corners: list[Corners] = []
        self.refined: list[Refined] = []

    def append(self, hexagons: Hexagons) -> None:
        """The next layer's hexagons are known."""
        self.hexagons.append(hexagons)
        self.corners.append(Corners.of(hexagons))

    def replace(self, layer: int, hexagons: Hexagons) -> None:
        """A layer's hexagons have been tightened."""
        self.hexagons[layer] = hexagons
        self.corners[layer] = Corners.of(hexagons)

    def quick(self, layer: int, linear: Mask | None = None) -> Hexagons:
        """Hexagons of what leaves stage `layer`, from the layers before it.

        Linear units stay unbounded: nobody needs more than interval arithmetic of them.
        """
        directions = hexagon_directions(self.piece.ratio)
        local = local_network(self.stages[: layer + 1], len(directions))
        if local is None:
            return hexagons_of(self._by_neurons(layer, linear), self.piece.ratio)
        found = local_bounds(
            local,
            self.corners,
            self.piece,
            directions,
            quick_local_choice(self.hexagons, self.corners),
            self.input_magnitude,
            self._threads,
            self._should_stop,
        )
        return hexagons_of(found, self.piece.ratio)

    def _by_neurons(self, layer: int, linear: Mask | None) -> Array:
        """The largest values in all directions, infinite where there is no need to know.

        Where the copies are sure to agree, one of them says all.
        """
        size = self.stages[layer].out_size
        found = np.full((len(hexagon_directions(self.piece.ratio)), size), np.inf)
        wanted = np.ones(size, dtype=np.bool_) if linear is None else ~linear
        moves = moving(self, layer)
        alike = np.zeros(size, dtype=np.bool_) if moves is None else ~moves.any(axis=0)
        for some, count in ((wanted & alike, FIRST_COPY), (wanted & ~alike, len(found))):
            neurons = np.flatnonzero(some)
            directions = hexagon_directions(self.piece.ratio)[:count]
            by = self._by_cones if sees_little(self.stages[: layer + 1], neurons) else self._whole
            by(layer, directions, neurons, found[:count])
        return found

    def _by_cones(self, layer: int, directions: Directions, neurons: Index, found: Array) -> None:
        """Where neurons see little of the layers below."""
        choose = quick_local_choice(self.hexagons, self.corners)
        for chosen, cone in cones(self.stages[: layer + 1], neurons):
            if self._should_stop():
                return
            start = neuron_starts(directions, len(chosen), np.arange(len(chosen)))
            seen = cone.stages, cone.views, self.corners, self.piece
            values = seen_bounds(*seen, start, choose, self.input_magnitude)
            found[:, chosen] = values.reshape(len(directions), -1)

    def _whole(self, layer: int, directions: Directions, neurons: Index, found: Array) -> None:
        """Where neurons may see all of the layers below."""
        size = self.stages[layer].out_size
        rows = max(1, _BATCH_ENTRIES // max(stage.in_size for stage in self.stages))
        for begin in range(0, len(neurons), rows):
            chosen = neurons[begin : begin + rows]
            for k, direction in enumerate(directions):
                if self._should_stop():
                    return
                found[k, chosen] = self.bound(layer, *neuron_starts((direction,), size, chosen))

    def bound(self, layer: int, a: Array, b: Array, choice: Choice | None = None) -> Array:
        """Upper bounds on `a.y + b.y_p`, `y` what leaves stage `layer`."""
        return twin_bound(
            self.stages[: layer + 1],
            self.corners[:layer],
            self.piece,
            (a, b),
            choice or quick_choice(self.hexagons, self.corners),
            self.input_magnitude,
        )


def refine_layer(bounds: TwinBounds, layer: int, steps: int) -> None:
    """Tighten the hexagons of a layer's undecided neurons by first-order steps."""
    if layer < 1:
        return  # the first layer's supports are exact
    hexagons = bounds.hexagons[layer]
    undecided = np.flatnonzero(~hexagons.on & ~hexagons.off)
    if not len(undecided):
        return
    on_s, on_t = neuron_starts(hexagon_directions(hexagons.ratio), len(hexagons), undecided)
    descent = DualAscent(bounds.stages[: layer + 1], bounds.corners[:layer], bounds.piece)
    descent.begin(bounds.hexagons[:layer], (on_s, on_t))
    entries = len(on_s) * sum(stage.in_size for stage in bounds.stages[1 : layer + 1])
    affordable = max(1, min(steps, _MOST_STEPPED // max(entries, 1)))
    refine_by(bounds, layer, undecided, descent.run((on_s, on_t), affordable))


def refine_by(bounds: TwinBounds, layer: int, neurons: Index, choice: Choice) -> None:
    """Tighten the hexagons of some neurons by given multipliers, `(6 * len(neurons), ...)`.

    The directions are the outer index. Whatever the multipliers are, the bounds hold.
    """
    hexagons = bounds.hexagons[layer]
    on_s, on_t = neuron_starts(hexagon_directions(hexagons.ratio), len(hexagons), neurons)
    rounded = _Rounded(bounds.hexagons[:layer], choice)
    better = bounds.bound(layer, on_s, on_t, rounded).reshape(-1, len(neurons))
    found = maxima_of(hexagons)
    found[:, neurons] = np.fmin(found[:, neurons], better)  # NaN proves nothing
    bounds.refined.append(Refined(layer, neurons, rounded.below))
    bounds.replace(layer, hexagons_of(found, hexagons.ratio).meet(hexagons).tightened())


class _Rounded:
    """A choice in numbers that can be kept: float32 for undecided neurons, exact for all others."""

    def __init__(self, hexagons: list[Hexagons], choice: Choice) -> None:
        self._hexagons = hexagons
        self._choice = choice
        nothing = np.zeros((0, 0), dtype=np.float32)
        self.below = [(nothing, nothing)] * len(hexagons)

    def __call__(self, layer: int, a: Array, b: Array) -> tuple[Array, Array]:
        on, off = self._hexagons[layer].on, self._hexagons[layer].off
        p, q = (_float32(part) for part in self._choice(layer, a, b))
        undecided = ~on & ~off
        self.below[layer] = p[:, undecided], q[:, undecided]
        return np.where(on, a, np.where(off, 0.0, p)), np.where(on, b, np.where(off, 0.0, q))


def _float32(values: Array) -> NDArray[np.float32]:
    """Rounded; 0, which is as good as any, where that is no number."""
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float32)
    return np.where(np.isfinite(rounded), rounded, np.float32(0))


def quick_bounds(
    network: Network,
    piece: AbstractPiece,
    threads: int = 1,
    should_stop: Callable[[], bool] = lambda: False,
) -> TwinBounds:
    """Hexagons of all hidden neurons, without optimisation.

    Neurons that `should_stop` leaves no time for keep what interval arithmetic knows of them. It is
    asked from several threads.
    """
    bounds = TwinBounds(network, piece, threads, should_stop)
    for layer, plain in enumerate(plain_hexagons(network, piece)):
        known = bounds.quick(layer, plain.linear)
        append_plain(bounds, layer, known.meet(plain))
    return bounds


def append_plain(bounds: TwinBounds, layer: int, plain: Hexagons) -> None:
    """The next layer's hexagons as they are, for whoever tightens them."""
    if plain.linear is not None and layer > 0:
        plain = plain.meet(_one_step(bounds, layer, plain.linear))
    bounds.append(_with_known_signs(bounds, layer, plain).tightened())


def _one_step(bounds: TwinBounds, layer: int, linear: Mask) -> Hexagons:
    """Linear units by interval arithmetic from the layer below: all that is asked of them."""
    below = bounds.hexagons[layer - 1]
    relu = Relu((len(below),), below.linear)
    found = []
    for low, high in ((below.lower, below.upper), (below.lower_p, below.upper_p)):
        copy = layer_bounds(relu, Bounds(low, high))
        for step in bounds.stages[layer].layers:
            copy = layer_bounds(step, copy)
        found.append(
            Bounds(np.where(linear, copy.lower, -np.inf), np.where(linear, copy.upper, np.inf))
        )
    return _without_gap(found[0], found[1], below.ratio, None)


def plain_hexagons(network: Network, piece: AbstractPiece) -> list[Hexagons]:
    """By interval arithmetic, each copy for itself: nothing is known of the gaps."""
    domain = piece.domain
    box = Bounds(np.full(domain.size, domain.lower), np.full(domain.size, domain.upper))
    first = _entering(network, box)
    second = _entering(network, Bounds(*piece.image_bounds()))
    relus = [layer for layer in network.layers if isinstance(layer, Relu)]
    return [
        _without_gap(one, other, piece.ratio, layer.linear)
        for layer, one, other in zip(relus, first, second, strict=True)
    ]


def _without_gap(one: Bounds, other: Bounds, ratio: float, linear: Mask | None) -> Hexagons:
    gap = np.full(len(one.lower), np.inf)
    return Hexagons(one.lower, one.upper, other.lower, other.upper, -gap, gap, ratio, linear)


def _with_known_signs(bounds: TwinBounds, layer: int, found: Hexagons) -> Hexagons:
    """Gaps whose sign follows from the signs of the weights alone, free of any rounding.

    This is the paper's dependency propagation: a neuron can rise only through a positive weight on
    something that can rise or a negative one on something that can fall.
    """
    moves = moving(bounds, layer)
    if moves is None:
        return found
    rises, falls = moves
    return replace(
        found,
        gap_lower=np.where(falls, found.gap_lower, np.maximum(found.gap_lower, 0.0)),
        gap_upper=np.where(rises, found.gap_upper, np.minimum(found.gap_upper, 0.0)),
    )


def moving(bounds: TwinBounds, layer: int) -> NDArray[np.bool_] | None:
    """Which neurons of a layer can rise, and which can fall, from the first copy to the second.

    None where the second copy follows a multiple of the first: the gap is not a difference then.
    """
    if bounds.piece.ratio != 1.0:
        return None
    if layer == 0:
        rises, falls = bounds.piece.changes()
    else:
        before = bounds.hexagons[layer - 1]
        rises = (before.gap_upper > 0) & ~before.off
        falls = (before.gap_lower < 0) & ~before.off
    for linear in bounds.stages[layer].layers:
        positive = linear.mapped(lambda weight: (weight > 0).astype(np.float64))
        negative = linear.mapped(lambda weight: (weight < 0).astype(np.float64))
        moves = np.stack([rises, falls]).astype(np.float64)
        # Sums of ones are exact.
        rises, falls = (positive.times(moves) + negative.times(moves[::-1])) > 0
    return np.stack([rises, falls])


def _entering(network: Network, inputs: Bounds) -> list[Bounds]:
    """By interval arithmetic, the bounds of what enters each ReLU layer."""
    before = [inputs, *network_bounds(network, inputs)]
    return [
        bounds
        for layer, bounds in zip(network.layers, before, strict=False)
        if isinstance(layer, Relu)
    ]
