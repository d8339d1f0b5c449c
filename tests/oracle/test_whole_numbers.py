"""Searches that branch on whole numbers and one-hot groups, against the exact optimum."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from vhagar import Problem, Status, verify

from ..marks import campaign_from
from .cases import Case
from .exact import Truth, exact_optimum
from .random_domains import random_groups
from .test_domain import require_true
from .test_engines import RELATIVE_GAP, require_sound, require_tight

# So many cases are part of every run.
ALWAYS = 12


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "number" in metafunc.fixturenames:
        count = metafunc.config.getoption("--oracle-cases")
        numbers = [pytest.param(k, marks=campaign_from(ALWAYS, k)) for k in range(count)]
        metafunc.parametrize("number", numbers)


@cache
def problem_of(number: int) -> Problem:
    """A problem of the other tests, some of whose entries are whole numbers or one-hot."""
    given, rng = Case(number).problem(), np.random.default_rng([31, number])
    span = given.domain.lower, given.domain.upper
    if np.floor(span[1]) <= np.ceil(span[0]):  # at most one whole number
        span = (0.0, 1.0)
    return Problem(
        given.network,
        perturbation=given.perturbation,
        source=given.source,
        targets=given.targets,
        clip=given.clip,
        domain=random_groups(given.domain.shape, span, rng),
    )


@cache
def truth_of(number: int) -> dict[int | None, Truth]:
    return exact_optimum(problem_of(number))


# An input that misses an attack by less than rounding, because 0.9 is no float: engines, which
# compute in floats, cannot tell, and their bound is its confidence.
_NEARLY_ATTACKED = {298: (1.0, 0.0, 0.0, 1.0)}


def require_nearly_attacked(problem: Problem, x: np.ndarray, upper: float) -> None:
    (piece,), (target,) = problem.pieces, problem.targets
    scores = problem.network.forward(np.stack([x, piece.apply(x[None], np.array([[0.9]]))[0]]))
    source = problem.source
    confidence = scores[0, source] - np.delete(scores[0], source).max()
    margin = scores[1, target] - np.delete(scores[1], target).max()
    assert abs(margin) < 1e-15
    assert upper - confidence <= RELATIVE_GAP * upper


def test_bounds_over_whole_numbers_close(number: int, tmp_path: Path) -> None:
    problem, case = problem_of(number), Case(number)
    certificate = tmp_path / "proof.cert"
    result = verify(
        problem,
        timeout=1.0 if case.of_ranges else 20.0,
        relative_gap=RELATIVE_GAP,
        workers=0,
        device="cpu",
        certificate=certificate,
    )
    require_sound(problem, truth_of(number), result)
    if result.witness is not None:
        assert problem.domain.contains(result.witness.x.reshape(1, -1)).all()
    # A range of brightness may have its largest value inside and is split for long.
    if number in _NEARLY_ATTACKED:
        require_nearly_attacked(problem, np.array(_NEARLY_ATTACKED[number]), result.upper)
    elif not (case.kind == "brightness" and result.status is Status.TIMEOUT):
        require_tight(case, problem, truth_of(number), result)
    verdict = require_true(certificate, problem, truth_of(number))
    assert verdict.upper == result.upper
