"""Every engine and the checker against the exact optimum over random polytopes and groups."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from vhagar import Problem, verify

from ..marks import campaign_from
from .cases import Case
from .exact import Truth, exact_optimum
from .random_domains import random_conditions
from .test_domain import ENGINES, require_true
from .test_engines import RELATIVE_GAP, require_sound, require_tight

# So many cases are part of every run.
ALWAYS = 12


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "number" in metafunc.fixturenames:
        # Each takes longer than the others' cases: where the bound does not close, all of its time.
        count = -(-metafunc.config.getoption("--oracle-cases") // 4)
        turns = list(ENGINES)
        metafunc.parametrize(
            ("number", "engine"),
            [
                pytest.param(number, engine, marks=campaign_from(ALWAYS, number))
                for number in range(count)
                for engine in dict.fromkeys(("bab", turns[1 + number // 8 % 3]))
            ],
        )


@cache
def problem_of(number: int) -> Problem:
    """A problem of the other tests, over a random box with conditions that some input satisfies."""
    given = Case(number).problem()
    return Problem(
        given.network,
        perturbation=given.perturbation,
        source=given.source,
        targets=given.targets,
        clip=given.clip,
        domain=random_conditions(given.domain, np.random.default_rng([29, number])),
    )


@cache
def truth_of(number: int) -> dict[int | None, Truth]:
    return exact_optimum(problem_of(number))


def test_the_interval_holds_the_optimum_over_the_conditions(
    number: int, engine: str, tmp_path: Path
) -> None:
    problem, case = problem_of(number), Case(number)
    certificate = tmp_path / "proof.cert" if engine == "bab" else None
    result = verify(
        problem,
        engine=ENGINES[engine],
        timeout=1.0 if case.of_ranges else 6.0,
        relative_gap=RELATIVE_GAP,
        workers=0,
        device="cpu",
        certificate=certificate,
    )
    domain = problem.domain
    require_sound(problem, truth_of(number), result)
    if result.witness is not None:
        assert domain.contains(result.witness.x.reshape(1, -1)).all()
    if not domain.constrained:
        require_tight(case, problem, truth_of(number), result)
    if certificate is not None:
        verdict = require_true(certificate, problem, truth_of(number))
        assert (verdict.conditions is None) != domain.constrained
        if domain.fingerprint is not None:
            assert domain.fingerprint in str(verdict)
