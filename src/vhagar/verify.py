"""The pipeline: bounds, then search, and an interval at every moment."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np

from vhagar.errors import InvalidInput
from vhagar.network import Network
from vhagar.options import Options
from vhagar.problem import Problem
from vhagar.relaxation import Bounds, largest_confidence
from vhagar.relaxation.bounds_cache import BoundsCache
from vhagar.result import BoundKind, Interval, Known, Result, Run, Status
from vhagar.result.known import offer_known
from vhagar.result.run import OnProgress
from vhagar.search import AbstractEngine, engine_for


def verify(
    problem: Problem,
    *,
    timeout: float | None = None,
    on_progress: OnProgress | None = None,
    options: Options | None = None,
    max_confidence: Interval | None = None,
    known: Known | None = None,
    bounds: BoundsCache | None = None,
    engine: AbstractEngine | None = None,
) -> Result:
    """Compute an interval around the minimal globally robust bound.

    The interval is valid whenever the run ends: when it is closed, when `timeout` seconds have
    passed, or on Ctrl-C, which returns the result so far with status INTERRUPTED. `on_progress` is
    called with every improvement. `max_confidence` (see the function of that name) lets
    `Result.percent` relate the bounds to what the network can reach at all. With
    `options.certificate` a proof of the interval is written to that file, however the run ends.
    `engine` searches instead of the one that the options name.

    `known` is where the search starts from: inputs to check, and bounds that are proven already.
    `bounds` remembers the bounds of the network's neurons from one call to the next.
    """
    options = options or Options()
    engine = engine or engine_for(options)
    if timeout is not None and (math.isnan(timeout) or timeout < 0):
        raise InvalidInput(f"the timeout must be a number of seconds, not {timeout}")
    deadline = time.monotonic() + (math.inf if timeout is None else timeout)
    run = Run(problem, options, on_progress, bounds, engine.reductions(problem, options))
    stopped: Status | None = None
    try:
        with engine.certifying(run):
            with run.phase("bounds"):
                _offer_trivial_bounds(run)
                offer_known(run, known or Known())
            with run.phase("search"):
                if engine.search(run, deadline):
                    stopped = Status.TIMEOUT
    except KeyboardInterrupt:
        stopped = Status.INTERRUPTED
    return replace(run.result(stopped), max_confidence=max_confidence)


def max_confidence(
    network: Network,
    label: int,
    *,
    input_range: tuple[float, float] = (0.0, 1.0),
    timeout: float | None = None,
    on_progress: OnProgress | None = None,
    options: Options | None = None,
) -> Result:
    """The largest confidence that any input reaches in a class, as an interval.

    No robustness bound of the class can exceed it; the paper calls it delta^m.
    """
    problem = Problem(network, perturbation=None, source=label, input_range=input_range)
    return verify(problem, timeout=timeout, on_progress=on_progress, options=options)


def _offer_trivial_bounds(run: Run) -> None:
    """No attacked input is more confident than any input can be."""
    problem = run.original
    domain = problem.domain
    box = Bounds(np.full(domain.size, domain.lower), np.full(domain.size, domain.upper))
    largest = largest_confidence(problem.network, box, problem.source)
    for goal in problem.goals:
        run.interval.offer_upper(goal, largest, BoundKind.INTERVAL)
