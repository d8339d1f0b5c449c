"""The search with Marabou: what its answers do to the interval, and what lies cannot do."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from vhagar import InvalidInput, Network, Problem, Result, Status, verify
from vhagar.baseline import MarabouEngine, marabou, pool, solver
from vhagar.baseline.solver import QueryAnswer, QueryStatus, QueryTask, WitnessCandidate, answer
from vhagar.errors import SolverUnavailable
from vhagar.reduction import REDUCTIONS, reduce_problem
from vhagar.result import BoundKind
from vhagar.runtime.pool import Finished, Job

from ..oracle.cases import Case
from ..oracle.exact import exact_confidence_of, exact_optimum, overall
from ..scripted_pool import ScriptedPool

needs_marabou = pytest.mark.skipif(
    importlib.util.find_spec("maraboupy") is None,
    reason="maraboupy is not installed; it has no wheels for Python 3.12 and newer",
)
# Of the scores: what Marabou's own tolerances may make of its answers.
MARABOU_TOLERANCE = 1e-5

Oracle = Callable[[Problem, QueryTask], QueryAnswer | Finished | None]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Oracle], list[QueryTask]]:
    """Replaces Marabou; an oracle that returns None never answers."""

    def install(oracle: Oracle) -> list[QueryTask]:
        asked: list[QueryTask] = []

        def script(job: Job, task: QueryTask) -> QueryAnswer | Finished | None:
            asked.append(task)
            return oracle(job[1].problem, task)

        monkeypatch.setattr(pool, "ProcessPool", lambda: ScriptedPool(script))
        monkeypatch.setattr(marabou, "require_marabou", lambda: None)
        return asked

    return install


def search(problem: Problem, timeout: float | None = None, **settings: Any) -> Result:
    return verify(
        problem,
        timeout=timeout,
        workers=1,
        engine=MarabouEngine(**settings),
    )


def pair_with(confidence: float) -> WitnessCandidate:
    """An input of that confidence whose image, 1/4 closer, is in class 1 if it is at most 1/4."""
    x = np.array([0.5 + (confidence + 0.25) / 2, 0.5 - (confidence + 0.25) / 2])
    return WitnessCandidate(x, np.array([-0.125, 0.125]))


def honest(problem: Problem, task: QueryTask) -> QueryAnswer:
    """The truth about the fixture's problem, from just inside."""
    if task.delta < 0.249:
        return QueryAnswer(QueryStatus.INPUT_FOUND, (pair_with(max(task.delta, 0.2) + 0.0005),))
    return (
        QueryAnswer(QueryStatus.NO_INPUT)
        if task.delta > 0.25
        else QueryAnswer(QueryStatus.UNDECIDED)
    )


def test_honest_answers_close_in_on_the_optimum(problem: Problem, scripted: Any) -> None:
    asked = scripted(honest)
    result = search(problem, timeout=3.0)
    assert 0.2485 <= result.lower <= 0.25 < result.upper <= 0.2505
    assert result.kind is BoundKind.MARABOU
    assert result.engine == "marabou"
    assert result.witness is not None
    assert all(0 < task.delta < 0.75 for task in asked)  # what interval arithmetic says


def test_an_input_that_is_no_witness_raises_nothing(problem: Problem, scripted: Any) -> None:
    scripted(lambda problem, task: QueryAnswer(QueryStatus.INPUT_FOUND, (pair_with(0.5),)))
    result = search(problem, timeout=0.3)
    assert (result.lower, result.witness) == (0.0, None)
    assert result.status is Status.TIMEOUT
    assert any("not a witness" in note for note in result.notes)


def test_the_second_candidate_counts_where_the_first_is_refused(
    problem: Problem, scripted: Any
) -> None:
    scripted(
        lambda problem, task: QueryAnswer(QueryStatus.INPUT_FOUND, (pair_with(0.5), pair_with(0.2)))
    )
    assert search(problem, timeout=0.3).lower == pytest.approx(0.2)


def test_a_lie_that_a_witness_refutes_is_dropped(problem: Problem, scripted: Any) -> None:
    """First "nothing above 0.1", then an input with 0.2: the bound goes, and so does the trust."""
    tasks = 0

    def liar(problem: Problem, task: QueryTask) -> QueryAnswer:
        nonlocal tasks
        tasks += 1
        if tasks < 4:
            return QueryAnswer(QueryStatus.NO_INPUT)
        return QueryAnswer(QueryStatus.INPUT_FOUND, (pair_with(0.2),))

    scripted(liar)
    result = search(problem, timeout=20.0)
    assert result.lower == pytest.approx(0.2)
    assert result.upper == pytest.approx(0.75)
    assert result.kind is BoundKind.INTERVAL
    assert result.status is Status.EXHAUSTED  # nobody is left to be asked
    assert any("refuted" in note for note in result.notes)


def test_silence_ends_with_the_time(problem: Problem, scripted: Any) -> None:
    asked = scripted(lambda problem, task: None)
    result = search(problem, timeout=0.5, query_timeout=0.05)
    assert result.status is Status.TIMEOUT
    assert (result.lower, result.upper) == (0.0, pytest.approx(0.75))
    assert len({task.delta for task in asked}) > 2  # it does not ask the same over and over


def test_a_failure_is_no_answer(problem: Problem, scripted: Any) -> None:
    scripted(lambda problem, task: QueryAnswer(QueryStatus.UNDECIDED, word="ERROR"))
    result = search(problem, timeout=0.3)
    assert (result.lower, result.upper) == (0.0, pytest.approx(0.75))
    assert any("ERROR" in note for note in result.notes)


def test_a_worker_that_ends_is_no_answer(problem: Problem, scripted: Any) -> None:
    scripted(lambda problem, task: Finished("MemoryError: all of it"))
    result = search(problem, timeout=0.3)
    assert (result.lower, result.upper) == (0.0, pytest.approx(0.75))
    assert any("MemoryError" in note for note in result.notes)


def test_a_bound_needs_all_pieces_and_all_targets(scripted: Any) -> None:
    """Robust is what every piece and every target is robust against."""
    case = next(
        case
        for case in map(Case, range(400))
        if case.kind == "occlusion"
        and len(case.problem().pieces) > 1
        and len(case.problem().targets) > 1
    )
    problem = case.problem()
    last = problem.targets[-1], len(problem.pieces) - 1

    def all_but_one(problem: Problem, task: QueryTask) -> QueryAnswer | None:
        return (
            None if (task.target, task.piece_index) == last else QueryAnswer(QueryStatus.NO_INPUT)
        )

    scripted(all_but_one)
    result = search(problem, timeout=0.5, query_timeout=0.05)
    assert result.targets[last[0]].kind is BoundKind.INTERVAL
    assert result.targets[problem.targets[0]].kind is BoundKind.MARABOU
    assert result.upper == result.targets[last[0]].upper


def test_what_cannot_be_asked_is_refused(hidden: Network, scripted: Any) -> None:
    scripted(honest)
    with pytest.raises(InvalidInput, match="problem with a perturbation"):
        search(Problem(hidden, perturbation=None, source=0))
    with pytest.raises(InvalidInput, match="linear constraints only"):
        search(Problem(hidden, perturbation="contrast([1,2])", source=0, targets=1))
    with pytest.raises(InvalidInput, match="must be above 0"):
        MarabouEngine(0)


def test_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(solver.importlib, "import_module", missing)
    with pytest.raises(SolverUnavailable, match=r"vhagar\[marabou\].*3\.11"):
        MarabouEngine()


@needs_marabou
@pytest.mark.parametrize("threads", [1, 2])
def test_marabou_answers_single_questions(problem: Problem, threads: int) -> None:
    def asked(delta: float) -> QueryAnswer:
        return answer(reduce_problem(problem, REDUCTIONS), QueryTask(0, 1, delta, threads, 10.0))

    assert asked(0.3).status is QueryStatus.NO_INPUT
    found = asked(0.2)
    assert found.status is QueryStatus.INPUT_FOUND
    assert found.candidates


@pytest.mark.subprocess
@needs_marabou
def test_marabou_closes_the_interval_in_processes(problem: Problem) -> None:
    result = search(problem, timeout=60.0)
    assert result.status is Status.CLOSED
    assert result.lower <= 0.25
    assert result.upper >= 0.25 - MARABOU_TOLERANCE
    assert result.upper - result.lower <= 1e-3


def judged_cases() -> list[Case]:
    """One of every linear kind, with weights of about 1: Marabou's tolerances are absolute."""
    cases = [case for case in map(Case, range(200)) if case.scale == 1.0 and not case.of_ranges]
    kinds = {case.kind for case in cases}
    return [case for kind in sorted(kinds) for case in [c for c in cases if c.kind == kind][:1]]


# In processes: Marabou does not always look at its clock, and a process can be ended.
@pytest.mark.slow
@pytest.mark.subprocess
@needs_marabou
@pytest.mark.parametrize("case", judged_cases(), ids=str)
def test_marabou_against_the_exact_optimum(case: Case) -> None:
    problem = case.problem()
    engine = MarabouEngine()
    options = {"workers": 1, "relative_gap": 1e-2}
    result = verify(problem, timeout=6.0, **options, engine=engine)
    truth = overall(exact_optimum(problem))
    size = abs(problem.network.forward(np.zeros((1, problem.domain.size)))).max() + case.scale
    # The lower end is ours, and exact. The upper one is as good as Marabou is.
    assert Fraction(result.lower) <= truth.high
    assert float(truth.low) <= result.upper + MARABOU_TOLERANCE * size
    assert math.isfinite(result.upper)
    if result.witness is not None:
        assert (
            0 < Fraction(result.witness.confidence) <= exact_confidence_of(problem, result.witness)
        )
