"""The checker's own reading of perturbations of features."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar.perturbation import Domain as Own
from vhagar.perturbation import Features
from vhagar_check.errors import Rejected
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain

SHAPE = (5,)
BOX = np.array([0.25, 0.5, 0.0, 0.75, 0.5]), np.array([0.5, 0.5, 1.0, 1.0, 0.75])


@pytest.mark.parametrize("box", [None, BOX], ids=["all inputs", "box"])
def test_supports_and_images_are_those_of_the_definition(box: tuple | None) -> None:
    domain = Domain(SHAPE, 0.0, 1.0, box)
    (piece,) = pieces("features([1,3],[0.125,0.5])", domain, False)
    low, high = box or (np.zeros(5), np.ones(5))
    reach = np.array([0.0, 0.125, 0.0, 0.5, 0.0])
    assert (piece.image[0] <= low - reach).all()
    assert (piece.image[1] >= high + reach).all()
    assert np.allclose(piece.image, (low - reach, high + reach))
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 20, 5))
    exact = np.maximum((a + b) * low, (a + b) * high).sum(axis=1) + (abs(b) * reach).sum(axis=1)
    found = piece.support(a, b)
    assert (found >= exact).all()
    assert np.allclose(found, exact)
    assert piece.rises.tolist() == piece.falls.tolist() == [False, True, False, True, False]


def test_the_verifier_writes_what_the_checker_reads() -> None:
    own = Features(["d", "b"], [0.1, 2 / 3]).settled(Own(SHAPE, features=list("abcde")))
    assert str(own) == "features([b,d],[0.6666666666666666,0.1])"
    (piece,) = pieces(own.canonical, Domain(SHAPE, 0.0, 1.0), True)
    assert piece.upper.tolist() == [2 / 3, 0.1]


@pytest.mark.parametrize(
    "text",
    [
        "features([b],[0.1])",
        "features([5],[0.1])",
        "features([3,1],[0.1,0.1])",
        "features([1,1],[0.1,0.1])",
        "features([1,3],[0.1])",
        "features([1],[0])",
        "features([1],[-0.1])",
        "features([1],[1.5])",
        "features([1],[1e999])",
        "features([1],[.])",
        "features([],[])",
        "features([1,],[0.1,])",
        "features([1],0.1)",
        "features([1],[0.1])+linf(0.1)",
        f"features([1],[0.{'0' * 200_000}1])",
    ],
)
def test_what_is_no_perturbation_of_features(text: str) -> None:
    with pytest.raises(Rejected):
        pieces(text, Domain(SHAPE, 0.0, 1.0), True)
