"""One question to a solver: can a value of one copy exceed its partner in the other?

The paper minimises and maximises `z - z_p`. Most of these optima are exactly 0 (both neurons are
inactive for some input), and no solver with tolerances can prove a 0. So the question is put where
it has a definite answer: can the pre-activation `s` exceed `t` while `s >= 0`? If the largest
`s - t` is negative there, then `relu(s) <= relu(t)` everywhere. If it is about 0, the relation
holds up to a tiny number, which is still a valid row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from scipy import sparse

from vhagar.dependency.relation import Array
from vhagar.dependency.solver import Backend, Watch
from vhagar.errors import SolverFailure
from vhagar.solver.linear_model import LinearArrays

# How far below 0 a neuron still counts as active in a question, relative to its range, so that no
# solver within its tolerances cuts off an active neuron.
_ACTIVE_ROOM = 1e-7
# Largest gap that counts as nearly 0, relative to its range, whatever the solver's tolerances are.
_LARGEST_SLACK = 1e-3


class Verdict(Enum):
    """What became of a question."""

    PROVED = "the sign is proved"
    NEARLY = "proved up to the solver's tolerances"
    REFUTED = "a solution has the other sign"
    SAMPLED = "refuted by a sample, not asked"
    EMPTY = "the solver says that there is nothing to compare"
    UNDECIDED = "stopped before an answer"


@dataclass(frozen=True, eq=False)
class Question:
    """A model whose column `objective` is the difference, which lies within `reach` of 0."""

    arrays: LinearArrays
    objective: int
    reach: float


def can_exceed(arrays: LinearArrays, larger: int, smaller: int, active: bool) -> Question:
    """The model that maximises one column less another; `active`: where the larger is not < 0."""
    lower, upper = arrays.column_lower.copy(), arrays.column_upper
    if active:
        room = _ACTIVE_ROOM * max(abs(lower[larger]), abs(upper[larger]))
        lower[larger] = max(lower[larger], -room)
    ends = np.abs([[lower[larger], upper[larger]], [lower[smaller], upper[smaller]]])
    # Clearly more than the difference can be. Ends within a solver's tolerance of what the row
    # implies have made HiGHS's presolve call feasible models infeasible.
    reach = 1.25 * float(ends.max(axis=1).sum())
    count = len(lower)
    row = sparse.csr_array(
        (np.array([-1.0, 1.0, 1.0]), ([0, 0, 0], [larger, smaller, count])), shape=(1, count + 1)
    )
    wide = arrays.matrix.copy()
    wide.resize((wide.shape[0], count + 1))
    found = replace(
        arrays,
        column_lower=np.append(lower, -reach),
        column_upper=np.append(upper, reach),
        integer=np.append(arrays.integer, False),
        matrix=sparse.csr_array(sparse.vstack([wide, row], format="csr")),
        row_lower=np.append(arrays.row_lower, 0.0),
        row_upper=np.append(arrays.row_upper, 0.0),
    )
    return Question(found, count, reach)


def can_be_active(arrays: LinearArrays, neuron: int) -> Question:
    """The model that maximises a pre-activation, which has a solution whatever a solver says."""
    ends = abs(arrays.column_lower[neuron]), abs(arrays.column_upper[neuron])
    return Question(arrays, neuron, float(max(ends)))


class Progress:
    """What is known of a question's maximum while a solver works on it."""

    def __init__(self, question: Question, outward: float) -> None:
        self._objective = question.objective
        self._outward = outward
        # A bound on an optimum of 0 is `outward`; twice that leaves room for the search to stop.
        self._slack = min(2.0 * outward, _LARGEST_SLACK * question.reach)
        self.bound = math.inf
        self.best = -math.inf

    def bounded(self, bound: float) -> None:
        """An upper bound with tolerances added; NaN proves nothing."""
        self.bound = min(self.bound, bound)

    def found(self, point: Array) -> None:
        """A solution of the model. It only says when to stop."""
        self.best = max(self.best, float(point[self._objective]))

    @property
    def verdict(self) -> Verdict:
        """The answer so far: UNDECIDED means that it pays to go on."""
        if self.bound <= 0:
            return Verdict.PROVED
        if self.best > self._slack:
            return Verdict.REFUTED
        # With a solution next to 0 the sign itself can no longer be proved.
        if self.bound <= self._slack and self.best >= -self._outward:
            return Verdict.NEARLY
        return Verdict.UNDECIDED

    @property
    def final(self) -> Verdict:
        """The answer when the solver has ended, for whatever reason."""
        nearly = self.verdict is Verdict.UNDECIDED and self.bound <= self._slack
        return Verdict.NEARLY if nearly else self.verdict


@dataclass(frozen=True)
class Answer:
    """A verdict; where it is PROVED or NEARLY, the difference is at most `bound` (0 or tiny)."""

    verdict: Verdict
    bound: float = math.inf


def ask(
    backend: Backend,
    question: Question,
    time_limit: float,
    seed: int,
    should_stop: Callable[[], bool],
) -> Answer:
    """Put a question, and stop the solver as soon as the sign is decided."""
    try:
        maximiser = backend(question.arrays, question.objective)
        progress = Progress(question, maximiser.outward)

        def stop() -> bool:
            return progress.verdict is not Verdict.UNDECIDED or should_stop()

        watch = Watch(time_limit, seed, progress.bounded, progress.found, stop)
        last = maximiser.maximise(watch)
        if last == -math.inf:
            return Answer(Verdict.EMPTY)  # a mere word, without a bound that says by how much
        progress.bounded(last)
    except SolverFailure:
        return Answer(Verdict.UNDECIDED)  # a failure is never turned into a number
    verdict = progress.final
    if verdict is Verdict.PROVED:
        return Answer(verdict, 0.0)
    return Answer(verdict, progress.bound if verdict is Verdict.NEARLY else math.inf)
