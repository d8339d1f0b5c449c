"""Eliminates the neurons whose sign is known over a set of versions, layer by layer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.array_types import Array, Index, Mask
from vhagar.local.compact import (
    Block,
    Choice,
    Compact,
    Decisions,
    Matrix,
    RefinedLayer,
    Rows,
    crown,
    dense,
    upper_bounds,
)
from vhagar.local.tightening import BATCH_ENTRIES, tighten
from vhagar.local.versions import Versions
from vhagar.network import AbstractLinear, Affine, Network, Relu
from vhagar.perturbation.domain import UNDERFLOW
from vhagar.relaxation.interval import middle_and_radius
from vhagar.relaxation.stages import stages_of
from vhagar.relaxation.twin_dual import unit

# Matrices with at least this share of nonzero entries are stored as dense arrays.
_FULL = 0.25


def compact_network(
    network: Network,
    versions: Versions,
    stop: Callable[[], bool] = lambda: False,
    record: bool = False,
    tightened_until: Callable[[], bool] | None = None,
    decisions: Decisions | None = None,
) -> Compact:
    """Bound all neurons, and build the network over the undecided ones.

    If interval arithmetic over `v` leaves a sign open, CROWN bounds the neuron; what CROWN leaves
    open is bounded with optimised slopes until `tightened_until` is true, if it is given. With
    `record`, the multipliers that prove the ranges are kept. With `decisions`, everything is about
    the versions that obey them.
    """
    found = Compact(versions, decisions or {})
    rows = started(network.input_size, versions)
    relus = [layer for layer in network.layers if isinstance(layer, Relu)]
    for k, stage in enumerate(stages_of(network)):
        magnitude = float(found.magnitude.sum())
        for layer in stage.layers:
            rows = through_layer(layer, rows, magnitude)
        if k == len(relus):
            found.scores = rows
            return found
        append_layer(found, rows, relus[k].linear, stop, record, tightened_until)
        rows = after_relu(rows, found.status[-1])
    raise AssertionError("a network ends with a linear stage")


def append_layer(
    found: Compact,
    rows: Rows,
    linear: Mask | None,
    stop: Callable[[], bool],
    record: bool,
    tightened_until: Callable[[], bool] | None = None,
) -> None:
    """Bound the pre-activations of a ReLU layer, and add a block of its undecided neurons."""
    lower, upper = interval_of(rows, *found.ends())
    relu = np.ones(len(lower), dtype=np.bool_) if linear is None else ~linear
    open_ = np.flatnonzero((lower < 0) & (upper > 0) & relu)
    below = _bounded(found, rows, open_, (lower, upper), stop, record)
    if tightened_until is not None:
        tighten(found, rows, open_, (lower, upper), tightened_until, below)
    if below is not None:
        found.refined.append(RefinedLayer(len(found.blocks), open_, below, _others(relu, open_)))
    status = np.where(upper <= 0, 0, np.where(lower >= 0, 1, 2)).astype(np.uint8)
    status[~relu] = 1
    neurons = np.flatnonzero(status == 2)
    _decide(found, status, lower, upper)
    own = rows.take(neurons)
    ends = lower[neurons], upper[neurons]
    found.blocks.append(Block(neurons, *ends, dense(own.weight), own.bias, own.error, own.size))
    found.status.append(status)
    found.lower.append(lower)
    found.upper.append(upper)


def _decide(found: Compact, status: NDArray[np.uint8], lower: Array, upper: Array) -> None:
    """Cut the ranges of the layer's neurons with decided signs at 0, in place.

    They stay among the undecided ones: their multipliers say what the decision is worth.
    """
    layer = len(found.blocks)
    for (own, neuron), sign in found.decisions.items():
        if own != layer:
            continue
        if (upper[neuron] < 0) if sign > 0 else (lower[neuron] > 0):
            found.contradicted = layer, neuron
        elif status[neuron] == 2:
            (lower if sign > 0 else upper)[neuron] = 0.0


def _others(relu: Mask, some: Index) -> Index:
    rest = relu.copy()
    rest[some] = False
    return np.flatnonzero(rest)


def _bounded(
    found: Compact,
    rows: Rows,
    neurons: Index,
    ends: tuple[Array, Array],
    stop: Callable[[], bool],
    record: bool,
) -> NDArray[np.float32] | None:
    """Tighten the ends of some neurons' ranges by CROWN, in place; return its multipliers.

    Without `record` there are none. If interval arithmetic is tighter, the multipliers are 0, with
    which the dual bound is interval arithmetic.
    """
    count = max(1, BATCH_ENTRIES // rows.weight.shape[1])
    kept = np.zeros((2, len(neurons), found.undecided if record else 0), dtype=np.float32)
    for begin in range(0, len(neurons), count):
        if stop():
            break
        some = neurons[begin : begin + count]
        own = rows.take(some)
        for side, sign in enumerate((-1.0, 1.0)):
            chosen: dict[int, Array] = {}
            best = upper_bounds(found, own, sign * np.eye(len(some)), _noting(found, chosen))
            before = sign * ends[side][some]
            ends[side][some] = sign * np.fmin(before, best)
            if record and chosen:
                every = np.concatenate([chosen[k] for k in sorted(chosen)], axis=1)
                better = (best < before)[:, None]
                kept[side, begin : begin + count] = np.where(better, every, 0.0)
    return kept if record else None


def _noting(found: Compact, chosen: dict[int, Array]) -> Choice:
    """Choose CROWN's multipliers, and record them in `chosen`."""

    def choose(k: int, a: Array) -> Array:
        chosen[k] = crown(found.blocks[k], a)
        return chosen[k]

    return choose


def started(size: int, versions: Versions) -> Rows:
    """Rows for the input itself: the identity."""
    same = sparse.csr_array(sparse.eye_array(size, format="csr"))
    return Rows(same, np.zeros(size), np.zeros(size), versions.magnitude)


def through_layer(layer: AbstractLinear, entering: Rows, magnitude: float) -> Rows:
    """Pass rows through a linear layer; `magnitude` bounds the sum of absolute values of `v`."""
    weight = _product(layer, entering.weight)
    bias = layer.times(entering.bias[None])[0] + layer.flat_bias
    wide = layer.absolute
    reach, error = wide.times(np.stack([entering.size, entering.error])) * (1 + 2.0**-20)
    size = (reach + abs(layer.flat_bias)) * (1 + 2.0**-20)
    lost = UNDERFLOW * (layer.fan_in + 1) * (1 + magnitude)
    rounding = unit(layer.fan_in + 8, size) * size + lost
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
    """Pass rows through a ReLU layer: active ones stay, inactive ones become 0, and undecided
    ones become new entries of `v`."""
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
    """Bound rows by interval arithmetic over the entries of `v`."""
    middle, radius = middle_and_radius(low, high)
    centre = rows.weight @ middle + rows.bias
    spread = abs(rows.weight) @ radius
    room = rows.error + unit(2 * len(low) + 16, low) * (rows.size + spread)
    return centre - spread - room, centre + spread + room
