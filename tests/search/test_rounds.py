"""The search in rounds: what the copies gain nothing on is bounded by the confidence alone."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Problem, verify
from vhagar.search.branch_and_bound import FirstOrder

from ..relaxation.samples import network_of


@pytest.mark.parametrize("build", ["plain", "residual"])
@pytest.mark.parametrize("text", ["linf(0.4)", "linf(0.02)"])
def test_the_bound_is_never_above_that_of_the_confidence(build: str, text: str) -> None:
    """With the same rounds for both; strong perturbations leave nothing of the difference."""
    network = network_of(build, np.random.default_rng([7, len(build)]))
    problem = Problem(network, perturbation=text, source=0)
    options = {"engine": FirstOrder(attack=False), "workers": 0, "device": "cpu"}
    alone = verify(problem.without_perturbation(), **options)
    assert verify(problem, **options).upper <= alone.upper
