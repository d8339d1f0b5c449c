"""Calls Marabou: a query goes in, an answer comes out. It runs in worker processes."""

from __future__ import annotations

import importlib
import math
import os
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from vhagar.array_types import Array
from vhagar.baseline.query import Query, delta_query
from vhagar.errors import SolverUnavailable
from vhagar.reduction import Reduced
from vhagar.result.witness import Rejection, RestoredCheck
from vhagar.runtime.pool import Channel
from vhagar.search.mip.polish import Polish, WitnessCandidate


class QueryStatus(Enum):
    """Marabou's answer; everything that is neither yes nor no is UNDECIDED."""

    INPUT_FOUND = "sat"
    NO_INPUT = "unsat"
    UNDECIDED = "undecided"


# Seconds that stand for no time limit.
_LONGEST = 10**9

_STATUSES = {"sat": QueryStatus.INPUT_FOUND, "unsat": QueryStatus.NO_INPUT}


@dataclass(frozen=True)
class QueryTask:
    """One query: the index of a piece, a target, and the confidence that is asked about.

    Marabou checks the time now and then; after `seconds` it may give up by itself.
    """

    piece_index: int
    target: int
    delta: float
    threads: int
    seconds: float


@dataclass(frozen=True, eq=False)
class QueryAnswer:
    """A status; if an input was found, candidates for a witness, the best first."""

    status: QueryStatus
    candidates: tuple[WitnessCandidate, ...] = ()
    word: str = ""


def require_marabou() -> Any:
    """Import Marabou's core; an error says how to install it."""
    try:
        # The package itself would import parsers that are not needed.
        return importlib.import_module("maraboupy.MarabouCore")
    except ImportError as error:
        raise SolverUnavailable(
            "the baseline marabou needs the package maraboupy, which is not installed: "
            'run `pip install "vhagar[marabou]"` under Python 3.11 on Linux or macOS with x86-64 '
            "(there are wheels for nothing newer)"
        ) from error


def serve(reduced: Reduced, channel: Channel) -> None:
    """Run in a worker: answer one query after the other, until the parent ends it."""
    while True:
        channel.send(answer(reduced, channel.receive()))


def answer(reduced: Reduced, task: QueryTask) -> QueryAnswer:
    """Ask Marabou, and turn its input, if it finds one, into candidates for a witness."""
    problem = reduced.problem
    piece = problem.pieces[task.piece_index]
    query = delta_query(problem, piece, task.target, task.delta)
    word, values = solve(query, task.threads, task.seconds)
    status = _STATUSES.get(word, QueryStatus.UNDECIDED)
    if status is not QueryStatus.INPUT_FOUND:
        return QueryAnswer(status, word=word)
    x = problem.domain.project(values[query.x])
    found = WitnessCandidate(x, piece.project(query.image.parameters.value(values)))
    checked = RestoredCheck(reduced)(task.target, found.x, task.piece_index, found.parameters)
    if not isinstance(checked, Rejection):
        return QueryAnswer(status, (found,), word)
    # The input often lies on the boundary between the classes, where rounding decides. The linear
    # program of its region moves it away from there.
    repaired = Polish(problem, piece, task.target).candidates(x, found.parameters)
    return QueryAnswer(status, (found, *repaired), word)


def solve(query: Query, threads: int, seconds: float) -> tuple[str, Array]:
    """Return Marabou's answer (sat, unsat, TIMEOUT, ...) and, for sat, the columns' values."""
    core = require_marabou()
    options = core.Options()
    options._verbosity = 0
    options._timeoutInSeconds = min(max(math.ceil(seconds), 1), _LONGEST)
    options._numWorkers = threads
    options._snc = threads > 1  # split and conquer: threads share one query
    word, values, _ = core.solve(_input_query(core, query), options, os.devnull)
    if word != "sat":
        return str(word), np.zeros(0)
    return "sat", np.array([values[k] for k in range(len(query.arrays.column_lower))])


def _input_query(core: Any, query: Query) -> Any:
    arrays = query.arrays
    made = core.InputQuery()
    made.setNumberOfVariables(len(arrays.column_lower))
    for column, (low, high) in enumerate(
        zip(arrays.column_lower.tolist(), arrays.column_upper.tolist(), strict=True)
    ):
        if np.isfinite(low):
            made.setLowerBound(column, low)
        if np.isfinite(high):
            made.setUpperBound(column, high)
    for place, column in enumerate(query.inputs.tolist()):
        made.markInputVariable(column, place)
    for row, (low, high) in enumerate(
        zip(arrays.row_lower.tolist(), arrays.row_upper.tolist(), strict=True)
    ):
        for kind, scalar in _kinds(core, low, high):
            made.addEquation(_equation(core, arrays.matrix, row, kind, scalar))
    for before, after in query.relus:
        core.addReluConstraint(made, before, after)
    return made


def _kinds(core: Any, low: float, high: float) -> list[tuple[Any, float]]:
    if low == high:
        return [(core.Equation.EQ, low)]
    below = [(core.Equation.GE, low)] if np.isfinite(low) else []
    return below + ([(core.Equation.LE, high)] if np.isfinite(high) else [])


def _equation(core: Any, matrix: Any, row: int, kind: Any, scalar: float) -> Any:
    equation = core.Equation(kind)
    part = slice(matrix.indptr[row], matrix.indptr[row + 1])
    for coefficient, column in zip(
        matrix.data[part].tolist(), matrix.indices[part].tolist(), strict=True
    ):
        equation.addAddend(coefficient, column)
    equation.setScalar(scalar)
    return equation
