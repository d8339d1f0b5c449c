"""Questions to HiGHS: what only they find, and how far it can be believed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vhagar import Network
from vhagar.dependency import (
    DependencyOptions,
    Rule,
    SignStatus,
    find_dependencies,
)
from vhagar.dependency.question import can_exceed
from vhagar.network import Affine, Relu
from vhagar.perturbation import Domain, parse
from vhagar.relaxation import Bounds
from vhagar.solver.backends import SolveStatus
from vhagar.solver.backends.highs import HighsModel
from vhagar.solver.linear_model import LinearModel

from ..relaxation.samples import pairs
from .exact import the_piece, violations
from .orders import Order
from .scripted import (
    ASK_ALL,
    HIDDEN,
    SHAPE,
    answered,
    brightened,
    order_at,
)


def test_a_solver_finds_what_signs_do_not_show(network: Network) -> None:
    piece = brightened("brightness([0.1,0.5])")
    without = find_dependencies(network, piece, options=DependencyOptions(optimise=False))
    assert len(without.layers[HIDDEN]) == 0
    found, statuses = answered(network, piece, options=ASK_ALL)
    known = found.layers[HIDDEN]
    assert order_at(known, 0) is Order.AT_MOST
    assert known.exact[0]
    assert known.rule[0] == Rule.OPTIMISATION
    assert statuses[SignStatus.PROVED] == 1
    assert statuses[SignStatus.NEARLY] >= 1


def test_an_order_that_darkening_turns_round(network: Network) -> None:
    piece = brightened("brightness([-0.5,-0.1])")
    known = find_dependencies(network, piece, options=ASK_ALL).layers[HIDDEN]
    assert order_at(known, 0) is Order.AT_LEAST
    assert known.exact[0]


def test_an_optimum_of_0_is_only_nearly_an_order(network: Network) -> None:
    """Where e may be 0 the copies may be equal: no tolerance lets a solver prove a sign there."""
    piece = brightened("brightness([0,0.5])")
    known = find_dependencies(network, piece, options=ASK_ALL).layers[HIDDEN]
    assert order_at(known, 0) is Order.AT_MOST
    assert not known.exact[0]
    assert -1e-5 < known.gap_lower[0] < 0
    assert known.gap_upper[0] == math.inf


def test_nearly_an_order_is_not_passed_on(network: Network) -> None:
    """The first score is the first neuron. Its order is a fact only where the neuron's is."""
    for text, expected in (
        ("brightness([0.1,0.5])", Order.AT_MOST),
        ("brightness([0,0.5])", None),
        ("brightness([-0.5,-0.1])", Order.AT_LEAST),
        ("brightness([-0.5,0])", None),
    ):
        found = find_dependencies(network, brightened(text), options=ASK_ALL)
        assert order_at(found.layers[HIDDEN], 0) is not None
        scores = found.layers[-1]
        assert order_at(scores.kept(scores.rule == Rule.PROPAGATION), 0) is expected


def test_a_common_change_that_cancels(network: Network) -> None:
    """The gap of x_2 - x_1 is 0, which a solver proves from both sides up to its tolerances."""
    piece = brightened("brightness([0.1,0.5])")
    wide = [Bounds(np.full(n, -4.0), np.full(n, 4.0)) for n in (2, 2, 3, 3, 2)]
    known = find_dependencies(network, piece, (wide, wide), ASK_ALL).layers[HIDDEN]
    for neuron in (1, 2):
        assert order_at(known, neuron) is Order.EQUAL
    place = known.first.tolist().index(1)
    assert not known.exact[place]
    assert -1e-5 < known.gap_lower[place] < 0 < known.gap_upper[place] < 1e-5


def test_what_follows_is_true(network: Network) -> None:
    for text in ("brightness([0.1,0.5])", "brightness([0,0.5])", "brightness([-0.5,-0.1])"):
        piece = brightened(text)
        found = find_dependencies(network, piece, options=ASK_ALL)
        for pair in pairs(piece, np.random.default_rng(4), 30):
            assert list(violations(found.layers, network, pair)) == []


def test_samples_spare_questions() -> None:
    network = Network(
        (Affine(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.zeros(2), SHAPE, (2,)), Relu((2,))), SHAPE
    )
    piece = the_piece(parse("linf(0.5)").pieces(Domain(SHAPE)))
    _, statuses = answered(network, piece)
    assert statuses == {}
    _, statuses = answered(network, piece, options=ASK_ALL)
    assert statuses == {SignStatus.REFUTED: 4}


@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_seed_gives_the_same_relations(network: Network, seed: int) -> None:
    piece = brightened("brightness([0.1,0.5])")
    options = DependencyOptions(seed=seed)
    once, again = (find_dependencies(network, piece, options=options) for _ in range(2))
    for one, two in zip(once.layers, again.layers, strict=True):
        assert one.gap_lower.tolist() == two.gap_lower.tolist()
        assert one.gap_upper.tolist() == two.gap_upper.tolist()


def test_highs_calls_no_feasible_question_infeasible() -> None:
    """Ends of the difference's column right beside what its row implies made presolve do that."""
    model = LinearModel()
    s, t = model.add_columns([-0.725450207445046, -0.25], [0.636350241667877, 0.599499668])
    for larger, smaller in ((s, t), (t, s)):
        question = can_exceed(model.arrays(), int(larger), int(smaller), active=True)
        solved = HighsModel(question.arrays, question.objective).solve()
        assert solved.status is SolveStatus.OPTIMAL
