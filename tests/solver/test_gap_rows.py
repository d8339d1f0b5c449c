"""Rows of the second copy as differences: the same model, and multipliers of the rows as given."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.solver.gap_rows import GapRows
from vhagar.solver.linear_model import LinearArrays

from ..search.nodes import agreeing, every_kind, everything, exactly

NOWHERE = np.zeros(0, dtype=np.int64)


def twins(gap: float, entries: int = 1, width: int = 8, upper: float | None = None) -> LinearArrays:
    """Two rows that differ by `gap` in some entries."""
    row = np.linspace(1.0, 2.0, width)
    other = row.copy()
    other[:entries] += gap
    return LinearArrays(
        np.zeros(width),
        np.ones(width),
        np.zeros(width, dtype=np.bool_),
        sparse.csr_array(np.stack([row, other])),
        np.array([3.0, 3.5]),
        np.array([3.0, 3.5 if upper is None else upper]),
        twins=(np.array([0]), np.array([1])),
    )


def test_a_sparse_difference_replaces_a_row() -> None:
    arrays = twins(0.25)
    gaps = GapRows.of(arrays)
    assert gaps.second.tolist() == [1]
    subtracted = gaps.subtracted(arrays)
    assert subtracted.matrix.nnz == 8 + 1
    assert subtracted.matrix[[1]].toarray().tolist() == [[0.25, *[0.0] * 7]]
    assert subtracted.row_lower.tolist() == subtracted.row_upper.tolist() == [3.0, 0.5]
    assert arrays.row_lower.tolist() == [3.0, 3.5]  # is left as it was


@pytest.mark.parametrize(
    "arrays",
    [
        twins(0.25, entries=5),  # hardly sparser than the row
        twins(1e-12),  # rounding
        twins(0.25, upper=4.0),  # no equation
        twins(0.0),
        replace(twins(0.25), twins=(NOWHERE, NOWHERE)),
    ],
)
def test_other_rows_stay(arrays: LinearArrays) -> None:
    gaps = GapRows.of(arrays)
    assert not len(gaps.second)
    assert gaps.subtracted(arrays) is arrays
    multipliers = np.array([2.0, 3.0])
    assert gaps.restored(multipliers).tolist() == [2.0, 3.0]


def test_multipliers_mean_the_same() -> None:
    """They combine the rows as given to what those of the differences combine these to."""
    rng = np.random.default_rng(1)
    arrays = twins(0.25)
    gaps = GapRows.of(arrays)
    subtracted = gaps.subtracted(arrays)
    for _ in range(20):
        multipliers = rng.normal(size=2)
        restored = gaps.restored(multipliers)
        assert restored @ arrays.matrix == pytest.approx(multipliers @ subtracted.matrix)
        assert restored @ arrays.row_lower == pytest.approx(multipliers @ subtracted.row_lower)


@every_kind
def test_bounds_are_the_same_with_and_without(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng([31, len(kind)])
    for found in everything(kind):
        decisions = agreeing(found, rng, 0.3)
        bounds, target = found.region_model.bounds, found.target
        with_gaps = RegionModel(found.problem, bounds, target).evaluate(decisions, math.inf)
        with monkeypatch.context() as patch:
            patch.setattr(GapRows, "of", lambda arrays: GapRows(NOWHERE, NOWHERE))
            without = RegionModel(found.problem, bounds, target).evaluate(decisions, math.inf)
        assert exactly(with_gaps.upper) >= found.attacked.confidence
        if without.complete:
            size = 1e-6 * (1 + abs(without.upper))
            assert with_gaps.upper == pytest.approx(without.upper, abs=size)


def test_some_rows_are_replaced() -> None:
    """Otherwise the test above would show nothing."""
    found = [
        len(GapRows.of(one.region_model.model.arrays).second)
        for kind in ("occlusion", "brightness", "linf")
        for one in everything(kind)
    ]
    assert any(found)
