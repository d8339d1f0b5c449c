"""How much of a data set a bound covers: inputs proven robust, inputs that were attacked, others.

That is what a global bound is for: an input more confident than `upper` is robust, and to know its
confidence takes one forward pass. Nothing is solved for any input.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vhagar.array_types import Array, Mask
from vhagar.dataset import CHUNK, Neighbour, as_float32, nearest, read_test_set
from vhagar.errors import InvalidInput
from vhagar.network import Network
from vhagar.options import Options
from vhagar.perturbation import Domain
from vhagar.problem import Problem
from vhagar.relaxation import Bounds
from vhagar.relaxation.rounding import forward_error, sure_confidences
from vhagar.result import BoundKind, Coverage, CoverageCounts, Result, Status, Witness, WitnessCheck
from vhagar.runtime.deadline import Deadline

# Of the time for a problem with a data set; the rest is for attacks on its inputs.
SEARCH_SHARE = 0.9
# Few, so that a deadline is kept.
_ATTACKED_AT_ONCE = 128


def coverage(result: Result, dataset: str | Path, *, timeout: float | None = None) -> Coverage:
    """What a result says of the inputs in a file that are classified as its source class.

    Of an .npz file with a training and a test set, the test set is used. Inputs are taken as
    float32, as runtimes take them. Those that are not proven robust are attacked, one by one, for
    at most `timeout` seconds in all, after the file has been read; inputs that were not
    reached count as neither.
    """
    problem = result.problem
    if problem.perturbation is None:
        raise InvalidInput("coverage needs a result about a perturbation")
    return _coverage_of(
        result, SeenData.read(Path(dataset), problem.network, problem.domain), timeout
    )


def _coverage_of(result: Result, data: SeenData, timeout: float | None) -> Coverage:
    """What a result says of data that were read; to evaluate them takes none of the time."""
    upper = math.inf if result.kind is BoundKind.MARABOU else result.upper
    data.evaluate()
    return covered(result.problem, upper, data, Deadline.after(timeout).at)


@dataclass(frozen=True, eq=False)
class SeenData:
    """The inputs of a data set, as a network sees them: one forward pass serves all questions."""

    network: Network
    domain: Domain
    inputs: Array
    labels: NDArray[np.int64] | None

    @classmethod
    def read(cls, path: Path, network: Network, domain: Domain) -> SeenData:
        inputs, labels = read_test_set(path, domain)
        return cls(network, domain, as_float32(inputs, domain), labels)

    @cached_property
    def scores(self) -> Array:
        """The scores `(count, classes)`, as float64 has them."""
        parts = [
            self.network.forward(self.inputs[start : start + CHUNK])
            for start in range(0, len(self.inputs), CHUNK)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, self.network.classes))

    def evaluate(self) -> None:
        """Compute now what every question needs."""
        _ = self.scores, self.error

    @cached_property
    def error(self) -> Array:
        """What any score can be off by, `(classes,)`."""
        size, low, high = self.domain.size, self.domain.lower, self.domain.upper
        return forward_error(self.network, Bounds(np.full(size, low), np.full(size, high)))

    def sure(self, label: int) -> Array:
        """A proven lower bound on every input's confidence in a class, `(count,)`."""
        return sure_confidences(self.scores, self.error, label)


def covered(
    problem: Problem, upper: float, data: SeenData, deadline: float, always: bool = False
) -> Coverage:
    """What a proven upper bound says of a data set; the rest is attacked until the deadline.

    With `always`, a few are attacked even after the deadline.
    """
    begun = time.monotonic()
    sure = data.sure(problem.source)
    classified, inside = sure > 0, problem.domain.contains(data.inputs)
    own = classified & inside
    robust = own & (sure > upper)
    rest = np.flatnonzero(own & ~robust)
    attackable = np.zeros_like(own)
    # The least confident first: they are the easiest to attack, so most inputs are decided.
    order = rest[np.argsort(sure[rest])]
    attackable[_attacked(problem, data.inputs, order, deadline, always)] = True
    right = data.labels == problem.source
    return Coverage(
        inputs=len(data.inputs),
        classified=_counts(own, robust, attackable),
        correct=None if data.labels is None else _counts(own & right, robust, attackable),
        largest=float(sure[own].max(initial=0.0)),
        seconds=time.monotonic() - begun,
        outside=int((classified & ~inside).sum()),
    )


def search_time(options: Options, timeout: float | None) -> float | None:
    """How much of the time a search may take where a data set is to be looked at, too."""
    return timeout if timeout is None or options.dataset is None else SEARCH_SHARE * timeout


def with_coverage(result: Result, dataset: Path | None, seconds: float | None) -> Result:
    """The result with its coverage of a data set, where there is one and something is attacked.

    Whoever interrupted the search is not kept waiting.
    """
    interrupted = result.status is Status.INTERRUPTED
    if dataset is None or result.problem.perturbation is None or interrupted:
        return result
    left = None if seconds is None else max(seconds, 0.0)
    data = SeenData.read(dataset, result.problem.network, result.problem.domain)
    found = _coverage_of(result, data, left)
    return replace(result, coverage=found, nearest=_neighbour(result, data))


def _neighbour(result: Result, data: SeenData) -> Neighbour | None:
    """The input of a data set that is nearest to the witness."""
    if result.witness is None or not len(data.inputs):
        return None
    x = result.witness.x.reshape(1, -1)
    (found,) = nearest(x, data.inputs, data.domain, data.labels)
    return found


def _attacked(
    problem: Problem, inputs: Array, rows: NDArray[np.int64], deadline: float, always: bool
) -> list[int]:
    """Those of the rows that were pushed into a target class, each by a checked witness.

    All are attacked quickly first, and those that resist more thoroughly after that.
    Ctrl-C ends the attack, and the deadline does so between chunks; what was found counts.
    """
    attacked: list[int] = []
    if not len(rows) or (time.monotonic() >= deadline and not always):
        return attacked
    begun = time.monotonic()
    from vhagar.attack.local_attack import LocalAttack  # with the whole attack
    from vhagar.attack.value_attack import ValueAttack

    quickly = ValueAttack.suits(problem, len(rows))
    local = ValueAttack(problem) if quickly else LocalAttack(problem, "cpu")
    check = WitnessCheck(problem, moves=False)
    # Loading PyTorch can take longer than all attacks, which is no reason to have none.
    deadline += time.monotonic() - begun
    try:
        for quick in local.passes:
            for chunk in _chunks(rows[~np.isin(rows, attacked)]):
                if time.monotonic() >= deadline and not always:
                    return attacked
                always = False
                # What an attack has found counts, even if the time is up by then.
                for found in local.attacks(inputs[chunk], quick):
                    row = int(chunk[found.row])
                    verdict = check(found.target, inputs[row], found.piece_index, found.parameters)
                    if isinstance(verdict, Witness) and _is_same(verdict.x, inputs[row]):
                        attacked.append(row)
    except KeyboardInterrupt:
        pass
    return attacked


def _is_same(witness: Array, x: Array) -> bool:
    return bool((witness.reshape(-1) == x).all())


def _chunks(rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The rows in order, a few at first, so that little time is enough for some."""
    start, size = 0, _ATTACKED_AT_ONCE // 16
    while start < len(rows):
        yield rows[start : start + size]
        start, size = start + size, min(2 * size, _ATTACKED_AT_ONCE)


def _counts(members: Mask, robust: Mask, attackable: Mask) -> CoverageCounts:
    return CoverageCounts(
        int(members.sum()), int((members & robust).sum()), int((members & attackable).sum())
    )
