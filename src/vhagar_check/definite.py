"""Proofs that a symmetric matrix has no eigenvalue below a given number.

A triangular matrix `L` is computed in any way, and then judged by the remainder `A - L L'`. By
Gershgorin's circles, the remainder has no eigenvalue below the smallest difference of a diagonal
entry and the sum of the absolute values beside it, and `L L'` has none below 0. So nothing is
trusted but matrix products, whose rounding errors are bounded as everywhere else. To leave
something positive on the diagonal, `L` is the Cholesky factor of `A` minus a small multiple of the
identity.

The rows of a sparse matrix are sorted by their distance from one row: it is then block
tridiagonal, and so is `L`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from vhagar_check.layers import TINY, Floats, Indices, gamma

# Up to this order, levels are not worth the effort.
_SMALL = 1000


@dataclass(frozen=True, eq=False)
class Entries:
    """The lower triangle of a symmetric matrix: entries `value` at `(row, column)`."""

    order: int
    row: Indices
    column: Indices
    value: Floats

    @classmethod
    def of(cls, matrix: Floats) -> Entries:
        row, column = np.nonzero(np.tril(matrix))
        return cls(len(matrix), row, column, matrix[row, column])


def is_above(matrix: Entries, least: float) -> bool:
    """Whether all eigenvalues are proved to be at least `least`, which must not be negative."""
    if matrix.order == 0:
        return True
    if not (np.isfinite(matrix.value).all() and np.isfinite(least) and least >= 0):
        return False
    with np.errstate(all="ignore"):
        return _is_above(_Levels.of(matrix), least)


def is_semidefinite_exactly(rows: list[list[Fraction]]) -> bool:
    """Whether a symmetric matrix of rational numbers has no negative eigenvalue.

    Elimination shows it: each pivot is positive, or it is 0 and so is the rest of its row.
    """
    rows = [list(row) for row in rows]
    for k, pivots in enumerate(rows):
        pivot = pivots[k]
        if pivot < 0 or (pivot == 0 and any(pivots[k + 1 :])):
            return False
        if pivot == 0:
            continue
        for row in rows[k + 1 :]:
            factor = row[k] / pivot
            if factor:
                for place in range(k, len(row)):
                    row[place] -= factor * pivots[place]
    return True


@dataclass(frozen=True, eq=False)
class _Levels:
    """A block tridiagonal matrix: the diagonal blocks, and the blocks below all but the last."""

    diagonal: list[Floats]
    below: list[Floats]

    @classmethod
    def of(cls, matrix: Entries) -> _Levels:
        sets = [np.arange(matrix.order)] if matrix.order <= _SMALL else _levels(matrix)
        level, place = np.empty((2, matrix.order), dtype=np.int64)
        for number, members in enumerate(sets):
            level[members], place[members] = number, np.arange(len(members))
        diagonal = [np.zeros((len(members), len(members))) for members in sets]
        below = [np.zeros((len(b), len(a))) for a, b in itertools.pairwise(sets)]
        one, other = level[matrix.row], level[matrix.column]
        assert (abs(one - other) < 2).all(), "an entry would be left out"
        for k, block in enumerate(diagonal):
            own = (one == k) & (other == k)
            i, j = place[matrix.row[own]], place[matrix.column[own]]
            block[i, j] = block[j, i] = matrix.value[own]
        for k, block in enumerate(below):
            for high, low, rows, columns in (
                (one, other, matrix.row, matrix.column),
                (other, one, matrix.column, matrix.row),
            ):
                own = (high == k + 1) & (low == k)
                block[place[rows[own]], place[columns[own]]] = matrix.value[own]
        return cls(diagonal, below)


def _levels(matrix: Entries) -> list[Indices]:
    """Group rows by their distance from one row: entries join only neighbouring levels."""
    ends = np.concatenate([matrix.row, matrix.column])
    others = np.concatenate([matrix.column, matrix.row])
    order = np.argsort(ends, kind="stable")
    starts = np.searchsorted(ends[order], np.arange(matrix.order + 1))
    near = others[order]
    first = _search(starts, near, 0)
    # Start again from the far end, which gives more and smaller levels.
    found = _search(starts, near, int(first[-1][0]))
    return found if len(found) > 3 else [np.arange(matrix.order)]


def _search(starts: Indices, near: Indices, begin: int) -> list[Indices]:
    unseen: NDArray[np.bool_] = np.ones(len(starts) - 1, dtype=np.bool_)
    current, found = np.array([begin]), []
    while len(current):
        unseen[current] = False
        found.append(current)
        reached = np.concatenate([near[starts[k] : starts[k + 1]] for k in current.tolist()])
        current = np.unique(reached[unseen[reached]])
        if not len(current) and unseen.any():
            current = np.flatnonzero(unseen)[:1]
    return found


def _is_above(matrix: _Levels, least: float) -> bool:
    widest = max(len(block) for block in matrix.diagonal)
    share = 4 * gamma(2 * widest + 16)
    trace = sum(float(abs(np.diagonal(block)).sum()) for block in matrix.diagonal)
    shift = least * (1 + 2 * share) + 4 * (share * trace + TINY)
    # Gershgorin's bound of each row: its diagonal entry, minus the other entries, minus rounding.
    left: list[Floats] = []
    factor: Floats = np.zeros((0, 0))
    for k, block in enumerate(matrix.diagonal):
        size = len(block)
        joint = matrix.below[k - 1] if k else np.zeros((size, 0))
        found = _factors(block, joint, factor, shift)
        if found is None:
            return False
        across, new = found
        off = joint - across @ factor.T
        if k:
            left[-1] -= abs(off).sum(axis=0) + share * _row_sums(joint.T, factor, across) + TINY
        rest = block - new @ new.T - across @ across.T
        diagonal = np.diagonal(rest)
        aside = abs(rest).sum(axis=1) - abs(diagonal) + abs(off).sum(axis=1)
        sizes = _row_sums(block, new, new) + _row_sums(joint, across, factor)
        sizes += _row_sums(joint[:, :0], across, across)
        left.append(diagonal - aside - share * sizes - TINY)
        factor = new
    return all(bool((part >= least * (1 + share) + TINY).all()) for part in left)


def _factors(
    block: Floats, joint: Floats, factor: Floats, shift: float
) -> tuple[Floats, Floats] | None:
    """The next blocks of `L`, below the last factor and on the diagonal; None on failure."""
    try:
        across: Floats = np.asarray(np.linalg.solve(factor, joint.T).T, dtype=np.float64)
        reduced = block - across @ across.T - shift * np.eye(len(block))
        new: Floats = np.asarray(np.tril(np.linalg.cholesky(reduced)), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    return (across, new) if np.isfinite(new).all() and np.isfinite(across).all() else None


def _row_sums(matrix: Floats, one: Floats, other: Floats) -> Floats:
    """The row sums of `|matrix| + |one| |other|'`."""
    sums: Floats = abs(matrix).sum(axis=1) + abs(one) @ abs(other).sum(axis=0)
    return sums
