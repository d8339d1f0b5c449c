"""Refined hexagons: what is no number proves nothing."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar.relaxation.first_order.refine import _tightened
from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.starts import hexagon_directions

from ..samples import domain_of, network_of, pieces_of


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
        _tightened(bounds, layer, found)
        for one, two in zip(bounds.hexagons[layer].sides, before.sides, strict=True):
            assert (one == two).all()
