"""A node's bound is at least the confidence of every attacked input in it, whatever the duals."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from vhagar.search.bab.simplex import LpStatus

from ...oracle.cases import Case
from ...relaxation.samples import Rng
from .nodes import CASES, Found, agreeing, exactly, found_in, with_one_reversed

every_case = pytest.mark.parametrize("case", CASES, ids=str)


def duals_of(found: Found, rng: Rng, honest: np.ndarray | None) -> list[np.ndarray]:
    """Duals out of nowhere, and those of a simplex method, bent a little or a lot."""
    rows = len(found.context.model.arrays.row_lower)
    given = [rng.normal(size=rows), np.zeros(rows), -np.ones(rows)]
    given.append(10.0 ** rng.integers(-6, 7, rows) * rng.normal(size=rows))
    if honest is not None and np.isfinite(honest).all():
        given += [
            honest,
            -honest,
            1e5 * honest,
            honest * (1 + 0.1 * rng.normal(size=rows)),
            np.where(rng.random(rows) < 0.2, 0.0, honest),
            honest + 1e-3 * rng.normal(size=rows),
        ]
    return given


@every_case
def test_bounds_hold_for_any_duals(case: Case) -> None:
    rng = np.random.default_rng([13, case.number])
    for found in found_in(case):
        context, confidence = found.context, found.attacked.confidence
        assert exactly(context.quick_upper()) >= confidence
        for share in (0.0, 0.3, 1.0):
            decisions = agreeing(found, rng, share)
            evaluation = context.evaluate(decisions, math.inf)
            assert evaluation.upper == math.inf or exactly(evaluation.upper) >= confidence
            allowed = context.allowed(decisions)
            assert allowed is not None
            for duals in duals_of(found, rng, evaluation.answer.duals):
                upper = context.formula.upper(duals, allowed)
                assert upper == math.inf or exactly(upper) >= confidence


@every_case
def test_no_ray_empties_a_node_that_holds_an_attacked_input(case: Case) -> None:
    rng = np.random.default_rng([14, case.number])
    for found in found_in(case):
        context = found.context
        for share in (0.3, 1.0):
            decisions = agreeing(found, rng, share)
            allowed = context.allowed(decisions)
            assert allowed is not None
            # A ray that proves a neighbour empty is the most convincing lie.
            evaluation = context.evaluate(with_one_reversed(decisions, rng), math.inf)
            for ray in duals_of(found, rng, evaluation.answer.duals):
                assert not context.formula.infeasible(ray, allowed)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, -1e300, 1e-300])
def test_numbers_that_are_none_prove_nothing(value: float) -> None:
    rng = np.random.default_rng(15)
    for case in CASES[:8]:
        for found in found_in(case):
            context = found.context
            decisions = agreeing(found, rng, 0.5)
            allowed = context.allowed(decisions)
            assert allowed is not None
            rows = len(context.model.arrays.row_lower)
            for share in (0.1, 1.0):
                duals = np.where(rng.random(rows) < share, value, rng.normal(size=rows))
                upper = context.formula.upper(duals, allowed)
                assert upper == math.inf or exactly(upper) >= found.attacked.confidence
                assert not context.formula.infeasible(duals, allowed)
            assert context.formula.upper(None, allowed) == math.inf
            assert not context.formula.infeasible(None, allowed)


def test_an_empty_node_is_proved_empty() -> None:
    """The tight side: a simplex method's ray does prove what is plainly impossible."""
    proved = 0
    for case in CASES:
        for found in found_in(case, 1):
            rng = np.random.default_rng([16, case.number])
            decisions = agreeing(found, rng, 1.0)
            for _ in range(6):
                other = with_one_reversed(decisions, rng)
                evaluation = found.context.evaluate(other, math.inf)
                if evaluation.answer.status is LpStatus.INFEASIBLE:
                    proved += evaluation.upper == -math.inf
    assert proved >= 10


@pytest.mark.parametrize("wild", [lambda rng, n: rng.normal(size=n), lambda rng, n: np.ones(n)])
def test_a_neurons_bound_holds_for_any_duals(wild: Callable[[Rng, int], np.ndarray]) -> None:
    """`neuron` bounds over the attacked inputs that are confident enough."""
    rng = np.random.default_rng(17)
    for case in CASES:
        for found in found_in(case, 2):
            context, attacked = found.context, found.attacked
            rows = len(context.model.arrays.row_lower)
            for layer, hexagons in enumerate(context.bounds.hexagons):
                on_s, on_t = rng.normal(size=(2, len(hexagons)))
                value = sum(
                    exactly(weight) * entry
                    for weights, entries in (
                        (on_s, attacked.first.entering[layer]),
                        (on_t, attacked.second.entering[layer]),
                    )
                    for weight, entry in zip(weights, entries, strict=True)
                )
                threshold = np.nextafter(float(attacked.confidence), -math.inf)
                upper = context.formula.neuron(wild(rng, rows), layer, on_s, on_t, threshold)
                assert upper == math.inf or exactly(upper) >= value
