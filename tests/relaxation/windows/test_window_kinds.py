"""Windows: which neurons they are, and which of them are alike."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from vhagar.network import Affine, Convolution, Network, Relu, SparseAffine
from vhagar.perturbation import Domain
from vhagar.relaxation.windows import WindowBounder
from vhagar.relaxation.windows import kinds as module
from vhagar.relaxation.windows.kinds import windows_of

from .nets import BUILDS, SEEN, SHAPE, Rng, network_of, network_with, piece_of, pieces_of


def test_windows_of_a_network() -> None:
    """By the pixels that they see; equal ones, ranges included, are of one kind."""
    bias = np.array([1.0, 2.0, 3.0, 4.0, 2.0])
    windows = windows_of(network_with(SEEN, bias), piece_of("brightness([0.125,0.25])", 4))
    assert windows is not None
    assert windows.count == 3
    two, one = windows.kinds
    assert (two.numbers.tolist(), two.pixels.tolist(), two.units.tolist()) == (
        [0],
        [[1, 3]],
        [[0, 2]],
    )
    assert (two.width, two.weight.tolist(), two.bias.tolist()) == (2, [[2, -3], [2, -3]], [1, 3])
    assert (one.numbers.tolist(), one.pixels.tolist(), one.units.tolist()) == (
        [1, 2],
        [[0], [2]],
        [[1], [4]],
    )
    assert (windows.least, windows.most, windows.end, windows.sign) == (0.125, 0.25, 1.0, 1.0)
    assert (one.low.tolist(), one.high.tolist()) == ([0.0], [1.0])
    pixels, neurons = windows.sizes(two)
    assert pixels.tolist() == [1.25, 1.25]
    assert neurons.tolist() == [5 * 1.25 + 1, 5 * 1.25 + 3]


def test_windows_of_images_that_darken() -> None:
    ends = np.array([0.0, 0.25, 0.5, 0.0]), np.array([0.5, 1.0, 1.0, 0.25])
    piece = piece_of("brightness([-0.5,-0.125])", 4, True, Domain((4,), *ends))
    windows = windows_of(network_with(SEEN), piece)
    assert windows is not None
    assert (windows.least, windows.most, windows.end, windows.sign) == (0.125, 0.5, 0.0, -1.0)
    assert [kind.low.tolist() for kind in windows.kinds] == [[-1.0, -0.25], [-0.5], [-1.0]]
    assert [kind.high.tolist() for kind in windows.kinds] == [[-0.25, 0.0], [0.0], [-0.5]]
    assert windows.kinds[0].weight.tolist() == [[-2, 3], [-2, 3]]
    pixels, _ = windows.sizes(windows.kinds[0])
    assert pixels.tolist() == [1.5, 0.75]


def test_sizes_where_images_are_not_clipped() -> None:
    windows = windows_of(network_with(SEEN), piece_of("brightness([0,0.75])", 4, False))
    assert windows is not None
    assert windows.end == math.inf
    assert windows.sizes(windows.kinds[0])[0].tolist() == [1.75, 1.75]


def test_ranges_that_are_smaller_than_the_input_range() -> None:
    domain = Domain((4,), np.zeros(4), np.full(4, 0.5))
    for clip, size in ((False, 0.75), (True, 1.25)):
        piece = piece_of("brightness([0,0.25])", 4, clip, domain)
        windows = windows_of(network_with(SEEN), piece)
        assert windows is not None
        assert windows.sizes(windows.kinds[0])[0].tolist() == [size, size]


def test_other_input_ranges() -> None:
    for text, end in (("brightness([0.25,0.5])", 2.0), ("brightness([-0.5,-0.25])", 0.5)):
        windows = windows_of(network_with(SEEN), piece_of(text, 4, True, Domain((4,), -0.5, 2.0)))
        assert windows is not None
        assert windows.end == end


def test_biases_of_0_are_equal_whatever_their_sign() -> None:
    bias = np.zeros(5)
    bias[1] = -0.0
    windows = windows_of(network_with(SEEN, bias), piece_of("brightness([0,0.25])", 4))
    assert windows is not None
    assert len(windows.kinds) == 2


def test_weights_that_are_stored_but_zero_are_not_seen() -> None:
    matrix = module.sparse.csr_array(
        (np.array([1.0, 2.0, 0.0, 3.0]), np.array([1, 1, 2, 0]), np.array([0, 3, 4])), shape=(2, 3)
    )
    found = module._grouped(matrix, np.zeros(2), np.zeros(3), np.ones(3))
    assert [kind.pixels.tolist() for kind in found] == [[[1]], [[0]]]
    assert [kind.weight.tolist() for kind in found] == [[[3.0]], [[3.0]]]


def test_the_most_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    piece, network = piece_of("brightness([0,0.25])", 4), network_with(SEEN)
    for name, most in (("_MOST_WINDOWS", 3), ("_MOST_KINDS", 2), ("_MOST_TERMS", 3)):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, most)
            assert windows_of(network, piece) is not None
            patch.setattr(module, name, most - 1)
            assert windows_of(network, piece) is None
    assert windows_of(network_with(0 * SEEN), piece) is None
    least = 2.0**-900
    assert windows_of(network_with(least * np.eye(4)), piece) is not None
    for row in (0, 3):
        weight = least * np.eye(4)
        weight[row] = np.nextafter(weight[row], 0)
        assert windows_of(network_with(weight), piece) is None
    both = np.array([[least, np.nextafter(least, 0)]])
    assert windows_of(network_with(both), piece_of("brightness([0,0.25])", 2)) is None
    with monkeypatch.context() as patch:
        patch.setattr(module, "_MOST_TERMS", 3)
        assert windows_of(network_with(np.ones((3, 4))), piece) is not None
        assert windows_of(network_with(np.ones((4, 4))), piece) is None
    assert windows_of(network_with(np.ones((2, 4))), piece) is not None
    wider = piece_of("brightness([0,0.25])", 5)
    assert windows_of(network_with(np.ones((2, 5))), wider) is None


def test_equal_windows_are_of_one_kind() -> None:
    rng = np.random.default_rng(8)
    count = {}
    for build in BUILDS:
        (piece,) = pieces_of("brightness([0,0.1])", True, rng)
        windows = windows_of(network_of(build, rng), piece)
        assert windows is not None
        count[build] = len(windows.kinds), windows.count
        numbers = np.concatenate([kind.numbers for kind in windows.kinds])
        assert sorted(numbers.tolist()) == list(range(windows.count))
    assert count["plain"] == (1, 6)
    assert count["padded"] == (4, 12)  # inside, at two sides, and in a corner
    assert count["strided"] == (1, 4)
    assert count["one pixel missing"] == (2, 12)
    assert count["by place"] == (6, 6)


def _wide(rng: Rng) -> Network:
    first = Convolution(rng.normal(size=(2, 1, 3, 2)), rng.normal(size=2), SHAPE)
    last = Affine(rng.normal(size=(3, first.out_size)), np.zeros(3), first.out_shape, (3,))
    return Network((first, Relu(first.out_shape), last), SHAPE)


def _deep(rng: Rng) -> Network:
    network = network_of("plain", rng)
    last = Affine(rng.normal(size=(3, 3)), np.zeros(3), (3,), (3,))
    return Network((*network.layers, Relu((3,)), last), SHAPE)


def _linear_units(rng: Rng) -> Network:
    first, relu, last = network_of("plain", rng).layers
    passing = np.arange(relu.in_size) == 3
    return Network((first, Relu(relu.in_shape, passing), last), SHAPE)


def _two_layers_before(rng: Rng) -> Network:
    first, relu, last = network_of("plain", rng).layers
    turned = SparseAffine(sparse.csr_array(np.eye(12)[::-1]), np.zeros(12), SHAPE, SHAPE)
    return Network((turned, first, relu, last), SHAPE)


def _two_layers_behind(rng: Rng) -> Network:
    network = network_of("plain", rng)
    return Network((*network.layers, Affine(np.eye(3), np.ones(3), (3,), (3,))), SHAPE)


@pytest.mark.parametrize(
    "make", [_wide, _deep, _linear_units, _two_layers_before, _two_layers_behind]
)
def test_other_networks_have_no_windows(make: object) -> None:
    assert callable(make)
    rng = np.random.default_rng(1)
    (piece,) = pieces_of("brightness([0,0.1])", True, rng)
    assert windows_of(make(rng), piece) is None
    assert WindowBounder(make(rng), piece, 0).bound(1, 1.0) is None


def test_inputs_that_enter_relus_as_they_are_have_no_windows() -> None:
    """Nor would they for the checker; where a layer is between, they have."""
    piece = piece_of("brightness([0,0.25])", 4)
    first, *rest = network_with(np.eye(4)).layers
    assert windows_of(Network((first, *rest), (4,)), piece) is not None
    assert windows_of(Network(tuple(rest), (4,)), piece) is None


@pytest.mark.parametrize(
    "text", ["linf(0.1)", "contrast([1,1.5])", "contrast([0.5,0.9])", "occlusion(1,1,1)"]
)
def test_other_perturbations_have_no_windows(text: str) -> None:
    rng = np.random.default_rng(1)
    for piece in pieces_of(text, True, rng):
        assert windows_of(network_of("plain", rng), piece) is None
