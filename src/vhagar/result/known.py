"""What is known before a search begins: from an earlier run, or from a related problem.

Inputs are only suggestions, which the run re-checks like any other. Upper bounds are taken on
the caller's word: they must have been proven for this problem, or for one that contains it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vhagar.problem import Problem
from vhagar.result.run import Run
from vhagar.result.values import BoundKind
from vhagar.result.witness import Witness, WitnessCheck

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Suggestion:
    """An input and its perturbed image, flat or not; without a target there is no image."""

    target: int | None
    x: Array
    x_p: Array | None = None


@dataclass(frozen=True, eq=False)
class Known:
    """Inputs that may be witnesses, and proven upper bounds by goal."""

    suggestions: tuple[Suggestion, ...] = ()
    uppers: dict[int | None, tuple[float, BoundKind]] = field(default_factory=dict)


def offer_known(run: Run, known: Known) -> None:
    """Let the run judge the inputs, and take the bounds."""
    for suggestion in known.suggestions:
        for goal, x, root, parameters in explanations(run.original, suggestion):
            run.interval.offer_witness(goal, x, root, parameters)
    for goal, (value, kind) in known.uppers.items():
        # A certificate proves what is claimed from the model alone, not from other results.
        if goal in run.problem.goals and run.options.certificate is None:
            run.interval.offer_upper(goal, value, kind)


def checked(problem: Problem, suggestion: Suggestion) -> Witness | None:
    """The best witness for a problem that a suggestion amounts to, if it does."""
    check = WitnessCheck(problem)
    verdicts = [check(*candidate) for candidate in explanations(problem, suggestion)]
    found = [verdict for verdict in verdicts if isinstance(verdict, Witness)]
    return max(found, key=lambda witness: witness.confidence, default=None)


def explanations(
    problem: Problem, suggestion: Suggestion
) -> list[tuple[int | None, Array, int | None, Array | None]]:
    """The problem's pieces, with parameters, that take the input to its image."""
    x = np.asarray(suggestion.x, dtype=np.float64).reshape(-1)
    if suggestion.target not in problem.goals or x.size != problem.domain.size:
        return []
    if suggestion.target is None or suggestion.x_p is None:
        return [(suggestion.target, x, None, None)]
    x_p = np.asarray(suggestion.x_p, dtype=np.float64).reshape(-1)
    return [
        (suggestion.target, x, root, piece.recover(x, x_p))
        for root, piece in enumerate(problem.pieces)
        if piece.contains(x[None], x_p[None])[0]
    ]
