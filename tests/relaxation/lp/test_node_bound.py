"""A node's bound is at least the confidence of every attacked input in it, whatever the duals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vhagar.relaxation.proof import ProofKind
from vhagar.solver.lp_answer import LpStatus

from ...oracle.cases import KINDS
from ...search.nodes import Found, agreeing, every_kind, everything, exactly, with_one_reversed
from ...search.proven import duals_of as rows_of
from ..samples import Rng


def duals_of(found: Found, rng: Rng, honest: np.ndarray | None) -> list[np.ndarray]:
    """Duals out of nowhere, and those of a simplex method, bent a little or a lot."""
    rows = len(found.region_model.model.arrays.row_lower)
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


@every_kind
def test_bounds_hold_for_any_duals(kind: str) -> None:
    rng = np.random.default_rng([13, len(kind)])
    for found in everything(kind):
        region_model, confidence = found.region_model, found.attacked.confidence
        assert exactly(region_model.quick_upper()) >= confidence
        for share in (0.0, 0.3, 1.0):
            decisions = agreeing(found, rng, share)
            evaluation = region_model.evaluate(decisions, math.inf)
            assert evaluation.upper == math.inf or exactly(evaluation.upper) >= confidence
            allowed = region_model.cuts.allowed(decisions)
            assert allowed is not None
            for duals in duals_of(found, rng, evaluation.answer.duals):
                upper = region_model.formula.upper(duals, allowed)
                assert upper == math.inf or exactly(upper) >= confidence


@every_kind
def test_a_proof_holds_exactly_the_numbers_of_its_bound(kind: str) -> None:
    """Bound and proof are computed one after the other; they must not drift apart."""
    rng = np.random.default_rng([16, len(kind)])
    seen = 0
    for found in everything(kind):
        region_model = found.region_model
        decisions = agreeing(found, rng, 0.3)
        allowed = region_model.cuts.allowed(decisions)
        assert allowed is not None
        honest = region_model.evaluate(decisions, math.inf).answer.duals
        for duals in duals_of(found, rng, honest):
            upper = region_model.formula.upper(duals, allowed)
            if upper == math.inf:
                continue
            numbers = region_model.formula.proof(ProofKind.MULTIPLIERS, duals).numbers()
            stored, alpha = rows_of(region_model, numbers)
            assert abs(alpha.sum() - 1) < 1e-12
            assert region_model.formula._evaluate(stored, alpha, allowed) == upper
            seen += 1
    assert seen


@every_kind
def test_a_contradiction_holds_exactly_its_numbers(kind: str) -> None:
    rng = np.random.default_rng([17, len(kind)])
    for found in everything(kind):
        region_model = found.region_model
        for share in (0.3, 1.0):
            decisions = with_one_reversed(agreeing(found, rng, share), rng)
            evaluation = region_model.evaluate(decisions, math.inf)
            if evaluation.proof is None or evaluation.proof.kind is not ProofKind.CONTRADICTION:
                continue
            stored, alpha = rows_of(region_model, evaluation.proof.numbers())
            assert not alpha.any()
            allowed = region_model.cuts.allowed(decisions)
            assert allowed is not None
            ray = region_model.formula.contradiction(evaluation.answer.duals, allowed)
            assert ray is not None
            assert abs(ray).max() == 1.0
            for rows in region_model.model.rows:
                for own in (rows.pair_rows, rows.pair_rows_p, rows.equal_rows):
                    np.testing.assert_array_equal(stored[own], ray[own])


@every_kind
def test_no_ray_empties_a_node_that_holds_an_attacked_input(kind: str) -> None:
    rng = np.random.default_rng([14, len(kind)])
    for found in everything(kind):
        region_model = found.region_model
        for share in (0.3, 1.0):
            decisions = agreeing(found, rng, share)
            allowed = region_model.cuts.allowed(decisions)
            assert allowed is not None
            # A ray that proves a neighbour empty is the most convincing lie.
            evaluation = region_model.evaluate(with_one_reversed(decisions, rng), math.inf)
            for ray in duals_of(found, rng, evaluation.answer.duals):
                assert region_model.formula.contradiction(ray, allowed) is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, -1e300, 1e-300])
def test_numbers_that_are_none_prove_nothing(value: float) -> None:
    rng = np.random.default_rng(15)
    for found in (found for kind in KINDS for found in everything(kind)):
        region_model = found.region_model
        allowed = region_model.cuts.allowed(agreeing(found, rng, 0.5))
        assert allowed is not None
        rows = len(region_model.model.arrays.row_lower)
        for share in (0.1, 1.0):
            duals = np.where(rng.random(rows) < share, value, rng.normal(size=rows))
            upper = region_model.formula.upper(duals, allowed)
            assert upper == math.inf or exactly(upper) >= found.attacked.confidence
            assert region_model.formula.contradiction(duals, allowed) is None
        assert region_model.formula.upper(None, allowed) == math.inf
        assert region_model.formula.contradiction(None, allowed) is None


def test_an_empty_node_is_proved_empty() -> None:
    """The tight side: a simplex method's ray does prove what is plainly impossible."""
    rng = np.random.default_rng(16)
    claimed, proved = 0, 0
    for found in (found for kind in KINDS for found in everything(kind)):
        decisions = agreeing(found, rng, 1.0)
        for _ in range(3):
            evaluation = found.region_model.evaluate(with_one_reversed(decisions, rng), math.inf)
            claimed += evaluation.answer.status is LpStatus.INFEASIBLE
            proved += evaluation.upper == -math.inf
    assert claimed > 0
    assert proved >= 0.9 * claimed
