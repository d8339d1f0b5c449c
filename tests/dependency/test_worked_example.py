"""The worked example of the paper's section 5.2, relation by relation.

4x4 pixels, a convolution of 2x2 with stride 2, two fully connected neurons, two scores; pixel (1,1)
turns black. The text names the signs: the kernel's weight on that pixel is 1, the weights from
neuron (1,1) to the second layer are 1 and -1. The other numbers are in a figure; these leave every
neuron undecided, so that nothing is known but by the lemma.
"""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Network
from vhagar.dependency import (
    Dependencies,
    DependencyOptions,
    Relations,
    Rule,
    add_copies,
    find_dependencies,
)
from vhagar.network import Affine, Convolution, Relu
from vhagar.perturbation import AbstractPiece, Domain, parse
from vhagar.solver.linear_model import LinearModel

from .exact import the_piece
from .orders import orders_of

SHAPE = (1, 4, 4)
CONVOLVED, FIRST, SUMMED, SECOND = 1, 2, 3, 4


@pytest.fixture
def network() -> Network:
    kernel = np.array([[[[1.0, -0.5], [0.75, -1.0]]]])
    weight = np.array([[1.0, 0.5, -0.75, -0.25], [-1.0, 0.5, -0.25, 0.75]])
    convolution = Convolution(kernel, np.zeros(1), SHAPE, stride=(2, 2))
    return Network(
        (
            convolution,
            Relu((1, 2, 2)),
            Affine(weight, np.array([-0.25, 0.25]), (1, 2, 2), (2,)),
            Relu((2,)),
            Affine(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.zeros(2), (2,), (2,)),
        ),
        SHAPE,
    )


@pytest.fixture
def blackened() -> AbstractPiece:
    return the_piece(parse("occlusion(1,1,1)").pieces(Domain(SHAPE)))


@pytest.fixture
def found(network: Network, blackened: AbstractPiece) -> Dependencies:
    return find_dependencies(network, blackened, options=DependencyOptions(optimise=False))


def signs(known: Relations) -> dict[int, str]:
    assert (known.first == known.second).all()
    return {k: order.value for k, order in zip(known.first.tolist(), orders_of(known), strict=True)}


def test_the_inputs(found: Dependencies) -> None:
    assert signs(found.layers[0]) == {0: ">=", **dict.fromkeys(range(1, 16), "=")}
    assert (found.layers[0].rule == Rule.PERTURBATION).all()


@pytest.mark.parametrize("position", [CONVOLVED, FIRST])
def test_the_first_layer(found: Dependencies, position: int) -> None:
    assert signs(found.layers[position]) == {0: ">=", 1: "=", 2: "=", 3: "="}
    assert (found.layers[position].rule == Rule.PROPAGATION).all()


@pytest.mark.parametrize("position", [SUMMED, SECOND])
def test_the_second_layer(found: Dependencies, position: int) -> None:
    assert signs(found.layers[position]) == {0: ">=", 1: "<="}
    assert (found.layers[position].rule == Rule.PROPAGATION).all()


def test_the_scores(found: Dependencies) -> None:
    # The first score has weights 1 and -1 on what falls and rises; the second the other way round.
    assert signs(found.layers[-1]) == {0: ">=", 1: "<="}


def test_three_booleans_less(
    network: Network, blackened: AbstractPiece, found: Dependencies
) -> None:
    def booleans(layers: tuple[Relations, ...]) -> int:
        model = LinearModel()
        add_copies(model, network, blackened, found.ranges, layers)
        return int(model.arrays().integer.sum())

    nothing = tuple(known.kept(np.zeros(len(known), dtype=bool)) for known in found.layers)
    assert booleans(nothing) == 2 * (4 + 2)
    assert booleans(found.layers) == booleans(nothing) - 3


def test_a_solver_adds_nothing_here(network: Network, blackened: AbstractPiece) -> None:
    """Every neuron has a relation, so none is asked about."""

    def nobody(*_: object) -> None:
        raise AssertionError("a question was asked")

    found = find_dependencies(network, blackened, backend=nobody)
    assert [len(known) for known in found.layers] == [16, 4, 4, 2, 2, 2]
