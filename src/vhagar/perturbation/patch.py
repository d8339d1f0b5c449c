"""Patch: the pixels of a square change by up to `e`, independently of each other."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from vhagar.perturbation.base import Perturbation
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.linf import limit_of
from vhagar.perturbation.linf_ball import LinfBallPiece
from vhagar.perturbation.ranges import (
    GivenRange,
    as_integer_range,
    integers,
    interval_text,
    require_within,
    span_text,
)
from vhagar.perturbation.squares import require_inside, square_mask


@dataclass(frozen=True)
class Patch(Perturbation):
    """`patch([0,e],i,j,w)`: pixels of a square change by up to e, within the input range.

    A pixel of a patch may keep its value, so the widest square at each top-left corner covers all
    narrower ones: there is one piece for each corner.
    """

    limit: float
    row: tuple[int, int]
    column: tuple[int, int]
    width: tuple[int, int]

    name = "patch"

    def __init__(
        self, limit: GivenRange, row: GivenRange, column: GivenRange, width: GivenRange
    ) -> None:
        object.__setattr__(self, "limit", limit_of(limit, "the limit of patch"))
        object.__setattr__(self, "row", as_integer_range(row, "the row of patch"))
        object.__setattr__(self, "column", as_integer_range(column, "the column of patch"))
        object.__setattr__(self, "width", as_integer_range(width, "the width of patch"))

    def pieces(self, domain: Domain, clip: bool = True) -> tuple[LinfBallPiece, ...]:
        require_within((self.limit, self.limit), 0.0, domain.width, "the limit of patch")
        require_inside(domain, str(self), self.row, self.column, self.width)
        corners = product(integers(self.row), integers(self.column))
        return tuple(self._piece(domain, i, j) for i, j in corners)

    def _piece(self, domain: Domain, row: int, column: int) -> LinfBallPiece:
        width = self.width[1]
        mask = square_mask(domain, row, column, width)
        facts = (("row", row), ("column", column), ("width", width))
        label = f"patch({interval_text((0, self.limit))},{row},{column},{width})"
        return LinfBallPiece(domain, label, self.limit, mask, np.arange(domain.size), facts)

    def arguments(self) -> tuple[str, ...]:
        squares = (span_text(part) for part in (self.row, self.column, self.width))
        return (interval_text((0, self.limit)), *squares)
