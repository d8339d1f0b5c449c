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
from scipy import sparse

from vhagar.local.versions import Versions
from vhagar.network import AbstractLinear, Affine, Network, Relu
from vhagar.relaxation.interval import HALF_ULP
from vhagar.relaxation.stages import stages_of

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.int64]
# Dense, or sparse as scipy has it, which has no static type.
Matrix = Any

# More than what one product loses to underflow, also where subnormal numbers count as 0.
_UNDERFLOW = 2.0**-1022
# Matrices that are at least so full are stored as dense ones.
_FULL = 0.25


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


@dataclass(eq=False)
class Compact:
    """The blocks of all ReLU layers so far, the scores, and the statuses of all neurons.

    `status` has, for each ReLU layer, 0 for neurons that are off, 1 for those that are on (and for
    linear units), and 2 for undecided ones.
    """

    versions: Versions
    classes: int
    blocks: list[Block] = field(default_factory=list)
    status: list[NDArray[np.uint8]] = field(default_factory=list)
    lower: list[Array] = field(default_factory=list)
    upper: list[Array] = field(default_factory=list)
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


def started(size: int, versions: Versions) -> Rows:
    """The input itself."""
    same = sparse.csr_array(sparse.eye_array(size, format="csr"))
    return Rows(same, np.zeros(size), np.zeros(size), versions.magnitude)


def through_layer(layer: AbstractLinear, entering: Rows, magnitude: float) -> Rows:
    """What leaves a linear layer; `magnitude` bounds the sum of all absolute values of `v`."""
    weight = _product(layer, entering.weight)
    bias = layer.times(entering.bias[None])[0] + layer.flat_bias
    wide = layer.absolute
    reach, error = wide.times(np.stack([entering.size, entering.error])) * (1 + 2.0**-20)
    size = (reach + abs(layer.flat_bias)) * (1 + 2.0**-20)
    rounding = _unit(layer.fan_in + 8) * size + _UNDERFLOW * (layer.fan_in + 1) * (1 + magnitude)
    return Rows(weight, bias, error + rounding, size)


def _product(layer: AbstractLinear, weight: Matrix) -> Matrix:
    if isinstance(weight, np.ndarray):
        if isinstance(layer, Affine):
            return np.asarray(layer.weight @ weight)
        return np.asarray(layer.matrix @ weight)
    if isinstance(layer, Affine):
        return np.ascontiguousarray((weight.T @ layer.weight.T).T)
    product = sparse.csr_array(layer.matrix @ weight)
    full = product.nnz >= _FULL * product.shape[0] * product.shape[1]
    return product.toarray() if full else product


def after_relu(entering: Rows, status: NDArray[np.uint8]) -> Rows:
    """What leaves a ReLU layer: rows that are on, 0, or a new entry of `v` each."""
    on, undecided = status == 1, np.flatnonzero(status == 2)
    keep = on.astype(np.float64)
    count, width = len(status), entering.weight.shape[1]
    new = sparse.csr_array(
        (np.ones(len(undecided)), (undecided, np.arange(len(undecided)))),
        shape=(count, len(undecided)),
    )
    weight: Matrix
    if isinstance(entering.weight, np.ndarray):
        weight = np.zeros((count, width + len(undecided)))
        weight[on, :width] = entering.weight[on]
        weight[undecided, width + np.arange(len(undecided))] = 1.0
    else:
        kept = sparse.diags_array(keep, format="csr") @ entering.weight
        weight = sparse.csr_array(sparse.hstack([kept, new], format="csr"))
        weight.eliminate_zeros()
    return Rows(weight, entering.bias * keep, entering.error * keep, entering.size * keep)


def interval_of(rows: Rows, low: Array, high: Array) -> tuple[Array, Array]:
    """Bounds on rows from those on the entries of `v` alone."""
    middle = (low + high) / 2
    radius = np.maximum(high - middle, middle - low) * (1 + 4 * HALF_ULP)
    centre = rows.weight @ middle + rows.bias
    spread = abs(rows.weight) @ radius
    room = rows.error + _unit(2 * len(low) + 16) * (rows.size + spread)
    return centre - spread - room, centre + spread + room


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
    # Each coefficient and each constant is a sum of so many terms, in some order.
    room = _unit(2 * terms + 64) * (weight + abs(constant))
    room = room + _UNDERFLOW * terms * (1 + compact.magnitude.sum())
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
    return lambda k, a: crown(compact.blocks[k], a)


def dense(matrix: Matrix) -> Array:
    """The matrix as a plain array."""
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def crown(block: Block, a: Array) -> Array:
    """The usual multipliers: the chord above, and 0 or 1 below, whichever is closer."""
    span = block.upper - block.lower
    below = (block.upper + block.lower > _TIE * span).astype(np.float64)
    return np.asarray(a * np.where(a > 0, block.upper / span, below))


# Of a neuron's range: who computes the same in another order of operations chooses alike.
_TIE = 1e-9


def offsets(block: Block, a: Array, p: Array, signs: NDArray[np.int8] | None = None) -> Array:
    """`r` of every neuron: the largest value at an end of its range, or where the ReLU bends."""
    at_low, at_high = -p * block.lower, (a - p) * block.upper
    if signs is not None:
        at_low = np.where(signs > 0, 0.0, at_low)
        at_high = np.where(signs < 0, 0.0, at_high)
    return np.asarray(np.maximum(np.maximum(at_low, at_high), 0.0))


def _unit(terms: int) -> float:
    """The relative rounding error of a sum of that many terms, with room."""
    return 1.05 * HALF_ULP * (terms + 4)


def compact_network(
    network: Network, versions: Versions, stop: Callable[[], bool] = lambda: False
) -> Compact:
    """The ranges of all neurons, and with them the network over the undecided ones.

    Where interval arithmetic over `v` leaves a sign open, CROWN bounds the neuron.
    """
    found = Compact(versions, network.classes)
    rows = started(network.input_size, versions)
    relus = [layer for layer in network.layers if isinstance(layer, Relu)]
    for k, stage in enumerate(stages_of(network)):
        magnitude = float(found.magnitude.sum())
        for layer in stage.layers:
            rows = through_layer(layer, rows, magnitude)
        if k == len(relus):
            found.scores = rows
            return found
        append_layer(found, rows, relus[k].linear, stop)
        rows = after_relu(rows, found.status[-1])
    raise AssertionError("a network ends with a linear stage")


def append_layer(found: Compact, rows: Rows, linear: Mask | None, stop: Callable[[], bool]) -> None:
    """Bound what enters a ReLU layer, and keep what is undecided of it."""
    lower, upper = interval_of(rows, *found.ends())
    relu = np.ones(len(lower), dtype=np.bool_) if linear is None else ~linear
    open_ = np.flatnonzero((lower < 0) & (upper > 0) & relu)
    lower, upper = _bounded(found, rows, open_, lower, upper, stop)
    status = np.where(upper <= 0, 0, np.where(lower >= 0, 1, 2)).astype(np.uint8)
    status[~relu] = 1
    neurons = np.flatnonzero(status == 2)
    own = rows.take(neurons)
    weight = dense(own.weight)
    found.blocks.append(
        Block(neurons, lower[neurons], upper[neurons], weight, own.bias, own.error, own.size)
    )
    found.status.append(status)
    found.lower.append(lower)
    found.upper.append(upper)


# Entries of one batch of coefficients; keeps memory bounded.
_BATCH_ENTRIES = 2_000_000


def _bounded(
    found: Compact,
    rows: Rows,
    neurons: Index,
    lower: Array,
    upper: Array,
    stop: Callable[[], bool],
) -> tuple[Array, Array]:
    lower, upper = lower.copy(), upper.copy()
    count = max(1, _BATCH_ENTRIES // rows.weight.shape[1])
    for begin in range(0, len(neurons), count):
        if stop():
            break
        some = neurons[begin : begin + count]
        own, unit = rows.take(some), np.eye(len(some))
        lower[some] = np.fmax(lower[some], -upper_bounds(found, own, -unit))
        upper[some] = np.fmin(upper[some], upper_bounds(found, own, unit))
    return lower, upper
