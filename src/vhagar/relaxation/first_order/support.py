"""The perturbations' supports in torch: the maximum of `a.x + b.x_p`, and where it is attained.

One adapter per family of pieces; the others are asked in float64 on the CPU. Where rows see only a
window of the pixels, `pixels` `(groups, window)` names them and `inside` says which exist.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vhagar.perturbation import AbstractPiece
from vhagar.perturbation.affine import AffinePiece
from vhagar.perturbation.box_affine import BoxAffinePiece
from vhagar.perturbation.brightness import BrightnessPiece
from vhagar.perturbation.contrast import ContrastPiece
from vhagar.perturbation.linf_ball import LinfBallPiece
from vhagar.runtime.devices import Tensor, require_torch

# Coefficients `(rows, pixels)` to the value `(rows,)` and the pair where it is attained.
Support = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class Pixels:
    """The pixels that rows are about, `(groups, window)`, and which of them exist."""

    index: Any  # numpy
    inside: Any  # numpy
    device: Any

    def of(self, values: Any) -> Tensor:
        """What belongs to each pixel `(size,)`, as `(groups, 1, window)`."""
        torch = require_torch()
        chosen = torch.as_tensor(np.ascontiguousarray(values[self.index]), device=self.device)
        return chosen[:, None]

    @property
    def every(self) -> bool:
        return len(self.index) == 1 and bool(self.inside.all())


def support_of(piece: AbstractPiece, pixels: Pixels) -> Support:
    """The piece's support on the device."""
    for kind, adapter in _ADAPTERS:
        if isinstance(piece, kind):
            found = adapter(piece, pixels)
            if found is not None:
                return _masked(found, pixels)
    return _masked(_asked(piece, pixels), pixels)


def _masked(support: Support, pixels: Pixels) -> Support:
    """Padding is 0 in both copies, whatever its coefficients."""
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


def _best_of(
    a: Tensor, b: Tensor, points: list[tuple[float, float]], first: int, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Pixel by pixel, the best of a few points; beyond the first ones only where `mask` is set.

    Everything is `(groups, rows, pixels)`.
    """
    torch = require_torch()
    best = x = x_p = None
    for k, (one, other) in enumerate(points):
        value = one * a + other * b
        if best is None:
            best = value
            x, x_p = torch.full_like(a, one), torch.full_like(a, other)
            continue
        better = value > best
        if k >= first and mask is not None:
            better &= mask
        best = torch.where(better, value, best)
        x = torch.where(better, one, x)
        x_p = torch.where(better, other, x_p)
    assert best is not None
    return best, x, x_p


def _band(piece: LinfBallPiece, pixels: Pixels) -> Support:
    low, high = piece.domain.lower, piece.domain.upper
    step = min(piece.limit, piece.domain.width)
    above, below = min(low + step, high), max(high - step, low)
    points = [(low, low), (high, high), (above, low), (low, above), (high, below), (below, high)]
    mask = None if piece.mask.all() else pixels.of(piece.mask)
    groups = len(pixels.index)

    def support(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        best, x, x_p = _best_of(_grouped(a, groups), _grouped(b, groups), points, 2, mask)
        return best.sum(dim=-1).reshape(-1), x.reshape(a.shape), x_p.reshape(a.shape)

    return support


def _affine(piece: AffinePiece, pixels: Pixels) -> Support | None:
    matrix = piece.matrix
    only_itself = (matrix.diagonal() != 0).sum() == matrix.nnz
    if only_itself:
        return _kept(piece, pixels)
    return _moved(piece, pixels) if pixels.every else None


def _kept(piece: AffinePiece, pixels: Pixels) -> Support:
    """Every pixel stays or turns black."""
    torch = require_torch()
    low, high = piece.domain.lower, piece.domain.upper
    scale = pixels.of(piece.matrix.diagonal().astype(np.float32))
    shift = pixels.of(piece.offset.astype(np.float32))
    groups = len(pixels.index)

    def support(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        wide_a, wide_b = _grouped(a, groups), _grouped(b, groups)
        joint = torch.addcmul(wide_a, wide_b, scale)
        x = torch.where(joint > 0, high, low)
        value = (joint * x + wide_b * shift).sum(dim=-1).reshape(-1)
        return value, x.reshape(a.shape), (x * scale + shift).reshape(a.shape)

    return support


def _moved(piece: AffinePiece, pixels: Pixels) -> Support:
    torch = require_torch()
    low, high = piece.domain.lower, piece.domain.upper
    dense = torch.as_tensor(piece.matrix.toarray(), dtype=torch.float32, device=pixels.device)
    shift = torch.as_tensor(piece.offset, dtype=torch.float32, device=pixels.device)

    def support(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        joint = a + b @ dense
        x = torch.where(joint > 0, high, low)
        return (joint * x).sum(dim=1) + b @ shift, x, x @ dense.T + shift

    return support


def _box_affine(piece: BoxAffinePiece, pixels: Pixels) -> Support | None:
    """A sum of maxima: one for each pixel, one for each parameter."""
    if not pixels.every:
        return None
    torch = require_torch()
    low, high = piece.domain.lower, piece.domain.upper
    own = piece.map
    arrays = (own.matrix.toarray(), own.directions.toarray(), own.offset, own.lower, own.upper)
    dense, moves, shift, least, most = (
        torch.as_tensor(part, dtype=torch.float32, device=pixels.device) for part in arrays
    )

    def support(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        joint, pull = a + b @ dense, b @ moves
        x, e = torch.where(joint > 0, high, low), torch.where(pull > 0, most, least)
        value = (joint * x).sum(dim=1) + (pull * e).sum(dim=1) + b @ shift
        return value, x, x @ dense.T + e @ moves.T + shift

    return support


def _scalar(piece: BrightnessPiece | ContrastPiece, pixels: Pixels) -> Support:
    """For one parameter the pixels are free of each other; the best parameter is at an end."""
    torch = require_torch()
    sets = [_scalar_points(piece, end) for end in dict.fromkeys(piece.span)]

    def support(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        best = x = x_p = None
        for points in sets:
            parts, one, other = _best_of(a[None], b[None], points, len(points), None)
            value = parts[0].sum(dim=-1)
            if best is None:
                best, x, x_p = value, one[0], other[0]
                continue
            better = value > best
            best = torch.where(better, value, best)
            x = torch.where(better[:, None], one[0], x)
            x_p = torch.where(better[:, None], other[0], x_p)
        assert best is not None
        return best, x, x_p

    return support


def _scalar_points(piece: BrightnessPiece | ContrastPiece, end: float) -> list[tuple[float, float]]:
    """A pixel's range and its image's, cut where the clip begins."""
    low, high = piece.domain.lower, piece.domain.upper
    turns = [low, high]
    if piece.clip:
        turn = high - end if isinstance(piece, BrightnessPiece) else low + (high - low) / end
        if isinstance(piece, BrightnessPiece) and end < 0:
            turn = low - end
        turns.append(min(max(turn, low), high))
    xs = np.array(turns)
    # Through the piece itself, one pixel at a time: its size does not matter to these families.
    part, _ = piece.local(np.arange(1))
    images = part.apply(xs[:, None], np.full((len(xs), 1), end))[:, 0]
    return list(zip(xs.tolist(), images.tolist(), strict=True))


def _asked(piece: AbstractPiece, pixels: Pixels) -> Support:
    """The piece itself, in float64."""
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


# In order: the first that fits is taken.
_ADAPTERS: tuple[tuple[type[AbstractPiece], Any], ...] = (
    (LinfBallPiece, _band),
    (AffinePiece, _affine),
    (BoxAffinePiece, _box_affine),
    (BrightnessPiece, _scalar),
    (ContrastPiece, _scalar),
)
