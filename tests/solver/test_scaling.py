"""Scaling by powers of two, and coefficients too small for solvers."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar.solver.linear_model import LinearModel
from vhagar.solver.scaling import Scaled


def scaled(lower: list[float], upper: list[float], rows: list[list[float]]) -> Scaled:
    """Rows between 0.5 and 0.75 over columns with the given bounds."""
    model = LinearModel()
    x = model.add_columns(lower, upper)
    model.add_rows([(x, rows)], 0.5, 0.75)
    return Scaled(model.arrays())


@pytest.mark.parametrize("tiny", [1.9e-9, 9e-10, -3e-10, 1e-15])
def test_coefficients_too_small_for_solvers_widen_their_row(tiny: float) -> None:
    found = scaled([-1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [[tiny, 1.0, 0.0], [1.0, 1.0, 1.0]])
    assert found.matrix.toarray().tolist() == [[0, 1, 0], [1, 1, 1]]
    # Whatever the dropped column does, the row still allows it.
    assert found.row_lower[0] <= 0.5 - abs(tiny)
    assert found.row_upper[0] >= 0.75 + abs(tiny)
    assert found.row_lower[0] == pytest.approx(0.5, abs=1e-7)
    assert (found.row_lower[1], found.row_upper[1]) == (0.5, 0.75)


def test_a_dropped_coefficient_of_a_free_column_frees_its_row() -> None:
    rows = [[1e-12, 1.0], [1.0, 1e-12], [1.0, 1.0]]
    found = scaled([-np.inf, 0.0], [np.inf, 1.0], rows)
    assert found.matrix.toarray().tolist() == [[0, 1], [1, 0], [1, 1]]
    assert found.row_lower[0] == -np.inf
    assert found.row_upper[0] == np.inf
    assert np.isfinite(found.row_lower[1:]).all()


def test_only_the_size_beside_the_row_counts() -> None:
    """A row of small coefficients is scaled, not dropped."""
    found = scaled([0.0, 0.0], [1.0, 1.0], [[1e-12, 3e-12]])
    assert found.matrix.nnz == 2
    assert abs(found.matrix).max() >= 0.5
