"""No norm exceeds its proved bound: compared in exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from vhagar.relaxation.spectral import norms
from vhagar.relaxation.spectral.expansion import Block, Chain
from vhagar.relaxation.spectral.norms import norm_bound

from ...oracle.exact import rationals
from ..test_positive_definite import exactly_positive_definite

Rng = np.random.Generator


def chain(rng: Rng, dense: bool) -> Block:
    sizes = rng.integers(1, 6, 4)
    factors = []
    for rows, columns in zip(sizes[1:], sizes[:-1], strict=True):
        factor = rng.normal(size=(rows, columns)) * 10.0 ** rng.integers(-3, 4)
        factor *= rng.random(factor.shape) < 0.7
        factors.append(factor if dense else sparse.csr_array(factor))
    product = factors[0]
    for factor in factors[1:]:
        product = factor @ product
    return Block(product, Chain(tuple(factors)))


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_the_bound_holds_exactly_and_is_tight(seed: int, dense: bool) -> None:
    rng = np.random.default_rng([seed, dense])
    for _ in range(4):
        block = chain(rng, dense)
        rows, columns = block.matrix.shape
        left = np.exp(rng.normal(size=rows)).astype(np.float32).astype(float)
        right = np.exp(rng.normal(size=columns)).astype(np.float32).astype(float)
        bound = norm_bound(block, left, right).bound
        whole = rationals(np.eye(columns))
        for factor in block.chain.factors:
            plain = factor.toarray() if sparse.issparse(factor) else factor
            whole = rationals(plain) @ whole
        exact = rationals(left)[:, None] * whole / rationals(right)
        square = Fraction(bound) ** 2
        gram = exact @ exact.T
        # Semidefinite: with anything more it is definite.
        for k in range(rows):
            gram[k, k] = gram[k, k] - square - Fraction(1, 10**60)
        assert exactly_positive_definite(-gram)
        true = float(np.linalg.norm(exact.astype(float), 2)) if exact.size else 0.0
        assert bound <= true * (1 + 1e-3) + 1e-12


def test_a_proposal_that_is_too_small_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The eigenvalue routine may say what it likes."""
    matrix = np.random.default_rng(3).normal(size=(4, 6))
    block = Block(matrix, Chain((matrix,)))
    rows, columns = matrix.shape
    true = float(np.linalg.norm(matrix, 2))
    for wrong in (0.0, 0.5 * true**2, math.nan, math.inf, -1.0):
        monkeypatch.setattr(norms, "_proposed", lambda _, wrong=wrong: wrong)
        assert norm_bound(block, np.ones(rows), np.ones(columns)).bound >= true


def test_an_empty_block_has_norm_zero() -> None:
    block = Block(np.zeros((0, 3)), Chain((np.zeros((0, 3)),)))
    assert norm_bound(block, np.ones(0), np.ones(3)).bound == 0.0


def test_numbers_beyond_float64_give_no_bound() -> None:
    matrix = np.full((2, 2), 1e200)
    block = Block(matrix, Chain((matrix,)))
    assert norm_bound(block, np.full(2, 1e200), np.full(2, 1e-200)).bound == math.inf


@pytest.mark.parametrize("dense", [True, False])
def test_underflow_in_a_chain_is_counted(dense: bool) -> None:
    """A product that vanishes in float64 is multiplied by huge weights afterwards."""
    numbers = [1e-30, *[1e-31] * 9, *[1e30] * 10]
    factors = [np.array([[number]]) for number in numbers]
    chain = Chain(tuple(factors if dense else map(sparse.csr_array, factors)))
    exact = math.prod(map(Fraction, numbers))
    product = np.zeros((1, 1))  # what float64 makes of it
    assert float(exact) > 1e-10
    one = np.ones(1)
    norm = norm_bound(Block(product, chain), one, one)
    assert Fraction(norm.bound) >= exact
    assert Fraction(chain.size(one, one)) >= exact**2
    assert chain.lost(backwards=True)[0] >= 2.0**-1022
    forwards = Chain(chain.factors[::-1])
    assert Fraction(forwards.lost(backwards=True)[0]) >= exact


@pytest.mark.parametrize("values", [[3.0, 4.0], [3e-200, 4e-200], [3e-310, 4e-310], [3e200, 4e200]])
def test_lengths_of_any_size(values: list[float]) -> None:
    """Squares underflow, or overflow, where the length does not."""
    found = norms.length(np.array(values))
    assert Fraction(found) ** 2 >= sum(Fraction(value) ** 2 for value in values)
    assert found <= math.hypot(*values) * (1 + 1e-11)
    assert norms.length(np.zeros(0)) == 0.0
    assert norms.length(np.array([1.0, math.inf])) == math.inf
