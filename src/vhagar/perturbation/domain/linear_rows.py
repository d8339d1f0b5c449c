"""Linear conditions on inputs: `low <= C x <= high`, one for each row of `C`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from vhagar.array_types import Array, Mask
from vhagar.errors import InvalidInput

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LinearRows:
    """The inputs `x` with `low <= C x <= high`. `matrix` is `C`; an end may be infinite."""

    matrix: sparse.csr_array = field()
    low: Array = field()
    high: Array = field()

    @property
    def count(self) -> int:
        return len(self.low)

    @property
    def size(self) -> int:
        """The number of entries of an input."""
        return int(self.matrix.shape[1])

    def contains(self, x: Array) -> Mask:
        """Which inputs `(batch, size)` satisfy every row exactly, without any tolerance."""
        value: Array = (self.matrix @ x.T).T
        terms = np.diff(self.matrix.indptr)
        room: Array = (self.absolute @ abs(x).T).T * (2.0**-51 * (terms + 8)) + 1e-300
        inside = (value - room >= self.low) & (value + room <= self.high)
        outside = (value + room < self.low) | (value - room > self.high)
        for case, row in zip(*np.nonzero(~inside & ~outside), strict=True):
            inside[case, row] = self._holds(int(row), x[case])
        return np.asarray(inside.all(axis=1))

    def _holds(self, row: int, x: Array) -> bool:
        """Whether a row holds, in rational arithmetic."""
        value = self.exact_value(row, x)
        low, high = float(self.low[row]), float(self.high[row])
        above = low == -np.inf or value >= Fraction(low)
        return above and (high == np.inf or value <= Fraction(high))

    def exact_value(self, row: int, x: Array) -> Fraction:
        """`C x` of one row for one input `(size,)`, without rounding."""
        entries = self.entries(row)
        return sum((Fraction(w) * Fraction(float(x[k])) for k, w in entries.items()), Fraction(0))

    def entries(self, row: int) -> dict[int, float]:
        """The coefficients of a row, by entry."""
        part = slice(self.matrix.indptr[row], self.matrix.indptr[row + 1])
        indices, weights = self.matrix.indices[part].tolist(), self.matrix.data[part].tolist()
        return dict(zip(indices, weights, strict=True))

    @cached_property
    def parts(self) -> tuple[tuple[Whole, Array], ...]:
        """The entries and the coefficients of every row."""
        ends = pairwise(self.matrix.indptr.tolist())
        indices, data = self.matrix.indices.astype(np.int64), self.matrix.data
        return tuple((indices[begin:end], data[begin:end]) for begin, end in ends)

    # Supports are asked for at every node of a search, and new sparse matrices take longer than the
    # products with them.
    @cached_property
    def transposed(self) -> sparse.csr_array:
        return sparse.csr_array(self.matrix.T)

    @cached_property
    def absolute(self) -> sparse.csr_array:
        """The absolute coefficients."""
        return abs(self.matrix)

    @cached_property
    def absolute_transposed(self) -> sparse.csr_array:
        return sparse.csr_array(self.absolute.T)

    @cached_property
    def signed_parts(self) -> tuple[sparse.csr_array, sparse.csr_array]:
        """The positive coefficients, and the negative ones."""
        return self.matrix.maximum(0), self.matrix.minimum(0)

    @cached_property
    def share_entries(self) -> bool:
        """Whether some entry is in several rows."""
        counts = np.bincount(self.matrix.indices, minlength=self.size)
        return bool(counts.max(initial=0) > 1)

    def lack(self, x: Array, spare: float) -> Array:
        """What must be added to the values `(batch, rows)` of inputs so that the rows hold.

        Inequalities are to hold with a margin: `spare`, relative to the size of their terms.
        """
        value: Array = (self.matrix @ x.T).T
        size: Array = (self.absolute @ abs(x).T).T
        return _lack(value, spare * size, self.low, self.high)

    def lack_of(self, row: int, x: Array, spare: float) -> Array:
        """As `lack`, of one row: `(batch,)`."""
        entries, weights = self.parts[row]
        own = x[:, entries]
        room = spare * (abs(own) @ abs(weights))
        return _lack(own @ weights, room, self.low[row], self.high[row])

    def plain(self) -> list[dict[str, Any]]:
        """The rows in JSON's own types; an infinite end is None."""
        return [
            {
                "entries": list(entries),
                "weights": list(entries.values()),
                "at_least": None if low == -np.inf else low,
                "at_most": None if high == np.inf else high,
            }
            for entries, low, high in zip(
                map(self.entries, range(self.count)),
                self.low.tolist(),
                self.high.tolist(),
                strict=True,
            )
        ]

    @property
    def numbers(self) -> bytes:
        """All numbers as bytes, for the domain's fingerprint."""
        found = []
        for row in range(self.count):
            entries = self.entries(row)
            found.append(np.array([len(entries), *entries], dtype="<i8").tobytes())
            ends = self.low[row] + 0.0, self.high[row] + 0.0
            found.append(np.array([*entries.values(), *ends], dtype="<f8").tobytes())
        return b"".join(found)


def _lack(value: Array, room: Array, low: Array, high: Array) -> Array:
    """The way from values to the range of their rows, narrowed by a margin but for equalities."""
    room = np.where(low == high, 0.0, np.minimum(room, (high - low) / 2))
    return np.maximum(low + room - value, 0.0) + np.minimum(high - room - value, 0.0)


def linear_rows(
    coefficients: ArrayLike | Mapping[int, float],
    size: int,
    at_least: ArrayLike | None = None,
    at_most: ArrayLike | None = None,
    equal: ArrayLike | None = None,
) -> LinearRows:
    """Linear rows of a matrix `(rows, size)`, or one row given as a vector or by its entries."""
    if equal is not None:
        if at_least is not None or at_most is not None:
            raise InvalidInput("a row of a domain has either equal, or at_least and at_most")
        at_least = at_most = equal
    if at_least is None and at_most is None:
        raise InvalidInput("a row of a domain needs at_least, at_most or equal")
    matrix = _matrix(coefficients, size)
    low = _ends(-np.inf if at_least is None else at_least, matrix.shape[0])
    high = _ends(np.inf if at_most is None else at_most, matrix.shape[0])
    if not np.isfinite(matrix.data).all() or (low == np.inf).any() or (high == -np.inf).any():
        raise InvalidInput("a row of the domain holds a number that is not finite")
    crossed = np.flatnonzero(low > high)
    if len(crossed):
        k = int(crossed[0])
        raise InvalidInput(
            f"the domain is empty: nothing is at least {low[k]:g} and at most {high[k]:g}, as one "
            "of its rows would have to be"
        )
    return LinearRows(matrix, low, high)


def rows_of_plain(given: Sequence[Mapping[str, Any]], size: int) -> list[LinearRows]:
    """The rows that `LinearRows.plain` has described."""
    return [
        linear_rows(
            dict(zip(row["entries"], row["weights"], strict=True)),
            size,
            row["at_least"],
            row["at_most"],
        )
        for row in given
    ]


def joined_rows(parts: Sequence[LinearRows]) -> LinearRows | None:
    """The rows of all parts together; None if there are none."""
    if not sum(part.count for part in parts):
        return None
    matrix = sparse.csr_array(sparse.vstack([part.matrix for part in parts], format="csr"))
    low, high = (np.concatenate([getattr(p, end) for p in parts]) for end in ("low", "high"))
    return LinearRows(matrix, low, high)


def _matrix(given: Any, size: int) -> sparse.csr_array:
    if isinstance(given, Mapping):
        row = np.zeros((1, size))
        for k, weight in given.items():
            if not 0 <= k < size:
                raise InvalidInput(f"a row of the domain names entry {k} of {size}")
            row[0, k] = weight
        given = row
    try:
        values = np.atleast_2d(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"the rows of the domain are not made of numbers: {error}") from error
    values = values.reshape(len(values), -1)
    if values.shape[1] != size:
        raise InvalidInput(
            f"the rows of the domain have {values.shape[1]} coefficients, but inputs have {size} "
            "entries"
        )
    found = sparse.csr_array(values)
    found.sort_indices()
    return found


def _ends(given: Any, count: int) -> Array:
    try:
        values = np.asarray(given, dtype=np.float64).reshape(-1)
        found = np.array(np.broadcast_to(values, (count,)))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"the ends of the domain's rows do not fit: {error}") from error
    if np.isnan(found).any():
        raise InvalidInput("an end of the domain's rows is not a number")
    return found
