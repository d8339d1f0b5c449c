"""The sources of a rotated image's pixels, and their interpolation weights.

The value of each pixel is looked up at a point of the original image, its source, by bilinear
interpolation of the four pixels around that point.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.array_types import Array

# Coordinates this close to a grid line count as on it, because cosines are not exact.
GRID_SNAP = 1e-9


def rotation_matrix(image: tuple[int, int, int], angle: float) -> sparse.csr_array:
    """The bilinear interpolation weights `(size, size)` of a clockwise rotation."""
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


def offsets(height: int, width: int) -> tuple[Array, Array]:
    """The offsets of each pixel of a plane from the centre, downwards and to the right."""
    row, column = np.divmod(np.arange(height * width), width)
    return row - (height - 1) / 2, column - (width - 1) / 2


def radius(image: tuple[int, int, int]) -> float:
    """The distance of the outermost pixel from the centre."""
    return float(np.hypot(*offsets(*image[1:])).max())


def sources(height: int, width: int, angle: float) -> tuple[Array, Array]:
    """The rows and columns of the sources of a plane's pixels, before snapping."""
    cosine, sine = _cosine_and_sine(angle)
    i, j = offsets(height, width)
    return i * cosine - j * sine + (height - 1) / 2, i * sine + j * cosine + (width - 1) / 2


def snap(coordinate: Array) -> Array:
    """Move coordinates that are next to a grid line onto it; their order is preserved."""
    nearest = np.round(coordinate)
    return np.where(abs(coordinate - nearest) < GRID_SNAP, nearest, coordinate)


_Index = NDArray[np.int64]


def _interpolation(height: int, width: int, angle: float) -> list[tuple[_Index, _Index, Array]]:
    """For each of the four neighbours: output pixels, source pixels, weights."""
    source_row, source_column = (snap(part) for part in sources(height, width, angle))
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


def _cosine_and_sine(angle: float) -> tuple[float, float]:
    quarter, rest = divmod(angle, 90)
    if rest == 0:
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[int(quarter) % 4]
    return math.cos(math.radians(angle)), math.sin(math.radians(angle))
