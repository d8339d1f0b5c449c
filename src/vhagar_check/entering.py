"""The unknowns of the input's change: the changes, one for all, or the inputs behind them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from vhagar_check.errors import Rejected
from vhagar_check.layers import UNDERFLOW, Floats, Indices, gamma
from vhagar_check.pieces import Piece
from vhagar_check.spectral import change_box

# In a larger image, changes are not tied to the inputs.
_MOST_TIED = 2**13


@dataclass(frozen=True, eq=False)
class Entering:
    """Unknowns in boxes, `low` to `high`, one for each entry of `inputs`, and how the change of the
    input depends on them.

    Without a `matrix` they are the changes of those entries. With one, they are the inputs, or the
    first entry's change where it is that of all; the changes of the entries `changed` are `matrix`
    times the unknowns, up to `slips` in each entry.
    """

    changed: Indices
    inputs: Indices
    low: Floats
    high: Floats
    matrix: Floats | None = None
    slips: Floats | None = None

    @classmethod
    def of(cls, piece: Piece, tied: bool) -> Entering:
        """The unknowns of a piece; `Rejected` if they are to be tied and cannot be."""
        changed = np.flatnonzero(piece.rises | piece.falls)
        if not tied:
            low, high = change_box(piece, changed)
            return cls(changed, changed, low[changed], high[changed])
        small = piece.domain.size <= _MOST_TIED
        if small and piece.changes_alike:
            first = np.arange(1)
            low, high = change_box(piece, first)
            alike = np.ones((len(changed), 1))
            return cls(changed, first, low[first], high[first], alike, np.zeros_like(alike))
        linear = piece.linear_change() if small else None
        if linear is None:
            raise Rejected("a proof ties the change to the input where it is no linear function")
        matrix, slips = linear[0][changed], linear[1][changed]
        inputs = np.flatnonzero((matrix != 0).any(axis=0) | (slips != 0).any(axis=0))
        low, high = (np.full(len(inputs), end) for end in (piece.domain.low, piece.domain.high))
        return cls(changed, inputs, low, high, matrix[:, inputs], slips[:, inputs])

    @property
    def is_exact(self) -> bool:
        """Whether the changes are exactly what is stated of the unknowns."""
        return self.slips is None or not self.slips.any()

    def pulled_exactly(self, values: list[Fraction]) -> list[Fraction]:
        """Turn coefficients on all changes into coefficients on the unknowns, if they are exact."""
        if self.matrix is None:
            return [values[k] for k in self.inputs.tolist()]
        own = [values[k] for k in self.changed.tolist()]
        columns = [[Fraction(w) for w in column] for column in self.matrix.T.tolist()]
        return [
            sum((w * v for w, v in zip(column, own, strict=True)), Fraction(0))
            for column in columns
        ]

    def pulled(
        self, values: Floats, sizes: Floats, errors: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Turn coefficients on all changes into coefficients on the unknowns, with their bounds.

        `sizes` bound the absolute values of the coefficients, and `errors` their errors.
        """
        values, sizes, errors = (part[:, self.changed] for part in (values, sizes, errors))
        if self.matrix is None or self.slips is None:
            return values, sizes, errors
        large = abs(self.matrix) + self.slips
        whole, terms = sizes @ large, len(self.changed) + 8
        off = errors @ large + sizes @ self.slips + gamma(terms) * whole
        off = off * (1 + 1e-6) + UNDERFLOW * terms
        return values @ self.matrix, (whole + off) * (1 + 1e-6), off
