"""Layers that branch and join, against their matrices written out in fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar_check.exact import Exact
from vhagar_check.joined import Joined, Pick, Term
from vhagar_check.layers import Dense, Linear

Matrix = list[list[Fraction]]


def matrix_of(layer: Linear, rows: int, columns: int) -> Matrix:
    """The matrix of a layer, from its images of unit vectors in exact arithmetic."""
    found = [[Fraction(0)] * columns for _ in range(rows)]
    bias = layer.exact_forward(Exact.of(np.zeros(columns))).fractions()
    for k in range(columns):
        image = layer.exact_forward(Exact.of(np.eye(columns)[k])).fractions()
        for row in range(rows):
            found[row][k] = image[row] - bias[row]
    return found


def floats(matrix: Matrix) -> np.ndarray:
    return np.array([[float(value) for value in row] for row in matrix])


PICKED = np.array([[0, 1, 3], [2, -1, -1], [-1, -1, -1], [3, 3, 2]])


def expected_pick(sign: int) -> np.ndarray:
    found = np.zeros((4, 5))
    for row, entries in enumerate(PICKED.tolist()):
        for entry in entries:
            if entry >= 0:
                found[row, entry] += sign
    return found


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_pick_adds_the_entries_it_names(sign: float) -> None:
    layer = Pick.of(PICKED, 5, sign)
    matrix = expected_pick(int(sign))
    rng = np.random.default_rng(1)
    z, p = rng.integers(-9, 9, (2, 5)) + 0.5, rng.integers(-9, 9, (3, 4)) + 0.5
    assert layer.kernel.tolist() == [sign]
    assert layer.forward(layer.kernel, z).tolist() == (z @ matrix.T).tolist()
    assert layer.backward(layer.kernel, p).tolist() == (p @ matrix).tolist()
    assert layer.exact_forward(Exact.of(z[0])).fractions() == list(map(Fraction, matrix @ z[0]))
    assert layer.exact_backward(Exact.of(p[0])).fractions() == list(map(Fraction, p[0] @ matrix))
    # The kernel is an argument, so that absolute values and other numbers pass the same way.
    other = np.array([3.0])
    assert layer.forward(other, z).tolist() == (3 * sign * (z @ matrix.T)).tolist()
    assert layer.backward(other, p).tolist() == (3 * sign * (p @ matrix)).tolist()
    assert (layer.bias == np.zeros(4)).all()


@pytest.mark.parametrize(
    ("index", "in_size", "terms"),
    [
        (np.array([1, 0, 2]), 3, 1),
        (np.array([[0, 1, 2]]), 4, 3),
        (np.array([0, 0, 0, 0]), 2, 4),
        (np.array([-1, -1]), 2, 1),
        (PICKED, 5, 3),
    ],
)
def test_a_pick_counts_its_longest_sum(index: np.ndarray, in_size: int, terms: int) -> None:
    layer = Pick.of(index, in_size)
    assert layer.terms == terms
    assert (layer.in_size, layer.out_size) == (in_size, len(index))
    assert layer.forward(layer.kernel, np.ones((1, in_size))).shape == (1, len(index))


def joined(rng: np.random.Generator) -> tuple[Joined, np.ndarray, np.ndarray]:
    """Three blocks over the values 0 to 2, 3 to 4 and 5, with its matrix and its bias."""
    first = Dense(rng.integers(-4, 5, (2, 3)) / 4, np.array([0.25, -3.0]))
    second = Dense(rng.integers(-4, 5, (2, 2)) / 8, np.zeros(2))
    third = Dense(rng.integers(-4, 5, (3, 3)) / 2, np.array([1.0, 2.0, -0.5]))
    copied = Pick.of(np.array([[0, 0], [1, -1]]), 2, -1.0)
    blocks = (
        (Term(0, 3, first), Term(3, 2, second), Term(3, 2, None, -1.0)),
        (Term(0, 3, None, 2.0), Term(0, 3, third)),
        (Term(3, 2, copied), Term(3, 2)),
        (Term(5, 1, None, -1.0),),
    )
    matrix = np.zeros((8, 6))
    matrix[0:2, 0:3] = first.weight
    matrix[0:2, 3:5] = second.weight - np.eye(2)
    matrix[2:5, 0:3] = 2 * np.eye(3) + third.weight
    matrix[5:7, 3:5] = np.array([[-2.0, 0.0], [0.0, -1.0]]) + np.eye(2)
    matrix[7, 5] = -1.0
    bias = np.array([0.25, -3.0, 1.0, 2.0, -0.5, 0.0, 0.0, 0.0])
    return Joined(6, blocks), matrix, bias


@pytest.mark.parametrize("seed", range(3))
def test_blocks_are_the_sums_of_their_terms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    layer, matrix, bias = joined(rng)
    assert (layer.in_size, layer.out_size, layer.joins) == (6, 8, True)
    assert layer.bias.tolist() == bias.tolist()
    assert floats(matrix_of(layer, 8, 6)).tolist() == matrix.tolist()
    z, p = rng.integers(-9, 9, (2, 6)) / 2, rng.integers(-9, 9, (3, 8)) / 2
    assert layer.forward(layer.kernel, z).tolist() == (z @ matrix.T).tolist()
    assert layer.backward(layer.kernel, p).tolist() == (p @ matrix).tolist()
    exact = layer.exact_forward(Exact.of(z[0])).fractions()
    assert exact == list(map(Fraction, matrix @ z[0] + bias))
    assert layer.exact_backward(Exact.of(p[0])).fractions() == list(map(Fraction, p[0] @ matrix))


def test_absolute_values_do_not_cancel() -> None:
    """A term and its opposite add nothing, yet both are rounded."""
    layer = Joined(1, ((Term(0, 1), Term(0, 1, None, -1.0)),))
    assert layer.kernel.tolist() == [1.0, -1.0]
    assert layer.forward(layer.kernel, np.ones((1, 1))).tolist() == [[0.0]]
    assert layer.forward(layer.size, np.ones((1, 1))).tolist() == [[2.0]]
    assert layer.backward(layer.size, np.ones((1, 1))).tolist() == [[2.0]]


def test_the_longest_sum_is_counted_forwards_and_backwards() -> None:
    """A block sums 3 + 2 + 1 products; the value at 0 is used by terms with 3, 1 and 3."""
    layer, *_ = joined(np.random.default_rng(0))
    assert layer.terms == 3 + 1 + 3
    one = Dense(np.ones((1, 2)), np.zeros(1))
    fan = Joined(3, (*[(Term(0, 2, one),)] * 5, (Term(2, 1),)))
    assert fan.terms == 5 * 2
    assert Joined(4, ((Term(0, 2),), (Term(2, 2),))).terms == 1
    sums = Joined(3, (tuple(Term(k, 1) for k in range(3)),))
    assert sums.terms == 3
