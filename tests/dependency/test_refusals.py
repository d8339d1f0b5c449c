"""Wrong input is refused, with words that help."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vhagar import Network
from vhagar.dependency import DependencyOptions, find_dependencies
from vhagar.errors import InvalidInput
from vhagar.network import Affine, Relu
from vhagar.perturbation import AbstractPiece, Domain, parse
from vhagar.relaxation import Bounds

GOOD = Bounds(np.zeros(2), np.ones(2))


@pytest.fixture
def network() -> Network:
    return Network((Affine(np.eye(2), np.zeros(2), (2,), (2,)), Relu((2,))), (2,))


@pytest.fixture
def piece() -> AbstractPiece:
    (found,) = parse("linf(0.1)").pieces(Domain((2,)))
    return found


def test_a_piece_of_another_size(network: Network) -> None:
    (other,) = parse("linf(0.1)").pieces(Domain((3,)))
    with pytest.raises(InvalidInput, match="over 3 input values but the network takes 2"):
        find_dependencies(network, other)


def test_bounds_of_too_few_layers(network: Network, piece: AbstractPiece) -> None:
    with pytest.raises(InvalidInput, match=r"second copy .* 1 layers but the network has 2"):
        find_dependencies(network, piece, ([GOOD, GOOD], [GOOD]))


def test_bounds_of_another_size(network: Network, piece: AbstractPiece) -> None:
    wide = Bounds(np.zeros(3), np.ones(3))
    with pytest.raises(InvalidInput, match=r"layer 1 in the first copy .* the layer has 2 values"):
        find_dependencies(network, piece, ([GOOD, wide], [GOOD, GOOD]))


@pytest.mark.parametrize("lower", [2.0, math.nan])
def test_bounds_that_are_none(network: Network, piece: AbstractPiece, lower: float) -> None:
    crossed = Bounds(np.array([0.0, lower]), np.ones(2))
    with pytest.raises(InvalidInput, match="NaN or a lower bound above the upper bound"):
        find_dependencies(network, piece, ([crossed, GOOD], [GOOD, GOOD]))


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan])
def test_no_time_for_a_question(seconds: float) -> None:
    with pytest.raises(InvalidInput, match="positive time"):
        DependencyOptions(question_time=seconds)


def test_a_negative_number_of_samples() -> None:
    with pytest.raises(InvalidInput, match="cannot be negative: -1"):
        DependencyOptions(samples=-1)
