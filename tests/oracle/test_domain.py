"""Every engine and the checker against the exact optimum over boxes of inputs."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from vhagar import Problem, Status, verify
from vhagar.network.onnx_writer import onnx_bytes
from vhagar.search.branch_and_bound import Bab
from vhagar.search.mip.engine import Mip
from vhagar_check import Verdict, check

from ..marks import campaign_from
from .cases import Case
from .exact import Truth, exact_optimum, overall
from .random_domains import random_box
from .test_engines import RELATIVE_GAP, require_sound, require_tight

ENGINES = {
    "bab": Bab(),
    "bab, gpu": Bab(gpu=True),
    "mip": Mip(),
    "lambda": Mip(formulation="lambda"),
}
# So many cases are part of every run.
ALWAYS = 16


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "number" in metafunc.fixturenames:
        count = metafunc.config.getoption("--oracle-cases")
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
    """A problem of the other tests, over a random box in which some input changes its class."""
    given = Case(number).problem()
    rng = np.random.default_rng([23, number])
    return Problem(
        given.network,
        perturbation=given.perturbation,
        source=given.source,
        targets=given.targets,
        clip=given.clip,
        domain=random_box(given.domain, rng),
    )


@cache
def truth_of(number: int) -> dict[int | None, Truth]:
    return exact_optimum(problem_of(number))


def require_true(certificate: Path, problem: Problem, truths: dict[int | None, Truth]) -> Verdict:
    """The verdict on a certificate, whose interval holds the optimum."""
    model = certificate.with_name("model.onnx")
    model.write_bytes(onnx_bytes(problem.network))
    verdict, truth = check(certificate, model=model), overall(truths)
    assert truth.low <= Fraction(verdict.upper)
    assert Fraction(verdict.lower) <= truth.high
    return verdict


def test_the_interval_holds_the_optimum_over_the_box(
    number: int, engine: str, tmp_path: Path
) -> None:
    problem, case = problem_of(number), Case(number)
    certificate = tmp_path / "proof.cert" if engine == "bab" else None
    result = verify(
        problem,
        engine=ENGINES[engine],
        timeout=1.0 if case.of_ranges else 20.0,
        relative_gap=RELATIVE_GAP,
        workers=0,
        device="cpu",
        certificate=certificate,
    )
    require_sound(problem, truth_of(number), result)
    if result.witness is not None:
        assert problem.domain.contains(result.witness.x.reshape(1, -1)).all()
    # Over a box, a range of brightness may have its largest value inside and is split for long.
    if not (case.kind == "brightness" and result.status is Status.TIMEOUT):
        require_tight(case, problem, truth_of(number), result)
    if certificate is not None:
        verdict = require_true(certificate, problem, truth_of(number))
        assert (verdict.box is None) == problem.domain.whole
