"""A network that takes a solver to see through."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Network
from vhagar.network import Affine, Relu

SHAPE = (2,)


@pytest.fixture
def network() -> Network:
    """x_2 - 1/4, which follows a common change, and x_2 - x_1 + 1/2 and x_1 - x_2, which do not.

    The signs of the weights show neither.
    """
    first = Affine(np.array([[1.0, 1.0], [1.0, 0.0]]), np.zeros(2), SHAPE, (2,))
    weight = np.array([[1.0, -1.0], [1.0, -2.0], [-1.0, 2.0]])
    second = Affine(weight, np.array([-0.25, 0.5, 0.0]), (2,), (3,))
    last = Affine(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]), np.zeros(2), (3,), (2,))
    return Network((first, Relu((2,)), second, Relu((3,)), last), SHAPE)
