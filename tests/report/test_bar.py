"""The bar says no more than is proven."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vhagar.report.bar import Cells, axis, cells


@pytest.mark.parametrize("width", [1, 2, 7, 74])
def test_proven_cells_lie_in_proven_parts(width: int) -> None:
    rng = np.random.default_rng(width)
    for _ in range(500):
        lower, upper, scale = sorted(rng.uniform(0, 100, size=3).tolist())
        shares = cells(lower, upper, scale, width)
        assert min(shares.below, shares.unknown, shares.above) >= 0
        assert shares.below + shares.unknown + shares.above == width
        cell = scale / width
        assert shares.below * cell <= lower * (1 + 1e-12)
        assert shares.above * cell <= (scale - upper) * (1 + 1e-12)
        assert shares.unknown >= 1


def test_unknown_is_not_wider_than_it_must() -> None:
    assert cells(25.0, 75.0, 100.0, 40) == Cells(10, 20, 10)
    assert cells(25.0, 25.0, 100.0, 40) == Cells(10, 1, 29) or cells(
        25.0, 25.0, 100.0, 40
    ) == Cells(9, 1, 30)


def test_special_ends() -> None:
    assert cells(0.0, 0.0, 100.0, 40) == Cells(0, 0, 40)  # robust: nothing is left
    assert cells(0.0, math.inf, math.inf, 40) == Cells(0, 40, 0)  # no bound yet
    assert cells(0.0, 120.0, 100.0, 40) == Cells(0, 40, 0)  # a refuted bound went away
    assert cells(100.0, 100.0, 100.0, 40) == Cells(39, 1, 0)


def test_axis_labels_the_middle() -> None:
    assert axis("ab", 10.0, "99", 20) == "0        ab       99"
    assert axis("ab", 0.0, "99", 20).startswith("0 ab")
    assert axis("ab", 20.0, "99", 20).endswith("ab  99")
    assert axis("much too long for this", 5.0, "99", 20) == "0" + "99".rjust(19)
