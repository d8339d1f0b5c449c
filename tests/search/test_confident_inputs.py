"""Moves between linear regions, for the search that no attack helps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from vhagar.attack.incumbents import AttackFound
from vhagar.problem import Problem
from vhagar.reduction.base import reduce_problem
from vhagar.relaxation.bounds_cache import BoundsCache
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.result.witness import RestoredCheck, WitnessCheck
from vhagar.runtime.deadline import Deadline
from vhagar.search import confident_inputs
from vhagar.search.bounders.lp import LpBounder
from vhagar.search.confidence_probe import uphill
from vhagar.search.confident_inputs import ConfidentInputs
from vhagar.search.node import Numbers, Region
from vhagar.search.region_cache import Regions

from ..oracle.cases import Case
from ..oracle.exact import exact_optimum, overall
from ..pooled import pooled_problem

# More work than any limit of the moves.
MUCH = 1e12
# More work than that of one move on a small network.
OF_A_MOVE = 1e7


class Moves:
    """Moves on a problem about the maximal confidence, and what they sent."""

    def __init__(self, problem: Problem, seed: int = 0, deadline: Deadline | None = None) -> None:
        reduced = reduce_problem(problem.without_perturbation(), ())
        self.problem = reduced.problem
        self.sent: list[AttackFound] = []
        regions = Regions(self.problem, BoundsCache())
        self.model: RegionModel = regions[Region(None, 0)].region_model
        given = deadline or Deadline()
        check = RestoredCheck(reduced)
        self.inputs = ConfidentInputs(reduced, check, self.sent.append, seed, given)

    def look(self, times: int, known: float = 0.0, work: float = MUCH) -> float:
        for _ in range(times):
            known = self.inputs.look(self.model, known, work)
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
    here.inputs.take(found)
    assert here.look(1) >= best


def test_nothing_is_done_after_the_deadline() -> None:
    moves = Moves(pooled_problem(1), deadline=Deadline.after(0.0))
    assert moves.look(3) == 0.0


def test_they_begin_after_a_while_and_take_a_share_of_the_work() -> None:
    """Many searches end before: a local question is asked for every class."""
    moves = Moves(pooled_problem(1))
    assert moves.look(50, work=confident_inputs._BEFORE) == 0.0
    assert moves.inputs.work == 0
    spent = []
    for work in np.linspace(2, 6, 5) * confident_inputs._BEFORE:
        moves.look(50, work=work)
        share = confident_inputs._SHARE * (work - confident_inputs._BEFORE)
        assert share <= moves.inputs.work <= share + OF_A_MOVE
        spent.append(moves.inputs.work)
    assert spent == sorted(set(spent))


def test_what_was_checked_elsewhere_is_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    there, here = Moves(pooled_problem(1)), Moves(pooled_problem(1), seed=1)
    there.look(20)
    monkeypatch.setattr(RestoredCheck, "__call__", lambda *_: pytest.fail("checked again"))
    here.inputs.take(there.sent[-1])


def bounder() -> LpBounder:
    reduced = reduce_problem(pooled_problem(1).without_perturbation(), ())
    return LpBounder(reduced, lambda _: None, Numbers(0))


def test_a_bounder_has_one_check_for_all_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a copy of the network."""
    made: list[Problem] = []
    plain = WitnessCheck.__init__

    def begin(check: WitnessCheck, problem: Problem) -> None:
        made.append(problem)
        plain(check, problem)

    monkeypatch.setattr(WitnessCheck, "__init__", begin)
    bounder()
    assert len(made) == 1


def test_moves_count_as_work_of_the_bounder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where results must be reproducible, its share of the time goes by that."""
    of_nodes = bounder()
    assert of_nodes.work == 0
    monkeypatch.setattr(ConfidentInputs, "work", 1e9)
    assert 0.5 < of_nodes.work < 5  # seconds
