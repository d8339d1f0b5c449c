"""A basis carried to another model is only a start: the answer is the same."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.solver.basis import Basis, Layout

from ..search.nodes import every_kind, everything


@every_kind
def test_a_part_goes_on_from_the_whole(kind: str) -> None:
    for found in everything(kind):
        whole = found.region_model
        whole.evaluate((), math.inf)
        basis = Basis(whole.simplex.basis(), whole.model.layout)
        assert basis.fitted(whole.model.layout) is basis.solver
        for piece in whole.piece.split():
            bounds = quick_bounds(found.problem.network, piece)
            alone = RegionModel(found.problem, bounds, found.target)
            carried = RegionModel(found.problem, bounds, found.target)
            expected = alone.evaluate((), math.inf)
            reached = carried.evaluate((), math.inf, basis=basis.fitted(carried.model.layout))
            size = 1e-6 * (1 + abs(expected.upper)) if math.isfinite(expected.upper) else 0.0
            assert reached.upper == pytest.approx(expected.upper, abs=size)


def test_every_column_and_row_has_a_number_of_its_own() -> None:
    for found in everything("brightness"):
        arrays, layout = found.region_model.model.arrays, found.region_model.model.layout
        for keys, size in ((layout.columns, arrays.column_lower), (layout.rows, arrays.row_lower)):
            assert len(set(keys.tolist())) == len(keys) == len(size)


def test_a_basis_of_another_size_is_no_basis() -> None:
    first, *_, last = everything("linf")
    nothing = SimpleNamespace(col_status=[], row_status=[])
    assert (
        Basis(nothing, first.region_model.model.layout).fitted(last.region_model.model.layout)
        is None
    )


@pytest.mark.parametrize("too_few", [True, False])
def test_a_fitted_basis_has_as_many_basic_entries_as_rows(too_few: bool) -> None:
    """The part lacks a column and a row: a basic column, or a row that is not basic."""
    import highspy

    basic, lower = highspy.HighsBasisStatus.kBasic, highspy.HighsBasisStatus.kLower
    known = highspy.HighsBasis()  # it returns a new object for every status
    known.col_status = [basic if too_few else lower, lower if too_few else basic]
    known.row_status = [basic, lower, basic]
    whole = Layout(np.array([0, 1]), np.array([10, 11, 12]))
    part = Layout(np.array([1]), np.array([10, 11] if too_few else [10, 12]))
    fitted = Basis(known, whole).fitted(part)
    assert fitted is not None
    assert [*fitted.col_status, *fitted.row_status].count(basic) == 2
