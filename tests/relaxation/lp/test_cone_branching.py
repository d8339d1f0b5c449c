"""Pseudocosts of the searches in cones."""

from __future__ import annotations

import numpy as np

from vhagar.relaxation.lp.cone_branching import ConePseudocosts, score

# Three signs of two columns each: positive corners at even columns, negative ones at odd columns.
POSITIVE = np.kron(np.eye(3), [1.0, 0.0])
NEGATIVE = np.kron(np.eye(3), [0.0, 1.0])
WORTHS = np.array([1.0, 2.0, 1.0])
NONE = np.zeros(0, dtype=np.int64)


def pseudocosts() -> ConePseudocosts:
    return ConePseudocosts(POSITIVE, NEGATIVE)


def test_a_decision_is_predicted_to_gain_the_mass_that_it_removes_times_its_worth() -> None:
    predicted = pseudocosts().predicted(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 0.0]), WORTHS)
    # Deciding a sign as negative removes its positive mass; the last sign has none to decide.
    assert predicted.tolist() == [[1.0, 6.0, 0.0], [2.0, 8.0, 0.0]]


def test_candidates_come_by_their_score_without_those_that_are_decided() -> None:
    costs = pseudocosts()
    predicted = np.array([[1.0, 6.0, 2.0], [2.0, 8.0, 2.0]])
    assert costs.candidates(predicted, NONE) == [1, 2, 0]
    assert costs.candidates(predicted, np.array([1])) == [2, 0]
    assert costs.candidates(np.zeros((2, 3)), NONE) == []


def test_what_was_observed_changes_the_order() -> None:
    costs = pseudocosts()
    predicted = np.array([[1.0, 6.0, 2.0], [2.0, 8.0, 2.0]])
    for count in (1, 2, 3):
        assert not costs.is_reliable(1)
        # Both children gain a hundredth of what was predicted.
        costs.learn(1, predicted[:, 1], np.array([0.06, 0.08]))
        assert costs.is_reliable(1) == (count == 3)
    assert costs.candidates(predicted, NONE) == [2, 0, 1]
    assert not costs.is_reliable(2)


def test_the_smaller_gain_counts_most() -> None:
    assert score(np.array([3.0, 3.0])) > score(np.array([1.0, 10.0])) > score(np.array([0.0, 10.0]))
