"""The twin dual bound: an upper bound on a linear function of both copies' values.

Start with coefficients on the two outputs and go backwards. At a ReLU layer with coefficients
`(a, b)` on its two post-activations choose any numbers `(p, q)` and pay

    r = max over the hexagon of  a*relu(s) + b*relu(t) - p*s - q*t

then continue with `W'p, W'q`; biases add `(p + q).bias`, and the input adds the perturbation's
`support`. The result is a valid bound **for every choice of p and q**; whoever chooses them well
gets a tight one. Everything is float64 with the rounding error bounded and added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.network import AbstractLinear, Affine, Network
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.hexagon import Hexagons

Array = NDArray[np.float64]

HALF_ULP = 2.0**-53
# Entries of coefficients that are worked on at once.
_BLOCK_ENTRIES = 2**14


@dataclass(frozen=True, eq=False)
class Stage:
    """The linear layers between two ReLU layers (or the input, or the scores)."""

    layers: tuple[AbstractLinear, ...]

    @property
    def in_size(self) -> int:
        return self.layers[0].in_size

    @property
    def out_size(self) -> int:
        return self.layers[-1].out_size

    def matrix(self) -> sparse.csr_array:
        """The product of the layers' matrices; rounded, so for proposals only."""
        product = self.layers[0].matrix
        for layer in self.layers[1:]:
            product = sparse.csr_array(layer.matrix @ product)
        return product

    def bias(self) -> Array:
        """The composed bias; rounded where there are several layers."""
        value: Array = np.zeros((1, self.in_size))
        for layer in self.layers:
            value = layer.forward(value)
        return np.asarray(value[0])


def stages_of(network: Network) -> tuple[Stage, ...]:
    """The network as linear stages with a ReLU layer between each two."""
    groups: list[list[AbstractLinear]] = [[]]
    for layer in network.layers:
        if isinstance(layer, AbstractLinear):
            groups[-1].append(layer)
        else:
            groups.append([])
    filled = [
        _identity(network, k) if not group else tuple(group) for k, group in enumerate(groups)
    ]
    return tuple(Stage(group) for group in filled)


def _identity(network: Network, position: int) -> tuple[AbstractLinear, ...]:
    """Two ReLU layers in a row, or one at an end: an identity stands between."""
    sizes = [network.input_size]
    sizes += [layer.out_size for layer in network.layers if not isinstance(layer, AbstractLinear)]
    size = sizes[position]
    return (Affine(np.eye(size), np.zeros(size), (size,), (size,)),)


@dataclass(frozen=True, eq=False)
class Backward:
    """Coefficients `(batch, size)` on what enters a stage, the constant so far, and the error."""

    a: Array
    b: Array
    constant: Array  # (batch,)
    error: Array  # (batch,), how far rounding can have lowered the constant


def through_stage(stage: Stage, state: Backward, magnitudes: Array) -> Backward:
    """From coefficients on a stage's output to its input.

    `magnitudes` `(in_size,)` bounds the absolute value of the input in either copy.
    """
    p, q = state.a, state.b
    constant, error = state.constant, state.error
    for layer in reversed(stage.layers):
        bias = layer.flat_bias
        constant = constant + (p + q) @ bias
        error = error + unit(layer.out_size + 4) * ((abs(p) + abs(q)) @ abs(bias))
        error = error + HALF_ULP * abs(constant)  # that addition's own; others may cancel it
        spread = layer.absolute.pull(abs(p) + abs(q))
        p, q = layer.pull(p), layer.pull(q)
        # What rounding did to the coefficients is paid at the input's size. Inside a stage of
        # several layers the input's size is that of the layer's own input.
        size = magnitudes if layer is stage.layers[0] else _reach(stage, layer, magnitudes)
        error = error + unit(2 * layer.out_size + 8) * (spread @ size)
    return Backward(p, q, constant, error)


def _reach(stage: Stage, until: AbstractLinear, magnitudes: Array) -> Array:
    """How large the input of a layer inside a stage can be."""
    for layer in stage.layers:
        if layer is until:
            break
        (reached,) = layer.absolute.times(magnitudes[None])
        magnitudes = (reached + abs(layer.flat_bias)) * (1 + 1e-9)
    return magnitudes


def magnitudes_inside(stage: Stage, magnitudes: Array) -> list[Array]:
    """How large the input of each of a stage's layers can be."""
    return [_reach(stage, layer, magnitudes) for layer in stage.layers]


def unit(terms: int) -> float:
    """The relative rounding error of a sum of that many terms, with room."""
    return 1.05 * HALF_ULP * (terms + 4)


@dataclass(frozen=True, eq=False)
class Corners:
    """The corners of one layer's hexagons and which of them count, each `(CORNERS, neurons)`."""

    s: Array
    t: Array
    z: Array  # what leaves the neuron: relu(s), or s itself for linear units
    z_p: Array
    magnitude: Array  # (neurons,)

    @classmethod
    def of(cls, hexagons: Hexagons) -> Corners:
        s, t = hexagons.corners()
        z, z_p = np.maximum(s, 0.0), np.maximum(t, 0.0)
        if hexagons.linear is not None:
            z, z_p = np.where(hexagons.linear, s, z), np.where(hexagons.linear, t, z_p)
        return cls(s, t, z, z_p, hexagons.magnitude)

    def take(self, neurons: NDArray[np.int64]) -> Corners:
        """Those of some neurons."""
        return Corners(
            self.s[:, neurons],
            self.t[:, neurons],
            self.z[:, neurons],
            self.z_p[:, neurons],
            self.magnitude[neurons],
        )

    def offset(self, a: Array, b: Array, p: Array, q: Array, allowed: Array | None = None) -> Array:
        """`r` of every neuron for coefficients `(batch, neurons)`: the largest over its corners.

        `allowed` `(CORNERS, neurons)` is 0 where a corner counts and minus infinity where a
        decision has cut it off.
        """
        best = np.empty(a.shape)
        at_once = max(1, _BLOCK_ENTRIES // max(a.shape[1], 1))
        for begin in range(0, len(a), at_once):
            rows = slice(begin, begin + at_once)
            self._offset(a[rows], b[rows], p[rows], q[rows], allowed, best[rows])
        return best

    def _offset(
        self, a: Array, b: Array, p: Array, q: Array, allowed: Array | None, best: Array
    ) -> None:
        """The offsets of rows that fit into the cache, with two buffers for everything."""
        best.fill(-np.inf)
        value, term = np.empty_like(best), np.empty_like(best)
        for k in range(len(self.s)):
            np.multiply(a, self.z[k], out=value)
            value += np.multiply(b, self.z_p[k], out=term)
            value -= np.multiply(p, self.s[k], out=term)
            value -= np.multiply(q, self.t[k], out=term)
            if allowed is not None:
                value += allowed[k]
            np.maximum(best, value, out=best)


def through_relu(
    corners: Corners, state: Backward, p: Array, q: Array, allowed: Array | None = None
) -> Backward:
    """Pay the offsets of a ReLU layer and continue with `(p, q)` on its pre-activations."""
    offsets = corners.offset(state.a, state.b, p, q, allowed)
    size = (abs(state.a) + abs(state.b) + abs(p) + abs(q)) @ corners.magnitude
    constant = state.constant + offsets.sum(axis=1)
    error = state.error + unit(2 * len(corners.magnitude) + 32) * size
    return Backward(p, q, constant, error + HALF_ULP * abs(constant))


@dataclass(frozen=True, eq=False)
class Allowed:
    """What decisions leave: 0 where a corner counts, minus infinity where it is cut off.

    `layers` holds `(CORNERS, neurons)` for each ReLU layer, `pixels` `(corners, size)` for a
    piece with pixel corners; None where nothing is decided.
    """

    layers: tuple[Array | None, ...]
    pixels: Array | None = None


def at_input(piece: AbstractPiece, state: Backward, pixels: Array | None = None) -> Array:
    """Close the bound at the input: add the support of the perturbation and the errors."""
    if pixels is None:
        support = piece.support(state.a, state.b).value
    else:
        support = piece.support_decided(state.a, state.b, pixels)
    total = state.constant + support
    scale = abs(state.constant) + abs(total)
    return np.nextafter(total + 2.0 * state.error + 8 * HALF_ULP * scale, np.inf)


Choice = Callable[[int, Array, Array], tuple[Array, Array]]


def twin_bound(
    stages: tuple[Stage, ...],
    corners: list[Corners],
    piece: AbstractPiece,
    start: tuple[Array, Array],
    choose: Choice,
    input_magnitude: Array,
    allowed: Allowed | None = None,
) -> Array:
    """The bound `(batch,)` on `start[0].y + start[1].y_p`, `y` the output of the last stage given.

    `stages` ends where the start coefficients live: `len(corners) == len(stages) - 1`. `choose`
    gives `(p, q)` for a ReLU layer's index and its coefficients `(a, b)`.
    """
    batch = len(start[0])
    state = Backward(start[0], start[1], np.zeros(batch), np.zeros(batch))
    for k in range(len(stages) - 1, 0, -1):
        state = through_stage(stages[k], state, corners[k - 1].magnitude)
        p, q = choose(k - 1, state.a, state.b)
        mask = None if allowed is None else allowed.layers[k - 1]
        state = through_relu(corners[k - 1], state, p, q, mask)
    state = through_stage(stages[0], state, input_magnitude)
    return at_input(piece, state, None if allowed is None else allowed.pixels)
