"""Bounds from parts of the network are those of the whole, whatever the multipliers."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar.perturbation import Domain
from vhagar.relaxation.influence_cones import cone_of
from vhagar.relaxation.layerwise import TwinBounds, quick_bounds
from vhagar.relaxation.receptive_fields import local_network
from vhagar.relaxation.starts import hexagon_directions, neuron_starts
from vhagar.relaxation.subnetworks import Subnetwork

from ..marks import mostly_slow
from .samples import BUILDS, PERTURBATIONS, Rng, pieces_of
from .test_one_dual import sample
from .test_receptive_fields import BUILDS as CONVOLUTIONS
from .test_receptive_fields import SHAPE as IMAGE
from .test_receptive_fields import network_of as convolutions_of

every_perturbation = pytest.mark.parametrize(("text", "clip"), mostly_slow(PERTURBATIONS, 4))


def require_same_part(
    bounds: TwinBounds, layer: int, neurons: np.ndarray, part: Subnetwork, rng: Rng
) -> None:
    """Any multipliers: a part of the network, and the whole with 0 for what the part omits."""
    directions = hexagon_directions(bounds.piece.ratio)
    rows = len(directions) * len(neurons)
    numbers = [rng.normal(size=(2, rows, len(h))) for h in bounds.hexagons]
    for known, view in zip(numbers, part.views[1:], strict=False):
        outside = np.ones(known.shape[2], bool)
        outside[view.existing] = False
        known[:, :, outside] = 0.0
    start = neuron_starts(directions, bounds.stages[layer].out_size, neurons)
    whole = bounds.bound(layer, *start, lambda k, a, b: tuple(numbers[k]))
    own = neuron_starts(directions, len(neurons), np.arange(len(neurons)))
    views = part.views[1:]
    found = part.bound(
        bounds.corners,
        bounds.piece,
        own,
        bounds.input_magnitude,
        lambda k, a, b: tuple(numbers[k][:, :, views[k].index]),
    )
    np.testing.assert_allclose(found, whole, rtol=1e-9, atol=1e-9 * abs(whole).max())


@pytest.mark.parametrize("build", BUILDS)
@every_perturbation
def test_cones_are_parts_of_the_whole(build: str, text: str, clip: bool) -> None:
    bounds, rng, _ = sample(build, text, clip, 86)
    for layer in range(1, len(bounds.hexagons)):
        size = len(bounds.hexagons[layer])
        neurons = np.sort(rng.choice(size, min(2, size), replace=False))
        cone = cone_of(bounds.stages[: layer + 1], neurons)
        require_same_part(bounds, layer, neurons, cone, rng)


@pytest.mark.parametrize("build", CONVOLUTIONS)
@every_perturbation
def test_windows_are_parts_of_the_whole(build: str, text: str, clip: bool) -> None:
    rng = np.random.default_rng([87, list(CONVOLUTIONS).index(build)])
    piece = pieces_of(text, clip, Domain(IMAGE))[0]
    bounds = quick_bounds(convolutions_of(build, rng), piece)
    local = local_network(bounds.stages[:2])
    assert local is not None
    for place in list(local.places())[:2]:
        neurons = local.output.at(place).index
        require_same_part(bounds, 1, neurons, local.at(place), rng)
