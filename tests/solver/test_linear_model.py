"""The solver-free linear model: columns, rows and blocks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from vhagar.solver.linear_model import LinearModel


def test_columns_are_numbered_in_order() -> None:
    model = LinearModel()
    assert model.add_columns(0.0, 1.0).tolist() == [0]
    assert model.add_columns([0, -1, -2], 5.0, integer=True).tolist() == [1, 2, 3]
    assert model.add_columns(-np.inf, [1.0, np.inf]).tolist() == [4, 5]
    model.add_rows([(np.array([0]), 1.0)], 0.0, 0.0)
    arrays = model.arrays()
    assert arrays.column_lower.tolist() == [0, 0, -1, -2, -np.inf, -np.inf]
    assert arrays.column_upper.tolist() == [1, 5, 5, 5, 1, np.inf]
    assert arrays.integer.tolist() == [False, True, True, True, False, False]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (2.0, [[2, 0, 0], [0, 2, 0], [0, 0, 2]]),
        ([1.0, -1.0, 0.0], [[1, 0, 0], [0, -1, 0], [0, 0, 0]]),
        ([[1.0, 2.0, 3.0]], [[1, 2, 3]]),
        (sparse.csr_array([[0.0, 4.0, 0.0], [5.0, 0.0, 0.0]]), [[0, 4, 0], [5, 0, 0]]),
    ],
    ids=["scalar", "vector", "dense", "sparse"],
)
def test_blocks(block: object, expected: list[list[float]]) -> None:
    model = LinearModel()
    model.add_columns(0.0, 1.0)
    columns = model.add_columns(np.zeros(3), 1.0)
    rows = model.add_rows([(columns, block)], -1.0, np.arange(len(expected)))
    assert rows.tolist() == list(range(len(expected)))
    arrays = model.arrays()
    assert arrays.matrix.toarray()[:, 1:].tolist() == expected
    assert arrays.row_lower.tolist() == [-1.0] * len(expected)
    assert arrays.row_upper.tolist() == list(range(len(expected)))


def test_blocks_side_by_side_and_repeated_columns_add_up() -> None:
    model = LinearModel()
    x, y = model.add_columns(np.zeros(2), 1.0), model.add_columns(0.0, 1.0)
    assert model.add_rows([(x, 1.0), (y, np.ones((2, 1))), (x, 2.0)], 0.0, 1.0).tolist() == [0, 1]
    assert model.add_rows([(x[::-1], [[1.0, 5.0]])], 0.0, np.inf).tolist() == [2]
    assert model.add_rows([(x[[0, 0]], [[1.0, -1.0]])], 0.0, 0.0).tolist() == [3]
    arrays = model.arrays()
    assert arrays.matrix.toarray().tolist() == [[3, 0, 1], [0, 3, 1], [5, 1, 0], [0, 0, 0]]
    assert arrays.matrix.nnz == 6  # what cancels is not stored
    assert arrays.row_upper.tolist() == [1, 1, np.inf, 0]


def test_a_model_may_have_no_rows_or_nothing_at_all() -> None:
    model = LinearModel()
    assert model.arrays().matrix.shape == (0, 0)
    model.add_columns(np.zeros(3), 1.0)
    assert model.arrays().matrix.shape == (0, 3)
    assert model.arrays().column_upper.tolist() == [1, 1, 1]


def test_blocks_must_have_the_same_number_of_rows() -> None:
    model = LinearModel()
    x = model.add_columns(np.zeros(3), 1.0)
    with pytest.raises(ValueError, match="rows"):
        model.add_rows([(x, 1.0), (x, [[1.0, 1.0, 1.0]])], 0.0, 0.0)
