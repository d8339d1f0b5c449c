"""Small problems with optima that are known exactly. Every solver must get them right."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from vhagar.search.mip.encoding import encode
from vhagar.solver.linear_model import LinearArrays, LinearModel, Products

from ..oracle.cases import Case
from ..oracle.exact import exact_optimum

INFINITY = math.inf


@dataclass(frozen=True, eq=False)
class Known:
    """A model, the column to maximise, and the optimum: None where nothing is feasible.

    `slack` is by how much a solution may exceed the optimum, where the model itself has room.
    """

    name: str
    arrays: LinearArrays
    objective: int
    optimum: Fraction | None
    slack: float = 0.0

    def __str__(self) -> str:
        return self.name


def three_quarters(integer: bool) -> Known:
    """The largest d in [0,1] with `4 d <= 3 + n`, n a whole number or any from 0 to 0.9."""
    model = LinearModel()
    d = model.add_columns(0.0, 1.0)
    n = model.add_columns(0.0, 0.9, integer=integer)
    model.add_rows([(d, 4.0), (n, -1.0)], -INFINITY, 3.0)
    optimum = Fraction(3, 4) if integer else (3 + Fraction(0.9)) / 4
    return Known(f"three quarters, integer {integer}", model.arrays(), int(d[0]), optimum)


def in_units(size: float) -> Known:
    """The same with numbers as small or large as weights can make them."""
    model = LinearModel()
    d = model.add_columns(0.0, size)
    n = model.add_columns(0.0, 1.0, integer=True)
    model.add_rows([(d, 4.0), (n, -size)], -INFINITY, 2.0 * size)
    optimum = Fraction(3, 4) * Fraction(size)
    return Known(f"in units of {size:g}", model.arrays(), int(d[0]), optimum)


def equalities() -> Known:
    """`x + y + z = 1`, `x = y`, `y = 2 z`, and d is z."""
    model = LinearModel()
    x, y, z, d = (model.add_columns(0.0, 1.0) for _ in range(4))
    model.add_rows([(x, 1.0), (y, 1.0), (z, 1.0)], 1.0, 1.0)
    model.add_rows([(x, 1.0), (y, -1.0)], 0.0, 0.0)
    model.add_rows([(y, 1.0), (z, -2.0)], 0.0, 0.0)
    model.add_rows([(d, 1.0), (z, -1.0)], 0.0, 0.0)
    return Known("equalities", model.arrays(), int(d[0]), Fraction(1, 5))


def ranges() -> Known:
    """Rows with two sides, of which now this one binds and now the other, and one without any."""
    model = LinearModel()
    d, x = model.add_columns(-1.0, 1.0), model.add_columns(-1.0, 1.0)
    model.add_rows([(d, 1.0), (x, 1.0)], -0.5, 0.25)
    model.add_rows([(d, 1.0), (x, -1.0)], -0.5, 0.5)
    model.add_rows([(d, 1.0), (x, 3.0)], -INFINITY, INFINITY)
    return Known("ranges", model.arrays(), int(d[0]), Fraction(3, 8))


def degenerate(integer: bool) -> Known:
    """Two hundred rows through one point."""
    model = LinearModel()
    d, x, y = (model.add_columns(0.0, 1.0) for _ in range(3))
    n = model.add_columns(0.0, 1.0, integer=integer)
    slopes = np.arange(1.0, 201.0)
    rows = np.stack([np.ones(200), slopes / 256, -slopes / 256], axis=1)
    model.add_rows([(np.concatenate([d, x, y]), rows)], -INFINITY, 0.5)
    model.add_rows([(x, 1.0), (y, -1.0)], 0.0, 0.0)
    model.add_rows([(d, 1.0), (n, 1.0)], -INFINITY, 1.5)
    return Known(f"degenerate, integer {integer}", model.arrays(), int(d[0]), Fraction(1, 2))


def trivial_parts() -> Known:
    """Columns that are fixed, columns in no row, and rows without a column."""
    model = LinearModel()
    d = model.add_columns(-2.0, 2.0)
    fixed = model.add_columns(0.75, 0.75)
    zero = model.add_columns(0.0, 0.0)
    model.add_columns(0.0, 1.0, integer=True)
    model.add_rows([(d, 1.0), (fixed, -1.0), (zero, 5.0)], -INFINITY, 0.0)
    model.add_rows([(d, np.zeros((2, 1)))], [-1.0, -INFINITY], [1.0, 0.0])
    return Known("trivial parts", model.arrays(), int(d[0]), Fraction(3, 4))


def negative() -> Known:
    """An optimum below 0: no bound may stop at 0."""
    model = LinearModel()
    d = model.add_columns(-8.0, 8.0)
    n = model.add_columns(np.zeros(2), 1.0, integer=True)
    model.add_rows([(d, np.ones((1, 1))), (n, [[2.0, 2.0]])], -INFINITY, 1.0)
    model.add_rows([(n, [[1.0, 1.0]])], 1.5, INFINITY)
    return Known("negative", model.arrays(), int(d[0]), Fraction(-3))


def infeasible(integer: bool) -> Known:
    """`d + n <= -1` for numbers that are not negative."""
    model = LinearModel()
    d = model.add_columns(0.0, 1.0)
    n = model.add_columns(0.0, 1.0, integer=integer)
    model.add_rows([(d, 1.0), (n, 1.0)], -INFINITY, -1.0)
    return Known(f"infeasible, integer {integer}", model.arrays(), int(d[0]), None)


def infeasible_once_branched() -> Known:
    """`2 a + 2 b + 2 c = 3` has a solution, but no whole one."""
    model = LinearModel()
    d = model.add_columns(0.0, 1.0)
    halves = model.add_columns(np.zeros(3), 1.0, integer=True)
    model.add_rows([(halves, [[2.0, 2.0, 2.0]])], 3.0, 3.0)
    return Known("infeasible once branched", model.arrays(), int(d[0]), None)


def choice(seed: int) -> Known:
    """A knapsack of eight things with several limits; the optimum by trying every choice."""
    rng = np.random.default_rng(seed)
    values, weights = rng.integers(1, 64, 8), rng.integers(0, 64, (3, 8))
    limits = weights.sum(axis=1) // 2
    best = max(
        int(values @ chosen)
        for chosen in itertools.product((0, 1), repeat=8)
        if (weights @ chosen <= limits).all()
    )
    model = LinearModel()
    d = model.add_columns(0.0, float(values.sum()))
    chosen = model.add_columns(np.zeros(8), 1.0, integer=True)
    model.add_rows([(chosen, weights.astype(float))], -INFINITY, limits.astype(float))
    model.add_rows([(d, np.ones((1, 1))), (chosen, -values[None].astype(float))], -INFINITY, 0.0)
    return Known(f"choice {seed}", model.arrays(), int(d[0]), Fraction(best))


def product(shift: float = 0.0, unit: float = 1.0) -> Known:
    """The largest `(e - 1) x` with `e + x <= 2`: a quarter, and a half for all that rows see.

    In units of its own, and with black at `shift`: `y - shift = e (x - shift)`.
    """
    model = LinearModel()
    d = model.add_columns(-4.0 * unit, 4.0 * unit)
    e = model.add_columns(1.0, 2.0)
    x = model.add_columns(shift, shift + unit)
    y = model.add_columns(shift, shift + 2.0 * unit)
    model.add_rows([(d, 1.0), (y, -1.0), (x, 1.0)], -INFINITY, 0.0)
    model.add_rows([(e, unit), (x, 1.0)], -INFINITY, 2.0 * unit + shift)
    model.add_rows([(y, 1.0), (x, -2.0)], -INFINITY, -shift)
    model.add_rows([(y, 1.0), (x, -1.0), (e, -unit)], -INFINITY, -unit)
    model.add_products(Products(y, int(e[0]), x, shift))
    name = f"product, shift {shift}, unit {unit}"
    return Known(name, model.arrays(), int(d[0]), Fraction(unit) / 4, 1e-5 * unit)


def network(number: int) -> Known:
    """The paper's main MIP of a tiny network; the optimum from the exact oracle."""
    problem = Case(number).problem()
    (piece,), target = problem.pieces, problem.targets[0]
    truth = exact_optimum(problem)[target]
    assert truth.exact
    encoding = encode(problem, piece, target)
    # The model has room for ties, which is a tiny part of the scores.
    slack = 1e-5 * encoding.target_scale
    return Known(f"network {number}", encoding.arrays, encoding.delta, truth.low, slack)


# Cases with one piece, exact rows, and something to attack.
NETWORKS = (1, 5, 6, 7, 13, 18, 34, 40, 44, 56)

PROBLEMS = (
    three_quarters(integer=False),
    three_quarters(integer=True),
    *(in_units(2.0**exponent) for exponent in (-28, -20, -1, 20, 40)),
    equalities(),
    ranges(),
    degenerate(integer=False),
    degenerate(integer=True),
    trivial_parts(),
    negative(),
    infeasible(integer=False),
    infeasible(integer=True),
    infeasible_once_branched(),
    *(choice(seed) for seed in range(6)),
)


def market_split(seed: int = 0, goods: int = 40, rows: int = 4) -> tuple[Known, np.ndarray]:
    """Choose goods of given total weights: tiny, and out of reach for branch and bound.

    The objective is 1 less the largest error, and could be up to 2 for all that an LP sees. There
    is a choice without an error, which comes with it: the optimum is 1.
    """
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 100, (rows, goods)).astype(float)
    model = LinearModel()
    d = model.add_columns(-100.0, 2.0)
    chosen = model.add_columns(np.zeros(goods), 1.0, integer=True)
    planted = rng.integers(0, 2, goods)
    wanted = weights @ planted
    error = np.ones((rows, 1))
    model.add_rows([(chosen, weights), (d, error)], -INFINITY, wanted + 1)
    model.add_rows([(chosen, -weights), (d, error)], -INFINITY, -wanted + 1)
    start = np.full(goods + 1, np.nan)
    start[chosen] = planted
    return Known("market split", model.arrays(), int(d[0]), Fraction(1)), start
