"""How much of a data set a bound covers: inputs proven robust, inputs that were attacked, others.

That is what a global bound is for: an input more confident than `upper` is robust, and to know its
confidence takes one forward pass. Nothing is solved for any input.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
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
from vhagar.result import (
    BoundKind,
    Coverage,
    CoverageCounts,
    CoverageRows,
    PlausibleWitness,
    Result,
    Status,
    Witness,
    WitnessCheck,
)
from vhagar.runtime.deadline import Deadline

# Of the time for a problem with a data set; the rest is for attacks on its inputs. With a plausible
# witness, which takes the next share at most.
SEARCH_SHARE, PLAUSIBLE_SHARE = 0.9, 0.1
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
    _members: dict[int, tuple[Mask, Mask]] = field(default_factory=dict, init=False, repr=False)

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

    def members(self, label: int) -> tuple[Mask, Mask]:
        """Which inputs are certainly classified so, and which of these lie in the domain.

        Only these are looked for in the domain, because a zonotope takes long for many inputs.
        """
        if label not in self._members:
            classified = self.sure(label) > 0
            inside = classified.copy()
            inside[classified] = self.domain.contains(self.inputs[classified])
            self._members[label] = classified, inside
        return self._members[label]


def covered(
    problem: Problem, upper: float, data: SeenData, deadline: float, always: bool = False
) -> Coverage:
    """What a proven upper bound says of a data set; the rest is attacked until the deadline.

    With `always`, a few are attacked even after the deadline.
    """
    begun = time.monotonic()
    sure = data.sure(problem.source)
    classified, own = data.members(problem.source)
    robust = own & (sure > upper)
    rest = np.flatnonzero(own & ~robust)
    attackable = np.zeros_like(own)
    # The least confident first: they are the easiest to attack, so most inputs are decided.
    order = rest[np.argsort(sure[rest])]
    attackable[_attacked(problem, data.inputs, order, deadline, always)] = True
    right = data.labels == problem.source
    unknown, outside = own & ~robust & ~attackable, classified & ~own
    return Coverage(
        inputs=len(data.inputs),
        classified=_counts(own, robust, attackable),
        correct=None if data.labels is None else _counts(own & right, robust, attackable),
        largest=float(sure[own].max(initial=0.0)),
        seconds=time.monotonic() - begun,
        outside=int(outside.sum()),
        rows=CoverageRows(*map(_places, (robust, attackable, unknown, outside))),
    )


def search_time(options: Options, timeout: float | None) -> float | None:
    """How much of the time a search may take where a data set is to be looked at, too."""
    if timeout is None or options.dataset is None:
        return timeout
    return (SEARCH_SHARE - PLAUSIBLE_SHARE * (options.plausible is not None)) * timeout


def seen_data(result: Result, options: Options) -> SeenData | None:
    """The data set that a result is to cover, where there is one and something is attacked.

    Whoever interrupted the search is not kept waiting.
    """
    interrupted = result.status is Status.INTERRUPTED
    if options.dataset is None or result.problem.perturbation is None or interrupted:
        return None
    return SeenData.read(options.dataset, result.problem.network, result.problem.domain)


def with_coverage(
    result: Result, options: Options, seconds: float | None, data: SeenData | None = None
) -> Result:
    """The result with its coverage of a data set, if it is to cover one; `data`, if it is read."""
    deadline = Deadline.after(None if seconds is None else max(seconds, 0.0))
    data = data or seen_data(result, options)
    if data is None:
        return result
    result = _with_plausible(result, data, options, deadline)
    left = None if seconds is None else deadline.left
    return replace(
        result, coverage=_coverage_of(result, data, left), nearest=_neighbour(result.witness, data)
    )


def _with_plausible(result: Result, data: SeenData, options: Options, deadline: Deadline) -> Result:
    """The result with a witness near the data, if the options ask for one and there is a witness.

    It is near inputs that are classified as the source class, and labelled so if they have labels.
    """
    share = options.plausible
    if share is None or result.witness is None:
        return result
    from vhagar.attack.plausible import plausible_witness  # whose models few runs need

    label = result.problem.source
    members = data.sure(label) > 0
    if data.labels is not None:
        members = members & (data.labels == label)
    half, own = deadline.sooner(deadline.left / 2), data.inputs[members]
    found = plausible_witness(result.problem, result.witness, own, share, options.seed, half)
    near = _neighbour(found, data)
    if found is None or near is None:
        note = f"no witness near the data with {share:g} of the confidence was found"
        return replace(result, notes=(*result.notes, note))
    return replace(result, plausible=PlausibleWitness(found, near, share))


def _neighbour(witness: Witness | None, data: SeenData) -> Neighbour | None:
    """The input of a data set that is nearest to a witness."""
    if witness is None or not len(data.inputs):
        return None
    (found,) = nearest(witness.x.reshape(1, -1), data.inputs, data.domain, data.labels)
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
                    # The witness check may have moved the input.
                    if isinstance(verdict, Witness) and (verdict.x.ravel() == inputs[row]).all():
                        attacked.append(row)
    except KeyboardInterrupt:
        pass
    return attacked


def _chunks(rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The rows in order, a few at first, so that little time is enough for some."""
    start, size = 0, _ATTACKED_AT_ONCE // 16
    while start < len(rows):
        yield rows[start : start + size]
        start, size = start + size, min(2 * size, _ATTACKED_AT_ONCE)


def _places(members: Mask) -> tuple[int, ...]:
    return tuple(np.flatnonzero(members).tolist())


def _counts(members: Mask, robust: Mask, attackable: Mask) -> CoverageCounts:
    return CoverageCounts(
        int(members.sum()), int((members & robust).sum()), int((members & attackable).sum())
    )
