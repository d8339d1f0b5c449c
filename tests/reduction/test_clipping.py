"""A clip before a network, as layers: exactly a clip."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar import Network
from vhagar.network import Affine, Relu
from vhagar.reduction.clipping import Clip

SIDES = [(True, True), (True, False), (False, True)]


def network(size: int) -> Network:
    weight = np.concatenate([np.eye(size), -np.eye(size)])
    first = Affine(weight, np.ones(2 * size), (size,), (2 * size,))
    return Network((first, Relu((2 * size,))), (size,))


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-0.7, 0.4), (0.1, 0.3), (2.0, 255.0)])
@pytest.mark.parametrize(("below", "above"), SIDES)
def test_it_is_a_clip(ends: tuple[float, float], below: bool, above: bool) -> None:
    size, (low, high) = 5, ends
    masks = [np.array([True, False, True, False, side]) & side for side in (below, above)]
    plain = network(size)
    clip = Clip(low, high, *masks)
    found = clip.before(plain)
    x = np.random.default_rng(1).uniform(low - (high - low) / 2, high + (high - low) / 2, (40, 5))
    limits = [np.where(masks[0], low, -np.inf), np.where(masks[1], high, np.inf)]
    assert (clip(x) == np.clip(x, *limits)).all()
    expected = plain.forward(clip(x))
    assert found.forward(x) == pytest.approx(expected, abs=1e-12 * max(abs(low), abs(high), 1))
    assert found.hidden_neurons == plain.hidden_neurons + int(sum(mask.sum() for mask in masks))


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-0.7, 0.4)])
def test_in_real_numbers_it_is_exactly_that(ends: tuple[float, float]) -> None:
    low, high = ends
    every = np.ones(1, dtype=bool)
    layers = Clip(low, high, every, every).before(network(1)).layers[:-2]
    for start in (low - 0.25, low, (low + high) / 3, high, high + 0.3):
        value = Fraction(start)
        for layer in layers:
            if isinstance(layer, Relu):
                value = max(value, Fraction(0))
            else:
                weight = Fraction(float(layer.matrix.toarray()[0, 0]))
                value = weight * value + Fraction(float(layer.flat_bias[0]))
        assert value == min(max(Fraction(start), Fraction(low)), Fraction(high))
