"""No matrix that is not positive definite is ever proved to be, however near it is."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from vhagar.relaxation.positive_definite import (
    _shifted,
    is_positive_definite,
    is_sparse_positive_definite,
)

Matrix = np.ndarray


def exactly_positive_definite(matrix: Matrix) -> bool:
    """Gaussian elimination over the rationals: all pivots are positive."""
    rows = [[Fraction(entry) for entry in row] for row in matrix.tolist()]
    for k, pivots in enumerate(rows):
        if pivots[k] <= 0:
            return False
        for row in rows[k + 1 :]:
            factor = row[k] / pivots[k]
            row[k:] = [
                entry - factor * pivot for entry, pivot in zip(row[k:], pivots[k:], strict=True)
            ]
    return True


def gram(rng: np.random.Generator, size: int, rank: int) -> Matrix:
    """A Gram matrix of integers, so that it is exact in float64."""
    columns = rng.integers(-8, 9, (size, rank)).astype(float)
    return columns @ columns.T


def test_well_conditioned_matrices_are_proved():
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 40, 300):
        matrix = gram(rng, size, 2 * size) + np.eye(size)
        assert is_positive_definite(matrix)
        assert not is_positive_definite(-matrix)
    assert is_positive_definite(np.zeros((0, 0)))


@pytest.mark.parametrize("seed", range(8))
def test_near_the_boundary_only_true_claims_are_made(seed):
    """Singular matrices moved by a few units in the last place: about half are indefinite."""
    rng = np.random.default_rng(seed)
    for _ in range(25):
        size = int(rng.integers(1, 9))
        matrix = gram(rng, size, int(rng.integers(1, size + 1)))
        scale = np.ldexp(1.0, rng.integers(-30, 31, size))
        matrix = matrix * scale[:, None] * scale
        top = abs(matrix.diagonal())
        for power in range(-56, -40, 2):
            for sign in (-1, 1):
                moved = matrix + np.diag(sign * top * 2.0**power)
                if is_positive_definite(moved):
                    assert exactly_positive_definite(moved)


def test_a_margin_of_a_few_roundings_suffices():
    """Tight, too: a smallest eigenvalue of 1e-12 of the trace is enough at these sizes."""
    rng = np.random.default_rng(3)
    for size in (3, 10, 60):
        matrix = gram(rng, size, size - 1)
        matrix += 1e-12 * np.trace(matrix) * np.eye(size)
        assert is_positive_definite(matrix)


def test_a_plain_factorisation_would_lie():
    """LAPACK factorises this indefinite matrix; the shift is what refuses it."""
    refuted = 0
    rng = np.random.default_rng(5)
    for _ in range(200):
        size = int(rng.integers(3, 9))
        values = rng.standard_normal((size, size - 1))
        matrix = np.tril(values @ values.T)
        matrix = matrix + np.tril(matrix, -1).T
        try:
            np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            continue
        if not exactly_positive_definite(matrix):
            refuted += 1
            assert not is_positive_definite(matrix)
    assert refuted > 5


def test_the_shift_exceeds_the_error_of_the_factorisation():
    """`R'R - S` in exact arithmetic, for matrices as they are factorised."""
    rng = np.random.default_rng(6)
    for _ in range(20):
        size = int(rng.integers(2, 9))
        matrix = gram(rng, size, 2 * size) / 7 + np.eye(size) / 3
        shifted = _shifted(matrix, np.float64(0.0))
        assert shifted is not None
        factor = [[Fraction(float(x)) for x in row] for row in np.linalg.cholesky(shifted)]
        error = [
            sum(
                abs(
                    sum(a * b for a, b in zip(factor[i], factor[j], strict=True))
                    - Fraction(float(shifted[i, j]))
                )
                for j in range(size)
            )
            for i in range(size)
        ]
        exponent = np.frexp(np.nextafter(matrix.diagonal(), -np.inf))[1] // 2
        scaled = np.ldexp(matrix.diagonal(), -2 * exponent)
        for i in range(size):
            removed = Fraction(float(scaled[i])) - Fraction(float(shifted[i, i]))
            assert removed > max(error)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_beyond_float64_prove_nothing(bad):
    for place in ((0, 0), (1, 1), (0, 2), (2, 0)):
        matrix = 4 * np.eye(3)
        matrix[place] = bad
        assert not is_positive_definite(matrix)
    assert not is_positive_definite(4 * np.eye(3), bad)
    assert not is_positive_definite(4 * np.eye(3), np.full((3, 3), bad))
    assert not is_positive_definite(4 * np.eye(3), -1.0)


def test_extreme_scales():
    tiny, huge = 2.0**-1040, 2.0**1010
    assert is_positive_definite(np.diag([1.0, 2.0**-900, 2.0**900]))
    for scale in (2.0**-900, huge):
        assert is_positive_definite(scale * np.array([[2.0, 1.0], [1.0, 2.0]]))
        assert not is_positive_definite(scale * np.array([[2.0, 3.0], [3.0, 2.0]]))
    # Off the diagonal a huge entry, on it a tiny one.
    assert not is_positive_definite(np.array([[tiny, huge], [huge, tiny]]))
    assert not is_positive_definite(np.array([[tiny, 2 * tiny], [2 * tiny, tiny]]))
    # Subnormal numbers lose digits on the way, so nothing is claimed of this singular matrix.
    assert not is_positive_definite(np.full((2, 2), 2.0**-1074))


def test_the_radius_is_a_spectral_norm():
    matrix = np.diag([3.0, 5.0])
    assert is_positive_definite(matrix, 2.999)
    assert not is_positive_definite(matrix, 3.0)


@pytest.mark.parametrize("seed", range(5))
def test_an_entrywise_radius_covers_every_matrix_in_it(seed):
    rng = np.random.default_rng(seed)
    for _ in range(40):
        size = int(rng.integers(2, 7))
        matrix = gram(rng, size, 3 * size)
        radius = np.triu(rng.random((size, size))) * rng.choice([0.01, 0.3, 3.0, 30.0])
        if not is_positive_definite(matrix, radius):
            continue
        both = np.maximum(radius, radius.T)
        for _ in range(10):
            signs = np.triu(rng.choice([-1.0, 1.0], (size, size)))
            deviation = (signs + np.triu(signs, 1).T) * both
            np.fill_diagonal(deviation, -both.diagonal())
            assert exactly_positive_definite(matrix + deviation)
    assert is_positive_definite(4 * np.eye(2), np.full((2, 2), 1.9))
    assert not is_positive_definite(4 * np.eye(2), np.full((2, 2), 2.0))


def test_an_asymmetric_matrix_is_a_mistake():
    with pytest.raises(ValueError, match="symmetric"):
        is_positive_definite(np.array([[2.0, 1.0], [0.0, 2.0]]))
    with pytest.raises(ValueError, match="square"):
        is_positive_definite(np.ones((2, 3)))


def test_a_factor_with_nan_is_a_failure(monkeypatch):
    """As some libraries return it instead of an error."""
    for wrong in (np.full((2, 2), np.nan), np.diag([1.0, np.inf]), np.diag([1.0, -1.0])):
        monkeypatch.setattr(np.linalg, "cholesky", lambda _, wrong=wrong: wrong)
        assert not is_positive_definite(np.eye(2))


def banded(rng: np.random.Generator, size: int, shift: float) -> sparse.csr_array:
    """The Gram matrix of a convolution in one dimension, its rows shuffled, plus a shift."""
    taps = rng.integers(-4, 5, 3).astype(float)
    columns = sparse.diags_array(taps, offsets=[0, 1, 2], shape=(size, size + 2))
    gram_matrix = sparse.csr_array(columns @ columns.T) + shift * sparse.eye_array(size)
    order = rng.permutation(size)
    return sparse.csr_array(sparse.csr_array(gram_matrix)[order][:, order])


@pytest.mark.parametrize("seed", range(6))
def test_a_sparse_matrix_is_proved_like_a_dense_one(seed):
    rng = np.random.default_rng(seed)
    for size in (1, 5, 30, 60):
        matrix = banded(rng, size, 1e-3)
        assert is_sparse_positive_definite(matrix)
        assert not is_sparse_positive_definite(-matrix)
        smallest = float(np.linalg.eigvalsh(matrix.toarray())[0])
        assert is_sparse_positive_definite(matrix, 0.999 * smallest)
        assert not is_sparse_positive_definite(matrix, 1.001 * smallest)
        assert not is_sparse_positive_definite(matrix, np.nan)
        for shift in (-1e-12, -1e-14, -1e-15):
            below = matrix - (smallest - shift) * sparse.eye_array(size)
            near = sparse.csr_array(below)
            if size < 10 and is_sparse_positive_definite(near):
                assert exactly_positive_definite(near.toarray())


def test_a_sparse_matrix_with_bad_numbers_is_not_proved():
    for bad in (np.nan, np.inf):
        matrix = sparse.eye_array(12).tolil()
        matrix[3, 4] = matrix[4, 3] = bad
        assert not is_sparse_positive_definite(sparse.csr_array(matrix))
    lopsided = sparse.eye_array(12).tolil()
    lopsided[3, 4] = 0.5
    with pytest.raises(ValueError, match="symmetric"):
        is_sparse_positive_definite(sparse.csr_array(lopsided))
