"""The primal half of a step: one kernel on CUDA, a few operations on a CPU."""

from __future__ import annotations

from vhagar.runtime.devices import Tensor, require_torch


def move(
    x: Tensor, gradient: Tensor, lower: Tensor, upper: Tensor, size: float, relaxation: float
) -> Tensor:
    """Move `x` in place past a projected step along `-gradient`; returns the point twice as far
    as the step. `lower` is `(columns,)`, all others `(nodes, columns)`."""
    if x.is_cuda:
        from vhagar.search.bounders.gpu import kernels

        return kernels.move(x, gradient, lower, upper, size, relaxation)
    torch = require_torch()
    moved = torch.clamp(torch.add(x, gradient, alpha=-size), lower, upper)
    change = moved - x
    x.add_(change, alpha=relaxation)
    return moved.add_(change)
