"""Marabou's question says what ours says: fix the input, and the network's own numbers fit it."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar import Domain, InvalidInput, Network, Problem
from vhagar.baseline.query import Query, delta_query
from vhagar.network import Affine, confidence
from vhagar.perturbation import Zonotope, linear_rows

from ..oracle.cases import KINDS, Case

# Of every kind of perturbation a few cases; ranges of contrasts and of angles are not linear.
LINEAR = [Case(number) for number in range(200) if not Case(number).of_ranges][::5]


def filled(query: Query, x: np.ndarray, x_p: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """All columns, from the inputs alone: every row with one unknown defines it."""
    arrays = query.arrays
    values = np.full(len(arrays.column_lower), np.nan)
    for column in query.inputs:
        if column in query.image.x_p:
            values[column] = x_p[np.flatnonzero(query.image.x_p == column)[0]]
        elif arrays.column_lower[column] == arrays.column_upper[column]:
            values[column] = arrays.column_lower[column]
        else:
            values[column] = parameters[0] if len(parameters) == 1 else np.nan
    values[query.x] = x
    relus = dict(query.relus)
    matrix = arrays.matrix
    waiting = list(np.flatnonzero(arrays.row_lower == arrays.row_upper))
    while True:
        for before, after in relus.items():
            values[after] = max(values[before], 0.0)
        left = []
        for row in waiting:
            part = slice(matrix.indptr[row], matrix.indptr[row + 1])
            columns, weights = matrix.indices[part], matrix.data[part]
            unknown = np.isnan(values[columns])
            if unknown.sum() != 1:
                left.append(row)
                continue
            rest = (weights * values[columns])[~unknown].sum()
            values[columns[unknown]] = (arrays.row_lower[row] - rest) / weights[unknown]
        if len(left) == len(waiting):
            return values
        waiting = left


def fits(query: Query, values: np.ndarray) -> bool:
    """Whether the values keep all bounds and rows, up to rounding."""
    arrays = query.arrays
    sums = arrays.matrix @ values
    slack = 1e-9 * (1 + abs(arrays.matrix) @ abs(values))
    rows = (sums >= arrays.row_lower - slack) & (sums <= arrays.row_upper + slack)
    columns = (values >= arrays.column_lower - 1e-9) & (values <= arrays.column_upper + 1e-9)
    return bool(rows.all() and columns.all())


@pytest.mark.parametrize("case", LINEAR, ids=str)
def test_every_column_is_an_input_or_defined_once(case: Case) -> None:
    problem = case.problem()
    for piece in problem.pieces:
        query = delta_query(problem, piece, problem.targets[0], 0.0)
        equations = int((query.arrays.row_lower == query.arrays.row_upper).sum())
        defined = equations + len(query.relus)
        assert len(set(query.inputs.tolist())) == len(query.inputs)
        assert len(query.inputs) + defined == len(query.arrays.column_lower)


@pytest.mark.parametrize("case", LINEAR, ids=str)
def test_an_input_fits_exactly_if_it_is_an_answer(case: Case) -> None:
    problem, rng = case.problem(), np.random.default_rng(case.number)
    target = problem.targets[0]
    for piece in problem.pieces:
        low, high = piece.parameter_bounds
        for _ in range(8):
            x = rng.uniform(problem.domain.lower, problem.domain.upper, problem.domain.size)
            x = np.where(rng.random(x.shape) < 0.5, problem.domain.lower, x)
            parameters = rng.uniform(low, high)
            x_p = piece.apply(x[None], parameters[None])[0]
            sure, margin = (
                float(confidence(problem.network.forward(one[None]), label)[0])
                for one, label in ((x, problem.source), (x_p, target))
            )
            size = abs(problem.network.forward(np.stack([x, x_p]))).max()
            for delta in (sure - 0.01 * size, sure + 0.01 * size):
                query = delta_query(problem, piece, target, delta)
                values = filled(query, x, x_p, parameters)
                assert not np.isnan(values).any()  # everything follows from the inputs
                np.testing.assert_allclose(values[query.image.x_p], x_p, atol=1e-12)
                if abs(margin) > 1e-6 * size:
                    assert fits(query, values) == (delta < sure and margin > 0)


def test_every_linear_kind_is_asked_about() -> None:
    assert {case.kind for case in LINEAR} == set(KINDS) - {"contrasts", "rotations"}


def test_the_same_for_darkening_and_clipping(hidden: Network) -> None:
    problem = Problem(hidden, perturbation="brightness([-0.5,-0.25])", source=0, targets=1)
    (piece,) = problem.pieces
    x, parameters = np.array([1.0, 0.125]), np.array([-0.375])
    query = delta_query(problem, piece, 1, 0.6)
    values = filled(query, x, np.array([0.625, 0.0]), parameters)
    np.testing.assert_allclose(values[query.image.x_p], [0.625, 0.0])
    assert not fits(query, values)  # 0.625 - 0 is still more than 1/4
    x = np.array([0.5, 0.25])  # confidence 0, and darker it is (0.125, 0)
    query = delta_query(problem, piece, 1, -0.01)
    values = filled(query, x, np.array([0.125, 0.0]), parameters)
    np.testing.assert_allclose(values[query.image.x_p], [0.125, 0.0])
    assert fits(query, values)


@pytest.mark.parametrize("text", ["contrast([1,2])", "rotation([0,10])"])
def test_products_of_unknowns_are_refused(text: str) -> None:
    shape, rng = (1, 2, 2), np.random.default_rng(0)
    network = Network((Affine(rng.normal(size=(2, 4)), np.zeros(2), shape, (2,)),), shape)
    problem = Problem(network, perturbation=text, source=0, targets=1)
    with pytest.raises(InvalidInput, match="linear constraints only"):
        delta_query(problem, problem.pieces[0], 1, 0.5)


def test_conditions_of_the_domain_are_part_of_the_question(hidden: Network) -> None:
    """Coordinates of a zonotope are inputs; whole numbers are not asked for."""
    row = linear_rows({0: 1.0, 1: 1.0}, 2, at_most=1.25)
    zonotope = Zonotope([0.5, 0.5], [[1.0, -1.0]], [0.5], [0.25, 0.25])
    domain = Domain((1, 1, 2), integer=[1], rows=row, zonotope=zonotope)
    problem = Problem(hidden, perturbation="linf(0.2)", source=0, targets=1, domain=domain)
    (piece,) = problem.pieces
    query = delta_query(problem, piece, 1, -9.0)
    (z,) = [k for k in query.inputs if query.arrays.column_upper[k] == 0.5]
    rows = [0, 1, 2]  # the row, and two of the zonotope
    for x, own, inside in (
        ([1.0, 0.25], 0.4, True),
        ([1.0, 0.3], 0.4, False),  # the row
        ([0.2, 0.2], 0.0, False),  # the zonotope
        ([0.9, 0.5], 0.0, False),  # other coordinates would do
        ([0.9, 0.25], 0.2, True),
    ):
        values = np.zeros(len(query.arrays.column_lower))
        values[query.x], values[z] = x, own
        sums = query.arrays.matrix[rows] @ values
        low, high = query.arrays.row_lower[rows], query.arrays.row_upper[rows]
        assert bool(((sums >= low - 1e-9) & (sums <= high + 1e-9)).all()) == inside
