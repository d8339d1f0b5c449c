"""A basis carried to another model is only a start: the answer is the same."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from vhagar.relaxation.layerwise import quick_bounds
from vhagar.relaxation.lp.region_model import RegionModel
from vhagar.solver.basis import Basis

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
