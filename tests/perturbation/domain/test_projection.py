"""Inputs that are moved into a domain are near the given ones, and inside."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from vhagar.perturbation import Domain, Zonotope, linear_rows
from vhagar.perturbation.domain.projection import nearest_in_rows


def rows_around(size: int, count: int, rng: np.random.Generator) -> Domain:
    """A box with rows that hold at some input of it."""
    weights, inside = rng.normal(size=(count, size)), rng.uniform(size=size)
    value = weights @ inside
    return Domain((size,), rows=linear_rows(weights, size, value - 0.3, value + 0.05))


@pytest.mark.parametrize(("size", "count"), [(6, 1), (6, 2), (10, 3), (30, 8)])
def test_inputs_are_moved_into_rows(size: int, count: int) -> None:
    rng = np.random.default_rng(count)
    domain = rows_around(size, count, rng)
    x = rng.normal(0.5, 1.0, (50, size))
    assert domain.contains(domain.project(x)).all()
    assert domain.rows is not None
    # Steps of an attack need not meet the rows exactly.
    near = domain.approached(x)
    assert (near == domain.clipped(near)).all()
    assert abs(domain.rows.lack(near, 0.0)).max() < 0.1
    assert domain.contains(near).mean() > 0.5


@pytest.mark.parametrize("seed", range(4))
def test_with_one_row_the_input_found_is_the_nearest(seed: int) -> None:
    rng = np.random.default_rng(seed)
    domain = rows_around(5, 1, rng)
    assert domain.rows is not None
    x = rng.normal(0.5, 1.0, (4, 5))
    found = domain.approached(x)
    weights, low, high = domain.rows.matrix.toarray()[0], domain.rows.low[0], domain.rows.high[0]
    ends = [
        {"type": "ineq", "fun": lambda v: weights @ v - low},
        {"type": "ineq", "fun": lambda v: high - weights @ v},
    ]
    for given, near in zip(x, found, strict=True):
        best = minimize(
            lambda v, at: float(((v - at) ** 2).sum()),
            np.full(5, 0.5),
            args=(given,),
            bounds=[(0, 1)] * 5,
            constraints=ends,
            method="SLSQP",
        )
        assert ((near - given) ** 2).sum() == pytest.approx(best.fun, rel=1e-4)


def test_entries_that_are_not_free_stay() -> None:
    row = linear_rows([1.0, 1.0, 1.0], 3, at_most=1.0)
    free = np.array([True, False, True])
    box = np.zeros(3), np.ones(3)
    given = np.array([[0.9, 0.8, 0.6], [0.1, 0.2, 0.3]])
    found = nearest_in_rows(row, box, free, given, 0.0)
    np.testing.assert_allclose(found, [[0.2, 0.8, 0.0], [0.1, 0.2, 0.3]], atol=1e-12)
    # A row that no free entry can meet changes nothing else.
    far = linear_rows([1.0, 1.0, 1.0], 3, at_least=2.9)
    assert nearest_in_rows(far, box, free, given, 0.0)[0].tolist() == [1.0, 0.8, 1.0]


def test_whole_numbers_one_hots_and_a_zonotope_are_met_together() -> None:
    rng = np.random.default_rng(5)
    centre = np.array([0.5, 0.5, 0.5, 0.5, 1.0, 1.0])
    own = Zonotope(centre, rng.normal(size=(2, 6)), 0.5, 0.8)
    row = linear_rows({3: 1.0, 4: 1.0}, 6, at_most=1.2)
    domain = Domain((6,), 0, 2, one_hot=[[0, 1, 2]], integer=[5], rows=row, zonotope=own)
    x = rng.uniform(-0.5, 2.5, (40, 6))
    for found in (domain.approached(x), domain.project(x)):
        assert domain.groups.contains(found).all()
        assert domain.contains(found).mean() > 0.5


def test_many_inputs_are_projected_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    domain, x = rows_around(4, 2, rng), rng.normal(0.5, 1.0, (20, 4))
    whole = domain.project(x)
    monkeypatch.setattr("vhagar.perturbation.domain.projection._MOST_AT_ONCE", 16)
    np.testing.assert_allclose(domain.project(x), whole, atol=1e-6)
    assert domain.project(x[0]).shape == (4,)
