"""What HiGHS does that a careless caller would turn into a wrong bound; one test for each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from fractions import Fraction

import highspy
import numpy as np
import pytest
from scipy import sparse

from vhagar.errors import SolverFailure
from vhagar.solver.backends import SolveStatus, highs
from vhagar.solver.backends.highs import HighsModel
from vhagar.solver.linear_model import LinearArrays, LinearModel

INFINITY = math.inf


def three_quarters(integer: bool) -> HighsModel:
    """The largest d in [0,1] with `4 d <= 3 + n`, n a whole number or any from 0 to 0.9."""
    model = LinearModel()
    d = model.add_columns(0.0, 1.0)
    n = model.add_columns(0.0, 0.9, integer=integer)
    model.add_rows([(d, 4.0), (n, -1.0)], -INFINITY, 3.0)
    return HighsModel(model.arrays(), int(d[0]))


def infeasible(integer: bool) -> HighsModel:
    """`d + n <= -1` for numbers that are not negative."""
    model = LinearModel()
    d = model.add_columns(0.0, 1.0)
    n = model.add_columns(0.0, 1.0, integer=integer)
    model.add_rows([(d, 1.0), (n, 1.0)], -INFINITY, -1.0)
    return HighsModel(model.arrays(), int(d[0]))


def market_split(seed: int = 0, goods: int = 40, rows: int = 4) -> HighsModel:
    """Choose goods of given total weights: tiny, and out of reach for branch and bound.

    The objective is 1 less the largest error. There is a choice without any: the optimum is 1.
    """
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 100, (rows, goods)).astype(float)
    model = LinearModel()
    d = model.add_columns(-100.0, 2.0)
    chosen = model.add_columns(np.zeros(goods), 1.0, integer=True)
    wanted = weights @ rng.integers(0, 2, goods)
    error = np.ones((rows, 1))
    model.add_rows([(chosen, weights), (d, error)], -INFINITY, wanted + 1)
    model.add_rows([(chosen, -weights), (d, error)], -INFINITY, -wanted + 1)
    return HighsModel(model.arrays(), int(d[0]))


def test_the_bound_of_a_pure_lp_is_its_optimum_not_zero() -> None:
    for solved in (three_quarters(False).solve(), three_quarters(True).solve(integer=False)):
        assert solved.status is SolveStatus.OPTIMAL
        assert Fraction(solved.bound) >= Fraction(0.975)
        assert solved.bound == pytest.approx(0.975, abs=1e-6)


def test_a_model_that_presolve_solves_has_its_bound() -> None:
    solved = three_quarters(True).solve()
    assert solved.status is SolveStatus.OPTIMAL
    assert Fraction(solved.bound) >= Fraction(3, 4)
    assert solved.bound == pytest.approx(0.75, abs=1e-6)
    assert solved.solution == pytest.approx([0.75, 0.0], abs=1e-6)


@pytest.mark.parametrize("integer", [True, False])
def test_an_infeasible_model_has_a_status_and_no_bound(integer: bool) -> None:
    heard: list[float] = []
    solved = infeasible(integer).solve(on_bound=heard.append)
    assert solved.status is SolveStatus.INFEASIBLE
    assert solved.bound == INFINITY
    assert solved.solution is None
    assert not heard


def test_infeasible_only_once_branched() -> None:
    # 2 a + 2 b + 2 c = 3 has a solution, but no whole one, and presolve may not see it.
    model = LinearModel()
    d = model.add_columns(0.0, 1.0)
    halves = model.add_columns(np.zeros(3), 1.0, integer=True)
    model.add_rows([(halves, [[2.0, 2.0, 2.0]])], 3.0, 3.0)
    solved = HighsModel(model.arrays(), int(d[0])).solve()
    assert solved.status is SolveStatus.INFEASIBLE
    assert solved.bound == INFINITY


def test_callbacks_fire_although_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    asked, bounds, solutions = 0, [], []

    def stop_at_last() -> bool:
        nonlocal asked
        asked += 1
        return asked > 200

    market_split().solve(
        on_bound=bounds.append, on_solution=solutions.append, should_stop=stop_at_last
    )
    assert asked > 1
    assert bounds
    assert solutions
    assert capfd.readouterr() == ("", "")


def test_bounds_on_the_way_hold() -> None:
    for seed in range(8):
        bounds: list[float] = []
        solved = market_split(seed, goods=10, rows=2).solve(on_bound=bounds.append)
        assert solved.status is SolveStatus.OPTIMAL
        assert min([solved.bound, *bounds]) >= 1
        assert solved.bound == pytest.approx(1, abs=1e-4)


def test_the_time_limit_stops_with_a_bound_that_holds() -> None:
    solved = market_split().solve(time_limit=0.2)
    assert solved.status is SolveStatus.STOPPED
    assert solved.bound >= 1


def test_the_caller_stops_it() -> None:
    deadline = time.monotonic() + 0.2
    solved = market_split().solve(should_stop=lambda: time.monotonic() > deadline)
    assert solved.status is SolveStatus.STOPPED
    assert solved.bound >= 1


def test_objective_bound_is_left_alone() -> None:
    # As a simplex option it stops early, with an optimum that is none.
    model = three_quarters(True)
    solver = model._build(np.zeros(2), np.ones(2), integer=True)
    assert solver.getOptionValue("objective_bound")[1] == INFINITY
    assert solver.getOptionValue("output_flag")[1] is True  # off, no callback would be called


@pytest.mark.parametrize("value", [math.nan, INFINITY, -INFINITY, 1e30, -1e30])
def test_numbers_that_are_none_bound_nothing(value: float) -> None:
    assert three_quarters(True)._safe(value) == INFINITY


@pytest.mark.parametrize("duals", [np.array([math.nan]), np.zeros(2), np.zeros(0)])
def test_duals_that_are_none_bound_nothing(duals: np.ndarray) -> None:
    model = three_quarters(False)
    lp = model._build(np.zeros(2), np.ones(2), integer=False).getLp()
    assert model._weak_duality(lp, duals) == INFINITY


def test_any_duals_bound_from_above() -> None:
    model = three_quarters(False)
    lp = model._build(np.zeros(2), np.array([1.0, 0.9]), integer=False).getLp()
    for dual in (-1e9, -0.3, 0.0, 1e-12, 0.4, 1.0, 3.7, 1e9):
        assert Fraction(model._weak_duality(lp, np.array([dual]))) >= Fraction(0.975)


def test_a_refused_call_is_a_failure_not_a_no_op(monkeypatch: pytest.MonkeyPatch) -> None:
    model = three_quarters(True)
    with pytest.raises(SolverFailure, match="passModel"):
        model.solve(lower=np.array([math.nan, 0.0]))
    with pytest.raises(SolverFailure, match="not all of"):
        model.solve(row_lower=(np.array([-1]), np.array([0.0])))
    for answer in (highspy.HighsStatus.kWarning, highspy.HighsStatus.kError):
        monkeypatch.setattr(highspy.Highs, "setOptionValue", lambda *_, answer=answer: answer)
        with pytest.raises(SolverFailure, match="option"):
            model.solve()


def test_a_repeated_index_is_refused_aloud() -> None:
    solver = three_quarters(True)._build(np.zeros(2), np.ones(2), integer=True)
    status = solver.changeColsBounds(2, np.zeros(2, dtype=np.int32), np.ones(2), np.ones(2))
    assert list(solver.getLp().col_lower_) == [0.0, 0.0]  # nothing was changed
    with pytest.raises(SolverFailure, match="changeColsBounds"):
        highs._require(status, "changeColsBounds")


@pytest.mark.parametrize("status", ["kUnknown", "kSolveError", "kUnboundedOrInfeasible", "kNotset"])
def test_other_statuses_prove_nothing(status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = getattr(highspy.HighsModelStatus, status)
    monkeypatch.setattr(highspy.Highs, "getModelStatus", lambda _: said)
    solved = three_quarters(True).solve()
    assert solved.status is SolveStatus.FAILED
    assert solved.bound == INFINITY


def amplified(coefficient: float, rows_of: Callable[..., LinearArrays]) -> LinearArrays:
    """`s = sum of coefficient * x` over 100 x, `v = 10,000 s` and `d <= v`, all in [0,1]."""
    none, some = np.zeros(100), np.full(100, -coefficient)
    rows = [[0.0, 0.0, 1.0, *some], [0.0, 1.0, -1e4, *none], [1.0, -1.0, 0.0, *none]]
    return rows_of(sparse.csr_array(np.array(rows)), [0.0, 0.0, -INFINITY], [0.0, 0.0, 0.0])


def arrays_of(matrix: sparse.csr_array, lower: list[float], upper: list[float]) -> LinearArrays:
    columns = matrix.shape[1]
    return LinearArrays(
        np.zeros(columns),
        np.ones(columns),
        np.zeros(columns, dtype=bool),
        matrix,
        np.array(lower),
        np.array(upper),
    )


def model_of(matrix: sparse.csr_array, lower: list[float], upper: list[float]) -> LinearArrays:
    model = LinearModel()
    columns = model.add_columns(np.zeros(matrix.shape[1]), 1.0)
    model.add_rows([(columns, matrix)], lower, upper)
    return model.arrays()


@pytest.mark.parametrize("rows_of", [arrays_of, model_of])
@pytest.mark.parametrize("coefficient", [1e-12, 2e-10, 9e-10, 2e-9])
def test_coefficients_that_highs_drops_still_count(
    coefficient: float, rows_of: Callable[..., LinearArrays]
) -> None:
    solved = HighsModel(amplified(coefficient, rows_of), 0).solve()
    optimum = 10_000 * 100 * Fraction(coefficient)
    assert solved.status is SolveStatus.OPTIMAL
    assert Fraction(solved.bound) >= optimum
    assert solved.bound <= 5 * float(optimum) + 1e-5
