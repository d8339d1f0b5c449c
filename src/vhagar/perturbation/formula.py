"""Pieces of perturbations as formulas `x_p = A x + B e + c`, perhaps clipped, `e` in a box.

That is what other formats can hold. A range of contrasts is one product more; a range of angles is
none of this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from vhagar.errors import InvalidInput
from vhagar.perturbation import AbstractPiece
from vhagar.perturbation.affine import AffinePiece
from vhagar.perturbation.box_affine import BoxAffinePiece
from vhagar.perturbation.brightness import BrightnessPiece
from vhagar.perturbation.contrast import ContrastPiece
from vhagar.perturbation.linf_ball import LinfBallPiece
from vhagar.perturbation.shifted_linf_ball import ShiftedLinfBallPiece

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Formula:
    """`matrix @ x + directions @ e + offset`, the parameters `e` between `lower` and `upper`.

    With `clip` the result is clipped to the input range. With `product` it is `e * (x - black)`
    instead of `matrix @ x`, for the one parameter there is.
    """

    matrix: sparse.csr_array
    directions: sparse.csr_array
    offset: Array
    lower: Array
    upper: Array
    clip: bool = False
    product: bool = False

    @property
    def parameters(self) -> int:
        return len(self.lower)


def formula_of(piece: AbstractPiece) -> Formula:
    """The piece as a formula, or an error that says why there is none."""
    for kind, make in _FORMULAS.items():
        if isinstance(piece, kind):
            return make(piece)
    raise InvalidInput(
        f"{piece.label} cannot be exported: how it moves pixels is not a formula that ONNX or "
        "VNN-LIB can hold; a single value instead of a range can be"
    )


def _affine(piece: AffinePiece) -> Formula:
    return Formula(piece.matrix, _no_directions(piece), piece.offset, np.zeros(0), np.zeros(0))


def _band(piece: LinfBallPiece) -> Formula:
    same = sparse.eye_array(piece.domain.size, format="csr")
    spread = sparse.csr_array(same[:, np.flatnonzero(piece.mask)])
    low, high = piece.parameter_bounds
    return Formula(same, spread, np.zeros(piece.domain.size), low, high, clip=True)


def _brightness(piece: BrightnessPiece) -> Formula:
    size = piece.domain.size
    same = sparse.eye_array(size, format="csr")
    if piece.fixed:
        shift = np.full(size, piece.span[0])
        return Formula(
            same, _no_directions(piece), shift, np.zeros(0), np.zeros(0), clip=piece.clip
        )
    every = sparse.csr_array(np.ones((size, 1)))
    low, high = piece.parameter_bounds
    return Formula(same, every, np.zeros(size), low, high, clip=piece.clip)


def _contrast(piece: ContrastPiece) -> Formula:
    size, black = piece.domain.size, piece.domain.lower
    clip = piece.clip and piece.span[1] > 1  # smaller factors never leave the range
    nothing = np.zeros(0)
    if piece.fixed:
        factor = piece.span[0]
        matrix = sparse.csr_array(factor * sparse.eye_array(size, format="csr"))
        shift = np.full(size, black - factor * black)
        return Formula(matrix, _no_directions(piece), shift, nothing, nothing, clip=clip)
    low, high = piece.parameter_bounds
    return Formula(
        sparse.csr_array((size, size)),
        sparse.csr_array((size, 1)),
        np.full(size, black),
        low,
        high,
        clip=clip,
        product=True,
    )


def _box_affine(piece: BoxAffinePiece) -> Formula:
    own, clip = piece.map, piece.to_clip() is not None
    return Formula(own.matrix, own.directions, own.offset, own.lower, own.upper, clip=clip)


def _moved_band(piece: ShiftedLinfBallPiece) -> Formula:
    size = piece.domain.size
    kept = np.flatnonzero(piece.source >= 0)
    places = (kept, piece.source[kept])
    matrix = sparse.csr_array((np.ones(len(kept)), places), shape=(size, size))
    offset = np.where(piece.source < 0, piece.domain.lower, 0.0)
    same = sparse.csr_array(sparse.eye_array(size, format="csr"))
    return Formula(matrix, same, offset, *piece.parameter_bounds, clip=True)


def _no_directions(piece: AbstractPiece) -> sparse.csr_array:
    return sparse.csr_array((piece.domain.size, 0))


_FORMULAS: dict[type[AbstractPiece], Callable[[Any], Formula]] = {
    AffinePiece: _affine,
    LinfBallPiece: _band,
    BrightnessPiece: _brightness,
    ContrastPiece: _contrast,
    BoxAffinePiece: _box_affine,
    ShiftedLinfBallPiece: _moved_band,
}
