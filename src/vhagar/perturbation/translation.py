"""Translation: the image moves by whole pixels, and pixels from outside are black."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import sparse

from vhagar.perturbation.affine import AffinePiece
from vhagar.perturbation.base import Perturbation
from vhagar.perturbation.domain import Domain
from vhagar.perturbation.formula import fixed_map
from vhagar.perturbation.ranges import (
    GivenRange,
    as_integer_range,
    integers,
    require_within,
    span_text,
)


@dataclass(frozen=True)
class Translation(Perturbation):
    """`translation(tx,ty)`: down by tx rows and right by ty columns (negative: up, left)."""

    rows: tuple[int, int]
    columns: tuple[int, int]

    name = "translation"
    affine = True

    def __init__(self, rows: GivenRange, columns: GivenRange) -> None:
        object.__setattr__(self, "rows", as_integer_range(rows, "tx of translation"))
        object.__setattr__(self, "columns", as_integer_range(columns, "ty of translation"))

    def pieces(self, domain: Domain, clip: bool = True) -> tuple[AffinePiece, ...]:
        _, height, width = domain.image
        require_within(self.rows, -height, height, "tx of translation", "the image's rows")
        require_within(self.columns, -width, width, "ty of translation", "the image's columns")
        moves = product(integers(self.rows), integers(self.columns))
        return tuple(_moved(domain, down, right) for down, right in moves)

    def arguments(self) -> tuple[str, ...]:
        return span_text(self.rows), span_text(self.columns)


def _moved(domain: Domain, down: int, right: int) -> AffinePiece:
    numbers = np.arange(domain.size).reshape(domain.image)
    _, height, width = domain.image
    to = numbers[:, max(down, 0) : height + min(down, 0), max(right, 0) : width + min(right, 0)]
    source = numbers[
        :, max(-down, 0) : height - max(down, 0), max(-right, 0) : width - max(right, 0)
    ]
    places = (to.reshape(-1), source.reshape(-1))
    matrix = sparse.csr_array((np.ones(to.size), places), shape=(domain.size, domain.size))
    black = np.full(domain.size, domain.lower)
    black[places[0]] = 0.0
    label = f"translation({down},{right})"
    facts = (("tx", down), ("ty", right))
    return AffinePiece(domain, label, fixed_map(matrix, black, label), facts=facts)
