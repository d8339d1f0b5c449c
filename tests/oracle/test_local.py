"""Local robustness against the exact oracle: verdicts, margins, and every bound on the way.

The problems are those of the global question, each with a random image of the source class.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from vhagar.local import branching, piece_search
from vhagar.local.known import Known
from vhagar.local.piece_search import PieceSearch
from vhagar.local.problem import LocalProblem
from vhagar.local.result import LocalVerdict
from vhagar.local.run import verify_local
from vhagar.network.network import confidence
from vhagar.problem import Problem

from .exact import exact_confidence_in
from .local_cases import AnyCase, local_cases


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", local_cases(metafunc, 4, 3), ids=str)


def local_problem(case: AnyCase) -> LocalProblem | None:
    """A random image of some class, and the question about it; None where none is found."""
    whole = case.problem()
    rng = np.random.default_rng(case.number)
    domain = whole.domain
    x = rng.uniform(domain.lower, domain.upper, (64, domain.size)).astype(np.float32)
    x = np.clip(x.astype(np.float64), domain.lower, domain.upper)
    sure = confidence(whole.network.forward(x), whole.source)
    order = np.argsort(-sure)
    # Not the surest one, which is rarely broken, and none that hardly has its class.
    usable = [k for k in order if sure[k] > 1e-3 * abs(sure).max()]
    if not usable:
        return None
    chosen = x[usable[len(usable) // 2]]
    return LocalProblem(
        whole.network,
        perturbation=whole.perturbation,
        image=chosen,
        source=whole.source,
        targets=whole.targets,
        clip=whole.clip,
        input_range=(domain.lower, domain.upper),
    )


def largest(problem: LocalProblem) -> Fraction:
    everywhere: Problem = problem.everywhere
    return max(
        exact_confidence_in(everywhere, target, problem.image) for target in everywhere.targets
    )


def test_the_answer_is_the_exact_one(case: AnyCase) -> None:
    problem = local_problem(case)
    if problem is None:
        return
    result, truth = verify_local(problem, timeout=20), largest(problem)
    # The margin is the largest confidence in a target, with the other sign.
    assert result.lower == -math.inf or Fraction(result.lower) <= -truth
    assert Fraction(result.upper) >= -truth
    if result.verdict is LocalVerdict.ROBUST:
        assert truth < 0
    if result.verdict is LocalVerdict.BROKEN:
        assert truth >= 0
    scale = float(abs(problem.everywhere.network.forward(problem.image[None])).max())
    if abs(truth) > 1e-4 * scale:
        assert result.verdict is not LocalVerdict.UNKNOWN


@pytest.mark.parametrize("way", ["signs", "parameters", "ranges"])
def test_every_bound_of_the_search_holds(
    case: AnyCase, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every piece is searched by itself, step by step, with nothing but branch and bound."""
    problem = local_problem(case)
    if problem is None:
        return
    monkeypatch.setattr(piece_search, "_FEW_PARAMETERS", 10 if way == "parameters" else 0)
    if way == "ranges":  # as soon as a box has no time for branching on the ranges as they are
        monkeypatch.setattr(branching.VersionSearch, "step", lambda search: False)
    monkeypatch.setattr(branching, "_FIRST_BATCH", 2)
    everywhere, known = problem.everywhere, Known(problem)
    truths = [exact_confidence_in(everywhere, t, problem.image) for t in everywhere.targets]
    best = np.full(len(truths), -np.inf)
    for piece in everywhere.pieces[:4]:
        search = PieceSearch(
            everywhere.network, known.fixed(piece), everywhere.targets, None, lambda: False
        )
        for _ in range(24 if way == "ranges" else 12):
            if search.is_done:
                break
            search.step()
        best = np.maximum(best, search.uppers)
    if len(everywhere.pieces) <= 4:
        assert all(
            math.isinf(upper) or Fraction(upper) >= truth
            for upper, truth in zip(best.tolist(), truths, strict=True)
        )
