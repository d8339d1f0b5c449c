"""A solver that lies must not break what is checked: the witnesses, and bounds they refute."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vhagar import Problem, Result, Status, verify
from vhagar.errors import SolverFailure, SolverUnavailable
from vhagar.options import Options
from vhagar.result import Run
from vhagar.search.mip.engine import Mip, _take
from vhagar.search.mip.messages import SolverMissing
from vhagar.solver.backends import Solved, SolveStatus
from vhagar.solver.backends.highs import HighsModel

OPTIMUM = 0.25  # of the fixture `problem`
# Without the attack, whose witnesses would spoil the lies.
HERE = {"engine": Mip(without=("attack", "hints")), "workers": 0}

honest = HighsModel.solve


def run_with(
    problem: Problem, solve: Callable[..., Solved], monkeypatch: pytest.MonkeyPatch
) -> Result:
    monkeypatch.setattr(HighsModel, "solve", solve)
    return verify(problem, timeout=5, **HERE)


def is_main(arguments: dict[str, Any]) -> bool:
    """Whether it is the MIP that is solved, not one of the linear programs of the polish."""
    return "on_nodes" in arguments


def test_without_lies_it_closes(problem: Problem) -> None:
    result = verify(problem, timeout=5, **HERE)
    assert result.status is Status.CLOSED
    assert result.lower <= OPTIMUM <= result.upper


@pytest.mark.parametrize("bound", [0.0, 0.1, -3.0, 0.2499])
def test_a_bound_below_the_witness_is_dropped_with_a_note(
    problem: Problem, bound: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def solve(model: HighsModel, **arguments: Any) -> Solved:
        found = honest(model, **arguments)
        return Solved(found.status, bound, found.solution) if is_main(arguments) else found

    result = run_with(problem, solve, monkeypatch)
    assert 0.24 <= result.lower <= OPTIMUM <= result.upper
    assert any("refuted by a witness" in note for note in result.notes)


def test_a_witness_refutes_a_bound_that_was_taken_before(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def solve(model: HighsModel, **arguments: Any) -> Solved:
        if is_main(arguments):
            arguments["on_bound"](0.1)
        return honest(model, **arguments)

    result = run_with(problem, solve, monkeypatch)
    assert 0.24 <= result.lower <= OPTIMUM <= result.upper
    assert any("refuted by a witness" in note for note in result.notes)


@pytest.mark.parametrize("bound", [math.nan, -math.inf, math.inf])
def test_bounds_that_are_no_numbers_change_nothing(
    problem: Problem, bound: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def solve(model: HighsModel, **arguments: Any) -> Solved:
        found = honest(model, **arguments)
        if is_main(arguments):
            arguments["on_bound"](bound)
            return Solved(found.status, bound, found.solution)
        return found

    result = run_with(problem, solve, monkeypatch)
    assert 0.24 <= result.lower <= OPTIMUM <= result.upper


@pytest.mark.parametrize("value", [0.0, 1.0, -5.0, 1e300, math.nan, math.inf])
def test_garbage_solutions_raise_no_lower_bound(
    problem: Problem, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def solve(model: HighsModel, **arguments: Any) -> Solved:
        garbage = np.full(len(honest(model, integer=False).solution), value)
        garbage[2:] = np.abs(garbage[2:]) + 1  # with a promising objective
        if is_main(arguments):
            arguments["on_solution"](garbage)
        return Solved(SolveStatus.STOPPED, math.nan, garbage)

    result = run_with(problem, solve, monkeypatch)
    assert result.lower == 0.0
    assert result.witness is None
    assert result.upper >= OPTIMUM


@pytest.mark.parametrize("status", [SolveStatus.STOPPED, SolveStatus.FAILED])
def test_a_failure_leaves_the_interval_as_it_was(
    problem: Problem, status: SolveStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run_with(problem, lambda *_, **__: Solved(status, math.inf, None), monkeypatch)
    assert result.lower == 0.0
    assert result.upper == result.history[0].upper >= OPTIMUM
    assert result.status is Status.EXHAUSTED


@pytest.mark.parametrize("always", [True, False])
def test_the_word_infeasible_is_not_believed(
    problem: Problem, always: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def solve(model: HighsModel, **arguments: Any) -> Solved:
        if always or "on_nodes" in arguments:
            return Solved(SolveStatus.INFEASIBLE, math.inf, None)
        return honest(model, **arguments)

    result = run_with(problem, solve, monkeypatch)
    assert result.upper == result.history[0].upper >= OPTIMUM
    assert result.status is Status.EXHAUSTED


def test_a_refused_call_is_noted_and_the_other_targets_are_searched(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def solve(model: HighsModel, **arguments: Any) -> Solved:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise SolverFailure("HiGHS answered kError to passModel")
        return honest(model, **arguments)

    network = problem.network
    last = network.layers[-1]
    three = type(last)(
        np.vstack([last.weight, last.weight[1:] - 1]), np.append(last.bias, 0.25), (1,), (3,)
    )
    wider = Problem(
        type(network)((*network.layers[:-1], three), (1, 1, 2)),
        perturbation="linf(0.125)",
        source=0,
    )
    result = run_with(wider, solve, monkeypatch)
    assert result.notes == ("the search for target 1 failed: HiGHS answered kError to passModel",)
    assert result.targets[1].upper == result.history[0].upper
    assert result.targets[2].upper < result.history[0].upper


def test_a_solver_without_a_licence_ends_the_run_with_its_reason(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def solve(*_: Any, **__: Any) -> Solved:
        raise SolverUnavailable("no licence")

    with pytest.raises(SolverUnavailable, match="no licence"):
        run_with(problem, solve, monkeypatch)
    # A process of its own tells its parent, which says it once.
    with pytest.raises(SolverUnavailable, match="no licence"):
        _take(Run(problem, Options(), None), 1, SolverMissing("no licence"))
