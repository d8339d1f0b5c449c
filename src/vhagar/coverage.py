"""How much of a data set a bound covers: inputs proven robust, inputs that were attacked, others.

That is what a global bound is for: an input more confident than `upper` is robust, and to know its
confidence takes one forward pass. Nothing is solved for any input.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vhagar.attack.local_attack import LocalAttack
from vhagar.attack.starts import CHUNK
from vhagar.dataset import read_test_set
from vhagar.errors import InvalidInput
from vhagar.network.network import confidence
from vhagar.options import Options
from vhagar.problem import Problem
from vhagar.relaxation import Bounds
from vhagar.relaxation.rounding import confidence_error, forward_error
from vhagar.result import (
    BoundKind,
    Coverage,
    CoverageCounts,
    Result,
    Status,
    Witness,
    WitnessCheck,
)

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Of the time for a problem with a data set; the rest is for attacks on its inputs.
_SEARCH_SHARE = 0.9
# Few, so that a deadline is kept.
_ATTACKED_AT_ONCE = 128


def coverage(result: Result, dataset: str | Path, *, timeout: float | None = None) -> Coverage:
    """What a result says of the inputs in a file that are classified as its source class.

    An .npz file that holds a training and a test set is asked for its test set. Inputs are taken as
    float32, as runtimes take them. Those that are not proven robust are attacked, one by one, for
    at most `timeout` seconds in all; whoever was not reached is neither robust nor attackable.
    """
    begun = time.monotonic()
    problem = result.problem
    if problem.perturbation is None:
        raise InvalidInput("coverage needs a result about a perturbation")
    inputs, labels = read_test_set(Path(dataset), problem.domain)
    inputs = _as_float32(inputs, problem)
    sure = lower_confidences(problem, inputs)
    own = sure > 0
    robust = own & (sure > result.upper) & (result.kind is not BoundKind.MARABOU)
    rest = np.flatnonzero(own & ~robust)
    deadline = math.inf if timeout is None else begun + timeout
    attackable = np.zeros_like(own)
    # The most confident first: it is for them that the bound had hopes.
    attackable[_attacked(problem, inputs, rest[np.argsort(-sure[rest])], deadline)] = True
    right = labels == problem.source
    return Coverage(
        inputs=len(inputs),
        classified=_counts(own, robust, attackable),
        correct=None if labels is None else _counts(own & right, robust, attackable),
        largest=float(sure[own].max(initial=0.0)),
        seconds=time.monotonic() - begun,
    )


def search_time(options: Options, timeout: float | None) -> float | None:
    """How much of the time a search may take where a data set is to be looked at, too."""
    return timeout if timeout is None or options.dataset is None else _SEARCH_SHARE * timeout


def with_coverage(result: Result, dataset: Path | None, seconds: float | None) -> Result:
    """The result with its coverage of a data set, where there is one and something is attacked.

    Whoever interrupted the search is not kept waiting.
    """
    interrupted = result.status is Status.INTERRUPTED
    if dataset is None or result.problem.perturbation is None or interrupted:
        return result
    return replace(result, coverage=coverage(result, dataset, timeout=seconds))


def lower_confidences(problem: Problem, inputs: Array) -> Array:
    """A proven lower bound on every input's confidence in the source class, `(count,)`."""
    domain, network = problem.domain, problem.network
    box = Bounds(np.full(domain.size, domain.lower), np.full(domain.size, domain.upper))
    error = forward_error(network, box)
    allowance = confidence_error(error, problem.source)
    found = [
        confidence(network.forward(inputs[start : start + CHUNK]), problem.source)
        for start in range(0, len(inputs), CHUNK)
    ]
    plain = np.concatenate(found) if found else np.zeros(0)
    # Two subtractions round: that of the scores and this one.
    bounds: Array = np.nextafter(plain - allowance - 2.0**-51 * abs(plain), -np.inf)
    return np.where(np.isfinite(bounds), bounds, -np.inf)


def _as_float32(inputs: Array, problem: Problem) -> Array:
    """The same rounding as the witness check's, so that both speak of the same inputs."""
    rounded = inputs.astype(np.float32).astype(np.float64)
    clipped: Array = np.clip(rounded, problem.domain.lower, problem.domain.upper)
    return clipped


def _attacked(
    problem: Problem, inputs: Array, rows: NDArray[np.int64], deadline: float
) -> list[int]:
    """Those of the rows that were pushed into a target class, each by a checked witness.

    Ctrl-C and the deadline end the attack; what was found until then counts.
    """
    attacked: list[int] = []
    if not len(rows) or time.monotonic() >= deadline:
        return attacked
    local, check = LocalAttack(problem, "cpu"), WitnessCheck(problem)
    try:
        for start in range(0, len(rows), _ATTACKED_AT_ONCE):
            chunk = rows[start : start + _ATTACKED_AT_ONCE]
            for found in local.attacks(inputs[chunk]):
                if time.monotonic() >= deadline:
                    return attacked
                row = int(chunk[found.row])
                verdict = check(found.target, inputs[row], found.root, found.parameters)
                if isinstance(verdict, Witness):
                    attacked.append(row)
    except KeyboardInterrupt:
        pass
    return attacked


def _counts(members: Mask, robust: Mask, attackable: Mask) -> CoverageCounts:
    return CoverageCounts(
        int(members.sum()), int((members & robust).sum()), int((members & attackable).sum())
    )
