"""Perturbed images as differentiable torch functions of inputs and parameters.

They are made from a piece's formula, or the piece brings its own function. Other pieces still work:
their images come from `apply`, parameters are sampled instead of optimised, and gradients pass as
if the image moved along with the input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from vhagar.perturbation import AbstractPiece
from vhagar.perturbation.formula import Formula
from vhagar.perturbation.piece import TorchApply
from vhagar.runtime.devices import Tensor, as_numpy, require_torch, sparse_tensor

MakeTensor = Callable[[Any], Tensor]
_Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class TorchPiece:
    """A piece in torch: `apply(x, parameters)`, and the box of the parameters.

    `start` is the image before free pixels move; None where there are no free pixels.
    """

    piece: AbstractPiece
    apply: TorchApply
    lower: Tensor
    upper: Tensor
    start: _Map | None = None

    def project(self, x: Tensor, parameters: Tensor) -> Tensor:
        """Parameters in their box that lose no gradient to the clip, where that can be had."""
        torch = require_torch()
        domain = self.piece.domain
        if self.start is not None:
            # A pixel pushed beyond the domain would not feel a gradient that leads it back.
            moving = self.start(x)[:, self.piece.free_pixels]
            parameters = (moving + parameters).clamp(domain.lower, domain.upper) - moving
        return torch.minimum(torch.maximum(parameters, self.lower), self.upper)


def torch_piece(piece: AbstractPiece, tensor: MakeTensor) -> TorchPiece:
    """A piece as a function of tensors; `tensor` brings numbers to the device."""
    low, high = (tensor(end) for end in piece.parameter_bounds)
    formula = _formula(piece)
    if formula is None:
        return TorchPiece(piece, piece.torch_apply() or _sampled(piece, tensor), low, high)
    start = _times(formula.map.matrix, tensor, formula.map.offset)
    apply = _clipped(piece, formula.clip, _image(piece, formula, start, tensor))
    return TorchPiece(piece, apply, low, high, None if piece.free_pixels is None else start)


def _formula(piece: AbstractPiece) -> Formula | None:
    """What `apply` computes: where the network clips a map, it is not clipped here."""
    return piece.formula if piece.map is None else Formula(piece.map)


def _image(piece: AbstractPiece, formula: Formula, start: _Map, tensor: MakeTensor) -> TorchApply:
    """The formula without its clip."""
    torch = require_torch()
    low, high = (tensor(end) for end in piece.parameter_bounds)

    def inside(parameters: Tensor) -> Tensor:
        return torch.minimum(torch.maximum(parameters, low), high)

    if formula.product:
        black = piece.domain.lower
        return lambda x, parameters: black + inside(parameters) * (x - black)
    if not formula.map.count:
        return lambda x, parameters: start(x)
    moves = _times(formula.map.directions, tensor)
    return lambda x, parameters: start(x) + moves(inside(parameters))


def _clipped(piece: AbstractPiece, clip: bool, image: TorchApply) -> TorchApply:
    domain = piece.domain
    if not clip:
        return image
    return lambda x, parameters: image(x, parameters).clamp(domain.lower, domain.upper)


def _times(matrix: sparse.csr_array, tensor: MakeTensor, offset: Any = None) -> _Map:
    """`matrix @ values + offset` for a batch of values."""
    product = _picked(matrix, tensor) or _sparse_product(matrix, tensor)
    if offset is None or not offset.any():
        return product
    shift = tensor(offset)
    return lambda values: product(values) + shift


def _picked(matrix: sparse.csr_array, tensor: MakeTensor) -> _Map | None:
    """The product where every row is one of the values or nothing; None elsewhere."""
    entries = np.diff(matrix.indptr)
    if (matrix.data != 1.0).any() or (entries > 1).any() or not matrix.nnz:
        return None
    if matrix.shape[0] == matrix.shape[1] == matrix.nnz and (matrix.diagonal() == 1.0).all():
        return lambda values: values
    torch = require_torch()
    place, used = np.zeros(len(entries), dtype=np.int64), entries == 1
    place[used] = matrix.indices
    weights = tensor(used.astype(np.float64))
    index = torch.as_tensor(place, device=weights.device)
    if used.all():
        return lambda values: values[:, index]
    return lambda values: values[:, index] * weights


def _sparse_product(matrix: sparse.csr_array, tensor: MakeTensor) -> _Map:
    torch, like = require_torch(), tensor(0.0)
    on_device = sparse_tensor(matrix, like.dtype, like.device)
    return lambda values: torch.sparse.mm(on_device, values.T).T


def _sampled(piece: AbstractPiece, tensor: MakeTensor) -> TorchApply:
    def apply(x: Tensor, parameters: Tensor) -> Tensor:
        image = tensor(piece.apply(as_numpy(x), as_numpy(parameters)))
        return x + (image - x.detach())

    return apply
