"""Backends by the script: when a search stops, what is believed, and how long it may take."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vhagar import Network
from vhagar.dependency import (
    DependencyOptions,
    SignStatus,
    find_dependencies,
)
from vhagar.errors import SolverFailure
from vhagar.network import Affine, Relu
from vhagar.perturbation import Domain, parse
from vhagar.relaxation import Bounds

from .exact import the_piece
from .scripted import (
    ASK_ALL,
    HIDDEN,
    SHAPE,
    Scripted,
    Watch,
    answered,
    ask,
    solution,
)


def test_a_proved_sign_stops_the_search(network: Network) -> None:
    def script(watch: Watch, _: int) -> float:
        watch.on_bound(0.5)
        assert not watch.should_stop()
        watch.on_bound(-0.125)
        assert watch.should_stop()
        return math.inf

    _found, statuses = ask(network, script)
    assert set(statuses) == {SignStatus.PROVED}


def test_a_solution_of_the_other_sign_stops_the_search(network: Network) -> None:
    def script(watch: Watch, objective: int) -> float:
        watch.on_solution(solution(objective, -0.5))
        assert not watch.should_stop()
        watch.on_solution(solution(objective, 0.25))
        assert watch.should_stop()
        return 0.5

    found, statuses = ask(network, script)
    assert set(statuses) == {SignStatus.REFUTED}
    assert len(found.layers[HIDDEN]) == 0


def test_about_0_stops_only_when_no_sign_can_be_proved(network: Network) -> None:
    def script(watch: Watch, objective: int) -> float:
        watch.on_bound(1e-6)
        assert not watch.should_stop()
        watch.on_solution(solution(objective, 0.0))
        assert watch.should_stop()
        return 1e-6

    found, statuses = ask(network, script)
    assert set(statuses) == {SignStatus.NEARLY}
    known = found.layers[HIDDEN]
    assert not known.exact.any()
    assert set(abs(known.gap_lower).tolist()) <= {1e-6, math.inf}


@pytest.mark.parametrize("bound", [math.nan, math.inf, 0.5, 3e-6])
def test_a_bound_that_is_no_answer(network: Network, bound: float) -> None:
    found, statuses = ask(network, lambda watch, objective: bound)
    assert set(statuses) == {SignStatus.UNDECIDED}
    assert len(found.layers[HIDDEN]) == 0


def test_a_failure_is_no_answer(network: Network) -> None:
    def script(watch: Watch, _: int) -> float:
        watch.on_bound(-1.0)
        raise SolverFailure("out of order")

    found, statuses = ask(network, script)
    assert set(statuses) == {SignStatus.UNDECIDED}
    assert len(found.layers[HIDDEN]) == 0


@pytest.mark.parametrize(
    ("second", "status"),
    [(-0.5, SignStatus.PROVED), (0.5, SignStatus.UNDECIDED), (-math.inf, SignStatus.UNDECIDED)],
)
def test_nothing_feasible_needs_a_bound(
    network: Network, second: float, status: SignStatus
) -> None:
    """Is the neuron never active? A status alone does not say so, a bound on it does."""
    objectives: list[int] = []

    def script(watch: Watch, objective: int) -> float:
        objectives.append(objective)
        return -math.inf if len(objectives) % 2 else second

    found, statuses = ask(network, script)
    assert set(statuses) == {status}
    assert len(found.layers[HIDDEN]) == (3 if status is SignStatus.PROVED else 0)
    assert found.layers[HIDDEN].exact.all()


def test_no_question_after_the_deadline(network: Network) -> None:
    def script(watch: Watch, _: int) -> float:
        raise AssertionError("a question was asked")

    found, _statuses = ask(network, script, deadline=5.0, clock=lambda: 5.0)
    # What follows without a solver is still there.
    assert len(found.layers[1]) == 2
    assert len(found.layers[HIDDEN]) == 0


def test_the_time_left_is_the_limit(network: Network) -> None:
    """Each question takes 3 seconds of this clock; the third would begin after the deadline."""
    now = 100.0
    limits = []

    def script(watch: Watch, _: int) -> float:
        nonlocal now
        limits.append(watch.time_limit)
        assert not watch.should_stop()
        now += 3.0
        assert watch.should_stop() == (now >= 105.0)
        return math.inf

    options = DependencyOptions(samples=0, question_time=4.0)
    _found, statuses = ask(network, script, deadline=105.0, clock=lambda: now, options=options)
    assert limits == [4.0, 2.0]
    assert statuses[SignStatus.UNDECIDED] >= 3


def test_the_search_ends_at_a_layer_without_relations() -> None:
    """The paper's stopping rule: bounds would order the last layer, but nobody looks."""
    eye = np.eye(2)
    first, second = (Affine(eye, np.zeros(2), SHAPE, SHAPE) for _ in range(2))
    network = Network((first, Relu(SHAPE), second), SHAPE)
    piece = the_piece(parse("linf(0.5)").pieces(Domain(SHAPE)))
    open_, low = Bounds(np.zeros(2), np.ones(2)), Bounds(np.zeros(2), np.full(2, 0.25))
    high = Bounds(np.full(2, 0.5), np.ones(2))
    options = DependencyOptions(optimise=False)
    found = find_dependencies(network, piece, ([open_, open_, low], [open_, open_, high]), options)
    assert [len(known) for known in found.layers] == [0, 0, 0, 0]
    # With relations all the way, the last layer is looked at.
    found = find_dependencies(network, piece, ([open_, low, low], [open_, high, high]), options)
    assert [len(known) for known in found.layers] == [0, 0, 2, 2]


def test_only_where_the_bounds_leave_an_order_possible() -> None:
    """A range within the other's allows neither order, so nobody is asked."""
    network = Network((Affine(np.eye(2), np.zeros(2), SHAPE, SHAPE),), SHAPE)
    piece = the_piece(parse("linf(0.5)").pieces(Domain(SHAPE)))

    def count(one: Bounds, two: Bounds) -> int:
        backend = Scripted(lambda watch, objective: math.inf)
        given = {"bounds": ([one], [two]), "options": ASK_ALL, "backend": backend}
        return answered(network, piece, **given)[1].total()

    def between(low: float, high: float) -> Bounds:
        return Bounds(np.full(2, low), np.full(2, high))

    assert count(between(0, 1), between(-1, 2)) == 0
    assert count(between(-1, 2), between(0, 1)) == 0
    assert count(between(0, 2), between(1, 3)) == 2
    assert count(between(1, 3), between(0, 2)) == 2
    assert count(between(0, 1), between(0, 1)) == 4


def test_numbers_beyond_float64_are_not_for_solvers(network: Network) -> None:
    def script(watch: Watch, _: int) -> float:
        raise AssertionError("a question was asked")

    every = [
        Bounds(np.full(layer.out_size, -np.inf), np.full(layer.out_size, np.inf))
        for layer in network.layers
    ]
    found, _statuses = ask(network, script, bounds=(every, every))
    assert len(found.layers[1]) == 2  # signs need no numbers
