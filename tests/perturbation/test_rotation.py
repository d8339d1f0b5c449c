"""Rotation: interpolation weights, exact quarters, and the direction of the turn."""

from __future__ import annotations

import numpy as np
import pytest

from vhagar.perturbation import Domain, Rotation
from vhagar.perturbation.interpolation import rotation_matrix

SHAPES = [(1, 5, 5), (1, 4, 4), (3, 3, 3), (1, 3, 6), (2, 4, 5), (1, 1, 1)]
ANGLES = [0.001, 1, 10, 30, 45, 89.999, 123.4, 200, 359, -5, -77.7, -181]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("angle", ANGLES)
def test_each_pixel_is_black_or_an_average(shape: tuple[int, int, int], angle: float) -> None:
    matrix = rotation_matrix(shape, angle)
    assert ((matrix.data > 0) & (matrix.data <= 1)).all()
    sums = matrix.sum(axis=1)
    empty = np.diff(matrix.indptr) == 0
    assert sums[~empty] == pytest.approx(1, abs=1e-15)
    assert (np.diff(matrix.indptr) <= 4).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("angle", [0, 360, -360])
def test_a_full_turn_is_the_identity(shape: tuple[int, int, int], angle: float) -> None:
    assert (rotation_matrix(shape, angle).toarray() == np.eye(np.prod(shape))).all()


@pytest.mark.parametrize("shape", [(1, 5, 5), (1, 4, 4), (3, 3, 3)])
@pytest.mark.parametrize(
    ("angle", "quarters"), [(90, 1), (180, 2), (270, 3), (-90, 3), (-180, 2), (-270, 1)]
)
def test_quarter_turns_are_permutations(
    shape: tuple[int, int, int], angle: float, quarters: int
) -> None:
    image = np.random.default_rng(3).random(shape)
    (piece,) = Rotation(angle).pieces(Domain(shape))
    turned = piece.apply(image.reshape(1, -1), np.zeros((1, 0))).reshape(shape)
    # numpy counts quarters anticlockwise.
    assert (turned == np.rot90(image, -quarters, axes=(1, 2))).all()
    assert piece.exact_apply


@pytest.mark.parametrize("shape", [(1, 3, 6), (2, 5, 2)])
def test_half_a_turn_is_a_permutation_of_every_image(shape: tuple[int, int, int]) -> None:
    image = np.random.default_rng(4).random(shape)
    turned = (rotation_matrix(shape, 180) @ image.reshape(-1)).reshape(shape)
    assert (turned == image[:, ::-1, ::-1]).all()


def test_the_centre_stays_and_the_corners_turn_black() -> None:
    image = np.ones((1, 5, 5))
    turned = (rotation_matrix((1, 5, 5), 45) @ image.reshape(-1)).reshape(5, 5)
    assert turned[2, 2] == 1.0
    assert turned[[0, 0, 4, 4], [0, 4, 0, 4]].tolist() == [0.0] * 4


def test_positive_angles_turn_clockwise() -> None:
    # A bright pixel straight above the centre moves to the right.
    image = np.zeros((1, 9, 9))
    image[0, 1, 4] = 1.0
    turned = (rotation_matrix((1, 9, 9), 30) @ image.reshape(-1)).reshape(9, 9)
    rows, columns = np.indices((9, 9))
    assert (turned * columns).sum() / turned.sum() == pytest.approx(4 + 3 * 0.5, abs=0.2)
    assert (turned * rows).sum() / turned.sum() == pytest.approx(4 - 3 * np.sqrt(0.75), abs=0.2)


def test_interpolation_by_hand() -> None:
    # The pixel right of the centre of a 3x3 image looks up at (1 - sin, 1 + cos).
    weights = rotation_matrix((1, 3, 3), 30).toarray()[5].reshape(3, 3)
    up, right = np.sin(np.pi / 6), np.cos(np.pi / 6)
    expected = np.zeros((3, 3))
    expected[0, 1:] = up * (1 - right), up * right
    expected[1, 1:] = (1 - up) * (1 - right), (1 - up) * right
    assert weights == pytest.approx(expected)


def test_tiny_angles_are_nearly_the_identity() -> None:
    # Pixels on the border look up just outside of the image, and so turn black.
    inner = np.zeros((1, 6, 6), dtype=bool)
    inner[0, 1:-1, 1:-1] = True
    difference = rotation_matrix((1, 6, 6), 0.01).toarray() - np.eye(36)
    assert abs(difference[inner.reshape(-1)]).max() < 1e-3
