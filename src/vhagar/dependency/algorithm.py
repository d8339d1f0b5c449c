"""The paper's Algorithm 1: all dependencies between the two copies, layer by layer.

There are four rules, the cheap ones first: the perturbation itself, concrete bounds that do not
overlap, propagation by the lemma, and questions to a MIP solver where the bounds leave an order
possible. The search ends at the first layer of neurons without any relation, as published.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array
from vhagar.dependency.inputs import (
    Shift,
    alike_through,
    changed_pixels,
    common_shift,
    moved_pixels,
)
from vhagar.dependency.propagation import through_linear, through_relu
from vhagar.dependency.question import (
    Backend,
    SignAnswer,
    SignQuestion,
    SignStatus,
    ask,
    can_be_active,
    can_exceed,
)
from vhagar.dependency.ranges import ConcreteBounds, Ranges, ranges_of
from vhagar.dependency.relation import Relations, Rule, joined, no_pairs, same_indices
from vhagar.dependency.samples import largest_gaps
from vhagar.dependency.twin import add_copies
from vhagar.errors import InvalidInput
from vhagar.network import AbstractLayer, AbstractLinear, Network, Relu
from vhagar.perturbation import AbstractPiece
from vhagar.solver.backends import backend_named
from vhagar.solver.linear_model import LinearArrays, LinearModel

# Smallest difference between values, or between bounds, that counts, relative to their range.
_VISIBLE = 1e-6


@dataclass(frozen=True)
class DependencyOptions:
    """Options of `find_dependencies`.

    `optimise` says whether a solver is used at all, for at most `question_time` seconds per
    question. `samples` random inputs come first; a relation that one of them breaks is not asked
    about.
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
    """The relations of the input (index 0) and of the outputs of layer i (index i + 1)."""

    layers: tuple[Relations, ...]
    ranges: Ranges


@dataclass(frozen=True, eq=False)
class _State:
    """Relations of every value to its own copy, and of shifted pairs, with their shift."""

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
    backend: Backend | None = None,
    deadline: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
) -> Dependencies:
    """Find the relations that hold for every input of the piece.

    `bounds` are the concrete bounds of the outputs of each layer, in both copies; by default they
    come from interval arithmetic. After the `deadline` on the `clock` no more questions are asked;
    what follows without them is still derived. The `backend` is HiGHS by default.
    """
    backend = backend or backend_named("highs")
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
        self._seen: list[tuple[Array, Array]] = []

    def run(self, time_left: Callable[[], float]) -> Dependencies:
        moved = moved_pixels(self._piece)
        state = _State(changed_pixels(self._piece), moved, common_shift(self._piece, moved))
        self._layers.append(state.known)
        last = len(self._network.layers) - 1
        for position, layer in enumerate(self._network.layers):
            state = self._derived(position, layer, state)
            neurons = isinstance(layer, Relu) or position == last
            if neurons:
                same = self._asked(position, layer, state, time_left)
                state = _State(same, state.moved, state.shift)
            self._layers.append(state.known)
            if neurons and not len(self._layers[-1]):
                break
        while len(self._layers) <= len(self._network.layers):
            self._layers.append(no_pairs())
        return Dependencies(tuple(self._layers), self._ranges)

    def _derived(self, position: int, layer: AbstractLayer, state: _State) -> _State:
        """Derive what follows for a layer without a solver."""
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
        self, position: int, layer: AbstractLayer, state: _State, time_left: Callable[[], float]
    ) -> Relations:
        """Ask a solver about the neurons without a relation."""
        same = state.same
        rises, falls = self._open_questions(position, layer, same)
        if not (rises.any() or falls.any()) or time_left() <= 0:
            return same
        # Questions about neurons are about their pre-activations, where they are active.
        active = isinstance(layer, Relu)
        layers = self._layers if active else [*self._layers, state.known]
        model = LinearModel()
        copies = add_copies(model, self._network, self._piece, self._ranges, layers)
        arrays, s, t = model.arrays(), copies.first[-1], copies.second[-1]

        def put(larger: int, smaller: int) -> float:
            return self._answer(arrays, larger, smaller, active, time_left).bound

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
    ) -> SignAnswer:
        """Ask whether one column can exceed another where the first is active."""

        def put(question: Callable[[], SignQuestion]) -> SignAnswer:
            left = time_left()
            if left <= 0:
                return SignAnswer(SignStatus.UNDECIDED)
            limit, seed = min(left, self._options.question_time), self._options.seed
            return ask(self._backend, question(), limit, seed, lambda: time_left() <= 0)

        answer = put(lambda: can_exceed(arrays, larger, smaller, active))
        if answer.status is not SignStatus.EMPTY:
            return answer
        # If there is nothing to compare, the larger one is never active. Only a bound proves it.
        second = put(lambda: can_be_active(arrays, larger)) if active else answer
        return second if second.status is SignStatus.PROVED else SignAnswer(SignStatus.UNDECIDED)

    def _open_questions(
        self, position: int, layer: AbstractLayer, same: Relations
    ) -> tuple[np.ndarray, np.ndarray]:
        """Choose the neurons to ask about: whether they can rise, and whether they can fall.

        As published, only neurons whose concrete bounds leave an order possible. Linear units are
        skipped, because the question is about active neurons.
        """
        nothing = np.zeros(len(same), dtype=np.bool_)
        if not (self._options.optimise and self._ranges.finite):
            return nothing, nothing
        one, two = self._ranges.first[position + 1], self._ranges.second[position + 1]
        visible = _VISIBLE * np.maximum(one.magnitude, two.magnitude)
        # Bounds that are rounded outward may differ slightly although the true ranges agree.
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
            rises, falls = rises & (rose <= visible), falls & (fell <= visible)
        return rises, falls

    def _gaps(self, position: int) -> tuple[Array, Array]:
        if not self._seen:
            options = self._options
            self._seen = largest_gaps(self._network, self._piece, options.samples, options.seed)
        return self._seen[position]
