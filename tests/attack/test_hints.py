"""Hints follow the majority rule."""

from __future__ import annotations

import numpy as np

from vhagar import Network
from vhagar.attack.hints import NO_HINT, hints_of
from vhagar.network import Affine, Relu

# Four neurons: x1, -x1, x2, -1.
_NETWORK = Network(
    (
        Affine(
            np.array([[1.0, 0], [-1, 0], [0, 1], [0, 0]]), np.array([0, 0, 0, -1.0]), (2,), (4,)
        ),
        Relu((4,)),
        Affine(np.ones((2, 4)), np.zeros(2), (4,), (2,)),
    ),
    (2,),
)


def _inputs(positive: int, count: int) -> np.ndarray:
    """So many with a positive first entry; the second is 0, which counts as active."""
    first = np.where(np.arange(count) < positive, 1.0, -1.0)
    return np.stack([first, np.zeros(count)], axis=1)


def test_more_than_the_majority_makes_a_hint() -> None:
    hints = hints_of(_NETWORK, _inputs(96, 100), _inputs(95, 100), 0.95)
    assert hints.first[0].tolist() == [1, 0, 1, 0]
    assert hints.second[0].tolist() == [NO_HINT, NO_HINT, 1, 0]


def test_no_solutions_no_hints() -> None:
    hints = hints_of(_NETWORK, np.zeros((0, 2)), np.zeros((0, 2)), 0.95)
    assert hints.first[0].tolist() == hints.second[0].tolist() == [NO_HINT] * 4
