"""Every status in words, with and without a witness."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vhagar import Domain, InvalidInput, Problem
from vhagar.attack.engine import Attack
from vhagar.baseline.dataset_sampling import DatasetEngine
from vhagar.baseline.random_sampling import RandomEngine
from vhagar.local.problem import LocalProblem
from vhagar.local.run import verify_local
from vhagar.result import BoundKind, Coverage, CoverageCounts, Estimate, Interval, Status
from vhagar.result.evidence import coverage_words
from vhagar.result.words import PROVING_NOTHING, details, outcome, sufficient_probability

Make = Callable[..., Any]

OPEN = [Status.CLOSED, Status.TIMEOUT, Status.INTERRUPTED, Status.EXHAUSTED]


@pytest.mark.parametrize("status", OPEN)
def test_with_a_witness(status: Status, make_result: Make, make_witness: Make) -> None:
    assert str(make_result(16.7741, status, make_witness())) == (
        "Proven: no input classified 2 with confidence above 16.78 can be pushed into class 3 by "
        "linf(0.1). Counterexample at 16.21."
    )


@pytest.mark.parametrize("status", OPEN)
def test_without_a_witness(status: Status, make_result: Make) -> None:
    assert str(make_result(16.7741, status)) == (
        "Proven: no input classified 2 with confidence above 16.78 can be pushed into class 3 by "
        "linf(0.1). No counterexample was found."
    )


def test_inputs_of_the_data_set_are_counterexamples(make_result: Make) -> None:
    """They are not the witness of the interval, but nobody may say that none was found."""
    data = Coverage(99, CoverageCounts(10, 2, 5), None, 8.0, 0.1)
    assert str(replace(make_result(16.7741, Status.TIMEOUT), coverage=data)) == (
        "Proven: no input classified 2 with confidence above 16.78 can be pushed into class 3 by "
        "linf(0.1). 5 inputs of the data set were attacked with success."
    )


def test_robust(make_result: Make) -> None:
    assert str(make_result(0.0, Status.ROBUST)) == (
        "Proven: no input classified 2 can be pushed into class 3 by linf(0.1), whatever its "
        "confidence."
    )


def test_a_bound_on_trust_is_not_called_proven(make_result: Make, make_witness: Make) -> None:
    for given in (
        (16.7741, Status.TIMEOUT, make_witness()),
        (16.7741, Status.TIMEOUT),
        (0.0, Status.ROBUST),
    ):
        words = str(replace(make_result(*given), kind=BoundKind.MARABOU))
        assert "roven" not in words
        assert words.startswith("According to Marabou, no input classified 2 ")


def test_a_mean_is_told_with_its_half_width(make_result: Make) -> None:
    estimate = Estimate(1.5, 0.25, 400, 0.05)
    result = replace(make_result(5.0, Status.EXHAUSTED), estimate=estimate)
    words = dict(details(result))["mean"]
    assert words.startswith("1.5 +- 0.2500 (probability 95 %) over inputs classified 2")
    assert "400 of them" in words


@pytest.mark.parametrize(
    ("targets", "into"),
    [
        (3, "into class 3 by"),
        ((0, 3), "into class 0 or 3 by"),
        (None, "into another class by"),
        ((0, 1, 3), "into another class by"),
    ],
)
def test_targets(
    targets: Any, into: str, make_problem: Make, make_result: Make, make_witness: Make
) -> None:
    problem = make_problem(targets=targets)
    assert into in str(make_result(5.0, Status.TIMEOUT, problem=problem))
    assert into in str(make_result(0.0, Status.ROBUST, problem=problem))
    found = str(make_result(17.0, Status.TIMEOUT, make_witness(), problem=problem))
    assert found.endswith(", pushed into class 3.") == (targets != 3)


def test_a_tie_is_called_a_tie(make_result: Make, make_witness: Make) -> None:
    result = make_result(17.0, Status.CLOSED, make_witness(tie=True))
    assert str(result).endswith(": an exact tie with class 3.")
    assert "ties for the highest score" in dict(details(result))["witness"]


def test_no_clipping_is_said(make_problem: Make, make_result: Make) -> None:
    problem = make_problem("brightness([0,0.1])", clip=False)
    sentence = str(make_result(5.0, Status.TIMEOUT, problem=problem))
    assert "by brightness([0,0.1]) without clipping" in sentence
    assert "unclipped" in str(problem)


def test_no_bound_at_all(make_result: Make, make_witness: Make) -> None:
    result = make_result(math.inf, Status.INTERRUPTED)
    assert str(result).startswith("No bound was proven on the confidence of inputs that can be")
    assert "upper" not in dict(details(result))
    result = make_result(math.inf, Status.INTERRUPTED, make_witness())
    assert str(result).endswith("Counterexample at 16.21.")


@pytest.mark.parametrize(
    ("upper", "status", "witness", "sentence"),
    [
        (
            39.129,
            Status.CLOSED,
            39.1015,
            "Proven: no input is classified 2 with confidence above 39.129. "
            "An input with confidence 39.101 was found.",
        ),
        (
            39.129,
            Status.TIMEOUT,
            None,
            "Proven: no input is classified 2 with confidence above 39.13. "
            "No input classified 2 was found.",
        ),
        (0.0, Status.ROBUST, None, "Proven: no input is classified 2 with any confidence."),
        (
            math.inf,
            Status.INTERRUPTED,
            None,
            "No bound was proven on the confidence in class 2. No input classified 2 was found.",
        ),
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
    result = make_result(upper, status, found, problem=make_problem(None, None))
    assert str(result) == sentence
    assert "attack" not in outcome(result)


def test_the_summary_ends_with_the_answer(make_result: Make, make_witness: Make) -> None:
    result = make_result(24.0, Status.TIMEOUT, make_witness(16.0))
    first, *rest, last = result.summary().splitlines()
    assert first == "tiny, linf(0.1), class 2 to 3"
    assert rest[0] == "interval: [16.00, 24.00], gap 8.00 (33.4 %)"
    assert last == str(result)


def test_what_is_printed_has_one_line_and_no_arrays(
    make_problem: Make, make_result: Make, make_witness: Make, make_progress: Make
) -> None:
    problem, witness = make_problem(), make_witness()
    shown = {
        make_result(16.7741, Status.TIMEOUT, witness): (
            "Result([16.21, 16.78], TIMEOUT, tiny, linf(0.1), class 2 to 3)"
        ),
        problem: "Problem(tiny, linf(0.1), class 2 to 3)",
        problem.network: "Network(tiny, input 1x3x3, 0 hidden neurons, 4 classes)",
        witness: "Witness(confidence 16.21, class 3 by linf(0.1))",
        make_witness(target=None): "Witness(confidence 16.21)",
        Interval(0.5, 2.0, BoundKind.TWIN): "Interval(0.5, 2.0, TWIN)",
    }
    for value, text in shown.items():
        assert repr(value) == text
    assert repr(make_progress(1.0, 3.0)) == "Progress(1.0 s, search, [1.00, 3.00])"


def test_details(make_result: Make, make_witness: Make) -> None:
    reference = Interval(33.0, 63.0, BoundKind.SOLVER)
    result = make_result(
        24.0,
        Status.TIMEOUT,
        make_witness(16.0),
        notes=("one thing", "another"),
        max_confidence=reference,
    )
    assert details(result) == [
        (
            "witness",
            "an input with confidence 16.00 in class 2; perturbed, it is classified 3 by a margin "
            "of 0.01562 (linf(0.1), largest change 0.1)",
        ),
        ("percent", "25.3 to 72.8 % of the maximal confidence in class 2, which is 33.00..63.00"),
        ("upper", BoundKind.SOLVER.value),
        ("note", "one thing"),
        ("note", "another"),
    ]


@pytest.mark.parametrize("status", list(Status))
def test_outcome_says_the_status(status: Status, make_result: Make) -> None:
    words = outcome(make_result(5.0, status))
    assert words == f"{status.value}, after 1:40 min"


def test_a_problem_in_a_few_words(make_problem: Make) -> None:
    assert str(make_problem()) == "tiny, linf(0.1), class 2 to 3"
    assert str(make_problem(targets=(0, 3))) == "tiny, linf(0.1), class 2 to 0 or 3"
    assert str(make_problem(targets=None)) == "tiny, linf(0.1), class 2 to any other"
    assert str(make_problem(None, None)) == "tiny, maximal confidence in class 2"


def test_the_probability_that_suffices(make_result: Make) -> None:
    """A softmax over the scores whose probability exceeds it has a larger margin, always."""
    rng = np.random.default_rng(0)
    for scores in rng.normal(scale=4, size=(2000, 5)):
        odds = np.exp(scores - scores.max())
        probability = (odds / odds.sum()).max()
        ordered = np.sort(scores)
        margin = float(ordered[-1] - ordered[-2])
        for upper in (margin, 1.001 * margin):
            assert probability <= sufficient_probability(upper)
    assert dict(details(make_result(2.0, Status.CLOSED)))["softmax"] == (
        "a probability above 0.880798 is a confidence above 2.000"
    )
    assert sufficient_probability(1e3) == sufficient_probability(math.inf) == 1.0
    assert "softmax" not in dict(details(make_result(16.0, Status.CLOSED)))


def test_coverage_in_words() -> None:
    counts = CoverageCounts(1000, 999, 1)
    assert coverage_words(Coverage(5000, counts, None, 8.0, 0.1), 2) == (
        "of 1000 inputs classified 2, 999 (99.9 %) are proven robust, 1 was attacked with "
        "success, 0 are undecided"
    )
    correct = CoverageCounts(3, 2, 0)
    assert coverage_words(Coverage(9, CoverageCounts(4, 2, 1), correct, 8.0, 0.1), 2).endswith(
        "1 is undecided; of the 3 classified correctly, 2 (66.6 %) are proven robust"
    )
    none = CoverageCounts(0, 0, 0)
    assert coverage_words(Coverage(9, none, none, 0.0, 0.1), 2) == (
        "none of the 9 inputs is classified 2"
    )


def test_a_vacuous_bound_is_called_so(make_result: Make) -> None:
    data = Coverage(9, CoverageCounts(4, 0, 1), None, 8.0, 0.1)
    notes = [
        text
        for label, text in details(replace(make_result(9.0, Status.CLOSED), coverage=data))
        if label == "note"
    ]
    assert notes == [
        "the bound says nothing about this data: no input has a confidence above 9.000, the "
        "largest is 8.000"
    ]
    fine = details(replace(make_result(7.0, Status.CLOSED), coverage=data))
    assert "note" not in dict(fine)


def test_a_bound_that_nothing_exceeds_is_told_so(make_result: Make) -> None:
    """At 33 of at most 33.2 an upper bound says nothing, whatever it cost."""
    known = Interval(33.2, 63.0, BoundKind.INTERVAL)
    for upper, is_said in ((33.0, True), (40.0, True), (32.0, False)):
        rows = details(make_result(upper, Status.TIMEOUT, max_confidence=known))
        notes = [text for label, text in rows if label == "note"]
        assert bool(notes) == is_said
        if notes:
            assert "the bound says next to nothing" in notes[0]
            assert "33.20" in notes[0]


def test_without_any_confidence_known_nothing_is_called_empty(make_result: Make) -> None:
    for known in (None, Interval(0.0, 9.0, BoundKind.INTERVAL)):
        rows = details(make_result(5.0, Status.TIMEOUT, max_confidence=known))
        assert all("next to nothing" not in text for _, text in rows)


def test_what_to_do_next(make_result: Make, make_problem: Make) -> None:
    open_, known = CoverageCounts(4, 1, 1), CoverageCounts(4, 3, 1)
    blind = replace(make_result(9.0, Status.TIMEOUT), coverage=Coverage(9, open_, None, 8.0, 0.1))
    assert dict(details(blind))["next"] == (
        "more time, a smaller perturbation or a domain can lower the bound; vhagar local asks "
        "about one input at a time"
    )
    closed = replace(blind, status=Status.CLOSED, problem=make_problem(targets=None))
    assert dict(details(closed))["next"].startswith("a single target, a smaller perturbation or a")
    fine = replace(blind, upper=2.0)
    assert dict(details(fine))["next"] == "vhagar local asks about one input at a time"
    decided = replace(fine, coverage=Coverage(9, known, None, 8.0, 0.1))
    assert "next" not in dict(details(decided))
    assert "next" not in dict(details(make_result(2.0, Status.TIMEOUT)))


def test_an_attack_is_followed_by_a_search(make_result: Make, make_problem: Make) -> None:
    """More time for an attack does not lower its bound, which is there from the start."""
    finders = (Attack(), Attack(paper=True), DatasetEngine(), RandomEngine())
    assert {engine.name for engine in finders} == PROVING_NOTHING
    known = Interval(8.0, 63.0, BoundKind.INTERVAL)
    problem = make_problem(targets=None)
    found = make_result(9.0, Status.TIMEOUT, max_confidence=known, problem=problem)
    for engine in finders:
        said = dict(details(replace(found, engine=engine.name)))["next"]
        assert said == "vhagar verify can lower the bound"
    assert dict(details(found))["next"].startswith("more time, a single target, ")


@pytest.mark.parametrize(
    ("perturbation", "inside", "is_local"),
    [
        ("rotation([4,6])", False, False),
        ("rotation(5)", False, True),
        ("occlusion([1,2],1,1)", False, True),
        ("linf(0.1)", True, False),
    ],
)
def test_only_what_local_answers_is_recommended(
    perturbation: str, inside: bool, is_local: bool, make_result: Make, make_problem: Make
) -> None:
    network = make_problem().network
    domain = Domain((1, 3, 3), 0.0, 1.0, perturbed_inside=inside)
    problem = Problem(network, perturbation=perturbation, source=2, domain=domain)
    data = Coverage(9, CoverageCounts(4, 1, 1), None, 8.0, 0.1)
    result = replace(make_result(2.0, Status.CLOSED, problem=problem), coverage=data)
    assert ("next" in dict(details(result))) == is_local
    bright, question = np.linspace(0, 1, 9), {"perturbation": perturbation, "domain": domain}
    with nullcontext() if is_local else pytest.raises(InvalidInput, match="one image"):
        verify_local(LocalProblem(network, image=bright, **question), timeout=1)
