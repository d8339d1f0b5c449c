"""No relation is ever broken: many inputs and parameters, in rational numbers."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Network
from vhagar.dependency import Dependencies, DependencyOptions, Rule, find_dependencies
from vhagar.perturbation import PERTURBATIONS as KINDS
from vhagar.perturbation import AbstractPiece, Domain, parse

from ..marks import mostly_slow
from ..relaxation.samples import BUILDS, PERTURBATIONS, domain_of, network_of, pairs, pieces_of
from .exact import convolutional_network, dense_network, violations
from .orders import Order, orders_of

SHAPE = (1, 3, 3)
PERTURBED = (
    ("linf(0.2)", True),
    ("patch([0,1],2,2,2)", True),
    ("occlusion(2,1,2)", True),
    ("brightness([0,0.4])", True),
    ("brightness([0,0.4])", False),
    ("brightness([0.1,0.4])", False),
    ("brightness([-0.5,-0.2])", True),
    ("brightness([-0.5,-0.2])", False),
    ("contrast([0.4,0.9])", True),
    ("contrast([1.2,2])", True),
    ("contrast([1.2,2])", False),
    ("translation(1,0)", True),
    ("translation(0,-1)", True),
    ("rotation(90)", True),
    ("rotation(20)", True),
    ("rotation([10,25])", True),
    ("features([0,3],[0.1,0.4])", False),
)
ASK = DependencyOptions(question_time=1.0, samples=40)
DO_NOT_ASK = DependencyOptions(optimise=False)


def checked(
    network: Network,
    piece: AbstractPiece,
    rng: np.random.Generator,
    options: DependencyOptions = DO_NOT_ASK,
) -> Dependencies:
    found = find_dependencies(network, piece, options=options)
    for pair in pairs(piece, rng, 6):
        assert list(violations(found.layers, network, pair)) == []
    return found


def test_every_perturbation_is_here() -> None:
    assert {text.split("(")[0] for text, _ in PERTURBED} == {kind.name for kind in KINDS}


@pytest.mark.parametrize(("text", "clip"), mostly_slow(PERTURBED, 3))
def test_networks_apt_to_have_relations(text: str, clip: bool) -> None:
    hidden = 0
    for seed in range(4):
        rng = np.random.default_rng([5, seed])
        dense = dense_network(rng, SHAPE)
        convolutional = convolutional_network(rng, (1, 4, 4), 1, seed % 2)
        for network, options in ((dense, ASK), (convolutional, DO_NOT_ASK)):
            for piece in parse(text).pieces(Domain(network.input_shape), clip):
                found = checked(network, piece, rng, options)
                hidden += sum(len(known) for known in found.layers[1:])
    # The test means something: there were relations to break.
    assert hidden > 20


@pytest.mark.parametrize("build", mostly_slow(list(BUILDS), 3))
def test_every_build_of_a_network(build: str) -> None:
    rng = np.random.default_rng(8)
    network, domain = network_of(build, rng), domain_of(build)
    for text, clip in PERTURBATIONS:
        for piece in pieces_of(text, clip, domain):
            checked(network, piece, rng, ASK)


@pytest.mark.parametrize(("text", "clip"), [("occlusion(1,1,2)", True), ("linf(0.1)", True)])
@pytest.mark.parametrize("scale", [1e-12, 1e9])
def test_weights_of_any_size(text: str, clip: bool, scale: float) -> None:
    rng = np.random.default_rng(9)
    network = network_of("plain", rng, scale)
    for piece in pieces_of(text, clip, domain_of("plain")):
        checked(network, piece, rng, ASK)


def test_inputs_of_any_range() -> None:
    """Black is not 0 here, so that padding and black differ."""
    rng = np.random.default_rng(10)
    network = convolutional_network(rng, (1, 4, 4), 1, 1)
    for text in ("translation(0,1)", "translation(-1,0)", "occlusion(1,1,2)", "contrast([0.5,2])"):
        for lower, upper in ((-1.0, 1.0), (0.5, 2.0), (-2.0, -1.0)):
            for piece in parse(text).pieces(Domain((1, 4, 4), lower, upper)):
                checked(network, piece, rng)


def test_all_rules_and_orders_were_tried() -> None:
    seen = set()
    for seed in range(6):
        rng = np.random.default_rng([11, seed])
        network = dense_network(rng, SHAPE)
        for text in ("brightness([0.3,0.4])", "occlusion(1,1,2)"):
            for piece in parse(text).pieces(Domain(SHAPE), clip=False):
                found = checked(network, piece, rng, ASK)
                for known in found.layers:
                    seen |= set(zip(orders_of(known), map(Rule, known.rule.tolist()), strict=True))
    assert {order for order, _ in seen} == set(Order)
    assert {rule for _, rule in seen} == set(Rule) - {Rule.NONE}
