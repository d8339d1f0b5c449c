"""The oracle against optima worked out by hand, and against random attacks."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar import Network, Problem
from vhagar.network import Affine, Relu

from .cases import Case
from .exact import (
    Truth,
    exact_optimum,
    exact_optimum_at,
    exact_optimum_with_margin,
    overall,
    rational_confidence,
    rationals,
)

TENTH = Fraction(0.1)  # the float nearest to it, exactly


def linear(weight: list[list[float]], bias: list[float], shape: tuple[int, ...]) -> Network:
    return Network((Affine(np.array(weight), np.array(bias), shape, (len(bias),)),), shape)


# Each pixel is the score of its class.
PIXELS = linear([[1, 0], [0, 1]], [0, 0], (1, 1, 2))
PIXELS_2X2 = linear(np.eye(4).tolist(), [0, 0, 0, 0], (1, 2, 2))
# The first pixel against a constant.
THRESHOLD = linear([[1, 0], [0, 0]], [0, 0.25], (1, 1, 2))
# A third class with the scores of class 1.
TWINS = linear([[1, 0], [0, 1], [0, 1]], [0, 0, 0], (1, 1, 2))
# relu(x1 - x2) against a constant.
HIDDEN = Network(
    (
        Affine(np.array([[1.0, -1.0]]), np.zeros(1), (1, 1, 2), (1,)),
        Relu((1,)),
        Affine(np.array([[1.0], [0.0]]), np.array([0.0, 0.25]), (1,), (2,)),
    ),
    (1, 1, 2),
)

# Network, perturbation, clip, input range, and the optimum of source 0 against target 1.
BY_HAND = [
    # Both pixels move towards each other.
    (PIXELS, "linf(0.1)", True, (0, 1), 2 * TENTH),
    (PIXELS, "linf(0.75)", True, (0, 1), Fraction(1)),
    (PIXELS, "linf(1)", True, (-1, 1), Fraction(2)),
    (PIXELS, "patch([0,0.1],1,1,1)", True, (0, 1), TENTH),
    (PIXELS, "patch([0,0.1],1,[1,2],1)", True, (0, 1), TENTH),
    # Two black pixels tie, and a tie counts.
    (PIXELS, "occlusion(1,1,1)", True, (0, 1), Fraction(1)),
    (PIXELS, "occlusion(1,2,1)", True, (0, 1), Fraction(0)),
    (PIXELS, "occlusion(1,[1,2],1)", True, (0, 1), Fraction(1)),
    (PIXELS, "translation(0,1)", True, (0, 1), Fraction(1)),
    (PIXELS, "translation(0,-1)", True, (0, 1), Fraction(1)),  # (1, 0) becomes (0, 0)
    (PIXELS, "translation(0,0)", True, (0, 1), Fraction(0)),
    (PIXELS, "rotation(180)", True, (0, 1), Fraction(1)),
    (PIXELS, "rotation(0)", True, (0, 1), Fraction(0)),
    # Clockwise: the pixel at the bottom left moves to the top left, which moves to the right.
    (PIXELS_2X2, "rotation(90)", True, (0, 1), Fraction(1)),
    (PIXELS_2X2, "rotation(360)", True, (0, 1), Fraction(0)),
    # Without a clip both pixels change alike; with it, two pixels meet at an end of the range.
    (PIXELS, "brightness([-0.1,0.1])", False, (0, 1), Fraction(0)),
    (PIXELS, "brightness([0,0.1])", True, (0, 1), TENTH),
    (PIXELS, "brightness([-0.5,0.1])", True, (0, 1), Fraction(1, 2)),
    (PIXELS, "brightness([-0.5,-0.25])", True, (0, 1), Fraction(1, 2)),
    (PIXELS, "contrast([2,2])", True, (0, 1), Fraction(1, 2)),
    (PIXELS, "contrast([2,2])", False, (0, 1), Fraction(0)),
    (PIXELS, "contrast([0.5,0.5])", True, (0, 1), Fraction(0)),
    # The first pixel must fall to a quarter.
    (THRESHOLD, "brightness([-0.5,0])", False, (0, 1), Fraction(1, 2)),
    (THRESHOLD, "contrast([0.5,0.5])", True, (0, 1), Fraction(1, 4)),
    (THRESHOLD, "contrast([0.5,0.5])", True, (-1, 1), Fraction(3, 4)),  # black is -1
    (THRESHOLD, "linf(0.125)", True, (0, 1), Fraction(1, 8)),
    (TWINS, "linf(0.1)", True, (0, 1), 2 * TENTH),
    (HIDDEN, "linf(0.125)", True, (0, 1), Fraction(1, 4)),
    (HIDDEN, "linf(1)", True, (0, 1), Fraction(3, 4)),
    (HIDDEN, "occlusion(1,2,1)", True, (0, 1), Fraction(0)),
]


@pytest.mark.parametrize(("network", "perturbation", "clip", "span", "expected"), BY_HAND)
def test_optima_by_hand(
    network: Network, perturbation: str, clip: bool, span: tuple[float, float], expected: Fraction
) -> None:
    problem = Problem(
        network, perturbation=perturbation, source=0, targets=1, clip=clip, input_range=span
    )
    assert exact_optimum(problem) == {1: Truth(expected, expected)}


def test_the_largest_confidence_by_hand() -> None:
    assert exact_optimum(Problem(HIDDEN, perturbation=None, source=0)) == {
        None: Truth(Fraction(3, 4), Fraction(3, 4))
    }
    assert exact_optimum(Problem(HIDDEN, perturbation=None, source=1)) == {
        None: Truth(Fraction(1, 4), Fraction(1, 4))
    }


def test_each_target_has_its_own_optimum() -> None:
    # Class 2 is always 1/4 below class 1.
    network = linear([[1, 0], [0, 1], [0, 1]], [0, 0, -0.25], (1, 1, 2))
    found = exact_optimum(Problem(network, perturbation="linf(0.25)", source=0))
    assert found == {1: Truth(Fraction(1, 2), Fraction(1, 2)), 2: Truth(Fraction(0), Fraction(0))}
    assert overall(found).low == Fraction(1, 2)


def test_a_range_of_contrasts_is_enclosed() -> None:
    # The smallest factor is best: x1 / 2 <= 1/4.
    truth = exact_optimum(
        Problem(THRESHOLD, perturbation="contrast([0.5,0.75])", source=0, targets=1)
    )[1]
    assert truth.low == Fraction(1, 4)
    assert Fraction(1, 4) <= truth.high <= Fraction(3, 8)


def test_one_input_at_a_time() -> None:
    problem = Problem(PIXELS, perturbation="linf(0.125)", source=0, targets=1)
    assert exact_optimum_at(problem, 1, np.array([0.5, 0.375])) == Fraction(1, 8)
    assert exact_optimum_at(problem, 1, np.array([0.5, 0.125])) == 0
    stretching = Problem(THRESHOLD, perturbation="contrast([0.5,0.75])", source=0, targets=1)
    assert exact_optimum_at(stretching, 1, np.array([0.5, 0])) == Fraction(1, 4)
    assert exact_optimum_at(stretching, 1, np.array([0.5625, 0])) == 0


def test_a_margin_takes_its_share() -> None:
    problem = Problem(PIXELS, perturbation="linf(0.25)", source=0, targets=1)
    assert exact_optimum_with_margin(problem, 1, Fraction(1, 8)) == Fraction(3, 8)
    twins = Problem(TWINS, perturbation="linf(0.25)", source=0, targets=1)  # they can only tie
    assert exact_optimum_with_margin(twins, 1, Fraction(1, 10**6)) == 0


def test_rational_confidence_by_hand() -> None:
    x = rationals(np.array([0.75, 0.25]))
    assert rational_confidence(HIDDEN, x, 0) == Fraction(1, 4)
    assert rational_confidence(HIDDEN, x, 1) == -Fraction(1, 4)


@pytest.mark.slow
def test_no_random_attack_is_better() -> None:
    attacks = 0
    for number in range(0, 192, 11):
        problem = Case(number).problem()
        truths = exact_optimum(problem)
        rng = np.random.default_rng(number)
        piece = problem.pieces[0]
        x = rng.uniform(problem.domain.lower, problem.domain.upper, (20, problem.domain.size))
        parameters = rng.uniform(*piece.parameter_bounds, (20, len(piece.parameter_bounds[0])))
        labels = problem.network.forward(piece.apply(x, parameters)).argmax(axis=1)
        for one, label in zip(x, labels.tolist(), strict=True):
            if label in truths:
                # Decided exactly, from the input alone.
                attacked = exact_optimum_at(problem, label, one)
                assert attacked <= truths[label].high, Case(number)
                attacks += attacked > 0
    assert attacks > 20
