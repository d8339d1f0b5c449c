"""The bar says no more than is proven."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vhagar.cli.terminal import MIDDLE, Cells, axis, cells


@pytest.mark.parametrize("width", [1, 2, 7, 74])
def test_proven_cells_lie_in_proven_parts(width: int) -> None:
    rng = np.random.default_rng(width)
    for _ in range(500):
        lower, upper, scale = sorted(rng.uniform(0, 100, size=3).tolist())
        shares = cells(lower, upper, scale, width)
        assert min(shares.below, shares.unknown, shares.above) >= 0
        assert shares.below + shares.unknown + shares.above == width
        # Where the proven parts end, on the square-root scale.
        assert scale * (shares.below / width) ** 2 <= lower * (1 + 1e-12)
        assert scale * (1 - shares.above / width) ** 2 >= upper * (1 - 1e-12)
        assert shares.unknown >= 1


def test_unknown_is_not_wider_than_it_must() -> None:
    assert cells(6.25, 56.25, 100.0, 40) == Cells(10, 20, 10)
    assert cells(6.3, 6.3, 100.0, 40) == Cells(10, 1, 29)


def test_special_ends() -> None:
    assert cells(0.0, 0.0, 100.0, 40) == Cells(0, 0, 40)  # robust: nothing is left
    assert cells(0.0, math.inf, math.inf, 40) == Cells(0, 40, 0)  # no bound yet
    assert cells(0.0, 120.0, 100.0, 40) == Cells(0, 40, 0)  # a refuted bound went away
    assert cells(100.0, 100.0, 100.0, 40) == Cells(39, 1, 0)


def test_axis() -> None:
    assert axis("ab", 5.0, "m", "99", 20) == "0   ab    m       99"
    assert axis("ab", 0.0, "m", "99", 20) == "0  ab     m       99"
    assert axis("ab", 20.0, "m", "99", 20) == "0         m   ab  99"


def test_what_finds_no_room_is_left_out() -> None:
    assert axis("abcdef", 10.0, "m", "99", 20) == "0      abcdef     99"
    assert axis("much too long for this", 5.0, "m", "99", 20) == "0         m       99"
    assert axis("ab", 1.0, "m", "99", 3) == "0  "


def test_the_middle_is_labelled_with_what_it_is() -> None:
    assert cells(100 * MIDDLE, 100.0, 100.0, 40) == Cells(20, 20, 0)
