"""Hexagons hold every pair of pre-activations, in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar import Network
from vhagar.network import Affine, Relu
from vhagar.perturbation import Domain, parse
from vhagar.relaxation import Bounds, network_bounds
from vhagar.relaxation.hexagon import Hexagons
from vhagar.relaxation.layerwise import TwinBounds, quick_bounds
from vhagar.relaxation.refinement import refine_layer
from vhagar.relaxation.starts import hexagon_directions

from ..marks import mostly_slow
from ..oracle.exact import rationals
from .samples import BUILDS, PERTURBATIONS, ExactNetwork, domain_of, network_of, pairs, pieces_of

SCALES = (1e-6, 1.0, 1e6)


def require_inside(hexagons: Hexagons, s: np.ndarray, t: np.ndarray) -> None:
    gap = t - Fraction(hexagons.ratio) * s
    for value, low, high in (
        (s, hexagons.lower, hexagons.upper),
        (t, hexagons.lower_p, hexagons.upper_p),
        (gap, hexagons.gap_lower, hexagons.gap_upper),
    ):
        assert (rationals(low) <= value).all()
        assert (value <= rationals(high)).all()
    assert not (s[hexagons.off] > 0).any()
    assert not (t[hexagons.off] > 0).any()
    on = hexagons.on if hexagons.linear is None else hexagons.on & ~hexagons.linear
    assert not (s[on] < 0).any()
    assert not (t[on] < 0).any()
    assert (s[hexagons.equal] == t[hexagons.equal]).all()


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(("text", "clip"), mostly_slow(PERTURBATIONS, 2))
def test_hexagons_hold_every_pair(build: str, text: str, clip: bool) -> None:
    rng = np.random.default_rng([7, BUILDS.index(build), PERTURBATIONS.index((text, clip))])
    network = network_of(build, rng, SCALES[rng.integers(3)])
    exact = ExactNetwork(network)
    for piece in pieces_of(text, clip, domain_of(build)):
        bounds = quick_bounds(network, piece)
        for pair in pairs(piece, rng, 6):
            first, second = exact(pair.exact), exact(pair.exact_p)
            for layer in zip(bounds.hexagons, first.entering, second.entering, strict=True):
                require_inside(*layer)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(("text", "clip"), PERTURBATIONS[::4])
def test_refined_hexagons_hold_every_pair(build: str, text: str, clip: bool) -> None:
    rng = np.random.default_rng([9, BUILDS.index(build), PERTURBATIONS.index((text, clip))])
    network = network_of(build, rng, SCALES[rng.integers(3)])
    exact = ExactNetwork(network)
    for piece in pieces_of(text, clip, domain_of(build)):
        bounds = quick_bounds(network, piece)
        before = list(bounds.hexagons)
        refine_layer(bounds, len(before) - 1)
        if not before:
            continue  # nothing to refine
        before, refined = before[-1], bounds.hexagons[-1]
        assert (refined.upper <= before.upper).all()
        assert (refined.lower >= before.lower).all()
        for pair in pairs(piece, rng, 6):
            first, second = exact(pair.exact), exact(pair.exact_p)
            require_inside(refined, first.entering[-1], second.entering[-1])


def test_refining_pays() -> None:
    """The tight side: over several networks, the widths of the last layer shrink."""
    shares = []
    for seed in range(5):
        network = network_of("plain", np.random.default_rng([10, seed]))
        (piece,) = parse("linf(0.1)").pieces(Domain(network.input_shape))
        bounds = quick_bounds(network, piece)
        before = bounds.hexagons[1]
        refine_layer(bounds, 1)
        after = bounds.hexagons[1]
        widths = [known.gap_upper - known.gap_lower for known in (before, after)]
        shares.append(float(widths[1].sum() / widths[0].sum()))
    assert np.mean(shares) < 0.995


def test_hexagons_are_never_wider_than_intervals() -> None:
    rng = np.random.default_rng(8)
    network = network_of("plain", rng)
    (piece,) = parse("linf(0.1)").pieces(Domain(network.input_shape))
    bounds = quick_bounds(network, piece)
    intervals = network_bounds(network, Bounds(np.zeros(6), np.ones(6)))
    for hexagons, known in zip(bounds.hexagons, intervals[::2], strict=False):
        assert (known.lower <= hexagons.lower).all()
        assert (hexagons.upper <= known.upper).all()
        assert (hexagons.gap_upper <= known.upper - known.lower).all()


def test_copies_that_see_the_same_are_equal_and_a_dead_neuron_passes_nothing_on() -> None:
    """The second neuron sees the moved pixel, but is always off."""
    first = Affine(
        np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([0, -2.0, -0.5]), (2,), (3,)
    )
    second = Affine(
        np.array([[0.0, 5.0, 1.0], [1.0, 0.0, 1.0]]), np.array([-0.1, -0.1]), (3,), (2,)
    )
    network = Network((first, Relu((3,)), second, Relu((2,)), _scores(2)), (2,))
    domain = Domain((1, 1, 2))
    (piece,) = parse("occlusion(1,1,1)").pieces(domain)
    bounds = quick_bounds(network, piece)
    assert bounds.hexagons[0].equal.tolist() == [False, False, True]
    assert bounds.hexagons[0].off.tolist() == [False, True, False]
    assert bounds.hexagons[1].equal.tolist() == [True, False]


def test_replacing_a_layer_replaces_its_corners() -> None:
    rng = np.random.default_rng(9)
    network = network_of("plain", rng)
    (piece,) = parse("linf(0.1)").pieces(Domain(network.input_shape))
    bounds = quick_bounds(network, piece)
    smaller = Hexagons(*np.array([[-1.0, 1.0, -1.0, 1.0, -0.5, 0.5]] * 5).T)
    bounds.replace(0, smaller)
    assert abs(bounds.corners[0].s).max() == 1.0
    assert bounds.corners[0].magnitude.tolist() == [1.0] * 5


def test_wide_layers_in_batches_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(10)
    network = network_of("plain", rng)
    (piece,) = parse("linf(0.1)").pieces(Domain(network.input_shape))
    whole = quick_bounds(network, piece)
    monkeypatch.setattr("vhagar.relaxation.layerwise._BATCH_ENTRIES", 13)
    parts = quick_bounds(network, piece)
    for one, other in zip(whole.hexagons, parts.hexagons, strict=True):
        np.testing.assert_allclose(one.upper, other.upper, rtol=1e-12)
        np.testing.assert_allclose(one.gap_lower, other.gap_lower, rtol=1e-12)
    assert isinstance(parts, TwinBounds)


def _scores(into: int) -> Affine:
    return Affine(np.eye(2, into), np.zeros(2), (into,), (2,))


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_nan_changes_nothing(share: float) -> None:
    rng = np.random.default_rng(61)
    network = network_of("plain", rng)
    (piece,) = pieces_of("linf(0.1)", True, domain_of("plain"))
    bounds = quick_bounds(network, piece)
    for layer, known in enumerate(list(bounds.hexagons)):
        before = known.tightened()
        found = np.full((len(hexagon_directions(known.ratio)), len(known)), np.inf)
        found[rng.random(found.shape) < share] = np.nan
        bounds.tighten(layer, found)
        for one, two in zip(bounds.hexagons[layer].sides, before.sides, strict=True):
            assert (one == two).all()
