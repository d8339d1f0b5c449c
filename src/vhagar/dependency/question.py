"""One question to a solver: can a value of one copy exceed its partner in the other?

The paper minimises and maximises `z - z_p`. Most of these optima are exactly 0 (both neurons are
inactive for some input), and no solver with tolerances can prove a 0. The question is therefore
asked where it has a definite answer: can the pre-activation `s` exceed `t` while `s >= 0`? If the
largest `s - t` is negative there, then `relu(s) <= relu(t)` everywhere. If it is about 0, the
relation holds up to a tiny number, which is still a valid row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from scipy import sparse

from vhagar.array_types import Array
from vhagar.errors import SolverFailure
from vhagar.solver.backends import AbstractModel, SolveStatus
from vhagar.solver.linear_model import LinearArrays

# Takes a model and the index of the column to maximise.
Backend = Callable[[LinearArrays, int], AbstractModel]

# How far below 0 a neuron still counts as active in a question, relative to its range, so that no
# solver within its tolerances cuts off an active neuron.
_ACTIVE_ROOM = 1e-7
# Largest gap that counts as nearly 0, relative to its range, whatever the solver's tolerances are.
_LARGEST_SLACK = 1e-3


class SignStatus(Enum):
    """What is known of the sign of a difference."""

    PROVED = "the sign is proved"
    NEARLY = "proved up to the solver's tolerances"
    REFUTED = "a solution has the other sign"
    EMPTY = "the solver says that there is nothing to compare"
    UNDECIDED = "stopped before an answer"


@dataclass(frozen=True, eq=False)
class SignQuestion:
    """A model whose column `objective` is the difference, at most `reach` in absolute value."""

    arrays: LinearArrays
    objective: int
    reach: float


def can_exceed(arrays: LinearArrays, larger: int, smaller: int, active: bool) -> SignQuestion:
    """Build the model that maximises a difference, with `active` only where `larger` is active."""
    lower, upper = arrays.column_lower.copy(), arrays.column_upper
    if active:
        room = _ACTIVE_ROOM * max(abs(lower[larger]), abs(upper[larger]))
        lower[larger] = max(lower[larger], -room)
    ends = np.abs([[lower[larger], upper[larger]], [lower[smaller], upper[smaller]]])
    # Clearly more than the difference can be: bounds within a solver's tolerance of what the row
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
    return SignQuestion(found, count, reach)


def can_be_active(arrays: LinearArrays, neuron: int) -> SignQuestion:
    """Build the model that maximises a pre-activation, which is always feasible."""
    ends = abs(arrays.column_lower[neuron]), abs(arrays.column_upper[neuron])
    return SignQuestion(arrays, neuron, float(max(ends)))


class SignProgress:
    """Bounds on a question's maximum while a solver works on it."""

    def __init__(self, question: SignQuestion, outward: float) -> None:
        self._objective = question.objective
        self._outward = outward
        # The bound on an optimum of 0 is `outward`; twice that lets the search stop.
        self._slack = min(2.0 * outward, _LARGEST_SLACK * question.reach)
        self.bound = math.inf
        self.best = -math.inf

    def bounded(self, bound: float) -> None:
        """Take in an upper bound with tolerances added; NaN has no effect."""
        self.bound = min(self.bound, bound)

    def found(self, point: Array) -> None:
        """Take in a solution of the model, which only decides when to stop."""
        self.best = max(self.best, float(point[self._objective]))

    @property
    def status(self) -> SignStatus:
        """The answer so far; UNDECIDED means that the solver should continue."""
        if self.bound <= 0:
            return SignStatus.PROVED
        if self.best > self._slack:
            return SignStatus.REFUTED
        # With a solution next to 0, the sign itself can no longer be proved.
        if self.bound <= self._slack and self.best >= -self._outward:
            return SignStatus.NEARLY
        return SignStatus.UNDECIDED

    @property
    def final(self) -> SignStatus:
        """The answer when the solver has ended, for whatever reason."""
        nearly = self.status is SignStatus.UNDECIDED and self.bound <= self._slack
        return SignStatus.NEARLY if nearly else self.status


@dataclass(frozen=True)
class SignAnswer:
    """A status; if it is PROVED or NEARLY, the difference is at most `bound` (0 or tiny)."""

    status: SignStatus
    bound: float = math.inf


def ask(
    backend: Backend,
    question: SignQuestion,
    time_limit: float,
    seed: int,
    should_stop: Callable[[], bool],
) -> SignAnswer:
    """Ask a question, and stop the solver as soon as the sign is decided."""
    try:
        model = backend(question.arrays, question.objective)
        progress = SignProgress(question, model.outward)
        solved = model.solve(
            time_limit=time_limit,
            seed=seed,
            on_bound=progress.bounded,
            on_solution=progress.found,
            should_stop=lambda: progress.status is not SignStatus.UNDECIDED or should_stop(),
        )
    except SolverFailure:
        return SignAnswer(SignStatus.UNDECIDED)  # a failure is never turned into a number
    if solved.status is SolveStatus.INFEASIBLE:
        return SignAnswer(SignStatus.EMPTY)  # a mere status, without a bound that says by how much
    if solved.solution is not None:
        progress.found(solved.solution)
    progress.bounded(solved.bound)
    status = progress.final
    if status is SignStatus.PROVED:
        return SignAnswer(status, 0.0)
    return SignAnswer(status, progress.bound if status is SignStatus.NEARLY else math.inf)
