"""The difference of the copies as a linear function of a few unknown differences.

For an attacked pair, the source's confidence is at most `g(x) - g(x_p)` with `g` the source's score
minus the target's. Every unit has a *slope* `theta` in [0,1] with `z - z_p = theta (s - s_p)`: 1
where both copies are active, 0 where both are inactive or equal, and anything for a *free pair*.
With `u = x - x_p` and `w_i = z_i - z_p_i` of the free pairs, all other differences are linear in
`(u, w)`; biases cancel.

Where a piece is a single linear map, `x_p = A x`, the change is tied to the input: `u = x - A x`.
Then `u` stands for the input itself, in its range, and differences are linear in `(x, w)`.
Where all pixels change by the same amount, `u` has one entry, the change of the first pixel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from vhagar.array_types import Array, Index, Mask
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.interval import HALF_ULP
from vhagar.relaxation.layerwise import TwinBounds
from vhagar.relaxation.spectral.slopes import InputChange, input_change

# A ReLU layer and a unit of it.
Neuron = tuple[int, int]

# With more free pairs, or more entries of layers times unknowns, the bound is not worth its time.
_MOST_PAIRS, _MOST_ENTRIES = 1_500, 20_000_000
# The pairs' rows on the inputs count as sparse if they have at least so many entries, of which at
# most this share is not 0.
# Measured: conv1 `linf(0.05)`, 145 x 784 entries, 6 %: one evaluation 0.44 ms instead of 1.38 ms.
_SPARSE_FROM, _SPARSE_SHARE = 20_000, 0.2


@dataclass(frozen=True, eq=False)
class Differences:
    """`rows` `(pairs + 1, inputs + pairs)`: the free pairs' `s - s_p`, and last `g(x) - g(x_p)`.

    Pairs are in the order of their layers, and depend on pairs of earlier layers only. `sizes` are
    the same sums of products with absolute values: the exact rows differ from `rows` by at most
    `error` times `sizes`. `u` is within `radius` of `middle`, exactly. `inputs` and `places` list
    the inputs and the units that the unknowns belong to. If `tied`, `u` is the input itself instead
    of its change, or the change of the first input, which is that of all.
    """

    rows: Array
    sizes: Array
    error: float
    middle: Array
    radius: Array
    inputs: Index
    places: tuple[Neuron, ...]
    tied: bool = False

    @property
    def layers(self) -> Index:
        """The ReLU layer of each pair."""
        return np.array([layer for layer, _ in self.places], dtype=np.int64)

    @property
    def on_inputs(self) -> Array:
        return self.rows[:-1, : len(self.inputs)]

    @cached_property
    def sparse_on_inputs(self) -> sparse.csr_array | None:
        """`on_inputs`, if it is large and sparse: where units see a few pixels each."""
        dense = self.on_inputs
        if dense.size < _SPARSE_FROM or np.count_nonzero(dense) > _SPARSE_SHARE * dense.size:
            return None
        return sparse.csr_array(dense)

    @property
    def on_pairs(self) -> Array:
        return self.rows[:-1, len(self.inputs) :]

    @property
    def lead_on_inputs(self) -> Array:
        return self.rows[-1, : len(self.inputs)]

    @property
    def lead_on_pairs(self) -> Array:
        return self.rows[-1, len(self.inputs) :]

    def settled(self, slopes: Mapping[Neuron, bool]) -> Differences:
        """The differences with some pairs' slopes fixed at 1 (true) or 0, no longer as unknowns."""
        chosen = [slopes.get(place) for place in self.places]
        ones = np.flatnonzero([slope is True for slope in chosen])
        free = np.flatnonzero([slope is None for slope in chosen])
        if len(free) == len(self.places):
            return self
        layers = self.layers[ones]
        used = len(np.unique(layers))
        added = used * (len(ones) + 2) + len(ones) + 2
        return Differences(
            _substituted(self.rows, len(self.inputs), ones, layers, free),
            _substituted(self.sizes, len(self.inputs), ones, layers, free),
            self.error + 2 * added * HALF_ULP,
            self.middle,
            self.radius,
            self.inputs,
            tuple(self.places[k] for k in free),
            self.tied,
        )


def _substituted(rows: Array, inputs: int, ones: Index, layers: Index, free: Index) -> Array:
    """The rows with the unknowns of slope 1 replaced by their own rows, those of slope 0 by 0.

    The results are sums of products of the entries, so this is right for absolute values as well.
    """
    known = _chosen(rows, inputs, ones, free)
    for layer in np.unique(layers):
        own, before = layers == layer, layers < layer
        if before.any():
            known[own] += rows[ones[own]][:, inputs + ones[before]] @ known[before]
    kept = np.concatenate([free, [len(rows) - 1]])
    found = _chosen(rows, inputs, kept, free)
    found += rows[np.ix_(kept, inputs + ones)] @ known
    return found


def _chosen(rows: Array, inputs: int, kept: Index, free: Index) -> Array:
    """Some rows, with the columns of all inputs and of some pairs."""
    found = np.empty((len(kept), inputs + len(free)))
    found[:, :inputs] = rows[kept, :inputs]
    found[:, inputs:] = rows[np.ix_(kept, inputs + free)]
    return found


def free_pairs(hexagons: Hexagons) -> Mask:
    """The units of a layer whose slope can be anything: undecided, and not equal."""
    free: Mask = hexagons.undecided & ~hexagons.equal
    return free


def are_manageable(bounds: TwinBounds) -> bool:
    """Whether the differences of these bounds are small enough to be computed."""
    return _is_manageable(bounds, len(_entering(bounds.piece).inputs), len(_free_places(bounds)))


def _is_manageable(bounds: TwinBounds, inputs: int, pairs: int) -> bool:
    largest = max([bounds.piece.domain.size, *(stage.out_size for stage in bounds.stages)])
    return pairs <= _MOST_PAIRS and (inputs + pairs) * largest <= _MOST_ENTRIES


def _free_places(bounds: TwinBounds) -> tuple[Neuron, ...]:
    return tuple(
        (layer, int(unit))
        for layer, hexagons in enumerate(bounds.hexagons)
        for unit in np.flatnonzero(free_pairs(hexagons))
    )


def differences_of(bounds: TwinBounds, source: int, target: int) -> Differences | None:
    """The differences over a piece, from its bounds on the units; None if they are too large."""
    entering, places = _entering(bounds.piece), _free_places(bounds)
    inputs, size = entering.inputs, bounds.piece.domain.size
    if not _is_manageable(bounds, len(inputs), len(places)):
        return None
    terms = [layer.fan_in + 3 for stage in bounds.stages for layer in stage.layers]
    error = 2 * (sum(terms) + 12) * HALF_ULP
    rest = np.zeros((size, len(places)))
    starts = entering.changes, abs(entering.changes) + entering.error / error
    rows, sizes = (
        _composed(bounds, np.hstack([start, rest]), len(inputs), absolute, source, target)
        for start, absolute in zip(starts, (False, True), strict=True)
    )
    if not (np.isfinite(rows).all() and np.isfinite(sizes).all()):
        return None
    middle, radius = entering.middle, entering.radius
    return Differences(rows, sizes, error, middle, radius, inputs, places, entering.tied)


@dataclass(frozen=True, eq=False)
class _Entering:
    """The change of the input as a linear function: `changes @ y`, `y` within `radius` of `middle`.

    `changes` is `(size, inputs)`; its entries have errors of at most `error`, besides rounding.
    """

    inputs: Index
    changes: Array
    error: Array
    middle: Array
    radius: Array
    tied: bool


def _entering(piece: AbstractPiece) -> _Entering:
    """The unknowns: the input if its change is linear in it, the first pixel's change if all are
    the same, else each pixel's change."""
    if _all_change_alike(piece):
        first = np.arange(1)
        change = input_change(piece, first)
        alike = np.ones((piece.domain.size, 1))
        middle, radius = change.middle[first], change.radius[first]
        return _Entering(first, alike, np.zeros_like(alike), middle, radius, True)
    linear = _linear_change(piece)
    if linear is None:
        change, inputs = input_change(piece), np.flatnonzero(np.logical_or(*piece.changes()))
        ones = np.zeros((piece.domain.size, len(inputs)))
        ones[inputs, np.arange(len(inputs))] = 1.0
        middle, radius = change.middle[inputs], change.radius[inputs]
        return _Entering(inputs, ones, np.zeros_like(ones), middle, radius, False)
    inputs = np.flatnonzero(linear.any(axis=0))
    linear = linear[:, inputs]
    ends = piece.domain.lower, piece.domain.upper
    domain = InputChange(*(np.full(len(inputs), end) for end in ends))
    # Cosines are not exact, and neither are weights computed from them.
    error = np.where(linear == np.round(linear), 0.0, 128 * HALF_ULP)
    return _Entering(inputs, linear, error, domain.middle, domain.radius, True)


def _all_change_alike(piece: AbstractPiece) -> bool:
    formula = piece.formula
    small = piece.domain.size**2 <= _MOST_ENTRIES  # as for linear changes; certificates say so
    return small and formula is not None and formula.changes_alike


def _linear_change(piece: AbstractPiece) -> Array | None:
    """`I - A` if the piece is just `x_p = A x` and the image is not too large, else None."""
    formula = piece.formula
    if formula is None or formula.clip or formula.product:
        return None
    if formula.map.count or formula.map.offset.any() or piece.domain.size**2 > _MOST_ENTRIES:
        return None
    found: Array = np.eye(piece.domain.size) - formula.map.matrix.toarray()
    return found


def _composed(
    bounds: TwinBounds, current: Array, inputs: int, absolute: bool, source: int, target: int
) -> Array:
    """The rows, or the same sums of products with absolute values."""
    found, next_unknown = [], inputs
    for k, stage in enumerate(bounds.stages):
        for layer in stage.layers:
            current = (layer.absolute if absolute else layer).times(current.T).T
        if k == len(bounds.hexagons):
            break
        hexagons = bounds.hexagons[k]
        free = np.flatnonzero(free_pairs(hexagons))
        found.append(current[free])
        current = np.where(hexagons.on[:, None], current, 0.0)
        current[free, next_unknown + np.arange(len(free))] = 1.0
        next_unknown += len(free)
    sign = 1.0 if absolute else -1.0
    return np.vstack([*found, current[source] + sign * current[target]])
