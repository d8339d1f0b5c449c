"""Squares in an image, with 1-based rows and columns, for occlusion and patch."""

from __future__ import annotations

import numpy as np

from vhagar.array_types import Mask
from vhagar.errors import InvalidInput
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.ranges import require_within

IntegerRange = tuple[int, int]


def require_inside(
    domain: Domain, name: str, rows: IntegerRange, columns: IntegerRange, widths: IntegerRange
) -> None:
    """Raise an error that names the limits unless every square of the ranges lies in the image."""
    _, height, width = domain.image
    require_within(rows, 1, height, f"the row of {name}", "rows count from 1")
    require_within(columns, 1, width, f"the column of {name}", "columns count from 1")
    if widths[0] < 1:
        raise InvalidInput(f"the width of {name} must be at least 1, not {widths[0]}")
    largest = min(height - rows[1], width - columns[1]) + 1
    if widths[1] > largest:
        raise InvalidInput(
            f"{name}: a square of width {widths[1]} at row {rows[1]}, column {columns[1]} leaves "
            f"the {height}x{width} image; the width can be at most {largest} there"
        )


def square_mask(domain: Domain, row: int, column: int, width: int) -> Mask:
    """The mask, flat and in every channel, of the square with this top-left corner."""
    mask = np.zeros(domain.image, dtype=np.bool_)
    mask[:, row - 1 : row - 1 + width, column - 1 : column - 1 + width] = True
    return mask.reshape(-1)
