"""Every engine against the exact optimum: `lower <= delta* <= upper`, with no tolerance.

On the tight side, where being wrong costs only tightness, tolerances are allowed: an engine must
close what can be closed. `pytest tests/oracle -m "" --oracle-cases 10000` looks at more problems.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from vhagar import Problem, Result, Status, verify
from vhagar.options import MIP_PARTS
from vhagar.perturbation import PERTURBATIONS, Features
from vhagar.relaxation import Bounds, network_bounds
from vhagar.search import ENGINES, engine_named
from vhagar.search.branch_and_bound import Bab
from vhagar.search.mip.engine import Mip

from ..marks import campaign_from, mostly_slow
from .cases import KINDS, ROUND, SCALES, Case
from .exact import (
    Truth,
    exact_confidence_of,
    exact_optimum,
    exact_optimum_with_margin,
    overall,
    with_network,
)
from .networks import FLAVOURS, uneven

# Far more than any problem here needs, but for some ranges of contrasts and angles.
TIMEOUT = 120.0
TIMEOUT_OF_RANGES = 1.0
RELATIVE_GAP = 1e-3
# Of the size of the scores: what counts as no gap, and a margin that every engine can see.
NEGLIGIBLE = 1e-6
MARGIN = 2e-3

# The engines as they are, which see every case, and other ways to run them, which take turns.
PLAIN = {name: {"engine": engine_named(name)} for name in ENGINES}
VARIANTS = {
    "bab, gpu": {"engine": Bab(gpu=True), "device": "cpu"},
    "mip, lambda": {"engine": Mip(formulation="lambda")},
    "mip, only": {"engine": Mip(without=MIP_PARTS)},
    "mip, lambda only": {"engine": Mip(formulation="lambda", without=MIP_PARTS)},
    "mip, dependencies": {"engine": Mip(without=("attack", "hints"))},
    "mip, no hints": {"engine": Mip(without=("hints",))},
    "mip, only hints": {"engine": Mip(without=("dependencies", "attack"))},
    "mip, lambda, no dependencies": {
        "engine": Mip(formulation="lambda", without=("dependencies",))
    },
}
ALL = PLAIN | VARIANTS
# So many cases are part of every run, and a quarter as many of branched networks.
ALWAYS = 32


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        # The engines of a case one after the other: the exact optimum is computed once.
        count = metafunc.config.getoption("--oracle-cases")
        cases = [Case(number) for number in range(count)]
        cases += [Case(number, branched=True) for number in range(count // 4)]
        turns = list(VARIANTS)
        pairs = [
            pytest.param(
                case,
                engine,
                marks=campaign_from(ALWAYS // (4 if case.branched else 1), case.number),
            )
            for case in cases
            # Kinds, flavours and scales take turns in eights and threes: each meets each variant.
            for engine in (*PLAIN, turns[case.number % len(turns)])
        ]
        metafunc.parametrize(("case", "engine"), pairs, ids=str)


@cache
def problem_of(case: Case) -> Problem:
    return case.problem()


@cache
def truth_of(case: Case) -> dict[int | None, Truth]:
    return exact_optimum(problem_of(case))


def run(case: Case, engine: str, processes: bool = False) -> Result:
    options = dict(ALL[engine], relative_gap=RELATIVE_GAP, workers=None if processes else 0)
    timeout = TIMEOUT_OF_RANGES if case.of_ranges else TIMEOUT
    return verify(problem_of(case), timeout=timeout, **options)


def test_the_interval_holds_the_optimum_and_closes(case: Case, engine: str) -> None:
    result = run(case, engine)
    require_sound(problem_of(case), truth_of(case), result)
    require_tight(case, problem_of(case), truth_of(case), result)


@pytest.mark.subprocess
@pytest.mark.parametrize("engine", [*PLAIN, "mip, lambda"])
@pytest.mark.parametrize("number", mostly_slow(range(0, 384, 47), 9))
def test_the_same_with_processes(number: int, engine: str) -> None:
    case = Case(number)
    result = run(case, engine, processes=True)
    require_sound(problem_of(case), truth_of(case), result)
    require_tight(case, problem_of(case), truth_of(case), result)


@pytest.mark.parametrize("engine", [*PLAIN, "mip, lambda"])
@pytest.mark.parametrize(
    "number", mostly_slow([33, 34, 37, 162, 225, 294, 399, 417, 423, 585, 840, 933], 4)
)
def test_weights_of_very_different_sizes(number: int, engine: str) -> None:
    """Scores may be much larger than confidences: tolerances must be measured by the scores."""
    plain = Case(number).problem()
    problem = with_network(plain, uneven(plain.network, np.random.default_rng(number)))
    options = dict(ALL[engine], workers=0)
    require_sound(problem, exact_optimum(problem), verify(problem, timeout=5, **options))


def require_sound(problem: Problem, truths: dict[int | None, Truth], result: Result) -> None:
    truth = overall(truths)
    for moment in result.history:
        assert Fraction(moment.lower) <= truth.high
        assert truth.low <= Fraction(moment.upper)
    assert Fraction(result.lower) <= truth.high
    assert truth.low <= Fraction(result.upper)
    assert result.targets.keys() == truths.keys()
    for target, interval in result.targets.items():
        assert Fraction(interval.lower) <= truths[target].high
        assert truths[target].low <= Fraction(interval.upper)
    witness = result.witness
    assert result.lower == (witness.confidence if witness else 0.0)
    if witness is not None:
        assert 0 < Fraction(witness.confidence) <= exact_confidence_of(problem, witness)
    if result.status is Status.ROBUST:
        assert truth.low == 0
        assert result.upper == 0
    assert not result.notes


def require_tight(
    case: Case, problem: Problem, truths: dict[int | None, Truth], result: Result
) -> None:
    assert 0 <= result.lower <= result.upper
    negligible = NEGLIGIBLE * score_size(problem)
    allowed = max(RELATIVE_GAP * result.upper, negligible)
    if result.status is Status.CLOSED:
        assert result.upper - result.lower <= allowed
    if result.status in (Status.CLOSED, Status.ROBUST) or case.of_ranges:
        return
    # Without a closed interval the bound is still tight, and the witness is as good as any whose
    # attack is no mere tie.
    assert result.status is Status.EXHAUSTED
    assert float(overall(truths).low) >= result.upper - allowed
    assert result.lower >= solid_optimum(problem) - allowed


def solid_optimum(problem: Problem) -> float:
    """The optimum of attacks that win by a margin: no tie, and nothing that rounding can undo."""
    margin = Fraction(MARGIN * score_size(problem))
    return float(max(exact_optimum_with_margin(problem, t, margin) for t in problem.targets))


def score_size(problem: Problem) -> float:
    low, high = problem.domain.lower, problem.domain.upper
    box = Bounds(np.full(problem.domain.size, low), np.full(problem.domain.size, high))
    return float(network_bounds(problem.network, box)[-1].magnitude.max())


def test_the_default_cases_cover_every_combination() -> None:
    cases = [Case(number) for number in range(2 * ROUND)]
    combinations = {(case.kind, case.flavour, case.scale) for case in cases}
    assert len(combinations) == len(KINDS) * len(FLAVOURS) * len(SCALES)
    problems = [problem_of(case) for case in cases]
    kinds = {type(problem.perturbation) for problem in problems}
    assert kinds == set(PERTURBATIONS) - {Features}  # which test_features.py asks about
    assert {problem.domain.size for problem in problems} == {2, 3, 4, 5, 6}
    assert max(problem.network.hidden_neurons for problem in problems) == 8
    assert {problem.network.classes for problem in problems} == {3, 4}
    assert {len(problem.targets) for problem in problems} == {1, 2, 3}
    assert any(problem.domain.lower != 0 for problem in problems)
