"""The image turns about its centre, with bilinear interpolation.

The paper's appendix swaps the two axes (at 0 degrees it transposes) and names three different
centres. Here the centre is the centre of the pixel grid, 0 degrees changes nothing, and 90 degrees
is an exact permutation of a square image. Positive angles turn clockwise, as in the paper with its
axes put right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.errors import InvalidInput
from vhagar.perturbation.affine import AffinePiece
from vhagar.perturbation.base import Domain, Perturbation
from vhagar.perturbation.ranges import GivenRange, as_range, number, require_within, span_text

# Coordinates this close to a grid line lie on it; cosines are not exact.
_GRID_SNAP = 1e-9


@dataclass(frozen=True)
class Rotation(Perturbation):
    """`rotation(theta)`: by theta degrees, clockwise. Pixels from outside the image are black."""

    angle: tuple[float, float]

    name = "rotation"

    def __init__(self, angle: GivenRange) -> None:
        object.__setattr__(self, "angle", as_range(angle, "the angle of rotation"))

    def pieces(self, domain: Domain, clip: bool = True) -> tuple[AffinePiece, ...]:
        require_within(self.angle, -360, 360, "the angle of rotation", "degrees")
        if self.angle[0] != self.angle[1]:
            raise InvalidInput(
                f"{self}: ranges of angles are not supported yet; give one angle, such as "
                f"rotation({number(self.angle[0])}), or verify several angles one by one"
            )
        angle = self.angle[0]
        matrix = rotation_matrix(domain.image, angle)
        return (AffinePiece(domain, str(self), matrix, (("angle", angle),)),)

    def arguments(self) -> tuple[str, ...]:
        return (span_text(self.angle),)


def rotation_matrix(image: tuple[int, int, int], angle: float) -> sparse.csr_array:
    """The bilinear interpolation weights `(size, size)` of a clockwise turn."""
    channels, height, width = image
    outputs, inputs, weights = [], [], []
    for output, source, weight in _interpolation(height, width, angle):
        outputs.append(output)
        inputs.append(source)
        weights.append(weight)
    plane = sparse.coo_array(
        (np.concatenate(weights), (np.concatenate(outputs), np.concatenate(inputs))),
        shape=(height * width, height * width),
    )
    matrix = sparse.csr_array(sparse.block_diag([plane] * channels, format="csr"))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


_Index = NDArray[np.int64]


def _interpolation(
    height: int, width: int, angle: float
) -> list[tuple[_Index, _Index, NDArray[np.float64]]]:
    """For each of the four neighbours: output pixels, source pixels, weights."""
    cosine, sine = _cosine_and_sine(angle)
    row, column = np.divmod(np.arange(height * width), width)
    i, j = row - (height - 1) / 2, column - (width - 1) / 2
    source_row = _snap(i * cosine - j * sine + (height - 1) / 2)
    source_column = _snap(i * sine + j * cosine + (width - 1) / 2)
    top, left = np.floor(source_row), np.floor(source_column)
    down, right = source_row - top, source_column - left
    inside = (top >= 0) & (left >= 0)
    inside &= (np.ceil(source_row) <= height - 1) & (np.ceil(source_column) <= width - 1)
    found = []
    for below, row_weight in ((0, 1 - down), (1, down)):
        for beside, column_weight in ((0, 1 - right), (1, right)):
            weight = row_weight * column_weight
            used = inside & (weight > 0)
            source = (top + below) * width + left + beside
            outputs = np.flatnonzero(used)
            found.append((outputs, source[used].astype(np.int64), weight[used]))
    return found


def _snap(coordinate: NDArray[np.float64]) -> NDArray[np.float64]:
    nearest = np.round(coordinate)
    return np.where(abs(coordinate - nearest) < _GRID_SNAP, nearest, coordinate)


def _cosine_and_sine(angle: float) -> tuple[float, float]:
    quarter, rest = divmod(angle, 90)
    if rest == 0:
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[int(quarter) % 4]
    return math.cos(math.radians(angle)), math.sin(math.radians(angle))
