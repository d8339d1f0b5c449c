"""Every relation that the paper's worked example derives (sections 4.2 and 5.2) is found.

The network: 4x4 pixels, a convolution of 2x2 with stride 2 (four neurons), two fully connected
neurons, two scores; pixel (1,1) is blackened. The text names the signs that matter: the kernel's
weight on the pixel is 1, the weights from neuron (1,1) to the second layer are 1 and -1. The other
numbers are in a figure, and free here.
"""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Network
from vhagar.network import Affine, Convolution, Relu
from vhagar.perturbation import AbstractPiece, Domain, parse
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.layerwise import quick_bounds

SHAPE = (1, 4, 4)


def the_network(seed: int) -> Network:
    rng = np.random.default_rng([11, seed])
    kernel = rng.normal(size=(1, 1, 2, 2))
    kernel[0, 0, 0, 0] = 1.0
    weight = rng.normal(size=(2, 4))
    weight[:, 0] = 1.0, -1.0
    convolution = Convolution(kernel, rng.normal(size=1) / 4, SHAPE, stride=(2, 2))
    return Network(
        (
            convolution,
            Relu(convolution.out_shape),
            Affine(weight, rng.normal(size=2) / 4, convolution.out_shape, (2,)),
            Relu((2,)),
            Affine(rng.normal(size=(2, 2)), np.zeros(2), (2,), (2,)),
        ),
        SHAPE,
    )


@pytest.fixture
def blackened() -> AbstractPiece:
    (piece,) = parse("occlusion(1,1,1)").pieces(Domain(SHAPE))
    return piece


def at_least_its_copy(hexagons: Hexagons, neuron: int) -> bool:
    """`z >= z_p`."""
    return bool(hexagons.gap_upper[neuron] <= 0)


def at_most_its_copy(hexagons: Hexagons, neuron: int) -> bool:
    """`z <= z_p`."""
    return bool(hexagons.gap_lower[neuron] >= 0)


def test_the_inputs(blackened: AbstractPiece) -> None:
    rises, falls = blackened.changes()
    assert not rises.any()
    assert np.flatnonzero(falls).tolist() == [0]  # z_01 >= z_01^p, all others are equal


@pytest.mark.parametrize("seed", range(20))
def test_the_hidden_neurons(seed: int, blackened: AbstractPiece) -> None:
    first, second = quick_bounds(the_network(seed), blackened).hexagons
    assert at_least_its_copy(first, 0)
    assert first.equal.tolist() == [False, True, True, True]
    assert at_least_its_copy(second, 0)
    assert at_most_its_copy(second, 1)
    # And no relation that does not hold: the pixel does change something.
    if not first.off[0]:
        assert not at_most_its_copy(first, 0)


def test_three_booleans_less(blackened: AbstractPiece) -> None:
    """Equal neurons have one copy: of the convolution's eight signs, five are left."""
    (first, _) = quick_bounds(the_network(0), blackened).hexagons
    assert 2 * len(first) - int(first.equal.sum()) == 5


def test_orders_that_signs_do_not_show() -> None:
    """Where weights of both signs meet, the paper solves optimisation problems; hexagons know."""
    network = Network(
        (
            Affine(np.array([[1.0, -0.25], [0.5, -1.0]]), np.array([-0.5, 0.5]), (2,), (2,)),
            Relu((2,)),
            Affine(np.eye(2), np.zeros(2), (2,), (2,)),
        ),
        (2,),
    )
    (piece,) = parse("brightness([0,1])").pieces(Domain((2,)), clip=False)
    (hexagons,) = quick_bounds(network, piece).hexagons
    # t - s is 0.75 e and -0.5 e, for e in [0,1]; a support point is exact up to rounding.
    np.testing.assert_allclose(hexagons.gap_lower, [0.0, -0.5], atol=1e-12)
    np.testing.assert_allclose(hexagons.gap_upper, [0.75, 0.0], atol=1e-12)
    (stronger,) = parse("brightness([0.1,1])").pieces(Domain((2,)), clip=False)
    (hexagons,) = quick_bounds(network, stronger).hexagons
    assert at_most_its_copy(hexagons, 0)
    assert at_least_its_copy(hexagons, 1)
