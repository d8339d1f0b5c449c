"""Bounds from windows are those from whole layers, up to rounding, and hold exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar import Network
from vhagar.network import Affine, Convolution, Relu, convolution
from vhagar.perturbation import Domain
from vhagar.relaxation import layerwise, receptive_fields
from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.stages import stages_of

from ..marks import mostly_slow
from .samples import PERTURBATIONS, ExactNetwork, Rng, pairs, pieces_of

SHAPE = (2, 5, 6)
FIELDS = ("lower", "upper", "lower_p", "upper_p", "gap_lower", "gap_upper")
# Strides, padding, dilation and groups of two convolutions in a row.
BUILDS = {
    "plain": ({}, {}),
    "strided": ({"stride": (1, 2)}, {"stride": (2, 1)}),
    "padded": ({"padding": (1, 1, 1, 1)}, {"padding": (0, 2, 1, 0), "stride": (2, 2)}),
    "dilated": ({"dilation": (2, 1)}, {"padding": (1, 0, 1, 1)}),
    "grouped": ({"groups": 2}, {"groups": 2, "padding": (1, 1, 0, 0)}),
}

every_build = pytest.mark.parametrize("build", BUILDS)


def network_of(build: str, rng: Rng) -> Network:
    first, second = BUILDS[build]
    one = Convolution(
        rng.normal(size=(4, 2 // first.get("groups", 1), 2, 2)), rng.normal(size=4), SHAPE, **first
    )
    two = Convolution(
        rng.normal(size=(2, 4 // second.get("groups", 1), 2, 3)),
        rng.normal(size=2),
        one.out_shape,
        **second,
    )
    last = Affine(rng.normal(size=(3, two.out_size)), rng.normal(size=3), two.out_shape, (3,))
    return Network((one, Relu(one.out_shape), two, Relu(two.out_shape), last), SHAPE)


@every_build
@pytest.mark.parametrize(("text", "clip"), mostly_slow(PERTURBATIONS, 7))
def test_windows_give_what_whole_layers_give_and_hold(
    build: str, text: str, clip: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng([31, list(BUILDS).index(build), PERTURBATIONS.index((text, clip))])
    network = network_of(build, rng)
    exact = ExactNetwork(network)
    # Tiles of one place, of a few, and of the whole layer.
    monkeypatch.setattr(receptive_fields, "_TILE_ENTRIES", int(rng.choice([1, 2000, 10**9])))
    for piece in pieces_of(text, clip, Domain(SHAPE)):
        found = quick_bounds(network, piece)
        with monkeypatch.context() as context:
            context.setattr(layerwise, "local_network", lambda *given: None)
            whole = quick_bounds(network, piece)
        for here, there in zip(found.hexagons, whole.hexagons, strict=True):
            for field in FIELDS:
                np.testing.assert_allclose(
                    getattr(here, field), getattr(there, field), rtol=1e-6, atol=1e-6
                )
        for pair in pairs(piece, rng, 3):
            first, second = exact(pair.exact), exact(pair.exact_p)
            for h, s, t in zip(found.hexagons, first.entering, second.entering, strict=True):
                ratio = Fraction(h.ratio)
                for k in range(len(h)):
                    gap = t[k] - ratio * s[k]
                    assert Fraction(float(h.lower[k])) <= s[k] <= Fraction(float(h.upper[k]))
                    assert Fraction(float(h.lower_p[k])) <= t[k] <= Fraction(float(h.upper_p[k]))
                    assert Fraction(float(h.gap_lower[k])) <= gap <= Fraction(float(h.gap_upper[k]))


def test_only_plain_convolutions_have_windows() -> None:
    rng = np.random.default_rng(5)
    stages = stages_of(network_of("plain", rng))
    assert receptive_fields.local_network(stages[:2]) is not None
    assert receptive_fields.local_network(stages) is None  # the last stage sees everything
    everywhere = Convolution(rng.normal(size=(1, 2, 2, 2)), rng.normal(size=(1, 4, 5)), SHAPE)
    network = Network((everywhere, Relu((1, 4, 5)), Relu((1, 4, 5))), SHAPE)
    assert receptive_fields.local_network(stages_of(network)[:1]) is None  # a bias for every place


@every_build
def test_a_large_convolution_does_without_its_matrix(
    build: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(6)
    monkeypatch.setattr(convolution, "LARGEST_MATRIX", 0)
    for layer in network_of(build, rng).layers:
        if isinstance(layer, Convolution):
            x, y = rng.normal(size=(3, layer.in_size)), rng.normal(size=(3, layer.out_size))
            matrix = layer.matrix.toarray()
            np.testing.assert_allclose(layer.times(x), x @ matrix.T, atol=1e-12)
            np.testing.assert_allclose(layer.pull(y), y @ matrix, atol=1e-12)
            np.testing.assert_allclose(layer.absolute.pull(y), y @ abs(matrix), atol=1e-12)


@pytest.mark.parametrize(("text", "clip"), PERTURBATIONS)
def test_a_local_piece_supports_what_the_whole_does(text: str, clip: bool) -> None:
    rng = np.random.default_rng(7)
    domain = Domain(SHAPE, -0.5, 1.0)
    for piece in pieces_of(text, clip, domain):
        pixels = np.sort(rng.permutation(domain.size)[:11])
        part, columns = piece.local(pixels)
        assert set(pixels) <= set(columns)
        a, b = np.zeros((2, 4, domain.size))
        a[:, pixels], b[:, pixels] = rng.normal(size=(2, 4, len(pixels)))
        here = part.support(a[:, columns], b[:, columns]).value
        np.testing.assert_allclose(here, piece.support(a, b).value, atol=1e-9)


@pytest.mark.parametrize(("text", "clip"), PERTURBATIONS)
def test_a_local_piece_of_no_pixel_supports_nothing(text: str, clip: bool) -> None:
    """A neuron whose weights are all 0 has such a part."""
    for piece in pieces_of(text, clip, Domain(SHAPE, -0.5, 1.0)):
        part, columns = piece.local(np.zeros(0, dtype=np.int64))
        assert part.domain.size == len(columns) > 0
        nothing = np.zeros((1, len(columns)))
        assert 0 <= part.support(nothing, nothing).value[0] < 1e-300
