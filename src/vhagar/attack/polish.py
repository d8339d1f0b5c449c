"""The primal heuristic: from an LP's solution to the best input of a linear region.

With the signs of all neurons decided in both copies, the lambda-LP is exact: its optimum is the
most confident attacked input of the region. The signs are those that the solution gives its neurons
and, where that leads nowhere, those of the network's own forward pass at the solution's input. The
two differ where the relaxation does: deep in the tree the solution's are mostly the better ones. A
small margin is asked for, so that float32 agrees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.attack.linear_regions import Signs, neuron_offsets, other_parts, outside_region
from vhagar.perturbation.nearest import nearest_parameters
from vhagar.relaxation.arrays import distinct
from vhagar.relaxation.lp.decisions import PIXELS, Decision
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.solver.lp_answer import LpAnswer, LpStatus
from vhagar.solver.simplex import Simplex

# Target margins to ask for, one after the other, relative to the largest score.
_MARGINS = (1e-6, 1e-5, 1e-4, 1e-3)
# Most linear regions that one polish visits.
_MOST_ROUNDS = 4
# Iterations of the simplex method for one region, per row and in any case; then interior points.
# Measured: 12,000 iterations in 3 s, or 0.3 s by interior points, with 1,334 rows (PERFORMANCE.md).
_ITERATIONS_PER_ROW, _LEAST_ITERATIONS = 2, 1000
# After this many LPs that took the simplex method too long, and unless it has solved more of them,
# all regions of a model are solved by interior points.
# Measured: fmnist_conv1, 1,400 rows: 0.13 s by interior points, 0.02 to 0.05 s from a basis.
_HARD_REGIONS = 3
# Pre-activation that a thorough polish treats as 0, relative to the neuron's range, and the most
# neurons that it flips.
_NEARLY_ZERO, _MOST_FLIPS = 1e-6, 12

# Judges an input and parameters; returns the confidence if it is a witness.
Judge = Callable[[Array, Array], float | None]


def polish(
    region_model: RegionModel,
    x: Array,
    parameters: Array,
    judge: Judge,
    thorough: bool = False,
    decisions: tuple[Decision, ...] = (),
    most_work: float = math.inf,
    known: float = 0.0,
    signs: Signs | None = None,
) -> float:
    """Look for a witness near an input; returns the best confidence found, or 0.

    If `signs` are given, their linear region comes first.

    The piece must be convex once the sides of its pixels are decided, and its whole numbers fixed:
    then everything that is left to choose is in its LP. Where neurons are nearly 0 at the input,
    `decisions` say on which side to look; a thorough polish also tries the other side. After
    `most_work` iterations no other region is visited. The LP of a region stops once it is clear
    that no input there is more confident than `known`.
    """
    best = judge(x, parameters) or 0.0
    most = region_model.polish_work + most_work
    if signs is not None:
        found = _best_with_signs(region_model, x, parameters, judge, known, signs)
        if found is not None and found[0] > best:
            best, x, parameters = found
    for _ in range(_MOST_ROUNDS):
        found = _best_of_regions(
            region_model, x, parameters, judge, thorough, decisions, most, known
        )
        if found is None:
            break
        confidence, x, parameters = found
        if confidence <= best * (1 + 1e-6):
            break
        best = confidence
        if region_model.polish_work >= most or region_model.deadline.passed:
            break
    return best


def proposed(
    region_model: RegionModel, primal: Array, of_region: bool = False
) -> tuple[Array, Array]:
    """The input of an LP solution, and parameters that go with it.

    Unless a zonotope is small, only an LP of a single linear region has its rows. The inputs of
    others are mostly outside, and stay there: their regions are better than those of the nearest
    inputs inside.
    """
    inputs, domain = region_model.model.inputs, region_model.piece.domain
    x, inside = inputs.x.value(primal), of_region or not len(region_model.model.region_rows)
    if inputs.zonotope is None:
        x = domain.project(x)
    elif inside and domain.zonotope is not None:
        domain.zonotope.note(primal[inputs.zonotope.coordinates])
        x = domain.project(x)
    else:
        x = domain.clipped(x)
    if inputs.parameters is not None:
        return x, region_model.piece.project(inputs.parameters.value(primal))
    assert inputs.x_p is not None  # one of the two is always there
    return x, nearest_parameters(region_model.piece, x, inputs.x_p.value(primal))


def believed_signs(region_model: RegionModel, primal: Array) -> Signs:
    """Which pre-activations are positive in an LP's solution, in both copies.

    A neuron that the LP does not tie to its inputs has the sign that it has at the solution's
    input.
    """
    weights, offsets = region_model.model.weights, neuron_offsets(region_model)
    tied = np.zeros(offsets[-1], dtype=np.bool_)
    tied[offsets[weights.layer] + weights.neuron] = True
    if region_model.lazy_rows is not None:
        for layer, neuron in region_model.lazy_rows.places:
            tied[offsets[layer] + neuron] = False
    lambdas = np.maximum(primal[weights.column], 0.0)
    x, parameters = proposed(region_model, primal)
    inputs = x[None], region_model.piece.apply(x[None], parameters[None])
    found = []
    for values, image in zip((weights.s, weights.t), inputs, strict=True):
        place = offsets[weights.layer] + weights.neuron
        believed = np.bincount(place, lambdas * values, int(offsets[-1]))
        entering, _ = region_model.problem.network.preactivations(image)
        actual = np.concatenate([np.zeros(0), *(layer[0] for layer in entering)])
        found.append(np.where(tied, believed, actual) > 0)
    return found[0], found[1]


def _best_with_signs(
    region_model: RegionModel,
    x: Array,
    parameters: Array,
    judge: Judge,
    known: float,
    signs: Signs,
) -> tuple[float, Array, Array] | None:
    """The best witness of the region with the given signs; pixels have those of the input."""
    x_p = region_model.piece.apply(x[None], parameters[None])
    scores = region_model.problem.network.forward(x[None])
    size = max(float(abs(scores).max()), 1e-30)
    cut = np.concatenate([outside_region(region_model, signs), other_parts(region_model, x_p[0])])
    return _best_of_region(region_model, distinct(cut), size, judge, known)


def _best_of_regions(
    region_model: RegionModel,
    x: Array,
    parameters: Array,
    judge: Judge,
    thorough: bool,
    decisions: tuple[Decision, ...],
    most: float,
    known: float,
) -> tuple[float, Array, Array] | None:
    piece, network = region_model.piece, region_model.problem.network
    x_p = piece.apply(x[None], parameters[None])
    first, scores = network.preactivations(x[None])
    second, _ = network.preactivations(x_p)
    size = max(float(abs(scores).max()), 1e-30)
    parts = other_parts(region_model, x_p[0])
    best: tuple[float, Array, Array] | None = None
    for states in _neighbourhood(region_model, first, second, thorough, decisions):
        cut = np.concatenate([outside_region(region_model, states), parts])
        found = _best_of_region(region_model, distinct(cut), size, judge, known)
        if found is not None and (best is None or found[0] > best[0]):
            best = found
        if region_model.polish_work >= most or region_model.deadline.passed:
            break
    return best


def _neighbourhood(
    region_model: RegionModel,
    first: list[Array],
    second: list[Array],
    thorough: bool,
    decisions: tuple[Decision, ...],
) -> Iterator[Signs]:
    """Activation patterns of both copies: that of the input, then those around it."""
    none = np.zeros(0)
    s, t = (np.concatenate([none, *(layer[0] for layer in copy)]) for copy in (first, second))
    sizes = np.concatenate([none, *(h.magnitude for h in region_model.bounds.hexagons)])
    near_s, near_t = (abs(values) <= _NEARLY_ZERO * sizes for values in (s, t))
    decided = _as_decided(region_model, decisions, (s > 0, t > 0), (near_s, near_t))
    yield decided
    if not thorough:
        return
    if ((s > 0) != decided[0]).any() or ((t > 0) != decided[1]).any():
        yield s > 0, t > 0
    if near_s.any() or near_t.any():
        yield (s > 0) | near_s, (t > 0) | near_t
        yield (s > 0) & ~near_s, (t > 0) & ~near_t
    flips = 0 if region_model.is_large else _MOST_FLIPS  # each would take as long as many nodes
    for k in np.flatnonzero(near_s | near_t)[:flips]:
        for active_s, active_t in ((True, True), (True, False), (False, True), (False, False)):
            states = (s > 0).copy(), (t > 0).copy()
            states[0][k] = active_s if near_s[k] else states[0][k]
            states[1][k] = active_t if near_t[k] else states[1][k]
            yield states


def _as_decided(
    region_model: RegionModel,
    decisions: tuple[Decision, ...],
    states: Signs,
    near: Signs,
) -> Signs:
    """The pattern in which neurons that are nearly 0 have the signs that were decided."""
    offsets = neuron_offsets(region_model)
    for decision in decisions:
        if decision.layer == PIXELS:
            continue
        k = int(offsets[decision.layer]) + decision.neuron
        equal = region_model.bounds.hexagons[decision.layer].equal[decision.neuron]
        for copy in (0, 1) if equal else (decision.copy,):
            if near[copy][k]:
                states[copy][k] = decision.positive
    return states


def _best_of_region(
    region_model: RegionModel, cut: NDArray[np.int64], size: float, judge: Judge, known: float
) -> tuple[float, Array, Array] | None:
    # While there is no witness, a region with a negative optimum has none: less a little, for ties.
    enough = known if known > 0 else -_MARGINS[-1] * size
    for margin in _MARGINS:
        answer = _solve_with_margin(region_model, cut, margin * size, enough)
        if known <= 0 and _is_below(answer, enough):
            return None
        if answer.status is not LpStatus.OPTIMAL or answer.primal is None:
            break
        pair = proposed(region_model, answer.primal, of_region=True)
        confidence = judge(*pair)
        if confidence is not None:
            return confidence, *pair
    # Where no margin is to be had, a tie may be.
    answer = _solve_with_margin(region_model, cut, 0.0, enough)
    if answer.status is not LpStatus.OPTIMAL or answer.primal is None:
        return None
    pair = proposed(region_model, answer.primal, of_region=True)
    confidence = judge(*pair)
    return None if confidence is None else (confidence, *pair)


def _is_below(answer: LpAnswer, enough: float) -> bool:
    """Whether an optimum is below `enough`: a solver that begins there does not stop before."""
    optimal = answer.status is LpStatus.OPTIMAL
    return answer.status is LpStatus.ENOUGH or (optimal and answer.objective < enough)


def _solve_with_margin(
    region_model: RegionModel, cut: NDArray[np.int64], margin: float, enough: float
) -> LpAnswer:
    if region_model.outer_polisher is not None:
        answer = _solved(region_model, region_model.outer_polisher, cut, margin, enough)
        if answer.status is LpStatus.INFEASIBLE or _is_below(answer, enough):
            return replace(answer, status=LpStatus.ENOUGH)
    answer = _solved(region_model, region_model.polisher, cut, margin, enough)
    if not region_model.polisher.by_interior_point:
        hard = answer.status in (LpStatus.LIMIT, LpStatus.DOUBTFUL)
        region_model.hard_regions += hard
        region_model.solved_regions += not hard
        if hard:
            answer = _solved(region_model, region_model.interior, cut, margin, enough)
        # Mostly one region is hard and the next is not, and then interior points take much longer.
        if region_model.hard_regions >= max(_HARD_REGIONS, region_model.solved_regions):
            region_model.polisher.use_interior_point()
    return answer


def _solved(
    region_model: RegionModel,
    simplex: Simplex,
    cut: NDArray[np.int64],
    margin: float,
    enough: float,
) -> LpAnswer:
    """Solve the LP of a region with one of the model's solvers; it may stop below `enough`."""
    rows = region_model.model.target_rows
    simplex.switch_off(cut)
    simplex.require_rows(rows, region_model.model.arrays.row_lower[rows] + margin)
    limit = _ITERATIONS_PER_ROW * region_model.model.model.row_count + _LEAST_ITERATIONS
    answer = simplex.solve(None if simplex.by_interior_point else limit, enough=enough)
    region_model.polish_work += answer.iterations
    return answer
