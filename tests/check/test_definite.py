"""Nothing is proved of eigenvalues that is not so."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar_check import definite
from vhagar_check.definite import Entries, is_above, is_semidefinite_exactly


def gram(rng: np.random.Generator, order: int, rank: int) -> np.ndarray:
    columns = rng.integers(-8, 9, (order, rank)).astype(float)
    return columns @ columns.T


def tridiagonal(rng: np.random.Generator, order: int) -> np.ndarray:
    """The Gram matrix of a convolution in one dimension, its rows shuffled."""
    taps = rng.integers(1, 5, 3).astype(float)
    wide = sum(tap * np.eye(order, order + 2, k) for k, tap in enumerate(taps))
    shuffled = rng.permutation(order)
    return (wide @ wide.T)[shuffled][:, shuffled]


def fractions(matrix: np.ndarray) -> list[list[Fraction]]:
    return [[Fraction(entry) for entry in row] for row in matrix.tolist()]


@pytest.mark.parametrize("by_levels", [False, True])
def test_least_eigenvalues_are_enclosed(by_levels: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if by_levels:
        monkeypatch.setattr(definite, "_SMALL", 0)
    rng = np.random.default_rng(1)
    for order in (1, 2, 5, 17, 60):
        for matrix in (gram(rng, order, 2 * order) + np.eye(order), tridiagonal(rng, order)):
            least = float(np.linalg.eigvalsh(matrix)[0])
            assert is_above(Entries.of(matrix), 0.999 * least)
            assert not is_above(Entries.of(matrix), 1.001 * least)
            assert not is_above(Entries.of(-matrix), 0.0)


def test_separate_parts_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definite, "_SMALL", 0)
    rng = np.random.default_rng(2)
    matrix = np.zeros((40, 40))
    matrix[:15, :15], matrix[15:39, 15:39] = tridiagonal(rng, 15), tridiagonal(rng, 24)
    matrix[39, 39] = 1e-3
    least = float(np.linalg.eigvalsh(matrix)[0])
    assert is_above(Entries.of(matrix), 0.99 * least)
    matrix[39, 39] = -1e-3
    assert not is_above(Entries.of(matrix), 0.0)


@pytest.mark.parametrize("by_levels", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_near_the_boundary_only_true_claims_are_made(
    seed: int, by_levels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Singular matrices moved by a few units in the last place: about half are indefinite."""
    if by_levels:
        monkeypatch.setattr(definite, "_SMALL", 0)
    rng = np.random.default_rng(seed)
    for _ in range(12):
        order = int(rng.integers(1, 8))
        matrix = gram(rng, order, int(rng.integers(1, order + 1)))
        for power in range(-54, -42, 3):
            for sign in (-1, 1):
                moved = matrix + sign * 2.0**power * np.diag(matrix.diagonal())
                if is_above(Entries.of(moved), 0.0):
                    assert is_semidefinite_exactly(fractions(moved))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_beyond_float64_prove_nothing(bad: float) -> None:
    for place in ((0, 0), (2, 1)):
        matrix = 4 * np.eye(3)
        matrix[place] = bad
        assert not is_above(Entries.of(matrix), 0.0)
    assert not is_above(Entries.of(4 * np.eye(3)), bad)
    assert not is_above(Entries.of(4 * np.eye(3)), -1.0)


@pytest.mark.parametrize("factor", [0.5, 1.0 + 1e-9, 1e200])
def test_a_wrong_factor_is_not_believed(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever computes it: what is left of the matrix decides."""
    matrix = gram(np.random.default_rng(4), 6, 9) - 40 * np.eye(6)
    assert np.linalg.eigvalsh(matrix)[0] < 0
    lie = factor * np.sqrt(abs(np.diag(matrix.diagonal())))
    monkeypatch.setattr(np.linalg, "cholesky", lambda _: lie)
    assert not is_above(Entries.of(matrix), 0.0)


def test_exactly_semidefinite() -> None:
    rows = [[1, 2, 0], [2, 4, 0], [0, 0, 0]]
    exact = [[Fraction(entry) for entry in row] for row in rows]
    assert is_semidefinite_exactly(exact)
    exact[2][2] = Fraction(-1, 10**30)
    assert not is_semidefinite_exactly(exact)
    exact[2][2], exact[1][1] = Fraction(0), Fraction(4) - Fraction(1, 10**30)
    assert not is_semidefinite_exactly(exact)
    assert not is_semidefinite_exactly([[Fraction(0), Fraction(1)], [Fraction(1), Fraction(9)]])
