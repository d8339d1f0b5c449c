"""Perturbations of features, and their certificates, against the exact optimum."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from vhagar import Problem, verify
from vhagar.network.onnx_writer import onnx_bytes
from vhagar.perturbation import Features
from vhagar.search.branch_and_bound import Bab
from vhagar.search.mip.engine import Mip
from vhagar_check import check

from ..marks import campaign_from
from .cases import Case
from .exact import Truth, exact_optimum, overall
from .random_domains import random_box
from .test_engines import RELATIVE_GAP, require_sound, require_tight

ENGINES = {"bab": Bab(), "bab, gpu": Bab(gpu=True), "mip": Mip()}
# So many cases are part of every run.
ALWAYS = 12


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "number" in metafunc.fixturenames:
        count = metafunc.config.getoption("--oracle-cases")
        metafunc.parametrize(
            "number",
            [pytest.param(k, marks=campaign_from(ALWAYS, k)) for k in range(max(count, ALWAYS))],
        )


@cache
def problem_of(number: int) -> Problem:
    """A problem of the other tests with radii for some features; every other one over a box."""
    given, rng = Case(number).problem(), np.random.default_rng([24, number])
    size, width = given.domain.size, given.domain.width
    chosen = np.flatnonzero(rng.random(size) < 0.6).tolist() or [0]
    radii = width * rng.choice([0.03, 0.1, 0.25, 1.0], len(chosen))
    return Problem(
        given.network,
        perturbation=Features(chosen, radii.tolist()),
        source=given.source,
        targets=given.targets,
        clip=bool(rng.random() < 0.6),
        domain=random_box(given.domain, rng) if number % 2 else given.domain,
    )


@cache
def truth_of(number: int) -> dict[int | None, Truth]:
    return exact_optimum(problem_of(number))


def test_the_interval_holds_the_optimum(number: int, tmp_path: Path) -> None:
    problem, engine = problem_of(number), list(ENGINES)[number // 2 % len(ENGINES)]
    certificate = tmp_path / "proof.cert" if engine == "bab" else None
    result = verify(
        problem,
        engine=ENGINES[engine],
        timeout=20.0,
        relative_gap=RELATIVE_GAP,
        workers=0,
        device="cpu",
        certificate=certificate,
    )
    require_sound(problem, truth_of(number), result)
    require_tight(Case(number), problem, truth_of(number), result)
    if certificate is not None:
        (tmp_path / "model.onnx").write_bytes(onnx_bytes(problem.network))
        verdict = check(certificate, model=tmp_path / "model.onnx")
        truth = overall(truth_of(number))
        assert truth.low <= Fraction(verdict.upper)
        assert Fraction(verdict.lower) <= truth.high
