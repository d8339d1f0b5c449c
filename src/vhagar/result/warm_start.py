"""What is known before a search begins: from an earlier run, or from a related problem.

Inputs are only suggestions, which the run re-checks like any other. Upper bounds are taken on
the caller's word: they must have been proven for this problem, or for one that contains it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vhagar.array_types import Array
from vhagar.perturbation import AbstractPiece
from vhagar.problem import Problem
from vhagar.result.run import Run
from vhagar.result.values import BoundKind
from vhagar.result.witness import Witness, WitnessCheck

# A target, an input, the number of a piece and its parameters.
_Candidate = tuple[int | None, Array, int | None, Array | None]

# Images that differ by at most this share of the input range in every entry count as the same.
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Suggestion:
    """An input and its perturbed image, each flat or not, and the parameters that produce it.

    Without a target there is neither an image nor parameters.
    """

    target: int | None
    x: Array
    x_p: Array | None = None
    parameters: Array | None = None


@dataclass(frozen=True, eq=False)
class WarmStart:
    """Inputs that may be witnesses, and proven upper bounds by target."""

    suggestions: tuple[Suggestion, ...] = ()
    uppers: dict[int | None, tuple[float, BoundKind]] = field(default_factory=dict)


def offer_warm_start(run: Run, known: WarmStart) -> None:
    """Offer the suggested inputs and the proven upper bounds to the run's interval."""
    for suggestion in known.suggestions:
        for target, x, piece_index, parameters in explanations(run.original, suggestion):
            run.interval.offer_witness(target, x, piece_index, parameters)
    for target, (value, kind) in known.uppers.items():
        # A certificate must prove its claims from the model alone, not from other results.
        if target in run.problem.search_targets and run.options.certificate is None:
            run.interval.offer_upper(target, value, kind)


def checked(problem: Problem, suggestion: Suggestion) -> Witness | None:
    """Find the best witness that a suggestion gives for a problem; None if it gives none."""
    check = WitnessCheck(problem)
    verdicts = [check(*candidate) for candidate in explanations(problem, suggestion)]
    found = [verdict for verdict in verdicts if isinstance(verdict, Witness)]
    return max(found, key=lambda witness: witness.confidence, default=None)


def explanations(problem: Problem, suggestion: Suggestion) -> list[_Candidate]:
    """Find the problem's pieces and parameters that take the suggested input to its image.

    The suggestion may come from another perturbation. Its parameters are tried as they are, except
    that parameters which are changes of pixels are computed from the pair. The witness check
    judges what comes out.
    """
    x = np.asarray(suggestion.x, dtype=np.float64).reshape(-1)
    if suggestion.target not in problem.search_targets or x.size != problem.domain.size:
        return []
    if suggestion.target is None or suggestion.x_p is None:
        return [(suggestion.target, x, None, None)]
    x_p = np.asarray(suggestion.x_p, dtype=np.float64).reshape(-1)
    found: list[_Candidate] = []
    check = WitnessCheck(problem)
    for piece_index, piece in enumerate(problem.pieces):
        parameters = _parameters(piece, x, x_p, suggestion.parameters)
        if parameters is None:
            continue
        image = check.image(piece_index, x, parameters)
        if (abs(image - x_p) <= _SAME * problem.domain.width).all():
            found.append((suggestion.target, x, piece_index, parameters))
    return found


def _parameters(piece: AbstractPiece, x: Array, x_p: Array, given: Array | None) -> Array | None:
    """Find the parameters that a pair would have in this piece; None if they are unknown."""
    low, _ = piece.parameter_bounds
    if piece.free_pixels is not None and piece.formula is not None:
        own = piece.formula.map
        return piece.project((x_p - own.matrix @ x - own.offset)[piece.free_pixels])
    if not len(low):
        return low
    fits = given is not None and given.shape == low.shape
    return piece.project(given) if fits and given is not None else None
