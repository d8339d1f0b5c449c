"""Small networks with optima that are known by hand."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Network, Problem
from vhagar.network import Affine, Relu


@pytest.fixture
def network() -> Network:
    """`relu(x1 - x2)` against a constant 1/4, over two pixels: confidence 3/4 at most."""
    return Network(
        (
            Affine(np.array([[1.0, -1.0]]), np.zeros(1), (1, 1, 2), (1,)),
            Relu((1,)),
            Affine(np.array([[1.0], [0.0]]), np.array([0.0, 0.25]), (1,), (2,)),
        ),
        (1, 1, 2),
    )


@pytest.fixture
def problem(network: Network) -> Problem:
    """Both pixels may come 1/8 closer to each other: the optimum is 1/4."""
    return Problem(network, "linf(0.125)", 0, 1)
