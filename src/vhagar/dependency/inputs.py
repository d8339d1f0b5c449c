"""Perturbation dependencies: relations of the input, before any neuron.

A piece says which entries can rise and fall (`changes`), with or without clipping: a clip shortens
a change and never reverses it. Pieces that move pixels, `x_p = R x`, also relate a pixel of the
image to the pixel it came from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vhagar.array_types import Array, Mask
from vhagar.dependency.relation import Relations, Rule, no_pairs, same_indices, unrelated
from vhagar.network import AbstractLinear, Convolution
from vhagar.perturbation import AbstractPiece


def changed_pixels(piece: AbstractPiece) -> Relations:
    """Relate every pixel to its own image."""
    return same_indices(piece.domain.size).restricted(*piece.changes(), Rule.PERTURBATION)


def moved_pixels(piece: AbstractPiece) -> Relations:
    """Relate pixels to one other position at which exactly their value appears."""
    if piece.formula is None:
        return no_pairs()
    matrix = piece.formula.map.matrix
    alone = np.flatnonzero(piece.formula.copied & (np.diff(matrix.indptr) == 1))
    source = matrix.indices[matrix.indptr[alone]].astype(np.int64)
    moved = source != alone
    _, one_each = np.unique(source[moved], return_index=True)
    pairs = unrelated(source[moved][one_each], alone[moved][one_each])
    nowhere = np.zeros(len(pairs), dtype=np.bool_)
    return pairs.restricted(nowhere, nowhere, Rule.PERTURBATION)


@dataclass(frozen=True)
class Shift:
    """A shift by rows down and columns right."""

    down: int
    right: int

    def after(self, layer: AbstractLinear) -> Shift | None:
        """Return the shift of a layer's outputs, or None if they do not merely shift."""
        if not isinstance(layer, Convolution):
            return None
        (rows, columns) = layer.stride
        if self.down % rows or self.right % columns:
            return None
        return Shift(self.down // rows, self.right // columns)

    def pairs(self, shape: tuple[int, ...]) -> Relations:
        """Pair every position of `(channels, rows, columns)` with the one it moves to, if any."""
        _, height, width = shape
        first = np.arange(math.prod(shape)).reshape(shape)
        row, column = np.arange(height) + self.down, np.arange(width) + self.right
        inside = np.ix_((row >= 0) & (row < height), (column >= 0) & (column < width))
        start = np.array([plane[inside] for plane in first]).reshape(-1)
        return unrelated(start, start + self.down * width + self.right)


def common_shift(piece: AbstractPiece, moved: Relations) -> Shift | None:
    """Return the most common shift of the moved pixels; a guess that only says where to look."""
    if not len(moved):
        return None
    start, end = (
        np.unravel_index(part, piece.domain.image) for part in (moved.first, moved.second)
    )
    steps = np.stack([end[axis] - start[axis] for axis in (1, 2)], axis=1)[start[0] == end[0]]
    if not len(steps):
        return None
    ways, counts = np.unique(steps, axis=0, return_counts=True)
    down, right = ways[counts.argmax()].tolist()
    return Shift(down, right) if down or right else None


def alike_through(piece: AbstractPiece, layer: AbstractLinear) -> tuple[Mask, Mask] | None:
    """Find the sums of the first layer that can rise and fall if all pixels change alike.

    The sign of the sum of a row's weights then decides. A clip makes the changes differ, so this
    holds for brightness without one, and for maps that add the same to every pixel; None for other
    pieces.
    """
    if piece.formula is None or not piece.formula.changes_alike:
        return None
    up, down = (bool(mask.any()) for mask in piece.changes())
    rows = np.split(layer.matrix.data, layer.matrix.indptr[1:-1])
    signs = np.array([_sign_of_sum(row) for row in rows])
    unknown = np.isnan(signs)
    can_rise = unknown | (signs > 0) & up | (signs < 0) & down
    can_fall = unknown | (signs < 0) & up | (signs > 0) & down
    return can_rise, can_fall


def _sign_of_sum(weights: Array) -> float:
    """Return the sign of the exact sum, which `fsum` rounds only once; NaN on overflow."""
    try:
        return float(np.sign(math.fsum(weights.tolist())))
    except OverflowError:
        return math.nan
