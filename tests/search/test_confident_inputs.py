"""Moves between linear regions, for the search that no attack helps."""

from __future__ import annotations

from itertools import pairwise

import pytest

from vhagar.problem import Problem
from vhagar.reduction.base import reduce_problem
from vhagar.relaxation.bounds_cache import BoundsCache
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.runtime.deadline import Deadline
from vhagar.search.confidence_probe import uphill
from vhagar.search.confident_inputs import ConfidentInputs
from vhagar.search.node import Region
from vhagar.search.primal_heuristic import WitnessFound
from vhagar.search.region_cache import Regions

from ..oracle.cases import Case
from ..oracle.exact import exact_optimum, overall
from ..pooled import pooled_problem

# More work than any limit of the moves.
MUCH = 1e12


class Moves:
    """Moves on a problem about the maximal confidence, and what they sent."""

    def __init__(self, problem: Problem, seed: int = 0, deadline: Deadline | None = None) -> None:
        reduced = reduce_problem(problem.without_perturbation(), ())
        self.problem = reduced.problem
        self.sent: list[WitnessFound] = []
        regions = Regions(self.problem, BoundsCache())
        self.model: RegionModel = regions[Region(None, 0)].region_model
        given = deadline or Deadline()
        self.inputs = ConfidentInputs(reduced, self.sent.append, seed, given)

    def look(self, times: int, known: float = 0.0) -> float:
        for _ in range(times):
            known = self.inputs.look(self.model, known, MUCH)
        return known


@pytest.mark.parametrize("number", range(6))
def test_what_they_find_is_the_confidence_of_an_input(number: int) -> None:
    problem = Case(number).problem()
    largest = overall(exact_optimum(problem.without_perturbation())).high
    moves = Moves(problem)
    assert moves.look(10) <= largest
    for found in moves.sent:
        scores = moves.problem.network.forward(found.x[None])[0]
        others = [score for k, score in enumerate(scores) if k != problem.source]
        assert scores[problem.source] - max(others) == pytest.approx(found.confidence)


def test_they_get_beyond_steps_uphill() -> None:
    moves = Moves(pooled_problem(1))
    reached, _ = uphill(moves.problem, 0)
    assert moves.look(20) > reached
    confidences = [found.confidence for found in moves.sent]
    assert all(first < second for first, second in pairwise(confidences))


def test_only_what_is_better_than_all_that_was_known_is_sent() -> None:
    moves = Moves(pooled_problem(1))
    assert moves.look(5, known=1e6) == 1e6
    assert not moves.sent


def test_they_go_on_from_an_input_that_was_found_elsewhere() -> None:
    there = Moves(pooled_problem(1))
    best = there.look(20)
    found = there.sent[-1]
    here = Moves(pooled_problem(1), seed=1)
    here.inputs.take(found.x, found.parameters)
    assert here.look(1) >= best


def test_nothing_is_done_after_the_deadline() -> None:
    moves = Moves(pooled_problem(1), deadline=Deadline.after(0.0))
    assert moves.look(3) == 0.0
