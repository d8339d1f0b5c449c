"""For the contract tests: points to try, exact images as fractions, and a solver's verdict."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import highspy
import numpy as np
import pytest
from scipy import sparse

from vhagar.perturbation import PERTURBATIONS, AbstractPiece
from vhagar.perturbation.interpolation import rotation_matrix
from vhagar.perturbation.relaxed import Expression
from vhagar.solver.linear_model import LinearModel
from vhagar.solver.scaling import Scaled

Points = tuple[np.ndarray, np.ndarray]

BUILT_IN = {kind.name for kind in PERTURBATIONS}


def kind_of(piece: AbstractPiece) -> str | None:
    """The perturbation that a piece belongs to; None for users' maps and compositions."""
    name = piece.label.split("(")[0]
    own = name in BUILT_IN and name != "features"  # which is an affine map
    return name if own and "+" not in piece.label else None


def points(piece: AbstractPiece, rng: np.random.Generator, count: int) -> Points:
    """Inputs and parameters: random ones, corners, and values right beside the ends."""
    size, ends = piece.domain.size, (piece.domain.lower, piece.domain.upper)
    inner = tuple(np.nextafter(end, np.mean(ends)) for end in ends)
    x = rng.uniform(*ends, (count, size))
    x[0::4] = rng.choice([*ends, *inner], x[0::4].shape)
    x[1::4] = np.where(rng.random(x[1::4].shape) < 0.3, x[1::4], rng.choice(ends))
    x[2], x[3] = ends
    low, high = piece.parameter_bounds
    parameters = rng.uniform(low, high, (count, low.size))
    parameters[1::3] = np.where(rng.random(parameters[1::3].shape) < 0.5, low, high)
    parameters[0], parameters[2] = low, high
    return x, piece.project(parameters)


def outsiders(piece: AbstractPiece, rng: np.random.Generator) -> Iterator[tuple[Points, bool]]:
    """Pairs outside the piece, and whether they are outside its relaxation as well."""
    low, width, size = piece.domain.lower, piece.domain.width, piece.domain.size
    step = 0.02 * width
    x = low + width * rng.permutation(np.linspace(0.02, 0.95, size))[None]
    middle = np.mean(piece.parameter_bounds, axis=0)[None]
    darkest, brightest = x.argmin(), x.argmax()

    def changed(pixel: int, value: float, start: np.ndarray = x) -> Points:
        image = piece.apply(start, middle)
        image[0, pixel] = value
        return start, image

    kind = kind_of(piece)
    image = piece.apply(x, middle)[0]
    if kind is None:
        # Beyond whatever parameters can do to a pixel; and, where two are moved alike, apart.
        low_end, high_end = (piece.apply(x, end[None])[0] for end in piece.parameter_bounds)
        for pixel in (darkest, brightest):
            reach = abs(high_end - low_end)[pixel] + step
            yield changed(pixel, max(low_end[pixel], high_end[pixel]) + reach), True
            yield changed(pixel, min(low_end[pixel], high_end[pixel]) - reach), True
        if piece.label == "tint":
            yield changed(0, image[0] + step / 100), True
    elif kind == "brightness":
        # Against the change, at the pixel that the clip touches last or first: no e explains it.
        up = piece.span[0] >= 0
        pixel = brightest if up else darkest
        yield changed(pixel, image[pixel] - step if up else image[pixel] + step), True
    elif kind == "contrast":
        yield changed(brightest, image[brightest] - step), piece.exact_rows
        yield changed(darkest, low + piece.span[1] * (x[0, darkest] - low) + step), True
        yield changed(5, low + piece.span[0] * (x[0, 5] - low) - step), True
        black = np.where(np.arange(size) == 3, low, x)
        yield changed(3, low - step, black), True
        yield changed(3, low + step, black), True
    elif kind in ("linf", "patch"):
        inside, outside = np.flatnonzero(piece.mask), np.flatnonzero(~piece.mask)
        reach = min(low + piece.limit, piece.domain.upper) + step
        black = np.full_like(x, low)
        yield changed(rng.choice(inside), reach, black), True
        yield changed(rng.choice(inside), low - step), True
        if outside.size:
            pixel = rng.choice(outside)
            yield changed(pixel, x[0, pixel] - step), True
    else:
        pixel = rng.integers(size)
        yield changed(pixel, image[pixel] + step), piece.exact_rows
        yield changed(pixel, image[pixel] - step), piece.exact_rows


def fractions(values: np.ndarray) -> np.ndarray:
    """The exact values of floats."""
    flat = [Fraction(float(value)) for value in values.reshape(-1)]
    return np.array(flat, dtype=object).reshape(values.shape)


def image_of(piece: AbstractPiece, x: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """The image of one `x` as the definition of the perturbation says, without rounding."""
    low, high = Fraction(piece.domain.lower), Fraction(piece.domain.upper)
    kind, facts = kind_of(piece), piece.describe(parameters)
    if kind is None:
        return _affine(piece, fractions(x), fractions(parameters))
    exact, amounts = fractions(x), fractions(parameters)
    if kind == "rotation":
        weights = rotation_matrix(piece.domain.image, facts["angle"])
        return _interpolated(weights.toarray(), exact, low)
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


def _affine(piece: AbstractPiece, x: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    if piece.free_pixels is not None:
        low, high = Fraction(piece.domain.lower), Fraction(piece.domain.upper)
        moved = np.array([x[k] if k >= 0 else low for k in piece.source], dtype=object)
        return np.clip(moved + parameters, low, high)
    affine = piece.map
    image = fractions(affine.matrix.toarray()) @ x + fractions(affine.offset)
    return image + fractions(affine.directions.toarray()) @ parameters if affine.count else image


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


def _interpolated(weights: np.ndarray, exact: np.ndarray, black: Fraction) -> np.ndarray:
    rows = fractions(weights)
    return np.array([row @ exact if any(row) else black for row in rows], dtype=object)


def solution(model: LinearModel) -> np.ndarray | None:
    """Values of the columns that satisfy all rows; None where there are none."""
    integer, arrays = model.arrays().integer, Scaled(model.arrays())
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
    lp.integrality_ = [kinds[int(flag)] for flag in integer]
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    assert solver.passModel(lp) == highspy.HighsStatus.kOk
    solver.run()
    status = solver.getModelStatus()
    assert status in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible)
    if status == highspy.HighsModelStatus.kInfeasible:
        return None
    return np.array(solver.getSolution().col_value) * arrays.column_scale


def tie(model: LinearModel, expression: Expression, values: np.ndarray) -> None:
    """Fix an expression in the columns of a model at these values."""
    columns, rest = np.arange(expression.matrix.shape[1]), values - expression.constant
    model.add_rows([(columns, expression.matrix)], rest, rest)


def rows_admit(piece: AbstractPiece, x: np.ndarray, x_p: np.ndarray) -> bool:
    """Whether the rows of a piece allow the pair `(x, x_p)`, according to a solver."""
    model = LinearModel()
    columns = model.add_columns(np.full(len(x), piece.domain.lower), piece.domain.upper)
    image = piece.add_rows(model, columns).x_p
    model.add_rows([(columns, 1.0)], x, x)
    model.add_rows([(image, 1.0)], x_p, x_p)
    return solution(model) is not None


def rows_say(piece: AbstractPiece, x: np.ndarray, x_p: np.ndarray) -> np.ndarray:
    """The parameters that a solver finds for a pair in the rows of a piece."""
    model = LinearModel()
    columns = model.add_columns(np.full(len(x), piece.domain.lower), piece.domain.upper)
    image = piece.add_rows(model, columns)
    model.add_rows([(columns, 1.0)], x, x)
    model.add_rows([(image.x_p, 1.0)], x_p, x_p)
    found = solution(model)
    assert found is not None
    return piece.project(image.parameters.value(found))


def relaxation_admits(piece: AbstractPiece, x: np.ndarray, x_p: np.ndarray) -> bool:
    model = LinearModel()
    pair = piece.relax(model)
    tie(model, pair.x, x)
    tie(model, pair.x_p, x_p)
    return solution(model) is not None


def effective(
    piece: AbstractPiece, x: np.ndarray, x_p: np.ndarray, parameters: np.ndarray
) -> np.ndarray:
    """The parameters of one pair, where those of free pixels end at the ends of the domain."""
    if piece.free_pixels is None:
        return parameters
    start = piece.formula.map.matrix @ x + piece.formula.map.offset
    return piece.project((x_p - start)[piece.free_pixels])


def stage_admits(
    piece: AbstractPiece, x: np.ndarray, parameters: np.ndarray, rng: np.random.Generator
) -> bool:
    """Whether the relaxation of a piece with a first linear layer allows what really happens."""
    model = LinearModel()
    x_p = piece.apply(x[None], parameters[None])[0]
    weight, bias = rng.normal(size=(3, len(x))), rng.normal(size=3)
    relaxed = piece.relax_stage(model, sparse.csr_array(weight), bias)
    tie(model, relaxed.x, x)
    tie(model, relaxed.first, weight @ x + bias)
    tie(model, relaxed.second, weight @ x_p + bias)
    if relaxed.x_p is not None:
        tie(model, relaxed.x_p, x_p)
    if relaxed.parameters is not None:
        tie(model, relaxed.parameters, effective(piece, x, x_p, parameters))
    return solution(model) is not None


class Tools:
    """The functions above, for tests."""

    points = staticmethod(points)
    outsiders = staticmethod(outsiders)
    fractions = staticmethod(fractions)
    image_of = staticmethod(image_of)
    rows_admit = staticmethod(rows_admit)
    rows_say = staticmethod(rows_say)
    relaxation_admits = staticmethod(relaxation_admits)
    stage_admits = staticmethod(stage_admits)
    effective = staticmethod(effective)


@pytest.fixture
def tools() -> type[Tools]:
    return Tools
