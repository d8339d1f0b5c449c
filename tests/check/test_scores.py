"""What a certificate says about scores: an output, a threshold, the smallest that wins."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.layers import Dense, Network
from vhagar_check.scores import Stated


def network(outputs: int) -> Network:
    weight = np.arange(1.0, 2 * outputs + 1).reshape(outputs, 2)
    same, more = (Dense(np.eye(2), np.zeros(2)),), (Dense(np.eye(2), np.ones(2)),)
    return Network((same, more, (Dense(weight, np.ones(outputs)),)), (2,))


def scores(of: Network) -> list[float]:
    found = of.exact_scores(Exact.of(np.array([1.0, 10.0]))).fractions()
    return [float(value) for value in found]


@pytest.mark.parametrize(
    ("given", "stated", "words"),
    [
        (None, Stated(), ""),
        ({"output": None, "threshold": None}, Stated(), ""),
        ({"output": "y", "threshold": None}, Stated("y"), "are taken from the model's 'y'"),
        (
            {"output": None, "threshold": 2},
            Stated(None, 2.0),
            "are 0 and z - 2.0, for the model's one score z, before any sigmoid",
        ),
        (
            {"output": "y", "threshold": 0.1},
            Stated("y", 0.1),
            "are taken from the model's 'y'; "
            "are 0 and z - 0.1, for the model's one score z, before any sigmoid",
        ),
        (
            {"output": None, "threshold": None, "argmin": True},
            Stated(argmin=True),
            "are negated: the smallest output wins",
        ),
    ],
)
def test_what_is_stated(given: Any, stated: Stated, words: str) -> None:
    found = Stated.of(given)
    assert found == stated
    assert type(found.threshold) in (float, type(None))
    assert str(found) == words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "not understood"),
        (["output", "threshold"], "not understood"),
        ("output", "not understood"),
        ({}, "not understood"),
        ({"output": "y"}, "not understood"),
        ({"output": "y", "threshold": None, "more": 1}, "not understood"),
        ({"output": None, "threshold": None, "argmin": False}, "argmin is stated, but not true"),
        ({"output": None, "threshold": None, "argmin": 1}, "argmin is stated, but not true"),
        ({"output": "", "threshold": None}, "does not name an output"),
        ({"output": 5, "threshold": None}, "does not name an output"),
        ({"output": None, "threshold": "1"}, "not a finite number"),
        ({"output": None, "threshold": True}, "not a finite number"),
        ({"output": None, "threshold": math.nan}, "not a finite number"),
        ({"output": None, "threshold": math.inf}, "not a finite number"),
    ],
)
def test_what_is_not_understood(given: Any, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        Stated.of(given)


def test_scores_of_every_kind() -> None:
    assert scores(network(3)) == [25.0, 51.0, 77.0]
    several = network(3)
    assert Stated().applied(several) is several
    assert scores(Stated(argmin=True).applied(several)) == [-25.0, -51.0, -77.0]
    one = Stated(threshold=2.5).applied(network(1))
    assert scores(one) == [0.0, 22.5]
    assert len(one.stages) == 3
    assert scores(Stated().applied(network(2))) == [25.0, 51.0]


@pytest.mark.parametrize(
    ("stated", "outputs", "words"),
    [
        (Stated(), 1, "one score, and the certificate does not state"),
        (Stated(argmin=True), 1, "one score, and the certificate does not state"),
        (Stated(threshold=1.0), 2, "but the model has several scores"),
        (Stated(threshold=0.0), 2, "but the model has several scores"),
        (Stated(threshold=1.0, argmin=True), 1, "a threshold and argmin"),
    ],
)
def test_what_does_not_fit_the_model(stated: Stated, outputs: int, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        stated.applied(network(outputs))
