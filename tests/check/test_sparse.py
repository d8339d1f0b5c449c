"""Sparse matrices, against the same matrices written out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar_check import sparse as sparse_module
from vhagar_check.sparse import Sparse


@pytest.mark.parametrize("most", [1, 5, 8, 10**6])
def test_sparse_products_in_batches(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    dense = rng.normal(size=(5, 6)) * (rng.random((5, 6)) < 0.5)
    dense[:, 2] = 0.0
    matrix, rows = Sparse.of(dense), rng.normal(size=(7, 5))
    monkeypatch.setattr(sparse_module, "_MOST_PRODUCTS", most)
    assert matrix.pulled(rows) == pytest.approx(rows @ dense)
    values = rng.normal(size=6)
    assert matrix.times(values) == pytest.approx(dense @ values)
    assert matrix.absolute().times(abs(values)) == pytest.approx(abs(dense) @ abs(values))
    assert matrix.counts.tolist() == (dense != 0).sum(axis=1).tolist()
    low, high = values - 1, values + 2
    ends = np.stack([dense * low, dense * high])
    least, most_ = matrix.extremes(low, high)
    assert least == pytest.approx(ends.min(axis=0).sum(axis=1))
    assert most_ == pytest.approx(ends.max(axis=0).sum(axis=1))
    for row in range(5):
        exact = {k: Fraction(float(v)) for k, v in enumerate(dense[row]) if v}
        assert matrix.exact_row(row) == exact
    nothing = Sparse.of(np.zeros((3, 4)))
    assert (nothing.pulled(np.ones((2, 3))) == np.zeros((2, 4))).all()


@pytest.mark.parametrize("column", range(4))
def test_a_single_column_is_pulled(column: int) -> None:
    dense = np.zeros((3, 4))
    dense[:, column] = [2.0, 0.0, -1.0]
    found = Sparse.of(dense).pulled(np.array([[1.0, 5.0, 3.0], [0.5, 0.0, 1.0]]))
    assert found[:, column].tolist() == [-1.0, 0.0]
    assert np.delete(found, column, axis=1).tolist() == [[0.0] * 3] * 2


def test_picked_columns() -> None:
    found = Sparse.picking(np.array([2, -1, 0, 0]))
    assert found.shape == (4, 4)
    expected = np.zeros((4, 4))
    expected[0, 2] = expected[2, 0] = expected[3, 0] = 1.0
    assert found.pulled(np.eye(4)).tolist() == expected.tolist()
    assert found.times(np.array([3.0, 5.0, 7.0, 9.0])).tolist() == [7.0, 0.0, 3.0, 3.0]
    assert found.counts.tolist() == [1, 0, 1, 1]
