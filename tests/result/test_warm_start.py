"""What is known beforehand: inputs are checked, bounds are taken, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Network, Problem, Result, Status
from vhagar.network import Affine
from vhagar.options import Options
from vhagar.result import BoundKind, Suggestion, WarmStart
from vhagar.result.warm_start import checked
from vhagar.search.branch_and_bound import Bab
from vhagar.verify import run_engine

ALONE = Options(workers=0)


@pytest.fixture
def network() -> Network:
    """The first class where the first pixel is larger, else the second."""
    weight = np.array([[4.0, 0.0, 0, 0], [0.0, 4.0, 0, 0], [-1.0, -1.0, 0, 0]])
    return Network((Affine(weight, np.zeros(3), (1, 2, 2), (3,)),), (1, 2, 2))


@pytest.fixture
def smaller(network: Network) -> Result:
    return run_engine(
        Problem(network, perturbation="linf(0.125)", source=0, targets=1), Bab(), ALONE, timeout=30
    )


def _suggestion(result: Result) -> Suggestion:
    witness = result.witness
    assert witness is not None
    return Suggestion(witness.target, witness.x, witness.x_p, np.array(witness.choice))


def test_a_witness_of_a_smaller_perturbation_is_one_of_a_larger(
    network: Network, smaller: Result
) -> None:
    larger = Problem(network, perturbation="linf(0.25)", source=0, targets=1)
    found = checked(larger, _suggestion(smaller))
    assert found is not None
    assert found.confidence == smaller.lower > 0
    known = WarmStart((_suggestion(smaller),))
    result = run_engine(larger, Bab(), ALONE, timeout=0.0, warm_start=known)
    assert result.lower == smaller.lower


@pytest.mark.parametrize(
    ("small", "large"),
    [
        ("brightness([-0.25,-0.125])", "brightness([-0.5,0.125])"),
        ("brightness([-0.25,-0.125])", "linf(0.25)"),
        ("contrast([0.5,0.75])", "contrast([0.25,2])"),
        ("contrast([0.5,0.75])", "linf(0.5)"),
        ("patch([0,1],1,1,1)", "linf(1)"),
        ("occlusion(1,1,1)", "occlusion([1,2],[1,2],1)"),
        ("occlusion(1,1,1)", "patch([0,1],1,1,2)"),
        ("translation(1,0)", "translation([0,1],[0,1])"),
        ("rotation([20,25])", "rotation([0,90])"),
        ("occlusion(1,1,1)+brightness([0,0.125])", "occlusion([1,2],1,1)+brightness([0,0.25])"),
        ("translation(1,0)+linf(0.125)", "translation([0,1],0)+linf(0.25)"),
    ],
)
def test_parameters_lead_to_the_same_image_in_a_larger_perturbation(small: str, large: str) -> None:
    # The first class where the first pixel is bright, else the second.
    weight = np.array([[4.0, 0, 0, 0], [0, 0, 0, 0], [-1, -1, 0, 0]])
    network = Network((Affine(weight, np.array([0.0, 1, 0]), (1, 2, 2), (3,)),), (1, 2, 2))
    problem = Problem(network, perturbation=small, source=0, targets=1)
    result = run_engine(problem, Bab(), ALONE, timeout=30)
    assert result.lower > 0
    found = checked(Problem(network, perturbation=large, source=0, targets=1), _suggestion(result))
    assert found is not None
    assert found.confidence == pytest.approx(result.lower, rel=1e-9)


def test_a_witness_of_a_larger_perturbation_is_refused(network: Network) -> None:
    larger = run_engine(
        Problem(network, perturbation="linf(0.25)", source=0, targets=1), Bab(), ALONE, timeout=30
    )
    small = Problem(network, perturbation="linf(0.125)", source=0, targets=1)
    assert checked(small, _suggestion(larger)) is None
    known = WarmStart((_suggestion(larger),))
    assert run_engine(small, Bab(), ALONE, timeout=0.0, warm_start=known).lower == 0


def test_a_witness_for_another_target_is_refused(network: Network, smaller: Result) -> None:
    assert (
        checked(
            Problem(network, perturbation="linf(0.25)", source=0, targets=2), _suggestion(smaller)
        )
        is None
    )


def test_an_input_that_is_no_witness_is_refused(network: Network) -> None:
    problem = Problem(network, perturbation="linf(0.25)", source=0, targets=1)
    x = np.array([1.0, 0.0, 0.0, 0.0])
    assert checked(problem, Suggestion(1, x, x)) is None
    assert checked(problem, Suggestion(1, np.zeros(7), np.zeros(7))) is None
    assert checked(problem, Suggestion(1, np.full(4, np.nan), np.full(4, np.nan))) is None


def test_an_upper_bound_is_where_the_search_starts(network: Network) -> None:
    problem = Problem(network, perturbation="linf(0.125)", source=0, targets=1)
    known = WarmStart(uppers={1: (1.5, BoundKind.TWIN), 2: (0.1, BoundKind.TWIN)})
    result = run_engine(problem, Bab(), ALONE, timeout=0.0, warm_start=known)
    assert result.upper == 1.5
    assert result.kind is BoundKind.TWIN


def test_what_is_known_can_be_all(network: Network, smaller: Result) -> None:
    assert smaller.status is Status.CLOSED
    known = WarmStart((_suggestion(smaller),), {1: (smaller.upper, smaller.kind)})
    problem = Problem(network, perturbation="linf(0.125)", source=0, targets=1)
    again = run_engine(problem, Bab(), ALONE, warm_start=known)
    assert (again.lower, again.upper) == (smaller.lower, smaller.upper)
    assert again.nodes == 0


def test_without_a_perturbation_an_input_is_enough(network: Network) -> None:
    problem = Problem(network, perturbation=None, source=0)
    found = checked(problem, Suggestion(None, np.array([1.0, 0.0, 0.0, 0.0])))
    assert found is not None
    assert found.confidence == pytest.approx(4.0)
    assert found.confidence <= 4.0
