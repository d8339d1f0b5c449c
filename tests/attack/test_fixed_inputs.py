"""Attacks on fixed inputs, by gradients and by values alone, where it is known what they find."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Network, Problem
from vhagar.attack import local_attack, starts, value_attack
from vhagar.attack.local_attack import LocalAttack
from vhagar.attack.value_attack import ValueAttack
from vhagar.network import Affine, Convolution, Relu
from vhagar.result import Witness, WitnessCheck

from ..relaxation.samples import network_of

# Confidence x1 - x2 - 1/4, where x1 > x2. Which inputs can be turned, and by what?
INPUTS = np.array([[1.0, 0.0], [0.75, 0.26], [0.8, 0.4], [1.0, 0.6], [0.5, 0.1]])
BOTH = pytest.mark.parametrize("kind", [LocalAttack, ValueAttack])
Kind = type[LocalAttack] | type[ValueAttack]


@BOTH
@pytest.mark.parametrize(
    ("perturbation", "clip", "turned"),
    [
        ("linf(0.125)", True, [1, 2, 3, 4]),  # where the confidence is below 1/4
        ("linf(0.1)", True, [2, 3, 4]),  # below 1/5
        ("occlusion(1,1,1)", True, [0, 1, 2, 3, 4]),  # x1 is gone
        ("occlusion(1,2,1)", True, []),  # x2 is gone, which helps class 0
        ("occlusion(1,[1,2],1)", True, [0, 1, 2, 3, 4]),  # one of the two
        ("brightness([0,0.5])", False, []),  # cancels out
        ("brightness([0,0.5])", True, [1, 2, 3]),  # x1 becomes white, x2 comes within 1/4
        ("brightness([-0.5,0])", True, [4]),  # both are black; the second only ties
        ("contrast([0.5,1])", True, [1, 2, 3, 4]),  # half of the difference is below 1/4
    ],
)
def test_who_can_be_turned(
    hidden: Network, kind: Kind, perturbation: str, clip: bool, turned: list[int]
) -> None:
    problem = Problem(hidden, perturbation=perturbation, source=0, targets=1, clip=clip)
    assert ValueAttack.suits(problem, len(INPUTS)) == ("linf" not in perturbation)
    if kind is ValueAttack and "linf" in perturbation:
        return
    found = kind(problem).attacks(INPUTS)
    assert [attack.row for attack in found] == turned
    for attack in found:
        piece = problem.pieces[attack.piece_index]
        x = INPUTS[attack.row][None]
        x_p = piece.apply(x, attack.parameters[None])
        assert piece.contains(x, x_p, attack.parameters[None]).all()
        assert hidden.forward(x_p).argmax() == attack.target == 1


PERTURBATIONS = (
    "occlusion([1,2],1,1)",
    "brightness([0,0.3])",
    "contrast([0.5,1.5])",
    "translation(0,1)",
    "rotation(10)",
)


@pytest.mark.parametrize("text", PERTURBATIONS)
@pytest.mark.parametrize("build", ["plain", "convolution"])
def test_pytorch_finds_the_same(build: str, text: str) -> None:
    network = network_of(build, np.random.default_rng([7, len(build)]))
    x = np.random.default_rng(8).uniform(size=(40, network.input_size))
    labels = network.forward(x).argmax(axis=1)
    source = int(np.bincount(labels).argmax())
    problem = Problem(network, perturbation=text, source=source)
    own = x[labels == source]
    found, theirs = ValueAttack(problem).attacks(own), LocalAttack(problem, "cpu").attacks(own)
    # A difference of the two is one that float32 makes.
    assert abs(len(found) - len(theirs)) <= 1
    check = WitnessCheck(problem, moves=False)
    confirmed = [check(one.target, own[one.row], one.piece_index, one.parameters) for one in found]
    assert sum(isinstance(one, Witness) for one in confirmed) >= len(found) - 1


@BOTH
def test_a_tie_is_no_victory(kind: Kind) -> None:
    # Classes 0 and 1 have the same weights: whatever happens to class 2, neither wins alone.
    weight = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    twins = Network((Affine(weight, np.zeros(3), (1, 1, 2), (3,)),), (1, 1, 2))
    attack = kind(Problem(twins, perturbation="occlusion(1,2,1)", source=2, targets=0))
    assert attack.attacks(np.array([[0.5, 0.75]])) == []


@BOTH
def test_more_inputs_than_the_network_sees_at_once(
    hidden: Network, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (local_attack, value_attack):
        monkeypatch.setattr(module, "CHUNK", 3)
    attack = kind(Problem(hidden, perturbation="brightness([-0.5,0])", source=0, targets=1))
    rows = [found.row for found in attack.attacks(np.tile(INPUTS, (4, 1)))]
    assert rows == [4, 9, 14, 19]


def test_confidences_of_more_inputs_than_the_network_sees_at_once(
    hidden: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starts, "CHUNK", 3)
    attack = LocalAttack(Problem(hidden, perturbation="linf(0.125)", source=0, targets=1))
    sure = INPUTS[:, 0] - INPUTS[:, 1] - 0.25
    np.testing.assert_allclose(attack.confidences(INPUTS), sure, atol=1e-6)


def test_nothing_is_left_when_all_inputs_are_attacked() -> None:
    """Of several targets, the later ones have no input to attack; convolutions take that, too."""
    rng = np.random.default_rng(0)
    convolution = Convolution(rng.normal(size=(2, 1, 2, 2)), np.zeros(2), (1, 3, 3))
    last = Affine(rng.normal(size=(3, 8)), np.zeros(3), (2, 2, 2), (3,))
    network = Network((convolution, Relu((2, 2, 2)), last), (1, 3, 3))
    x = rng.uniform(size=(64, 9))
    labels = network.forward(x).argmax(axis=1)
    source = int(labels[0])
    problem = Problem(network, perturbation="linf(1)", source=source)
    own = x[labels == source]
    assert len(LocalAttack(problem).attacks(own)) == len(own)


def test_values_are_for_few_inputs_and_one_parameter(hidden: Network) -> None:
    one = Problem(hidden, perturbation="brightness([0,0.5])", source=0, targets=1)
    assert ValueAttack.suits(one, 100)
    assert not ValueAttack.suits(one, 10**9)
    assert not ValueAttack.suits(Problem(hidden, perturbation="linf(0.1)", source=0), 1)
