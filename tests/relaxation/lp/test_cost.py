"""The estimate of what a linear program costs."""

from __future__ import annotations

import numpy as np

from vhagar.network import Affine, Network, Relu
from vhagar.perturbation import Domain, parse
from vhagar.relaxation.differences import difference_bounds
from vhagar.relaxation.lp.cost import lp_seconds


def _cost(width: int, bias: float = 0.0, perturbation: str = "linf(0.1)") -> float:
    rng = np.random.default_rng(0)
    layers = (
        Affine(rng.normal(size=(width, 6)), np.full(width, bias), (1, 2, 3), (width,)),
        Relu((width,)),
        Affine(rng.normal(size=(width, width)), np.zeros(width), (width,), (width,)),
        Relu((width,)),
        Affine(rng.normal(size=(2, width)), np.zeros(2), (width,), (2,)),
    )
    (piece,) = parse(perturbation).pieces(Domain((1, 2, 3)))
    return lp_seconds(difference_bounds(Network(layers, (1, 2, 3)), piece))


def test_wider_networks_cost_more() -> None:
    # Twice the rows and four times the entries.
    assert _cost(80) > 6 * _cost(40) > 0


def test_decided_neurons_cost_nothing() -> None:
    assert _cost(40, bias=-99.0) == 0


def test_equal_copies_cost_less() -> None:
    assert _cost(40, perturbation="brightness([0,0])") < _cost(40) / 2
