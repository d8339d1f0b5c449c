"""Hexagons of all neurons, layer by layer: the first by exact supports, others by the twin dual."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Index, Mask
from vhagar.network import Network
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.corners import Corners
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.influence_cones import cones, sees_little
from vhagar.relaxation.interval_hexagons import (
    linear_units,
    moving,
    plain_hexagons,
    with_known_signs,
)
from vhagar.relaxation.quick_multipliers import quick_payment
from vhagar.relaxation.receptive_fields import local_bounds, local_network
from vhagar.relaxation.stages import Magnitudes, Stage, magnitudes_of, stages_of
from vhagar.relaxation.starts import (
    FIRST_COPY,
    Directions,
    hexagon_directions,
    hexagons_of,
    neuron_starts,
)
from vhagar.relaxation.twin_dual import Choice, paying, twin_bound
from vhagar.runtime.deadline import NEVER, Deadline

# Entries of one batch of start coefficients; limits the memory for wide layers.
_BATCH_ENTRIES = 3_000_000


@dataclass(frozen=True, eq=False)
class Refined:
    """The multipliers that prove a layer's refined bounds, in float32.

    `below` holds, for each layer below, `p` and `q` of its undecided neurons, each
    `(6 * len(neurons), undecided)`; active neurons have `p = a, q = b`, inactive ones 0.
    Where the refined neurons see only a part of the layers below, `seen` lists, for each layer, the
    undecided neurons in that part, and `below` is about them alone; all others have 0.
    """

    layer: int
    neurons: Index
    below: list[tuple[NDArray[np.float32], NDArray[np.float32]]]
    seen: list[Index] | None = None


@dataclass(frozen=True)
class Tightening:
    """Hexagons of all layers that are valid only where the search still has to look.

    That means: for attacked pairs that obey the first `decided` decisions of a node and have a
    confidence of at least `level`. The `digest` identifies a tightening.
    """

    digest: bytes
    level: float = field(compare=False)
    decided: int = field(compare=False)
    hexagons: tuple[Hexagons, ...] = field(compare=False)


@dataclass(frozen=True, eq=False)
class SideProofs:
    """The proof of a tightening: the bounds it builds on, and the multipliers of each new side.

    A row of `places` is a layer, a neuron and a direction (`hexagon_directions`); the same row of
    `numbers` holds the multipliers, in the order of certificates.
    """

    base: TwinBounds
    target: int
    decisions: tuple[tuple[int, int, int, bool], ...]  # layer, neuron, copy, whether positive
    places: Index
    numbers: NDArray[np.float32]


class TwinBounds:
    """The network's stages over one piece, and the hexagons known so far.

    With a `tightening`, the hexagons are valid for some pairs only. Bounds that are proven with
    them must account for the other pairs: no such bound may be below the `level`.
    """

    def __init__(
        self,
        network: Network,
        piece: AbstractPiece,
        threads: int = 1,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.network = network
        self.threads = threads
        self._should_stop = should_stop
        self.piece = piece
        self.stages: tuple[Stage, ...] = stages_of(network)
        low, high = piece.image_bounds()
        self.input_magnitude = np.maximum(piece.domain.magnitude, np.maximum(abs(low), abs(high)))
        self.hexagons: list[Hexagons] = []
        self.corners: list[Corners] = []
        self.refined: list[Refined] = []
        self.tightening: Tightening | None = None
        self.side_proofs: SideProofs | None = None  # where the tightening was found here
        self.cut_short = False  # whether some neurons have only what interval arithmetic knows

    @property
    def offsets(self) -> Index:
        """Where the neurons of each layer begin in arrays of all neurons, and where they end."""
        return np.cumsum([0, *map(len, self.hexagons)], dtype=np.int64)

    @property
    def level(self) -> float:
        """Pairs of less confidence than this need not satisfy these bounds."""
        return -math.inf if self.tightening is None else self.tightening.level

    def tightened(self, tightening: Tightening, proofs: SideProofs | None = None) -> TwinBounds:
        """These bounds with the hexagons of a tightening in place of their own."""
        found = self.copy()
        for layer, hexagons in enumerate(tightening.hexagons):
            found.replace(layer, hexagons)
        found.tightening, found.side_proofs = tightening, proofs
        return found

    def copy(self) -> TwinBounds:
        """A copy that can be refined without changing these bounds."""
        found = copy(self)
        found.hexagons, found.corners = list(self.hexagons), list(self.corners)
        found.refined = list(self.refined)
        return found

    def stop_when(self, should_stop: Callable[[], bool]) -> None:
        """From now on, stop tightening bounds once `should_stop()` is true."""
        self._should_stop = should_stop

    def append(self, hexagons: Hexagons) -> None:
        """Add the next layer's hexagons."""
        self.hexagons.append(hexagons)
        self.corners.append(Corners.of(hexagons))

    def append_plain(self, plain: Hexagons) -> None:
        """Add the next layer's hexagons after cheap tightening: linear units, signs of gaps."""
        layer = len(self.hexagons)
        if plain.linear is not None and layer > 0:
            below = self.hexagons[layer - 1]
            plain = plain.meet(linear_units(self.stages[layer], below, plain.linear))
        self.append(with_known_signs(plain, self._moving(layer)).tightened())

    def _moving(self, layer: int) -> Mask | None:
        before = self.hexagons[layer - 1] if layer else None
        return moving(self.piece, self.stages[layer], before)

    def replace(self, layer: int, hexagons: Hexagons) -> None:
        """Replace a layer's hexagons by tighter ones."""
        self.hexagons[layer] = hexagons
        self.corners[layer] = Corners.of(hexagons)

    def tighten(self, layer: int, found: Array) -> None:
        """Tighten a layer by upper bounds in all directions, `(6, neurons)`; NaN proves nothing."""
        known, proven = self.hexagons[layer], np.where(np.isnan(found), np.inf, found)
        self.replace(layer, hexagons_of(proven, known.ratio).meet(known).tightened())

    def quick(self, layer: int, linear: Mask | None = None) -> Hexagons:
        """Hexagons of the outputs of stage `layer`, from the layers before it.

        Linear units stay unbounded here, because interval arithmetic is enough for them.
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
            self.input_magnitude,
            self.threads,
            self._should_stop,
        )
        return hexagons_of(found, self.piece.ratio)

    def _by_neurons(self, layer: int, linear: Mask | None) -> Array:
        """Upper bounds in all directions, infinite where none is needed.

        For neurons whose copies are sure to agree, the bounds of one copy are enough.
        """
        size = self.stages[layer].out_size
        found = np.full((len(hexagon_directions(self.piece.ratio)), size), np.inf)
        if self._should_stop():
            return found  # before the preparations, which take long in large layers
        wanted = np.ones(size, dtype=np.bool_) if linear is None else ~linear
        moves = self._moving(layer)
        alike = np.zeros(size, dtype=np.bool_) if moves is None else ~moves.any(axis=0)
        for some, count in ((wanted & alike, FIRST_COPY), (wanted & ~alike, len(found))):
            neurons = np.flatnonzero(some)
            directions = hexagon_directions(self.piece.ratio)[:count]
            by = self._by_cones if sees_little(self.stages[: layer + 1], neurons) else self._whole
            by(layer, directions, neurons, found[:count])
        return found

    def _by_cones(self, layer: int, directions: Directions, neurons: Index, found: Array) -> None:
        """Bound neurons that see little of the layers below."""
        for chosen, cone in cones(self.stages[: layer + 1], neurons):
            if self._should_stop():
                return
            start = neuron_starts(directions, len(chosen), np.arange(len(chosen)))
            values = cone.bound(self.corners, self.piece, start, self.input_magnitude)
            found[:, chosen] = values.reshape(len(directions), -1)

    def _whole(self, layer: int, directions: Directions, neurons: Index, found: Array) -> None:
        """Bound neurons that may see all of the layers below."""
        size = self.stages[layer].out_size
        rows = max(1, _BATCH_ENTRIES // max(stage.in_size for stage in self.stages))
        for begin in range(0, len(neurons), rows):
            chosen = neurons[begin : begin + rows]
            for k, direction in enumerate(directions):
                if self._should_stop():
                    return
                found[k, chosen] = self.bound(layer, *neuron_starts((direction,), size, chosen))

    def bound(self, layer: int, a: Array, b: Array, choice: Choice | None = None) -> Array:
        """Upper bounds on `a.y + b.y_p`, where `y` is the output of stage `layer`."""
        pay = quick_payment(self.corners) if choice is None else paying(self.corners, choice)
        stages = self.stages[: layer + 1]
        return twin_bound(stages, self.piece, (a, b), pay, self.magnitudes(layer))

    def magnitudes(self, layer: int) -> Magnitudes:
        """Bounds on the absolute inputs of all layers up to stage `layer`."""
        entering = [self.input_magnitude, *(known.magnitude for known in self.corners[:layer])]
        return magnitudes_of(self.stages[: layer + 1], entering)


def quick_bounds(
    network: Network,
    piece: AbstractPiece,
    threads: int = 1,
    should_stop: Callable[[], bool] = lambda: False,
    deadline: Deadline = NEVER,
) -> TwinBounds:
    """Hexagons of all hidden neurons, without optimisation.

    Neurons for which `should_stop` or the deadline leaves no time keep their bounds by interval
    arithmetic; every layer gets its share of the time. `should_stop` is called from several
    threads.
    """
    bounds = TwinBounds(network, piece, threads, should_stop)
    layers = len(bounds.stages) - 1
    for layer, plain in enumerate(plain_hexagons(network, piece)):
        limit = NEVER
        if deadline is not NEVER:
            limit = deadline.sooner(deadline.left / max(layers - layer, 1))
        bounds.stop_when(_noting(bounds, should_stop, limit))
        known = bounds.quick(layer, plain.linear)
        bounds.append_plain(known.meet(plain))
    return bounds


def _noting(
    bounds: TwinBounds, should_stop: Callable[[], bool], limit: Deadline
) -> Callable[[], bool]:
    """Whether to stop; if so, the bounds are marked as cut short."""

    def stop() -> bool:
        late = should_stop() or limit.passed
        bounds.cut_short |= late
        return late

    return stop
