"""Search among the linear regions around an attack.

In a linear region the most confident attack is the optimum of an LP (see the engine's polish). To
get from region to region, most neurons keep their signs and a random share of them is set free: the
relaxation of what is left is a small LP, and its optimum lies in a promising region nearby.

To get anywhere without an input to begin with, dive: solve the relaxation, decide the clearest of
the signs that it leaves open, solve it again, and so on.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from vhagar.attack.keeper import AttackFound, Keeper
from vhagar.attack.polish import polish, proposed
from vhagar.errors import SolverFailure
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.layerwise import TwinBounds, quick_bounds
from vhagar.relaxation.lp.region_model import RegionModel

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# The smallest and the largest share of the neurons that is set free.
_LEAST_FREE, _MOST_FREE = 0.015, 0.9
_MOST_CONTEXTS = 16
# How often another value of a piece's one parameter is tried, and how far away at least.
_OTHER_VALUE, _NEAREST_VALUE = 0.2, 0.01
# How often a dive decides signs, which share of the open ones, and how much chance has a say in it.
_MOST_LEVELS, _DECIDED, _CHANCE = 8, 0.5, 0.3
# Of the largest: what counts as no mass on one side of a sign.
_NO_MASS = 1e-7


class Regions:
    """LPs of pieces and goals, and what is found with them."""

    def __init__(self, keeper: Keeper, rng: np.random.Generator) -> None:
        self._keeper = keeper
        self._problem = keeper.problem
        self._rng = rng
        self._bounds: OrderedDict[tuple[int, float | None], TwinBounds] = OrderedDict()
        self._region_models: OrderedDict[tuple[int | None, int, float | None], RegionModel] = (
            OrderedDict()
        )

    def polished(
        self, goal: int | None, root: int, x: Array, parameters: Array
    ) -> AttackFound | None:
        """The best attack of the region of an input, and of those it leads to."""
        found: list[AttackFound] = []

        def judge(x: Array, parameters: Array) -> float | None:
            attack = self._keeper.judge(goal, root, x, parameters)
            if attack is None:
                return None
            found.append(attack)
            return attack.confidence

        with contextlib.suppress(SolverFailure):  # then nothing is found here
            polish(self._context(goal, root, parameters), x, parameters, judge)
        return max(found, key=lambda attack: attack.confidence, default=None)

    def dived(self, goal: int | None, root: int, parameters: Array) -> AttackFound | None:
        """Where a dive from the relaxation without any sign decided ends."""
        with contextlib.suppress(SolverFailure):
            return self._dive(self._context(goal, root, parameters), goal, root)
        return None

    def _dive(self, context: RegionModel, goal: int | None, root: int) -> AttackFound | None:
        cut = np.zeros(0, dtype=np.int64)
        for _ in range(_MOST_LEVELS):
            context.simplex.switch_off(cut)
            answer = context.simplex.solve()
            if answer.primal is None or answer.objective <= 0:
                return None
            proposal = proposed(context, answer.primal)
            more = self._disliked(context, answer.primal)
            if not len(more):
                break
            cut = np.union1d(cut, more)
        return self.polished(goal, root, *proposal)

    def _disliked(self, context: RegionModel, primal: Array) -> NDArray[np.int64]:
        """The columns on the other side of the open signs that are clearest in an LP solution."""
        weights = context.model.weights
        place, size = _places(context)
        if not size:
            return place
        lambdas = np.maximum(primal[weights.column], 0.0)
        values = (weights.s, weights.t)

        def mass(side: int) -> Array:
            """On one side of each neuron's sign, in both copies."""
            parts = (lambdas * np.maximum(side * copy, 0.0) for copy in values)
            return np.stack([np.bincount(place, part, size) for part in parts])

        positive, negative = mass(1), mass(-1)
        total = positive + negative
        open_ = np.minimum(positive, negative) > _NO_MASS * total.max()
        chance = np.exp(_CHANCE * self._rng.normal(size=total.shape))
        clear = chance * abs(positive - negative) / np.maximum(total, 1e-300)
        ranked = np.sort(clear[open_])[::-1]
        if not len(ranked):
            return ranked.astype(np.int64)
        decided = open_ & (clear >= ranked[int(_DECIDED * (len(ranked) - 1))])
        cut = np.zeros(len(place), dtype=np.bool_)
        for copy, v in enumerate(values):
            likes_positive = (positive > negative)[copy][place]
            cut |= decided[copy][place] & np.where(likes_positive, v < 0, v > 0)
        return np.unique(weights.column[cut])

    def around(
        self,
        goal: int | None,
        root: int,
        x: Array,
        parameters: Array,
        beyond: float = -np.inf,
    ) -> AttackFound | None:
        """An attack near an input, if one is found; not where none can be `beyond` a confidence."""
        piece = self._problem.pieces[root]
        if _parameter_is_fixed(piece) and self._rng.random() < _OTHER_VALUE:
            return self.polished(goal, root, x, self._other_value(piece, parameters))
        with contextlib.suppress(SolverFailure):
            context = self._context(goal, root, parameters)
            cut = self._outside(context, x, parameters)
            return self._from_lp(context, goal, root, cut, beyond)
        return None

    def _from_lp(
        self,
        context: RegionModel,
        goal: int | None,
        root: int,
        cut: NDArray[np.int64],
        beyond: float = -np.inf,
    ) -> AttackFound | None:
        context.simplex.switch_off(cut)
        answer = context.simplex.solve()
        if answer.primal is None or answer.objective <= beyond:
            return None
        return self.polished(goal, root, *proposed(context, answer.primal))

    def _outside(self, context: RegionModel, x: Array, parameters: Array) -> NDArray[np.int64]:
        """The columns on the other side of the signs that are kept."""
        weights, network = context.model.weights, self._problem.network
        x_p = context.piece.apply(x[None], parameters[None])
        place, size = _places(context)
        low, high = np.log(_LEAST_FREE), np.log(_MOST_FREE)
        free = np.exp(self._rng.uniform(low, high))
        kept = self._rng.random((2, size)) > free
        if self._rng.random() < 0.5:  # both copies of a neuron alike
            kept[1] = kept[0]
        cut = np.zeros(len(place), dtype=np.bool_)
        for keep, inputs, values in ((kept[0], x[None], weights.s), (kept[1], x_p, weights.t)):
            entering, _ = network.preactivations(inputs)
            active = np.concatenate([layer[0] > 0 for layer in entering] or [np.zeros(0, bool)])
            cut |= keep[place] & np.where(active[place], values < 0, values > 0)
        return np.unique(weights.column[cut])

    def _other_value(self, piece: AbstractPiece, parameters: Array) -> Array:
        """An end of the parameter's range, or something near what it is."""
        low, high = piece.parameter_bounds
        kind = self._rng.random()
        if kind < 0.25:
            return low if kind < 0.125 else high
        size = np.exp(self._rng.uniform(np.log(_NEAREST_VALUE), 0.0))
        return piece.project(parameters + size * (high - low) * self._rng.normal())

    def _context(self, goal: int | None, root: int, parameters: Array) -> RegionModel:
        piece = self._problem.pieces[root]
        value = float(parameters[0]) if _parameter_is_fixed(piece) else None
        key = (goal, root, value)
        if key not in self._region_models:
            bounds = self._bounds_of(root, value)
            self._region_models[key] = RegionModel(self._problem, bounds, goal)
        self._region_models.move_to_end(key)
        if len(self._region_models) > _MOST_CONTEXTS:
            self._region_models.popitem(last=False)
        return self._region_models[key]

    def _bounds_of(self, root: int, value: float | None) -> TwinBounds:
        """Bounds of a piece, the same for every goal."""
        key, piece = (root, value), self._problem.pieces[root]
        if key not in self._bounds:
            if value is not None:
                piece = piece.fixed_at(value)
            self._bounds[key] = quick_bounds(self._problem.network, piece)
        self._bounds.move_to_end(key)
        if len(self._bounds) > _MOST_CONTEXTS:
            self._bounds.popitem(last=False)
        return self._bounds[key]


def _places(context: RegionModel) -> tuple[NDArray[np.int64], int]:
    """For each weight column its neuron, counted through all layers; and how many there are."""
    weights = context.model.weights
    ends = np.cumsum([0, *(len(layer) for layer in context.bounds.hexagons)])
    return ends[weights.layer] + weights.neuron, int(ends[-1])


def _parameter_is_fixed(piece: AbstractPiece) -> bool:
    """Whether the piece is nonconvex unless its one parameter is fixed."""
    return piece.span is not None and not piece.convex
