"""Bounds from cones are those from whole layers, up to rounding, and hold exactly."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar.network import Convolution
from vhagar.relaxation import influence_cones as cones
from vhagar.relaxation import layerwise
from vhagar.relaxation.layerwise import TwinBounds, quick_bounds
from vhagar.relaxation.stages import Stage, stages_of

from ..marks import mostly_slow
from .samples import BUILDS, PERTURBATIONS, ExactNetwork, domain_of, network_of, pairs, pieces_of
from .test_layerwise import require_inside

FIELDS = ("lower", "upper", "lower_p", "upper_p", "gap_lower", "gap_upper")


def require_same(found: TwinBounds, other: TwinBounds) -> None:
    for here, there in zip(found.hexagons, other.hexagons, strict=True):
        for field in FIELDS:
            expected = getattr(there, field)
            np.testing.assert_allclose(getattr(here, field), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(("text", "clip"), mostly_slow(PERTURBATIONS, 3))
def test_cones_give_what_whole_layers_give_and_hold(
    build: str, text: str, clip: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng([41, BUILDS.index(build), PERTURBATIONS.index((text, clip))])
    network = network_of(build, rng)
    exact = ExactNetwork(network)
    monkeypatch.setattr(layerwise, "local_network", lambda *given: None)
    monkeypatch.setattr(cones, "AT_ONCE", int(rng.integers(1, 4)))
    for piece in pieces_of(text, clip, domain_of(build)):
        monkeypatch.setattr(cones, "_LARGEST_PART", 0.0)
        whole = quick_bounds(network, piece)
        monkeypatch.setattr(cones, "_LARGEST_PART", 1.0)
        found = quick_bounds(network, piece)
        require_same(found, whole)
        for pair in pairs(piece, rng, 3):
            first, second = exact(pair.exact), exact(pair.exact_p)
            for h, s, t in zip(found.hexagons, first.entering, second.entering, strict=True):
                require_inside(h, s, t)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("text", ["occlusion(1,1,2)", "patch([0,0.3],1,2,1)"])
def test_one_copy_says_all_where_the_copies_agree(
    build: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = network_of(build, np.random.default_rng(42))
    monkeypatch.setattr(layerwise, "local_network", lambda *given: None)
    for piece in pieces_of(text, True, domain_of(build)):
        found = quick_bounds(network, piece)
        with monkeypatch.context() as context:
            context.setattr(layerwise, "FIRST_COPY", 6)
            require_same(found, quick_bounds(network, piece))


def test_a_cone_computes_what_the_network_does() -> None:
    """Its stages are parts of the network's: with what it sees as input they give its neurons."""
    rng = np.random.default_rng(43)
    network = network_of("residual", rng)
    stages = stages_of(network)
    neurons = np.array([0, 3])
    cone = cones.cone_of(stages[:2], neurons)
    entering = rng.normal(size=(4, stages[1].in_size))
    whole, part = entering, entering[:, cone.views[1].index]
    for layer in stages[1].layers:
        whole = layer.forward(whole)
    for layer in cone.stages[1].layers:
        part = layer.forward(part)
    np.testing.assert_allclose(part, whole[:, neurons])


def test_neurons_that_see_all_have_no_cones() -> None:
    rng = np.random.default_rng(44)
    plain = stages_of(network_of("plain", rng))
    assert not cones.sees_little(plain[:2], np.arange(4))


def test_groups_are_small_and_together_all_neurons() -> None:
    rng = np.random.default_rng(45)
    for count in (1, 31, 32, 33, 64, 65, 200):
        neurons = np.sort(rng.choice(1000, count, replace=False))
        groups = cones._groups(neurons, rng.normal(size=(count, 2)))
        assert all(0 < len(group) <= cones.AT_ONCE for group in groups)
        assert len(groups) == -(-count // cones.AT_ONCE)
        np.testing.assert_array_equal(np.sort(np.concatenate(groups)), neurons)


def test_groups_are_neighbours_in_the_image() -> None:
    """Two filters at 12 x 12 places: the filters of a place belong together, and tiles do."""
    weight = np.ones((2, 1, 3, 3))
    stage = Stage((Convolution(weight, np.zeros(2), in_shape=(1, 14, 14)),))
    places = cones._places((stage,))
    rows, columns = np.indices((12, 12)) + 1.0
    np.testing.assert_allclose(places[:144], np.stack([rows.ravel(), columns.ravel()], axis=1))
    np.testing.assert_array_equal(places[:144], places[144:])
    for group in cones._groups(np.arange(288), places):
        assert np.ptp(places[group], axis=0).max() <= 7
