"""The network over a set of versions, with every neuron eliminated whose sign is known there.

What is left are the undecided neurons. With `v` the input followed by their outputs, layer by
layer, the pre-activations of a layer are affine in the part of `v` before it:

    s = weight @ v + bias,   up to `error`

Around one image few neurons are undecided, so that this is a small network. Everything here is
float64, with all rounding errors bounded and added, and is what verdicts rest on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.local.versions import Versions
from vhagar.relaxation.interval import HALF_ULP

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.int64]
# Dense, or sparse as scipy has it, which has no static type.
Matrix = Any

# More than what one product loses to underflow, also where subnormal numbers count as 0.
UNDERFLOW = 2.0**-1022


@dataclass(frozen=True, eq=False)
class Rows:
    """Affine functions of `v`: `weight @ v + bias`, each up to its `error`.

    `size` bounds the sum of the absolute values of all terms of each.
    """

    weight: Matrix  # (rows, width)
    bias: Array
    error: Array
    size: Array

    def take(self, rows: Index) -> Rows:
        return Rows(self.weight[rows], self.bias[rows], self.error[rows], self.size[rows])


@dataclass(frozen=True, eq=False)
class Block:
    """The undecided neurons of one ReLU layer: which they are, their ranges, and their rows."""

    neurons: Index
    lower: Array
    upper: Array
    weight: Array  # (neurons, width), dense
    bias: Array
    error: Array
    size: Array

    @property
    def width(self) -> int:
        """How much of `v` is before this block."""
        return int(self.weight.shape[1])


@dataclass(frozen=True, eq=False)
class RefinedLayer:
    """How the ranges of a layer follow from the layers before: multipliers that prove them.

    `crown` are neurons with multipliers `below` `(2, neurons, undecided before)` of their lower
    and upper ends; the ranges of the neurons `plain` follow with 0 for all multipliers.
    """

    layer: int
    crown: Index
    below: NDArray[np.float32]
    plain: Index


@dataclass(eq=False)
class Compact:
    """The blocks of all ReLU layers so far, the scores, and the statuses of all neurons.

    `refined` is there where it is asked for, for certificates.

    `status` has, for each ReLU layer, 0 for neurons that are off, 1 for those that are on (and for
    linear units), and 2 for undecided ones.
    """

    versions: Versions
    classes: int
    blocks: list[Block] = field(default_factory=list)
    status: list[NDArray[np.uint8]] = field(default_factory=list)
    lower: list[Array] = field(default_factory=list)
    upper: list[Array] = field(default_factory=list)
    refined: list[RefinedLayer] = field(default_factory=list)
    scores: Rows | None = None

    @property
    def undecided(self) -> int:
        return sum(len(block.neurons) for block in self.blocks)

    @property
    def magnitude(self) -> Array:
        """The largest absolute value of each entry of `v` so far."""
        return np.concatenate([self.versions.magnitude, *(block.upper for block in self.blocks)])

    def ends(self) -> tuple[Array, Array]:
        """Bounds on each entry of `v` so far."""
        low, high = self.versions.bounds()
        zeros = [np.zeros(len(block.neurons)) for block in self.blocks]
        return (
            np.concatenate([low, *zeros]),
            np.concatenate([high, *(block.upper for block in self.blocks)]),
        )


# `p` `(rows, neurons)` for a block's index and the coefficients `a` on its outputs.
Choice = Callable[[int, Array], Array]
# Decided signs of each row `(rows, neurons)`, one array for each block: 1 active, -1 inactive.
Signs = list[NDArray[np.int8]]


def upper_bounds(
    compact: Compact,
    rows: Rows,
    start: Array,
    choose: Choice | None = None,
    signs: Signs | None = None,
) -> Array:
    """Upper bounds on `start @ rows` over all versions for which the signs are as decided.

    With one copy of the network the twin dual is the ordinary one. Go backwards from coefficients
    on `v`: choose **any** number `p` for each undecided neuron with coefficient `a`, pay

        r = max over lower <= s <= upper of  a*relu(s) - p*s

    and continue with `p` on its pre-activation. Slopes, and multipliers of decided signs, are two
    ways to choose `p`; whatever is chosen, the bound holds.
    """
    a, constant, error, weight = _backward(compact, rows, start, choose or _crown(compact), signs)
    total = constant + compact.versions.support(a)
    terms = start.shape[1] + sum(len(block.neurons) + 1 for block in compact.blocks)
    # Each coefficient and each constant is a sum of `terms` terms, in some order.
    room = unit(2 * terms + 64) * (weight + abs(constant))
    room = room + UNDERFLOW * terms * (1 + compact.magnitude.sum())
    found = np.nextafter(total + 1.01 * (room + error) + 8 * HALF_ULP * abs(total), np.inf)
    return np.where(np.isnan(found), np.inf, found)


def input_coefficients(compact: Compact, rows: Rows, start: Array) -> Array:
    """The coefficients on the input that CROWN arrives at, `(rows, size)`."""
    return _backward(compact, rows, start, _crown(compact), None)[0]


def _backward(
    compact: Compact, rows: Rows, start: Array, choose: Choice, signs: Signs | None
) -> tuple[Array, Array, Array, Array]:
    """Coefficients on the input, the constant, its error, and the size of all that was added."""
    a, spread = start @ dense(rows.weight), abs(start)
    constant, error, weight = start @ rows.bias, spread @ rows.error, spread @ rows.size
    for k in range(len(compact.blocks) - 1, -1, -1):
        block = compact.blocks[k]
        if block.width >= a.shape[1]:
            continue  # the rows are of a layer before this one, or it has no neurons
        own = a[:, block.width : block.width + len(block.neurons)]
        p = choose(k, own)
        paid = offsets(block, own, p, None if signs is None else signs[k])
        constant = constant + paid.sum(axis=1) + p @ block.bias
        error = error + abs(p) @ block.error
        weight = weight + abs(p) @ block.size
        weight = weight + (abs(own) + abs(p)) @ np.maximum(-block.lower, block.upper)
        a[:, : block.width] += p @ block.weight
    return a[:, : len(compact.versions.centre)], constant, error, weight


def _crown(compact: Compact) -> Choice:
    """CROWN's multipliers."""
    return lambda k, a: crown(compact.blocks[k], a)


def dense(matrix: Matrix) -> Array:
    """The matrix as a plain array."""
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def crown(block: Block, a: Array) -> Array:
    """The usual multipliers: the chord above, and 0 or 1 below, whichever is closer.

    They are float32 numbers, as certificates state them.
    """
    span = block.upper - block.lower
    below = (block.upper + block.lower > _TIE * span).astype(np.float64)
    return stated(a * np.where(a > 0, block.upper / span, below)).astype(np.float64)


def stated(p: Array) -> NDArray[np.float32]:
    """Multipliers as certificates state them; 0, which is as good as any, for those too large."""
    with np.errstate(over="ignore"):
        found = p.astype(np.float32)
    return np.where(np.isfinite(found), found, np.float32(0))


# Of a neuron's range: who computes the same in another order of operations chooses alike.
_TIE = 1e-9


def offsets(block: Block, a: Array, p: Array, signs: NDArray[np.int8] | None = None) -> Array:
    """`r` of every neuron: the largest value at an end of its range, or where the ReLU bends."""
    at_low, at_high = -p * block.lower, (a - p) * block.upper
    if signs is not None:
        at_low = np.where(signs > 0, 0.0, at_low)
        at_high = np.where(signs < 0, 0.0, at_high)
    return np.asarray(np.maximum(np.maximum(at_low, at_high), 0.0))


def unit(terms: int) -> float:
    """The relative rounding error of a sum of that many terms, with room."""
    return 1.05 * HALF_ULP * (terms + 4)
