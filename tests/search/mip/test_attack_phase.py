"""The attack before the main MIP: its bound is a row, its hints are a start, and no more."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from vhagar import Network, Problem, Status, verify
from vhagar.attack.attack_worker import HintsFound
from vhagar.attack.hints import NO_HINT, Hints
from vhagar.options import MIP_PARTS, Options
from vhagar.reduction import REDUCTIONS, reduce_problem
from vhagar.result import Run
from vhagar.runtime.deadline import NEVER, Deadline
from vhagar.runtime.pool import Finished
from vhagar.runtime.processes import ProcessPool
from vhagar.search.mip import attack_phase
from vhagar.search.mip.attack_phase import AttackPhase, attack_first, start_of
from vhagar.search.mip.encoding import encode
from vhagar.search.mip.engine import Mip
from vhagar.search.mip.messages import Message, UpperFound
from vhagar.search.mip.options import MipOptions
from vhagar.search.mip.preparation import Prepared
from vhagar.search.mip.target import TargetSearch
from vhagar.solver.backends import Solved
from vhagar.solver.backends.highs import HighsModel

from ...scripted_pool import ScriptedPool

OPTIMUM = 0.25  # of the fixture `problem`


HERE = Options(workers=0)


def test_the_attack_is_heard_first(problem: Problem) -> None:
    run = Run(problem, HERE)
    prepared = attack_first(run, MipOptions(), Deadline.after(60))
    assert 0 < prepared.lower == run.interval.lower <= OPTIMUM
    assert set(prepared.hints) == {1}


def test_without_its_bound_there_are_only_hints(problem: Problem) -> None:
    run = Run(problem, HERE)
    prepared = attack_first(run, MipOptions(without=("attack",)), Deadline.after(60))
    assert prepared.lower == run.interval.lower == 0
    assert prepared.hints


def test_without_hints_there_is_only_its_bound(problem: Problem) -> None:
    prepared = attack_first(Run(problem, HERE), MipOptions(without=("hints",)), NEVER)
    assert prepared.lower > 0
    assert not prepared.hints


def test_without_both_there_is_no_attack(problem: Problem) -> None:
    run, options = Run(problem, Options()), MipOptions(without=("attack", "hints"))
    prepared = attack_first(run, options, NEVER)
    assert prepared.lower == 0
    assert not prepared.hints
    assert not AttackPhase(run, options, ScriptedPool(), NEVER).running


def test_nothing_is_attacked_without_a_perturbation(hidden: Network) -> None:
    run = Run(Problem(hidden, perturbation=None, source=0), Options())
    assert not AttackPhase(run, MipOptions(), ScriptedPool(), NEVER).running


@pytest.mark.subprocess
def test_beside_it_ends_when_it_is_told(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack_phase, "_GRACE", 100.0)  # on a busy machine its last words take long
    run = Run(problem, Options())
    with ProcessPool() as pool:
        attack = AttackPhase(run, MipOptions(), pool, NEVER)
        assert attack.running
        # However long it takes to start: it is told to end once it has found something.
        while run.interval.lower == 0:
            heard = pool.next_message(math.inf, 100)
            assert heard is not None
            attack.handle(*heard)
        prepared = attack.finish()
        assert not attack.running
    assert prepared.lower == run.interval.lower > 0
    assert prepared.hints


@pytest.mark.subprocess
def test_what_others_say_is_not_for_it(problem: Problem) -> None:
    run = Run(problem, Options())
    pool = ScriptedPool(lambda *_: Finished("out of memory"))
    attack = AttackPhase(run, MipOptions(), pool, NEVER)
    attack.handle("somebody", Finished("an error of somebody"))
    attack.handle("attack", HintsFound({1: Hints((), ())}))
    assert attack.running
    assert attack.finish().hints.keys() == {1}  # it is told to end, and fails
    assert run.result().notes == ("the attack ended early: out of memory",)


def search(problem: Problem, prepared: Prepared, messages: list[Message]) -> TargetSearch:
    options = MipOptions(relative_gap=1e-3)
    return TargetSearch(
        reduce_problem(problem, REDUCTIONS), 1, options, messages.append, lambda: False, prepared
    )


def calls_of(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []

    def solve(model: HighsModel, **arguments: Any) -> Solved:
        if "on_nodes" in arguments:
            calls.append(arguments)
        return honest(model, **arguments)

    honest = HighsModel.solve
    monkeypatch.setattr(HighsModel, "solve", solve)
    return calls


def test_its_bound_is_a_row_and_its_hints_are_a_start(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_of(monkeypatch)
    signs = (np.array([1], dtype=np.int8),)
    messages: list[Message] = []
    search(problem, Prepared(lower=0.2, hints={1: Hints(signs, signs)}), messages).run()
    (call,) = calls
    encoding = encode(problem, problem.pieces[0], 1)
    assert call["lower"][encoding.delta] == 0.2
    assert call["proving"]
    assert call["start"][encoding.arrays.integer].tolist() == [1.0, 1.0]
    assert np.isnan(call["start"][~encoding.arrays.integer]).all()
    uppers = [message.value for message in messages if isinstance(message, UpperFound)]
    assert OPTIMUM <= uppers[-1] <= OPTIMUM + 1e-3


def test_infeasible_means_no_more_than_the_attack(problem: Problem) -> None:
    """A row asks for more than there is: that bounds nothing below the row."""
    messages: list[Message] = []
    search(problem, Prepared(lower=0.3), messages).run()
    uppers = [message.value for message in messages if isinstance(message, UpperFound)]
    assert uppers[-1] == 0.3


@pytest.mark.parametrize("sign", [0, 1])
def test_wrong_hints_change_nothing(problem: Problem, sign: int) -> None:
    signs = (np.array([sign], dtype=np.int8),)
    messages: list[Message] = []
    search(problem, Prepared(hints={1: Hints(signs, signs)}), messages).run()
    uppers = [message.value for message in messages if isinstance(message, UpperFound)]
    assert OPTIMUM <= min(uppers) <= OPTIMUM + 1e-3


def test_a_hint_goes_where_its_neuron_has_a_boolean(problem: Problem) -> None:
    encoding = encode(problem, problem.pieces[0], 1)
    unknown, known = (np.array([sign], dtype=np.int8) for sign in (NO_HINT, 0))
    start = start_of(encoding, Hints((unknown,), (known,)))
    ((active, active_p),) = encoding.active
    assert np.isnan(start[active]).all()
    assert start[active_p].tolist() == [0.0]
    assert np.isfinite(start).sum() == 1


@pytest.mark.subprocess
@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize("without", [(), MIP_PARTS])
def test_the_engine_closes(problem: Problem, processes: bool, without: tuple[str, ...]) -> None:
    options = {"engine": Mip(without=without), "workers": None if processes else 0}
    result = verify(problem, timeout=60, **options)
    assert result.status is Status.CLOSED
    assert result.lower <= OPTIMUM <= result.upper
    assert "prepare" in result.timings
    assert not result.notes
