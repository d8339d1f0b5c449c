"""Local attacks without gradients find what those with PyTorch find, where values are tried."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Network, Problem
from vhagar.attack import value_attack
from vhagar.attack.local_attack import LocalAttack
from vhagar.attack.value_attack import ValueAttack
from vhagar.network import Affine
from vhagar.result import Witness, WitnessCheck

from ..relaxation.samples import network_of

# Confidence x1 - x2 - 1/4, where x1 > x2.
INPUTS = np.array([[1.0, 0.0], [0.75, 0.26], [0.8, 0.4], [1.0, 0.6], [0.5, 0.1]])


@pytest.mark.parametrize(
    ("perturbation", "clip", "turned"),
    [
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
    hidden: Network, perturbation: str, clip: bool, turned: list[int]
) -> None:
    problem = Problem(hidden, perturbation=perturbation, source=0, targets=1, clip=clip)
    assert ValueAttack.suits(problem, len(INPUTS))
    found = ValueAttack(problem).attacks(INPUTS)
    assert [attack.row for attack in found] == turned
    for attack in found:
        assert attack.target == 1
        piece = problem.pieces[attack.piece_index]
        x_p = piece.apply(INPUTS[[attack.row]], attack.parameters[None])
        assert hidden.forward(x_p).argmax() == 1


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


def test_a_tie_is_no_victory() -> None:
    weight = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    twins = Network((Affine(weight, np.zeros(3), (1, 1, 2), (3,)),), (1, 1, 2))
    local = ValueAttack(Problem(twins, perturbation="occlusion(1,2,1)", source=2, targets=0))
    assert local.attacks(np.array([[0.5, 0.75]])) == []


def test_more_inputs_than_the_network_sees_at_once(
    hidden: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_attack, "CHUNK", 3)
    local = ValueAttack(Problem(hidden, perturbation="brightness([-0.5,0])", source=0, targets=1))
    rows = [attack.row for attack in local.attacks(np.tile(INPUTS, (4, 1)))]
    assert rows == [4, 9, 14, 19]


def test_it_is_for_few_inputs_and_one_parameter(hidden: Network) -> None:
    one = Problem(hidden, perturbation="brightness([0,0.5])", source=0, targets=1)
    assert ValueAttack.suits(one, 100)
    assert not ValueAttack.suits(one, 10**9)
    assert not ValueAttack.suits(Problem(hidden, perturbation="linf(0.1)", source=0), 1)
