"""The search as a whole: the same every time, sound with helpers, and with helpers that die."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Network, Problem, Progress, Result, Status, max_confidence, verify
from vhagar.errors import SolverFailure
from vhagar.network import Affine, Convolution, Relu
from vhagar.result import BoundKind, Interval
from vhagar.search import branch_and_bound, search_pool
from vhagar.search.bounders import size
from vhagar.search.bounders.gpu import driver, gpu_worker
from vhagar.search.branch_and_bound import Bab
from vhagar.search.node_search import NodeSearch
from vhagar.solver.simplex import Simplex

ChildrenOf = Callable[[int], set[int]]

ALONE = {"workers": 1, "relative_gap": 0.3}
TOGETHER = dict(ALONE, workers=2)
PATIENCE = 60.0


@pytest.fixture(scope="module")
def problem() -> Problem:
    """Some hundred nodes, over two targets."""
    rng = np.random.default_rng(2)
    layers: list[Affine | Relu] = []
    for into, out in ((6, 10), (10, 8), (8, 3)):
        weight, bias = rng.normal(size=(out, into)), 0.5 * rng.normal(size=out)
        layers += [Affine(_float32(weight), _float32(bias), (into,), (out,)), Relu((out,))]
    return Problem(Network(tuple(layers[:-1]), (6,)), perturbation="linf(0.1)", source=0)


def _float32(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(np.float64)


@pytest.fixture(scope="module")
def alone(problem: Problem) -> Result:
    return verify(problem, timeout=PATIENCE, **ALONE)


def story(result: Result) -> Any:
    """All that does not depend on the clock."""
    moments = [(moment.lower, moment.upper) for moment in result.history]
    intervals = {target: (known.lower, known.upper) for target, known in result.targets.items()}
    return result.status, result.nodes, moments, intervals


def agree(one: Result, other: Result) -> bool:
    """Both hold the optimum, so they meet; target by target, too."""
    pairs = [(one.interval, other.interval)]
    pairs += [(one.targets[target], other.targets[target]) for target in one.targets]
    return all(max(a.lower, b.lower) <= min(a.upper, b.upper) for a, b in pairs)


def test_one_worker_does_the_same_every_time(problem: Problem, alone: Result) -> None:
    assert alone.status is Status.CLOSED
    assert alone.nodes > 20
    assert story(verify(problem, timeout=PATIENCE, **ALONE)) == story(alone)


def test_one_worker_needs_no_process(
    problem: Problem, alone: Result, children_of: ChildrenOf
) -> None:
    before, looks = children_of(os.getpid()), 0

    def look(_: Progress) -> None:
        nonlocal looks
        looks += 1
        if looks % 10 == 5:
            assert children_of(os.getpid()) == before

    no_processes = dict(ALONE, workers=0)
    assert story(verify(problem, on_progress=look, **no_processes)) == story(alone)


@pytest.mark.subprocess
def test_several_workers_agree_with_one(
    problem: Problem, alone: Result, children_of: ChildrenOf
) -> None:
    before = children_of(os.getpid())
    together = verify(problem, timeout=PATIENCE, **TOGETHER)
    assert together.status is Status.CLOSED
    assert agree(together, alone)
    assert together.nodes > 0
    assert not together.notes
    assert children_of(os.getpid()) == before


class Killer:
    """Kills some of the processes that came since, once there is a witness; for `on_progress`."""

    def __init__(self, left: int, children_of: ChildrenOf) -> None:
        self.left = left
        self.before = children_of(os.getpid())
        self._children_of = children_of

    def __call__(self, progress: Progress) -> None:
        for worker in self._children_of(os.getpid()) - self.before if progress.lower > 0 else ():
            if self.left > 0:
                os.kill(worker, signal.SIGKILL)
                self.left -= 1


@pytest.mark.usefixtures("in_workers")
@pytest.mark.subprocess
@pytest.mark.parametrize("killed", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_killed_workers_take_nothing_with_them(
    killed: int, problem: Problem, alone: Result, children_of: ChildrenOf
) -> None:
    """With one of two the search goes on; without any it ends, with all that was found."""
    kill = Killer(killed, children_of)
    # Without the attack, whose process would be one of those that are killed.
    options = dict(TOGETHER, engine=Bab(attack=False))
    result = verify(problem, timeout=PATIENCE, on_progress=kill, **options)
    assert kill.left == 0
    assert agree(result, alone)
    # What the last worker reported before it died may have closed the interval.
    assert result.status in (Status.CLOSED, *([Status.EXHAUSTED] if killed == 2 else []))
    assert set(result.notes) == {"a worker ended early: the worker ended unexpectedly"}
    assert children_of(os.getpid()) == kill.before


JOBS = """
import time

from vhagar.search import primal_heuristic
from vhagar.search.bounders.gpu.messages import GpuReady
from vhagar.search.worker import Ready, serve

def fail_in_the_first(job, channel):
    if job.number == 0:
        channel.send(Ready())
        channel.receive()
        raise ValueError("no idea")
    serve(job, channel)

def never_return_from_polishing(job, channel):
    primal_heuristic.polish = lambda *_: time.sleep(10**6)
    serve(job, channel)

def fail_with_many_nodes(argument, channel):
    channel.send(GpuReady("cpu"))
    channel.receive()
    raise ValueError("no idea")
"""


@pytest.fixture
def failing_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Jobs that fail, in a module that worker processes can import."""
    (tmp_path / "failing_jobs.py").write_text(JOBS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delitem(sys.modules, "failing_jobs", raising=False)
    return importlib.import_module("failing_jobs")


@pytest.mark.slow
@pytest.mark.usefixtures("in_workers")
@pytest.mark.subprocess
def test_an_error_in_a_worker_loses_no_node(
    problem: Problem,
    alone: Result,
    failing_jobs: Any,
    monkeypatch: pytest.MonkeyPatch,
    children_of: ChildrenOf,
) -> None:
    before = children_of(os.getpid())
    monkeypatch.setattr(search_pool, "serve", failing_jobs.fail_in_the_first)
    result = verify(problem, timeout=PATIENCE, **TOGETHER)
    assert result.status is Status.CLOSED
    assert agree(result, alone)
    assert result.notes == ("a worker ended early: ValueError: no idea",)
    assert children_of(os.getpid()) == before


@pytest.mark.slow
@pytest.mark.usefixtures("in_workers")
@pytest.mark.subprocess
def test_a_solver_that_never_returns_costs_a_heuristic(
    problem: Problem,
    alone: Result,
    failing_jobs: Any,
    monkeypatch: pytest.MonkeyPatch,
    children_of: ChildrenOf,
) -> None:
    """The workers that wait for it are replaced, and the search ends without polishing."""
    before = children_of(os.getpid())
    monkeypatch.setattr(search_pool, "serve", failing_jobs.never_return_from_polishing)
    monkeypatch.setattr(search_pool, "_PATIENCE", 1.0)
    monkeypatch.setattr(search_pool, "_PATIENCE_AT_FIRST", 2.0)
    result = verify(problem, timeout=PATIENCE, **TOGETHER)
    assert result.status in (Status.CLOSED, Status.EXHAUSTED)
    assert agree(result, alone)
    # Closed, it may have stopped anywhere within the gap; otherwise it went on as far as one can.
    closed = result.status is Status.CLOSED
    assert result.upper <= (alone.upper / (1 - ALONE["relative_gap"]) if closed else alone.upper)
    assert result.notes == ("a worker did not return and was replaced by one without heuristics",)
    assert children_of(os.getpid()) == before


@pytest.mark.slow
@pytest.mark.usefixtures("in_workers")
@pytest.mark.subprocess
def test_an_error_with_many_nodes_loses_none(
    problem: Problem, alone: Result, failing_jobs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a process was lent that bounds in batches is explored by others when it is gone."""
    monkeypatch.setattr(gpu_worker, "explore_on_gpu", failing_jobs.fail_with_many_nodes)
    monkeypatch.setattr(driver, "_RESERVED", 0)
    monkeypatch.setattr(driver, "_WORTHWHILE", 1)
    result = verify(problem, timeout=PATIENCE, **dict(TOGETHER, engine=Bab(gpu=True)))
    assert result.status is Status.CLOSED
    assert agree(result, alone)
    assert result.notes == ("the bounding in batches ended early: ValueError: no idea",)


@pytest.mark.slow
@pytest.mark.usefixtures("in_workers")
@pytest.mark.subprocess
def test_a_process_that_holds_up_the_search_loses_its_nodes_to_others(
    problem: Problem, alone: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_RESERVED", 0)
    monkeypatch.setattr(driver, "_WORTHWHILE", 1)
    monkeypatch.setattr(driver.GpuProcess, "_lags", lambda self, own, others: bool(self._held))
    options = dict(TOGETHER, engine=Bab(gpu=True), device="cpu")
    result = verify(problem, timeout=PATIENCE, **options)
    assert result.status is Status.CLOSED
    assert agree(result, alone)
    assert not result.notes


@pytest.mark.slow
@pytest.mark.usefixtures("in_workers")
@pytest.mark.subprocess
def test_many_nodes_at_once_find_the_same(
    problem: Problem, alone: Result, monkeypatch: pytest.MonkeyPatch, children_of: ChildrenOf
) -> None:
    before = children_of(os.getpid())
    monkeypatch.setattr(driver, "_RESERVED", 0)
    monkeypatch.setattr(driver, "_WORTHWHILE", 1)
    options = dict(TOGETHER, engine=Bab(gpu=True), device="cpu")
    result = verify(problem, timeout=PATIENCE, **options)
    assert result.status is Status.CLOSED
    assert agree(result, alone)
    assert not result.notes
    assert children_of(os.getpid()) == before


@pytest.mark.parametrize("unit", [2.0**-20, 2.0**20])
def test_units_do_not_matter(unit: float, problem: Problem, alone: Result) -> None:
    """The same network in other units: no absolute tolerance may interfere."""
    layers: list[Affine | Relu] = []
    size = 1.0
    for layer in problem.network.layers:
        if isinstance(layer, Affine):
            size *= unit
            shapes = layer.in_shape, layer.out_shape
            layers.append(Affine(unit * layer.weight, size * layer.bias, *shapes))
        else:
            layers.append(Relu(layer.out_shape))
    scaled = Problem(Network(tuple(layers), (6,)), perturbation="linf(0.1)", source=0)
    result = verify(scaled, timeout=PATIENCE, **ALONE)
    assert result.status is Status.CLOSED
    assert result.lower / size <= alone.upper
    assert alone.lower <= result.upper / size


def refusing(every: int, honest: Callable[..., Any]) -> Callable[..., Any]:
    """Refuses service now and then; Ctrl-C ends what that keeps alive."""
    calls = 0

    def refuse(simplex: Simplex, *arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 500:
            raise KeyboardInterrupt
        if calls % every == 0:
            raise SolverFailure("HiGHS answered kError")
        return honest(simplex, *arguments, **named)

    return refuse


@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize("name", ["solve", "switch_off", "restore"])
def test_a_solver_that_refuses_leaves_the_bounds_it_had(
    every: int, name: str, problem: Problem, alone: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Simplex, name, refusing(every, getattr(Simplex, name)))
    result = verify(problem, timeout=PATIENCE, **ALONE)
    assert agree(result, alone)
    assert result.upper < result.history[0].upper  # quick bounds need no solver


def test_a_model_that_a_solver_refuses_is_noted(
    problem: Problem, alone: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Boxes of inputs, which need no solver, would close it."""
    monkeypatch.setattr(Simplex, "__init__", refusing(1, Simplex.__init__))
    result = verify(problem, timeout=PATIENCE, engine=Bab(inputs=False), **ALONE)
    assert agree(result, alone)
    assert result.status is Status.EXHAUSTED
    assert result.notes == ("a part of the search failed: HiGHS answered kError",)


@pytest.mark.parametrize(
    "options",
    [ALONE, pytest.param(TOGETHER, marks=[pytest.mark.slow, pytest.mark.subprocess])],
)
def test_no_attack_is_more_confident_than_any_input(
    problem: Problem, options: dict[str, Any]
) -> None:
    """Where the perturbed input is arbitrary, the largest confidence is the answer."""
    options = dict(options, relative_gap=0.01)
    largest = max_confidence(problem.network, source=0, timeout=PATIENCE, **options)
    free = Problem(problem.network, perturbation="linf(1)", source=0)
    result = verify(free, timeout=PATIENCE, **options)
    assert result.status is largest.status is Status.CLOSED
    assert result.lower <= largest.upper
    assert largest.lower <= result.upper


@pytest.mark.slow
def test_an_end_for_lack_of_time_is_not_called_exhausted(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where linear programs do not fit into the time, more time would tighten the interval."""
    monkeypatch.setattr(branch_and_bound, "programs_fit", lambda *_: False)
    options = dict(ALONE, engine=Bab(attack=False, inputs=False), relative_gap=1e-3)
    result = verify(problem, timeout=PATIENCE, **options)
    assert result.status is Status.TIMEOUT
    assert result.upper < result.history[0].upper


def test_with_workers_the_calling_process_computes_on_one_thread_too(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads of linear algebra would wait for each other while small problems begin here."""
    inside: list[bool] = []

    @contextmanager
    def one_thread() -> Iterator[None]:
        inside.append(True)
        yield
        inside.pop()

    def explored(self: NodeSearch, *_: Any) -> bool:
        seen.append(("exploring", bool(inside)))
        return False

    def bounded(self: NodeSearch, *_: Any) -> None:
        seen.append(("first bounds", bool(inside)))

    def largest(*_: Any) -> Interval:
        seen.append(("maximal confidence", bool(inside)))
        return Interval(0.0, 1.0, BoundKind.INTERVAL)

    seen: list[tuple[str, bool]] = []
    verifying = importlib.import_module("vhagar.verify")
    for module in (branch_and_bound, verifying):
        monkeypatch.setattr(module, "one_blas_thread", one_thread)
    monkeypatch.setattr(NodeSearch, "bound_roots", bounded)
    monkeypatch.setattr(NodeSearch, "_explore_here", explored)
    monkeypatch.setattr(verifying, "largest_within_reach", largest)
    verify(problem, engine=Bab(attack=False), workers=2, timeout=0.5)
    assert {what for what, _ in seen} == {"exploring", "first bounds", "maximal confidence"}
    assert all(alone for _, alone in seen)


def convolutional_problem() -> Problem:
    """A problem that slopes bound well."""
    rng = np.random.default_rng(3)
    first = Convolution(rng.normal(size=(2, 1, 3, 3)), rng.normal(size=2), (1, 6, 6))
    last = Affine(rng.normal(size=(3, first.out_size)), np.zeros(3), first.out_shape, (3,))
    network = Network((first, Relu(first.out_shape), last), (1, 6, 6))
    return Problem(network, perturbation="linf(0.02)", source=0, targets=1)


@pytest.mark.subprocess
def test_quick_bounds_by_slopes_do_not_keep_workers_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bounds that take less time than a look at the messages, as if there were no end of them."""
    ready: list[int] = []
    mark_ready = search_pool.SearchPool.mark_ready

    def counted(pool: search_pool.SearchPool, name: int) -> None:
        ready.append(name)
        mark_ready(pool, name)

    monkeypatch.setattr(search_pool.SearchPool, "mark_ready", counted)
    monkeypatch.setattr(NodeSearch, "_bound_by_slopes", lambda *_: True)
    monkeypatch.setattr(size, "_SMALL_PRODUCT", 0)
    verify(
        convolutional_problem(),
        engine=Bab(attack=False, inputs=False),
        workers=2,
        timeout=20,
        on_progress=lambda now: not ready,
    )
    assert ready


@pytest.mark.subprocess
def test_there_are_bounds_by_slopes_before_any_worker_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, workers take seconds to start, in which nothing happened."""
    problem = convolutional_problem()
    monkeypatch.setattr(size, "_SMALL_PRODUCT", 0)
    monkeypatch.setattr(NodeSearch, "_hand_out", lambda *_: None)  # as if they were not there
    monkeypatch.setattr(search_pool.SearchPool, "are_ready", property(lambda _: False))
    result = verify(
        problem,
        engine=Bab(attack=False, inputs=False),
        workers=2,
        timeout=PATIENCE,
        on_progress=lambda now: now.upper > 4.0,  # the first bounds are 65.7 and 4.3
    )
    assert result.status is Status.INTERRUPTED
    assert result.kind is BoundKind.QUADRATIC
