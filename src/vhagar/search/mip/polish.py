"""Turns a solver's solution into a witness.

At the optimum of the MIP, the target's margin is usually 0, up to the solver's tolerances. The
polish fixes the activation pattern of both copies at a given input, asks for a small positive
margin, and solves the remaining linear program, with HiGHS whichever solver searches. The result is
still only a candidate: the witness check decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array
from vhagar.perturbation import AbstractPiece
from vhagar.problem import Problem
from vhagar.runtime.deadline import NEVER, Deadline
from vhagar.search.mip.encoding import Encoding, encode
from vhagar.solver.backends import SolveStatus
from vhagar.solver.backends.highs import HighsModel

# Target margins to try, relative to the scores: float32 must still see the smallest that works.
# With the last, the target wins only at an exact tie.
_MARGINS = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.0)
# Seconds for the activation pattern at an input, and for the LP of its linear region.
_PATTERN_SECONDS, _REGION_SECONDS = 10.0, 30.0


@dataclass(frozen=True, eq=False)
class WitnessCandidate:
    """An input and parameters that may be a witness."""

    x: Array
    parameters: Array


class Polish:
    """Polishes candidates for one piece and target, until the deadline."""

    def __init__(
        self,
        problem: Problem,
        piece: AbstractPiece | None,
        target: int | None,
        deadline: Deadline = NEVER,
    ) -> None:
        self._deadline = deadline
        self._problem = problem
        self._piece = piece
        self._target = target

    def candidates(self, x: Array, parameters: Array | None) -> Iterator[WitnessCandidate]:
        """Candidates near a solver's input and parameters, the most promising first."""
        if self._piece is None or parameters is None:
            yield WitnessCandidate(x, np.zeros(0))
            return
        parameters = self._piece.project(parameters)
        piece = _at(self._piece, parameters)
        encoding = encode(self._problem, piece, self._target)
        model = HighsModel(encoding.arrays, encoding.delta)
        x_p = piece.apply(x[None], parameters[None])[0]
        seconds = min(_PATTERN_SECONDS, self._deadline.left)
        pattern = _pattern(encoding, model, x, x_p, seconds)
        if pattern is not None:
            for margin in _MARGINS:
                seconds = min(_REGION_SECONDS, self._deadline.left)
                wanted = margin * encoding.target_scale
                found = _region_optimum(encoding, model, pattern, wanted, seconds)
                if found is None:
                    continue
                assert encoding.parameters is not None  # there is a piece
                yield WitnessCandidate(found[encoding.x], encoding.parameters.value(found))
        yield WitnessCandidate(x, parameters)


def _at(piece: AbstractPiece, parameters: Array) -> AbstractPiece:
    """The piece itself if its rows are exact, otherwise the piece with its parameter fixed."""
    return piece if piece.exact_rows else piece.fixed_at(float(parameters[0]))


def _pattern(
    encoding: Encoding, model: HighsModel, x: Array, x_p: Array, seconds: float
) -> Array | None:
    """The values of the integer columns at a pair, by fixing the pair; presolve does the rest."""
    arrays = encoding.arrays
    lower, upper = arrays.column_lower.copy(), arrays.column_upper.copy()
    assert encoding.x_p is not None  # there is a piece
    # The image first: the input overrides it in columns that they share.
    for columns, values in ((encoding.x_p, x_p), (encoding.x, x)):
        lower[columns] = upper[columns] = np.clip(values, lower[columns], upper[columns])
    rows = np.concatenate([encoding.source_rows, encoding.target_rows])
    free = np.full(len(rows), -np.inf)
    solved = model.solve(lower=lower, upper=upper, row_lower=(rows, free), time_limit=seconds)
    if solved.solution is None:
        return None
    return np.round(solved.solution[arrays.integer])


def _region_optimum(
    encoding: Encoding, model: HighsModel, pattern: Array, margin: float, seconds: float
) -> Array | None:
    """The best point of the linear region with that activation pattern, with a margin."""
    arrays = encoding.arrays
    lower, upper = arrays.column_lower.copy(), arrays.column_upper.copy()
    lower[arrays.integer] = upper[arrays.integer] = pattern
    # Against a class that always scores like the target, only a tie is possible.
    margins = np.minimum(margin, encoding.target_reach)
    solved = model.solve(
        lower=lower,
        upper=upper,
        row_lower=(encoding.target_rows, margins),
        integer=False,
        time_limit=seconds,
    )
    return solved.solution if solved.status is SolveStatus.OPTIMAL else None


def first_accepted(
    candidates: Iterator[WitnessCandidate], accept: Callable[[WitnessCandidate], bool]
) -> WitnessCandidate | None:
    """The first candidate that is accepted; later ones have less confidence."""
    return next((candidate for candidate in candidates if accept(candidate)), None)
