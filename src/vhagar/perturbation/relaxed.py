"""Inputs and images as linear expressions in the columns of a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from vhagar.array_types import Array
from vhagar.perturbation.domain import Domain
from vhagar.solver.linear_model import Columns, LinearModel

# Share of a zonotope's residual that proposed inputs keep from its ends, so that they are found
# inside despite the solver's tolerance.
SPARE = 1e-6


@dataclass(frozen=True, eq=False)
class Expression:
    """`matrix @ columns + constant`, where the columns are all columns of a model so far."""

    matrix: sparse.csr_array
    constant: Array

    def value(self, columns: Array) -> Array:
        """The value of the expression; the model may have got more columns since."""
        result: Array = self.matrix @ columns[: self.matrix.shape[1]] + self.constant
        return result

    def then(self, matrix: sparse.csr_array, bias: Array, width: int) -> Expression:
        """The expression `matrix @ self + bias` in a model of `width` columns."""
        wide = self.matrix.copy()
        wide.resize((wide.shape[0], width))
        return Expression(sparse.csr_array(matrix @ wide), matrix @ self.constant + bias)


def picked(columns: Columns, width: int) -> Expression:
    """The expression of some columns of a model that has `width` of them."""
    count = len(columns)
    pick = sparse.csr_array((np.ones(count), (np.arange(count), columns)), shape=(count, width))
    return Expression(pick, np.zeros(count))


def constants(values: Array, width: int) -> Expression:
    """The expression of numbers that do not depend on the columns."""
    return Expression(sparse.csr_array((len(values), width)), np.array(values))


def add_domain_rows(model: LinearModel, domain: Domain, x: Expression) -> None:
    """Restrict a model's inputs to the domain's box, where their columns only have the range."""
    rows = np.flatnonzero(domain.restricted)
    if rows.size:
        columns = np.arange(x.matrix.shape[1])
        rest = x.constant[rows]
        model.add_rows(
            [(columns, x.matrix[rows])], domain.low[rows] - rest, domain.high[rows] - rest
        )


def add_condition_rows(model: LinearModel, domain: Domain, x: Expression) -> None:
    """Add the linear rows of a domain to a model, for its inputs."""
    rows = domain.rows
    if rows is not None:
        rest: Array = rows.matrix @ x.constant
        columns = np.arange(x.matrix.shape[1])
        block = sparse.csr_array(rows.matrix @ x.matrix)
        model.add_rows([(columns, block)], rows.low - rest, rows.high - rest)


@dataclass(frozen=True, eq=False)
class ZonotopeRows:
    """The coordinates of a zonotope as columns, and the rows that keep inputs near them."""

    coordinates: Columns
    rows: Columns
    small: bool


def add_zonotope_rows(
    model: LinearModel, domain: Domain, x: Expression, spare: float = 0.0
) -> ZonotopeRows | None:
    """Add the zonotope of a domain to a model; None if there is none.

    An entry whose range lies within the residual of all coordinates needs no row. `spare` is a
    share of the residual that inputs keep from its ends.
    """
    zonotope = domain.zonotope
    if zonotope is None:
        return None
    reach = zonotope.ranges @ abs(zonotope.components)
    inner = reach - zonotope.residual
    binding = (domain.high > zonotope.mean - inner) | (domain.low < zonotope.mean + inner)
    entries = np.flatnonzero(binding & (reach > 0))
    every = np.arange(x.matrix.shape[1])
    z = model.add_columns(-zonotope.ranges, zonotope.ranges)
    moved = sparse.csr_array(-zonotope.components.T[entries])
    middle = zonotope.mean[entries] - x.constant[entries]
    residual = (1 - spare) * zonotope.residual[entries]
    blocks = [(every, x.matrix[entries]), (z, moved)]
    rows = model.add_rows(blocks, middle - residual, middle + residual)
    return ZonotopeRows(z, rows, zonotope.small)


def add_conditions(model: LinearModel, domain: Domain, x: Columns) -> None:
    """Add all conditions of a domain except ranges, on the columns of inputs."""
    inputs = picked(x, model.column_count)
    add_condition_rows(model, domain, inputs)
    add_zonotope_rows(model, domain, inputs)
    whole = domain.groups.whole
    if len(whole):
        values = model.add_columns(domain.low[whole], domain.high[whole], integer=True)
        model.add_rows([(x[whole], 1.0), (values, -1.0)], 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class ModelImage:
    """The columns of `x_p` in a model, and the expression of the parameters."""

    x_p: Columns
    parameters: Expression


@dataclass(frozen=True, eq=False)
class RelaxedPair:
    """Input, image and parameters of a linear relaxation.

    `parameters` is None if the relaxation leaves them out.
    """

    x: Expression
    x_p: Expression
    parameters: Expression | None


@dataclass(frozen=True, eq=False)
class RelaxedInput:
    """A linear relaxation of a piece, and the outputs of the first linear stage in both copies.

    At least one of the perturbed input and the parameters is given. Where pixels have corners,
    `pixels` `(size, corners - 1)` are the weights of all corners but the first.
    """

    x: Expression
    x_p: Expression | None
    parameters: Expression | None
    first: Expression
    second: Expression
    pixels: Columns | None = None
    zonotope: ZonotopeRows | None = None


def add_weights(model: LinearModel, size: int, rest: int) -> Columns:
    """Add weights of all corners but the first, whose weight is 1 minus the sum of the others."""
    columns = model.add_columns(np.zeros(size * rest), 1.0)
    per_pixel = sparse.csr_array(sparse.kron(sparse.eye_array(size), np.ones((1, rest))))
    model.add_rows([(columns, per_pixel)], 0.0, 1.0)
    return columns.reshape(size, rest)


def combination(pixels: Columns, points: Array) -> Expression:
    """Every pixel as a convex combination of the same few points."""
    size, steps = len(pixels), points[1:] - points[0]
    matrix = sparse.csr_array(sparse.kron(sparse.eye_array(size), steps[None]))
    return Expression(matrix, np.full(size, points[0]))
