"""Preparation for the main MIPs: bounds, relations and the attack.

As in the paper, concrete bounds come first, then the dependencies; the attack runs meanwhile. All
targets share the results. All pieces share the bounds, which are over a box that contains all
images.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from vhagar.dependency import ConcreteBounds
from vhagar.problem import Problem
from vhagar.relaxation import Bounds
from vhagar.search.mip.encoding import PieceFacts
from vhagar.search.mip.neuron_bounds import CopyBounds, layers_to_bound, same_in_both
from vhagar.search.mip.options import MipOptions
from vhagar.search.mip.preparation_tasks import AbstractRunner, BoundNeuron, Related, RelatePiece

if TYPE_CHECKING:
    from vhagar.attack.hints import Hints

# Time for neuron bounds: a share of the remaining time, and the most seconds.
_BOUNDS_SHARE, _BOUNDS_SECONDS = 0.3, 120.0
# Time for dependencies: a share of the remaining time, and the most seconds.
_RELATIONS_SHARE, _RELATIONS_SECONDS = 0.1, 20.0
# Most seconds for one neuron.
_NEURON_SECONDS = 10.0


@dataclass(frozen=True, eq=False)
class Prepared:
    """Facts about each piece by its index, the attack's bound, and its hints by target."""

    pieces: Mapping[int | None, PieceFacts] = field(default_factory=dict)
    lower: float = 0.0
    hints: Mapping[int | None, Hints] = field(default_factory=dict)

    def of(self, piece_index: int | None) -> PieceFacts:
        return self.pieces.get(piece_index, PieceFacts())


UNPREPARED = Prepared()


def prepare(
    problem: Problem, options: MipOptions, runner: AbstractRunner, deadline: float
) -> dict[int | None, PieceFacts]:
    """The bounds and relations of every piece, as far as they are ready in time."""
    copies = _Copies(problem)
    copies.tighten(runner, _share(deadline, _BOUNDS_SHARE, _BOUNDS_SECONDS))
    if not problem.targets:
        return {None: PieceFacts((copies.first.layers, copies.first.layers))}
    return _relate(problem, options, copies, runner, deadline)


def _share(deadline: float, share: float, most: float) -> float:
    """The end of a share of the remaining time, at most `most` seconds from now."""
    now = time.monotonic()
    return now + max(min(share * (deadline - now), most), 0.0)


class _Copies:
    """The bounds of both copies; the same object if the images fill the input range."""

    def __init__(self, problem: Problem) -> None:
        self._network = problem.network
        box = Bounds.over(problem.domain)
        images = [piece.image_box for piece in problem.pieces]
        hull = Bounds(
            np.min([low for low, _ in images], axis=0), np.max([high for _, high in images], axis=0)
        )
        self.first = self.second = CopyBounds(self._network, box)
        same = (hull.lower == box.lower) & (hull.upper == box.upper)
        self._inside = bool(((hull.lower >= box.lower) & (hull.upper <= box.upper)).all())
        if not same.all():
            self.second = CopyBounds(self._network, hull)
        self._shared = same_in_both(self._network, box, hull)

    def tighten(self, runner: AbstractRunner, deadline: float) -> None:
        """Tighten layer by layer: each layer's bounds tighten the models of the next."""
        positions = layers_to_bound(self._network)
        for k, position in enumerate(positions):
            now = time.monotonic()
            if now >= deadline:
                return
            until = now + (deadline - now) / (len(positions) - k)
            self._tighten_layer(runner, position, until)

    def _tighten_layer(self, runner: AbstractRunner, position: int, until: float) -> None:
        neurons = [(0, int(neuron)) for neuron in self.first.undecided(position)]
        if self.second is not self.first:
            other = self.second.undecided(position)
            neurons += [(1, int(neuron)) for neuron in other if not self._shared[position][neuron]]
        if not neurons:
            return
        seconds = max((until - time.monotonic()) * runner.size / len(neurons), 0.0)
        copies = (self.first, self.second)
        tasks = [
            BoundNeuron(
                copy,
                position,
                neuron,
                copies[copy].box,
                tuple(copies[copy].layers[: position + 1]),
                min(seconds, _NEURON_SECONDS),
            )
            for copy, neuron in neurons
        ]
        size = len(self.first.layers[position].lower)
        found = [Bounds(np.full(size, -np.inf), np.full(size, np.inf)) for _ in copies]
        for task, (low, high) in runner.answers(tasks, until):
            assert isinstance(task, BoundNeuron)
            found[task.copy].lower[task.neuron] = low
            found[task.copy].upper[task.neuron] = high
        self.first.meet(position, found[0])
        if self.second is not self.first:
            # The first copy's bounds hold for a value that depends only on inputs of the same
            # range, and for all values if the images lie in the inputs' box.
            usable = self._shared[position] | self._inside
            known = self.first.layers[position]
            self.second.meet(
                position,
                Bounds(
                    np.where(usable, known.lower, -np.inf), np.where(usable, known.upper, np.inf)
                ),
            )
            self.second.meet(position, found[1])


def _relate(
    problem: Problem,
    options: MipOptions,
    copies: _Copies,
    runner: AbstractRunner,
    deadline: float,
) -> dict[int | None, PieceFacts]:
    bounds: ConcreteBounds = tuple(copies.first.layers), tuple(copies.second.layers)
    indices = range(len(problem.pieces))
    known: dict[int | None, PieceFacts] = {
        piece_index: PieceFacts(bounds) for piece_index in indices
    }
    if "dependencies" in options.without and options.formulation != "lambda":
        return known
    until = _share(deadline, _RELATIONS_SHARE, _RELATIONS_SECONDS)
    rounds = math.ceil(len(indices) / runner.size)
    seconds = max(until - time.monotonic(), 0.0) / rounds
    tasks = [RelatePiece(piece_index, bounds, seconds) for piece_index in indices]
    # The parts that need no solver also take time, and are worth waiting for.
    for task, found in runner.answers(tasks, max(until, min(deadline, until + _RELATIONS_SECONDS))):
        assert isinstance(task, RelatePiece)
        assert isinstance(found, Related)
        known[task.piece_index] = PieceFacts(bounds, found.relations, found.hexagons)
    return known
