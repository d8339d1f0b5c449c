"""User-defined maps and compositions: every engine against the exact optimum.

`pytest tests/oracle -m "" --oracle-cases 10000` looks at more problems, a tenth of them of these.
"""

from __future__ import annotations

from functools import cache

import pytest

from vhagar import Problem, verify
from vhagar.reduction.clipping import clip_of
from vhagar.search import ENGINES, engine_named
from vhagar.search.mip.engine import Mip

from ..marks import campaign_from
from .affine_cases import AFFINE_KINDS, ROUND, AffineCase
from .exact import Truth, exact_optimum
from .test_engines import RELATIVE_GAP, TIMEOUT, require_sound

ENGINE_OPTIONS = {
    **{name: {"engine": engine_named(name)} for name in ENGINES},
    "mip, lambda": {"engine": Mip(formulation="lambda")},
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        count = max(len(AFFINE_KINDS), metafunc.config.getoption("--oracle-cases") // 10)
        pairs = [
            pytest.param(AffineCase(k), engine, marks=campaign_from(len(AFFINE_KINDS), k))
            for k in range(count)
            for engine in ENGINE_OPTIONS
        ]
        metafunc.parametrize(("case", "engine"), pairs, ids=str)


@cache
def problem_of(case: AffineCase) -> Problem:
    return case.problem()


@cache
def truth_of(case: AffineCase) -> dict[int | None, Truth]:
    return exact_optimum(problem_of(case))


def test_the_interval_holds_the_optimum(case: AffineCase, engine: str) -> None:
    options = dict(ENGINE_OPTIONS[engine], relative_gap=RELATIVE_GAP, workers=0)
    result = verify(problem_of(case), timeout=TIMEOUT, **options)
    require_sound(problem_of(case), truth_of(case), result)


def test_the_cases_are_of_every_sort() -> None:
    problems = [problem_of(AffineCase(number)) for number in range(min(ROUND, 64))]
    assert {AffineCase(number).kind for number in range(64)} == set(AFFINE_KINDS)
    clipped = [bool(clip_of(problem)) for problem in problems]
    assert any(clipped)
    assert not all(clipped)
    assert any(not problem.clip for problem in problems)
