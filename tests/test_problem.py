"""Problems: what can be asked, and what is refused with a reason."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from vhagar import Linf, Network, Problem
from vhagar.errors import InvalidInput
from vhagar.network import Affine
from vhagar.problem import classed

SHAPE = (1, 2, 2)
NETWORK = Network((Affine(np.eye(4), np.zeros(4), SHAPE, (4,)),), SHAPE)


def test_targets_are_one_several_or_all_others() -> None:
    assert Problem(NETWORK, perturbation="linf(0.1)", source=0, targets=2).targets == (2,)
    assert Problem(NETWORK, perturbation="linf(0.1)", source=0, targets=[3, 1, 3]).targets == (1, 3)
    assert Problem(NETWORK, perturbation="linf(0.1)", source=1).targets == (0, 2, 3)
    assert Problem(NETWORK, perturbation="linf(0.1)", source=1).search_targets == (0, 2, 3)


def test_numpy_numbers_are_numbers() -> None:
    problem = Problem(NETWORK, perturbation="linf(0.1)", source=np.int64(0), targets=np.int64(2))
    assert (problem.source, problem.targets) == (0, (2,))
    assert Problem(
        NETWORK, perturbation="linf(0.1)", source=0, targets=np.array([1, 3])
    ).targets == (1, 3)
    assert all(type(k) is int for k in (problem.source, *problem.targets))


def test_a_perturbation_is_an_object_or_a_text() -> None:
    assert (
        Problem(NETWORK, perturbation=Linf(0.1), source=0).perturbation
        == Problem(NETWORK, perturbation="linf(0.1)", source=0).perturbation
    )
    with pytest.raises(InvalidInput, match=r"a perturbation is a text .* not float"):
        Problem(NETWORK, perturbation=0.1, source=0)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"a domain is a vhagar\.Domain or .* not ndarray"):
        Problem(NETWORK, perturbation=None, source=0, domain=np.zeros(4))  # type: ignore[arg-type]


def test_without_a_perturbation_nothing_is_attacked() -> None:
    problem = Problem(NETWORK, perturbation=None, source=0)
    assert (problem.targets, problem.search_targets) == ((), (None,))
    with pytest.raises(InvalidInput, match="only with a perturbation"):
        Problem(NETWORK, perturbation=None, source=0, targets=1)


@pytest.mark.parametrize(
    ("source", "targets", "message"),
    [
        (4, None, "the source class 4 does not exist; the network's classes are 0 to 3"),
        (-1, None, "the source class -1 does not exist"),
        (0, 4, "the target class 4 does not exist"),
        (0, [1, -2], "the target class -2 does not exist"),
        (0, 0, "class 0 is both source and target"),
        (2, [1, 2], "class 2 is both source and target"),
        (0, [], "at least one target"),
        (True, None, "must be a whole number"),
        (0.0, None, "must be a whole number"),
        ("zero", None, "no source class 'zero'"),
        (0, 1.0, "must be a whole number"),
        (0, [1.5], "must be a whole number"),
        (0, "one", "no target class 'one'"),
        (0, True, "must be a whole number"),
    ],
)
def test_classes_that_make_no_sense_are_refused(source: Any, targets: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Problem(NETWORK, perturbation="linf(0.1)", source=source, targets=targets)


@pytest.mark.parametrize(
    "perturbation", ["linf(1.5)", "occlusion(2,2,2)", "rotation(400)", "nonsense(1)"]
)
def test_parameters_outside_their_limits_are_found_at_once(perturbation: str) -> None:
    with pytest.raises(InvalidInput):
        Problem(NETWORK, perturbation=perturbation, source=0)


@pytest.mark.parametrize("span", [(1.0, 0.0), (0.0, 0.0), (0.0, np.inf), (np.nan, 1.0)])
def test_input_ranges_that_are_none_are_refused(span: tuple[float, float]) -> None:
    with pytest.raises(InvalidInput, match="input range"):
        Problem(NETWORK, perturbation="linf(0.1)", source=0, input_range=span)


def test_the_input_range_and_the_clip_reach_the_pieces() -> None:
    problem = Problem(
        NETWORK, perturbation="brightness([0,0.5])", source=0, clip=False, input_range=(-1, 1)
    )
    (piece,) = problem.pieces
    assert (piece.domain.lower, piece.domain.upper, piece.clip) == (-1.0, 1.0, False)
    assert problem.pieces is problem.pieces


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("3", "class 3"),
        ("ship", "class ship"),
        ("classic car", "class classic car"),
        ("class_1", "class_1"),
        ("Class 1", "Class 1"),
        ("class", "class class"),
        ("classes", "class classes"),
    ],
)
def test_a_class_is_called_one_once(name: str, words: str) -> None:
    assert classed(name) == words


def test_a_problem_travels_to_another_process() -> None:
    problem = Problem(
        NETWORK,
        perturbation="patch([0,0.5],[1,2],1,1)",
        source=3,
        targets=[0, 1],
        input_range=(0, 2),
    )
    copy = pickle.loads(pickle.dumps(problem))
    assert (copy.source, copy.targets, copy.clip, copy.domain) == (3, (0, 1), True, problem.domain)
    assert copy.perturbation == problem.perturbation
    x = np.full((1, 4), 0.5)
    assert copy.network.forward(x).tolist() == problem.network.forward(x).tolist()
    assert [piece.label for piece in copy.pieces] == [piece.label for piece in problem.pieces]
