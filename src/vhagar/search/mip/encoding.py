"""The main MIP of the paper: two copies of the network, big-M ReLUs, and the class constraints.

    max delta   subject to   score[source] - score[j] >= delta      for every j != source, at x
                             score[target] - score[j] >= 0          for every j != target, at x_p
                             x_p a perturbation of x

Dependencies between the copies let them share columns, and add rows. Without a piece there is one
copy, and the maximum is the network's largest confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar.dependency import Relations, add_copies, add_relu, ranges_of
from vhagar.linear import Columns, LinearArrays, LinearModel
from vhagar.network import AbstractLinear, Network
from vhagar.perturbation import AbstractPiece
from vhagar.problem import Problem
from vhagar.relaxation import Bounds, confidence_bounds, network_bounds

Array = NDArray[np.float64]

# The target rows, and the least confidence, are relaxed by this much of the scores. A problem that
# is feasible only at a tie then has an interior, so that no solver within its tolerances can call
# it infeasible.
_TIE_ROOM = 1e-7


@dataclass(frozen=True, eq=False)
class Encoding:
    """A model and the places of what one wants to read from it or change in it."""

    arrays: LinearArrays
    x: Columns
    x_p: Columns | None
    delta: int
    source_rows: Columns
    target_rows: Columns
    # The size of the target's scores, by which margins are measured, and for each row the largest
    # margin that it can have.
    target_scale: float
    target_reach: Array


@dataclass(frozen=True, eq=False)
class _Copy:
    """One copy of the network in the model: the columns and bounds of its scores."""

    scores: Columns
    bounds: list[Bounds]
    inputs: Bounds

    @property
    def score_size(self) -> float:
        return float(self.bounds[-1].magnitude.max())

    @property
    def hidden(self) -> Bounds:
        """What enters the last layer."""
        return self.bounds[-2] if len(self.bounds) > 1 else self.inputs


@dataclass(frozen=True, eq=False)
class _Twin:
    """Both copies of the network; one alone where there is no perturbation."""

    x: Columns
    first: _Copy
    x_p: Columns | None = None
    second: _Copy | None = None


def encode(
    problem: Problem,
    piece: AbstractPiece | None,
    target: int | None,
    relations: Sequence[Relations] | None = None,
) -> Encoding:
    """The model of one piece and one target, with the relations that hold between its copies."""
    model = LinearModel()
    network, source = problem.network, problem.source
    if piece is None or target is None:
        twin = _single(model, problem)
    elif relations is None:
        twin = _plain(model, problem, piece)
    else:
        twin = _related(model, network, piece, relations)
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
    arrays, scale = model.arrays(), second.score_size
    return Encoding(arrays, twin.x, twin.x_p, int(delta[0]), source_rows, target_rows, scale, high)


def _single(model: LinearModel, problem: Problem) -> _Twin:
    domain = problem.domain
    box = Bounds(np.full(domain.size, domain.lower), np.full(domain.size, domain.upper))
    x = model.add_columns(box.lower, box.upper)
    return _Twin(x, _add_copy(model, problem.network, x, box))


def _plain(model: LinearModel, problem: Problem, piece: AbstractPiece) -> _Twin:
    """Two copies that know nothing of each other but the perturbation."""
    alone = _single(model, problem)
    x_p = piece.add_rows(model, alone.x)
    image = Bounds(*piece.image_bounds())
    return _Twin(alone.x, alone.first, x_p, _add_copy(model, problem.network, x_p, image))


def _related(
    model: LinearModel, network: Network, piece: AbstractPiece, relations: Sequence[Relations]
) -> _Twin:
    """Two copies that share what is equal, with rows for what is ordered."""
    ranges = ranges_of(network, piece, None)
    copies = add_copies(model, network, piece, ranges, relations)
    first = _Copy(copies.first[-1], list(ranges.first[1:]), ranges.first[0])
    second = _Copy(copies.second[-1], list(ranges.second[1:]), ranges.second[0])
    return _Twin(copies.first[0], first, copies.second[0], second)


def _differences(classes: int, label: int) -> Array:
    """Rows `score[label] - score[j]` for every other class j."""
    rows = -np.eye(classes)
    rows[:, label] = 1.0
    return np.delete(rows, label, axis=0)


def _add_copy(model: LinearModel, network: Network, inputs: Columns, box: Bounds) -> _Copy:
    bounds = network_bounds(network, box)
    current, entering = inputs, box
    for layer, leaving in zip(network.layers, bounds, strict=True):
        if isinstance(layer, AbstractLinear):
            values = model.add_columns(leaving.lower, leaving.upper)
            model.add_rows(
                [(values, 1.0), (current, -layer.matrix)], layer.flat_bias, layer.flat_bias
            )
            current = values
        else:
            current, _ = add_relu(model, current, entering)
        entering = leaving
    return _Copy(current, bounds, box)
