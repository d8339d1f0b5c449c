"""Results made by hand: the reports are about what results say, not about finding them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vhagar.network import Affine, Network
from vhagar.problem import Problem
from vhagar.result import BoundKind, Interval, Moment, Progress, Result, Status, Witness


def _network(shape: tuple[int, ...]) -> Network:
    weight = np.random.default_rng(0).normal(size=(4, int(np.prod(shape))))
    return Network((Affine(weight, np.zeros(4), shape, (4,)),), shape, "tiny")


@pytest.fixture
def make_problem() -> Callable[..., Problem]:
    """A problem with four classes; class 2 is the source."""

    def make(
        perturbation: str | None = "linf(0.1)",
        targets: Any = 3,
        shape: tuple[int, ...] = (1, 3, 3),
        clip: bool = True,
    ) -> Problem:
        return Problem(
            _network(shape), perturbation=perturbation, source=2, targets=targets, clip=clip
        )

    return make


@pytest.fixture
def make_witness() -> Callable[..., Witness]:
    """A witness of an attack from class 2, or only an input of class 2 where `target` is None."""

    def make(
        confidence: float = 16.2134,
        target: int | None = 3,
        tie: bool = False,
        x: Any = None,
        x_p: Any = None,
    ) -> Witness:
        x = np.linspace(0.0, 0.8, 9).reshape(1, 3, 3) if x is None else np.asarray(x, float)
        scores = np.array([0.0, 0.0, confidence, 0.0])
        if target is None:
            return Witness(x, scores, confidence)
        x_p = x + 0.1 if x_p is None else np.asarray(x_p, float)
        margin = 0.0 if tie else 0.015625
        parameters: dict[str, object] = {"largest change": 0.1}
        return Witness(
            x, scores, confidence, target, x_p, scores, margin, tie, "linf(0.1)", parameters
        )

    return make


@pytest.fixture
def make_result(make_problem: Callable[..., Problem]) -> Callable[..., Result]:
    """A result; `lower` is the witness's confidence."""

    def make(
        upper: float,
        status: Status,
        witness: Witness | None = None,
        targets: dict[int, Interval] | None = None,
        notes: tuple[str, ...] = (),
        history: tuple[Moment, ...] | None = None,
        max_confidence: Interval | None = None,
        problem: Problem | None = None,
    ) -> Result:
        lower = 0.0 if witness is None else witness.confidence
        return Result(
            problem=problem or make_problem(),
            lower=lower,
            upper=upper,
            status=status,
            kind=BoundKind.SOLVER,
            seconds=100.0,
            targets=targets or {3: Interval(lower, upper, BoundKind.SOLVER)},
            witness=witness,
            history=history or (Moment(0.0, 0.0, 60.5), Moment(100.0, lower, upper)),
            timings={"search": 100.0},
            engine="mip",
            notes=notes,
            max_confidence=max_confidence,
        )

    return make


@pytest.fixture
def make_progress() -> Callable[..., Progress]:
    """Progress; `targets` gives `(lower, upper)` by class."""

    def make(
        lower: float,
        upper: float,
        seconds: float = 1.0,
        targets: dict[int, tuple[float, float]] | None = None,
        phase: str = "search",
        initial_upper: float = 60.0,
    ) -> Progress:
        known = {3: (lower, upper)} if targets is None else targets
        intervals = {
            target: Interval(low, high, BoundKind.SOLVER) for target, (low, high) in known.items()
        }
        return Progress(seconds, lower, upper, phase, intervals, initial_upper)

    return make
