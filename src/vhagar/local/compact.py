"""The network over a set of versions, without the neurons whose sign is the same for all of them.

Only the undecided neurons are left. With `v` the input followed by their outputs, layer by
layer, the pre-activations of a layer are affine in the part of `v` before it:

    s = weight @ v + bias,   up to `error`

Around one image few neurons are undecided, so this is a small network. Everything here is computed
in float64, with all rounding errors bounded and added, because verdicts rely on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Index
from vhagar.local.versions import Versions
from vhagar.perturbation.domain import UNDERFLOW
from vhagar.relaxation.interval import HALF_ULP
from vhagar.relaxation.quick_multipliers import TIE
from vhagar.relaxation.refinement import rounded_multipliers
from vhagar.relaxation.twin_dual import unit

# A dense array, or a sparse matrix of scipy, which has no static type.
Matrix = Any


@dataclass(frozen=True, eq=False)
class Rows:
    """Affine functions of `v`: `weight @ v + bias`, each up to its `error`.

    `size` bounds, for each function, the sum of the absolute values of its terms.
    """

    weight: Matrix  # (rows, width)
    bias: Array
    error: Array
    size: Array

    def take(self, rows: Index) -> Rows:
        return Rows(self.weight[rows], self.bias[rows], self.error[rows], self.size[rows])


@dataclass(frozen=True, eq=False)
class Block:
    """The undecided neurons of one ReLU layer: their indices, their ranges, and their rows.

    The range of a neuron with a decided sign begins or ends at 0.
    """

    neurons: Index
    lower: Array
    upper: Array
    weight: Array  # (neurons, width), dense
    bias: Array
    error: Array
    size: Array

    @property
    def width(self) -> int:
        """The number of entries of `v` before this block."""
        return int(self.weight.shape[1])


# Signs of neurons, 1 active and -1 inactive, by ReLU layer and index.
Decisions = dict[tuple[int, int], int]


@dataclass(frozen=True, eq=False)
class RefinedLayer:
    """The multipliers that prove a layer's ranges from the layers before.

    The neurons `crown` have multipliers `below` `(2, neurons, undecided before)` for their lower
    and upper ends; the ranges of the neurons `plain` follow with all multipliers 0.
    """

    layer: int
    crown: Index
    below: NDArray[np.float32]
    plain: Index


@dataclass(eq=False)
class Compact:
    """The blocks of all ReLU layers so far, the scores, and the statuses of all neurons.

    `status` holds, for each ReLU layer, 0 for inactive neurons, 1 for active ones (and for linear
    units), and 2 for undecided ones. `refined` is filled on request, for certificates.
    `decisions` limit the versions to those that obey them; `contradicted` is a decision, by its
    layer and neuron, that no version obeys.
    """

    versions: Versions
    decisions: Decisions = field(default_factory=dict)
    contradicted: tuple[int, int] | None = None
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
        """A bound on the absolute value of each entry of `v` so far."""
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
    """Upper bounds on `start @ rows` over all versions that agree with the decided signs.

    With one copy of the network the twin dual is the ordinary dual. Go backwards from coefficients
    on `v`: choose **any** number `p` for each undecided neuron with coefficient `a`, pay

        r = max over lower <= s <= upper of  a*relu(s) - p*s

    and continue with `p` on its pre-activation. Slopes, and multipliers of decided signs, are two
    ways to choose `p`; whatever is chosen, the bound holds.
    """
    a, constant, error, weight = _backward(compact, rows, start, choose or _crown(compact), signs)
    total = constant + compact.versions.support(a)
    terms = start.shape[1] + sum(len(block.neurons) + 1 for block in compact.blocks)
    # Each coefficient and each constant is a sum of `terms` terms, in some order.
    room = unit(2 * terms + 64, constant) * (weight + abs(constant))
    room = room + UNDERFLOW * terms * (1 + compact.magnitude.sum())
    found = np.nextafter(total + 1.01 * (room + error) + 8 * HALF_ULP * abs(total), np.inf)
    return np.where(np.isnan(found), np.inf, found)


def input_coefficients(compact: Compact, rows: Rows, start: Array) -> Array:
    """The coefficients on the input, `(rows, size)`, at which CROWN arrives."""
    return _backward(compact, rows, start, _crown(compact), None)[0]


def _backward(
    compact: Compact, rows: Rows, start: Array, choose: Choice, signs: Signs | None
) -> tuple[Array, Array, Array, Array]:
    """Coefficients on the input, the constant, its error, and the sum of all absolute terms."""
    a, spread = start @ dense(rows.weight), abs(start)
    constant, error, weight = start @ rows.bias, spread @ rows.error, spread @ rows.size
    for k in range(len(compact.blocks) - 1, -1, -1):
        block = compact.blocks[k]
        if block.width >= a.shape[1]:
            continue  # the rows belong to an earlier layer, or the block is empty
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
    """CROWN's multipliers: the chord as upper slope, and 0 or 1, whichever is closer, as lower one.

    They are float32 numbers, as certificates state them.
    """
    span = block.upper - block.lower
    below = (block.upper + block.lower > TIE * span).astype(np.float64)
    p = a * np.where(a > 0, block.upper / span, below)
    return rounded_multipliers(p, np.float32).astype(np.float64)


def offsets(block: Block, a: Array, p: Array, signs: NDArray[np.int8] | None = None) -> Array:
    """`r` of every neuron: the largest value at the ends of its range and at the ReLU's kink."""
    at_low, at_high = -p * block.lower, (a - p) * block.upper
    if signs is not None:
        at_low = np.where(signs > 0, 0.0, at_low)
        at_high = np.where(signs < 0, 0.0, at_high)
    return np.asarray(np.maximum(np.maximum(at_low, at_high), 0.0))
