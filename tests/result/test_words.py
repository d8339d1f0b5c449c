"""Every status in words, with and without a witness."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from vhagar.result import BoundKind, Estimate, Interval, Status
from vhagar.result.words import details, final_sentence, headline, outcome

Make = Callable[..., Any]

OPEN = [Status.CLOSED, Status.TIMEOUT, Status.INTERRUPTED, Status.EXHAUSTED]


@pytest.mark.parametrize("status", OPEN)
def test_with_a_witness(
    status: Status, make_problem: Make, make_result: Make, make_witness: Make
) -> None:
    sentence = final_sentence(make_result(16.7741, status, make_witness()), make_problem())
    assert sentence == (
        "every input classified 2 with confidence above 16.21..16.78 keeps clear of class 3 under "
        "linf(0.1): above 16.78 this is proven, and one with confidence 16.21 is pushed into "
        "class 3"
    )


@pytest.mark.parametrize("status", OPEN)
def test_without_a_witness(status: Status, make_problem: Make, make_result: Make) -> None:
    sentence = final_sentence(make_result(16.7741, status), make_problem())
    assert sentence == (
        "every input classified 2 with confidence above 16.78 keeps clear of class 3 under "
        "linf(0.1); no attackable input was found"
    )


def test_robust(make_problem: Make, make_result: Make) -> None:
    sentence = final_sentence(make_result(0.0, Status.ROBUST), make_problem())
    assert sentence == (
        "every input classified 2, whatever its confidence, keeps clear of class 3 under linf(0.1)"
    )


def test_a_bound_on_trust_is_not_called_proven(
    make_problem: Make, make_result: Make, make_witness: Make
) -> None:
    def said(*given: Any) -> str:
        result = replace(make_result(*given), kind=BoundKind.MARABOU)
        return final_sentence(result, make_problem())

    for words in (
        said(16.7741, Status.TIMEOUT, make_witness()),
        said(16.7741, Status.TIMEOUT),
        said(0.0, Status.ROBUST),
    ):
        assert "proven" not in words
        assert "Marabou" in words


def test_a_mean_is_told_with_its_half_width(make_problem: Make, make_result: Make) -> None:
    estimate = Estimate(1.5, 0.25, 400, 0.05)
    result = replace(make_result(5.0, Status.EXHAUSTED), estimate=estimate)
    words = dict(details(result, make_problem()))["mean"]
    assert words.startswith("1.5 +- 0.2500 (probability 95 %) over inputs classified 2")
    assert "400 of them" in words


@pytest.mark.parametrize(
    ("targets", "keeps"),
    [
        (3, "keeps clear of class 3"),
        ((0, 3), "keeps clear of classes 0 and 3"),
        (None, "keeps its class"),
        ((0, 1, 3), "keeps its class"),
    ],
)
def test_targets(targets: Any, keeps: str, make_problem: Make, make_result: Make) -> None:
    problem = make_problem(targets=targets)
    assert keeps in final_sentence(make_result(5.0, Status.TIMEOUT), problem)
    assert keeps in final_sentence(make_result(0.0, Status.ROBUST), problem)


def test_a_tie_is_called_a_tie(make_problem: Make, make_result: Make, make_witness: Make) -> None:
    result = make_result(17.0, Status.CLOSED, make_witness(tie=True))
    assert final_sentence(result, make_problem()).endswith("is brought to a tie with class 3")
    assert "ties for the highest score" in dict(details(result, make_problem()))["witness"]


def test_no_clipping_is_said(make_problem: Make, make_result: Make) -> None:
    problem = make_problem("brightness([0,0.1])", clip=False)
    sentence = final_sentence(make_result(5.0, Status.TIMEOUT), problem)
    assert "under brightness([0,0.1]) without clipping" in sentence
    assert "unclipped" in headline(problem)


def test_no_bound_at_all(make_problem: Make, make_result: Make, make_witness: Make) -> None:
    result = make_result(math.inf, Status.INTERRUPTED)
    assert final_sentence(result, make_problem()).startswith("no bound was proven")
    assert "upper" not in dict(details(result, make_problem()))
    result = make_result(math.inf, Status.INTERRUPTED, make_witness())
    assert "confidence 16.21 is pushed into class 3" in final_sentence(result, make_problem())


@pytest.mark.parametrize(
    ("upper", "status", "witness", "sentence"),
    [
        (
            39.129,
            Status.CLOSED,
            39.1015,
            "the maximal confidence in class 2 is 39.101..39.129: more than 39.129 is proven "
            "impossible, and an input with confidence 39.101 was found",
        ),
        (
            39.129,
            Status.TIMEOUT,
            None,
            "no input is classified 2 with confidence above 39.13; no input classified 2 was found",
        ),
        (0.0, Status.ROBUST, None, "no input is classified 2 with any confidence"),
        (math.inf, Status.INTERRUPTED, None, "no bound was proven on the confidence in class 2"),
    ],
)
def test_maximal_confidence(
    upper: float,
    status: Status,
    witness: float | None,
    sentence: str,
    make_problem: Make,
    make_result: Make,
    make_witness: Make,
) -> None:
    found = None if witness is None else make_witness(witness, target=None)
    problem = make_problem(None, None)
    result = make_result(upper, status, found)
    assert final_sentence(result, problem) == sentence
    assert "attack" not in outcome(result, problem)


def test_details(make_problem: Make, make_result: Make, make_witness: Make) -> None:
    reference = Interval(33.0, 63.0, BoundKind.SOLVER)
    result = make_result(
        24.0,
        Status.TIMEOUT,
        make_witness(16.0),
        notes=("one thing", "another"),
        max_confidence=reference,
    )
    assert details(result, make_problem()) == [
        ("upper", BoundKind.SOLVER.value),
        ("percent", "25.3 to 72.8 % of the maximal confidence in class 2, which is 33.00..63.00"),
        (
            "witness",
            "an input with confidence 16.00 in class 2; perturbed, it is classified 3 by a margin "
            "of 0.01562 (linf(0.1), largest change 0.1)",
        ),
        ("note", "one thing"),
        ("note", "another"),
    ]


@pytest.mark.parametrize("status", list(Status))
def test_outcome_says_the_status(status: Status, make_problem: Make, make_result: Make) -> None:
    words = outcome(make_result(5.0, status), make_problem())
    assert words == f"{status.value}, after 1:40 min"


def test_headline(make_problem: Make) -> None:
    assert headline(make_problem()) == "tiny, linf(0.1), class 2 to 3"
    assert headline(make_problem(targets=(0, 3))) == "tiny, linf(0.1), class 2 to 0 or 3"
    assert headline(make_problem(targets=None)) == "tiny, linf(0.1), class 2 to any other"
    assert headline(make_problem(None, None)) == "tiny, maximal confidence in class 2"
