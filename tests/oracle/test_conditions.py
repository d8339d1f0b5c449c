"""Every engine and the checker against the exact optimum over random polytopes and groups."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from vhagar import Domain, Problem, Zonotope, linear_rows, verify

from ..marks import campaign_from
from .cases import Case
from .exact import Truth, exact_optimum
from .test_domain import ENGINES, random_box, require_true
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


def random_conditions(domain: Domain, rng: np.random.Generator) -> Domain:
    """Some of: rows, an equality, an order, whole numbers, a one-hot group, a zonotope."""
    box, size = random_box(domain, rng), domain.size
    low, high = box.low.copy(), box.high.copy()
    inside = rng.uniform(low, high)
    chosen, groups = rng.permutation(size), {}
    binary = domain.lower <= 0 and domain.upper >= 1
    if binary and rng.random() < 0.4:
        (k,), low[chosen[0]], high[chosen[0]] = chosen[:1].tolist(), domain.lower, domain.upper
        groups["integer"], inside[k] = [k], 1.0
    if binary and size >= 5 and rng.random() < 0.4:
        hot = chosen[1:4].tolist()
        low[hot], high[hot], inside[hot] = domain.lower, domain.upper, (1.0, 0.0, 0.0)
        groups["one_hot"] = [hot]
    if rng.random() < 0.3:
        pair = sorted(chosen[-2:].tolist(), key=lambda k: inside[k])
        groups["ordered"] = [pair]
    rows = []
    if rng.random() < 0.7:
        weights = np.round(rng.normal(size=(int(rng.integers(1, 3)), size)), 3)
        rows.append(linear_rows(weights, size, at_most=weights @ inside + rng.uniform(0, 0.3)))
    zonotope = None
    if rng.random() < 0.3:
        parts = rng.normal(size=(2, size)) * domain.width / 3
        zonotope = Zonotope(inside, parts, rng.uniform(0.2, 1.0, 2), 0.1 * domain.width)
    span = (domain.lower, domain.upper)
    return Domain(domain.shape, low, high, range=span, rows=rows, zonotope=zonotope, **groups)


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
