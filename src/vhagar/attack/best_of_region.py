"""The most confident attacked input of one linear region, and of the regions that it leads to.

At the optimum of a region's LP some pre-activations are 0: other regions with the same input begin
there. The LP's multipliers say in which of them the confidence rises further, so that a path leads
from region to region, upwards all the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array
from vhagar.attack.linear_regions import Signs, better_signs, outside_region, proposed
from vhagar.relaxation.arrays import distinct
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.solver.lp_answer import LpAnswer, LpStatus
from vhagar.solver.simplex import Simplex

# Target margins to ask for, one after the other, relative to the largest score.
_MARGINS = (1e-6, 1e-5, 1e-4, 1e-3)
# Iterations of the simplex method for one region, per row and in any case; then interior points.
# Measured: 12,000 iterations in 3 s, or 0.3 s by interior points, with 1,334 rows (PERFORMANCE.md).
_ITERATIONS_PER_ROW, _LEAST_ITERATIONS = 2, 1000
# A first solve has so many times as many.
_FROM_NOTHING = 2
# After this many LPs that took the simplex method too long, and unless it has solved more of them,
# all regions of a model are solved by interior points.
# Measured: fmnist_conv1, 1,400 rows: 0.13 s by interior points, 0.02 to 0.05 s from a basis.
_HARD_REGIONS = 3
# The LP of a region stops below this share of the best confidence: regions beside it may be better.
# Measured: conv1 and fmnist_conv1, 0.97 gains more than 0, 0.9 and 1 in two of three questions.
_PROMISING = 0.97
# Most regions that are visited one beside the other, and the relative gain that is worth the next.
_MOST_STEPS, _WORTH_A_STEP = 60, 1e-4
# Judges an input and parameters; returns the confidence if it is a witness.
Judge = Callable[[Array, Array], float | None]
# Whether enough has been done.
IsOver = Callable[[], bool]
# A witness: its confidence, input and parameters.
Found = tuple[float, Array, Array]


def best_of_region(
    region_model: RegionModel,
    signs: Signs,
    parts: NDArray[np.int64],
    size: float,
    judge: Judge,
    known: float,
    is_over: IsOver,
) -> Found | None:
    """The best witness of a region, and of better regions that it leads to, until it is over."""
    cut = distinct(np.concatenate([outside_region(region_model, signs), parts]))
    # While there is no witness, a region with a negative optimum has none: less a little, for ties.
    enough = _PROMISING * known if known > 0 else -_MARGINS[-1] * size
    for margin in _MARGINS:
        answer = _solve_with_margin(region_model, cut, margin * size, enough)
        if known <= 0 and _is_below(answer, enough):
            return None
        if answer.status is not LpStatus.OPTIMAL or answer.primal is None:
            break
        found = _judged(region_model, answer.primal, judge)
        if found is not None:
            path = _beside(region_model, signs, parts, answer, margin * size, is_over)
            end = None if path is None else _judged(region_model, path, judge)
            return end or found
    # Where no margin is to be had, a tie may be.
    answer = _solve_with_margin(region_model, cut, 0.0, enough)
    if answer.status is not LpStatus.OPTIMAL or answer.primal is None:
        return None
    return _judged(region_model, answer.primal, judge)


def _judged(region_model: RegionModel, primal: Array, judge: Judge) -> Found | None:
    """The witness of a region's solution, if it is one."""
    pair = proposed(region_model, primal, of_region=True)
    confidence = judge(*pair)
    return None if confidence is None else (confidence, *pair)


def _beside(
    region_model: RegionModel,
    signs: Signs,
    parts: NDArray[np.int64],
    answer: LpAnswer,
    margin: float,
    is_over: IsOver,
) -> Array | None:
    """The solution at the end of a path of ever better regions, each beside the one before."""
    last: Array | None = None
    for _ in range(_MOST_STEPS):
        better = None if is_over() else better_signs(region_model, signs, answer)
        if better is None:
            break
        signs, worth = better, answer.objective * (1 + _WORTH_A_STEP)
        cut = distinct(np.concatenate([outside_region(region_model, signs), parts]))
        answer = _solve_with_margin(region_model, cut, margin, worth)
        if answer.status is not LpStatus.OPTIMAL or answer.objective <= worth:
            break
        last = answer.primal
    return last


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
    limit *= _FROM_NOTHING if simplex.from_nothing else 1
    answer = simplex.solve(None if simplex.by_interior_point else limit, enough=enough)
    region_model.polish_work += answer.iterations
    return answer
