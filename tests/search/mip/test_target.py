"""The search for one target: what it announces holds for all of its pieces, at every moment."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from vhagar import Network, Problem
from vhagar.network import Affine
from vhagar.reduction import REDUCTIONS, reduce_problem
from vhagar.runtime.deadline import Deadline
from vhagar.search.mip.messages import CandidateFound, Message, UpperFound
from vhagar.search.mip.options import MipOptions
from vhagar.search.mip.target import TargetSearch
from vhagar.solver.backends import Solved, SolveStatus
from vhagar.solver.backends.highs import HighsModel


def search_of(problem: Problem, messages: list[Message], gap: float = 1e-3) -> TargetSearch:
    options = MipOptions(relative_gap=gap)
    return TargetSearch(
        reduce_problem(problem, REDUCTIONS), 1, options, messages.append, lambda: False
    )


def uppers(messages: list[Message]) -> list[float]:
    return [message.value for message in messages if isinstance(message, UpperFound)]


def test_a_piece_that_no_longer_matters_still_counts(hidden: Network) -> None:
    # One piece is settled up to the gap; the other one has nothing better than the witness.
    messages: list[Message] = []
    search = search_of(
        Problem(hidden, perturbation="patch([0,0.125],1,[1,2],1)", source=0, targets=1),
        messages,
        gap=0.01,
    )
    settled, other = search._open
    search._lower, settled.upper, other.upper, other.slice = 0.2, 0.2005, 0.6, 4.0
    search.run()
    assert min(uppers(messages)) == 0.2005


def test_nothing_better_than_the_witness_means_no_more_than_that(hidden: Network) -> None:
    messages: list[Message] = []
    search = search_of(Problem(hidden, perturbation="linf(0.125)", source=0, targets=1), messages)
    search._lower = 0.3  # more than there is
    search.run()
    assert min(uppers(messages)) == 0.3


def test_nothing_at_all_means_zero() -> None:
    # Class 1 is constant and below all that class 0 can be.
    never = Network((Affine(np.eye(2)[:, :1], np.array([0.0, -0.25]), (1,), (2,)),), (1,))
    messages: list[Message] = []
    search_of(Problem(never, perturbation="linf(0.125)", source=0, targets=1), messages).run()
    assert min(uppers(messages)) == 0


def answers_of(
    monkeypatch: pytest.MonkeyPatch, first: Solved, second: Solved | None = None
) -> list[str]:
    """HiGHS with these words for the MIP and, if given, for the second opinion on it."""
    calls: list[str] = []

    def solve(model: HighsModel, **arguments: Any) -> Solved:
        main = "on_nodes" in arguments
        calls.append("main" if main else "second opinion")
        if main:
            return first
        return second or honest(model, **arguments)

    honest = HighsModel.solve
    monkeypatch.setattr(HighsModel, "solve", solve)
    return calls


INFEASIBLE = Solved(SolveStatus.INFEASIBLE, math.inf, None)


@pytest.mark.parametrize(
    "second",
    [
        None,  # the truth
        INFEASIBLE,
        Solved(SolveStatus.OPTIMAL, 0.01, None),
        Solved(SolveStatus.STOPPED, math.inf, None),
        Solved(SolveStatus.OPTIMAL, math.nan, None),
        Solved(SolveStatus.OPTIMAL, -math.inf, None),
        Solved(SolveStatus.FAILED, math.inf, None),
    ],
)
@pytest.mark.parametrize("lower", [0.0, 0.1])
def test_infeasible_without_a_bound_that_says_so_changes_nothing(
    hidden: Network, second: Solved | None, lower: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = answers_of(monkeypatch, INFEASIBLE, second)
    messages: list[Message] = []
    search = search_of(Problem(hidden, perturbation="linf(0.125)", source=0, targets=1), messages)
    search._lower = lower
    search.run()
    assert not messages
    assert calls == ["main", "second opinion"]


def test_a_second_opinion_is_a_bound_like_any_other(
    hidden: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers_of(monkeypatch, INFEASIBLE, Solved(SolveStatus.OPTIMAL, -0.01, None))
    messages: list[Message] = []
    search = search_of(Problem(hidden, perturbation="linf(0.125)", source=0, targets=1), messages)
    search._lower = 0.1
    search.run()
    assert uppers(messages) == [0.1]


def test_infeasible_next_to_the_optimum_leaves_a_bound_next_to_it(
    hidden: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not even a sound solver is sure here: what it cannot tell apart is part of the bound.
    answers_of(monkeypatch, INFEASIBLE)
    messages: list[Message] = []
    search = search_of(
        Problem(hidden, perturbation="linf(0.125)", source=0, targets=1), messages, gap=0.0
    )
    search._lower = np.nextafter(0.25, 0)
    search.run()
    assert 0.25 <= min(uppers(messages)) <= 0.25 + 1e-6


def test_a_piece_in_doubt_gets_another_turn_while_there_are_others(
    hidden: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = Solved(SolveStatus.STOPPED, math.inf, None)
    calls = answers_of(monkeypatch, INFEASIBLE, stopped)
    messages: list[Message] = []
    search = search_of(
        Problem(hidden, perturbation="patch([0,0.125],1,[1,2],1)", source=0, targets=1), messages
    )
    limit = 8
    search._should_stop = lambda: len(calls) >= limit
    search.run()
    assert len(search._open) == 2
    assert not messages


@pytest.mark.parametrize("bound", [0.05, -2.0])
def test_a_bound_below_the_witness_bounds_only_what_is_better(
    hidden: Network, bound: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The model asks for more than the witness has; what is less it does not know.
    monkeypatch.setattr(
        HighsModel, "solve", lambda *_, **__: Solved(SolveStatus.OPTIMAL, bound, None)
    )
    messages: list[Message] = []
    search = search_of(Problem(hidden, perturbation="linf(0.125)", source=0, targets=1), messages)
    search._lower = 0.1
    search.run()
    assert min(uppers(messages)) == 0.1


def test_announcements_fall_and_hold(hidden: Network) -> None:
    # Whichever pixel moves, the optimum is 1/8.
    messages: list[Message] = []
    search_of(
        Problem(hidden, perturbation="patch([0,0.125],1,[1,2],1)", source=0, targets=1), messages
    ).run()
    found = uppers(messages)
    assert found == sorted(found, reverse=True)
    assert 0.125 <= found[-1] <= 0.1251
    assert any(isinstance(message, CandidateFound) for message in messages)


def test_a_range_of_contrasts_is_split_until_it_is_tight(hidden: Network) -> None:
    # Half the contrast: x1 - x2 may be 1/2. The relaxation of the whole range allows more.
    messages: list[Message] = []
    search_of(
        Problem(hidden, perturbation="contrast([0.5,0.9])", source=0, targets=1), messages
    ).run()
    found = uppers(messages)
    assert 0.25 <= found[-1] <= 0.2503
    assert found == sorted(found, reverse=True)


def test_a_solver_that_always_stops_early_is_not_asked_for_ever(
    hidden: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def solve(*_: Any, **__: Any) -> Solved:
        nonlocal calls
        calls += 1
        return Solved(SolveStatus.STOPPED, 0.7, None)

    monkeypatch.setattr(HighsModel, "solve", solve)
    messages: list[Message] = []
    search_of(Problem(hidden, perturbation="linf(0.125)", source=0, targets=1), messages).run()
    assert calls == 1
    assert uppers(messages) == [0.7]


def test_only_the_problems_own_pieces_are_sent(hidden: Network) -> None:
    """Candidates come from split pieces, but name the piece they were split from."""
    messages: list[Message] = []
    problem = Problem(hidden, perturbation="contrast([0.5,2])", source=0, targets=1)
    search_of(problem, messages).run()
    found = [message for message in messages if isinstance(message, CandidateFound)]
    assert found
    for message in found:
        piece = problem.pieces[message.piece_index]
        parameters = message.candidate.parameters
        assert (piece.project(parameters) == parameters).all()
        assert np.isfinite(message.candidate.x).all()


class _Patient(HighsModel):
    """A solver that polls nothing: only its time limit ends it."""

    limits: list[float]

    def solve(self, **request: Any) -> Solved:  # type: ignore[override]
        self.limits.append(request["time_limit"])
        return Solved(SolveStatus.STOPPED, math.inf, None)


def test_solvers_are_told_the_deadline(hidden: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    _Patient.limits = []
    problem = Problem(hidden, perturbation="patch([0,0.125],1,[1,2],1)", source=0, targets=1)
    reduced = reduce_problem(problem, REDUCTIONS)
    deadline = Deadline.after(1.5)
    search = TargetSearch(
        reduced, 1, MipOptions(), print, lambda: len(_Patient.limits) > 1, deadline=deadline
    )
    monkeypatch.setattr(search, "_backend", _Patient)
    search.run()
    assert len(_Patient.limits) == 2  # a turn of 2 s for each of the pieces
    assert all(0 <= limit <= 1.5 for limit in _Patient.limits)
