"""The sign to decide next: by what is promised, tried, and learnt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vhagar.relaxation.lp import node_bound as bound
from vhagar.relaxation.twin_dual import paying
from vhagar.search.pseudocosts import Candidate, Child, Chosen, Pseudocosts, choose

from .nodes import Found, every_kind, everything

UPPER, CUTOFF = 10.0, 4.0


def candidates(*gains: tuple[float, float]) -> list[Candidate]:
    return [Candidate((1, k, 0), pair) for k, pair in enumerate(gains)]


class Trials:
    """Children with given bounds, and a list of who was tried."""

    def __init__(self, uppers: dict[int, tuple[float, float]]) -> None:
        self._uppers = uppers
        self.tried: list[int] = []

    def __call__(self, candidate: Candidate) -> tuple[Child, Child] | None:
        neuron = candidate.place[1]
        if neuron not in self._uppers:
            return None
        self.tried.append(neuron)
        negative, positive = self._uppers[neuron]
        return Child(negative, "negative"), Child(positive, "positive")


def chosen(given: list[Candidate], pseudocosts: Pseudocosts, trials: Trials) -> Chosen:
    return choose(given, pseudocosts, UPPER, CUTOFF, trials)


def test_without_trials_the_largest_product_of_promises_wins() -> None:
    found = chosen(candidates((5, 0.1), (2, 2), (1, 1)), Pseudocosts(), Trials({}))
    assert found.candidate.place[1] == 1
    assert found.children is None


def test_no_promise_is_worth_more_than_closing_the_node() -> None:
    found = chosen(candidates((1e6, 1), (5, 3)), Pseudocosts(), Trials({}))
    assert found.candidate.place[1] == 1


def test_what_was_tried_counts_and_not_what_was_promised() -> None:
    trials = Trials({0: (9.9, 9.9), 1: (8.0, 8.0)})
    found = chosen(candidates((3, 3), (1, 1)), Pseudocosts(), trials)
    assert found.candidate.place[1] == 1
    assert found.children is not None
    assert [child.upper for child in found.children] == [8.0, 8.0]


def test_a_closed_child_ends_the_search_for_a_candidate() -> None:
    trials = Trials({0: (CUTOFF, 9.9), 1: (5.0, 5.0)})
    assert chosen(candidates((3, 3), (2, 2)), Pseudocosts(), trials).candidate.place[1] == 0
    assert trials.tried == [0]


def test_who_breaks_promises_is_believed_less() -> None:
    pseudocosts = Pseudocosts()
    for _ in range(4):
        for positive in (False, True):
            pseudocosts.learn((1, 0, 0), positive, decrease=0.01, predicted_gain=3.0)
            pseudocosts.learn((1, 1, 0), positive, decrease=1.0, predicted_gain=1.0)
    trials = Trials({0: (0.0, 0.0), 1: (0.0, 0.0)})
    found = chosen(candidates((3, 3), (1, 1)), pseudocosts, trials)
    assert found.candidate.place[1] == 1
    assert trials.tried == []  # both are known well enough


def test_a_large_tree_asks_for_more_observations() -> None:
    """The same two observations of either side are enough in a small tree alone."""
    pseudocosts, place = Pseudocosts(), (1, 0, 0)
    for positive in (False, True, False, True):
        pseudocosts.learn(place, positive, decrease=1.0, predicted_gain=1.0)
    assert pseudocosts.is_reliable(place)
    for neuron in range(1, 1000):
        pseudocosts.learn((1, neuron, 0), True, decrease=1.0, predicted_gain=1.0)
    assert not pseudocosts.is_reliable(place)
    for positive in (False, True) * 20:
        pseudocosts.learn(place, positive, decrease=1.0, predicted_gain=1.0)
    assert pseudocosts.is_reliable(place)


def test_where_little_is_expected_of_lps_with_cuts_the_last_layer_is_tried_again() -> None:
    pseudocosts = Pseudocosts()
    given = [Candidate((layer, 0, 0), (0.01, 0.01)) for layer in (0, 1)]
    for candidate in given:
        for positive in (False, True, False, True):
            pseudocosts.learn(candidate.place, positive, 0.01, 0.01)
    tried: list[int] = []

    def trial(candidate: Candidate) -> tuple[Child, Child]:
        tried.append(candidate.place[0])
        return Child(UPPER - 2, None), Child(UPPER - 1, None)

    for with_cuts, expected in ((False, []), (True, [1])):
        found = choose(given, pseudocosts, UPPER, CUTOFF, trial, with_cuts=with_cuts)
        assert tried == expected
    assert found.candidate.place[0] == 1
    # Much is expected of it now.
    choose(given, pseudocosts, UPPER, CUTOFF, trial, with_cuts=True)
    assert tried == [1]


def test_a_newcomer_is_judged_by_its_layer() -> None:
    pseudocosts = Pseudocosts()
    pseudocosts.learn((1, 0, 0), True, decrease=1.0, predicted_gain=4.0)
    assert pseudocosts.estimate(Candidate((1, 7, 1), (8.0, 4.0)), 100.0) == (2.0, 1.0)
    assert pseudocosts.estimate(Candidate((2, 7, 1), (8.0, 4.0)), 100.0) == (8.0, 4.0)


@every_kind
def test_coefficients_are_those_of_the_bound(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What branching goes by is what the formula multiplies each neuron's value with."""
    for found in everything(kind):
        region_model = found.region_model
        duals = region_model.evaluate((), np.inf).answer.duals
        if duals is None:
            continue
        seen = _seen_by_the_formula(found, duals, monkeypatch)
        coefficients = region_model.formula.coefficients(duals)
        total = np.maximum(-duals[region_model.model.source_rows], 0.0).sum()
        for layer, (a, b) in enumerate(coefficients.layers):
            for ours, theirs in ((a, seen[layer][0]), (b, seen[layer][1])):
                size = 1e-9 * (1 + abs(theirs).max(initial=0.0))
                np.testing.assert_allclose(ours / total, theirs, atol=size)


def _seen_by_the_formula(
    found: Found, duals: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    seen: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def spy(corners: Any, choose: Any, decided: Any) -> Any:
        def noted(layer: int, a: np.ndarray, b: np.ndarray) -> Any:
            seen[layer] = a[0].copy(), b[0].copy()
            return choose(layer, a, b)

        return paying(corners, noted, decided)

    with monkeypatch.context() as patch:
        patch.setattr(bound, "paying", spy)
        allowed = found.region_model.cuts.allowed(())
        assert allowed is not None
        found.region_model.formula.upper(duals, allowed)
    return seen


@every_kind
def test_a_challenge_leaves_room_for_every_attacked_input(kind: str) -> None:
    """An attacked input that is confident enough shows how far the target can lead."""
    for found in everything(kind):
        attacked = found.attacked
        confidence = float(attacked.confidence)
        for least in (0.5 * confidence, 0.999 * confidence):
            answer = found.region_model.challenge((), least, None)
            assert answer is not None
            scores = np.array([float(score) for score in attacked.second.scores])
            lead = scores[found.target] - np.delete(scores, found.target).max()
            assert answer.objective >= lead - 1e-6 * (1 + abs(scores).max())


def test_gains_are_those_of_lps_where_a_smaller_bound_is_known() -> None:
    """Both LPs fall by 2, although the known bound stays; the other candidate's do not."""
    known = {0: (12.9, 12.9), 1: (11.0, 11.0)}

    def trial(candidate: Candidate) -> tuple[Child, Child]:
        negative, positive = (Child(UPPER, None, None, p) for p in known[candidate.place[1]])
        return negative, positive

    pseudocosts = Pseudocosts()
    given = candidates((3, 3), (1, 1))
    found = choose(given, pseudocosts, UPPER, CUTOFF, trial, proved=13.0)
    assert found.candidate.place[1] == 1
    assert pseudocosts.estimate(given[1], 6.0) == pytest.approx((2.0, 2.0))
