"""Occlusion: a square of the image turns black."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import sparse

from vhagar.perturbation.affine import AffinePiece
from vhagar.perturbation.base import Perturbation
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.formula import fixed_map
from vhagar.perturbation.ranges import GivenRange, as_integer_range, integers, span_text
from vhagar.perturbation.squares import require_inside, square_mask


@dataclass(frozen=True)
class Occlusion(Perturbation):
    """`occlusion(i,j,w)`: the square of width w with top-left corner (i, j) turns black.

    Each argument is a number or an interval. A smaller square is not a special case of a larger one
    (pixels between the two keep their values), so every position and width is a piece.
    """

    row: tuple[int, int]
    column: tuple[int, int]
    width: tuple[int, int]

    name = "occlusion"
    affine = True

    def __init__(self, row: GivenRange, column: GivenRange, width: GivenRange) -> None:
        object.__setattr__(self, "row", as_integer_range(row, "the row of occlusion"))
        object.__setattr__(self, "column", as_integer_range(column, "the column of occlusion"))
        object.__setattr__(self, "width", as_integer_range(width, "the width of occlusion"))

    def pieces(self, domain: Domain, clip: bool = True) -> tuple[AffinePiece, ...]:
        require_inside(domain, str(self), self.row, self.column, self.width)
        corners = product(integers(self.row), integers(self.column), integers(self.width))
        return tuple(_black_square(domain, i, j, w) for i, j, w in corners)

    def arguments(self) -> tuple[str, ...]:
        return span_text(self.row), span_text(self.column), span_text(self.width)


def _black_square(domain: Domain, row: int, column: int, width: int) -> AffinePiece:
    black = square_mask(domain, row, column, width)
    kept = sparse.csr_array(sparse.diags_array((~black).astype(np.float64)))
    facts = (("row", row), ("column", column), ("width", width))
    label = f"occlusion({row},{column},{width})"
    blackened = fixed_map(kept, np.where(black, domain.lower, 0.0), label)
    return AffinePiece(domain, label, blackened, facts=facts)
