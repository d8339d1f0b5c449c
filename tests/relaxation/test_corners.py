"""Offsets over corners, few rows or many, of all neurons or of some."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar.relaxation.corners import Corners, largest
from vhagar.relaxation.hexagon import Hexagons

from .test_one_dual import sample


def test_few_rows_and_many_have_the_same_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """All corners at once, and one after the other in blocks."""
    bounds, rng, _ = sample("residual", "linf(0.1)", True, 88)
    for known in bounds.corners:
        a, b, p, q = rng.normal(size=(4, 7, known.s.shape[1]))
        allowed = np.where(rng.random(known.s.shape) < 0.2, -np.inf, 0.0)
        few = known.offset(a, b, p, q), known.offset(a, b, p, q, allowed)
        with monkeypatch.context() as region_model:
            region_model.setattr("vhagar.relaxation.corners._FEW", 0)
            region_model.setattr("vhagar.relaxation.arrays._BLOCK_ENTRIES", 20)
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


def test_no_pair_of_a_hexagon_exceeds_the_offset() -> None:
    """Both ways of maximising, on a hexagon that both axes cut."""
    sides = (-2.0, 3.0, -1.5, 2.5, -1.0, 0.5)
    known = Corners.of(Hexagons(*(np.array([side]) for side in sides)))
    s, t = (axis.ravel() for axis in np.meshgrid(*(np.linspace(-2, 3, 101),) * 2))
    inside = (t >= -1.5) & (t <= 2.5) & (t - s >= -1.0) & (t - s <= 0.5)
    s, t = s[inside], t[inside]
    a, b, p, q = np.random.default_rng(5).normal(size=(4, 400, 1))
    values = a * np.maximum(s, 0) + b * np.maximum(t, 0) - p * s - q * t
    at_once = known.offset(a, b, p, q)[:, 0]
    one_by_one = largest(known, a, b, p, q, None)[:, 0]
    for offset in (at_once, one_by_one):
        assert (offset >= values.max(axis=1) - 1e-12).all()
