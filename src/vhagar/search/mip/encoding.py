"""The paper's main MIP: two copies of the network, big-M ReLUs, and the class constraints.

    max delta   subject to   score[source] - score[j] >= delta      for every j != source, at x
                             score[target] - score[j] >= 0          for every j != target, at x_p
                             x_p a perturbation of x

Dependencies let the copies share columns, and add rows. With hexagons, the ReLUs use the lambda
formulation instead of big-M. Without a piece there is one copy, and the maximum is the network's
maximal confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from vhagar.array_types import Array
from vhagar.dependency import (
    ConcreteBounds,
    Ranges,
    Relations,
    add_copies,
    add_copy,
    no_pairs,
    ranges_of,
)
from vhagar.network import Network, Relu
from vhagar.perturbation import AbstractPiece
from vhagar.perturbation.affine import identity_piece
from vhagar.perturbation.relaxed import Expression, add_conditions
from vhagar.problem import Problem
from vhagar.relaxation import Bounds, confidence_bounds
from vhagar.relaxation.hexagon import Hexagons
from vhagar.solver.linear_model import Columns, LinearArrays, LinearModel

# The target rows, and the least confidence, are relaxed by this much of the scores. A problem that
# is feasible only at a tie then has an interior, so that no solver within its tolerances can call
# it infeasible.
_TIE_ROOM = 1e-7


@dataclass(frozen=True, eq=False)
class PieceFacts:
    """Optional facts that tighten the MIP of a piece.

    `bounds` on the output of each layer in both copies, `relations` between the copies, and
    `hexagons` for the inputs of each ReLU layer. If hexagons are given, the formulation is lambda.
    """

    bounds: ConcreteBounds | None = None
    relations: Sequence[Relations] | None = None
    hexagons: Sequence[Hexagons] | None = None


NO_TIGHTENING = PieceFacts()


@dataclass(frozen=True, eq=False)
class Encoding:
    """A MIP with the indices of its relevant columns and rows."""

    arrays: LinearArrays
    x: Columns
    x_p: Columns | None
    delta: int
    source_rows: Columns
    target_rows: Columns
    # The magnitude of the scores, as a unit of margins, and the largest margin of each target row.
    target_scale: float
    target_reach: Array
    # The parameters of the piece, in the model's columns.
    parameters: Expression | None = None
    # The booleans of every ReLU layer in both copies; -1 for a neuron without one.
    active: list[tuple[Columns, Columns]] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Copy:
    """One copy of the network: the columns of its scores, the last layer's inputs and outputs."""

    scores: Columns
    hidden: Bounds
    leaving: Bounds

    @property
    def score_size(self) -> float:
        return float(self.leaving.magnitude.max())


@dataclass(frozen=True, eq=False)
class _Twin:
    """Both copies of the network, or a single one without a perturbation."""

    x: Columns
    first: _Copy
    x_p: Columns | None = None
    second: _Copy | None = None
    parameters: Expression | None = None
    active: list[tuple[Columns, Columns]] = field(default_factory=list)


def encode(
    problem: Problem,
    piece: AbstractPiece | None,
    target: int | None,
    known: PieceFacts = NO_TIGHTENING,
) -> Encoding:
    """The MIP of one piece and one target."""
    model = LinearModel()
    network, source = problem.network, problem.source
    if piece is None or target is None:
        twin = _single(model, problem, known)
    else:
        twin = _related(model, network, piece, known)
    first = twin.first
    largest = float(confidence_bounds(network, first.hidden, source)[1].min())
    delta = model.add_columns(-_TIE_ROOM * first.score_size, max(largest, 0.0))
    gaps = _differences(network.classes, source)
    source_rows = model.add_rows(
        [(first.scores, gaps), (delta, np.full((len(gaps), 1), -1.0))], 0.0, np.inf
    )
    if twin.second is None or target is None:
        none = np.zeros(0, dtype=np.int64)
        arrays = model.arrays()
        return Encoding(arrays, twin.x, None, int(delta[0]), source_rows, none, 1.0, np.zeros(0))
    second = twin.second
    low, high = confidence_bounds(network, second.hidden, target)
    room = _TIE_ROOM * np.maximum(np.maximum(abs(low), abs(high)), second.score_size)
    margins = _differences(network.classes, target)
    target_rows = model.add_rows([(second.scores, margins)], -room, np.inf)
    return Encoding(
        model.arrays(),
        twin.x,
        twin.x_p,
        int(delta[0]),
        source_rows,
        target_rows,
        second.score_size,
        high,
        twin.parameters,
        twin.active,
    )


def _single(model: LinearModel, problem: Problem, known: PieceFacts) -> _Twin:
    ranges = known_ranges(problem.network, identity_piece(problem.domain), known.bounds)
    columns = add_copy(model, problem.network.layers, ranges.first[0], ranges.first[1:])
    add_conditions(model, problem.domain, columns[0])
    return _Twin(columns[0], _Copy(columns[-1], *ranges.first[-2:]))


def _related(
    model: LinearModel, network: Network, piece: AbstractPiece, known: PieceFacts
) -> _Twin:
    """Two copies that share the columns of equal neurons, with rows for ordered ones."""
    ranges = known_ranges(network, piece, known.bounds)
    # Without relations, only the perturbation connects the copies.
    relations = known.relations or [no_pairs()] * (len(network.layers) + 1)
    copies = add_copies(model, network, piece, ranges, relations, known.hexagons)
    relus = [
        position + 1 for position, layer in enumerate(network.layers) if isinstance(layer, Relu)
    ]
    return _Twin(
        copies.first[0],
        _Copy(copies.first[-1], *ranges.first[-2:]),
        copies.second[0],
        _Copy(copies.second[-1], *ranges.second[-2:]),
        copies.parameters,
        [(copies.active[k], copies.active_p[k]) for k in relus],
    )


def known_ranges(network: Network, piece: AbstractPiece, bounds: ConcreteBounds | None) -> Ranges:
    """Bounds by interval arithmetic, intersected with those given."""
    own = ranges_of(network, piece, None)
    return own if bounds is None else own.meet(bounds)


def _differences(classes: int, label: int) -> Array:
    """Rows `score[label] - score[j]` for every other class j."""
    rows = -np.eye(classes)
    rows[:, label] = 1.0
    return np.delete(rows, label, axis=0)
