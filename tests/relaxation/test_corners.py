"""Offsets over corners, few rows or many, of all neurons or of some."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar.relaxation.corners import Corners

from .test_one_dual import sample


def test_few_rows_and_many_have_the_same_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """All corners at once, and one after the other in blocks."""
    bounds, rng, _ = sample("residual", "linf(0.1)", True, 88)
    for known in bounds.corners:
        a, b, p, q = rng.normal(size=(4, 7, known.s.shape[1]))
        allowed = np.where(rng.random(known.s.shape) < 0.2, -np.inf, 0.0)
        few = known.offset(a, b, p, q), known.offset(a, b, p, q, allowed)
        with monkeypatch.context() as context:
            context.setattr("vhagar.relaxation.corners._FEW", 0)
            context.setattr("vhagar.relaxation.arrays._BLOCK_ENTRIES", 20)
            many = known.offset(a, b, p, q), known.offset(a, b, p, q, allowed)
        for one, other in zip(few, many, strict=True):
            np.testing.assert_array_equal(one, other)


def test_corners_taken_are_the_corners_of_the_taken() -> None:
    bounds, _, _ = sample("residual", "linf(0.1)", True, 90)
    for known in bounds.corners:
        some = np.array([1, 0, 3])
        mine, yours = known.take(some), Corners.of(known.hexagons.take(some))
        for name in ("s", "t", "z", "z_p", "magnitude"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(yours, name))
