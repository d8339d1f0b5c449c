"""Witnesses near a data set, where the nearest one is known by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vhagar
from vhagar import Domain, InvalidInput, Problem, Result, Witness, Zonotope
from vhagar.attack.plausible import plausible_witness
from vhagar.result import WitnessCheck
from vhagar.result.figure import figure_data
from vhagar.runtime.deadline import Deadline

# In `corner` the confidence is `4 u + 4 v - 2`, of this input 3.6 + 28/15 - 2; the best is 4.
CLOSE = np.array([0.9] + [1.0] * 7 + [0.0] * 8)
CONFIDENCE = 3.6 + 28 / 15 - 2


def _best(problem: Problem) -> Witness:
    """The most confident witness: the pixel is white, and all others are grey."""
    x = np.append(1.0, np.full(15, 0.49999))
    found = WitnessCheck(problem)(1, x, 0, np.zeros(0))
    assert isinstance(found, Witness)
    return found


def test_the_nearest_witness_by_hand(corner: Problem) -> None:
    """To gain confidence, the pixel is the shortest way: a quarter of what is missing."""
    best = _best(corner)
    found = plausible_witness(corner, best, np.stack([np.zeros(16), CLOSE]), 0.9)
    assert found is not None
    assert found.confidence >= 0.9 * best.confidence
    assert isinstance(WitnessCheck(corner)(1, found.x, 0, np.zeros(0)), Witness)
    distance = abs(found.x.reshape(-1) - CLOSE).sum()
    assert distance == pytest.approx((0.9 * 4 - CONFIDENCE) / 4, abs=2e-3)


def test_it_is_no_tie_and_has_a_margin(corner: Problem) -> None:
    near_the_border = np.append(1.0, np.full(15, 0.5))
    found = plausible_witness(corner, _best(corner), near_the_border[None], 0.9)
    assert found is not None
    assert found.margin is not None
    assert found.margin > 0
    assert not found.tie


def test_it_lies_in_the_whole_domain(corner: Problem) -> None:
    """A zonotope that ties all pixels but the first together, up to a tenth."""
    mean, axis = np.full(16, 0.5), np.append(0.0, np.ones(15))
    zonotope = Zonotope(mean, [axis], [0.5], np.append(0.5, np.full(15, 0.1)))
    problem = Problem(
        corner.network,
        perturbation="occlusion(1,1,1)",
        source=0,
        targets=1,
        domain=Domain((1, 4, 4), zonotope=zonotope),
    )
    best = _best(problem)
    found = plausible_witness(problem, best, CLOSE[None], 0.9)
    assert found is not None
    assert problem.domain.contains(found.x.reshape(1, -1)).all()
    assert abs(found.x.reshape(-1) - CLOSE).sum() < abs(best.x.reshape(-1) - CLOSE).sum()


def test_whole_numbers_stay_those_of_the_witness(corner: Problem) -> None:
    domain = Domain((1, 4, 4), integer=[0, 1])
    problem = Problem(
        corner.network, perturbation="occlusion(1,1,1)", source=0, targets=1, domain=domain
    )
    x = np.array([1.0, 0.0] + [0.49999] * 14)
    best = WitnessCheck(problem)(1, x, 0, np.zeros(0))
    assert isinstance(best, Witness)
    found = plausible_witness(problem, best, CLOSE[None], 0.8)
    assert found is not None
    assert found.x.reshape(-1)[:2].tolist() == [1.0, 0.0]


def test_without_time_or_inputs_there_is_none(corner: Problem) -> None:
    best = _best(corner)
    late = Deadline.after(0.0)
    assert plausible_witness(corner, best, CLOSE[None], 0.9, deadline=late) is None
    assert plausible_witness(corner, best, np.zeros((0, 16)), 0.9) is None


@pytest.fixture
def answered(corner: Problem, tmp_path: Path) -> Result:
    inputs = np.stack([CLOSE, np.ones(16), np.zeros(16)]).reshape(3, 1, 4, 4)
    np.savez(tmp_path / "data.npz", x=inputs, y=np.array([0, 0, 1]))
    return vhagar.verify(corner, workers=0, dataset=tmp_path / "data.npz", plausible=0.9)


def test_a_result_has_it_beside_the_best(answered: Result, tmp_path: Path) -> None:
    found = answered.plausible
    assert found is not None
    assert answered.witness is not None
    assert answered.lower == answered.witness.confidence > found.witness.confidence
    assert (found.share, found.nearest.row, found.nearest.label) == (0.9, 0, 0)
    assert "near:     near the data, an input with confidence 3.6" in answered.summary()
    answered.save(tmp_path / "saved.vhagar")
    again = Result.load(tmp_path / "saved.vhagar").plausible
    assert again is not None
    assert (again.share, again.nearest.row) == (0.9, 0)
    assert (again.witness.x == found.witness.x).all()
    near, witness, image, difference = figure_data(answered).plausible
    assert near is not None
    assert near.title.startswith("nearest of the data: 0")
    assert witness is not None
    assert witness.title.endswith("confidence 3.600")
    assert image is not None
    assert difference is not None


def test_the_plot_has_a_second_row(answered: Result) -> None:
    panels = answered.plot().get_axes()
    alone = replace(answered, plausible=None).plot()
    # Four panels and the scale of the difference.
    assert len(panels) == len(alone.get_axes()) + 4
    assert answered.plot().get_size_inches()[1] == 2 * alone.get_size_inches()[1]


def test_what_is_not_found_is_said(corner: Problem, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.zeros((1, 1, 4, 4)), y=np.array([1]))
    result = vhagar.verify(corner, workers=0, dataset=tmp_path / "data.npz", plausible=0.9)
    assert result.plausible is None
    assert result.notes == ("no witness near the data with 0.9 of the confidence was found",)


def test_a_share_needs_a_data_set_and_is_one(corner: Problem, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="give one, too"):
        vhagar.verify(corner, plausible=0.9)
    for share in (0.0, 1.5, float("nan")):
        with pytest.raises(InvalidInput, match="share of the confidence"):
            vhagar.verify(corner, dataset=tmp_path, plausible=share)
