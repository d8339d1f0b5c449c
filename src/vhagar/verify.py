"""The pipeline: reductions, bounds, then search, and an interval at every moment."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vhagar.coverage import search_time, with_coverage
from vhagar.errors import InvalidInput
from vhagar.network import Network
from vhagar.options import Options
from vhagar.perturbation import Domain
from vhagar.problem import Problem
from vhagar.reduction import reduce_problem
from vhagar.relaxation import Bounds, largest_confidence
from vhagar.relaxation.bounds_cache import BoundsCache
from vhagar.result import BoundKind, Interval, ProgressError, Result, Run, Status, WarmStart
from vhagar.result.live import notebook_bar
from vhagar.result.run import OnProgress
from vhagar.result.warm_start import offer_warm_start
from vhagar.runtime.deadline import Deadline, OutOfTime, check_timeout
from vhagar.runtime.threads import one_blas_thread
from vhagar.search import AbstractEngine
from vhagar.search.branch_and_bound import Bab
from vhagar.search.confidence_probe import largest_within_reach

if TYPE_CHECKING:
    from torch.nn import Module

StrPath = str | os.PathLike[str]


def verify(
    problem: Problem,
    *,
    engine: AbstractEngine | None = None,
    timeout: float | None = None,
    relative_gap: float = Options.relative_gap,
    workers: int | None = None,
    seed: int = Options.seed,
    device: str = Options.device,
    dataset: StrPath | None = None,
    plausible: float | None = None,
    certificate: StrPath | None = None,
    checkpoint: StrPath | None = None,
    resume: StrPath | None = None,
    executor: str = Options.executor,
    address: str | None = None,
    max_confidence: Interval | None = None,
    on_progress: OnProgress | None = None,
) -> Result:
    """Compute an interval around the minimal globally robust bound.

    The interval is valid whenever the run ends: when it is closed (`relative_gap`), when `timeout`
    seconds have passed, or on Ctrl-C, which returns the result so far with status INTERRUPTED.
    `on_progress` is called with every improvement, and stops the run by returning False. An error
    that it raises stops the run, too, and comes as a `ProgressError` with the result so far.
    Without it, notebooks show a progress bar.

    `engine` is `Bab()` unless another one is given. `workers` is the number of processes that share
    the search, all cores by default; with one, or 0, everything happens in this process, and a
    search that closes gives the same result every time. `device` is where attacks and
    first-order steps run: "cpu", "cuda", or "auto", a GPU where there is one. Attacks may start
    from the inputs in `dataset`, an .npz or .csv file or a folder of images; `Result.coverage`
    then says how many of them are proven robust. With a share for `plausible`, 0.9 say,
    `Result.plausible` is a witness near that data with at least this share of the best one's
    confidence. `max_confidence`
    (see the function of that name) lets `Result.percent` relate the bounds to what the network can
    reach at all; where it is not given, a quick interval takes its place.

    `certificate` names a file to write that proves the interval, however the run ends; the engines
    `Bab` and `FirstOrder` can. Upper bounds are then stated a little larger than they were
    computed, by 1e-9 of themselves and of the first bound and by 1e-12 of the scores, which leaves
    room for the checker's rounding. Small certificates are checked before the run ends: if one
    proves a little less, the bound that it proves is stated instead, and a note says so.

    `checkpoint` names a file in which the engines `Bab` and `FirstOrder` keep the search while it
    goes on, at most 30 seconds old. Whatever ends the run, `resume` goes on from such a file of the
    same question, with any number of workers, and keeps it up to date unless `checkpoint` names
    another. A file that exists already is never overwritten without being resumed.

    With the `executor` "ray" the engine `Bab` searches in the Ray cluster at `address`, or in a new
    local one; `workers` is then how many of its cores take part, all of them by default.
    """
    options = Options(
        relative_gap=relative_gap,
        workers=workers,
        seed=seed,
        device=device,
        dataset=None if dataset is None else Path(dataset),
        plausible=plausible,
        certificate=None if certificate is None else Path(certificate),
        checkpoint=None if checkpoint is None else Path(checkpoint),
        resume=None if resume is None else Path(resume),
        executor=executor,
        address=address,
    )
    check_timeout(timeout)
    begun = time.monotonic()
    result = _watched(problem, engine or Bab(), options, search_time(options, timeout), on_progress)
    left = None if timeout is None else begun + timeout - time.monotonic()
    result = with_coverage(result, options, left)
    return with_largest(replace(result, max_confidence=max_confidence), seed)


def with_largest(result: Result, seed: int = Options.seed) -> Result:
    """The result with an interval around the maximal confidence, found in no time.

    Without it, nobody could tell whether a bound says anything. A better one is left as it is.
    """
    problem, known = result.problem, result.max_confidence
    if known is not None or problem.perturbation is None:
        return result
    # Threads that share such small products wait for each other, ten times as long as they compute.
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        found = largest_within_reach(problem, seed)
    # A witness is an input, too.
    found = replace(found, lower=min(max(found.lower, result.lower), found.upper))
    return replace(result, max_confidence=found)


def max_confidence(
    network: Network | str | os.PathLike[str] | Module,
    *,
    source: int,
    input_range: tuple[float, float] | None = None,
    input_shape: Sequence[int] | None = None,
    domain: Domain | str | os.PathLike[str] | None = None,
    engine: AbstractEngine | None = None,
    timeout: float | None = None,
    relative_gap: float = Options.relative_gap,
    workers: int | None = None,
    seed: int = Options.seed,
    device: str = Options.device,
    certificate: StrPath | None = None,
    on_progress: OnProgress | None = None,
) -> Result:
    """The maximal confidence that any input reaches in a class, as an interval.

    No robustness bound of the class can exceed it; the paper calls it delta^m. The arguments are
    those of `Problem` and of `verify`.
    """
    return verify(
        Problem(
            network,
            perturbation=None,
            source=source,
            input_range=input_range,
            input_shape=input_shape,
            domain=domain,
        ),
        engine=engine,
        timeout=timeout,
        relative_gap=relative_gap,
        workers=workers,
        seed=seed,
        device=device,
        certificate=certificate,
        on_progress=on_progress,
    )


def attack(
    problem: Problem,
    *,
    timeout: float = 10.0,
    workers: int | None = None,
    seed: int = Options.seed,
    device: str = Options.device,
    dataset: StrPath | None = None,
    on_progress: OnProgress | None = None,
) -> Result:
    """Look for the most confident input that can be attacked: the lower bound of `verify`.

    It takes the whole time, unless interval arithmetic happens to show that there is nothing
    better. The arguments are those of `verify`; for the algorithm without our additions, or with
    some of them, use `verify` with the engine `Attack`.
    """
    from vhagar.attack.engine import Attack  # needs torch

    inputs = None if dataset is None else Path(dataset)
    options = Options(workers=workers, seed=seed, device=device, dataset=inputs)
    return _watched(problem, Attack(), options, timeout, on_progress)


def _watched(
    problem: Problem,
    engine: AbstractEngine,
    options: Options,
    timeout: float | None,
    on_progress: OnProgress | None,
) -> Result:
    """Run an engine; in a notebook that is told nothing else, with a progress bar."""
    bar = notebook_bar(problem, timeout) if on_progress is None else None
    tell = bar if on_progress is None else on_progress
    result = run_engine(problem, engine, options, timeout=timeout, on_progress=tell)
    if bar is not None:
        bar.finish(result)
    return result


def run_engine(
    problem: Problem,
    engine: AbstractEngine,
    options: Options,
    *,
    timeout: float | None = None,
    on_progress: OnProgress | None = None,
    warm_start: WarmStart | None = None,
    bounds: BoundsCache | None = None,
) -> Result:
    """Run an engine on a problem, as `verify` does, with a warm start and bounds to share.

    `warm_start` has inputs to check first, and bounds that are proven already. `bounds` remembers
    the bounds of the network's neurons from one call to the next.
    """
    if not isinstance(engine, AbstractEngine):
        raise InvalidInput(f"an engine is an object such as vhagar.Mip(), not {engine!r}")
    deadline = Deadline.after(timeout)
    engine.check(options)
    # The engine searches the reduced problem; what it finds comes back through `reduced.restore`.
    reduced = reduce_problem(problem, engine.reductions(problem, options))
    run = Run(problem, options, on_progress, bounds, reduced, engine.name)
    stopped: Status | None = None
    try:
        # Numbers beyond float64 bound nothing, and the run takes none of them.
        with engine.certifying(run), np.errstate(over="ignore", invalid="ignore"):
            with run.phase("bounds"):
                _offer_trivial_bounds(run)
                offer_warm_start(run, warm_start or WarmStart())
                engine.resume(run)
            with run.phase("search"):
                # Without any time, and where all is known already, there is nothing to search for.
                if deadline.passed or (not run.interval.closed and engine.search(run, deadline)):
                    stopped = Status.TIMEOUT
    except OutOfTime:
        stopped = Status.TIMEOUT
    except KeyboardInterrupt:
        stopped = Status.INTERRUPTED
    result = run.result(stopped)
    if run.failure is not None:
        raise ProgressError(result, run.failure) from run.failure
    return result


def _offer_trivial_bounds(run: Run) -> None:
    """No attacked input is more confident than any input can be."""
    problem = run.original
    largest = largest_confidence(problem.network, Bounds.over(problem.domain), problem.source)
    for target in problem.search_targets:
        run.interval.offer_upper(target, largest, BoundKind.INTERVAL)
