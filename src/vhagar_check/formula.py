"""The twin dual bound: for any multipliers, an upper bound on a linear function of both copies.

Begin with coefficients on a stage's outputs in the two copies and go backwards. A linear layer
turns coefficients `p` into `p K` and adds `p.bias`. A ReLU layer with coefficients `(a, b)` on its
outputs may continue with *any* `(p, q)` on its pre-activations, for the price of

    r = max over the hexagon of  a relu(s) + b relu(t) - p s - q t.

At the input the support of the perturbation's piece closes the bound. Everything is float64; bounds
on the rounding errors are summed in `error` and added at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from vhagar_check.crops import Crop, SeenPiece, convolutions, crop
from vhagar_check.cuts import Weighted
from vhagar_check.hexagon import Corners, Hexagons, quick_multipliers
from vhagar_check.intervals import Box, entering
from vhagar_check.layers import (
    HALF_ULP,
    TINY,
    UNDERFLOW,
    Floats,
    Indices,
    Linear,
    Mask,
    Network,
    gamma,
)
from vhagar_check.pieces import Piece

Choose = Callable[[int, Floats, Floats], tuple[Floats, Floats]]
# The decided sign of each copy (0, 1) of a neuron, by (layer, neuron).
Signs = dict[tuple[int, int], dict[int, int]]
# Entries of the input that are whole numbers, with the ends of their ranges.
Ranges = dict[int, tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Decisions:
    """The decisions on the way to a node: signs, clipped pixels, slopes, and ranges of entries."""

    signs: Signs = field(default_factory=dict)
    sides: dict[int, int] = field(default_factory=dict)
    slopes: dict[tuple[int, int], bool] = field(default_factory=dict)
    entries: Ranges = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Added:
    """Linear functions of a ReLU layer's pre-activations in both copies, one for each row."""

    layer: int
    on_s: Floats
    on_t: Floats


class Bounds:
    """A network over one piece, and the hexagons of its neurons as far as they are known."""

    def __init__(self, network: Network, piece: Piece) -> None:
        self.network = network
        self.piece = piece
        self.hexagons: list[Hexagons] = []
        self.corners: list[Corners] = []

    def append(self, hexagons: Hexagons) -> None:
        self.hexagons.append(hexagons)
        self.corners.append(Corners.of(hexagons))

    def replace(self, layer: int, hexagons: Hexagons) -> None:
        """Replace the hexagons of a layer by tighter ones; those of later layers stay valid."""
        self.hexagons[layer], self.corners[layer] = hexagons, Corners.of(hexagons)

    def upper(
        self,
        stage: int,
        a: Floats,
        b: Floats,
        choose: Choose,
        decisions: list[Decisions] | None = None,
        cuts: Weighted | None = None,
    ) -> tuple[Floats, Floats]:
        """Upper bounds on `a.y + b.y_p`, `y` a stage's outputs; one for each row of `a` and `b`.

        A bound is minus infinity if the decisions of a case contradict the neurons' bounds, and NaN
        or infinity if nothing is proved. The second result is how much lower the formula's exact
        value may be.
        """
        with np.errstate(all="ignore"):  # a bound that overflows proves nothing
            return self._upper(stage, a, b, choose, decisions or [], cuts=cuts)

    def upper_with(
        self, added: Added, a: Floats, b: Floats, choose: Choose, decisions: list[Decisions]
    ) -> Floats:
        """Upper bounds on a function of the scores, as in `upper`, plus the functions `added`."""
        with np.errstate(all="ignore"):
            return self._upper(len(self.network.stages) - 1, a, b, choose, decisions, added)[0]

    def upper_of_outputs(
        self,
        layer: int,
        a: Floats,
        b: Floats,
        choose: Choose,
        decisions: list[Decisions],
        on_pixels: tuple[Floats, Floats] | None = None,
    ) -> Floats:
        """Upper bounds as in `upper`, on a function of the outputs of a ReLU layer, plus
        `c.x + d.x_p`.

        `c` and `d`, those `on_pixels`, have an entry for each pixel of the whole piece.
        """
        with np.errstate(all="ignore"):
            begun = a, b, np.zeros(len(a)), np.zeros(len(a))
            return self._below(layer + 1, begun, choose, decisions, on_pixels=on_pixels)[0]

    def _upper(
        self,
        stage: int,
        a: Floats,
        b: Floats,
        choose: Choose,
        decisions: list[Decisions],
        added: Added | None = None,
        cuts: Weighted | None = None,
    ) -> tuple[Floats, Floats]:
        begun = self.through_stage(stage, a, b, np.zeros(len(a)), np.zeros(len(a)))
        return self._below(stage, begun, choose, decisions, added, cuts)

    def _below(
        self,
        stage: int,
        begun: tuple[Floats, Floats, Floats, Floats],
        choose: Choose,
        decisions: list[Decisions],
        added: Added | None = None,
        cuts: Weighted | None = None,
        on_pixels: tuple[Floats, Floats] | None = None,
    ) -> tuple[Floats, Floats]:
        """Go on from coefficients on a stage's inputs, a constant and its error."""
        a, b, constant, error = begun
        empty = np.zeros(len(a), dtype=np.bool_)
        for k in range(stage, 0, -1):
            corners = self.corners[k - 1]
            if cuts is not None:
                a, b, constant, error = cuts.taken_off(
                    k - 1, a, b, constant, error, corners.magnitude
                )
            p, q = choose(k - 1, a, b)
            offsets = self._offsets(k - 1, a, b, p, q)
            empty |= self._decide(k - 1, offsets, (a, b, p, q), decisions)
            size = (abs(a) + abs(b) + abs(p) + abs(q)) @ corners.magnitude
            constant = constant + offsets.sum(axis=1)
            error = error + gamma(2 * a.shape[1] + 48) * size + HALF_ULP * abs(constant)
            a, b = p, q
            if added is not None and added.layer == k - 1:
                size = (abs(p) + abs(q) + abs(added.on_s) + abs(added.on_t)) @ corners.magnitude
                error = error + gamma(4) * size  # the sums are rounded
                a, b = p + added.on_s, q + added.on_t
            a, b, constant, error = self.through_stage(k - 1, a, b, constant, error)
        if cuts is not None:
            a, b, error = cuts.taken_off_inputs(a, b, error, self.piece.magnitude)
        if on_pixels is None:
            total = constant + self._support(a, b, decisions)
        else:
            c, d = on_pixels
            size = (abs(a) + abs(b)).sum(axis=1) + (abs(c) + abs(d)).sum()
            error = error + gamma(2 * len(c) + 4) * (size * self.piece.magnitude)
            total = constant + self.piece.support_with(a, b, c, d)
        room = 1.001 * error + 8 * HALF_ULP * (abs(constant) + abs(total)) + TINY
        # Multipliers can be so large that a sum is infinite: then they prove nothing. Only
        # decisions that leave no point give minus infinity.
        found = np.where(np.isfinite(total + room), total + room, np.inf)
        return np.where(empty, -np.inf, found), 2 * room

    def _offsets(self, layer: int, a: Floats, b: Floats, p: Floats, q: Floats) -> Floats:
        """The offset `r` of each unit for the multipliers `(p, q)`."""
        linear, corners = self.hexagons[layer].linear, self.corners[layer]
        counts = _any(a, b, p, q)
        if linear is not None:
            # A linear unit whose multipliers equal its coefficients costs nothing.
            counts = counts & ~(linear & (p == a).all(axis=0) & (q == b).all(axis=0))
        if counts.all():
            return corners.offset(a, b, p, q)
        units, found = np.flatnonzero(counts), np.zeros(a.shape)
        found[:, units] = corners.take(units).offset(*(part[:, units] for part in (a, b, p, q)))
        return found

    def _decide(
        self,
        layer: int,
        offsets: Floats,
        coefficients: tuple[Floats, Floats, Floats, Floats],
        decisions: list[Decisions],
    ) -> Mask:
        """Put those of decided neurons into a layer's offsets; which cases leave one no point."""
        corners, empty = self.corners[layer], np.zeros(len(offsets), dtype=np.bool_)
        for row, case in enumerate(decisions):
            for (place, neuron), signs in case.signs.items():
                if place == layer:
                    numbers = (part[row, neuron] for part in coefficients)
                    offsets[row, neuron] = corners.decided(neuron, signs, *numbers)
                    empty[row] |= np.isneginf(corners.decided(neuron, signs, 0, 0, 0, 0))
        return empty

    def _support(self, a: Floats, b: Floats, decisions: list[Decisions]) -> Floats:
        value = self.piece.support(a, b)
        for row, case in enumerate(decisions):
            if case.sides:
                value[row] = self.piece.decided(a[[row]], b[[row]], case.sides)[0]
        return value

    def through_stage(
        self, k: int, a: Floats, b: Floats, constant: Floats, error: Floats
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Go back from coefficients on a stage's outputs to ones on its inputs, with a constant and
        a bound on its error."""
        layers = self.network.stages[k]
        for layer, size in zip(reversed(layers), self._sizes(k)[-2::-1], strict=True):
            both = abs(a) + abs(b)
            constant = constant + (a + b) @ layer.bias
            error = error + gamma(layer.out_size + 4) * (both @ abs(layer.bias))
            # The rounding error of a coefficient is multiplied by the size of its input.
            spread = layer.backward(layer.size, both)
            error = error + gamma(2 * layer.terms + 8) * (spread @ size)
            error = error + 2 * UNDERFLOW * (layer.terms + 1) * size.sum()
            error = error + HALF_ULP * abs(constant)
            a, b = _pulled(layer, a), _pulled(layer, b)
        return a, b, constant, error

    def _sizes(self, k: int) -> list[Floats]:
        """Bounds on the absolute values of a stage's input and of each layer's output."""
        if k:
            size = self.corners[k - 1].magnitude
        else:
            size = np.full(self.piece.domain.size, self.piece.magnitude)
        found = [size]
        for layer in self.network.stages[k]:
            (reached,) = layer.forward(layer.size, found[-1][None])
            found.append((reached + abs(layer.bias)) * (1 + 1e-9) + TINY)
        return found

    @property
    def score_size(self) -> float:
        """A bound on the absolute value of every score, in both copies."""
        return float(self._sizes(len(self.network.stages) - 1)[-1].max())

    def entering(self, k: int, boxes: list[Box]) -> list[Box]:
        """Boxes of ReLU layer k's pre-activations, from boxes of stage k's inputs."""
        return entering(self.network, k, boxes)

    def quick(self, layer: int, a: Floats, b: Floats) -> tuple[Floats, Floats]:
        """The quick multipliers, computed only for units that have coefficients."""
        hexagons, corners = self.hexagons[layer], self.corners[layer]
        counts = _any(a, b) if hexagons.linear is None else _any(a, b) & ~hexagons.linear
        if counts.all():
            return quick_multipliers(hexagons, corners, a, b)
        units, p, q = np.flatnonzero(counts), a.copy(), b.copy()
        p[:, units], q[:, units] = quick_multipliers(
            hexagons.take(units), corners.take(units), a[:, units], b[:, units]
        )
        return p, q

    def sides(self, stage: int, neurons: Floats, choose: Choose, count: int) -> list[Floats]:
        """The first `count` sides of the hexagons of some neurons, given as unit rows."""
        return [
            self.upper(stage, on_s * neurons, on_t * neurons, choose)[0]
            for on_s, on_t in directions(self.piece.ratio)[:count]
        ]

    def copy(self) -> Bounds:
        """A copy that can be refined on its own."""
        found = type(self)(self.network, self.piece)
        found.hexagons, found.corners = list(self.hexagons), list(self.corners)
        return found

    def around(self, stage: int, neurons: Indices) -> tuple[Bounds, Indices, list[Indices] | None]:
        """The bounds of the part of the network on which some neurons of a layer depend, their
        indices in that part's last layer, and the units of each layer in it; None if all."""
        layers = convolutions(self.network, stage)
        if layers is None:
            return self, neurons, None
        _, height, width = layers[-1].out_shape
        rows, columns = neurons // width % height, neurons % width
        block = (
            (int(rows.min()), int(rows.max()) + 1),
            (int(columns.min()), int(columns.max()) + 1),
        )
        seen = crop(layers, block)
        units = [*seen.units, seen.outputs]
        return self.cropped(seen), np.searchsorted(seen.outputs, neurons), units

    def cropped(self, seen: Crop) -> Bounds:
        """The bounds inside a part of the network."""
        part = type(self)(seen.network, SeenPiece(self.piece, seen.pixels))
        for hexagons, corners, units in zip(self.hexagons, self.corners, seen.units, strict=False):
            part.hexagons.append(hexagons.take(units))
            part.corners.append(corners.take(units))
        return part


def _any(*coefficients: Floats) -> Mask:
    """Mark the units on which some case has a coefficient."""
    return np.asarray(np.any([part.any(axis=0) for part in coefficients], axis=0))


def _pulled(layer: Linear, p: Floats) -> Floats:
    """Pull coefficients back through a layer; rows of zeros, which are frequent, cost nothing."""
    return layer.backward(layer.kernel, p) if p.any() else np.zeros((len(p), layer.in_size))


def directions(ratio: float) -> tuple[tuple[float, float], ...]:
    """Coefficients of s and t whose maxima are the six sides of a hexagon."""
    return ((-1, 0), (1, 0), (0, -1), (0, 1), (ratio, -1), (-ratio, 1))


def from_sides(sides: list[Floats], ratio: float) -> Hexagons:
    return Hexagons(-sides[0], sides[1], -sides[2], sides[3], -sides[4], sides[5], ratio)
