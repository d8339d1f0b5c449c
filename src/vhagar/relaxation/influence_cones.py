"""The cones of influence of neurons that depend on few neurons below, whatever the layers are.

Behind branches, joins and max pooling, receptive fields are not rectangular, but most
neurons still depend on few others. A *cone of influence* consists of some neurons and all that they
depend on, with the corresponding parts of the matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import sparse

from vhagar.array_types import Array, Index
from vhagar.network import AbstractLinear, SparseAffine
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.arrays import distinct
from vhagar.relaxation.corners import Corners
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.stages import Stage
from vhagar.relaxation.subnetworks import Subnetwork, View

# Neurons per cone: neighbours depend on nearly the same inputs.
AT_ONCE = 32
# If neurons depend on more than this share of a layer, whole layers are used, at the same cost.
_LARGEST_PART = 0.5


def cones(stages: tuple[Stage, ...], neurons: Index) -> Iterator[tuple[Index, Subnetwork]]:
    """Divide the neurons into groups of neighbours; yields each group with its cone."""
    for chosen in _groups(neurons, _places(stages)[neurons]):
        yield chosen, cone_of(stages, chosen)


def _groups(neurons: Index, places: Array) -> list[Index]:
    """Halve the neurons by their places, along the longer side, until the groups are small."""
    if len(neurons) <= AT_ONCE:
        return [neurons]
    longer = int(np.ptp(places, axis=0).argmax())
    order = np.argsort(places[:, longer], kind="stable")
    # Full groups, so that there are few of them.
    first = -(-(len(neurons) // 2) // AT_ONCE) * AT_ONCE
    halves = np.sort(order[:first]), np.sort(order[first:])
    return [group for half in halves for group in _groups(neurons[half], places[half])]


def _places(stages: tuple[Stage, ...]) -> Array:
    """Where the outputs of the last stage are: the mean row and column of the pixels they see.

    Without an image, the mean number of the inputs they see.
    """
    shape = stages[0].layers[0].in_shape
    rows, columns = np.indices(shape[-2:]) if len(shape) > 1 else np.indices((1, *shape))
    size = stages[0].in_size
    found = np.stack([np.resize(axis.reshape(-1), size) for axis in (rows, columns)])
    found = np.vstack([np.ones(size), found]).astype(np.float64)
    for layer in (layer for stage in stages for layer in stage.layers):
        ways = layer.mapped(lambda weight: (weight != 0).astype(np.float64))
        found = ways.times(found)
        found = found / np.maximum(found[0], 1.0)
    return found[1:].T


def sees_little(stages: tuple[Stage, ...], neurons: Index) -> bool:
    """Whether cones save work, judged by the cone of the first group."""
    if len(stages) < 2 or len(neurons) <= AT_ONCE:
        return False
    first = cone_of(stages, _groups(neurons, _places(stages)[neurons])[0])
    widest = max(range(1, len(stages)), key=lambda k: stages[k].in_size)
    return len(first.views[widest].index) <= _LARGEST_PART * stages[widest].in_size


def cone_of(stages: tuple[Stage, ...], neurons: Index) -> Subnetwork:
    """The cone of some of the last stage's outputs."""
    small, views = [], []
    for stage in reversed(stages):
        layers = []
        for layer in reversed(stage.layers):
            part, neurons = _part(layer, neurons)
            layers.append(part)
        small.append(Stage(tuple(layers[::-1])))
        views.append(View(neurons))
    return Subnetwork(tuple(small[::-1]), tuple(views[::-1]))


def _part(layer: AbstractLinear, outputs: Index) -> tuple[SparseAffine, Index]:
    """A layer's part for some outputs, and the inputs that they depend on."""
    rows = sparse.csr_array(layer.matrix[outputs])
    rows.eliminate_zeros()
    inputs = distinct(rows.indices).astype(np.int64)
    if not len(inputs):
        inputs = np.zeros(1, dtype=np.int64)  # constant outputs; a layer needs at least one input
    places = np.searchsorted(inputs, rows.indices)
    shape = len(outputs), len(inputs)
    matrix = sparse.csr_array((rows.data, places, rows.indptr), shape=shape)
    part = SparseAffine(matrix, layer.flat_bias[outputs], shape[1:], shape[:1])
    return part, inputs


class Relaxed(Protocol):
    """What a linear model of the two copies is built from."""

    @property
    def stages(self) -> tuple[Stage, ...]: ...
    @property
    def piece(self) -> AbstractPiece: ...
    @property
    def hexagons(self) -> list[Hexagons]: ...
    @property
    def corners(self) -> list[Corners]: ...


@dataclass(frozen=True, eq=False)
class RelaxedCone:
    """A cone with its part of the piece and of the hexagons, enough for a linear model of its own.

    `seen[k]` lists the neurons of ReLU layer k in the cone, `pixels` are those of its part of the
    piece.
    """

    stages: tuple[Stage, ...]
    piece: AbstractPiece
    hexagons: list[Hexagons]
    corners: list[Corners]
    seen: list[Index]
    pixels: Index


def relaxed_cone(bounds: Relaxed, layer: int, neurons: Index) -> RelaxedCone:
    """The cone of some neurons of a ReLU layer, with its hexagons and its part of the piece."""
    cone = cone_of(bounds.stages[: layer + 1], neurons)
    seen = [view.index for view in cone.views[1:]]
    pixels = cone.views[0].index
    piece, columns = bounds.piece.local(pixels)
    first, *others = cone.stages[0].layers
    rows = sparse.csr_array(first.matrix)
    places = np.searchsorted(columns, pixels)[rows.indices]
    shape = first.out_size, len(columns)
    matrix = sparse.csr_array((rows.data, places, rows.indptr), shape=shape)
    wide = SparseAffine(matrix, first.flat_bias, shape[1:], shape[:1])
    return RelaxedCone(
        (Stage((wide, *others)), *cone.stages[1:]),
        piece,
        [known.take(part) for known, part in zip(bounds.hexagons, seen, strict=False)],
        [known.take(part) for known, part in zip(bounds.corners, seen, strict=False)],
        seen,
        columns,
    )
