"""The plausible witness: near a data set, and nearly as confident as the best witness.

The most confident witness mostly looks like no input that anybody has seen. Many others are nearly
as confident. In one linear region, that of them which is nearest to a given input is found by an
LP: it minimises the sum of all absolute differences, each as a part of the entry's range, subject
to a least confidence. To move between regions, most neurons keep their signs and a random share is
freed, as in `region_search.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.attack.linear_regions import (
    Signs,
    other_parts,
    outside_region,
    parameter_is_fixed,
    proposed,
    randomly_kept,
    signs_at,
)
from vhagar.errors import SolverFailure
from vhagar.network import confidence
from vhagar.perturbation import AbstractPiece, Domain
from vhagar.perturbation.domain.parts import at_whole_numbers
from vhagar.problem import Problem
from vhagar.reduction import REDUCTIONS, reduce_problem
from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.relaxation.starts import score_size
from vhagar.result import Witness
from vhagar.result.witness import RestoredCheck
from vhagar.runtime.deadline import NEVER, Deadline, OutOfTime
from vhagar.solver.simplex import Simplex

# Inputs of the data set to approach by a few regions each: those nearest to the witness. Then the
# most promising one, and at most how many inputs are approached in earnest.
# Measured: PERFORMANCE.md, "a witness near the data".
_STARTS, _MORE = 6, 3
# Regions that are tried at first and in earnest, and the smallest and largest share of neurons that
# are freed.
_FEW, _ROUNDS = 8, 40
_LEAST_FREE, _MOST_FREE = 0.015, 0.5
# Target margin, and more than the least confidence: both relative to the largest score.
_MARGIN, _SPARE = 1e-4, 1e-6
# A region must be nearer by this share.
_NEARER = 1e-4
# Share of the time that is left that one path may take; its end has yet to be checked.
_WALK = 0.3
# Points of a path that are checked at its end, the last one first.
_LAST = 4


@dataclass(frozen=True, eq=False)
class _Point:
    """An input and parameters of the reduced problem, and the distance to the input aimed at."""

    x: Array
    parameters: Array
    distance: float = np.inf
    witness: Witness | None = None


def plausible_witness(
    problem: Problem,
    witness: Witness,
    inputs: Array,
    share: float,
    seed: int = 0,
    deadline: Deadline = NEVER,
) -> Witness | None:
    """A checked witness near one of the inputs `(count, size)`, with the target and the piece of
    the given one and at least a share of its confidence; None if none is found.

    Whole numbers, and a parameter without which the piece is convex, are those of the given one.
    """
    if not len(inputs) or witness.piece_number is None or witness.target is None:
        return None
    try:
        search = _Approach(problem, witness, share, seed, deadline)
        return search.run(inputs)
    except (SolverFailure, OutOfTime):  # the given witness is all there is
        return None


class _Approach:
    """Approaches inputs by LPs of linear regions; whatever it returns was checked."""

    def __init__(
        self, problem: Problem, witness: Witness, share: float, seed: int, deadline: Deadline
    ) -> None:
        reduced = reduce_problem(problem, REDUCTIONS)
        assert witness.piece_number is not None
        assert witness.target is not None
        self._target, self._piece_index = witness.target, witness.piece_number
        self._check = RestoredCheck(reduced)
        self._least = share * witness.confidence
        self._rng = np.random.default_rng(seed)
        self._deadline = deadline
        x, parameters = witness.x.reshape(-1), np.array(witness.choice)
        self._given = _Point(x, parameters)
        piece = _convex_piece(reduced.problem.pieces[self._piece_index], x, parameters)
        bounds = quick_bounds(reduced.problem.network, piece, should_stop=deadline.check)
        region_model = RegionModel(reduced.problem, bounds, self._target, deadline=deadline)
        self._scale = _scale(problem.domain)
        self._model = _NearestModel(region_model, self._scale, self._least)
        self._lead = _Leads(reduced.problem, region_model.piece, self._target)

    def run(self, inputs: Array) -> Witness | None:
        """The nearest witness that is found on the way to a few of the inputs."""
        first = self._order(self._given.x, inputs)[:_STARTS].tolist()
        paths = {place: self._walk(self._given, inputs[place], _FEW) for place in first}
        best, seen = self._given, set[int]()
        places = sorted(paths, key=lambda place: paths[place][-1].distance)
        for _ in range(_MORE):
            # The most promising one; then whichever input is nearest to what was found.
            place = int(self._order(best.x, inputs)[0]) if best.witness else places[len(seen)]
            if place in seen or self._deadline.passed:
                break
            seen.add(place)
            start = best if best.witness else paths[place][-1]
            found = self._approach(start, inputs[place])
            if found is not None and found.distance < best.distance:
                best = found
            elif best.witness is not None or len(seen) == len(places):
                break
        return best.witness

    def _distance(self, x: Array, y: Array) -> float:
        return float(abs(x - y) @ self._scale)

    def _order(self, x: Array, inputs: Array) -> NDArray[np.int64]:
        """The inputs, nearest first."""
        return np.argsort(abs(inputs - x) @ self._scale, kind="stable")

    def _approach(self, start: _Point, y: Array) -> _Point | None:
        """The checked witness at the end of a path towards an input."""
        path = self._walk(start, y, _ROUNDS)
        for point in path[: -_LAST - 1 : -1]:
            found = self._checked(point, y)
            if found is not None:
                return found
        return None

    def _walk(self, start: _Point, y: Array, rounds: int) -> list[_Point]:
        """Go from an attack towards an input, from one linear region to the next.

        A zonotope is left to the end, because its LPs take ten times as long.
        """
        path = [replace(start, distance=self._distance(start.x, y))]
        self._model.aim_at(y)
        # What is found counts only once it is checked, which takes time, too.
        enough = self._deadline.sooner(_WALK * self._deadline.left)
        for k in range(rounds):
            if enough.passed:
                break
            shares = np.log(_LEAST_FREE), np.log(_MOST_FREE)
            free = float(np.exp(self._rng.uniform(*shares))) if k else 0.0
            found = self._step(path[-1], y, free)
            path += [] if found is None else [found]
        return path

    def _step(self, best: _Point, y: Array, free: float) -> _Point | None:
        """A nearer attack from a relaxation in which a share of all neurons is free."""
        point, kept = best, randomly_kept(self._model.neurons, free, self._rng)
        for signs in (kept, None):  # the relaxation's solution may be no attack; its region has one
            proposal = self._model.nearest(point, best.distance, signs)
            if proposal is None:
                return None
            point = _Point(*proposal, self._distance(proposal[0], y))
            if point.distance < best.distance and self._lead.reaches(point, self._least):
                return point
        return None

    def _checked(self, point: _Point, y: Array) -> _Point | None:
        """The nearest checked witness of the region around a point, in all of the domain."""
        proposal = self._model.nearest(point, np.inf, whole_domain=True)
        if proposal is None:
            return None
        verdict = self._check(self._target, proposal[0], self._piece_index, proposal[1])
        if not isinstance(verdict, Witness) or verdict.confidence < self._least or verdict.tie:
            return None
        x = verdict.x.reshape(-1)
        return _Point(x, proposal[1], self._distance(x, y), verdict)


class _NearestModel:
    """The lambda-LP with the distance to an input as its objective."""

    def __init__(self, region_model: RegionModel, scale: Array, least: float) -> None:
        self._region_model = region_model
        model, size = region_model.model.model, len(scale)
        x = region_model.model.inputs.x
        width = np.where(scale > 0, 1.0 / np.where(scale > 0, scale, 1.0), 0.0)
        more, less = (model.add_columns(np.zeros(size), 2 * width) for _ in range(2))
        every = np.arange(x.matrix.shape[1])
        blocks = [(every, x.matrix), (more, -1.0), (less, 1.0)]
        self._rows = model.add_rows(blocks, 0.0, 0.0)
        self._nearness = int(model.add_columns(-2.0 * size, 0.0)[0])
        one = np.ones((1, 1))
        model.add_rows(
            [(more, scale[None]), (less, scale[None]), (np.array([self._nearness]), one)], 0.0, 0.0
        )
        margin = score_size(region_model.problem.network, region_model.piece)
        arrays, lambdas = model.arrays(), region_model.model
        low, columns = arrays.row_lower.copy(), arrays.column_lower.copy()
        low[lambdas.target_rows] += _MARGIN * margin
        columns[lambdas.delta] = least + _SPARE * margin
        self._arrays = replace(arrays, row_lower=low, column_lower=columns)
        self._simplexes: dict[int, Simplex] = {}

    def aim_at(self, y: Array) -> None:
        """Minimise the distance to this input from now on."""
        ends = y - self._region_model.model.inputs.x.constant
        low, high = self._arrays.row_lower.copy(), self._arrays.row_upper.copy()
        low[self._rows] = high[self._rows] = ends
        self._arrays = replace(self._arrays, row_lower=low, row_upper=high)
        self._simplexes.clear()

    @property
    def neurons(self) -> int:
        return int(self._region_model.bounds.offsets[-1])

    def nearest(
        self,
        point: _Point,
        nearer_than: float,
        kept: Signs | None = None,
        whole_domain: bool = False,
    ) -> tuple[Array, Array] | None:
        """The nearest input around a given one in which some neurons, or all, keep their signs.

        None if none is nearer than a distance. A zonotope counts only with `whole_domain`.
        """
        model = self._region_model
        cut = outside_region(model, signs_at(model, point.x, point.parameters), kept)
        if kept is None:
            image = model.piece.apply(point.x[None], point.parameters[None])[0]
            cut = np.unique(np.concatenate([cut, other_parts(model, image)]))
        left_out = np.zeros(0, dtype=np.int64) if whole_domain else model.model.region_rows
        simplex = self._simplexes.get(len(left_out))
        if simplex is None:
            simplex = Simplex(self._arrays, self._nearness, left_out, model.deadline)
            self._simplexes[len(left_out)] = simplex
        simplex.switch_off(cut)
        limit = -(1 - _NEARER) * nearer_than
        answer = simplex.solve(enough=limit)
        if not answer.optimal or answer.primal is None or answer.objective < limit:
            return None
        return proposed(model, answer.primal, of_region=whole_domain)


class _Leads:
    """What a plain forward pass says of a pair, before it is checked."""

    def __init__(self, problem: Problem, piece: AbstractPiece, target: int) -> None:
        self._problem, self._piece, self._target = problem, piece, target

    def reaches(self, point: _Point, least: float) -> bool:
        """Whether a pair seems to be a witness of at least this confidence."""
        x_p = self._piece.apply(point.x[None], point.parameters[None])
        scores = self._problem.network.forward(np.concatenate([point.x[None], x_p]))
        own = confidence(scores[:1], self._problem.source)[0]
        return bool(own >= least and confidence(scores[1:], self._target)[0] > 0)


def _convex_piece(piece: AbstractPiece, x: Array, parameters: Array) -> AbstractPiece:
    """The part of a piece in which everything that is left to choose is in its LP."""
    if parameter_is_fixed(piece):
        piece = piece.fixed_at(float(parameters[0]))
    part = at_whole_numbers(piece.domain, x)
    return piece if part is None else piece.within(part)


def _scale(domain: Domain) -> Array:
    """The weight of each entry's difference: 1 is its whole range."""
    width = domain.high - domain.low
    return np.where(width > 0, 1.0 / np.where(width > 0, width, 1.0), 0.0)
