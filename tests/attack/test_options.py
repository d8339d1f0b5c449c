"""Options that make no sense are refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from vhagar.attack.options import AttackOptions
from vhagar.errors import InvalidInput


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"inputs": 0}, "inputs must be at least 1, not 0"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"basins": 0}, "basins must be at least 1"),
        ({"patience": -1}, "patience must be at least 1"),
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"step": 0.0}, "step must be above 0"),
        ({"step": float("nan")}, "step must be above 0"),
        ({"tau": -1.0}, "tau must be above 0"),
        ({"kappa": 0.0}, "kappa must be above 0"),
        ({"penalty": float("inf")}, "penalty must be above 0"),
        ({"lambda_0": 1.0}, "lambda_0 must be above 1"),
        ({"majority": 1.0}, "majority must be in"),
        ({"majority": 0.4}, "majority must be in"),
        ({"polish": False}, "region search needs the polish"),
        ({"gpu_inputs": 0}, "gpu_inputs must be at least 1"),
        ({"relax_first": True, "regions": False}, "dives needs the region search"),
    ],
)
def test_refused(changed: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        AttackOptions(**changed)


def test_the_paper_has_its_numbers_and_nothing_else() -> None:
    paper = AttackOptions.paper()
    assert (paper.inputs, paper.lambda_0, paper.majority) == (10_000, 1.01, 0.95)
    assert paper.gpu_inputs == 10_000
    added = ("lagrangian", "smooth", "starts", "aim", "polish", "regions", "relax_first")
    assert not any(getattr(paper, name) for name in added)


def test_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        AttackOptions().steps = 3  # type: ignore[misc]
