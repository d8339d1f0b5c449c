"""Zonotopes in linear programs, and inputs that are moved into them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.optimize import linprog

from vhagar import Domain, Zonotope, linear_rows
from vhagar.array_types import Array
from vhagar.perturbation.relaxed import add_conditions, add_zonotope_rows, picked
from vhagar.solver.linear_model import LinearModel

SIZE = 6


def small_zonotope(seed: int, residual: float = 0.1) -> Zonotope:
    rng = np.random.default_rng(seed)
    parts = rng.normal(size=(2, SIZE)) / 3
    parts[:, 0] = 0.0  # an entry that no component moves
    return Zonotope(np.full(SIZE, 0.5), parts, rng.uniform(0.1, 0.5, 2), residual)


def most(domain: Domain, cost: Array, spare: float = 0.0) -> float:
    """The maximum over the rows that a model gets for a zonotope."""
    model = LinearModel()
    x = model.add_columns(domain.low, domain.high)
    add_zonotope_rows(model, domain, picked(x, model.column_count), spare)
    return _maximum(model, cost)


def _maximum(model: LinearModel, cost: Array) -> float:
    arrays = model.arrays()
    rows = arrays.matrix.toarray()
    found = linprog(
        np.concatenate([-cost, np.zeros(rows.shape[1] - len(cost))]),
        np.concatenate([rows, -rows]),
        np.concatenate([arrays.row_upper, -arrays.row_lower]),
        bounds=np.stack([arrays.column_lower, arrays.column_upper], axis=1),
    )
    return float(-found.fun)


@pytest.mark.parametrize("seed", range(6))
def test_rows_describe_the_zonotope_exactly(seed: int) -> None:
    own, cost = small_zonotope(seed), np.random.default_rng(seed).normal(size=SIZE)
    domain = Domain((SIZE,), -3, 3, zonotope=own)
    exact = cost @ own.mean + abs(own.components @ cost) @ own.ranges + abs(cost) @ own.residual
    assert most(domain, cost) == pytest.approx(exact, rel=1e-7)
    assert most(domain, cost, 0.5) < exact - 0.01
    model = LinearModel()
    add_conditions(model, domain, model.add_columns(domain.low, domain.high))
    assert _maximum(model, cost) == pytest.approx(exact, rel=1e-7)


@pytest.mark.parametrize("rows", [False, True])
def test_a_box_and_a_zonotope_bound_together(rows: bool) -> None:
    """Of what their intersection has less than either of them, the bound finds more than half."""
    shares, row = [], linear_rows(np.ones(SIZE), SIZE, -SIZE, 0.48 * SIZE)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        own, cost = small_zonotope(seed, residual=0.05), rng.normal(size=SIZE)
        low = own.mean - rng.uniform(0.1, 0.3, SIZE)
        with_rows = {"rows": row} if rows else {}
        domain = Domain((SIZE,), low, low + 0.4, range=(-9, 9), zonotope=own, **with_rows)
        model = LinearModel()
        add_conditions(model, domain, model.add_columns(domain.low, domain.high))
        best, alone = _maximum(model, cost), np.abs(own.components @ cost) @ own.ranges
        found = float(domain.support(cost[None])[0])
        assert found >= best - 1e-7
        ends = np.maximum(cost * domain.low, cost * domain.high).sum()
        apart = min(ends, cost @ own.mean + alone + abs(cost) @ own.residual)
        shares.append((found - best) / (apart - best + 1e-9))
    assert np.median(shares) < 0.5


def test_entries_whose_range_is_narrow_need_no_row() -> None:
    own = small_zonotope(1, residual=3.0)
    domain, model = Domain((SIZE,), zonotope=own), LinearModel()
    x = model.add_columns(domain.low, domain.high)
    found = add_zonotope_rows(model, domain, picked(x, model.column_count))
    assert found is not None
    assert len(found.rows) == 0
    assert len(found.coordinates) == own.count
    assert add_zonotope_rows(model, Domain((SIZE,)), picked(x, model.column_count)) is None


@pytest.mark.parametrize("seed", range(6))
def test_an_input_at_the_border_stays_and_is_inside_for_everyone(seed: int) -> None:
    """Least squares finds no coordinates of corners; nobody else has those that were noted."""
    own, rng = small_zonotope(seed), np.random.default_rng(seed)
    domain = Domain((SIZE,), -3, 3, zonotope=own)
    z = rng.uniform(-own.ranges, own.ranges)
    x = own.at(z[None])[0] + rng.choice([-1.0, 1.0], SIZE) * own.residual
    for noted in (False, True):
        fresh: Domain = pickle.loads(pickle.dumps(domain))
        assert fresh.zonotope is not None
        if noted:
            fresh.zonotope.note(z)
        moved = fresh.project(x.astype(np.float32).astype(np.float64))
        assert abs(moved - x).max() < 1e-5
        other: Domain = pickle.loads(pickle.dumps(domain))
        assert fresh.contains(moved[None]).all()
        assert other.contains(moved[None]).all()


def test_noted_coordinates_prove_nothing_by_themselves() -> None:
    own = small_zonotope(2)
    outside = own.mean + 2 * own.residual + own.ranges @ abs(own.components)
    own.note(np.full(own.count, 1e9))  # clipped to the ranges
    own.note(own.ranges)
    z, inside = own.witnesses(outside[None])
    assert not inside.any()
    assert (abs(z) <= own.ranges).all()
