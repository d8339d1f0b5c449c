"""The second opinion: how far a confidence is missed, which always has an answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vhagar import Network, Problem
from vhagar.network.network import confidence
from vhagar.search.mip.encoding import encode
from vhagar.search.mip.infeasibility_check import infeasibility_model
from vhagar.solver.backends import SolveStatus
from vhagar.solver.backends.base import Request
from vhagar.solver.backends.highs import HighsModel

from ...oracle.cases import Case


# At a difference d of the pixels the confidence is d - 1/4, and the target's margin 1/2 - d.
@pytest.mark.parametrize(("least", "expected"), [(0.0, 0.125), (0.25, 0.0), (0.3, -0.025)])
def test_by_how_much_a_confidence_is_missed(
    problem: Problem, least: float, expected: float
) -> None:
    question = infeasibility_model(encode(problem, problem.pieces[0], 1), least)
    model = HighsModel(question.arrays, question.v)
    room, row_lower = question.room(model.outward)
    assert 0 < model.outward < room < 1e-4
    solved = model.solve(row_lower=(question.target_rows, row_lower))
    assert solved.status is SolveStatus.OPTIMAL
    assert expected <= solved.bound <= expected + 1e-4


def test_without_a_target_it_is_the_confidence_alone(hidden: Network) -> None:
    question = infeasibility_model(
        encode(Problem(hidden, perturbation=None, source=0), None, None), 1.0
    )
    model = HighsModel(question.arrays, question.v)
    room, row_lower = question.room(model.outward)
    assert room == np.inf
    assert len(row_lower) == 0
    assert -0.25 <= model.solve().bound <= -0.25 + 1e-6


@pytest.mark.parametrize("number", range(0, 96, 5))
def test_every_input_and_its_image_is_feasible(number: int) -> None:
    problem = Case(number).problem()
    network, target = problem.network, problem.targets[0]
    piece = problem.pieces[0]
    question = infeasibility_model(encode(problem, piece, target), 1e-3)
    rng = np.random.default_rng(number)
    x = rng.uniform(problem.domain.lower, problem.domain.upper, (50, problem.domain.size))
    parameters = rng.uniform(*piece.parameter_bounds, (50, len(piece.parameter_bounds[0])))
    scores = network.forward(x), network.forward(piece.apply(x, parameters))
    missed = np.minimum(confidence(scores[0], problem.source) - 1e-3, confidence(scores[1], target))
    reach = question.arrays.column_upper[question.v]
    assert (abs(missed) < reach).all()
    assert question.arrays.column_lower[question.v] == -reach
    model = HighsModel(question.arrays, question.v)
    _, row_lower = question.room(model.outward)
    solved = model.solve(row_lower=(question.target_rows, row_lower), time_limit=60)
    assert solved.status is SolveStatus.OPTIMAL
    assert solved.bound >= missed.max()


def test_the_room_is_on_top_of_what_the_rows_have(problem: Problem) -> None:
    """Rows are wider than asked for already, for coefficients that were dropped."""
    question = infeasibility_model(encode(problem, problem.pieces[0], 1), 0.0)
    room, row_lower = question.room(0.5)
    before = question.arrays.row_lower[question.target_rows]
    assert (before < 0).all()
    assert (row_lower <= before - room).all()


def test_a_row_given_anew_is_widened_like_any_other(problem: Problem) -> None:
    arrays = encode(problem, problem.pieces[0], 1).arrays
    matrix = arrays.matrix.copy()
    matrix.data[::3] *= 1e-11  # too small for a solver
    model = HighsModel(replace(arrays, matrix=matrix), 0)
    every = np.arange(len(arrays.row_lower))
    columns = arrays.column_lower, arrays.column_upper
    given = [
        Request(*columns, rows, False, np.inf, 0, None)
        for rows in (None, (every, arrays.row_lower))
    ]
    plain, anew = (model._scaled_rows(request)[0] for request in given)
    assert (plain < arrays.row_lower * model._scaled.row_scale).any()
    np.testing.assert_array_equal(plain, anew)
