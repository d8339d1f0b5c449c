"""The search by slopes alone: never below the optimum, and as low as slopes can lead."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from vhagar import Bab, Problem, verify
from vhagar.options import Options
from vhagar.reduction import LINEAR_REDUCTIONS
from vhagar.reduction.base import reduce_problem
from vhagar.relaxation.bounds_cache import BoundsCache
from vhagar.relaxation.proof import ProofKind
from vhagar.relaxation.quadratic import differences
from vhagar.runtime.deadline import NEVER
from vhagar.search.bounders import quadratic
from vhagar.search.bounders.base import Outcome
from vhagar.search.frontier import Frontier
from vhagar.search.incumbent import Incumbent
from vhagar.search.node import Closed, Node, Region
from vhagar.search.node_solver import Explored, solver_with
from vhagar.search.slope_search import Descent, SlopeSearch
from vhagar.search.worker import SlopeTask, slope_bounder

from ...marks import campaign_from
from ...oracle.cases import Case
from ...oracle.exact import exact_optimum
from ...relaxation.samples import network_of

ALWAYS = 24


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        count = metafunc.config.getoption("--oracle-cases")
        cases = [Case(number) for number in range(count)]
        cases += [Case(number, branched=True) for number in range(count // 4)]
        marked = [
            pytest.param(case, marks=campaign_from(ALWAYS // (4 if case.branched else 1), number))
            for case in cases
            for number in [case.number]
        ]
        metafunc.parametrize("case", marked, ids=str)


def searched(problem: Problem, target: int, piece_index: int, nodes: int) -> tuple[float, float]:
    """The bound of a tree of slopes after so many nodes, and what slopes can reach at least."""
    bounder = slope_bounder(problem, 0, BoundsCache(), NEVER)
    solver = solver_with(bounder, problem, Options(relative_gap=0.0))
    frontier = Frontier([Node(Region(target, piece_index), math.inf, 0)])
    explored = solver.explore(frontier.take(0, 1), nodes)
    frontier.put_back(0, explored)
    return frontier.uppers([target])[target], bounder.floors[target]


def test_the_slopes_alone_hold_the_optimum(case: Case) -> None:
    given = case.problem()
    problem = reduce_problem(given, LINEAR_REDUCTIONS).problem
    for target, truth in exact_optimum(given).items():
        assert target is not None
        for nodes in (1, 24):
            found = [
                searched(problem, target, piece_index, nodes)
                for piece_index in range(len(problem.pieces))
            ]
            upper = max(upper for upper, _ in found)
            # Where there is no bound, it is infinite.
            assert upper == math.inf or truth.low <= Fraction(upper)


def test_all_slopes_decided_leave_what_slopes_can_reach() -> None:
    problem = Case(8).problem()
    (target, *_) = problem.targets
    first, floor = searched(problem, target, 0, 1)
    last, _ = searched(problem, target, 0, 2000)
    assert floor <= last * (1 + 1e-9)
    assert last <= first
    assert last <= floor * (1 + 2e-3) + 1e-9


def test_a_bound_comes_with_all_numbers_of_its_proof() -> None:
    problem = Case(8).problem()
    (target, *_) = problem.targets
    bounder = slope_bounder(problem, 0, BoundsCache(), NEVER)
    incumbent = Incumbent(problem, Options())
    node = Node(Region(target, 0), math.inf, 0, rounds=1)
    for _ in range(3):
        (bound,) = bounder.bound([node], incumbent)
        assert bound.proof is not None
        assert bound.proof.kind in (ProofKind.QUADRATIC, ProofKind.TIED)
        numbers = bound.proof.numbers()
        pairs = sum(int((~h.on & ~h.off & ~h.equal).sum()) for h in bound.proof.bounds.hexagons)
        assert len(numbers) == pairs + problem.domain.size
        assert (numbers[:pairs] > 0).sum() == pairs - len(node.decisions)
        (branched,) = bounder.branch([(replace(node, upper=bound.upper), bound)], incumbent)
        if not branched.children:
            break
        node = branched.children[1]


def test_no_target_no_bound() -> None:
    problem = Case(8).problem().without_perturbation()
    bounder = slope_bounder(problem, 0, BoundsCache(), NEVER)
    incumbent = Incumbent(problem, Options())
    node = Node(Region(None, 0), 5.0, 0)
    (bound,) = bounder.bound([node], incumbent)
    assert (bound.upper, bound.proof) == (5.0, None)


def test_a_piece_that_changes_nothing_has_no_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no unknowns, where the image is too large to say that its change is linear."""
    network = network_of("plain", np.random.default_rng(0))
    problem = Problem(network, perturbation="translation([0,1],0)", source=0, targets=1)
    monkeypatch.setattr(differences, "_MOST_ENTRIES", problem.domain.size**2 - 1)
    (still,) = [k for k, piece in enumerate(problem.pieces) if not np.any(piece.changes())]
    upper, floor = searched(problem, 1, still, 1)
    assert floor == 0.0
    assert upper >= 0.0


def test_the_most_recently_used_roots_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quadratic, "_MOST_ROOTS", 2)
    problem = Case(8).problem()
    made: list[Region] = []
    bounder = slope_bounder(problem, 0, BoundsCache(), NEVER)
    monkeypatch.setattr(bounder, "_make_root", made.append)  # returns None: no bound there
    first, second, third = (Region(target, 0) for target in range(3))
    for region in (first, second, first, third, first):
        bounder.bound([Node(region, 5.0, 0)], Incumbent(problem, Options()))
    assert made == [first, second, third]


def begun(search: SlopeSearch, workers: int = 1) -> SlopeTask:
    """The first task, after one of the other search."""
    search.spent(1.0, by_slopes=False)
    task = search.next_task(0, workers, 0.0)
    assert task is not None
    return task


def test_all_targets_have_their_first_bounds_before_anything_else() -> None:
    network = network_of("plain", np.random.default_rng(3))
    problem = Problem(network, perturbation="linf(0.05)", source=0)
    assert len(problem.targets) > 1
    search = SlopeSearch(problem, True, lambda target: 10.0)
    new = set()
    while (task := search.next_task(0, 2, 0.0)) is not None:
        # The other worker takes some, and does not return them yet.
        other = search.next_task(1, 2, 0.0)
        taken = [*task.nodes, *(() if other is None else other.nodes)]
        new |= {node.region for node in taken if not node.rounds}
        for worker, own in enumerate((task, other)):
            if own is not None:
                again = [replace(own.nodes[0], upper=5.0, rounds=1), *own.nodes[1:]]
                search.put_back(worker, Explored(again, Closed(), 1), underway=False)
    assert new == {Region(target, 0) for target in problem.targets}
    assert search.next_task(0, 1, 0.0) is None  # now it is the other search's turn
    assert search.next_task(0, 1, 0.0, idle=True) is not None


def test_roots_that_others_bound_better_are_not_waited_for() -> None:
    network = network_of("plain", np.random.default_rng(3))
    problem = Problem(network, perturbation="linf(0.05)", source=0)
    worst = problem.targets[-1]
    search = SlopeSearch(problem, True, lambda target: 10.0 if target == worst else 1.0)
    task = search.next_task(0, 1, 0.0, most=1)
    assert task is not None
    bounded = [replace(node, upper=5.0, rounds=1) for node in task.nodes]
    search.put_back(0, Explored(bounded, Closed(), 1), underway=False)
    assert search.next_task(0, 1, 0.0) is None


def test_one_target_begins_with_signs() -> None:
    problem = Case(8).problem()
    assert len(problem.targets) == 1
    search = SlopeSearch(problem, True, lambda target: 10.0)
    assert search.next_task(0, 1, 0.0) is None


def test_targets_that_others_bound_better_are_given_up() -> None:
    problem = Case(8).problem()
    known = dict.fromkeys(problem.targets, 10.0)
    search = SlopeSearch(problem, True, lambda target: known[target])
    (node, *_) = begun(search).nodes
    solver = solver_with(slope_bounder(problem, 0, BoundsCache(), NEVER), problem, Options())
    explored = solver.explore([node], 1)
    search.put_back(0, replace(explored, floors={node.region.target: 9.999}), underway=False)
    known[node.region.target] = 9.9
    while (task := search.next_task(1, 1, 0.0, idle=True)) is not None:
        assert node.region.target not in {taken.region.target for taken in task.nodes}
    assert search.uppers()[node.region.target] <= 10.0


def test_a_root_that_slopes_cannot_improve_takes_no_steps() -> None:
    problem = Case(8).problem()
    (target, *_) = problem.targets
    bounder = slope_bounder(problem, 0, BoundsCache(), NEVER)
    incumbent = Incumbent(problem, Options())
    _, floor = searched(problem, target, 0, 1)
    node = Node(Region(target, 0), 0.99 * floor, 0)
    (bound,) = bounder.bound([node], incumbent)
    assert (bound.upper, bound.proof) == (node.upper, None)
    (branched,) = bounder.branch([(node, bound)], incumbent)
    assert branched.outcome is Outcome.CLOSED


def test_the_search_that_will_end_lower_gets_the_time() -> None:
    problem = Case(8).problem()
    known = dict.fromkeys(problem.targets, 10.0)
    search = SlopeSearch(problem, True, lambda target: known[target])
    begun(search)

    def turns(fall: float) -> int:
        """How often slopes are next in 40 tasks, if their bounds stay and signs' fall."""
        count = 0
        for _ in range(40):
            if search.next_task(1, 1, 0.0) is not None:
                count += 1
                search.frontier.abandon(1)
                search.spent(1.0, by_slopes=True)
            else:
                for target in known:
                    known[target] -= fall
                search.spent(1.0, by_slopes=False)
        return count

    early = turns(0.0)
    assert early <= 12
    assert turns(0.01) <= 8
    for target in known:
        known[target] /= 2
    assert turns(0.01) == 0


def test_slopes_that_have_little_to_gain_leave_the_time_to_signs() -> None:
    problem = Case(8).problem()
    search = SlopeSearch(problem, True, lambda target: 20.0)
    search.frontier = Frontier([Node(Region(problem.targets[0], 0), 10.0, 0)])

    def turns(floor: float) -> int:
        """How often slopes are next in 40 tasks, where they can reach that and nothing falls."""
        nothing = Explored([], Closed(), 0, floors={problem.targets[0]: floor})
        search.put_back(1, nothing, underway=False)
        count = 0
        for _ in range(40):
            is_next = search.next_task(1, 1, 5.0) is not None
            search.frontier.abandon(1)
            search.spent(1.0, by_slopes=is_next)
            count += is_next
        return count

    assert turns(7.0) >= 15
    assert turns(9.95) <= 5


def test_a_descent_is_that_of_the_last_half() -> None:
    descent = Descent()
    assert descent.rate == 0.0
    for upper in (math.inf, 100.0, 10.0, 9.0, 8.0, 7.0):
        descent.add(0.5, upper)
    assert descent.rate == pytest.approx(2.0)
    descent.add(0.0, 7.0)
    assert descent.total == 3.0


def test_without_a_perturbation_or_a_wish_there_is_no_such_search() -> None:
    problem = Case(8).problem()
    search = SlopeSearch(problem, False, lambda target: 1.0)
    search.spent(1.0, by_slopes=False)
    assert search.next_task(0, 1, 0.0, idle=True) is None
    assert search.uppers() == {}


def test_the_two_searches_together_are_no_worse_than_the_slopes() -> None:
    problem = Case(8).problem()
    result = verify(problem, engine=Bab(), workers=0, timeout=20)
    uppers = [
        max(
            searched(problem, target, piece_index, 30)[0]
            for piece_index in range(len(problem.pieces))
        )
        for target in problem.targets
    ]
    assert result.upper <= max(uppers) * (1 + 1e-3) + 1e-9
    assert np.isfinite(result.upper)


def test_a_root_has_its_first_bound_before_any_step() -> None:
    problem = Case(8).problem()
    (target, *_) = problem.targets
    bounder = slope_bounder(problem, 0, BoundsCache(), NEVER)
    incumbent = Incumbent(problem, Options())
    node = Node(Region(target, 0), math.inf, 0)
    (first,) = bounder.bound([node], incumbent)
    assert first.proof is not None
    (branched,) = bounder.branch([(replace(node, upper=first.upper), first)], incumbent)
    assert branched.outcome is Outcome.AGAIN
    (again,) = branched.children
    assert (again.number, again.decisions, again.upper) == (node.number, (), first.upper)
    (second,) = bounder.bound([again], incumbent)
    assert second.upper <= first.upper
    (branched,) = bounder.branch([(replace(again, upper=second.upper), second)], incumbent)
    assert branched.outcome is not Outcome.AGAIN
