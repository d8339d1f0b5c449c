"""The perturbations' supports in torch: the maximum of `a.x + b.x_p`, and where it is attained.

The supports of pieces with corners or a map are computed on the device, all others by the piece
itself in float64 on the CPU. Where rows see only a window of the pixels, `Pixels.index`
`(groups, window)` lists these pixels and `Pixels.inside` tells which are not padding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vhagar.perturbation import AbstractPiece, AffineMap, Domain
from vhagar.perturbation.support import SupportCorners
from vhagar.runtime.devices import Tensor, require_torch

# Maps coefficients `(rows, pixels)` to the value `(rows,)` and the pair that attains it.
Support = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class Pixels:
    """The pixels that the rows depend on, `(groups, window)`, and which are not padding."""

    index: Any  # numpy
    inside: Any  # numpy
    device: Any

    def of(self, values: Any) -> Tensor:
        """Values of all pixels `(size,)`, rearranged as `(groups, 1, window)`."""
        torch = require_torch()
        chosen = torch.as_tensor(np.ascontiguousarray(values[self.index]), device=self.device)
        return chosen[:, None]

    @property
    def every(self) -> bool:
        return len(self.index) == 1 and bool(self.inside.all())


def support_of(piece: AbstractPiece, pixels: Pixels) -> Support:
    """The piece's support on the device."""
    corners = piece.support_corners()
    if corners is not None and not piece.domain.whole:
        found = _asked(piece, pixels)  # the pixels have different corners
    elif corners is not None:
        found = _by_corners(corners, pixels)
    elif piece.map is not None:
        found = _affine(piece.map, piece.domain, pixels) or _asked(piece, pixels)
    else:
        found = _asked(piece, pixels)
    return _masked(found, pixels)


def _masked(support: Support, pixels: Pixels) -> Support:
    """The support with padding at 0 in both copies, whatever its coefficients."""
    if pixels.inside.all():
        return support
    torch = require_torch()
    inside = torch.as_tensor(pixels.inside, dtype=torch.float32, device=pixels.device)[:, None]

    def masked(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        def mask(values: Tensor) -> Tensor:
            return (_grouped(values, len(inside)) * inside).reshape(values.shape)

        value, x, x_p = support(mask(a), mask(b))
        return value, mask(x), mask(x_p)

    return masked


def _grouped(values: Tensor, groups: int) -> Tensor:
    return values.reshape(groups, -1, values.shape[1])


def _best_corner(
    a: Tensor, b: Tensor, points: list[tuple[float, float]], moving: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The best of a few points for every pixel; only `moving` pixels may take more than the first
    two.

    All arrays are `(groups, rows, pixels)`.
    """
    torch = require_torch()
    (one, other), *rest = points
    best, x, x_p = one * a + other * b, torch.full_like(a, one), torch.full_like(a, other)
    for k, (one, other) in enumerate(rest, start=1):
        value = one * a + other * b
        better = value > best
        if k >= 2 and moving is not None:
            better &= moving
        best = torch.where(better, value, best)
        x = torch.where(better, one, x)
        x_p = torch.where(better, other, x_p)
    return best.sum(dim=-1), x, x_p


def _by_corners(corners: SupportCorners, pixels: Pixels) -> Support:
    """The best alternative for each row; within an alternative, the pixels are independent."""
    torch = require_torch()
    groups = len(pixels.index)
    moving = None if corners.moving is None else pixels.of(corners.moving)
    first, *rest = (
        list(zip(xs, ps, strict=True))
        for xs, ps in zip(corners.x.tolist(), corners.x_p.tolist(), strict=True)
    )

    def support(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        wide_a, wide_b = _grouped(a, groups), _grouped(b, groups)
        best, x, x_p = _best_corner(wide_a, wide_b, first, moving)
        for points in rest:
            value, one, other = _best_corner(wide_a, wide_b, points, moving)
            better = value > best
            best = torch.where(better, value, best)
            x = torch.where(better[..., None], one, x)
            x_p = torch.where(better[..., None], other, x_p)
        return best.reshape(-1), x.reshape(a.shape), x_p.reshape(a.shape)

    return support


def _affine(map_: AffineMap, domain: Domain, pixels: Pixels) -> Support | None:
    """A sum of maxima, one for each pixel and one for each parameter.

    None for windows of the pixels, unless the map takes every pixel from itself alone.
    """
    only_itself = (map_.matrix.diagonal() != 0).sum() == map_.matrix.nnz
    if only_itself and not map_.count:
        return _kept(map_, domain, pixels)
    return _moved(map_, domain, pixels) if pixels.every else None


def _ends(domain: Domain, pixels: Pixels) -> tuple[Any, Any]:
    """The ends of the pixels' ranges: two numbers, or two tensors `(groups, 1, window)`."""
    if domain.whole:
        return domain.lower, domain.upper
    low, high = (pixels.of(end.astype(np.float32)) for end in (domain.low, domain.high))
    return low, high


def _kept(map_: AffineMap, domain: Domain, pixels: Pixels) -> Support:
    """The support of a map in which every pixel depends on itself alone."""
    torch = require_torch()
    low, high = _ends(domain, pixels)
    scale = pixels.of(map_.matrix.diagonal().astype(np.float32))
    shift = pixels.of(map_.offset.astype(np.float32))
    groups = len(pixels.index)

    def support(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        wide_a, wide_b = _grouped(a, groups), _grouped(b, groups)
        joint = torch.addcmul(wide_a, wide_b, scale)
        x = torch.where(joint > 0, high, low)
        value = (joint * x + wide_b * shift).sum(dim=-1).reshape(-1)
        return value, x.reshape(a.shape), (x * scale + shift).reshape(a.shape)

    return support


def _moved(map_: AffineMap, domain: Domain, pixels: Pixels) -> Support:
    torch = require_torch()
    low, high = (end if isinstance(end, float) else end[0] for end in _ends(domain, pixels))
    arrays = (map_.matrix.toarray(), map_.directions.toarray(), map_.offset, map_.lower, map_.upper)
    dense, moves, shift, least, most = (
        torch.tensor(part, dtype=torch.float32, device=pixels.device) for part in arrays
    )

    def support(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        joint = a + b @ dense
        x = torch.where(joint > 0, high, low)
        value, x_p = (joint * x).sum(dim=1) + b @ shift, x @ dense.T + shift
        if not map_.count:
            return value, x, x_p
        pull = b @ moves
        e = torch.where(pull > 0, most, least)
        return value + (pull * e).sum(dim=1), x, x_p + e @ moves.T

    return support


def _asked(piece: AbstractPiece, pixels: Pixels) -> Support:
    """The support as the piece itself computes it, in float64."""
    torch = require_torch()
    groups = len(pixels.index)

    def support(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = []
        parts = [_grouped(part, groups).double().cpu().numpy() for part in (a, b)]
        for index, inside, own_a, own_b in zip(pixels.index, pixels.inside, *parts, strict=True):
            wide = np.zeros((2, len(own_a), piece.domain.size))
            wide[0][:, index[inside]], wide[1][:, index[inside]] = (
                own_a[:, inside],
                own_b[:, inside],
            )
            best = piece.support(wide[0], wide[1])
            image = piece.apply(best.x, best.parameters)
            found.append((best.value, best.x[:, index], image[:, index]))
        joined = (np.concatenate(part) for part in zip(*found, strict=True))
        value, x, x_p = (torch.as_tensor(part).to(a) for part in joined)
        return value, x, x_p

    return support
