"""Networks that are hard on arithmetic, over domains with conditions that are no easier.

The networks and perturbations of `numerics`; the inputs lie in random boxes and satisfy rows,
orders, zonotopes, or are whole numbers. Rows have coefficients of all sizes in every second case.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vhagar import Domain, Problem, linear_rows

from ..oracle.exact import exact_optimum
from ..oracle.random_domains import random_conditions, random_groups
from .judge import Finding, require_proved, require_sound, run_bab, run_mip, stored
from .numerics import hard_problem

_SECONDS, _SECONDS_OF_RANGES = 3.0, 0.4


def problem_of(number: int) -> tuple[str, Problem]:
    """The problem of that number, the same every time."""
    what, given = hard_problem(number)
    rng = np.random.default_rng([37, number])
    way = number // 3 % 3
    if way == 0:
        domain = random_conditions(given.domain, rng)
    elif way == 1:
        domain = random_groups(given.domain.shape, (0.0, 1.0), rng)
    else:
        domain = _extreme_rows(given.domain, rng)
    problem = Problem(
        given.network,
        perturbation=given.perturbation,
        source=given.source,
        targets=given.targets,
        clip=given.clip,
        domain=domain,
    )
    return f"{what}, {('conditions', 'whole numbers', 'rows of all sizes')[way]}", problem


def _extreme_rows(whole: Domain, rng: np.random.Generator) -> Domain:
    """Rows with coefficients from 1e-30 to 1e30 that one input meets, some of them exactly."""
    size = whole.size
    inside = rng.uniform(whole.lower, whole.upper, size).astype(np.float32).astype(np.float64)
    weights = rng.normal(size=(2, size)) * 10.0 ** rng.uniform(-30, 30, (2, size))
    value = weights @ inside
    room = abs(value) * rng.choice([1e-12, 1e-3, 1.0], 2)
    ends = {"at_most": value + room} if rng.random() < 0.5 else {"at_least": value - room}
    rows = [linear_rows(weights, size, **ends)]
    return Domain(whole.shape, whole.low, whole.high, range=(whole.lower, whole.upper), rows=rows)


def look(number: int, folder: Path) -> Finding:
    what, problem = problem_of(number)
    finding = Finding("domains", number, what)
    finding.facts["kind"] = what.rsplit(", ", maxsplit=1)[-1]
    truths = exact_optimum(problem)
    at_hand = stored(problem, folder)
    ranges = any(not truth.exact for truth in truths.values())
    seconds = _SECONDS_OF_RANGES if ranges else _SECONDS
    result, verdict = run_bab(at_hand, finding, seconds, folder / "certificate")
    require_sound("bab", problem, truths, result, finding)
    if verdict is not None:
        require_proved(truths, verdict, finding)
    if number % 4 == 0:
        require_sound("mip", problem, truths, run_mip(at_hand, finding, seconds), finding)
    return finding
