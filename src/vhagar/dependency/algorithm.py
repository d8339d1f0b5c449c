"""The paper's Algorithm 1: all dependencies between the two copies, layer by layer.

Four rules, the cheap ones first: the perturbation itself, concrete bounds that do not overlap,
propagation by the lemma, and questions to a MIP solver where the bounds leave an order possible.
The search ends at the first layer of neurons without any relation, as published.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vhagar.dependency.inputs import (
    Shift,
    alike_through,
    changed_pixels,
    common_shift,
    moved_pixels,
)
from vhagar.dependency.propagation import through_linear, through_relu
from vhagar.dependency.question import Answer, Question, Verdict, ask, can_be_active, can_exceed
from vhagar.dependency.ranges import ConcreteBounds, Ranges, ranges_of
from vhagar.dependency.relation import Array, Relations, Rule, joined, no_pairs, same_indices
from vhagar.dependency.samples import largest_gaps
from vhagar.dependency.solver import Backend, highs
from vhagar.dependency.statistics import LayerStatistics, count
from vhagar.dependency.twin import add_copies
from vhagar.errors import InvalidInput
from vhagar.network import AbstractLayer, AbstractLinear, Network, Relu
from vhagar.perturbation import AbstractPiece
from vhagar.solver.linear_model import LinearArrays, LinearModel

# Smallest difference between values, or between bounds, that counts, relative to their range.
_VISIBLE = 1e-6


@dataclass(frozen=True)
class DependencyOptions:
    """`optimise`: whether a solver is asked at all, for at most `question_time` seconds each.

    `samples` random inputs come first, and spare questions whose answer they show.
    """

    optimise: bool = True
    question_time: float = 5.0
    samples: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.question_time > 0:
            raise InvalidInput(f"a question needs a positive time, not {self.question_time}")
        if self.samples < 0:
            raise InvalidInput(f"the number of samples cannot be negative: {self.samples}")


@dataclass(frozen=True, eq=False)
class Dependencies:
    """The relations of the input (index 0) and of what leaves layer i (index i + 1)."""

    layers: tuple[Relations, ...]
    ranges: Ranges
    statistics: tuple[LayerStatistics, ...]


@dataclass(frozen=True, eq=False)
class _State:
    """Every value with its own copy, and shifted pairs with the way they are shifted."""

    same: Relations
    moved: Relations
    shift: Shift | None

    @property
    def known(self) -> Relations:
        return joined([part.kept(part.known) for part in (self.same, self.moved)])


def find_dependencies(
    network: Network,
    piece: AbstractPiece,
    bounds: ConcreteBounds | None = None,
    options: DependencyOptions | None = None,
    *,
    backend: Backend = highs,
    deadline: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
) -> Dependencies:
    """All relations that hold for every input of the piece.

    `bounds` are the concrete bounds of what leaves each layer, for both copies; without them
    interval arithmetic is used. At the `deadline` on the `clock` no more questions are asked;
    what follows without them is still derived.
    """
    search = _Search(network, piece, ranges_of(network, piece, bounds), options, backend)
    return search.run(lambda: deadline - clock())


class _Search:
    def __init__(
        self,
        network: Network,
        piece: AbstractPiece,
        ranges: Ranges,
        options: DependencyOptions | None,
        backend: Backend,
    ) -> None:
        self._network = network
        self._piece = piece
        self._ranges = ranges
        self._options = options or DependencyOptions()
        self._backend = backend
        self._layers: list[Relations] = []
        self._statistics: list[LayerStatistics] = []
        self._seen: list[tuple[Array, Array]] = []

    def run(self, time_left: Callable[[], float]) -> Dependencies:
        moved = moved_pixels(self._piece)
        state = _State(changed_pixels(self._piece), moved, common_shift(self._piece, moved))
        self._settle(state.known, Counter())
        last = len(self._network.layers) - 1
        for position, layer in enumerate(self._network.layers):
            state = self._derived(position, layer, state)
            asked: Counter[Verdict] = Counter()
            neurons = isinstance(layer, Relu) or position == last
            if neurons:
                same = self._asked(position, layer, state, asked, time_left)
                state = _State(same, state.moved, state.shift)
            self._settle(state.known, asked)
            if neurons and not len(self._layers[-1]):
                break
        while len(self._layers) <= len(self._network.layers):
            self._settle(no_pairs(), Counter())
        return Dependencies(tuple(self._layers), self._ranges, tuple(self._statistics))

    def _settle(self, known: Relations, asked: Counter[Verdict]) -> None:
        position = len(self._layers)
        self._layers.append(known)
        size = len(self._ranges.first[position].lower)
        self._statistics.append(count(position, size, known, asked))

    def _derived(self, position: int, layer: AbstractLayer, state: _State) -> _State:
        """What follows for a layer without a solver."""
        leaving = self._ranges.first[position + 1], self._ranges.second[position + 1]
        if not isinstance(layer, AbstractLinear):
            assert isinstance(layer, Relu)
            same, moved = (
                self._ranges.compared(position + 1, through_relu(layer, part, *leaving))
                for part in (state.same, state.moved)
            )
            return _State(same, moved, state.shift)
        same = same_indices(layer.out_size)
        if position == 0 and (alike := alike_through(self._piece, layer)) is not None:
            same = same.restricted(*alike, Rule.PERTURBATION)
        same = self._linear(position, layer, state.same, same)
        shift = None if state.shift is None else state.shift.after(layer)
        if shift is None:
            return _State(same, no_pairs(), None)
        moved = self._linear(position, layer, state.moved, shift.pairs(layer.out_shape))
        return _State(same, moved.kept(moved.known), shift)

    def _linear(
        self, position: int, layer: AbstractLinear, below: Relations, pairs: Relations
    ) -> Relations:
        entering = self._ranges.first[position], self._ranges.second[position]
        pairs = self._ranges.compared(position + 1, pairs)
        return through_linear(layer, below, pairs, *entering)

    def _asked(
        self,
        position: int,
        layer: AbstractLayer,
        state: _State,
        asked: Counter[Verdict],
        time_left: Callable[[], float],
    ) -> Relations:
        """Ask a solver about the neurons without a relation."""
        same = state.same
        rises, falls = self._open_questions(position, layer, same, asked)
        if not (rises.any() or falls.any()) or time_left() <= 0:
            return same
        # A ReLU's neurons are asked about before it: whether one is active is in the question.
        active = isinstance(layer, Relu)
        layers = self._layers if active else [*self._layers, state.known]
        model = LinearModel()
        copies = add_copies(model, self._network, self._piece, self._ranges, layers)
        arrays, s, t = model.arrays(), copies.first[-1], copies.second[-1]

        def put(larger: int, smaller: int) -> float:
            answer = self._answer(arrays, larger, smaller, active, time_left)
            asked[answer.verdict] += 1
            return answer.bound

        upper, lower = np.full(len(same), np.inf), np.full(len(same), -np.inf)
        for k in np.flatnonzero(rises | falls).tolist():
            if rises[k]:
                upper[k] = put(int(t[k]), int(s[k]))
            if falls[k]:
                lower[k] = -put(int(s[k]), int(t[k]))
        return same.improved(lower, upper, Rule.OPTIMISATION)

    def _answer(
        self,
        arrays: LinearArrays,
        larger: int,
        smaller: int,
        active: bool,
        time_left: Callable[[], float],
    ) -> Answer:
        """Whether one column can exceed another, where the first is active."""

        def put(question: Callable[[], Question]) -> Answer:
            left = time_left()
            if left <= 0:
                return Answer(Verdict.UNDECIDED)
            limit, seed = min(left, self._options.question_time), self._options.seed
            return ask(self._backend, question(), limit, seed, lambda: time_left() <= 0)

        answer = put(lambda: can_exceed(arrays, larger, smaller, active))
        if answer.verdict is not Verdict.EMPTY:
            return answer
        # Nothing to compare means that the larger one is never active. Only a bound proves it.
        second = put(lambda: can_be_active(arrays, larger)) if active else answer
        return second if second.verdict is Verdict.PROVED else Answer(Verdict.UNDECIDED)

    def _open_questions(
        self, position: int, layer: AbstractLayer, same: Relations, asked: Counter[Verdict]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of which neurons to ask whether they can rise, and whether they can fall.

        As published: only where the concrete bounds lie so that the answer may be no. Linear units
        are not asked about: the question is about active neurons.
        """
        nothing = np.zeros(len(same), dtype=np.bool_)
        if not (self._options.optimise and self._ranges.finite):
            return nothing, nothing
        one, two = self._ranges.first[position + 1], self._ranges.second[position + 1]
        visible = _VISIBLE * np.maximum(one.magnitude, two.magnitude)
        # Bounds rounded outward differ by a little where the true ranges do not.
        rises = (
            ~same.known & (two.lower - visible <= one.lower) & (two.upper - visible <= one.upper)
        )
        falls = (
            ~same.known & (one.lower - visible <= two.lower) & (one.upper - visible <= two.upper)
        )
        if isinstance(layer, Relu) and layer.linear is not None:
            bends = ~layer.linear[same.first]
            rises, falls = rises & bends, falls & bends
        if self._options.samples and (rises.any() or falls.any()):
            rose, fell = self._gaps(position + 1)
            asked[Verdict.SAMPLED] += int((rises & (rose > visible)).sum())
            asked[Verdict.SAMPLED] += int((falls & (fell > visible)).sum())
            rises, falls = rises & (rose <= visible), falls & (fell <= visible)
        return rises, falls

    def _gaps(self, position: int) -> tuple[Array, Array]:
        if not self._seen:
            options = self._options
            self._seen = largest_gaps(self._network, self._piece, options.samples, options.seed)
        return self._seen[position]
