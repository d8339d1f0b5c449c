"""Perturbed inputs that must lie in the domain, too: exact images, and parameters that lead there.

Whole numbers, equalities and ends of ranges hold exactly or not at all, so an image counts only if
it is known without any rounding. Inputs and changes on a grid have sums that float64 holds exactly.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy import sparse

from vhagar.array_types import Array
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.formula import Formula
from vhagar.perturbation.piece import AbstractPiece
from vhagar.solver.linear_model import Columns

# Binary digits of an entry on the grid: as many as float32 has.
_DIGITS = 24


def on_grid(domain: Domain, x: Array) -> Array:
    """The nearest inputs `(..., size)` on the grid."""
    units = _units(domain)
    return np.asarray(np.rint(x / units) * units)


def pairs_inside(
    piece: AbstractPiece, x: Array, parameters: Array
) -> tuple[tuple[Array, Array], ...]:
    """Two pairs near a given one, whose images are more likely to lie in the domain.

    In the first, the change is fitted to the input `(1, size)`; in the second, the input to the
    change.
    """
    moved = inside_input(piece, x[0], parameters)
    return tuple((each[None], inside_parameters(piece, each, parameters)) for each in (x[0], moved))


def inside_input(piece: AbstractPiece, x: Array, parameters: Array) -> Array:
    """The nearest input `(size,)` on the grid that may have its image in the domain's box."""
    formula, domain = piece.formula, piece.domain
    if formula is None or (formula.map.matrix.data != 1.0).any():
        return x
    low, high, units = domain.low.copy(), domain.high.copy(), _units(domain)
    if formula.product:
        factor, black = float(parameters[0]), domain.lower
        if factor <= 0:
            return x
        low, high = (black + (ends - black) / factor for ends in (low, high))
        low, high = np.maximum(low, domain.low), np.minimum(high, domain.high)
    else:
        shift = formula.map.directions @ parameters + formula.map.offset
        rows = np.flatnonzero(np.diff(formula.map.matrix.indptr) == 1)
        sources = formula.map.matrix[rows].indices
        np.maximum.at(low, sources, domain.low[rows] - shift[rows])
        np.minimum.at(high, sources, domain.high[rows] - shift[rows])
    units[domain.groups.whole] = 1.0
    low, high = np.ceil(low / units) * units, np.floor(high / units) * units
    return np.where(low <= high, np.clip(x, low, high), x)


def inside_parameters(piece: AbstractPiece, x: Array, parameters: Array) -> Array:
    """Parameters near the given ones that may put the image of `x` into the domain, exactly.

    A change of one entry alone is cut where the domain ends; changes of whole numbers are whole.
    """
    formula = piece.formula
    if formula is None or not len(parameters):
        return parameters
    found: Array = np.trunc(parameters * 2.0**_DIGITS) / 2.0**_DIGITS
    if formula.product:
        found = parameters.astype(np.float32).astype(np.float64)
    chosen, rows = _entries_of_their_own(formula)
    found[chosen] = _changes(piece.domain, formula, rows, x, parameters[chosen])
    return piece.project(found)


def image_is_exact(piece: AbstractPiece, x: Array, x_p: Array, parameters: Array) -> bool:
    """Whether `x_p` is the image of `x` without any rounding, as far as that can be known."""
    formula = piece.formula
    if formula is None or (formula.map.matrix.data != 1.0).any():
        return False  # the weights of a rotation are rounded
    images = _exact_image(formula, piece.domain, x, parameters)
    low, high = Fraction(piece.domain.lower), Fraction(piece.domain.upper)
    return all(
        Fraction(given) in ((exact, max(low, min(high, exact))) if formula.clip else (exact,))
        for given, exact in zip(x_p.tolist(), images, strict=True)
    )


def _exact_image(formula: Formula, domain: Domain, x: Array, parameters: Array) -> list[Fraction]:
    """The image before a clip."""
    inputs, chosen = list(map(Fraction, x.tolist())), list(map(Fraction, parameters.tolist()))
    if formula.product:
        black = Fraction(domain.lower)
        return [black + chosen[0] * (value - black) for value in inputs]
    images = list(map(Fraction, formula.map.offset.tolist()))
    for matrix, values in ((formula.map.matrix, inputs), (formula.map.directions, chosen)):
        part = sparse.coo_array(matrix)
        rows, columns = (places.tolist() for places in part.coords)
        for row, column, weight in zip(rows, columns, part.data.tolist(), strict=True):
            images[row] += Fraction(weight) * values[column]
    return images


def _units(domain: Domain) -> Array:
    """The grid's unit `(size,)` for every entry."""
    largest = np.maximum(abs(domain.low), abs(domain.high))
    return np.asarray(np.ldexp(1.0, np.frexp(largest)[1] - _DIGITS))


def _entries_of_their_own(formula: Formula) -> tuple[Columns, Columns]:
    """Parameters that are added to one entry, as no other is, and these entries."""
    moves = sparse.coo_array(formula.map.directions)
    rows, columns = moves.coords
    often = np.bincount(rows, minlength=formula.map.size)
    wide = np.bincount(columns, minlength=formula.map.count)
    alone = (moves.data == 1.0) & (often[rows] == 1) & (wide[columns] == 1)
    return columns[alone], rows[alone]


def _changes(domain: Domain, formula: Formula, rows: Columns, x: Array, changes: Array) -> Array:
    """Changes of entries as far as the domain reaches, on the grid or by whole numbers."""
    start = (formula.map.matrix @ x + formula.map.offset)[rows]
    changes = np.clip(start + changes, domain.low[rows], domain.high[rows]) - start
    units = np.where(np.isin(rows, domain.groups.whole), 1.0, _units(domain)[rows])
    # Towards no change, so that no limit is passed.
    return np.asarray(np.trunc(changes / units) * units)
