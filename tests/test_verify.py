"""`verify` and `max_confidence` as a user meets them: an interval, however it ends."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import vhagar
from vhagar import (
    Network,
    Problem,
    Progress,
    ProgressError,
    Result,
    Status,
    attack,
    max_confidence,
    verify,
)
from vhagar.errors import InvalidInput
from vhagar.network import Affine, save_model
from vhagar.result.exact import exact_scores
from vhagar.search import ENGINES, engine_named
from vhagar.search.mip.engine import Mip

from .oracle.cases import Case
from .oracle.exact import exact_optimum

EXAMPLES = Path(__file__).parents[1] / "examples"
ChildrenOf = Callable[[int], set[int]]

with_and_without_processes = pytest.mark.parametrize(
    "processes", [False, pytest.param(True, marks=pytest.mark.subprocess)]
)
every_engine = pytest.mark.parametrize("engine", ENGINES)
everywhere = pytest.mark.parametrize("processes", [True, False])


@pytest.fixture(scope="module")
def hard() -> Problem:
    """Far from closed after a few seconds, whatever the engine."""
    network = vhagar.read_onnx(EXAMPLES / "mnist_conv1.onnx")
    return Problem(network, perturbation="linf(0.1)", source=2, targets=3)


def require_valid(problem: Problem, result: Result) -> None:
    """What can be said without knowing the optimum."""
    assert 0 <= result.lower <= result.upper < math.inf
    assert result.upper <= result.history[0].upper
    lowers = [moment.lower for moment in result.history]
    uppers = [moment.upper for moment in result.history]
    assert lowers == sorted(lowers)
    assert uppers == sorted(uppers, reverse=True)
    assert (lowers[-1], uppers[-1]) == (result.lower, result.upper)
    witness = result.witness
    assert result.lower == (witness.confidence if witness else 0.0)
    if witness is not None:
        scores = exact_scores(problem.network, witness.x)
        assert scores is not None
        source = scores.pop(problem.source)
        assert Fraction(result.lower) <= source - max(scores)


@pytest.mark.subprocess
@every_engine
@everywhere
def test_the_timeout_leaves_a_valid_interval(
    hard: Problem, engine: str, processes: bool, children_of: ChildrenOf
) -> None:
    before = children_of(os.getpid())
    options = {"engine": engine_named(engine), "workers": 2 if processes else 0}
    begun = time.monotonic()
    result = verify(hard, timeout=1.5, **options)
    spent = time.monotonic() - begun
    assert result.status is Status.TIMEOUT
    require_valid(hard, result)
    assert spent < 20.0  # a sanity limit, far beyond what any machine needs
    assert children_of(os.getpid()) == before


@pytest.mark.subprocess
@every_engine
def test_no_time_at_all(hard: Problem, engine: str) -> None:
    result = verify(hard, timeout=0.0, engine=engine_named(engine))
    assert result.status is Status.TIMEOUT
    require_valid(hard, result)
    assert result.lower == 0.0


@pytest.mark.subprocess
@every_engine
@everywhere
def test_an_interrupt_in_the_callback_returns_the_interval(
    hard: Problem, engine: str, processes: bool, children_of: ChildrenOf
) -> None:
    before = children_of(os.getpid())
    calls = 0

    def interrupt(_: Progress) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt

    options = {"engine": engine_named(engine), "workers": 2 if processes else 0}
    result = verify(hard, timeout=60, **options, on_progress=interrupt)
    assert result.status is Status.INTERRUPTED
    assert calls == 3
    require_valid(hard, result)
    assert children_of(os.getpid()) == before


@every_engine
def test_an_interrupt_before_anything_is_known(engine: str) -> None:
    def interrupt(_: Progress) -> None:
        raise KeyboardInterrupt

    problem = Case(0).problem()
    result = verify(problem, engine=engine_named(engine), on_progress=interrupt)
    assert result.status is Status.INTERRUPTED
    assert result.lower == 0.0


@pytest.mark.subprocess
@every_engine
@everywhere
def test_a_real_interrupt_ends_in_a_result_and_leaves_nobody(
    engine: str, processes: bool, tmp_path: Path, children_of: ChildrenOf
) -> None:
    script = tmp_path / "interrupted.py"
    model = str(EXAMPLES / "mnist_conv1.onnx")
    workers = 2 if processes else 0
    script.write_text(_INTERRUPTED.format(model=model, engine=engine, workers=workers))
    environment = {**os.environ, "PYTHONPATH": str(Path(vhagar.__file__).parents[1])}
    # A group of its own, so that the signal reaches the workers too, as Ctrl-C does.
    with subprocess.Popen(
        [sys.executable, str(script)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "searching\n"
            until = time.monotonic() + 60
            time.sleep(1.0)
            workers = children_of(process.pid)
            while processes and not workers and time.monotonic() < until:  # on a busy machine
                time.sleep(0.2)
                workers = children_of(process.pid)
            assert bool(workers) == processes
            os.killpg(process.pid, signal.SIGINT)
            last, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    status, lower, upper = last.split()[-3:]
    assert status == "INTERRUPTED"
    assert 0 <= float(lower) <= float(upper) < math.inf
    for pid in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@every_engine
@with_and_without_processes
def test_on_progress_may_stop_the_run(hard: Problem, engine: str, processes: bool) -> None:
    calls: list[Progress] = []

    def enough(progress: Progress) -> bool:
        calls.append(progress)
        return progress.phase == "bounds"

    workers = 2 if processes else 0
    result = verify(
        hard, engine=engine_named(engine), timeout=60, workers=workers, on_progress=enough
    )
    assert result.status is Status.INTERRUPTED
    assert result.seconds < 50
    assert {call.phase for call in calls[:-1]} == {"bounds"} != {calls[-1].phase}
    require_valid(hard, result)


@every_engine
@with_and_without_processes
def test_an_error_in_on_progress_loses_nothing(
    hard: Problem, engine: str, processes: bool, tmp_path: Path
) -> None:
    seen: list[Progress] = []

    def fails(progress: Progress) -> None:
        seen.append(progress)
        if progress.phase != "bounds":
            raise RuntimeError("no more paper")

    certificate = tmp_path / "proof.cert" if engine == "bab" else None
    given = {"workers": 2 if processes else 0, "certificate": certificate}
    with pytest.raises(ProgressError, match="RuntimeError: no more paper") as caught:
        verify(hard, engine=engine_named(engine), timeout=60, on_progress=fails, **given)
    result = caught.value.result
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert result.status is Status.INTERRUPTED
    assert (result.lower, result.upper) == (seen[-1].lower, seen[-1].upper)
    require_valid(hard, result)
    if certificate is not None:
        assert result.certificate == certificate
        save_model(hard.network, tmp_path / "model.onnx")
        verdict = vhagar.check(certificate, model=tmp_path / "model.onnx")
        assert (verdict.lower, verdict.upper) == (result.lower, result.upper)


_INTERRUPTED = """
import signal

import vhagar
from vhagar.search import engine_named

# A shell has programs in the background ignore Ctrl-C, and so would this one.
signal.signal(signal.SIGINT, signal.default_int_handler)

said = []

def on_progress(progress):
    if progress.phase in ("prepare", "search") and not said:
        said.append(progress)
        print("searching", flush=True)

problem = vhagar.Problem(vhagar.read_onnx({model!r}), perturbation="linf(0.1)", source=2, targets=3)
engine = engine_named({engine!r})
result = vhagar.verify(
    problem, engine=engine, timeout=120, workers={workers}, on_progress=on_progress
)
print(result.status.name, result.lower, result.upper)
"""


@every_engine
@pytest.mark.parametrize("number", range(0, 384, 29))
def test_the_largest_confidence_against_the_oracle(number: int, engine: str) -> None:
    problem = Case(number).problem()
    network, source = problem.network, problem.source
    span = (problem.domain.lower, problem.domain.upper)
    truth = exact_optimum(Problem(network, perturbation=None, source=source, input_range=span))[
        None
    ]
    options = {"engine": engine_named(engine), "workers": 0}
    result = max_confidence(network, source=source, input_range=span, timeout=20, **options)
    assert Fraction(result.lower) <= truth.low <= Fraction(result.upper)
    assert result.status in (Status.CLOSED, Status.ROBUST)
    require_valid(problem, result)
    assert result.witness is None or result.witness.x_p is None


@every_engine
def test_percentages_relate_to_the_largest_confidence(engine: str) -> None:
    layer = Affine(np.eye(2), np.zeros(2), (2,), (2,))
    network = Network((layer,), (2,))
    options = {"engine": engine_named(engine), "workers": 0}
    reference = max_confidence(network, source=0, timeout=20, **options)
    assert reference.lower <= 1 <= reference.upper
    result = verify(
        Problem(network, perturbation="linf(0.125)", source=0, targets=1),
        timeout=20,
        **options,
        max_confidence=reference.interval,
    )
    assert result.max_confidence == reference.interval
    low, high = result.percent
    assert low <= 25 <= high
    assert (low, high) == pytest.approx((25, 25), abs=0.1)


@every_engine
def test_progress_tells_what_is_known(engine: str) -> None:
    seen: list[Progress] = []
    problem = Case(12).problem()
    result = verify(
        problem,
        timeout=20,
        engine=engine_named(engine),
        workers=0,
        on_progress=seen.append,
    )
    assert seen
    assert all(progress.initial_upper == result.history[0].upper for progress in seen)
    assert all(set(progress.targets) == set(problem.targets) for progress in seen)
    assert (seen[-1].lower, seen[-1].upper) == (result.lower, result.upper)
    assert {progress.phase for progress in seen} <= {"bounds", "prepare", "search"}
    assert result.engine == engine
    assert {"bounds", "search"} <= result.timings.keys()


@pytest.mark.parametrize("timeout", [-1.0, math.nan, "5"])
def test_a_timeout_that_is_none_is_refused(timeout: float) -> None:
    complaint = f"timeout must be a number of seconds .* not {timeout!r}"
    for dataset in (None, "data.npz"):
        with pytest.raises(InvalidInput, match=complaint):
            verify(Case(0).problem(), timeout=timeout, dataset=dataset)
    with pytest.raises(InvalidInput, match=complaint):
        attack(Case(0).problem(), timeout=timeout)


def test_an_engine_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="choose one of"):
        verify(Case(0).problem(), engine=engine_named("magic"))


def test_the_same_problem_gives_the_same_result() -> None:
    problem = Case(9).problem()
    options = {"engine": Mip(), "workers": 0}
    first, second = (verify(problem, timeout=20, **options) for _ in range(2))
    assert (first.lower, first.upper, first.status) == (second.lower, second.upper, second.status)


def test_the_largest_confidence_stands_beside_every_answer() -> None:
    problem = Case(12).problem()
    result = verify(problem, timeout=20, workers=0)
    known = result.max_confidence
    assert known is not None
    assert result.lower <= known.lower <= known.upper
    assert result.percent is not None
    own = verify(problem.without_perturbation(), timeout=20, workers=0)
    assert known.lower <= own.upper
    assert own.lower <= known.upper
    assert own.max_confidence is None  # it is the answer itself
