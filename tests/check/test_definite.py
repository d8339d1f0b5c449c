"""Nothing is proved of eigenvalues that is not so."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from vhagar_check import definite
from vhagar_check.definite import Entries, _Levels, is_above, is_semidefinite_exactly
from vhagar_check.layers import gamma


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


def test_a_pivot_of_0_and_one_that_is_negative_only_at_the_end() -> None:
    beside = np.array([[0.0, 1, 0], [1, 9, 0], [0, 0, 1]])
    assert not is_semidefinite_exactly(fractions(beside))
    lower = np.array([[1.0, 0, 0], [1, 1, 0], [1, 2, 1]])
    for last in (-1.0, 0.0, 1.0):
        matrix = lower @ np.diag([1.0, 1.0, last]) @ lower.T
        assert is_semidefinite_exactly(fractions(matrix)) is (last >= 0)


def test_levels_that_leave_out_an_entry_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definite, "_SMALL", 0)
    monkeypatch.setattr(definite, "_levels", lambda _: [np.array([k]) for k in range(4)])
    matrix = np.eye(4)
    assert is_above(Entries.of(matrix), 0.0)
    matrix[3, 0] = 5.0
    with pytest.raises(AssertionError):
        is_above(Entries.of(matrix), 0.0)


def levels_of(row: int) -> tuple[_Levels, list[tuple[np.ndarray, np.ndarray]], float]:
    """A matrix in three levels, given factors, and the least eigenvalue that they prove.

    The factors are whole numbers, so that all products are exact; what they leave of the matrix is
    so small that the allowance for rounding counts, and least in the given row.
    """
    rng = np.random.default_rng(row)
    sizes = (2, 3, 2)
    ends = np.cumsum((0, *sizes))
    whole = np.zeros((7, 7))
    for k, (begin, end) in enumerate(itertools.pairwise(ends)):
        whole[begin:end, begin:end] = np.tril(rng.integers(500, 900, (sizes[k], sizes[k])))
        if k:
            whole[begin:end, ends[k - 1] : begin] = rng.integers(
                -900, 900, (sizes[k], sizes[k - 1])
            )
    near = abs(np.subtract.outer(np.repeat(range(3), sizes), np.repeat(range(3), sizes))) < 2
    rest = np.tril(2.0**-24 * rng.choice([-1.0, 1.0], (7, 7)), -1) * near
    rest += rest.T
    rest += np.diag(np.where(np.arange(7) == row, 2.0**-19, 2.0**-16))
    matrix = whole @ whole.T + rest
    share = 4 * gamma(2 * 3 + 16)
    rounding = share * (abs(matrix) + abs(whole) @ abs(whole).T).sum(axis=1)
    proved = rest.diagonal() - (abs(rest).sum(axis=1) - abs(rest.diagonal())) - rounding
    assert proved.argmin() == row
    assert 0.02 < rounding[row] / proved[row] < 1
    parts = [slice(begin, end) for begin, end in itertools.pairwise(ends)]
    factors = [
        (whole[own, before] if before is not None else np.zeros((2, 0)), whole[own, own])
        for own, before in zip(parts, (None, *parts[:-1]), strict=True)
    ]
    diagonal = [matrix[own, own] for own in parts]
    below = [matrix[after, own] for own, after in itertools.pairwise(parts)]
    return _Levels(diagonal, below), factors, float(proved[row])


@pytest.mark.parametrize("row", range(7))
def test_what_is_left_of_every_row_counts_and_rounding_is_taken_off(
    row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix, factors, proved = levels_of(row)
    for share, above in ((1 - 1e-4, True), (1 + 1e-4, False)):
        given = iter(factors)
        monkeypatch.setattr(definite, "_factors", lambda *_, given=given: next(given))
        assert definite._is_above(matrix, share * proved) is above


def test_a_matrix_of_no_rows_and_one_of_zeros() -> None:
    assert is_above(Entries.of(np.zeros((0, 0))), 5.0)
    assert not is_above(Entries.of(np.zeros((2, 2))), 0.0)
    assert is_above(Entries.of(np.eye(2)), 0.0)


@pytest.mark.parametrize("place", [0, 1])
def test_factors_that_are_not_finite_prove_nothing(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of the two blocks may hold a number beyond float64."""
    block, joint, factor = 4 * np.eye(2), np.ones((2, 2)), np.eye(2)
    assert definite._factors(block, joint, factor, 0.0) is not None
    wrong = np.array([[np.nan, 0.0], [0.0, 1.0]])
    name = ("solve", "cholesky")[place]
    monkeypatch.setattr(np.linalg, name, lambda *_: wrong)
    if place == 0:
        monkeypatch.setattr(np.linalg, "cholesky", lambda _: np.eye(2))
    assert definite._factors(block, joint, factor, 0.0) is None
