"""Scaled layers: the bound never gets worse, and what was scaled away is found again."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar.perturbation import AbstractPiece
from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.quadratic import (
    Differences,
    Multipliers,
    ascend,
    differences_of,
    starting_multipliers,
)
from vhagar.relaxation.quadratic.dual import evaluate
from vhagar.relaxation.quadratic.layer_scales import with_scaled_layers

from ..samples import BUILDS, domain_of, network_of, pieces_of


def known_of(build: str, text: str) -> Differences:
    network = network_of(build, np.random.default_rng(BUILDS.index(build)))
    piece: AbstractPiece = pieces_of(text, True, domain_of(build))[0]
    known = differences_of(quick_bounds(network, piece), 0, 1)
    assert known is not None
    return known


def value(known: Differences, multipliers: Multipliers) -> float:
    found = evaluate(known, multipliers)
    return np.inf if found is None else found.value


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("text", ["linf(0.1)", "occlusion(1,1,2)"])
def test_scaling_layers_never_makes_the_bound_worse(build: str, text: str) -> None:
    known = known_of(build, text)
    start = starting_multipliers(known, ascend(known))
    if start is None:
        return  # there is no bound then
    for factor in (1.0, 5.0, 100.0):
        larger = Multipliers(start.slopes, start.box * factor)
        scaled = with_scaled_layers(known, larger)
        assert value(known, scaled) <= value(known, larger) < np.inf
        # Within a layer, and among the inputs, nothing but a common factor has changed.
        for layer in np.unique(known.layers):
            own = known.layers == layer
            ratio = scaled.slopes[own] / larger.slopes[own]
            np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)
        ratio = scaled.box / larger.box
        np.testing.assert_allclose(ratio, ratio[0] if len(ratio) else 1.0, rtol=1e-12)


def test_a_box_that_counts_too_much_is_scaled_back() -> None:
    known = known_of("narrow and deep", "linf(0.1)")
    start = starting_multipliers(known, ascend(known))
    assert start is not None
    scaled = with_scaled_layers(known, Multipliers(start.slopes, start.box * 1000))
    assert value(known, scaled) <= 1.2 * value(known, start)


def test_no_step_is_made_once_the_time_is_over_or_without_a_bound() -> None:
    known = known_of("plain", "linf(0.1)")
    start = starting_multipliers(known, ascend(known))
    assert start is not None
    larger = Multipliers(start.slopes, start.box * 10)
    stopped = with_scaled_layers(known, larger, lambda: True)
    assert value(known, stopped) == value(known, larger)
    indefinite = Multipliers(start.slopes, start.box * 1e-9)
    assert with_scaled_layers(known, indefinite) is indefinite
