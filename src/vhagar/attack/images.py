"""Perturbed images as differentiable torch functions of inputs and parameters.

One adapter per family of pieces. Pieces without one still work: their images come from the piece
itself, parameters are sampled instead of optimised, and gradients pass as if the image moved along
with the input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from vhagar.perturbation import AbstractPiece
from vhagar.perturbation.affine import AffinePiece
from vhagar.perturbation.box_affine import BoxAffinePiece
from vhagar.perturbation.brightness import BrightnessPiece
from vhagar.perturbation.contrast import ContrastPiece
from vhagar.perturbation.interpolation import GRID_SNAP, offsets
from vhagar.perturbation.linf_ball import LinfBallPiece
from vhagar.perturbation.rotation_range import RotationPiece
from vhagar.perturbation.shifted_linf_ball import ShiftedLinfBallPiece
from vhagar.runtime.devices import Tensor, require_torch

_Apply = Callable[[Tensor, Tensor], Tensor]
MakeTensor = Callable[[Any], Tensor]


@dataclass(frozen=True, eq=False)
class TorchPiece:
    """A piece in torch: `apply(x, parameters)`, and the box of the parameters."""

    piece: AbstractPiece
    apply: _Apply
    lower: Tensor
    upper: Tensor

    def project(self, x: Tensor, parameters: Tensor) -> Tensor:
        """Parameters in their box that lose no gradient to the clip, where that can be had."""
        torch = require_torch()
        domain = self.piece.domain
        if isinstance(self.piece, LinfBallPiece | ShiftedLinfBallPiece):
            # A pixel pushed beyond the domain would not feel a gradient that leads it back.
            if isinstance(self.piece, LinfBallPiece):
                moving = x[:, torch.as_tensor(self.piece.mask, device=x.device)]
            else:
                moving = _moved(self.piece, x)
            parameters = (moving + parameters).clamp(domain.lower, domain.upper) - moving
        return torch.minimum(torch.maximum(parameters, self.lower), self.upper)


def torch_piece(piece: AbstractPiece, tensor: MakeTensor) -> TorchPiece:
    """The adapter of a piece; `tensor` brings numbers to the device."""
    for kind, adapter in _ADAPTERS:
        if isinstance(piece, kind):
            apply = adapter(piece, tensor)
            break
    else:
        apply = _sampled(piece, tensor)
    low, high = piece.parameter_bounds
    return TorchPiece(piece, apply, tensor(low), tensor(high))


def _affine(piece: AffinePiece, tensor: MakeTensor) -> _Apply:
    torch = require_torch()
    matrix, offset = _sparse(piece.matrix, tensor), tensor(piece.offset)
    return lambda x, parameters: torch.sparse.mm(matrix, x.T).T + offset


def _sparse(matrix: sparse.csr_array, tensor: MakeTensor) -> Tensor:
    torch = require_torch()
    entries = matrix.tocoo()
    places = torch.as_tensor(np.stack([entries.row, entries.col]).astype(np.int64))
    weights = tensor(entries.data)
    return torch.sparse_coo_tensor(
        places.to(weights.device), weights, entries.shape, check_invariants=True
    ).coalesce()


def _box_affine(piece: BoxAffinePiece, tensor: MakeTensor) -> _Apply:
    torch = require_torch()
    matrix, directions = (
        _sparse(part, tensor) for part in (piece.map.matrix, piece.map.directions)
    )
    offset, low, high = (tensor(part) for part in (piece.map.offset, *piece.parameter_bounds))

    def apply(x: Tensor, parameters: Tensor) -> Tensor:
        image = torch.sparse.mm(matrix, x.T).T + offset
        if not piece.map.count:
            return image
        inside = torch.minimum(torch.maximum(parameters, low), high)
        return image + torch.sparse.mm(directions, inside.T).T

    return apply


def _moved_band(piece: ShiftedLinfBallPiece, tensor: MakeTensor) -> _Apply:
    domain = piece.domain

    def apply(x: Tensor, parameters: Tensor) -> Tensor:
        change = parameters.clamp(-piece.limit, piece.limit)
        return (_moved(piece, x) + change).clamp(domain.lower, domain.upper)

    return apply


def _moved(piece: ShiftedLinfBallPiece, x: Tensor) -> Tensor:
    torch = require_torch()
    source = torch.as_tensor(piece.source, device=x.device)
    return torch.where(source >= 0, x[:, source.clamp(min=0)], piece.domain.lower)


def _band(piece: LinfBallPiece, tensor: MakeTensor) -> _Apply:
    torch = require_torch()
    domain = piece.domain
    columns = torch.as_tensor(np.flatnonzero(piece.mask))

    def apply(x: Tensor, parameters: Tensor) -> Tensor:
        change = parameters.clamp(-piece.limit, piece.limit)
        return x.index_add(1, columns.to(x.device), change).clamp(domain.lower, domain.upper)

    return apply


def _brightness(piece: BrightnessPiece, tensor: MakeTensor) -> _Apply:
    domain = piece.domain

    def apply(x: Tensor, parameters: Tensor) -> Tensor:
        x_p = x + parameters.clamp(*piece.span)
        return x_p.clamp(domain.lower, domain.upper) if piece.clip else x_p

    return apply


def _contrast(piece: ContrastPiece, tensor: MakeTensor) -> _Apply:
    domain = piece.domain

    def apply(x: Tensor, parameters: Tensor) -> Tensor:
        x_p = domain.lower + parameters.clamp(*piece.span) * (x - domain.lower)
        return x_p.clamp(domain.lower, domain.upper) if piece.clip else x_p

    return apply


def _rotation(piece: RotationPiece, tensor: MakeTensor) -> _Apply:
    """Bilinear interpolation at sources that turn with the angle."""
    torch = require_torch()
    domain = piece.domain
    channels, height, width = domain.image
    below, beside = (torch.as_tensor(part) for part in offsets(height, width))

    def apply(x: Tensor, parameters: Tensor) -> Tensor:
        # In float64 whatever the network's precision: which pixels are outside hangs on it.
        angle = torch.deg2rad(parameters.double().clamp(*piece.span))
        i, j = below.to(x.device), beside.to(x.device)
        row = _snapped(i * angle.cos() - j * angle.sin() + (height - 1) / 2)
        column = _snapped(i * angle.sin() + j * angle.cos() + (width - 1) / 2)
        inside = (row >= 0) & (row <= height - 1) & (column >= 0) & (column <= width - 1)
        top = row.detach().floor().clamp(0, max(height - 2, 0))
        left = column.detach().floor().clamp(0, max(width - 2, 0))
        down, right = (row - top).to(x.dtype)[:, None], (column - left).to(x.dtype)[:, None]
        planes = x.reshape(len(x), channels, height * width)

        def pixel(step_down: int, step_right: int) -> Tensor:
            rows = (top + step_down).clamp(max=height - 1)
            columns = (left + step_right).clamp(max=width - 1)
            place = (rows * width + columns).long()[:, None].expand(-1, channels, -1)
            return planes.gather(2, place)

        upper = (1 - right) * pixel(0, 0) + right * pixel(0, 1)
        lower = (1 - right) * pixel(1, 0) + right * pixel(1, 1)
        image = (1 - down) * upper + down * lower
        return torch.where(inside[:, None], image, domain.lower).reshape(len(x), -1)

    return apply


def _snapped(coordinate: Tensor) -> Tensor:
    """Onto the grid line next to it, as the piece itself does; the gradient passes."""
    nearest = coordinate.detach().round()
    shift = nearest - coordinate.detach()
    return coordinate + shift * (shift.abs() < GRID_SNAP)


def _sampled(piece: AbstractPiece, tensor: MakeTensor) -> _Apply:
    def apply(x: Tensor, parameters: Tensor) -> Tensor:
        values = (part.detach().cpu().double().numpy() for part in (x, parameters))
        image = tensor(piece.apply(*values))
        return x + (image - x.detach())

    return apply


# In order: the first that fits is taken.
_ADAPTERS: tuple[tuple[type[AbstractPiece], Any], ...] = (
    (AffinePiece, _affine),
    (BoxAffinePiece, _box_affine),
    (ShiftedLinfBallPiece, _moved_band),
    (LinfBallPiece, _band),
    (BrightnessPiece, _brightness),
    (ContrastPiece, _contrast),
    (RotationPiece, _rotation),
)
