"""Windows: which neurons they are, and which of them are alike."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vhagar.perturbation import Domain
from vhagar.relaxation.windows import kinds as module
from vhagar.relaxation.windows.kinds import windows_of

from .nets import SEEN, network_with, piece_of


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
    with monkeypatch.context() as patch:
        patch.setattr(module, "_MOST_TERMS", 3)
        assert windows_of(network_with(np.ones((3, 4))), piece) is not None
        assert windows_of(network_with(np.ones((4, 4))), piece) is None
    assert windows_of(network_with(np.ones((2, 4))), piece) is not None
    wider = piece_of("brightness([0,0.25])", 5)
    assert windows_of(network_with(np.ones((2, 5))), wider) is None
