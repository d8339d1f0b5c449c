"""Every solver that is installed against problems with known optima."""

from __future__ import annotations

import importlib.util
import math
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Network, Problem, Status, verify
from vhagar.errors import InvalidInput, SolverFailure, SolverUnavailable
from vhagar.network import Affine, Relu
from vhagar.perturbation import AbstractPiece
from vhagar.search import engine_named
from vhagar.search.mip import target
from vhagar.search.mip.encoding import encode
from vhagar.search.mip.engine import Mip
from vhagar.solver.backends import (
    BACKENDS,
    STATUSES,
    AbstractModel,
    SolveStatus,
    backend_named,
    base,
)
from vhagar.solver.backends.gurobi import GurobiModel
from vhagar.solver.linear_model import LinearModel

from ..marks import mostly_slow
from ..oracle.cases import Case
from ..oracle.exact import exact_optimum, overall
from .problems import (
    NETWORKS,
    PROBLEMS,
    Known,
    infeasible,
    market_split,
    network,
    product,
    three_quarters,
)

INFINITY = math.inf
ROOT = Path(__file__).resolve().parents[2]

Backend = type[AbstractModel]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    try:
        found = backend_named(request.param)
        known = three_quarters(integer=True)
        found(known.arrays, known.objective).solve()
    except SolverUnavailable as error:
        pytest.skip(str(error))
    return found


def require_solved(backend: Backend, known: Known) -> None:
    model = backend(known.arrays, known.objective)
    heard: list[float] = []
    solved = model.solve(on_bound=heard.append)
    if known.optimum is None:
        assert solved.status is SolveStatus.INFEASIBLE
        assert solved.bound == INFINITY
        assert solved.solution is None
        return
    assert solved.status is SolveStatus.OPTIMAL
    assert min(Fraction(bound) for bound in [solved.bound, *heard]) >= known.optimum
    # On the tight side, as close as the tolerances allow.
    near = 2.0 * model.outward + known.slack
    assert solved.bound <= float(known.optimum) + near
    assert solved.solution is not None
    assert solved.solution[known.objective] == pytest.approx(float(known.optimum), abs=near)


@pytest.mark.parametrize("known", PROBLEMS, ids=str)
def test_problems_with_known_optima(backend: Backend, known: Known) -> None:
    require_solved(backend, known)


@pytest.mark.parametrize("number", NETWORKS)
def test_networks_with_optima_from_the_oracle(backend: Backend, number: int) -> None:
    require_solved(backend, network(number))


@pytest.mark.parametrize(
    ("shift", "unit"), [(0.0, 2.0**-12), (0.0, 1.0), (0.0, 2.0**12), (-0.5, 1.0), (3.0, 1.0)]
)
def test_products_for_who_knows_them_and_rows_for_the_others(
    backend: Backend, shift: float, unit: float
) -> None:
    known = product(shift, unit)
    assert known.optimum is not None
    if backend.capabilities.products:
        require_solved(backend, known)
    solved = backend(known.arrays, known.objective).solve()
    assert solved.status is SolveStatus.OPTIMAL
    assert Fraction(solved.bound) >= known.optimum
    # As an LP it is no more than its rows to anybody.
    relaxed = backend(known.arrays, known.objective).solve(integer=False)
    assert relaxed.bound == pytest.approx(unit / 2, rel=1e-5)


@pytest.mark.slow
def test_a_range_of_contrasts_is_split_only_where_products_are_not_known(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`relu(x1 - x2)` against 1/4: at half the contrast it may be 1/2, a confidence of 1/4."""
    first = Affine(np.array([[1.0, -1.0]]), np.zeros(1), (1, 1, 2), (1,))
    last = Affine(np.array([[1.0], [0.0]]), np.array([0.0, 0.25]), (1,), (2,))
    problem = Problem(
        Network((first, Relu((1,)), last), (1, 1, 2)),
        perturbation="contrast([0.5,0.9])",
        source=0,
        targets=1,
    )
    parts: list[AbstractPiece] = []

    def encoded(given: Problem, piece: AbstractPiece, *more: Any) -> Any:
        parts.append(piece)
        return encode(given, piece, *more)

    monkeypatch.setattr(target, "encode", encoded)
    options = {"engine": Mip(solver=backend.name), "workers": 0}
    result = verify(problem, timeout=120, **options)
    assert result.status is Status.CLOSED
    assert result.lower <= 0.25 <= result.upper
    assert (len(parts) == 1) == backend.capabilities.products


@pytest.mark.parametrize("known", PROBLEMS, ids=str)
def test_as_lps_they_have_no_smaller_bound(backend: Backend, known: Known) -> None:
    solved = backend(known.arrays, known.objective).solve(integer=False)
    assert solved.status in (SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE)
    if known.optimum is not None:
        assert Fraction(solved.bound) >= known.optimum


def test_a_column_without_bounds_has_no_wrong_bound(backend: Backend) -> None:
    model = LinearModel()
    d, x = model.add_columns(0.0, 4.0), model.add_columns(-INFINITY, INFINITY)
    n = model.add_columns(0.0, 1.0, integer=True)
    model.add_rows([(d, 1.0), (x, -1.0)], -INFINITY, 0.0)
    model.add_rows([(x, 1.0), (n, -1.0)], -INFINITY, 1.0)
    solved = backend(model.arrays(), int(d[0])).solve()
    assert solved.bound >= 2  # infinite at worst, never NaN


def test_an_unbounded_model_proves_nothing(backend: Backend) -> None:
    model = LinearModel()
    d = model.add_columns(0.0, INFINITY)
    n = model.add_columns(0.0, 1.0, integer=True)
    model.add_rows([(d, 1.0), (n, 1.0)], 0.0, INFINITY)
    solved = backend(model.arrays(), int(d[0])).solve(time_limit=10)
    assert solved.status is not SolveStatus.INFEASIBLE
    assert solved.bound == INFINITY


def test_changed_columns_and_rows_count_for_one_call(backend: Backend) -> None:
    known = three_quarters(integer=True)
    model = backend(known.arrays, known.objective)
    fixed = model.solve(upper=np.array([0.5, 0.9]))
    assert 0.5 <= fixed.bound <= 0.5 + 2 * model.outward
    # 4 d - n >= 2.5, and d as small as it can be then.
    raised = model.solve(upper=np.array([0.625, 0.9]), row_lower=(np.array([0]), np.array([2.5])))
    assert raised.status is SolveStatus.OPTIMAL
    assert 0.625 <= raised.bound <= 0.625 + 2 * model.outward
    beyond = model.solve(row_lower=(np.array([0]), np.array([3.5])))
    assert beyond.status is SolveStatus.INFEASIBLE
    again = model.solve()
    assert 0.75 <= again.bound <= 0.75 + 2 * model.outward


def test_calls_without_a_meaning_are_failures(backend: Backend) -> None:
    known = three_quarters(integer=True)
    model = backend(known.arrays, known.objective)
    with pytest.raises(SolverFailure):
        model.solve(lower=np.array([math.nan, 0.0]))
    with pytest.raises(SolverFailure):
        model.solve(row_lower=(np.array([-1]), np.array([0.0])))


def test_what_is_told_on_the_way_holds(backend: Backend, capfd: pytest.CaptureFixture[str]) -> None:
    known, _ = market_split(goods=12, rows=2)
    bounds: list[float] = []
    solutions: list[np.ndarray] = []
    nodes: list[int] = []
    model = backend(known.arrays, known.objective)
    solved = model.solve(
        on_bound=bounds.append, on_solution=solutions.append, on_nodes=nodes.append
    )
    assert solved.status is SolveStatus.OPTIMAL
    assert min([solved.bound, *bounds]) >= 1
    assert nodes == sorted(nodes)
    assert nodes[-1] >= 0
    assert solutions
    for point in solutions:
        assert point[known.objective] <= 1 + model.outward
    assert capfd.readouterr() == ("", "")


def test_bounds_come_while_a_hard_problem_is_solved(backend: Backend) -> None:
    known, _ = market_split()
    bounds: list[float] = []
    solved = backend(known.arrays, known.objective).solve(
        on_bound=bounds.append, should_stop=lambda: bool(bounds), time_limit=60
    )
    assert solved.status is SolveStatus.STOPPED
    assert min(bounds) >= 1


@pytest.mark.parametrize("limits", [{"time_limit": 0.2}, {"should_stop": lambda: True}])
def test_a_stop_leaves_a_bound_that_holds(backend: Backend, limits: dict[str, Any]) -> None:
    known, _ = market_split()
    solved = backend(known.arrays, known.objective).solve(**limits)
    assert solved.status is SolveStatus.STOPPED
    assert solved.bound >= 1


def test_a_partial_start_is_taken_up(backend: Backend) -> None:
    known, start = market_split()
    # With nothing better allowed, the start is all that is needed; it is out of reach otherwise.
    upper = known.arrays.column_upper.copy()
    upper[known.objective] = 1.0
    solved = backend(known.arrays, known.objective).solve(upper=upper, start=start, time_limit=10)
    assert solved.status is SolveStatus.OPTIMAL
    assert solved.solution is not None
    assert solved.solution[1:] == pytest.approx(start[1:], abs=1e-6)


def test_bounds_are_not_those_of_the_start(backend: Backend) -> None:
    """A partial start is completed by a smaller MIP. Its bound is no bound of ours."""
    known, best = market_split()
    start = np.full_like(best, np.nan)
    most = slice(1, 22)
    start[most] = 1.0 - best[most]  # the worst of choices, for most of the goods
    lower, upper = known.arrays.column_lower.copy(), known.arrays.column_upper.copy()
    lower[most] = upper[most] = start[most]
    model = backend(known.arrays, known.objective)
    assert model.solve(lower=lower, upper=upper).bound < 0
    bounds: list[float] = []
    solved = model.solve(start=start, on_bound=bounds.append, time_limit=2, proving=True)
    assert min([solved.bound, *bounds]) >= 1


@pytest.mark.parametrize("value", [1.0, -7.0, 1e9, math.nan, math.inf])
def test_a_wrong_start_changes_nothing(backend: Backend, value: float) -> None:
    for known in (three_quarters(integer=True), infeasible(integer=True)):
        model = backend(known.arrays, known.objective)
        solved = model.solve(start=np.full(2, value))
        if known.optimum is None:
            assert solved.status is SolveStatus.INFEASIBLE
        else:
            assert solved.status is SolveStatus.OPTIMAL
            assert 0.75 <= solved.bound <= 0.75 + 2 * model.outward


@pytest.mark.parametrize("place", ["on_solution", "on_bound", "should_stop"])
def test_errors_in_callbacks_reach_the_caller(backend: Backend, place: str) -> None:
    def fail(*_: object) -> Any:
        raise KeyboardInterrupt

    known, _ = market_split()
    with pytest.raises(KeyboardInterrupt):
        backend(known.arrays, known.objective).solve(**{place: fail}, time_limit=60)


@pytest.mark.parametrize("number", mostly_slow([0, 3, 8, 12, 21, 26, 33, 47], 4))
def test_the_engine_with_every_solver(backend: Backend, number: int) -> None:
    problem = Case(number).problem()
    truth = overall(exact_optimum(problem))
    options = {"engine": Mip(solver=backend.name), "workers": 0}
    result = verify(problem, timeout=20, **options)
    assert Fraction(result.lower) <= truth.high
    assert truth.low <= Fraction(result.upper)
    assert not result.notes
    if not Case(number).of_ranges:
        assert result.status in (Status.CLOSED, Status.ROBUST, Status.EXHAUSTED)


@pytest.mark.parametrize("number", [5, 6, 12, 21, 29, 44])
def test_the_engine_without_dependencies(backend: Backend, number: int) -> None:
    problem = Case(number).problem()
    truth = overall(exact_optimum(problem))
    parts = ("dependencies",)
    options = {"engine": Mip(solver=backend.name, without=parts), "workers": 0}
    result = verify(problem, timeout=20, **options)
    assert Fraction(result.lower) <= truth.high
    assert truth.low <= Fraction(result.upper)
    assert not result.notes


@pytest.mark.slow
@pytest.mark.subprocess
def test_the_engine_in_processes(backend: Backend) -> None:
    problem = Case(0).problem()
    truth = overall(exact_optimum(problem))
    options = {"engine": Mip(solver=backend.name)}
    result = verify(problem, timeout=60, **options)
    assert Fraction(result.lower) <= truth.low <= Fraction(result.upper)
    assert result.status in (Status.CLOSED, Status.ROBUST)


def test_every_file_is_in_the_table() -> None:
    shared = {"__init__", "base", "duality", "listener", "status"}
    folder = ROOT / "src" / "vhagar" / "solver" / "backends"
    assert {path.stem for path in folder.glob("*.py")} - shared == set(BACKENDS)
    assert set(STATUSES) == set(BACKENDS)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(BACKENDS) - {"highs"} <= set(extras["optional-dependencies"])


def test_every_status_of_the_solver_is_in_the_table(backend: Backend) -> None:
    names = {
        "highs": lambda package: package.HighsModelStatus.__members__,
        "scip": lambda package: [name.lower() for name in vars(package.SCIP_STATUS)],
        "gurobi": lambda package: dir(package.GRB.Status),
    }
    found = {name for name in names[backend.name](__import__(backend.package)) if name[0] != "_"}
    table = STATUSES[backend.name]
    assert found - {"kMin", "kMax"} <= set(table)
    # SCIP ends at a gap only where one was asked for.
    solved = {word for word, status in table.items() if status is SolveStatus.OPTIMAL}
    assert len(solved - {"gaplimit"}) == 1
    assert list(table.values()).count(SolveStatus.INFEASIBLE) == 1


def test_an_unknown_word_is_a_failure() -> None:
    known = three_quarters(integer=True)
    model = backend_named("highs")(known.arrays, known.objective)
    solved = model._judged("kSplendid", 0.1, None)
    assert solved.status is SolveStatus.FAILED
    assert solved.bound == INFINITY


@pytest.mark.parametrize("name", ["scip", "gurobi"])
def test_a_missing_package_is_named_with_its_extra(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "find_spec", lambda _: None)
    with pytest.raises(SolverUnavailable, match=rf'pip install "vhagar\[{name}\]"'):
        verify(Case(0).problem(), engine=Mip(solver=name))


def test_a_wrong_name_is_answered_with_the_list() -> None:
    with pytest.raises(InvalidInput, match="'abacus'; choose one of: highs, scip, gurobi"):
        verify(Case(0).problem(), engine=engine_named("mip", solver="abacus"))
    with pytest.raises(InvalidInput, match="the engine 'bab' has no option 'solver'"):
        engine_named("bab", solver="abacus")


class LicenceError(Exception):
    def __init__(self, number: int) -> None:
        super().__init__(f"error {number}")
        self.errno = number


@pytest.mark.parametrize(
    ("number", "kind", "message"),
    [
        (10010, SolverUnavailable, "only small models.* 2 columns and 1 rows.* highs or scip"),
        (10009, SolverUnavailable, "no valid licence.*gurobi.com"),
        (10003, SolverFailure, "Gurobi failed: error 10003"),
    ],
)
def test_a_licence_that_is_too_small_says_what_to_do(
    number: int, kind: type[Exception], message: str
) -> None:
    known = three_quarters(integer=True)
    with pytest.raises(kind, match=message):
        GurobiModel(known.arrays, known.objective)._complain(LicenceError(number))


@pytest.mark.skipif(importlib.util.find_spec("gurobipy") is None, reason="gurobipy is missing")
def test_gurobis_own_licence_is_too_small_for_a_large_model() -> None:
    model = LinearModel()
    columns = model.add_columns(np.zeros(2500), 1.0, integer=True)
    model.add_rows([(columns, np.ones((1, 2500)))], -INFINITY, 0.5)
    message = ""
    try:
        GurobiModel(model.arrays(), 0).solve(time_limit=5)
    except SolverUnavailable as error:
        message = str(error)
    if not message:
        pytest.skip("there is a full licence")
    assert "licence" in message
    assert "highs or scip" in message
