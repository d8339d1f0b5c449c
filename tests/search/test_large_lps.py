"""What is done differently in large linear programs gives the same answers in small ones."""

from __future__ import annotations

from fractions import Fraction

import pytest

from vhagar import Status, verify
from vhagar.relaxation import refinement
from vhagar.relaxation.lp import region_model
from vhagar.search.branch_and_bound import Bab

from ..oracle.cases import Case
from ..oracle.exact import exact_optimum, overall


@pytest.mark.parametrize("number", [0, 1, 4, 13, 34])
@pytest.mark.parametrize("branched", [False, True])
def test_interior_points_and_few_steps(
    monkeypatch: pytest.MonkeyPatch, number: int, branched: bool
) -> None:
    # Every LP is polished, seldom and by interior points.
    monkeypatch.setattr(region_model, "_MANY_ROWS", 0)
    monkeypatch.setattr(region_model, "_ROWS_FOR_INTERIOR_POINTS", 0)
    monkeypatch.setattr(refinement, "_MOST_STEPPED", 1)  # and no layer has more than one step
    problem = Case(number, branched).problem()
    result = verify(problem, timeout=60, engine=Bab(attack=False), workers=0)
    truth = overall(exact_optimum(problem))
    assert Fraction(result.lower) <= truth.high
    assert truth.low <= Fraction(result.upper)
    assert result.status in (Status.CLOSED, Status.ROBUST, Status.EXHAUSTED)
    assert result.lower > 0 or truth.low == 0
