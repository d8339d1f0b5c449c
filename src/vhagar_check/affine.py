"""Pieces that are affine maps `x_p = A x + B e + c`, and L-infinity balls around moved pixels.

The support of an affine map is a sum of maxima: one for each pixel, with coefficients `a + A'b`,
and one for each parameter, with `B'b`. Clipping is not part of it (see `clipping`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.layers import HALF_ULP, TINY, UNDERFLOW, Floats, gamma
from vhagar_check.pieces import Domain, Mask, Piece, everywhere
from vhagar_check.pixelwise import linf_ball
from vhagar_check.sparse import Sparse

# Exact arithmetic decides whether pixels rise or fall, for at most this many entries of rows.
_MOST_EXACT = 2**20


@dataclass(frozen=True, eq=False)
class BoxAffine(Piece):
    """`x_p = matrix x + directions e + offset`, `lower <= e <= upper`.

    Weights of the matrix other than 0 and 1 may be wrong by `error`. If they may, `first` is the
    piece that has this matrix and this offset, and whose images are known better.
    """

    domain: Domain
    matrix: Sparse
    directions: Sparse
    offset: Floats
    lower: Floats
    upper: Floats
    error: float = 0.0
    first: Piece | None = None
    stays = False

    def __post_init__(self) -> None:
        least, most = self.matrix.extremes(*self.domain.inputs)
        under, over = self.directions.extremes(self.lower, self.upper)
        size = max(abs(self.domain.low), abs(self.domain.high))
        moved = self.directions.absolute().times(np.maximum(abs(self.lower), abs(self.upper)))
        reach = self.matrix.absolute().times(np.full(self.domain.size, size)) + moved
        reach = (reach + abs(self.offset)) * (1 + 1e-9)
        room = self._row_rounding() * reach + self.error * size * self.matrix.counts + TINY
        room = np.where(self._copied(), 0.0, room)
        image = least + under + self.offset - room, most + over + self.offset + room
        object.__setattr__(self, "_reach", reach)
        object.__setattr__(self, "_room", room)
        object.__setattr__(self, "image", image)
        rises, falls = self._changes()
        object.__setattr__(self, "rises", rises)
        object.__setattr__(self, "falls", falls)

    _reach: Floats = None  # type: ignore[assignment]
    _room: Floats = None  # type: ignore[assignment]

    def _row_rounding(self) -> Floats:
        terms = self.matrix.counts + self.directions.counts + 8
        return np.asarray(2 * gamma(1) * terms, dtype=np.float64)

    def _copied(self) -> Mask:
        """Mark entries of the image that need no arithmetic: a copied pixel or a constant."""
        ones = np.bincount(self.matrix.row, self.matrix.weight != 1.0, self.domain.size) == 0
        one = (self.matrix.counts == 1) & ones & (self.offset == 0)
        return np.asarray((one | (self.matrix.counts == 0)) & (self.directions.counts == 0))

    def _changes(self) -> tuple[Mask, Mask]:
        """Find the pixels that can rise and fall; exactly, where rounding could decide it."""
        low, high = everywhere(self.domain, self.domain.low, self.domain.high)
        ends = self.domain.low, self.domain.high
        diagonal = np.zeros(self.domain.size)
        own = self.matrix.row == self.matrix.column
        diagonal[self.matrix.row[own]] = self.matrix.weight[own]
        others = Sparse(
            self.matrix.shape,
            self.matrix.row[~own],
            self.matrix.column[~own],
            self.matrix.weight[~own],
        )
        least, most = others.extremes(low, high)
        under, over = self.directions.extremes(self.lower, self.upper)
        gaps = np.stack([(diagonal - 1) * end for end in ends])
        fall = gaps.min(axis=0) + least + under + self.offset
        rise = gaps.max(axis=0) + most + over + self.offset
        size = self._reach + max(map(abs, ends))
        room = 4 * self._row_rounding() * size + self.error * size * (self.matrix.counts + 1) + TINY
        falls, rises = fall < room, rise > -room
        unchanged = self._copied() & (diagonal == 1.0)
        close = ((abs(fall) <= room) | (abs(rise) <= room)) & ~unchanged
        exact = close & (self._rational() if self.error else np.True_)
        if (self.matrix.counts + self.directions.counts)[exact].sum() <= _MOST_EXACT:
            for row in np.flatnonzero(exact).tolist():
                lowest, highest = self._exact_change(row)
                falls[row], rises[row] = lowest < 0, highest > 0
        return rises & ~unchanged, falls & ~unchanged

    def _rational(self) -> Mask:
        """Mark rows whose weights are exact, whatever `error` is."""
        odd = np.bincount(self.matrix.row, self.matrix.weight != 1.0, self.domain.size)
        return np.asarray(odd == 0)

    def _exact_change(self, row: int) -> tuple[Fraction, Fraction]:
        weights = self.matrix.exact_row(row)
        weights[row] = weights.get(row, Fraction(0)) - 1
        terms = [[weight * end for end in self.domain.ends] for weight in weights.values()]
        for k, weight in self.directions.exact_row(row).items():
            terms.append([weight * Fraction(float(side[k])) for side in (self.lower, self.upper)])
        shift = Fraction(float(self.offset[row]))
        return sum(map(min, terms), shift), sum(map(max, terms), shift)

    def leaves(self, row: int) -> tuple[bool, bool]:
        """Whether an entry of the image can be below or above the input range; true if unknown."""
        if self.error and not self._rational()[row]:
            return True, True
        low, high = self.domain.inputs
        terms = [
            [weight * Fraction(float(end[k])) for end in (low, high)]
            for k, weight in self.matrix.exact_row(row).items()
        ]
        for k, weight in self.directions.exact_row(row).items():
            terms.append([weight * Fraction(float(end[k])) for end in (self.lower, self.upper)])
        shift, (black, white) = Fraction(float(self.offset[row])), self.domain.ends
        return sum(map(min, terms), shift) < black, sum(map(max, terms), shift) > white

    @property
    def changes_alike(self) -> bool:
        own, moves, size = self.matrix, self.directions, self.domain.size
        every = np.arange(size)
        if not (np.array_equal(own.row, every) and np.array_equal(own.column, every)):
            return False
        # Each row has the same entries, in the same order.
        weights = moves.weight.reshape(size, -1) if len(moves.weight) % size == 0 else None
        if weights is None or (moves.row != np.repeat(every, weights.shape[1])).any():
            return False
        columns = moves.column.reshape(weights.shape)
        same = (weights == weights[0]).all() and (columns == columns[0]).all()
        return bool(same and (own.weight == 1).all() and (self.offset == self.offset[0]).all())

    def linear_change(self) -> tuple[Floats, Floats] | None:
        if len(self.lower) or self.offset.any():
            return None
        weights = np.zeros(self.matrix.shape)
        weights[self.matrix.row, self.matrix.column] = self.matrix.weight
        whole = (weights == 0.0) | (weights == 1.0)
        found = np.eye(len(weights)) - weights
        return found, np.where(whole, 0.0, self.error + HALF_ULP * abs(found))

    def largest(self, a: Floats, b: Floats) -> Floats:
        joint, pull = self.share(a, b), self.directions.pulled(b)
        low, high = self.domain.low, self.domain.high
        best = np.maximum(joint * low, joint * high).sum(axis=1)
        best = best + np.maximum(pull * self.lower, pull * self.upper).sum(axis=1)
        return np.asarray(best + b @ self.offset)

    def share(self, a: Floats, b: Floats) -> Floats:
        return np.asarray(a + self.matrix.pulled(b))

    def rounding(self, a: Floats, b: Floats) -> Floats:
        """Bound the rounding of coefficients, which are sums, and of the sum that they enter."""
        size = max(abs(self.domain.low), abs(self.domain.high))
        reach = abs(a).sum(axis=1) * size + abs(b) @ self._reach
        wrong = abs(b) @ (self.error * size * self.matrix.counts)
        terms = 2 * self.domain.size + len(self.lower) + 64
        moved = np.maximum(abs(self.lower), abs(self.upper)).sum()
        lost = UNDERFLOW * terms * (self.domain.size * size + moved)
        return np.asarray(1.01 * (gamma(terms) * reach + wrong) + lost + TINY)

    def exact_support(self, a: Exact, b: Exact) -> Fraction | None:
        if self.error:
            return None
        joint, on_image = a.fractions(), b.fractions()
        pull = [Fraction(0)] * len(self.lower)
        for part, into in ((self.matrix, joint), (self.directions, pull)):
            entries = zip(
                part.row.tolist(), part.column.tolist(), part.weight.tolist(), strict=True
            )
            for row, column, weight in entries:
                if on_image[row]:
                    into[column] += on_image[row] * Fraction(weight)
        low, high = self.domain.ends
        total = sum((max(value * low, value * high) for value in joint), Fraction(0))
        for value, least, most in zip(pull, self.lower.tolist(), self.upper.tolist(), strict=True):
            total += max(value * Fraction(least), value * Fraction(most))
        shifts = map(Fraction, self.offset.tolist())
        return total + sum((v * c for v, c in zip(on_image, shifts, strict=True)), Fraction(0))

    def exact_image(self, x: list[Fraction], parameters: list[float]) -> list[Fraction] | None:
        self._require_inside(parameters)
        if self.error:
            return None
        image = [Fraction(value) for value in self.offset.tolist()]
        given = [Fraction(value) for value in parameters]
        for part, values in ((self.matrix, x), (self.directions, given)):
            entries = zip(
                part.row.tolist(), part.column.tolist(), part.weight.tolist(), strict=True
            )
            for row, column, weight in entries:
                image[row] += Fraction(weight) * values[column]
        return image

    def image_interval(self, x: Floats, parameters: list[float]) -> tuple[Floats, Floats]:
        self._require_inside(parameters)
        image = self.matrix.times(x) + self.directions.times(np.array(parameters)) + self.offset
        return image - self._room, image + self._room

    def near_image(
        self, x: list[Fraction], parameters: list[float]
    ) -> tuple[list[Fraction], Fraction]:
        self._require_inside(parameters)
        if self.first is None:
            return super().near_image(x, parameters)
        image, error = self.first.near_image(x, [])
        part = self.directions
        entries = zip(part.row.tolist(), part.column.tolist(), part.weight.tolist(), strict=True)
        for row, column, weight in entries:
            image[row] += Fraction(weight) * Fraction(parameters[column])
        return image, error

    def _require_inside(self, parameters: list[float]) -> None:
        given = np.array(parameters)
        inside = (
            given.shape == self.lower.shape
            and ((given >= self.lower) & (given <= self.upper)).all()
        )
        if not inside:
            raise Rejected("a witness has a parameter outside its range, or not one for each")


@dataclass(frozen=True, eq=False)
class ShiftedLinfBall(Piece):
    """Every pixel is a pixel of `x` (`source`) or black (-1), and then moves by up to `limit`."""

    domain: Domain
    source: NDArray[np.int64]
    limit: float

    def __post_init__(self) -> None:
        every = np.ones(self.domain.size, dtype=np.bool_)
        object.__setattr__(self, "_ball", linf_ball(self.domain, self.limit, every))
        low, high = everywhere(self.domain, self.domain.low, self.domain.high)
        top = float(np.nextafter(float(self._risen), np.inf))
        image = low, np.where(self.source < 0, min(top, self.domain.high), high)
        object.__setattr__(self, "image", image)
        object.__setattr__(self, "rises", every)
        object.__setattr__(self, "falls", every)

    _ball: Piece = None  # type: ignore[assignment]

    @property
    def _risen(self) -> Fraction:
        """The largest value that a black pixel can take."""
        low, high = self.domain.ends
        return min(low + Fraction(self.limit), high)

    def _pulled(self, b: Floats) -> Floats:
        kept = self.source >= 0
        pulled = np.zeros_like(b)
        pulled[:, self.source[kept]] = b[:, kept]  # no pixel is the source of two
        return pulled

    def share(self, a: Floats, b: Floats) -> Floats:
        return self._ball.share(a, self._pulled(b))

    def largest(self, a: Floats, b: Floats) -> Floats:
        kept, pulled = self.source >= 0, self._pulled(b)
        black = b[:, ~kept]
        low, high = self.domain.low, float(self._risen)
        best = np.maximum(black * low, black * high).sum(axis=1)
        return np.asarray(self._ball.largest(a, pulled) + best)

    def exact_support(self, a: Exact, b: Exact) -> Fraction | None:
        pulled = [Fraction(0)] * self.domain.size
        low, high, total = self.domain.ends[0], self._risen, Fraction(0)
        for value, source in zip(b.fractions(), self.source.tolist(), strict=True):
            if source >= 0:
                pulled[source] = value
            else:
                total += max(value * low, value * high)
        rest = self._ball.exact_support(a, Exact.of_fractions(pulled))
        return None if rest is None else rest + total

    def exact_image(self, x: list[Fraction], parameters: list[float]) -> list[Fraction] | None:
        low = self.domain.ends[0]
        moved = [x[source] if source >= 0 else low for source in self.source.tolist()]
        return self._ball.exact_image(moved, parameters)
