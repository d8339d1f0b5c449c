"""Rotation as a differentiable function of images and angles."""

from __future__ import annotations

from vhagar.perturbation.domain import Domain
from vhagar.perturbation.interpolation import GRID_SNAP, offsets
from vhagar.perturbation.piece import TorchApply
from vhagar.perturbation.ranges import Range
from vhagar.runtime.devices import Tensor, require_torch


def torch_rotation(domain: Domain, span: Range) -> TorchApply:
    """Bilinear interpolation at sources that rotate with the angle."""
    torch = require_torch()
    channels, height, width = domain.image
    below, beside = (torch.as_tensor(part) for part in offsets(height, width))

    def apply(x: Tensor, parameters: Tensor) -> Tensor:
        # In float64 whatever the network's precision, because it decides which pixels are outside.
        angle = torch.deg2rad(parameters.double().clamp(*span))
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
    """Snap to the nearest grid line, as the piece itself does, without changing the gradient."""
    nearest = coordinate.detach().round()
    shift = nearest - coordinate.detach()
    return coordinate + shift * (shift.abs() < GRID_SNAP)
