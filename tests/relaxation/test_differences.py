"""Interval arithmetic on differences holds for every pair of inputs, in exact arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar.network import Affine, Network, Relu
from vhagar.perturbation import Domain, parse
from vhagar.relaxation.differences import difference_bounds, pixel_differences
from vhagar.relaxation.interval_hexagons import plain_hexagons

from ..marks import mostly_slow
from ..oracle.exact import rationals
from .samples import BUILDS, PERTURBATIONS, ExactNetwork, domain_of, network_of, pairs, pieces_of
from .test_layerwise import SCALES, require_inside

every_perturbation = pytest.mark.parametrize(("text", "clip"), mostly_slow(PERTURBATIONS, 4))


@pytest.mark.parametrize("build", BUILDS)
@every_perturbation
def test_hexagons_hold_every_pair(build: str, text: str, clip: bool) -> None:
    rng = np.random.default_rng([17, BUILDS.index(build), PERTURBATIONS.index((text, clip))])
    network = network_of(build, rng, SCALES[rng.integers(3)])
    exact = ExactNetwork(network)
    for piece in pieces_of(text, clip, domain_of(build)):
        bounds = difference_bounds(network, piece)
        for pair in pairs(piece, rng, 6):
            first, second = exact(pair.exact), exact(pair.exact_p)
            for layer in zip(bounds.hexagons, first.entering, second.entering, strict=True):
                require_inside(*layer)


@pytest.mark.parametrize(("text", "clip"), PERTURBATIONS)
def test_pixels_differ_by_no_more(text: str, clip: bool) -> None:
    rng = np.random.default_rng(PERTURBATIONS.index((text, clip)))
    for piece in pieces_of(text, clip, domain_of("plain")):
        box = pixel_differences(piece)
        for pair in pairs(piece, rng, 12):
            change = pair.exact_p - pair.exact
            assert (rationals(box.lower) <= change).all()
            assert (change <= rationals(box.upper)).all()


def test_pixels_that_never_change_have_no_difference() -> None:
    box = pixel_differences(parse("occlusion(1,1,1)").pieces(Domain((1, 2, 2)))[0])
    np.testing.assert_allclose(box.lower, [-1, 0, 0, 0], atol=1e-12)
    assert (box.lower[1:] == 0).all()
    assert (box.upper == 0).all()


def test_a_small_change_stays_small() -> None:
    """By hand: weights 1 and -1 of two pixels, twice over, under linf(0.1)."""
    one = Affine(np.array([[1.0, -1.0], [2.0, 0.0]]), np.array([0.0, -1.0]), (2,), (2,))
    two = Affine(np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([5.0, -0.5]), (2,), (2,))
    network = Network(
        (one, Relu((2,)), two, Relu((2,)), Affine(np.eye(2), np.zeros(2), (2,), (2,))), (2,)
    )
    (piece,) = parse("linf(0.1)").pieces(Domain((2,)))
    first, second = difference_bounds(network, piece).hexagons
    np.testing.assert_allclose(first.gap_upper, [0.2, 0.2])
    np.testing.assert_allclose(second.gap_upper, [0.4, 0.4])
    np.testing.assert_allclose(second.gap_lower, [-0.4, -0.4])
    plain = plain_hexagons(network, piece)[1]
    np.testing.assert_allclose(second.upper, plain.upper)


def test_where_copies_cannot_differ_they_are_equal() -> None:
    rng = np.random.default_rng(3)
    network = network_of("plain", rng)
    (piece,) = parse("brightness([0,0])").pieces(domain_of("plain"))
    assert all(layer.equal.all() for layer in difference_bounds(network, piece).hexagons)
