"""Requirements are met or violated with proof only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from vhagar import InvalidInput
from vhagar.result import BoundKind, Coverage, CoverageCounts, Status
from vhagar.result.requirement import Facts, Judgement, parse_requirement

Make = Callable[..., Any]


@pytest.mark.parametrize(
    ("lower", "upper", "judgement"),
    [
        (1.0, 5.0, Judgement.MET),
        (4.0, 5.5, Judgement.UNDECIDED),
        (5.0, math.inf, Judgement.UNDECIDED),
        (5.5, 9.0, Judgement.VIOLATED),
    ],
)
def test_upper(
    lower: float, upper: float, judgement: Judgement, make_result: Make, make_witness: Make
) -> None:
    result = make_result(upper, Status.TIMEOUT, make_witness(lower))
    assert parse_requirement("upper <= 5").judge(Facts.of(result)) is judgement


def test_what_is_taken_on_trust_meets_nothing(make_result: Make) -> None:
    result = replace(make_result(1.0, Status.CLOSED), kind=BoundKind.MARABOU)
    assert parse_requirement("upper<=5").judge(Facts.of(result)) is Judgement.UNDECIDED


@pytest.mark.parametrize("status", list(Status))
def test_closed(status: Status, make_result: Make) -> None:
    judgement = parse_requirement("closed").judge(Facts.of(make_result(1.0, status)))
    closed = status in (Status.CLOSED, Status.ROBUST)
    assert judgement is (Judgement.MET if closed else Judgement.UNDECIDED)


@pytest.mark.parametrize(
    ("robust", "attackable", "judgement"),
    [
        (6, 4, Judgement.MET),
        (5, 4, Judgement.UNDECIDED),
        (0, 4, Judgement.UNDECIDED),
        (5, 5, Judgement.VIOLATED),
    ],
)
def test_coverage(robust: int, attackable: int, judgement: Judgement, make_result: Make) -> None:
    data = Coverage(99, CoverageCounts(10, robust, attackable), None, 8.0, 0.1)
    result = replace(make_result(1.0, Status.CLOSED), coverage=data)
    requirement = parse_requirement("coverage>=0.6")
    assert requirement.judge(Facts.of(result)) is judgement
    assert requirement.words(Facts.of(result)) == (
        f"coverage>=0.6: {judgement.value} ({robust} of 10 are proven robust, {attackable} "
        "attacked with success)"
    )


def test_a_share_is_meant_as_it_is_written(make_result: Make) -> None:
    """In floats, 0.07 * 100 is above 7."""
    data = Coverage(100, CoverageCounts(100, 7, 93), None, 8.0, 0.1)
    result = replace(make_result(1.0, Status.CLOSED), coverage=data)
    assert parse_requirement("coverage>=0.07").judge(Facts.of(result)) is Judgement.MET
    assert parse_requirement("coverage>=0.0701").judge(Facts.of(result)) is Judgement.VIOLATED


def test_without_data_there_is_no_judgement(make_result: Make) -> None:
    requirement = parse_requirement("coverage>=0.6")
    assert requirement.judge(Facts.of(make_result(1.0, Status.INTERRUPTED))) is Judgement.UNDECIDED
    none = Coverage(99, CoverageCounts(0, 0, 0), None, 0.0, 0.1)
    result = replace(make_result(1.0, Status.CLOSED), coverage=none)
    assert requirement.judge(Facts.of(result)) is Judgement.UNDECIDED


@pytest.mark.parametrize(
    "text",
    [
        "",
        "upper",
        "upper<5",
        "upper<=",
        "upper<=-1",
        "upper<=nan",
        "lower>=3",
        "coverage>=2",
        "upper<=1_0",
        "upper<=\u0665",
    ],
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"not a requirement|a share from 0 to 1"):
        parse_requirement(text)
