"""The primal heuristic: from an LP's solution to the best input of a linear region.

With the signs of all neurons decided in both copies, the lambda-LP is exact: its optimum is the
most confident attacked input of the region, from which better regions are reached
(`best_of_region.py`). The signs are those that the solution gives its neurons and, where that leads
nowhere, those of the network's own forward pass at the solution's input. The two differ where the
relaxation does: deep in the tree the solution's are mostly the better ones. A small margin is asked
for, so that float32 agrees.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from vhagar.array_types import Array
from vhagar.attack.best_of_region import Found, IsOver, Judge, best_of_region
from vhagar.attack.linear_regions import Signs, other_parts, proposed
from vhagar.relaxation.lp.decisions import PIXELS, Decision
from vhagar.relaxation.lp.region_model import RegionModel

# Most linear regions that one polish visits.
_MOST_ROUNDS = 4
# Pre-activation that a thorough polish treats as 0, relative to the neuron's range, and the most
# neurons that it flips.
_NEARLY_ZERO, _MOST_FLIPS = 1e-6, 12


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
    should_stop: IsOver = lambda: False,
) -> float:
    """Look for a witness near an input; returns the best confidence found, or 0.

    If `signs` are given, their linear region comes first.

    The piece must be convex once the sides of its pixels are decided, and its whole numbers fixed:
    then everything that is left to choose is in its LP. Where neurons are nearly 0 at the input,
    `decisions` say on which side to look; a thorough polish also tries the other side. After
    `most_work` iterations, or if `should_stop()`, no other region is visited. The LP of a region
    stops once it is clear that no input there is more confident than `known`.
    """
    best = judge(x, parameters) or 0.0
    most = region_model.polish_work + most_work

    def is_over() -> bool:
        enough = region_model.polish_work >= most
        return enough or region_model.deadline.passed or should_stop()

    if signs is not None:
        found = _best_with_signs(region_model, x, parameters, judge, known, signs, is_over)
        if found is not None and found[0] > best:
            best, x, parameters = found
    for _ in range(_MOST_ROUNDS):
        found = _best_of_regions(
            region_model, x, parameters, judge, thorough, decisions, known, is_over
        )
        if found is None:
            break
        confidence, x, parameters = found
        if confidence <= best * (1 + 1e-6):
            break
        best = confidence
        if is_over():
            break
    return best


def believed_signs(region_model: RegionModel, primal: Array) -> Signs:
    """Which pre-activations are positive in an LP's solution, in both copies.

    A neuron that the LP does not tie to its inputs has the sign that it has at the solution's
    input.
    """
    weights, offsets = region_model.model.weights, region_model.bounds.offsets
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
    is_over: IsOver,
) -> Found | None:
    """The best witness of the region with the given signs; pixels have those of the input."""
    x_p = region_model.piece.apply(x[None], parameters[None])
    scores = region_model.problem.network.forward(x[None])
    size = max(float(abs(scores).max()), 1e-30)
    parts = other_parts(region_model, x_p[0])
    return best_of_region(region_model, signs, parts, size, judge, known, is_over)


def _best_of_regions(
    region_model: RegionModel,
    x: Array,
    parameters: Array,
    judge: Judge,
    thorough: bool,
    decisions: tuple[Decision, ...],
    known: float,
    is_over: IsOver,
) -> Found | None:
    piece, network = region_model.piece, region_model.problem.network
    x_p = piece.apply(x[None], parameters[None])
    first, scores = network.preactivations(x[None])
    second, _ = network.preactivations(x_p)
    size = max(float(abs(scores).max()), 1e-30)
    parts = other_parts(region_model, x_p[0])
    best: Found | None = None
    for states in _neighbourhood(region_model, first, second, thorough, decisions):
        found = best_of_region(region_model, states, parts, size, judge, known, is_over)
        if found is not None and (best is None or found[0] > best[0]):
            best = found
        if is_over():
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
    offsets = region_model.bounds.offsets
    for decision in decisions:
        if decision.layer == PIXELS:
            continue
        k = int(offsets[decision.layer]) + decision.neuron
        equal = region_model.bounds.hexagons[decision.layer].equal[decision.neuron]
        for copy in (0, 1) if equal else (decision.copy,):
            if near[copy][k]:
                states[copy][k] = decision.positive
    return states
