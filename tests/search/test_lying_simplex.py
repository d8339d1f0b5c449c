"""A simplex method that lies costs speed, never soundness."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from vhagar import Problem, Result, Status, max_confidence, verify
from vhagar.solver.lp_answer import LpAnswer, LpStatus
from vhagar.solver.simplex import Simplex

from ..marks import mostly_slow
from ..oracle.cases import KINDS, Case
from ..oracle.exact import Truth, exact_optimum, overall
from ..relaxation.samples import Rng
from .nodes import cases_of

HERE = {"workers": 1}
MOST_SOLVES = 20
# Perturbations whose pieces need no splitting close quickly when nobody lies.
CLOSING = ("linf", "occlusion", "patch", "translation", "rotation")

honest_solve = Simplex.solve
Lie = Callable[[LpAnswer, int, int, Rng], LpAnswer]


def _noise(rows: int, rng: Rng) -> np.ndarray:
    return 10.0 ** rng.integers(-3, 4, rows) * rng.normal(size=rows)


def _duals(change: Callable[[np.ndarray, Rng], np.ndarray]) -> Lie:
    """Other duals or rays, the rest as it is."""

    def lie(answer: LpAnswer, rows: int, columns: int, rng: Rng) -> LpAnswer:
        known = np.zeros(rows) if answer.duals is None else answer.duals
        return replace(answer, duals=change(known, rng))

    return lie


def _infeasible(ray: Callable[[int, Rng], np.ndarray | None]) -> Lie:
    return lambda answer, rows, columns, rng: LpAnswer(
        LpStatus.INFEASIBLE, ray(rows, rng), None, -math.inf, 1
    )


def _optimal(primal: Callable[[int, Rng], np.ndarray | None], own_duals: bool = True) -> Lie:
    def lie(answer: LpAnswer, rows: int, columns: int, rng: Rng) -> LpAnswer:
        duals = answer.duals if own_duals else None
        return LpAnswer(LpStatus.OPTIMAL, duals, primal(columns, rng), 1e6, 1)

    return lie


def _status(status: LpStatus) -> Lie:
    return lambda answer, rows, columns, rng: replace(answer, status=status)


LIES: dict[str, Lie] = {
    "random duals": _duals(lambda duals, rng: _noise(len(duals), rng)),
    "no duals": _duals(lambda duals, rng: np.zeros_like(duals)),
    "duals that are no numbers": _duals(lambda duals, rng: np.full_like(duals, np.nan)),
    "one dual that is no number": _duals(lambda duals, rng: np.append(duals[1:], np.nan)),
    "infinite duals": _duals(lambda duals, rng: np.full_like(duals, np.inf)),
    "duals a million times too large": _duals(lambda duals, rng: 1e6 * duals),
    "enormous duals": _duals(lambda duals, rng: 1e300 * duals),
    "duals of the wrong sign": _duals(lambda duals, rng: -duals),
    "shuffled duals": _duals(lambda duals, rng: rng.permutation(duals)),
    "bent duals": _duals(lambda duals, rng: duals * rng.uniform(0, 2, len(duals))),
    "infeasible, random ray": _infeasible(_noise),
    "infeasible, a ray of ones": _infeasible(lambda rows, rng: np.ones(rows)),
    "infeasible, no ray": _infeasible(lambda rows, rng: None),
    "infeasible, a ray of no numbers": _infeasible(lambda rows, rng: np.full(rows, np.nan)),
    "optimal, random primal": _optimal(lambda columns, rng: rng.normal(size=columns)),
    "optimal, a primal of no numbers": _optimal(lambda columns, rng: np.full(columns, np.nan)),
    "optimal, an infinite primal": _optimal(lambda columns, rng: np.full(columns, np.inf)),
    "optimal, an enormous primal": _optimal(lambda columns, rng: np.full(columns, 1e30)),
    "optimal, nothing else": _optimal(lambda columns, rng: None, own_duals=False),
    "always at its limit": _status(LpStatus.LIMIT),
    "always in doubt": _status(LpStatus.DOUBTFUL),
    "always infeasible": _status(LpStatus.INFEASIBLE),
    "always optimal": _status(LpStatus.OPTIMAL),
}


def lie_with(lie: Lie, monkeypatch: pytest.MonkeyPatch, seed: int, share: float = 1.0) -> None:
    """From now on a share of all answers are lies; Ctrl-C ends a search that they keep alive."""
    rng, count = np.random.default_rng([18, seed]), itertools.count()

    def solve(simplex: Simplex, *arguments: Any, **named: Any) -> LpAnswer:
        if next(count) >= MOST_SOLVES:
            raise KeyboardInterrupt
        answer = honest_solve(simplex, *arguments, **named)
        rows, columns = len(simplex._scaled.row_lower), len(simplex._scaled.column_lower)
        return lie(answer, rows, columns, rng) if rng.random() < share else answer

    monkeypatch.setattr(Simplex, "solve", solve)


@cache
def problem_of(case: Case) -> Problem:
    return case.problem()


@cache
def truths_of(case: Case) -> dict[int | None, Truth]:
    return exact_optimum(problem_of(case))


def require_sound(case: Case, result: Result) -> None:
    truths = truths_of(case)
    truth = overall(truths)
    for moment in result.history:
        assert Fraction(moment.lower) <= truth.high
        assert truth.low <= Fraction(moment.upper)
    for target, interval in result.targets.items():
        assert Fraction(interval.lower) <= truths[target].high
        assert truths[target].low <= Fraction(interval.upper)


@pytest.mark.parametrize("kind", CLOSING)
def test_without_lies_it_closes(kind: str) -> None:
    case = cases_of(kind)[0]
    result = verify(problem_of(case), timeout=20, **HERE)
    require_sound(case, result)
    assert overall(truths_of(case)).low > 0  # there is something to lie about
    assert result.status is Status.CLOSED


@pytest.mark.parametrize("name", mostly_slow(list(LIES), 3))
def test_lies_cost_no_soundness(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The perturbations take turns.
    kinds = np.roll(list(KINDS), list(LIES).index(name))[:4]
    for kind, share in zip(kinds, (1.0, 0.3, 1.0, 0.3), strict=True):
        case = cases_of(str(kind))[0]
        lie_with(LIES[name], monkeypatch, case.number, share)
        require_sound(case, verify(problem_of(case), **HERE))


def test_a_different_lie_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    every = list(LIES.values())

    def lie(answer: LpAnswer, rows: int, columns: int, rng: Rng) -> LpAnswer:
        return every[rng.integers(len(every))](answer, rows, columns, rng)

    for case in (cases_of(kind)[0] for kind in KINDS):
        lie_with(lie, monkeypatch, case.number, share=0.7)
        require_sound(case, verify(problem_of(case), **HERE))


def test_the_largest_confidence_stays_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(cases_of("linf")[0])
    ends = problem.domain.lower, problem.domain.upper
    truth = exact_optimum(
        Problem(problem.network, perturbation=None, source=problem.source, input_range=ends)
    )[None]
    for lie in LIES.values():
        lie_with(lie, monkeypatch, 7)
        result = max_confidence(problem.network, source=problem.source, input_range=ends, **HERE)
        assert Fraction(result.lower) <= truth.high
        assert truth.low <= Fraction(result.upper)
