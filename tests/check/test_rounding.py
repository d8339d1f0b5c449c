"""Rounding is paid for: sums that nearly cancel, against exact arithmetic.

Each of many large terms is taken back by another one, so that what is left is of the size of the
rounding errors, and every allowance that is too small or forgotten shows.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from vhagar_check.affine import BoxAffine
from vhagar_check.exact import Exact
from vhagar_check.formula import Bounds, Decisions
from vhagar_check.hexagon import Hexagons
from vhagar_check.intervals import Pulled, entering
from vhagar_check.layers import Dense, Linear, Network, Scale, interval
from vhagar_check.moved import identity
from vhagar_check.perturbations import pieces
from vhagar_check.pieces import Domain
from vhagar_check.rational import exact_upper
from vhagar_check.sparse import Sparse

HALF = 40
SIZE = 2 * HALF
Rng = np.random.Generator


def cancelling(rng: Rng, scale: float = 1e8) -> np.ndarray:
    """Numbers that sum to nearly 0, each beside the one that takes it back."""
    half = rng.normal(size=HALF) * scale
    return np.stack([half, -half * (1 + 2.0**-50 * rng.integers(-3, 4, HALF))], axis=1).reshape(-1)


def twins(rng: Rng, *shape: int) -> np.ndarray:
    """Rows that come in equal pairs."""
    return np.repeat(rng.normal(size=(HALF, *shape)), 2, axis=0)


def points(rng: Rng, where: float = 1.0) -> Hexagons:
    """Hexagons of a single point each, equal in pairs."""
    s = where * (1 + twins(rng) ** 2)
    nothing = np.zeros(SIZE)
    return Hexagons(s, s, s, s, nothing, nothing, 1.0)


def _network(rng: Rng, bias: float) -> Network:
    first = Dense(twins(rng, 3), bias * twins(rng))
    last = Dense(np.stack([cancelling(rng), cancelling(rng)]), np.zeros(2))
    return Network(((first,), (last,)), (3,))


CHOICES: dict[str, Any] = {
    "nothing": lambda rng: lambda layer, a, b: (np.zeros_like(a), np.zeros_like(b)),
    "everything": lambda rng: lambda layer, a, b: (a, b),
    "first copy": lambda rng: (
        lambda layer, a, b: (
            np.tile(cancelling(rng), (len(a), 1)),
            np.zeros_like(b),
        )
    ),
    "second copy": lambda rng: (
        lambda layer, a, b: (
            np.zeros_like(a),
            np.tile(cancelling(rng), (len(a), 1)),
        )
    ),
}


@pytest.mark.parametrize("bias", [0.0, 1e4])
@pytest.mark.parametrize("copies", [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, -1.0)])
@pytest.mark.parametrize("choice", CHOICES)
def test_the_formula_is_never_below_its_exact_value(
    choice: str, copies: tuple[float, float], bias: float
) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        network = _network(rng, bias)
        domain = Domain((3,), 0.0, 1.0)
        bounds = Bounds(network, identity(domain))
        bounds.append(points(rng))
        a, b = (copy * np.array([[1.0, 0.0]]) for copy in copies)
        multipliers = CHOICES[choice](rng)(0, *[np.zeros((1, SIZE))] * 2)
        choose = (
            CHOICES[choice](rng)
            if choice == "everything"
            else (lambda *_, found=multipliers: found)
        )
        (value,), (width,) = bounds.upper(1, a, b, choose)
        exact = exact_upper(bounds, 1, Exact.of(a[0]), Exact.of(b[0]), choose, Decisions())
        assert isinstance(exact, Fraction)
        assert exact <= Fraction(float(value))
        assert Fraction(float(value)) - Fraction(float(width)) <= exact


@pytest.mark.parametrize("copy", [0, 1])
def test_coefficients_on_inputs_are_paid_for(copy: int) -> None:
    """The weights cancel on the way back to large inputs."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        layer = Dense(np.stack([cancelling(rng), cancelling(rng)]), np.zeros(2))
        spread = Dense(twins(rng, 3), np.zeros(SIZE))
        network = Network(((spread, layer),), (3,))
        (piece,) = pieces("linf(0.5)", Domain((3,), -1e3, 1e3), True)
        bounds = Bounds(network, piece)
        rows = np.zeros((2, 1, 2))
        rows[copy, 0, 0] = 1.0
        pass_on = lambda layer, a, b: (a, b)  # noqa: E731
        (value,), (width,) = bounds.upper(0, *rows, pass_on)
        exact = exact_upper(bounds, 0, *map(Exact.of, rows[:, 0]), pass_on, Decisions())
        assert isinstance(exact, Fraction)
        assert exact <= Fraction(float(value))
        assert Fraction(float(value)) - Fraction(float(width)) <= exact


def _exact_range(
    layers: tuple[Linear, ...], row: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[Fraction, Fraction]:
    constant, p = Fraction(0), Exact.of(row)
    for layer in reversed(layers):
        constant += p.dot(Exact.of(layer.bias))
        p = layer.exact_backward(p)
    products = [
        (w * Fraction(float(u)), w * Fraction(float(v)))
        for w, u, v in zip(p.fractions(), low, high, strict=True)
    ]
    least = sum((min(each) for each in products), constant)
    return least, sum((max(each) for each in products), constant)


LAYERS: dict[str, Any] = {
    "weights": lambda rng: (Dense(cancelling(rng)[None], np.zeros(1)),),
    "two layers": lambda rng: (
        Dense(twins(rng, SIZE), np.zeros(SIZE)),
        Dense(cancelling(rng)[None], np.zeros(1)),
    ),
    "biases": lambda rng: (
        Dense(np.zeros((SIZE, SIZE)), twins(rng)),
        Dense(cancelling(rng)[None], np.zeros(1)),
    ),
    "a bias": lambda rng: (Dense(np.ones((1, SIZE)) / 3, np.array([-SIZE * 1e8 / 3])),),
    "scaled": lambda rng: (
        Scale(np.ones(SIZE), 3 * np.ones(SIZE), np.zeros(SIZE)),
        Dense(cancelling(rng)[None], np.zeros(1)),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_intervals_contain_the_exact_ones(name: str) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        layers = LAYERS[name](rng)
        value = (1e8 if name == "a bias" else 1.0) * (1 + twins(rng) ** 2)
        value = np.full(SIZE, 1e8) if name == "a bias" else value
        least, most = _exact_range(layers, np.ones(1), value, value)
        for low, high in (
            Pulled.through(layers, np.ones((1, 1))).range(layers, value, value),
            entering(Network((layers, ()), (SIZE,)), 0, [(value, value)])[0],
        ):
            assert Fraction(float(low[0])) <= least
            assert most <= Fraction(float(high[0]))
        if len(layers) == 1:
            low, high = interval(layers[0], value, value)
            assert Fraction(float(low[0])) <= least
            assert most <= Fraction(float(high[0]))


def test_entries_of_a_whole_matrix_are_known_up_to_their_room() -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        layers = LAYERS["two layers"](rng)
        pulled = Pulled.through(layers, np.ones((1, 1)))
        exact = Exact.of(np.ones(1))
        for layer in reversed(layers):
            exact = layer.exact_backward(exact)
        for found, room, right in zip(
            pulled.rows[0], pulled.room(layers)[0], exact.fractions(), strict=True
        ):
            assert abs(Fraction(float(found)) - right) <= Fraction(float(room))


TEXTS = (
    "linf(0.3)",
    "brightness([0.1,0.3])",
    "contrast([0.3,0.7])",
    "occlusion(1,1,2)",
    "translation(1,0)",
    "translation(1,0)+linf(0.3)",
    "occlusion(1,1,2)+brightness([0.1,0.3])",
)


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-1.1, 0.7), (1e3, 1e3 + 1)])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("copies", [(1.0, 0.0), (0.0, 1.0), (1.0, -1.0)])
def test_supports_of_coefficients_that_cancel(
    copies: tuple[float, float], text: str, ends: tuple[float, float]
) -> None:
    """In a narrow range far from 0 all is rounding."""
    for piece in pieces(text, Domain((1, 8, 10), *ends), True):
        rng = np.random.default_rng(4)
        a = np.stack([copies[0] * cancelling(rng) for _ in range(4)])
        b = np.stack([copies[1] * cancelling(rng) for _ in range(4)])
        b = -a * (1 + 2.0**-51) if copies == (1.0, -1.0) else b
        found = piece.support(a, b)
        for k in range(4):
            exact = piece.exact_support(Exact.of(a[k]), Exact.of(b[k]))
            assert exact is not None
            assert exact <= Fraction(float(found[k]))
            # And not so much is paid that a support is useless.
            slack = 1e-9 * (abs(a[k]).sum() + abs(b[k]).sum()) * piece.magnitude
            assert found[k] - slack <= float(exact)


@pytest.mark.parametrize("part", ["matrix", "directions", "offset"])
def test_supports_of_maps_that_cancel(part: str) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        matrix, moves = np.zeros((SIZE, SIZE)), np.zeros((SIZE, 3))
        offset = np.zeros(SIZE)
        if part == "matrix":
            matrix = twins(rng, SIZE)
        elif part == "directions":
            moves = twins(rng, 3)
        else:
            offset = twins(rng)
        piece = BoxAffine(
            Domain((SIZE,), -1e3, 1e3),
            Sparse.of(matrix),
            Sparse.of(moves),
            offset,
            np.full(3, -1e3),
            np.full(3, 1e3),
        )
        a, b = np.zeros((1, SIZE)), cancelling(rng)[None]
        (value,) = piece.support(a, b)
        exact = piece.exact_support(Exact.of(a[0]), Exact.of(b[0]))
        assert exact is not None
        assert exact <= Fraction(float(value))
