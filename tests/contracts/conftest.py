"""Oracles for the contract tests: exact images in rational arithmetic, and a solver's verdict."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import highspy
import numpy as np
import pytest

from vhagar.linear import LinearModel
from vhagar.perturbation import AbstractPiece


def fractions(values: np.ndarray) -> np.ndarray:
    """The exact values of floats."""
    flat = [Fraction(float(value)) for value in values.reshape(-1)]
    return np.array(flat, dtype=object).reshape(values.shape)


def image_of(piece: AbstractPiece, x: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """The image of one `x` as the definition of the perturbation says, without rounding."""
    low, high = Fraction(piece.domain.lower), Fraction(piece.domain.upper)
    kind, facts = piece.label.split("(")[0], piece.describe(parameters)
    exact, amounts = fractions(x), fractions(parameters)
    if kind == "rotation":
        return _sparse_product(piece, exact)
    if kind in ("occlusion", "translation"):
        return _moved(piece, exact, low, facts)
    if kind == "contrast":
        image = low + amounts[0] * (exact - low)
        return np.clip(image, low, high) if piece.clip else image
    if kind == "brightness":
        image = exact + amounts[0]
        return np.clip(image, low, high) if piece.clip else image
    assert kind in ("linf", "patch"), f"write down what {kind} means"
    image = exact.copy()
    image[_square(piece, facts)] += amounts
    return np.clip(image, low, high)


def _square(piece: AbstractPiece, facts: dict[str, object]) -> np.ndarray:
    chosen = np.zeros(piece.domain.image, dtype=bool)
    top, left = facts.get("row", 1), facts.get("column", 1)
    side = facts.get("width", max(piece.domain.image))
    for _, row, column in np.ndindex(*piece.domain.image):
        chosen[:, row, column] = top <= row + 1 < top + side and left <= column + 1 < left + side
    return chosen.reshape(-1)


def _moved(
    piece: AbstractPiece, exact: np.ndarray, black: Fraction, facts: dict[str, object]
) -> np.ndarray:
    if "width" in facts:
        return np.where(_square(piece, facts), black, exact)
    image = exact.reshape(piece.domain.image)
    result = np.full(piece.domain.image, black, dtype=object)
    for channel, row, column in np.ndindex(*piece.domain.image):
        source = row - facts["tx"], column - facts["ty"]
        if 0 <= source[0] < image.shape[1] and 0 <= source[1] < image.shape[2]:
            result[channel, row, column] = image[(channel, *source)]
    return result.reshape(-1)


def _sparse_product(piece: AbstractPiece, exact: np.ndarray) -> np.ndarray:
    weights = fractions(piece.matrix.toarray())
    black = Fraction(piece.domain.lower)
    return np.array([row @ exact if any(row) else black for row in weights], dtype=object)


def has_solution(model: LinearModel) -> bool:
    arrays = model.arrays()
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = arrays.matrix.shape
    lp.col_cost_ = np.zeros(lp.num_col_)
    lp.col_lower_, lp.col_upper_ = arrays.column_lower, arrays.column_upper
    lp.row_lower_, lp.row_upper_ = arrays.row_lower, arrays.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = arrays.matrix.indptr
    lp.a_matrix_.index_ = arrays.matrix.indices
    lp.a_matrix_.value_ = arrays.matrix.data
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    lp.integrality_ = [kinds[int(flag)] for flag in arrays.integer]
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    assert solver.passModel(lp) == highspy.HighsStatus.kOk
    solver.run()
    status = solver.getModelStatus()
    assert status in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible)
    return status == highspy.HighsModelStatus.kOptimal


@pytest.fixture
def exact() -> Callable[[np.ndarray], np.ndarray]:
    return fractions


@pytest.fixture
def exact_image() -> Callable[[AbstractPiece, np.ndarray, np.ndarray], np.ndarray]:
    return image_of


@pytest.fixture
def admits() -> Callable[[AbstractPiece, np.ndarray, np.ndarray], bool]:
    """Whether the rows of a piece allow the pair `(x, x_p)`, according to a solver."""

    def solve(piece: AbstractPiece, x: np.ndarray, x_p: np.ndarray) -> bool:
        model = LinearModel()
        size = piece.domain.size
        columns = model.add_columns(np.full(size, piece.domain.lower), piece.domain.upper)
        image = piece.add_rows(model, columns)
        model.add_rows([(columns, 1.0)], x, x)
        model.add_rows([(image, 1.0)], x_p, x_p)
        return has_solution(model)

    return solve
