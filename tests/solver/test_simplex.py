"""A simplex that stops early, or that is stuck, is only quicker: bounds still hold."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vhagar.relaxation.lp.region_model import Evaluation
from vhagar.solver import simplex
from vhagar.solver.simplex import LpStatus

from ..oracle.cases import KINDS
from ..search.nodes import agreeing, every_kind, everything, exactly


@every_kind
def test_a_bound_that_is_enough_holds(kind: str) -> None:
    rng = np.random.default_rng([21, len(kind)])
    for found in everything(kind):
        context, confidence = found.context, found.attacked.confidence
        decisions = agreeing(found, rng, 0.3)
        best = context.evaluate(decisions, math.inf)
        if not best.complete:
            continue
        for enough in (0.5 * best.upper, best.upper, 1.5 * best.upper, 10 * best.upper):
            context.simplex.forget()
            early = context.evaluate(decisions, math.inf, enough=enough)
            assert exactly(early.upper) >= confidence
            assert early.complete or early.upper <= enough
            assert early.upper <= max(enough, best.upper + 1e-6 * (1 + abs(best.upper)))


def test_some_stop_early() -> None:
    """Otherwise the test above would show nothing."""
    early: list[Evaluation] = []
    for kind in KINDS:
        for found in everything(kind):
            best = found.context.evaluate((), math.inf)
            if best.complete:
                found.context.simplex.forget()
                early.append(found.context.evaluate((), math.inf, enough=10 * best.upper))
    stopped = [one for one in early if one.answer.status is LpStatus.ENOUGH]
    assert stopped
    assert all(one.proof is not None for one in stopped)


@every_kind
def test_what_is_stuck_goes_on_with_perturbed_costs(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng([22, len(kind)])
    for found in everything(kind):
        context = found.context
        root = context.evaluate((), math.inf)
        if not root.complete:
            continue
        decisions, basis = agreeing(found, rng, 0.5), context.simplex.basis()
        expected = context.evaluate(decisions, math.inf, basis=basis)
        with monkeypatch.context() as patch:
            patch.setattr(simplex, "_STUCK", 0)  # after a single iteration, or none
            reached = context.evaluate(decisions, math.inf, basis=basis)
        size = 1e-6 * (1 + abs(expected.upper)) if math.isfinite(expected.upper) else 0.0
        assert reached.upper == pytest.approx(expected.upper, abs=size)
