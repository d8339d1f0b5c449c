"""Rows of pieces over input ranges that do not start at 0, where black and 0 are not the same."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar.perturbation import AbstractPiece, Contrast, Domain, Linf, Translation, compose
from vhagar.solver.linear_model import LinearModel

RANGES = [(0.0, 1.0), (-1.0, 1.0), (0.25, 1.0), (-2.0, -0.5), (5.0, 7.0), (-0.7, 0.4)]
every_range = pytest.mark.parametrize("ends", RANGES, ids=str)


def require_admitted(model: LinearModel, values: list[np.ndarray]) -> None:
    """The model's columns may have these values, up to rounding."""
    arrays, point = model.arrays(), np.concatenate(values)
    room = 1e-11 * (1 + abs(point).max())
    for low, value, high in (
        (arrays.row_lower, arrays.matrix @ point, arrays.row_upper),
        (arrays.column_lower, point, arrays.column_upper),
    ):
        assert (low <= value + room).all()
        assert (value <= high + room).all()


@every_range
@pytest.mark.parametrize("span", [(1.0, 3.0), (1.5, 4.0), (2.0, 2.0)], ids=str)
def test_a_clipped_contrast_admits_every_pixel_and_factor(
    ends: tuple[float, float], span: tuple[float, float]
) -> None:
    domain = Domain((1, 2, 3), *ends)
    (piece,) = Contrast(span).pieces(domain)
    model = LinearModel()
    piece.add_rows(model, model.add_columns(np.full(domain.size, domain.lower), domain.upper))
    x = np.linspace(domain.lower, domain.upper, domain.size)
    for factor in dict.fromkeys((span[0], (span[0] + span[1]) / 2, span[1])):
        moved = domain.lower + factor * (x - domain.lower)
        clipped = moved > domain.upper
        image = np.where(clipped, domain.upper, moved)
        factors = [] if span[0] == span[1] else [np.array([factor])]
        require_admitted(model, [x, image, *factors, moved, 1.0 * clipped])


def moved_ball(domain: Domain, limit: float) -> AbstractPiece:
    """One step down, and then every pixel by up to the limit: the first row is black before."""
    (piece,) = compose(Translation(1, 0), Linf(limit)).pieces(domain)
    return piece


@every_range
@pytest.mark.parametrize("share", [0.1, 0.6, 1.0])
def test_a_black_pixel_of_a_moved_ball_rises_by_the_limit(
    ends: tuple[float, float], share: float
) -> None:
    domain = Domain((1, 2, 3), *ends)
    limit = share * domain.width
    piece, black = moved_ball(domain, limit), np.arange(domain.size) < 3
    brightest = min(domain.lower + limit, domain.upper)
    x = np.full((1, domain.size), domain.lower)
    image = piece.apply(x, np.full((1, len(piece.parameter_bounds[0])), limit))[0]
    assert image[black] == pytest.approx(brightest)
    low, high = piece.image_bounds()
    assert (low == domain.lower).all()
    assert (high[black] >= brightest).all()
    assert high[black] == pytest.approx(brightest)
    assert (high[~black] == domain.upper).all()
    for k in range(domain.size):
        most, least = (piece.support(np.zeros((1, 6)), side * np.eye(6)[[k]]) for side in (1, -1))
        assert most.value[0] == pytest.approx(brightest if black[k] else domain.upper)
        assert -least.value[0] == pytest.approx(domain.lower)


@every_range
@pytest.mark.parametrize("share", [0.1, 0.6, 1.0])
def test_the_models_of_a_moved_ball_let_black_pixels_rise(
    ends: tuple[float, float], share: float
) -> None:
    domain = Domain((1, 2, 3), *ends)
    piece, black = moved_ball(domain, share * domain.width), np.arange(domain.size) < 3
    brightest = min(domain.lower + share * domain.width, domain.upper)
    model = LinearModel()
    columns = model.add_columns(np.full(domain.size, domain.lower), domain.upper)
    image = piece.add_rows(model, columns).x_p
    assert model.arrays().column_upper[image[black]] == pytest.approx(brightest)
    assert (model.arrays().column_upper[image[black]] >= brightest).all()
    relaxed = LinearModel()
    pair = piece.relax(relaxed)
    assert pair.x_p is not None
    arrays, weights = relaxed.arrays(), pair.x_p.matrix.toarray()
    most = np.where(weights > 0, weights * arrays.column_upper, weights * arrays.column_lower)
    reached = most.sum(axis=1) + pair.x_p.constant
    assert (reached[black] >= brightest).all()
    assert reached[black] == pytest.approx(brightest)
