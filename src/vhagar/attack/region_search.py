"""Large-neighbourhood search among linear regions.

In a linear region, the most confident attack is the optimum of an LP (see `best_of_region.py`). To
move between regions, most neurons keep their signs and a random share is freed: the relaxation is
then a small LP, whose optimum lies in a promising region nearby.

Without an attack to start from, dive: solve the relaxation, decide the clearest of the undecided
signs, solve again, and so on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.attack.incumbents import AttackFound, Incumbents
from vhagar.attack.linear_regions import (
    outside_region,
    parameter_is_fixed,
    proposed,
    randomly_kept,
    signs_at,
)
from vhagar.attack.polish import polish
from vhagar.errors import SolverFailure
from vhagar.perturbation import AbstractPiece, Domain
from vhagar.perturbation.domain.parts import at_whole_numbers
from vhagar.relaxation.arrays import distinct
from vhagar.relaxation.bounds_cache import RecentlyUsed
from vhagar.relaxation.layerwise import TwinBounds, quick_bounds
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.runtime.deadline import NEVER, Deadline

# The smallest and the largest share of the neurons to free.
# Measured: of larger shares hardly any LP leads to a better region (PERFORMANCE.md).
_LEAST_FREE, _MOST_FREE = 0.015, 0.3
# LPs to keep.
_MOST_MODELS = 16
# How often to try another value of a piece's one parameter, and its smallest relative distance.
_OTHER_VALUE, _NEAREST_VALUE = 0.2, 0.01
# A dive's largest depth, the share of the undecided signs to decide at each level, and the noise.
_MOST_LEVELS, _DECIDED, _NOISE = 8, 0.5, 0.3
# Mass that counts as none, relative to the largest.
_NO_MASS = 1e-7
# Work of one LP (iterations times entries of the model): a few seconds. Whatever takes longer is
# left to the search.
_WORK_OF_LP = 3e9
# Work of one polish, after which its path through regions ends: three such LPs.
_WORK_OF_POLISH = 1e10
# What a new model and its bounds take, in iterations of its LP. Measured: 430 to 1,400 of 2 ns for
# each entry, on mnist_3x10, mnist_3x50_nd and fmnist_conv1.
_ITERATIONS_OF_MODEL = 1000


@dataclass(frozen=True)
class _Place:
    """A piece, its one parameter if it is fixed, and a part of the domain with fixed numbers."""

    piece_index: int
    value: float | None
    part: Domain | None


class RegionSearch:
    """Searches linear regions by LPs, one for each piece and target; offers all that it finds."""

    def __init__(
        self,
        incumbents: Incumbents,
        rng: np.random.Generator,
        deadline: Deadline = NEVER,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._deadline, self._should_stop = deadline, should_stop
        self._incumbents = incumbents
        self._problem = incumbents.problem
        self._rng = rng
        self._bounds: RecentlyUsed[_Place, TwinBounds] = RecentlyUsed(_MOST_MODELS)
        self._region_models: RecentlyUsed[tuple[int | None, _Place], RegionModel]
        self._region_models = RecentlyUsed(_MOST_MODELS)
        # Of all LPs and their models, in simplex iterations times entries of the models.
        self.work = 0.0

    def polish(
        self,
        target: int | None,
        piece_index: int,
        x: Array,
        parameters: Array,
        beyond: float = 0.0,
    ) -> AttackFound | None:
        """The best attack in the region of an input and in the regions that it leads to.

        The LP of a region may stop once it is clear that no confidence there is above `beyond`.
        """
        found: list[AttackFound] = []

        def judge(x: Array, parameters: Array) -> float | None:
            attack = self._incumbents.offer(target, piece_index, x, parameters)
            if attack is None:
                return None
            found.append(attack)
            return attack.confidence

        with contextlib.suppress(SolverFailure):  # means that nothing is found here
            model = self._region_model(target, piece_index, parameters, x)
            before = model.polish_work
            most, stop = _WORK_OF_POLISH / model.entries, self._should_stop
            try:
                polish(model, x, parameters, judge, most_work=most, known=beyond, should_stop=stop)
            finally:  # a solver that fails has worked, too
                self._count(model, model.polish_work - before)
        return max(found, key=lambda attack: attack.confidence, default=None)

    def dive(self, target: int | None, piece_index: int, parameters: Array) -> AttackFound | None:
        """The attack, if any, to which a dive from the relaxation leads."""
        with contextlib.suppress(SolverFailure):
            return self._dive(
                self._region_model(target, piece_index, parameters), target, piece_index
            )
        return None

    def _dive(
        self, region_model: RegionModel, target: int | None, piece_index: int
    ) -> AttackFound | None:
        cut = np.zeros(0, dtype=np.int64)
        for _ in range(_MOST_LEVELS):
            region_model.simplex.switch_off(cut)
            answer = region_model.simplex.solve(_most_iterations(region_model))
            self._count(region_model, answer.iterations)
            if answer.primal is None or answer.objective <= 0:
                return None
            proposal = proposed(region_model, answer.primal)
            more = self._clearest_cuts(region_model, answer.primal)
            if not len(more):
                break
            cut = np.union1d(cut, more)
        return self.polish(target, piece_index, *proposal)

    def _clearest_cuts(self, region_model: RegionModel, primal: Array) -> NDArray[np.int64]:
        """The columns to fix at 0 to decide the undecided signs that the LP's solution favours."""
        weights = region_model.model.weights
        offsets = region_model.bounds.offsets
        neuron, size = offsets[weights.layer] + weights.neuron, int(offsets[-1])
        if not size:
            return neuron
        lambdas = np.maximum(primal[weights.column], 0.0)
        values = (weights.s, weights.t)

        def mass(side: int) -> Array:
            """The mass on one side of each neuron's sign, in both copies."""
            parts = (lambdas * np.maximum(side * copy, 0.0) for copy in values)
            return np.stack([np.bincount(neuron, part, size) for part in parts])

        positive, negative = mass(1), mass(-1)
        total = positive + negative
        undecided = np.minimum(positive, negative) > _NO_MASS * total.max()
        noise = np.exp(_NOISE * self._rng.normal(size=total.shape))
        clarity = noise * abs(positive - negative) / np.maximum(total, 1e-300)
        ranked = np.sort(clarity[undecided])[::-1]
        if not len(ranked):
            return ranked.astype(np.int64)
        decided = undecided & (clarity >= ranked[int(_DECIDED * (len(ranked) - 1))])
        cut = np.zeros(len(neuron), dtype=np.bool_)
        for copy, v in enumerate(values):
            favours_positive = (positive > negative)[copy][neuron]
            cut |= decided[copy][neuron] & np.where(favours_positive, v < 0, v > 0)
        return distinct(weights.column[cut])

    def search_around(
        self,
        target: int | None,
        piece_index: int,
        x: Array,
        parameters: Array,
        beyond: float = -np.inf,
    ) -> AttackFound | None:
        """An attack near an input, or None if the LP admits no confidence above `beyond`."""
        piece = self._problem.pieces[piece_index]
        if parameter_is_fixed(piece) and self._rng.random() < _OTHER_VALUE:
            return self.polish(target, piece_index, x, self._other_value(piece, parameters))
        with contextlib.suppress(SolverFailure):
            region_model = self._region_model(target, piece_index, parameters)
            region_model.simplex.switch_off(self._random_cuts(region_model, x, parameters))
            answer = region_model.simplex.solve(_most_iterations(region_model), enough=beyond)
            self._count(region_model, answer.iterations)
            if answer.primal is not None and answer.objective > beyond:
                near = proposed(region_model, answer.primal)
                return self.polish(target, piece_index, *near, max(beyond, 0.0))
        return None

    def _random_cuts(
        self, region_model: RegionModel, x: Array, parameters: Array
    ) -> NDArray[np.int64]:
        """The columns to fix at 0 so that a random part of the neurons keep their signs."""
        low, high = np.log(_LEAST_FREE), np.log(_MOST_FREE)
        free = np.exp(self._rng.uniform(low, high))
        count = int(region_model.bounds.offsets[-1])
        kept = randomly_kept(count, free, self._rng)
        return outside_region(region_model, signs_at(region_model, x, parameters), kept)

    def _other_value(self, piece: AbstractPiece, parameters: Array) -> Array:
        """An end of the parameter's range, or a value near the current one."""
        low, high = piece.parameter_bounds
        kind = self._rng.random()
        if kind < 0.25:
            return low if kind < 0.125 else high
        size = np.exp(self._rng.uniform(np.log(_NEAREST_VALUE), 0.0))
        return piece.project(parameters + size * (high - low) * self._rng.normal())

    def _region_model(
        self, target: int | None, piece_index: int, parameters: Array, x: Array | None = None
    ) -> RegionModel:
        """The model of a piece; with `x`, whose whole numbers are fixed."""
        piece = self._problem.pieces[piece_index]
        part = None if x is None else at_whole_numbers(piece.domain, x)
        value = float(parameters[0]) if parameter_is_fixed(piece) else None
        place = _Place(piece_index, value, part)
        key = (target, place)
        if key not in self._region_models:
            bounds = self._bounds_of(place)
            model = RegionModel(self._problem, bounds, target, deadline=self._deadline)
            self._region_models[key] = model
            self._count(model, _ITERATIONS_OF_MODEL)
        return self._region_models.used(key)

    def _count(self, region_model: RegionModel, iterations: int) -> None:
        self.work += float(iterations * region_model.entries)

    def _bounds_of(self, place: _Place) -> TwinBounds:
        """Bounds for a piece, shared by all targets."""
        if place not in self._bounds:
            piece = self._problem.pieces[place.piece_index]
            if place.value is not None:
                piece = piece.fixed_at(place.value)
            if place.part is not None:
                piece = piece.within(place.part)
            self._bounds[place] = quick_bounds(
                self._problem.network, piece, should_stop=self._deadline.check
            )
        return self._bounds.used(place)


def _most_iterations(region_model: RegionModel) -> int:
    """Iterations after which an LP is taken as it is."""
    return int(_WORK_OF_LP / region_model.entries)
