"""Networks whose most confident attack is known by hand."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Network, Problem
from vhagar.network import Affine, Convolution, Relu


@pytest.fixture
def corner() -> Problem:
    """A 4x4 image, two hidden layers, and the pixel (1,1) turns black.

    The lead of class 0 is `4 u + 4 v - 2` with u the pixel and v the mean of the others. Without
    the pixel class 1 wins where `v <= 1/2`, so that the optimum is `4 + 2 - 2 = 4`.
    """
    first = np.zeros((3, 16))
    first[0, 0], first[1, 1:] = 1.0, 1 / 15
    first[2] = -1.0  # never active
    second = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    last = np.array([[4.0, 0.0], [0.0, 1.0]])
    network = Network(
        (
            Affine(first, np.zeros(3), (1, 4, 4), (3,)),
            Relu((3,)),
            Affine(second, np.zeros(2), (3,), (2,)),
            Relu((2,)),
            Affine(last, np.array([0.0, 2.0]), (2,), (2,)),
        ),
        (1, 4, 4),
    )
    return Problem(network, perturbation="occlusion(1,1,1)", source=0, targets=1)


@pytest.fixture
def random_network() -> Network:
    """A convolution with everything that one can have, and three classes."""
    rng = np.random.default_rng(7)
    convolution = Convolution(
        rng.normal(size=(4, 1, 2, 3)),
        rng.normal(size=(4, 3, 2)),
        (2, 5, 4),
        stride=(2, 2),
        padding=(1, 0, 0, 2),
        dilation=(1, 1),
        groups=2,
    )
    size = convolution.out_size
    return Network(
        (
            convolution,
            Relu(convolution.out_shape),
            Affine(rng.normal(size=(6, size)), rng.normal(size=6), (size,), (6,)),
            Relu((6,)),
            Affine(rng.normal(size=(3, 6)), rng.normal(size=3), (6,), (3,)),
        ),
        (2, 5, 4),
    )
