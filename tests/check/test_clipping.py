"""The clip of an affine map's image, as layers before the network."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from vhagar_check import check
from vhagar_check.clipping import behind_clip
from vhagar_check.exact import Exact
from vhagar_check.model import read_model
from vhagar_check.pieces import Domain

from .graphs import SMALL_GRAPHS
from .test_graph_verdict import certified, written

SIDES = {"below": (True, False), "above": (False, True), "both": (True, True)}


@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("name", SMALL_GRAPHS)
def test_the_network_behind_a_clip_is_the_network_at_the_clipped_image(
    name: str, sides: str
) -> None:
    """In exact arithmetic, for networks that branch as for others."""
    rng = np.random.default_rng(7)
    network = read_model(SMALL_GRAPHS[name](1))
    size = int(np.prod(network.input_shape))
    domain = Domain(network.input_shape, -0.25, 0.5)
    below, above = ((rng.random(size) < 0.6) & side for side in SIDES[sides])
    image = rng.uniform(-1, 1.25, size)
    # Pixels that are not clipped on a side do not leave the range by more than its width.
    image[~below] = image[~below].clip(-0.5, None)
    image[~above] = image[~above].clip(None, 1.0)
    low, high = domain.ends
    clipped = [Fraction(value) for value in image.tolist()]
    clipped = [max(v, low) if cut else v for v, cut in zip(clipped, below, strict=True)]
    clipped = [min(v, high) if cut else v for v, cut in zip(clipped, above, strict=True)]
    found = behind_clip(network, (below, above), domain).exact_scores(Exact.of(image))
    expected = network.exact_scores(Exact.of_fractions(clipped))
    assert found.fractions() == expected.fractions()


@pytest.mark.parametrize("name", ["small_residual", "small_clip"])
def test_clipped_maps_are_proved_for_networks_that_branch(name: str, tmp_path: Path) -> None:
    model = written(tmp_path, name)
    result, path = certified(model, "occlusion(1,1,2)+brightness([0,0.2])")
    verdict = check(path, model=model)
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)
