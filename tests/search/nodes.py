"""Problems of the oracle with inputs known to be attacked, and the nodes that hold them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from vhagar import Problem
from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.lp.decisions import PIXELS, Decision
from vhagar.relaxation.lp.region_model import RegionModel

from ..marks import mostly_slow
from ..oracle.cases import KINDS, Case
from ..relaxation.samples import Attacked, Pair, Rng, attacked_inputs, overshoot

every_kind = pytest.mark.parametrize("kind", KINDS)
most_kinds_slow = pytest.mark.parametrize("kind", mostly_slow(list(KINDS), 3))
_PER_KIND = 3


@dataclass(frozen=True, eq=False)
class Found:
    """A problem, one of its targets, and an attacked input with the model of its piece."""

    problem: Problem
    target: int
    region_model: RegionModel
    attacked: Attacked


@cache
def found_in(case: Case, most: int = 4) -> tuple[Found, ...]:
    """Attacked inputs of a case; few or none where attacks are rare."""
    problem = case.problem()
    rng = np.random.default_rng([12, case.number])
    found = []
    for target in problem.targets:
        contexts: dict[int, RegionModel] = {}
        for attacked in attacked_inputs(problem, target, rng, 60):
            if attacked.piece_index not in contexts:
                bounds = quick_bounds(problem.network, problem.pieces[attacked.piece_index])
                contexts[attacked.piece_index] = RegionModel(problem, bounds, target)
            found.append(Found(problem, target, contexts[attacked.piece_index], attacked))
    picked = rng.permutation(len(found))[:most]
    return tuple(found[k] for k in picked)


@cache
def cases_of(kind: str) -> tuple[Case, ...]:
    """The first few cases of a perturbation in which attacks are easily found."""
    found: list[Case] = []
    for case in (Case(number) for number in range(384)):
        if case.kind == kind and len(found) < _PER_KIND and len(found_in(case)) > 1:
            found.append(case)
    return tuple(found)


def everything(kind: str) -> Iterator[Found]:
    """All that was found in the cases of a perturbation."""
    for case in cases_of(kind):
        yield from found_in(case)


def agreeing(found: Found, rng: Rng, share: float = 0.5) -> tuple[Decision, ...]:
    """Random decisions, in random order, that all hold for the attacked input."""
    attacked = found.attacked
    decisions = _pixels(found.region_model.piece, attacked.pair, rng, share)
    for copy, values in enumerate((attacked.first, attacked.second)):
        for layer, entering in enumerate(values.entering):
            for neuron, value in enumerate(entering):
                if rng.random() < share:
                    positive = bool(rng.integers(2)) if value == 0 else bool(value > 0)
                    decisions.append(Decision(layer, neuron, copy, positive))
    return tuple(decisions[k] for k in rng.permutation(len(decisions)))


def _pixels(piece: AbstractPiece, pair: Pair, rng: Rng, share: float) -> list[Decision]:
    """Whether pixels clip, for pieces on which that can be decided."""
    over = overshoot(piece, pair)
    return [
        Decision(PIXELS, k, 0, bool(rng.integers(2)) if amount == 0 else bool(amount > 0))
        for k, amount in enumerate([] if over is None else over)
        if rng.random() < share
    ]


def with_one_reversed(decisions: tuple[Decision, ...], rng: Rng) -> tuple[Decision, ...]:
    """The same but for one, which makes a sibling's descendant of the node."""
    if not decisions:
        return decisions
    k = int(rng.integers(len(decisions)))
    other = decisions[k]
    reversed_one = Decision(other.layer, other.neuron, other.copy, not other.positive)
    return (*decisions[:k], reversed_one, *decisions[k + 1 :])


def exactly(value: float) -> Fraction:
    return Fraction(float(value))
